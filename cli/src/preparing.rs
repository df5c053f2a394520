//! What a terminal shows while kernels are compiled for a GPU: how many of how many. The first run on a device takes seconds for it,
//! later ones find them in a file; where nobody looks nothing is shown.

use std::io::IsTerminal;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar};
use pumex_vk::{pipeline_progress, PipelineProgress};

use super::session;

/// What is over sooner is not shown.
const SOON: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(50);
/// Characters of the bar in a line.
const BAR: u64 = 20;

/// Kernels that somebody waits for.
pub struct Preparation {
    /// What was announced and built before.
    before: PipelineProgress,
    since: Option<Instant>,
}

impl Preparation {
    /// Counts from now on.
    pub fn new() -> Preparation {
        Preparation { before: pipeline_progress(), since: None }
    }

    /// How many of how many are ready, if that has taken a while and is not over.
    pub fn counts(&mut self) -> Option<(u64, u64)> {
        let now = pipeline_progress();
        if now.ready >= now.announced {
            *self = Preparation { before: now, since: None };
            return None;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let counts = (now.ready.saturating_sub(self.before.ready), now.announced.saturating_sub(self.before.announced));
        (since.elapsed() >= SOON).then_some(counts)
    }

    /// The same as a line with a bar.
    pub fn line(&mut self) -> Option<String> {
        let (ready, all) = self.counts()?;
        let full = (BAR * ready / all.max(1)).min(BAR) as usize;
        let bar = "█".repeat(full) + &"░".repeat(BAR as usize - full);
        Some(format!("preparing kernels {ready}/{all} {bar}"))
    }
}

/// A bar that is there while kernels are compiled; it goes when this does.
pub struct KernelBar {
    /// Closed when nothing is to be shown any more.
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl KernelBar {
    /// Shows one when there is something to show, below other bars.
    pub fn new(bars: &MultiProgress) -> KernelBar {
        if !std::io::stderr().is_terminal() {
            return KernelBar { over: None, thread: None };
        }
        let (over, is_over) = channel();
        let (bars, mut preparation) = (bars.clone(), Preparation::new());
        let thread = std::thread::spawn(move || {
            let mut shown: Option<ProgressBar> = None;
            while is_over.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                match (preparation.counts(), &mut shown) {
                    (Some((ready, all)), Some(bar)) => {
                        bar.set_length(all);
                        bar.set_position(ready);
                    }
                    (Some(_), none) => {
                        *none = Some(session::bar_among(&bars, "preparing kernels", "{msg} {pos}/{len} {wide_bar}"));
                    }
                    (None, shown) => shown.take().iter().for_each(ProgressBar::finish_and_clear),
                }
            }
            shown.iter().for_each(ProgressBar::finish_and_clear);
        });
        KernelBar { over: Some(over), thread: Some(thread) }
    }
}

impl Drop for KernelBar {
    fn drop(&mut self) {
        self.over = None;
        self.thread.take().map(JoinHandle::join);
    }
}
