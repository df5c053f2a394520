//! Choices made concrete: a kernel, its weight format and its constants → a pipeline, each built once.

use crate::vk::{Device, Pipeline};
use crate::{Error, Result};
use pumex_shaders::kernels::Needs;
use std::collections::HashMap;

/// Pipelines by module and constants.
pub struct Kernels {
    device: Device,
    built: HashMap<(String, Vec<(u32, u32)>), Pipeline>,
}

impl Kernels {
    /// None built yet.
    pub fn new(device: &Device) -> Self {
        Kernels { device: device.clone(), built: HashMap::new() }
    }

    /// The pipeline of `kernel` (for weight format `stem`, if it has one per format) with constants by name.
    ///
    /// # Errors
    /// A kernel that needs more than the device has, a module the driver refuses.
    pub fn get(&mut self, kernel: &str, stem: Option<&str>, spec: &[(&str, u32)]) -> Result<Pipeline> {
        let missing =
            |what: &str| Error::Device(format!("kernel {kernel}: expected {what} in the kernel table, found none"));
        let row = pumex_shaders::kernels::find(kernel).ok_or_else(|| missing("a row"))?;
        if row.needs == Needs::IntegerDot && !self.device.caps().int_dot8 {
            let feature = format!("shaderIntegerDotProduct, for kernel {kernel}");
            return Err(Error::MissingFeature { device: self.device.caps().name.clone(), feature });
        }
        let name = stem.map_or(kernel.to_string(), |s| format!("{kernel}.{s}"));
        let mut ids = Vec::with_capacity(spec.len());
        for (constant, value) in spec {
            ids.push((row.spec_id(constant).ok_or_else(|| missing(constant))?, *value));
        }
        let key = (name, ids);
        if let Some(pipeline) = self.built.get(&key) {
            return Ok(pipeline.clone());
        }
        let spirv = pumex_shaders::module(&key.0).ok_or_else(|| missing("a compiled module"))?;
        let pipeline = self.device.pipeline(&key.0, spirv, &key.1, row.push_bytes)?;
        self.built.insert(key, pipeline.clone());
        Ok(pipeline)
    }
}
