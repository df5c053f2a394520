//! How many threads to take, where they may run, and before whom.

mod system;

/// How threads are spread over the nodes of a machine whose memory is not equally near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numa {
    /// Over all nodes in turns.
    Distribute,
    /// On the node that the process started on.
    Isolate,
    /// On the processors that `numactl` left.
    Numactl,
}

/// Threads that pay: one for each physical core that this process may use, no more than its quota has.
pub fn usual() -> usize {
    // The standard library knows affinity and quotas of control groups, but cuts off parts of a processor.
    let known = std::thread::available_parallelism().map_or(1, usize::from);
    let allowed = system::allowed_processors();
    threads_of(known, system::cores(&allowed), system::quota())
}

/// The number of threads, from the processors that the standard library knows, physical cores, and processors' worth of a quota.
fn threads_of(known: usize, cores: Option<usize>, quota: Option<usize>) -> usize {
    let cores = cores.unwrap_or(known).max(1);
    quota.map_or(cores.min(known), |quota| cores.min(quota)).max(1)
}

/// Processors for threads to run on, one after the other each; none where the machine has a single node, or does not tell.
pub fn places(numa: Numa) -> Vec<usize> {
    place_threads(numa, &system::nodes(), &system::allowed_processors(), system::here())
}

/// Processors for threads, one after the other each, from `nodes`, for a process that may run on `allowed` and started on `here`.
fn place_threads(numa: Numa, nodes: &[Vec<usize>], allowed: &[usize], here: usize) -> Vec<usize> {
    let of = |node: &Vec<usize>| node.iter().copied().filter(|p| allowed.contains(p)).collect::<Vec<_>>();
    if numa == Numa::Numactl {
        return allowed.to_vec();
    }
    if nodes.len() < 2 {
        return Vec::new();
    }
    match numa {
        Numa::Isolate => nodes.iter().find(|node| node.contains(&here)).map(of).unwrap_or_default(),
        _ => {
            let nodes: Vec<_> = nodes.iter().map(of).collect();
            let most = nodes.iter().map(Vec::len).max().unwrap_or(0);
            (0..most).flat_map(|i| nodes.iter().filter_map(move |node| node.get(i).copied())).collect()
        }
    }
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

/// Puts the calling thread before others, or, below 0, behind them: -1 to 3, as llama.cpp counts. False if the system refuses.
#[cfg(target_os = "linux")]
pub fn prioritize(priority: i32) -> bool {
    let nice = match priority {
        ..=-1 => 10,
        0 => return true,
        1 => -5,
        2 => -10,
        _ => -20,
    };
    // Of the calling thread alone: for Linux, threads are processes here.
    rustix::process::setpriority_process(None, nice).is_ok()
}

/// Puts the calling thread before others. False: here nothing can.
#[cfg(not(target_os = "linux"))]
pub fn prioritize(priority: i32) -> bool {
    priority == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_go_to_nodes_in_turns_or_stay_on_one() {
        let nodes = [vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
        let allowed = [0, 1, 2, 4, 5];
        assert_eq!(place_threads(Numa::Distribute, &nodes, &allowed, 5), [0, 4, 1, 5, 2]);
        assert_eq!(place_threads(Numa::Isolate, &nodes, &allowed, 5), [4, 5]);
        assert_eq!(place_threads(Numa::Numactl, &nodes, &allowed, 5), allowed);
        assert_eq!(place_threads(Numa::Distribute, &nodes[..1], &allowed, 0), []);
    }

    #[test]
    fn to_go_behind_others_is_always_allowed() {
        std::thread::spawn(|| assert!(prioritize(0) && (cfg!(not(target_os = "linux")) || prioritize(-1))))
            .join()
            .unwrap();
    }

    #[test]
    fn a_quota_of_two_processors_of_64_gives_two_threads() {
        assert_eq!(threads_of(64, Some(32), None), 32);
        assert_eq!(threads_of(64, Some(64), Some(2)), 2);
        // One and a half: the standard library says one, and half a processor is worth a thread.
        assert_eq!(threads_of(1, Some(64), Some(2)), 2);
        assert_eq!((threads_of(8, None, None), threads_of(8, None, Some(1)), threads_of(0, None, None)), (8, 1, 1));
    }

    #[test]
    fn there_are_threads_but_no_more_than_processors() {
        assert!((1..=std::thread::available_parallelism().map_or(1, usize::from) + 1).contains(&usual()));
    }
}
