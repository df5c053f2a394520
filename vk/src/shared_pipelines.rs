//! Pipelines that stay for as long as their device does, so that each is made once.

use super::lock::lock;
use ash::vk;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A pipeline and its layout.
#[derive(Clone, Copy)]
pub(super) struct SharedPipeline {
    pub layout: vk::PipelineLayout,
    pub pipeline: vk::Pipeline,
}

/// All that a pipeline is made of: its name and a number of the module's words, constants, bytes of push constants, subgroups.
pub(super) type PipelineKey = ((Arc<str>, u64), Vec<(u32, u32)>, u32, (Option<u32>, bool));

/// Pipelines that stay for as long as their device does.
#[derive(Default)]
pub(super) struct SharedPipelines(Mutex<HashMap<PipelineKey, SharedPipeline>>);

impl SharedPipelines {
    /// One that is made of the same.
    pub fn find(&self, parts: &PipelineKey) -> Option<SharedPipeline> {
        lock(&self.0).get(parts).copied()
    }

    /// Keeps it, unless another thread was faster: then that one is kept and given.
    pub fn keep(&self, raw: &ash::Device, parts: PipelineKey, made: SharedPipeline) -> SharedPipeline {
        let kept = *lock(&self.0).entry(parts).or_insert(made);
        if kept.pipeline != made.pipeline {
            // SAFETY: it was just made, and nobody else knows it.
            unsafe { made.destroy(raw) };
        }
        kept
    }

    /// Destroys all pipelines when the device goes.
    ///
    /// # Safety
    /// Nobody may use any of them any more.
    pub unsafe fn destroy(&self, raw: &ash::Device) {
        // SAFETY: as the caller's.
        lock(&self.0).drain().for_each(|(_, made)| unsafe { made.destroy(raw) });
    }
}

impl SharedPipeline {
    /// Lets go of it.
    ///
    /// # Safety
    /// Nobody may use it any more.
    pub unsafe fn destroy(self, raw: &ash::Device) {
        // SAFETY: as the caller's.
        unsafe {
            raw.destroy_pipeline(self.pipeline, None);
            raw.destroy_pipeline_layout(self.layout, None);
        }
    }
}
