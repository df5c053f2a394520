//! SPIR-V → pipeline. Those that use subgroups get the size that [`Caps`] tells, without missing threads, or are refused; on a
//! device whose subgroups are not used, or which loads no numbers of 16 bits, they are rewritten first.

use super::cache;
use super::caps::Caps;
use super::counters::add;
use super::device::{Device, Inner};
use super::shared_pipelines::SharedPipeline;
use super::spirv::{without_halves, without_subgroups, Module};
use ash::vk;
use pumex_gguf::{Error, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Instant;

struct RawPipeline {
    device: Arc<Inner>,
    name: Arc<str>,
    push_bytes: u32,
    made: SharedPipeline,
}

impl Drop for RawPipeline {
    fn drop(&mut self) {
        if !self.device.queue.may_free() || self.device.kept.is_some() {
            return;
        }
        // SAFETY: recordings that use the pipeline hold a handle of it, and wait for their submissions.
        unsafe { self.made.destroy(&self.device.raw) };
    }
}

/// A compute pipeline; a handle.
#[derive(Clone)]
pub struct Pipeline(Arc<RawPipeline>);

impl Pipeline {
    pub(super) fn raw(&self) -> (vk::Pipeline, vk::PipelineLayout) {
        (self.0.made.pipeline, self.0.made.layout)
    }

    pub(super) fn device(&self) -> &Inner {
        &self.0.device
    }

    /// What its maker called it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What its maker called it, to be kept.
    pub(super) fn to_shared_name(&self) -> Arc<str> {
        self.0.name.clone()
    }

    /// Bytes of push constants it takes.
    pub fn push_bytes(&self) -> u32 {
        self.0.push_bytes
    }
}

/// A number that words of another module do not have.
fn number(words: &[u32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

/// How a pipeline's subgroups are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subgroups {
    /// So many threads each; none where the device has them so anyway, or leaves no choice.
    size: Option<u32>,
    full: bool,
}

/// What to ask for a module whose workgroups are of that size.
///
/// # Errors
/// What the device does not offer: so large a workgroup, or, where subgroups are used, one that is no whole number of them.
fn subgroups(caps: &Caps, name: &str, module: &Module, local: [u32; 3]) -> Result<Subgroups> {
    let lacking = |feature: String| Err(Error::MissingFeature { device: caps.name.clone(), feature });
    let (threads, size) = (local.iter().map(|n| u64::from(*n)).product::<u64>(), caps.subgroup_of(name));
    if threads > u64::from(caps.max_workgroup_invocations) {
        return lacking(format!("{threads} threads in a workgroup of {name}, has {}", caps.max_workgroup_invocations));
    }
    let asks = |threads: u64| {
        caps.subgroup_size_control && threads <= u64::from(caps.max_workgroup_subgroups) * u64::from(size)
    };
    if !module.subgroups {
        // Those that use none may be faster in others.
        let size = caps.own_subgroup(name).filter(|_| asks(threads));
        return Ok(Subgroups { size, full: false });
    }
    if !local[0].is_multiple_of(size) {
        return lacking(format!("workgroups of whole subgroups of {size} threads for {name}, which has {}", local[0]));
    }
    Ok(Subgroups { size: asks(threads).then_some(size), full: caps.full_subgroups })
}

impl Device {
    /// Builds a pipeline from a module with entry point `main`; constants are given by id.
    ///
    /// # Errors
    /// Push constants or a workgroup over the device's limit, a workgroup that is no whole number of subgroups if it uses any,
    /// or a module the driver refuses.
    pub fn pipeline(&self, name: &str, spirv: &[u8], spec: &[(u32, u32)], push_bytes: u32) -> Result<Pipeline> {
        let inner = &self.0;
        if push_bytes > inner.caps.max_push_bytes {
            let feature = format!("{push_bytes} bytes of push constants for {name}, has {}", inner.caps.max_push_bytes);
            return Err(Error::MissingFeature { device: inner.caps.name.clone(), feature });
        }
        let mut words: Vec<u32> = spirv.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let expected =
            || Error::Device(format!("module {name}: expected SPIR-V of a compute shader, found something else"));
        let rewritten = |words: Option<Vec<u32>>, lacking: &str| {
            let (device, feature) = (inner.caps.name.clone(), format!("{lacking}, for kernel {name}"));
            words.ok_or(Error::MissingFeature { device, feature })
        };
        let mut module = Module::read(&words).ok_or_else(expected)?;
        let local = module.local_size(spec);
        if self.caps().emulated_subgroups && module.subgroups {
            let lacking = "operations over subgroups that shared memory does not replace";
            words = rewritten(without_subgroups(&words, local.iter().product()), lacking)?;
            module.subgroups = false;
        }
        if !self.caps().storage16 {
            words = rewritten(without_halves(&words), "storageBuffer16BitAccess, shaderInt16 and shaderFloat16")?;
        }
        let asked = subgroups(self.caps(), name, &module, local)?;
        let name: Arc<str> = name.into();
        let held =
            |made| Pipeline(Arc::new(RawPipeline { device: inner.clone(), name: name.clone(), push_bytes, made }));
        let parts = ((name.clone(), number(&words)), spec.to_vec(), push_bytes, (asked.size, asked.full));
        add(&inner.totals.pipelines, 1);
        if let Some(made) = inner.kept.as_ref().and_then(|kept| kept.find(&parts)) {
            return Ok(held(made));
        }
        let values: Vec<u32> = spec.iter().map(|s| s.1).collect();
        let entries: Vec<vk::SpecializationMapEntry> = (0..spec.len())
            .map(|i| vk::SpecializationMapEntry { constant_id: spec[i].0, offset: 4 * i as u32, size: 4 })
            .collect();
        let info = vk::SpecializationInfo::default().map_entries(&entries).data(bytemuck::cast_slice(&values));
        let ranges =
            [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: push_bytes }];
        let fail = |call, e| inner.call_error(call, e);
        let begun = Instant::now();
        // SAFETY: the module is one of those committed with the program; all structs outlive their calls.
        let made = unsafe {
            let module = vk::ShaderModuleCreateInfo::default().code(&words);
            let module = inner.raw.create_shader_module(&module, None).map_err(|e| fail("vkCreateShaderModule", e))?;
            let layout = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
            let layout = inner.raw.create_pipeline_layout(&layout, None).map_err(|e| fail("vkCreatePipelineLayout", e));
            let result = layout.and_then(|layout| {
                let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
                    .required_subgroup_size(asked.size.unwrap_or_default());
                let mut stage = vk::PipelineShaderStageCreateInfo::default()
                    .stage(vk::ShaderStageFlags::COMPUTE)
                    .module(module)
                    .name(c"main")
                    .specialization_info(&info);
                if asked.full {
                    stage = stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS);
                }
                if asked.size.is_some() {
                    stage = stage.push_next(&mut size);
                }
                let kept = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
                    | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
                let flags = inner.executables.as_ref().map_or(vk::PipelineCreateFlags::empty(), |_| kept);
                let info = [vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(layout)];
                match inner.raw.create_compute_pipelines(inner.cache, &info, None) {
                    Ok(made) => Ok(SharedPipeline { layout, pipeline: made[0] }),
                    Err((_, e)) => {
                        inner.raw.destroy_pipeline_layout(layout, None);
                        Err(fail("vkCreateComputePipelines", e))
                    }
                }
            });
            inner.raw.destroy_shader_module(module, None);
            result
        };
        add(&inner.totals.pipeline_ns, begun.elapsed().as_nanos() as u64);
        let made = made?;
        Ok(held(inner.kept.as_ref().map_or(made, |kept| kept.keep(&inner.raw, parts, made))))
    }

    /// Keeps the pipeline cache for later processes, if it grew; failing to only costs time later.
    pub fn save_pipeline_cache(&self) {
        let inner = &self.0;
        // SAFETY: the cache lives as long as the device.
        let Ok(data) = (unsafe { inner.raw.get_pipeline_cache_data(inner.cache) }) else { return };
        if inner.cache_len.swap(data.len() as u64, Ordering::Relaxed) == data.len() as u64 {
            return;
        }
        cache::save(&inner.caps, inner.modules, &data);
    }
}

#[cfg(test)]
mod tests {
    use super::super::caps::{Caps, DeviceKind, KernelSubgroup};
    use super::*;

    /// A module of that many threads, known by the constant of id 0.
    fn module(uses_subgroups: bool) -> Module {
        let mut words = vec![0x0723_0203, 0x0001_0500, 0, 9, 0, 2 << 16 | 17, if uses_subgroups { 63 } else { 1 }];
        words.extend([6 << 16 | 16, 4, 17, 64, 1, 1]);
        Module::read(&words).unwrap()
    }

    #[test]
    fn what_uses_subgroups_gets_whole_ones_of_the_size_that_kernels_are_chosen_for() {
        let caps = Caps { subgroup_min: 8, ..Caps::synthetic("Acme One", DeviceKind::Integrated) };
        let ask = |caps: &Caps, uses: bool, threads: u32| subgroups(caps, "embed", &module(uses), [threads, 1, 1]);
        assert_eq!(ask(&caps, true, 64).unwrap(), Subgroups { size: Some(32), full: true });
        assert_eq!(ask(&caps, false, 33).unwrap(), Subgroups { size: None, full: false });
        let error = ask(&caps, true, 48).unwrap_err().to_string();
        assert!(error.contains("Acme One") && error.contains("embed") && error.contains("48"), "{error}");
        assert!(ask(&caps, true, 2048).is_err() && ask(&caps, false, 2048).is_err(), "more threads than there are");
        // No choice of a size: whole subgroups of the one there is.
        let one = Caps { subgroup_size_control: false, ..caps.clone() };
        assert_eq!(ask(&one, true, 64).unwrap(), Subgroups { size: None, full: true });
        let few = Caps { max_workgroup_subgroups: 1, ..caps.clone() };
        assert_eq!(ask(&few, true, 64).unwrap(), Subgroups { size: None, full: true });
        // A size of the kernel's own.
        let own = vec![KernelSubgroup { module: "embed".into(), threads: 16 }];
        let own = Caps { subgroup_sizes: own, ..caps };
        assert_eq!(ask(&own, true, 48).unwrap(), Subgroups { size: Some(16), full: true });
        assert_eq!(ask(&own, false, 48).unwrap(), Subgroups { size: Some(16), full: false });
        let other = subgroups(&own, "rms_norm", &module(true), [64, 1, 1]).unwrap();
        assert_eq!(other, Subgroups { size: Some(32), full: true });
    }
}
