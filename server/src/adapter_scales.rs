//! Adapters at scales with which a model cannot be loaded.

use super::model_status::ModelStatus;
use super::queue::Queue;
use super::refusal::{public_text, refusal};
use super::request::Job;
use pumex_gguf::Error;
use pumex_serve::engine::{Event, Refusal, RefusalKind};
use std::sync::atomic::Ordering;

/// Ends requests that wait for adapters at scales with which the model cannot be loaded.
pub fn refuse_scales(queue: &mut Queue<Box<Job>>, shared: &ModelStatus, scales: &[f32], error: &Error) {
    tracing::error!("adapters: {error}");
    let what = format!("lora: the model cannot be loaded with the adapters so: {}", public_text(error));
    let why = Refusal { field: Some("lora".into()), ..refusal(RefusalKind::Failed, what) };
    for job in queue.remove(|job| job.scales == scales) {
        shared.waiting.fetch_sub(usize::from(job.started.is_none()), Ordering::Relaxed);
        shared.view().metrics.requests_failed += 1;
        // Its reader may be gone.
        let _ = job.events.try_send(Event::Failed(why.clone()));
    }
}
