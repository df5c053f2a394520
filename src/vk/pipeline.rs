//! SPIR-V → pipeline, and the cache of them on disk.
//!
//! The driver is never handed bytes that this program did not write for this very driver: the file starts with a magic,
//! the drivers' ids and a checksum, and whatever does not match is ignored.

use super::caps::Caps;
use super::device::{Device, Inner};
use crate::{Error, Result};
use ash::vk;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::Arc;

struct Raw {
    device: Arc<Inner>,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: recordings that use the pipeline hold a handle of it.
        unsafe {
            self.device.raw.destroy_pipeline(self.pipeline, None);
            self.device.raw.destroy_pipeline_layout(self.layout, None);
        }
    }
}

/// A compute pipeline; a handle.
#[derive(Clone)]
pub struct Pipeline(Arc<Raw>);

impl Pipeline {
    pub(super) fn raw(&self) -> (vk::Pipeline, vk::PipelineLayout) {
        (self.0.pipeline, self.0.layout)
    }
}

impl Device {
    /// Builds a pipeline from a module with entry point `main`; constants are given by id.
    ///
    /// # Errors
    /// Push constants over the device's limit, or a module the driver refuses.
    pub fn pipeline(&self, name: &str, spirv: &[u8], spec: &[(u32, u32)], push_bytes: u32) -> Result<Pipeline> {
        let inner = &self.0;
        if push_bytes > inner.caps.max_push_bytes {
            let feature = format!("{push_bytes} bytes of push constants for {name}, has {}", inner.caps.max_push_bytes);
            return Err(Error::MissingFeature { device: inner.caps.name.clone(), feature });
        }
        let words: Vec<u32> = spirv.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let values: Vec<u32> = spec.iter().map(|s| s.1).collect();
        let entries: Vec<vk::SpecializationMapEntry> = (0..spec.len())
            .map(|i| vk::SpecializationMapEntry { constant_id: spec[i].0, offset: 4 * i as u32, size: 4 })
            .collect();
        let info = vk::SpecializationInfo::default().map_entries(&entries).data(bytemuck::cast_slice(&values));
        let ranges =
            [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: push_bytes }];
        let fail = |call, e| inner.failed(call, e);
        // SAFETY: the module is one of those committed with the program; all structs outlive their calls.
        unsafe {
            let module = vk::ShaderModuleCreateInfo::default().code(&words);
            let module = inner.raw.create_shader_module(&module, None).map_err(|e| fail("vkCreateShaderModule", e))?;
            let layout = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
            let layout = inner.raw.create_pipeline_layout(&layout, None).map_err(|e| fail("vkCreatePipelineLayout", e));
            let result = layout.and_then(|layout| {
                let stage = vk::PipelineShaderStageCreateInfo::default()
                    .stage(vk::ShaderStageFlags::COMPUTE)
                    .module(module)
                    .name(c"main")
                    .specialization_info(&info);
                let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
                match inner.raw.create_compute_pipelines(inner.cache, &info, None) {
                    Ok(made) => Ok(Pipeline(Arc::new(Raw { device: inner.clone(), layout, pipeline: made[0] }))),
                    Err((_, e)) => {
                        inner.raw.destroy_pipeline_layout(layout, None);
                        Err(fail("vkCreateComputePipelines", e))
                    }
                }
            });
            inner.raw.destroy_shader_module(module, None);
            result
        }
    }

    /// Writes the pipeline cache beside the former one and renames it, if it grew; failing to only costs time later.
    pub fn save_pipeline_cache(&self) {
        let inner = &self.0;
        // SAFETY: the cache lives as long as the device.
        let Ok(data) = (unsafe { inner.raw.get_pipeline_cache_data(inner.cache) }) else { return };
        if inner.cache_len.swap(data.len() as u64, Ordering::Relaxed) == data.len() as u64 {
            return;
        }
        let Some(path) = cache_file(&inner.caps, "pipelines", "bin") else { return };
        let mut bytes = header(&inner.caps, &data);
        bytes.extend(data);
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let written =
            path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&temporary, bytes));
        if let Err(e) = written.and_then(|()| std::fs::rename(&temporary, &path)) {
            tracing::warn!("pipeline cache {}: {e}", path.display());
        }
    }
}

/// Where something learnt about this device and driver is kept, in the user's cache folder.
pub fn cache_file(caps: &Caps, name: &str, ending: &str) -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache")))?;
    Some(base.join("pumex").join(format!("{name}-{}-{}.{ending}", caps.uuid, caps.driver_uuid)))
}

/// FNV-1a, 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

fn header(caps: &Caps, data: &[u8]) -> Vec<u8> {
    let id = format!("pumex pipelines 1 {} {} {}\n", caps.driver_uuid, caps.driver, caps.api_version);
    let mut bytes = id.into_bytes();
    bytes.extend((data.len() as u64).to_le_bytes());
    bytes.extend(checksum(data).to_le_bytes());
    bytes
}

/// The verified part of a cache file, if it is one of this driver's.
fn verified<'a>(caps: &Caps, file: &'a [u8]) -> Option<&'a [u8]> {
    let head = header(caps, &[]).len();
    let data = file.get(head..)?;
    (header(caps, data) == file[..head]).then_some(data)
}

pub(super) fn load_cache(raw: &ash::Device, caps: &Caps) -> (vk::PipelineCache, u64) {
    let file = cache_file(caps, "pipelines", "bin").and_then(|p| std::fs::read(p).ok()).unwrap_or_default();
    let data = verified(caps, &file).unwrap_or(&[]);
    let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
    // SAFETY: the data was written by this driver and is whole; an empty cache is always allowed.
    let cache = unsafe { raw.create_pipeline_cache(&info, None) }.unwrap_or_default();
    (cache, data.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::caps::{fake, DeviceKind};
    use super::*;

    #[test]
    fn only_a_whole_cache_file_of_the_same_driver_reaches_the_driver() {
        let caps = fake("Acme One", DeviceKind::Discrete);
        let data = b"what the driver gave";
        let mut file = header(&caps, data);
        file.extend(data);
        assert_eq!(verified(&caps, &file), Some(&data[..]));
        for at in 0..file.len() {
            assert_eq!(verified(&caps, &file[..at]), None, "cut at {at}");
            let mut flipped = file.clone();
            flipped[at] ^= 1;
            assert_eq!(verified(&caps, &flipped), None, "byte {at} changed");
        }
        let other = Caps { driver: "Acme 2.0".into(), ..caps };
        assert_eq!(verified(&other, &file), None);
    }
}
