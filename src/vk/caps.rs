//! Everything asked of a device, read once into plain data.

use crate::{Error, Result};
use ash::vk;
use serde::Serialize;

/// What sort of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub enum DeviceKind {
    Discrete,
    Integrated,
    Virtual,
    Cpu,
    Other,
}

/// A memory heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Heap {
    /// Bytes in all.
    pub len_bytes: u64,
    /// Bytes this process may use now; the size where the driver does not say.
    pub budget_bytes: u64,
    /// Near the device.
    pub device_local: bool,
}

/// A memory type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct MemoryType {
    pub heap: usize,
    pub device_local: bool,
    pub host_visible: bool,
    pub host_coherent: bool,
    pub host_cached: bool,
}

/// A device as plain data.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Caps {
    pub name: String,
    pub driver: String,
    pub api_version: String,
    pub vendor_id: u32,
    pub device_id: u32,
    pub uuid: String,
    pub driver_uuid: String,
    pub kind: DeviceKind,
    /// Host and device share one memory.
    pub unified: bool,
    pub subgroup_size: u32,
    pub max_workgroup_invocations: u32,
    /// Multiprocessors, where the driver says.
    pub cores: Option<u32>,
    pub max_shared_bytes: u32,
    pub max_push_bytes: u32,
    pub max_allocation_bytes: u64,
    pub timestamp_period_ns: f32,
    pub heaps: Vec<Heap>,
    pub memory_types: Vec<MemoryType>,
    /// Free bytes of the largest device-local heap.
    pub memory_budget_bytes: u64,
    pub storage16: bool,
    pub buffer_address: bool,
    pub timeline: bool,
    pub subgroup_arithmetic: bool,
    pub subgroup_ballot: bool,
    /// Values of other threads of a subgroup.
    pub subgroup_shuffle: bool,
    pub fp16: bool,
    pub int8: bool,
    pub int_dot8: bool,
    pub subgroup_size_control: bool,
    /// Host pages can become device memory; addresses and sizes are multiples of this.
    pub host_import_alignment: Option<u64>,
    pub cooperative_matrix: bool,
    pub cooperative_matrix2: bool,
    /// Subnormal halves can be kept.
    pub small_halves: bool,
    /// Columns that a product of cooperative matrices may have: 16 x 16 halves by 16 x these, sums in floats.
    pub matrix_wide: Vec<u32>,
}

fn text(raw: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The queue family for all work, copies too: the first that can.
pub(super) fn queue_family(instance: &ash::Instance, physical: vk::PhysicalDevice) -> u32 {
    // SAFETY: `physical` came from this instance.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    families.iter().position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE)).unwrap_or(0) as u32
}

/// Columns of cooperative matrices that the kernels can use, fewest first.
fn matrix_wide(entry: &ash::Entry, instance: &ash::Instance, physical: vk::PhysicalDevice) -> Vec<u32> {
    let loader = ash::khr::cooperative_matrix::Instance::new(entry, instance);
    // SAFETY: the device has the extension, and came from this instance.
    let shapes = unsafe { loader.get_physical_device_cooperative_matrix_properties(physical) }.unwrap_or_default();
    let (half, float) = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
    let fits = |p: &&vk::CooperativeMatrixPropertiesKHR<'_>| {
        (p.m_size, p.k_size, p.scope) == (16, 16, vk::ScopeKHR::SUBGROUP)
            && (p.a_type, p.b_type, p.c_type, p.result_type) == (half, half, float, float)
            && matches!(p.n_size, 8 | 16)
    };
    let mut wide: Vec<u32> = shapes.iter().filter(fits).map(|p| p.n_size).collect();
    wide.sort_unstable();
    wide.dedup();
    wide
}

/// Asks a device everything.
pub(super) fn read(entry: &ash::Entry, instance: &ash::Instance, physical: vk::PhysicalDevice) -> Caps {
    // SAFETY: `physical` came from this instance; all structs are chained only for the duration of the calls.
    unsafe {
        let extensions: Vec<String> = instance
            .enumerate_device_extension_properties(physical)
            .unwrap_or_default()
            .iter()
            .map(|e| text(&e.extension_name))
            .collect();
        let has = |name: &str| extensions.iter().any(|e| e == name);
        let basic = instance.get_physical_device_properties(physical);
        let (mut v11, mut v12, mut m3) = (
            vk::PhysicalDeviceVulkan11Properties::default(),
            vk::PhysicalDeviceVulkan12Properties::default(),
            vk::PhysicalDeviceMaintenance3Properties::default(),
        );
        let mut import = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let can_import = has("VK_EXT_external_memory_host");
        let mut multi = vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV::default();
        let mut p = vk::PhysicalDeviceProperties2::default().push_next(&mut m3);
        let tells_cores = has("VK_NV_shader_sm_builtins");
        if tells_cores {
            p = p.push_next(&mut multi);
        }
        if can_import {
            p = p.push_next(&mut import);
        }
        if basic.api_version >= vk::API_VERSION_1_2 {
            p = p.push_next(&mut v11).push_next(&mut v12);
        }
        instance.get_physical_device_properties2(physical, &mut p);
        let limits = p.properties.limits;
        let (mut f11, mut f12, mut f13) = (
            vk::PhysicalDeviceVulkan11Features::default(),
            vk::PhysicalDeviceVulkan12Features::default(),
            vk::PhysicalDeviceVulkan13Features::default(),
        );
        let mut f = vk::PhysicalDeviceFeatures2::default();
        if basic.api_version >= vk::API_VERSION_1_2 {
            f = f.push_next(&mut f11).push_next(&mut f12);
        }
        if basic.api_version >= vk::API_VERSION_1_3 {
            f = f.push_next(&mut f13);
        }
        instance.get_physical_device_features2(physical, &mut f);
        let int16 = f.features.shader_int16 == vk::TRUE;
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut m = vk::PhysicalDeviceMemoryProperties2::default();
        let has_budget = has("VK_EXT_memory_budget");
        if has_budget {
            m = m.push_next(&mut budget);
        }
        instance.get_physical_device_memory_properties2(physical, &mut m);
        let memory = m.memory_properties;
        let heaps: Vec<Heap> = memory.memory_heaps[..memory.memory_heap_count as usize]
            .iter()
            .enumerate()
            .map(|(i, h)| {
                let told = if has_budget { budget.heap_budget[i].saturating_sub(budget.heap_usage[i]) } else { h.size };
                Heap {
                    len_bytes: h.size,
                    budget_bytes: if told == 0 { h.size / 5 * 4 } else { told.min(h.size) },
                    device_local: h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
                }
            })
            .collect();
        let memory_types = memory.memory_types[..memory.memory_type_count as usize]
            .iter()
            .map(|t| {
                let flag = |f| t.property_flags.contains(f);
                MemoryType {
                    heap: t.heap_index as usize,
                    device_local: flag(vk::MemoryPropertyFlags::DEVICE_LOCAL),
                    host_visible: flag(vk::MemoryPropertyFlags::HOST_VISIBLE),
                    host_coherent: flag(vk::MemoryPropertyFlags::HOST_COHERENT),
                    host_cached: flag(vk::MemoryPropertyFlags::HOST_CACHED),
                }
            })
            .collect();
        let kind = match basic.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::Discrete,
            vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::Integrated,
            vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceKind::Virtual,
            vk::PhysicalDeviceType::CPU => DeviceKind::Cpu,
            _ => DeviceKind::Other,
        };
        let local = heaps.iter().filter(|h| h.device_local).map(|h| h.budget_bytes).max().unwrap_or(0);
        let v = basic.api_version;
        let subgroup_size = v11.subgroup_size.max(1);
        let features = [f12.shader_float16, f12.vulkan_memory_model, f12.vulkan_memory_model_device_scope];
        let ops = vk::SubgroupFeatureFlags::VOTE | vk::SubgroupFeatureFlags::SHUFFLE;
        let whole = has("VK_KHR_cooperative_matrix")
            && subgroup_size == 32
            && v11.subgroup_supported_operations.contains(ops)
            && !features.contains(&vk::FALSE);
        let matrix_wide = if whole { matrix_wide(entry, instance, physical) } else { Vec::new() };
        Caps {
            name: text(&basic.device_name),
            driver: format!("{} {}", text(&v12.driver_name), text(&v12.driver_info)).trim().to_string(),
            api_version: format!(
                "{}.{}.{}",
                vk::api_version_major(v),
                vk::api_version_minor(v),
                vk::api_version_patch(v)
            ),
            vendor_id: basic.vendor_id,
            device_id: basic.device_id,
            uuid: hex(&v11.device_uuid),
            driver_uuid: hex(&v11.driver_uuid),
            kind,
            unified: matches!(kind, DeviceKind::Integrated | DeviceKind::Cpu),
            subgroup_size,
            max_workgroup_invocations: limits.max_compute_work_group_invocations,
            cores: tells_cores.then_some(multi.shader_sm_count),
            max_shared_bytes: limits.max_compute_shared_memory_size,
            max_push_bytes: limits.max_push_constants_size,
            max_allocation_bytes: m3.max_memory_allocation_size,
            timestamp_period_ns: limits.timestamp_period,
            heaps,
            memory_types,
            memory_budget_bytes: local,
            storage16: f11.storage_buffer16_bit_access == vk::TRUE && int16,
            buffer_address: f12.buffer_device_address == vk::TRUE,
            timeline: f12.timeline_semaphore == vk::TRUE,
            subgroup_arithmetic: v11.subgroup_supported_operations.contains(vk::SubgroupFeatureFlags::ARITHMETIC)
                && v11.subgroup_supported_stages.contains(vk::ShaderStageFlags::COMPUTE),
            subgroup_shuffle: v11.subgroup_supported_operations.contains(vk::SubgroupFeatureFlags::SHUFFLE),
            subgroup_ballot: v11.subgroup_supported_operations.contains(vk::SubgroupFeatureFlags::BALLOT),
            fp16: f12.shader_float16 == vk::TRUE,
            int8: f12.shader_int8 == vk::TRUE,
            int_dot8: f13.shader_integer_dot_product == vk::TRUE,
            subgroup_size_control: f13.subgroup_size_control == vk::TRUE,
            host_import_alignment: can_import.then_some(import.min_imported_host_pointer_alignment),
            cooperative_matrix: has("VK_KHR_cooperative_matrix"),
            cooperative_matrix2: has("VK_NV_cooperative_matrix2"),
            small_halves: v12.shader_denorm_preserve_float16 == vk::TRUE,
            matrix_wide,
        }
    }
}

impl Caps {
    /// Fails on the first feature that every kernel needs and this device lacks.
    ///
    /// # Errors
    /// The feature and the device.
    pub(super) fn require(&self) -> Result<()> {
        let needs = [
            (self.buffer_address, "bufferDeviceAddress (Vulkan 1.2)"),
            (self.timeline, "timelineSemaphore (Vulkan 1.2)"),
            (self.storage16, "storageBuffer16BitAccess and shaderInt16"),
            (self.subgroup_arithmetic, "subgroup arithmetic in compute shaders"),
            (self.max_shared_bytes >= 32 << 10, "32 KiB of shared memory"),
            (self.max_workgroup_invocations >= 128, "workgroups of 128"),
        ];
        match needs.iter().find(|(there, _)| !there) {
            Some((_, feature)) => Err(Error::MissingFeature { device: self.name.clone(), feature: (*feature).into() }),
            None => Ok(()),
        }
    }
}

/// A made-up device that has everything.
#[cfg(test)]
pub(super) fn fake(name: &str, kind: DeviceKind) -> Caps {
    Caps {
        name: name.into(),
        driver: String::new(),
        api_version: String::new(),
        vendor_id: 0,
        device_id: 0,
        uuid: format!("{:0>32x}", name.len()),
        driver_uuid: String::new(),
        kind,
        unified: false,
        subgroup_size: 32,
        max_workgroup_invocations: 1024,
        cores: None,
        max_shared_bytes: 48 << 10,
        max_push_bytes: 128,
        max_allocation_bytes: 4 << 30,
        timestamp_period_ns: 1.0,
        heaps: Vec::new(),
        memory_types: Vec::new(),
        memory_budget_bytes: 0,
        storage16: true,
        buffer_address: true,
        timeline: true,
        subgroup_arithmetic: true,
        subgroup_ballot: true,
        subgroup_shuffle: true,
        fp16: true,
        int8: true,
        int_dot8: true,
        subgroup_size_control: true,
        host_import_alignment: None,
        cooperative_matrix: false,
        cooperative_matrix2: false,
        small_halves: false,
        matrix_wide: Vec::new(),
    }
}

/// Likewise, with so many bytes of its own memory free.
#[cfg(test)]
pub(crate) fn fake_with(memory_budget_bytes: u64) -> Caps {
    Caps { memory_budget_bytes, ..fake("made up", DeviceKind::Discrete) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_needed_feature_is_refused_by_the_feature_s_name() {
        let whole = fake("Acme One", DeviceKind::Discrete);
        assert!(whole.require().is_ok());
        type Lack = fn(&mut Caps);
        let lacks: [(Lack, &str); 6] = [
            (|c| c.buffer_address = false, "bufferDeviceAddress"),
            (|c| c.timeline = false, "timelineSemaphore"),
            (|c| c.storage16 = false, "storageBuffer16BitAccess"),
            (|c| c.subgroup_arithmetic = false, "subgroup arithmetic"),
            (|c| c.max_shared_bytes = 16 << 10, "32 KiB of shared memory"),
            (|c| c.max_workgroup_invocations = 64, "workgroups of 128"),
        ];
        for (lack, feature) in lacks {
            let mut caps = whole.clone();
            lack(&mut caps);
            let error = caps.require().unwrap_err().to_string();
            assert!(error.contains(feature) && error.contains("Acme One"), "{error}");
        }
    }
}
