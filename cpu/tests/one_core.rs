//! Threads that share one core. The only test of its process, whose computing time it counts.

#![cfg(target_os = "linux")]

use pumex_cpu::{threads, ThreadPool};
use std::hint::black_box;

/// Computing time of all threads of this process, in nanoseconds, where the system tells.
fn process_cpu_time() -> Option<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Some(tasks.filter_map(of).sum())
}

/// Computing time that loops as of a decoded token take with so many threads on one core.
fn computed_on_one_core(threads: usize) -> Option<u64> {
    let pool = ThreadPool::new(threads, |_| ());
    let before = process_cpu_time()?;
    for turn in 0..300 {
        pool.each(24, &|i| {
            black_box((0..10_000u64).fold(turn + i as u64, |sum, x| black_box(sum ^ x)));
        });
    }
    Some(process_cpu_time()? - before)
}

#[test]
fn threads_that_share_one_core_compute_little_more_than_one() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    threads::pin(&[(0..rustix::thread::CpuSet::MAX_CPU).find(|p| allowed.is_set(*p)).unwrap()]);
    let Some(one) = computed_on_one_core(1).filter(|one| *one > 0) else {
        println!("skipped: the system does not tell how long threads computed");
        return;
    };
    for threads in [2, 4, 7] {
        let many = computed_on_one_core(threads).unwrap();
        assert!(many < 3 * one, "{threads} threads computed for {many} ns, one for {one}");
    }
}
