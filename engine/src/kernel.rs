//! Choices made concrete: a kernel, its weight format and its constants → a pipeline, each built once.

use pumex_gguf::{Error, Result};
use pumex_lower::dispatch::Dispatch;
use pumex_shaders::kernels::Needs;
use pumex_vk::{AnnouncedPipelines, Caps, Device, Pipeline};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a device lacks of what a kernel needs, as Vulkan calls it.
pub fn lacking(needs: Needs, caps: &Caps) -> Option<&'static str> {
    let (has, feature) = match needs {
        Needs::Nothing => return None,
        Needs::IntegerDot => (caps.int_dot8, "shaderIntegerDotProduct"),
        Needs::Half => (caps.fp16, "shaderFloat16"),
        Needs::StagedMatrix => (caps.staged_matrix().is_some(), "cooperativeMatrix (halves)"),
        Needs::ByteMatrix => (caps.byte_matrix().is_some(), "cooperativeMatrix (signed bytes)"),
        Needs::Matrix2 => (caps.group_matrix(), "cooperativeMatrixWorkgroupScope (halves) and its kin"),
        Needs::Matrix => (!caps.matrix_n.is_empty(), "cooperativeMatrix (16 x 16 halves)"),
    };
    (!has).then_some(feature)
}

/// The constant that a device decides on, whatever the tile, unless it is given.
const SIGNED_DOTS: &str = "SIGNED_DOTS";

/// What stands for all operations over subgroups among the kernels that are wrong: shared memory does what they do then.
pub const SUBGROUPS: &str = "subgroups";

/// The constant that says how weights lie: 0 or 1.
const LAYOUT: &str = "SOA";

/// What a pipeline is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelKey {
    module: String,
    constants: Vec<(u32, u32)>,
    push_bytes: u32,
}

/// Pipelines by module and constants. Several threads may ask for some at a time.
pub struct Kernels {
    device: Device,
    built: Mutex<HashMap<KernelKey, Pipeline>>,
    unsaved: AtomicBool,
    /// What [`Kernels::get`] took for those that were not built yet.
    waited_ns: AtomicU64,
    /// One that is built for weights laid out in the other way.
    spoilt: Option<&'static str>,
}

impl Kernels {
    /// None built yet.
    pub fn new(device: &Device) -> Self {
        Kernels {
            device: device.clone(),
            built: Mutex::default(),
            unsaved: AtomicBool::new(false),
            waited_ns: AtomicU64::new(0),
            spoilt: None,
        }
    }

    /// This set, of which one kernel, or, by [`SUBGROUPS`], each that uses subgroups, takes weights for what they are not: a compiler's
    /// fault, for tests.
    pub fn spoiling(self, spoilt: Option<&'static str>) -> Self {
        Kernels { spoilt, ..self }
    }

    fn spoils(&self, kernel: &str) -> bool {
        let everywhere = || self.spoilt == Some(SUBGROUPS) && !self.device.caps().emulated_subgroups;
        self.spoilt == Some(kernel) || everywhere()
    }

    /// The pipeline of `kernel` (for weight format `stem`, if it has one per format) with constants by name.
    ///
    /// # Errors
    /// A kernel that needs more than the device has, a module the driver refuses.
    pub fn get(&self, kernel: &str, stem: Option<&str>, spec: &[(&str, u32)]) -> Result<Pipeline> {
        let key = self.key(kernel, stem, spec)?;
        if let Some(pipeline) = self.lock_pipelines().get(&key) {
            return Ok(pipeline.clone());
        }
        let begun = Instant::now();
        let built = self.build(key);
        self.waited_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        built
    }

    /// The pipelines of dispatches, in their order; those that are not built yet are announced first, for who waits.
    ///
    /// # Errors
    /// As [`Kernels::get`].
    pub fn get_all(&self, dispatches: &[Dispatch]) -> Result<Vec<Pipeline>> {
        let key = |d: &Dispatch| self.key(d.kernel, d.format, &d.constants);
        let keys = dispatches.iter().map(key).collect::<Result<Vec<_>>>()?;
        let missing: HashSet<&KernelKey> = {
            let built = self.lock_pipelines();
            keys.iter().filter(|key| !built.contains_key(*key)).collect()
        };
        if !missing.is_empty() {
            let (begun, announced) = (Instant::now(), AnnouncedPipelines::new(missing.len()));
            let built = missing.into_iter().try_for_each(|key| {
                let built = self.build(key.clone()).map(drop);
                announced.count_ready();
                built
            });
            self.waited_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            built?;
        }
        keys.into_iter().map(|key| self.build(key)).collect()
    }

    /// Time that who asked for single pipelines waited for those that were not built yet, microseconds.
    pub fn wait_us(&self) -> f64 {
        self.waited_ns.load(Ordering::Relaxed) as f64 / 1e3
    }

    /// What [`Kernels::get`] would build.
    ///
    /// # Errors
    /// A kernel that needs more than the device has.
    pub fn key(&self, kernel: &str, stem: Option<&str>, spec: &[(&str, u32)]) -> Result<KernelKey> {
        let missing =
            |what: &str| Error::Device(format!("kernel {kernel}: expected {what} in the kernel table, found none"));
        let row = pumex_shaders::kernels::find(kernel).ok_or_else(|| missing("a row"))?;
        let caps = self.device.caps();
        if let Some(lacking) = lacking(row.needs, caps) {
            let feature = format!("{lacking}, for kernel {kernel}");
            return Err(Error::MissingFeature { device: caps.name.clone(), feature });
        }
        let name = stem.map_or(kernel.to_string(), |s| format!("{kernel}.{s}"));
        let mut ids = Vec::with_capacity(spec.len());
        for (constant, value) in spec {
            let spoilt = *constant == LAYOUT && self.spoils(kernel);
            let value = if spoilt { 1 - *value } else { *value };
            ids.push((row.spec_id(constant).ok_or_else(|| missing(constant))?, value));
        }
        let told = spec.iter().any(|(constant, _)| *constant == SIGNED_DOTS);
        if let Some(id) = row.spec_id(SIGNED_DOTS).filter(|_| !told && caps.lacks_mixed_dots()) {
            ids.push((id, 1));
        }
        Ok(KernelKey { module: name, constants: ids, push_bytes: row.push_bytes() })
    }

    /// How many there are.
    pub fn pipeline_count(&self) -> usize {
        self.lock_pipelines().len()
    }

    /// Their modules: kernels, with a weight format where they have one for each.
    pub fn modules(&self) -> BTreeSet<String> {
        self.lock_pipelines().keys().map(|key| key.module.clone()).collect()
    }

    fn lock_pipelines(&self) -> MutexGuard<'_, HashMap<KernelKey, Pipeline>> {
        self.built.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, key: KernelKey) -> Result<Pipeline> {
        if let Some(pipeline) = self.lock_pipelines().get(&key) {
            return Ok(pipeline.clone());
        }
        let missing = || Error::Device(format!("kernel {}: expected a compiled module, found none", key.module));
        let spirv = pumex_shaders::module(&key.module).ok_or_else(missing)?;
        // Not under the lock: whoever builds the same one meanwhile wastes no more than its own time.
        let pipeline = self.device.pipeline(&key.module, spirv, &key.constants, key.push_bytes)?;
        self.unsaved.store(true, Ordering::Relaxed);
        self.lock_pipelines().insert(key, pipeline.clone());
        Ok(pipeline)
    }

    /// Builds pipelines on `threads` threads.
    ///
    /// # Errors
    /// A module the driver refuses.
    pub fn build_all(&self, keys: HashSet<KernelKey>, threads: usize) -> Result<()> {
        let missing = keys.into_iter().filter(|key| !self.lock_pipelines().contains_key(key));
        let (keys, next) = (Vec::from_iter(missing), AtomicUsize::new(0));
        let announced = AnnouncedPipelines::new(keys.len());
        let take = || -> Result<()> {
            while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.build(key.clone())?;
                announced.count_ready();
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads.min(keys.len())).map(|_| scope.spawn(take)).collect();
            let own = take();
            helpers.into_iter().fold(own, |all, helper| match helper.join() {
                Ok(built) => all.and(built),
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }

    /// Keeps what was built for later processes, if anything was.
    pub fn save(&self) {
        if self.unsaved.swap(false, Ordering::Relaxed) {
            self.device.save_pipeline_cache();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumex_lower::policy::devices;

    #[test]
    fn devices_lack_what_they_do_not_tell() {
        let lacks = |caps: &Caps| {
            [Needs::Nothing, Needs::IntegerDot, Needs::Half, Needs::Matrix].map(|n| lacking(n, caps).is_some())
        };
        assert_eq!(lacks(&devices::h200()), [false, false, false, false]);
        assert_eq!(lacks(&devices::lavapipe()), [false, false, false, true]);
        assert_eq!(lacks(&devices::find("adreno_740").unwrap()), [false, true, false, true]);
        assert!(lacks(&devices::find("geforce_gtx_1080").unwrap())[2]);
    }
}
