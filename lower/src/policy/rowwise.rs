//! Kernels that take a row: norms, routers, argmax and the sampler.

use super::class::choices;
use super::table::RouterShape;
use pumex_vk::{Caps, DeviceKind};

/// Threads that choose a row's experts by their logits: one for each, as far as that pays.
pub fn route_threads(caps: &Caps, experts: usize) -> u32 {
    let most = choices(caps).route_threads.value.max(caps.subgroup_size);
    (experts as u32).next_power_of_two().clamp(caps.subgroup_size, most)
}

/// Threads of a workgroup that multiplies a row of `k` inputs with a router's matrix, and experts it does: one, so that as
/// much of the matrix as can be is asked for at once. The last workgroup chooses the experts, too.
pub fn router_tile(caps: &Caps, experts: usize, k: usize) -> (u32, u32) {
    match choices(caps).router.value {
        RouterShape::Fixed { threads, experts } => (caps.subgroup_size.max(threads), experts),
        RouterShape::Spread { threads: most } => {
            let threads = (k / 32).max(experts).next_power_of_two().clamp(64, most as usize) as u32;
            (threads.max(caps.subgroup_size), experts.div_ceil(most as usize) as u32)
        }
    }
}

/// Threads per workgroup of the row-wise kernels (norm, argmax): wide on GPUs, narrow on software devices.
pub fn row_threads(caps: &Caps) -> u32 {
    choices(caps).row_threads.value.min(caps.max_workgroup_invocations)
}

/// Most columns that a convolution norms with its own threads, of which each has one.
pub const MOST_NORMED: u32 = 256;

/// Whether scans of many rows go by windows, which pass much through shared memory: to software devices that is slower than to go
/// row by row (measured on lavapipe: ten times).
pub fn scans_by_windows(caps: &Caps) -> bool {
    caps.kind != DeviceKind::Cpu
}

/// Threads and logits of each thread of a workgroup that samples.
pub fn sample_tile(caps: &Caps) -> (u32, u32) {
    (choices(caps).sample_threads.value.min(caps.max_workgroup_invocations), 16)
}

/// Workgroups that share a row of logits when its largest is sought.
pub fn argmax_parts(caps: &Caps, rows: usize) -> usize {
    (choices(caps).busy_groups.value / 4 / rows).max(1)
}
