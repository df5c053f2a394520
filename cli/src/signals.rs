//! Ctrl-C and SIGTERM: a flag that commands at work look at, the end at once where there is nothing to finish yet, and the end all the
//! same where work that looks at no flag takes too long.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use pumex_gguf::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

/// How often is looked whether the process is to end at once.
const LOOK: Duration = Duration::from_millis(20);
/// How often is looked whether a signal came.
const LATE_LOOK: Duration = Duration::from_millis(100);
/// How long work has to end after a signal. A step of a slow device takes longer; nobody gets its results then.
const GRACE: Duration = Duration::from_millis(1400);
/// Exit code of a process that was stopped.
pub const STOPPED: i32 = 130;

/// The signal that came last.
static LAST: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
/// Whether SIGTERM is a good end.
static SERVICE: AtomicBool = AtomicBool::new(false);
/// Whether Ctrl-C ends an answer, and not the process.
static CONVERSATION: AtomicBool = AtomicBool::new(false);

/// A flag that Ctrl-C (and SIGTERM) sets; a second one while it is set ends the process at once.
///
/// # Errors
/// The system has no such signals.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let (last, came) = (LAST.get_or_init(Arc::default), Arc::new(AtomicBool::new(false)));
    for (signal, number) in [(SIGINT, SIGINT as usize), (SIGTERM, SIGTERM as usize)] {
        signal_hook::flag::register_conditional_shutdown(signal, STOPPED, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register_usize(signal, Arc::clone(last), number))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&came)))
            .map_err(|source| Error::Request(format!("cannot listen for Ctrl-C: {source}")))?;
    }
    let spawned = std::thread::Builder::new().name("grace".into()).spawn(move || end_late(&came));
    spawned.map(|_| flag).map_err(|source| Error::Request(format!("a thread that listens for Ctrl-C: {source}")))
}

/// Ends the process when it goes on for too long after a signal. A driver's own end would race with the threads at work.
fn end_late(came: &AtomicBool) {
    loop {
        std::thread::sleep(LATE_LOOK);
        if !came.swap(false, Ordering::Relaxed) || outlives_signal() {
            continue;
        }
        std::thread::sleep(GRACE);
        if !outlives_signal() {
            if std::io::stderr().is_terminal() {
                super::output::say(format_args!("\r\x1b[K")); // a bar may stand there
            }
            signal_hook::low_level::exit(code());
        }
    }
}

/// Whether the last signal is one that the process goes on after.
fn outlives_signal() -> bool {
    SERVICE.load(Ordering::Relaxed) || (CONVERSATION.load(Ordering::Relaxed) && !is_terminated())
}

fn is_terminated() -> bool {
    LAST.get().is_some_and(|last| last.load(Ordering::Relaxed) == SIGTERM as usize)
}

/// From now on Ctrl-C ends an answer: whoever sees its flag goes on.
pub fn is_conversation() {
    CONVERSATION.store(true, Ordering::Relaxed);
}

/// From now on SIGTERM, by which whoever runs services ends them, is a good end.
pub fn is_service() {
    SERVICE.store(true, Ordering::Relaxed);
}

/// Exit code of a process that the last signal ends.
pub fn code() -> i32 {
    match is_terminated() && SERVICE.load(Ordering::Relaxed) {
        true => 0,
        false => STOPPED,
    }
}

/// Exit code of a service that served until a signal came, or somebody else ended it.
pub fn code_served() -> i32 {
    let interrupted = LAST.get().is_some_and(|last| last.load(Ordering::Relaxed) == SIGINT as usize);
    if interrupted {
        STOPPED
    } else {
        0
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
