//! Ctrl-C and SIGTERM: a flag that commands at work look at, and the end at once where there is nothing to finish yet.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use pumex_gguf::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

/// How often is looked whether the process is to end at once.
const LOOK: Duration = Duration::from_millis(20);
/// Exit code of a process that was stopped.
pub const STOPPED: i32 = 130;

/// The signal that came last.
static LAST: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
/// Whether SIGTERM is a good end.
static SERVICE: AtomicBool = AtomicBool::new(false);

/// A flag that Ctrl-C (and SIGTERM) sets; a second one while it is set ends the process at once.
///
/// # Errors
/// The system has no such signals.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let last = LAST.get_or_init(Arc::default);
    for (signal, number) in [(SIGINT, SIGINT as usize), (SIGTERM, SIGTERM as usize)] {
        signal_hook::flag::register_conditional_shutdown(signal, STOPPED, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register_usize(signal, Arc::clone(last), number))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(|source| Error::Request(format!("cannot listen for Ctrl-C: {source}")))?;
    }
    Ok(flag)
}

/// From now on SIGTERM, by which whoever runs services ends them, is a good end.
pub fn is_service() {
    SERVICE.store(true, Ordering::Relaxed);
}

/// Exit code of a process that the last signal ends.
pub fn code() -> i32 {
    let term = LAST.get().is_some_and(|last| last.load(Ordering::Relaxed) == SIGTERM as usize);
    match term && SERVICE.load(Ordering::Relaxed) {
        true => 0,
        false => STOPPED,
    }
}

/// While it lives, a signal ends the process.
pub struct AtOnce<'a> {
    stop: &'a AtomicBool,
    over: &'a AtomicBool,
    end: &'a (dyn Fn() -> i32 + Sync),
    watch: Option<Thread>,
}

impl AtOnce<'_> {
    /// Signals are somebody else's from now on. One that came before ends the process yet.
    pub fn release(&self) {
        self.over.store(true, Ordering::Release);
        self.watch.iter().for_each(Thread::unpark);
        if self.stop.load(Ordering::Acquire) {
            signal_hook::low_level::exit((self.end)());
        }
    }
}

impl Drop for AtOnce<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.watch.iter().for_each(Thread::unpark);
    }
}

/// Does work that looks at no flag, such as a driver's that builds pipelines: a signal meanwhile ends the process with what `end` gives.
/// A driver's own end would race with the threads at work, so it does not get to see this one.
pub fn at_once<T>(stop: &AtomicBool, end: &(dyn Fn() -> i32 + Sync), work: impl FnOnce(&AtOnce<'_>) -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let look = || {
            while !over.load(Ordering::Acquire) {
                if stop.load(Ordering::Acquire) {
                    signal_hook::low_level::exit(end());
                }
                std::thread::park_timeout(LOOK);
            }
        };
        let watch = std::thread::Builder::new().name("signals".into()).spawn_scoped(scope, look);
        let watch = watch.map(|watch| watch.thread().clone()).map_err(|e| tracing::warn!("signals wait: {e}")).ok();
        work(&AtOnce { stop, over: &over, end, watch })
    })
}
