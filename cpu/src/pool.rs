//! The threads that share the loops of a step.
//!
//! Work is dealt in chunks by a counter, so that uneven cores end together. Workers wait for the next loop spinning, since it
//! comes within microseconds as long as tokens are computed; then they yield, and when nothing comes for milliseconds they
//! sleep. A loop waits for those that took a chunk, and for no others: one that is not running right now delays nobody.

mod sync;

use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::PoisonError;
use sync::PATIENCE;
use sync::{
    fence, pause, Arc, AtomicBool, AtomicU64, AtomicUsize, Builder, Cell, Condvar, JoinHandle, Mutex, Ordering,
};

/// A loop's body, called with a chunk's number.
type LoopBody<'a> = dyn Fn(usize) + Sync + 'a;

/// A loop that is under way.
#[derive(Clone, Copy)]
struct LoopJob {
    body: *const LoopBody<'static>,
    chunks: usize,
}

/// In [`PoolState::state`]: the loop takes more threads.
const OPEN: u64 = 1 << 31;
/// The number of threads in it.
const INSIDE: u64 = OPEN - 1;
/// One loop more.
const NEXT: u64 = 1 << 32;

struct PoolState {
    /// Number of the loop above bit 32, [`OPEN`], and how many workers are inside.
    state: AtomicU64,
    job: Cell<Option<LoopJob>>,
    /// The next chunk.
    next: AtomicUsize,
    /// Workers of lower numbers take part.
    limit: AtomicUsize,
    asleep: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
    stop: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written only while the loop is closed and nobody is inside, and read only by those inside.
unsafe impl Sync for PoolState {}
// SAFETY: the pointer in `job` is to a `Sync` body, which whoever is inside may call from any thread.
unsafe impl Send for PoolState {}

/// Threads that wait for loops.
pub struct ThreadPool {
    shared: Arc<PoolState>,
    workers: Vec<JoinHandle<()>>,
    /// Held while a loop runs: loops of several callers follow each other.
    running: Mutex<()>,
}

impl ThreadPool {
    /// A pool of so many threads, the caller's included. `start` is called on each new one, with its number from 1 on.
    pub fn new(threads: usize, start: impl Fn(usize) + Send + Sync + 'static) -> ThreadPool {
        let shared = Arc::new(PoolState {
            state: AtomicU64::new(0),
            job: Cell::new(None),
            next: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            asleep: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let start = Arc::new(start);
        let worker = |number: usize| {
            let (shared, start) = (shared.clone(), start.clone());
            let body = move || {
                start(number);
                shared.work(number);
            };
            Builder::new().name(format!("pumex-cpu-{number}")).spawn(body).ok()
        };
        // Where no thread can be had, fewer do the same.
        let workers = (1..threads.max(1)).filter_map(worker).collect();
        ThreadPool { shared, workers, running: Mutex::new(()) }
    }

    /// Threads, the caller's included.
    pub fn threads(&self) -> usize {
        (self.workers.len() + 1).min(self.shared.limit.load(Ordering::Relaxed))
    }

    /// Takes no more than so many threads from now on.
    pub fn limit(&self, threads: usize) {
        self.shared.limit.store(threads.max(1), Ordering::Relaxed);
    }

    /// Calls `body` for each of `0..chunks`, on all threads, in rising order of start; returns when all are done.
    ///
    /// # Panics
    /// If `body` does. A body must not start a loop of the same pool.
    pub fn each(&self, chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        if chunks <= 1 || self.threads() == 1 {
            (0..chunks).for_each(body);
            return;
        }
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. Workers call the body only while inside, and `Closing` lets this function end, in
        // any way, only after all have left.
        let body = unsafe { std::mem::transmute::<*const LoopBody<'_>, *const LoopBody<'static>>(body) };
        let job = LoopJob { body, chunks };
        // SAFETY: the loop is closed, nobody is inside: `Closing` of the loop before saw to it.
        unsafe { shared.job.set(Some(job)) };
        shared.next.store(0, Ordering::Relaxed);
        let closing = Closing(shared);
        shared.state.fetch_add(NEXT | OPEN, Ordering::Release);
        // Either this sees who is about to sleep, or they see the loop: see `Shared::sleep`.
        fence(Ordering::SeqCst);
        if shared.asleep.load(Ordering::Relaxed) > 0 {
            let _lock = shared.lock.lock().unwrap_or_else(PoisonError::into_inner);
            shared.wake.notify_all();
        }
        shared.take(job);
        drop(closing);
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        {
            // Under the lock, so that nobody goes to sleep without having seen it.
            let _lock = self.shared.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.stop.store(true, Ordering::Relaxed);
            self.shared.wake.notify_all();
        }
        self.workers.drain(..).for_each(|w| drop(w.join()));
    }
}

/// Closes the loop and waits for those inside.
struct Closing<'a>(&'a PoolState);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut turns = 0;
        while self.0.state.load(Ordering::Acquire) & INSIDE != 0 {
            pause(&mut turns);
        }
    }
}

impl PoolState {
    /// Takes chunks until none is left.
    fn take(&self, job: LoopJob) {
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= job.chunks {
                return;
            }
            // SAFETY: the caller is inside, or is `Pool::each` itself: the body lives.
            unsafe { (*job.body)(chunk) };
        }
    }

    fn work(&self, number: usize) {
        let (mut seen, mut turns) = (0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            let state = self.state.load(Ordering::Acquire);
            if state / NEXT == seen {
                if turns > PATIENCE {
                    self.sleep(seen);
                    turns = 0;
                } else {
                    pause(&mut turns);
                }
                continue;
            }
            if state & OPEN == 0 || number >= self.limit.load(Ordering::Relaxed) {
                seen = state / NEXT;
                continue;
            }
            if self.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            (seen, turns) = (state / NEXT, 0);
            // SAFETY: this thread is inside, so the job stands.
            if let Some(job) = unsafe { self.job.get() } {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take(job))) {
                    self.next.store(job.chunks, Ordering::Relaxed);
                    *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
                }
            }
            self.state.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Sleeps until there is a loop after number `seen`.
    fn sleep(&self, seen: u64) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.state.load(Ordering::Relaxed) / NEXT == seen && !self.stop.load(Ordering::Relaxed) {
            lock = self.wake.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_done_once_however_many_threads_there_are() {
        for threads in [1, 2, 3, 7] {
            let pool = ThreadPool::new(threads, |_| ());
            for turn in 0..2000 {
                let chunks = turn % 37;
                let done: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
                pool.each(chunks, &|i| {
                    done[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|d| d.load(Ordering::Relaxed) == 1), "{threads} threads, turn {turn}");
            }
        }
    }

    #[test]
    fn workers_that_sleep_wake_up_and_a_panic_arrives() {
        let pool = ThreadPool::new(3, |_| ());
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let sum = AtomicUsize::new(0);
            pool.each(100, &|i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 4950);
        }
        let failed = catch_unwind(AssertUnwindSafe(|| pool.each(50, &|i| assert!(i != 20, "twenty"))));
        assert!(failed.is_err());
        pool.limit(1);
        assert_eq!(pool.threads(), 1);
        pool.each(5, &|_| ());
    }
}

/// All interleavings of a few threads, as far as the memory model allows them, by `loom`.
#[cfg(all(test, feature = "loom"))]
mod model {
    use super::*;

    /// Each of these runs with a pool of so many threads, in every interleaving with so many involuntary switches.
    fn every(threads: usize, switches: usize, run: impl Fn(&ThreadPool) + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(switches);
        builder.check(move || run(&ThreadPool::new(threads, |_| ())));
    }

    /// What a loop writes is there when it returns, and each chunk was done once; a worker may be late, asleep, or waking up.
    fn loops(pool: &ThreadPool, chunks: usize, loops: usize) {
        for turn in 1..=loops {
            // Cells in which loom sees races.
            let done: Vec<loom::cell::UnsafeCell<usize>> =
                (0..chunks).map(|_| loom::cell::UnsafeCell::new(0)).collect();
            struct ChunkMarks<'a>(&'a [loom::cell::UnsafeCell<usize>]);
            // SAFETY: each chunk is one thread's, which is what is tested.
            unsafe impl Sync for ChunkMarks<'_> {}
            let of = ChunkMarks(&done);
            pool.each(chunks, &|i| {
                let of = &of;
                // SAFETY: loom fails where two threads would have it.
                of.0[i].with_mut(|n| unsafe { *n += turn });
            });
            // SAFETY: likewise.
            assert!(done.iter().all(|n| n.with(|n| unsafe { *n }) == turn));
        }
    }

    #[test]
    fn a_loop_ends_when_all_is_done_and_the_next_one_may_begin() {
        every(2, 3, |pool| loops(pool, 2, 2));
    }

    #[test]
    fn two_workers_meet() {
        every(3, 2, |pool| loops(pool, 2, 1));
    }

    #[test]
    fn a_pool_that_nobody_used_ends() {
        every(3, 3, |_| ());
    }
}
