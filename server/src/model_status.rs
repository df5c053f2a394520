//! What a model's thread shows to all others.

use pumex_serve::engine::{Metrics, SlotStatus, Timings};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Slots, counters and scales as they are now.
#[derive(Clone, Debug)]
pub struct View {
    /// By number.
    pub slots: Vec<SlotStatus>,
    /// Counters and gauges, but for who waits.
    pub metrics: Metrics,
    /// Scales of adapters where requests name none.
    pub scales: Vec<f32>,
    /// Scales of adapters for those keys whose holders set them.
    pub own_scales: BTreeMap<String, Vec<f32>>,
    /// Since when there was nothing to do; none while there is.
    pub idle_since: Option<Instant>,
    /// Why the model does not work, where that is so.
    pub failed: Option<String>,
}

impl View {
    /// Scales of adapters where requests of a key's holder name none.
    pub fn scales_of(&self, key: &str) -> &[f32] {
        self.own_scales.get(key).unwrap_or(&self.scales)
    }
}

/// A slot that nobody has used.
pub fn idle(id: usize, n_ctx: usize) -> SlotStatus {
    SlotStatus {
        id,
        n_ctx,
        busy: false,
        request: None,
        key: String::new(),
        settings: None,
        held: 0,
        prompt_tokens: 0,
        prompt_done: 0,
        generated: 0,
        remaining: None,
        timings: Timings::default(),
    }
}

/// What all threads share of a model.
#[derive(Debug)]
pub struct ModelStatus {
    view: Mutex<View>,
    /// Requests that wait, those on their way to the thread included.
    pub waiting: AtomicUsize,
    /// Number of the next request.
    pub next: AtomicU64,
    /// New requests are refused.
    pub draining: AtomicBool,
    /// The model comes up again.
    pub loading: AtomicBool,
}

impl ModelStatus {
    /// The status of a model with so many slots of so many positions.
    pub fn new((slots, n_ctx): (usize, usize), scales: Vec<f32>) -> ModelStatus {
        let view = View {
            slots: (0..slots).map(|id| idle(id, n_ctx)).collect(),
            metrics: Metrics::default(),
            scales,
            own_scales: BTreeMap::new(),
            idle_since: Some(Instant::now()),
            failed: None,
        };
        ModelStatus {
            view: Mutex::new(view),
            waiting: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            draining: AtomicBool::new(false),
            loading: AtomicBool::new(false),
        }
    }

    /// What there is to see.
    pub fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
