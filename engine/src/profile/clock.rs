//! Runners whose steps and ops can be timed: a GPU that leaves time stamps, and the CPU with a clock of its own.

use crate::cpu::Fast;
use crate::exec::StampedOp;
use crate::VulkanRunner;
use pumex_lower::CacheType;
use pumex_plan::{Plan, Weight};
use pumex_step::Runner;
use std::sync::Arc;

/// How a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepTiming {
    /// Every op by itself.
    Plain,
    /// Every op by itself, with the time behind each of them.
    Stamped,
    /// With products that follow each other in one dispatch.
    Merged,
}

/// A step as it was timed.
#[derive(Clone, Debug, Default)]
pub struct StepTimes {
    /// All of it, microseconds.
    pub us: f64,
    /// Ops in order, and when each had ended, microseconds after the start; none unless they were stamped.
    pub ends: Vec<(StampedOp, f64)>,
    /// The plan that these are ops of, if it is not the runner's.
    pub plan: Option<Arc<Plan>>,
}

/// A runner that can be timed.
pub trait TimedRunner {
    /// The runner.
    fn runner(&mut self) -> &mut dyn Runner;
    /// Its plan.
    fn plan(&self) -> &Plan;
    /// Types of K and V in its cache.
    fn cache_types(&self) -> (CacheType, CacheType);
    /// Whether steps of one row may run as [`StepTiming::Merged`].
    fn merges(&self) -> bool;
    /// Steps started from now on run like this and are timed; none: as usual, and are not.
    fn clock(&mut self, way: Option<StepTiming>);
    /// The last finished step.
    fn last(&self) -> StepTimes;
    /// Bytes of a weight as it holds it.
    fn weight_bytes(&self, w: Weight) -> u64;
}

impl TimedRunner for VulkanRunner {
    fn runner(&mut self) -> &mut dyn Runner {
        self
    }

    fn plan(&self) -> &Plan {
        VulkanRunner::plan(self)
    }

    fn cache_types(&self) -> (CacheType, CacheType) {
        VulkanRunner::cache_types(self)
    }

    fn merges(&self) -> bool {
        self.has_megakernel()
    }

    fn clock(&mut self, way: Option<StepTiming>) {
        self.time_steps(way.is_some());
        self.stamp_ops(way == Some(StepTiming::Stamped));
        self.use_megakernel(matches!(way, None | Some(StepTiming::Merged)));
    }

    fn last(&self) -> StepTimes {
        let step = self.last_step();
        StepTimes { us: step.gpu_us, ends: step.ends_us.clone(), plan: step.plan.clone() }
    }

    fn weight_bytes(&self, w: Weight) -> u64 {
        VulkanRunner::plan(self).weights[w.0].len_bytes()
    }
}

/// The fast interpreter, with the types of the cache that it was made with.
pub struct OnCpu<'a> {
    /// The interpreter.
    pub runner: Fast<'a>,
    /// The cache types of K and V.
    pub cache_types: (CacheType, CacheType),
}

impl TimedRunner for OnCpu<'_> {
    fn runner(&mut self) -> &mut dyn Runner {
        &mut self.runner
    }

    fn plan(&self) -> &Plan {
        self.runner.plan()
    }

    fn cache_types(&self) -> (CacheType, CacheType) {
        self.cache_types
    }

    fn merges(&self) -> bool {
        false
    }

    fn clock(&mut self, way: Option<StepTiming>) {
        self.runner.clock().set(way.is_some(), way == Some(StepTiming::Stamped));
    }

    fn last(&self) -> StepTimes {
        let (us, ends) = self.runner.last_step();
        let ends = ends.iter().enumerate().map(|(op, end)| (StampedOp { op, dispatches: 1 }, *end)).collect();
        StepTimes { us, ends, plan: None }
    }

    fn weight_bytes(&self, w: Weight) -> u64 {
        self.runner.weight_bytes(w)
    }
}
