//! What to tell of a device that stopped, and how long to wait before it is said to have: the device was handed work, and the last
//! of it is remembered.

use super::lock::lock;
use ash::vk;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Submissions that are remembered.
const REMEMBERED: usize = 8;
/// Waits that were measured before a limit follows from them.
const MEASURED: u32 = 16;
/// What the longest of them is multiplied by, and the least that comes of it: a prompt at the end of a long context takes some
/// thousand times as long as a token at its start.
const TIMES: u32 = 5000;
const LEAST: Duration = Duration::from_secs(30);

/// A submission.
#[derive(Clone, Debug)]
pub(super) struct Submission {
    /// Its value of the timeline.
    pub value: u64,
    /// Its dispatches.
    pub dispatches: u64,
    /// Kernels of the first and the last of them.
    pub kernels: Option<(Arc<str>, Arc<str>)>,
    /// Bytes of the buffers that it names.
    pub bytes: u64,
    /// When it was handed over.
    pub at: Instant,
}

/// What a device was handed last, and how long waits took.
#[derive(Debug, Default)]
pub(super) struct Log {
    handed: Mutex<VecDeque<Submission>>,
    waits: Mutex<(u32, Duration)>,
    /// Bytes of the last buffer for which there was no memory.
    pub refused: AtomicU64,
}

/// What tests have a device do wrong.
#[derive(Debug)]
pub(super) struct InjectedFault {
    /// The first submission that is not found to be done.
    lost_from: AtomicU64,
    /// Allocations that go well, and those after them that do not.
    refusals: Mutex<(u64, u64)>,
}

impl Default for InjectedFault {
    fn default() -> Self {
        InjectedFault { lost_from: AtomicU64::new(u64::MAX), refusals: Mutex::new((0, 0)) }
    }
}

impl InjectedFault {
    /// From that submission on the device is lost.
    pub fn lose_from(&self, value: u64) {
        self.lost_from.store(value, Ordering::Relaxed);
    }

    /// What the driver says of a submission that it is done with.
    pub fn loss_result(&self, value: u64) -> Result<(), vk::Result> {
        if value < self.lost_from.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(vk::Result::ERROR_DEVICE_LOST)
    }

    /// After so many allocations, so many fail.
    pub fn refuse(&self, after: u64, times: u64) {
        *lock(&self.refusals) = (after, times);
    }

    /// Whether there is no memory for the next one.
    pub fn refuses(&self) -> bool {
        let mut refusals = lock(&self.refusals);
        match *refusals {
            (0, times) => {
                refusals.1 = times.saturating_sub(1);
                times > 0
            }
            (after, times) => {
                *refusals = (after - 1, times);
                false
            }
        }
    }
}

impl Log {
    /// Remembers a submission.
    pub fn note(&self, handed: Submission) {
        let mut all = lock(&self.handed);
        if all.len() == REMEMBERED {
            all.pop_front();
        }
        all.push_back(handed);
    }

    /// Remembers how long a wait took that ended well.
    pub fn note_wait(&self, took: Duration) {
        let mut waits = lock(&self.waits);
        *waits = (waits.0.saturating_add(1), waits.1.max(took));
    }

    /// The longest wait that is worth it, up to `most`, by those that were measured.
    pub fn limit(&self, most: Duration) -> Duration {
        match *lock(&self.waits) {
            (count, longest) if count >= MEASURED => (longest * TIMES).clamp(LEAST.min(most), most),
            _ => most,
        }
    }

    /// The report of [`Log::report`], of what was handed over last.
    pub fn report_newest(&self, driver: &str) -> String {
        let newest = lock(&self.handed).back().map_or(0, |handed| handed.value);
        self.report(newest, driver)
    }

    /// What was handed over with a value, in words; and what came after it.
    pub fn report(&self, value: u64, driver: &str) -> String {
        let all = lock(&self.handed);
        let after = all.iter().filter(|h| h.value > value).count();
        let Some(h) = all.iter().find(|h| h.value == value) else {
            return format!("driver {driver}; submission {value}, {after} after it");
        };
        let kernels = h.kernels.as_ref().map_or(String::new(), |(first, last)| format!(" from {first} to {last}"));
        let (n, mib, ms) = (h.dispatches, h.bytes >> 20, h.at.elapsed().as_secs_f64() * 1e3);
        format!(
            "driver {driver}; submission {value} of {n} dispatches{kernels} over buffers of {mib} MiB, \
             {ms:.1} ms after it was handed over, {after} after it"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_submission(value: u64) -> Submission {
        let kernels = Some(("embed.q4_k".into(), "argmax".into()));
        Submission { value, dispatches: 130, kernels, bytes: 5 << 30, at: Instant::now() }
    }

    #[test]
    fn a_report_names_the_submission_its_kernels_and_its_size() {
        let log = Log::default();
        (1..=20).for_each(|value| log.note(test_submission(value)));
        let report = log.report(18, "Acme 1.0");
        for part in ["Acme 1.0", "submission 18 of 130 dispatches", "embed.q4_k to argmax", "5120 MiB", "2 after it"] {
            assert!(report.contains(part), "{part}: {report}");
        }
        assert_eq!(log.report_newest("Acme 1.0").split(" ms").next(), log.report(20, "Acme 1.0").split(" ms").next());
        assert_eq!(log.report(3, "Acme 1.0"), "driver Acme 1.0; submission 3, 8 after it", "forgotten by then");
    }

    #[test]
    fn limits_follow_from_what_was_measured_and_stay_within_bounds() {
        let (log, most) = (Log::default(), Duration::from_secs(120));
        assert_eq!(log.limit(most), most, "nothing measured");
        (0..MEASURED).for_each(|_| log.note_wait(Duration::from_millis(1)));
        assert_eq!(log.limit(most), LEAST);
        log.note_wait(Duration::from_millis(10));
        assert_eq!(log.limit(most), Duration::from_secs(50));
        log.note_wait(Duration::from_secs(1));
        assert_eq!(log.limit(most), most);
        assert_eq!(log.limit(Duration::from_secs(5)), Duration::from_secs(5), "no longer than is asked for");
    }

    #[test]
    fn what_is_injected_comes_when_it_is_said_to() {
        let injected = InjectedFault::default();
        assert!(injected.loss_result(u64::MAX - 1).is_ok() && !injected.refuses());
        injected.lose_from(7);
        assert_eq!((injected.loss_result(6), injected.loss_result(7)), (Ok(()), Err(vk::Result::ERROR_DEVICE_LOST)));
        injected.refuse(2, 3);
        let found: Vec<bool> = (0..7).map(|_| injected.refuses()).collect();
        assert_eq!(found, [false, false, true, true, true, false, false]);
    }
}
