//! How many threads to take, and where they may run.

/// Threads that pay: one for each physical core that this process may use, no more than its quota has.
pub fn usual() -> usize {
    // The standard library knows affinity and quotas of control groups.
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    physical_cores().map_or(allowed, |cores| cores.min(allowed)).max(1)
}

/// Physical cores of the machine, where the system tells.
#[cfg(target_os = "linux")]
fn physical_cores() -> Option<usize> {
    let mut cores = std::collections::HashSet::new();
    for entry in std::fs::read_dir("/sys/devices/system/cpu").ok()?.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("cpu"));
        if number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
            cores.insert(std::fs::read_to_string(entry.path().join("topology/thread_siblings_list")).ok()?);
        }
    }
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(not(target_os = "linux"))]
fn physical_cores() -> Option<usize> {
    None
}

/// Lets the calling thread run on these processors only; nothing where the system cannot.
#[cfg(target_os = "linux")]
pub fn pin(processors: &[usize]) {
    let mut set = rustix::thread::CpuSet::new();
    processors.iter().filter(|p| **p < rustix::thread::CpuSet::MAX_CPU).for_each(|p| set.set(*p));
    // Advice only: a thread that may run anywhere does the same.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Lets the calling thread run on these processors only; nothing where the system cannot.
#[cfg(not(target_os = "linux"))]
pub fn pin(_processors: &[usize]) {}
