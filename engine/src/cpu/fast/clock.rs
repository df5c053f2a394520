//! When ops end, for profiles.

use std::time::Instant;

/// The time of steps, and of their ops.
#[derive(Default)]
pub struct Clock {
    steps: bool,
    ops: bool,
    begun: Option<Instant>,
    /// Time of the last step, microseconds.
    pub(super) us: f64,
    /// When each of its ops had ended, microseconds after its start.
    pub(super) ends: Vec<f64>,
}

impl Clock {
    /// What is timed from now on.
    pub fn set(&mut self, steps: bool, ops: bool) {
        (self.steps, self.ops) = (steps, ops);
    }

    pub(super) fn start(&mut self) {
        (self.us, self.begun) = (0.0, self.steps.then(Instant::now));
        self.ends.clear();
    }

    fn elapsed_us(&self) -> f64 {
        self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64() * 1e6)
    }

    /// An op has ended.
    pub(super) fn op(&mut self) {
        if self.ops {
            self.ends.push(self.elapsed_us());
        }
    }

    /// The step has ended.
    pub(super) fn end(&mut self) {
        self.us = self.elapsed_us();
    }
}
