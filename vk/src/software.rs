//! What is different about software devices: how long their work may take.
//!
//! Mesa's llvmpipe compiles a pipeline when it is first run, on the thread that then runs it. For the largest ones this takes
//! a minute of CPU time (Mesa 22.3.6 with LLVM 15: splitting a shader at its barriers costs the square of its branches), on a
//! busy machine several, and all that runs on the processor meanwhile makes it longer. Two minutes, which is for ever for a
//! GPU, were not enough for `make test` with an empty shader cache: the wait failed, the caller let go of commands that the
//! device had not come to yet, and the driver's thread read them freed.

use super::caps::DeviceKind;
use std::time::Duration;

/// Longest wait for work of a device; one that takes longer hangs. llvmpipe ends a shader's loops after 65,535 turns of all of them
/// together, so that nothing runs for ever there.
pub(super) fn longest_wait(kind: DeviceKind) -> Duration {
    match kind {
        DeviceKind::Cpu => Duration::from_secs(3600),
        _ => Duration::from_secs(120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiling_counts_as_work_where_the_driver_does_it_late() {
        assert!(longest_wait(DeviceKind::Cpu) >= 10 * longest_wait(DeviceKind::Discrete));
    }
}
