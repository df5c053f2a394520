//! A line that says that an answer is on its way, if it is not there soon: on a terminal alone, and gone before anything is written.

use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// An answer that comes sooner has no line.
const SOON: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(120);

/// The line; it goes when this does.
pub struct Waiting {
    bar: ProgressBar,
    /// Closed when nothing is to be shown any more.
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Begins to wait.
    pub fn new() -> Waiting {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.set_message("reading the prompt");
        let (over, is_over) = channel();
        let shown = bar.clone();
        let thread = std::thread::spawn(move || {
            if is_over.recv_timeout(SOON) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(TICK);
            }
        });
        Waiting { bar, over: Some(over), thread: Some(thread) }
    }

    /// Says how far it is, of prompts of which it is told.
    pub fn reader(&self) -> impl FnMut(usize, usize) + 'static {
        let bar = self.bar.clone();
        move |done, total| bar.set_message(format!("reading the prompt: {done} of {total} tokens"))
    }

    /// Says what else it waits for.
    pub fn say(&self, what: &'static str) {
        self.bar.set_message(what);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.over = None;
        self.thread.take().map(JoinHandle::join);
        self.bar.finish_and_clear();
    }
}
