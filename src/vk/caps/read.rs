//! What a physical device says of itself, by properties, features and memory, as [`Caps`].

use super::{Caps, DeviceKind, FastDots, Heap, MemoryType};
use ash::vk;

/// A physical device that is asked.
struct Asked<'a> {
    entry: &'a ash::Entry,
    instance: &'a ash::Instance,
    physical: vk::PhysicalDevice,
    basic: vk::PhysicalDeviceProperties,
    extensions: Vec<String>,
}

/// Properties beyond the basic ones; zeros where the device does not know the struct. Not to be handed to the driver again:
/// they point to each other where they were.
#[derive(Default)]
struct Properties {
    v11: vk::PhysicalDeviceVulkan11Properties<'static>,
    v12: vk::PhysicalDeviceVulkan12Properties<'static>,
    allocation: vk::PhysicalDeviceMaintenance3Properties<'static>,
    subgroups: vk::PhysicalDeviceSubgroupSizeControlProperties<'static>,
    dots: vk::PhysicalDeviceShaderIntegerDotProductProperties<'static>,
    import: vk::PhysicalDeviceExternalMemoryHostPropertiesEXT<'static>,
    cores: vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV<'static>,
}

/// Features, likewise.
#[derive(Default)]
struct Features {
    basic: vk::PhysicalDeviceFeatures,
    v11: vk::PhysicalDeviceVulkan11Features<'static>,
    v12: vk::PhysicalDeviceVulkan12Features<'static>,
    subgroups: vk::PhysicalDeviceSubgroupSizeControlFeatures<'static>,
    dots: vk::PhysicalDeviceShaderIntegerDotProductFeatures<'static>,
}

fn text(raw: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The queue family for all work, copies too: the first that can.
pub(in crate::vk) fn queue_family(instance: &ash::Instance, physical: vk::PhysicalDevice) -> u32 {
    // SAFETY: `physical` came from this instance.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    families.iter().position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE)).unwrap_or(0) as u32
}

/// Asks a device everything.
pub(in crate::vk) fn read(entry: &ash::Entry, instance: &ash::Instance, physical: vk::PhysicalDevice) -> Caps {
    // SAFETY: `physical` came from this instance.
    let (basic, extensions) = unsafe {
        let extensions = instance.enumerate_device_extension_properties(physical).unwrap_or_default();
        (instance.get_physical_device_properties(physical), extensions)
    };
    let extensions = extensions.iter().map(|e| text(&e.extension_name)).collect();
    let asked = Asked { entry, instance, physical, basic, extensions };
    let (properties, features) = (asked.properties(), asked.features());
    let (heaps, memory_types) = asked.memory();
    asked.caps(&properties, &features, heaps, memory_types)
}

impl Asked<'_> {
    fn has(&self, extension: &str) -> bool {
        self.extensions.iter().any(|e| e == extension)
    }

    /// Whether the device has what Vulkan 1.3 took over from an extension.
    fn has_since_13(&self, extension: &str) -> bool {
        self.basic.api_version >= vk::API_VERSION_1_3 || self.has(extension)
    }

    fn properties(&self) -> Properties {
        let mut found = Properties::default();
        let mut p = vk::PhysicalDeviceProperties2::default().push_next(&mut found.allocation);
        if self.basic.api_version >= vk::API_VERSION_1_2 {
            p = p.push_next(&mut found.v11).push_next(&mut found.v12);
        }
        if self.has_since_13("VK_EXT_subgroup_size_control") {
            p = p.push_next(&mut found.subgroups);
        }
        if self.has_since_13("VK_KHR_shader_integer_dot_product") {
            p = p.push_next(&mut found.dots);
        }
        if self.has("VK_EXT_external_memory_host") {
            p = p.push_next(&mut found.import);
        }
        if self.has("VK_NV_shader_sm_builtins") {
            p = p.push_next(&mut found.cores);
        }
        // SAFETY: `physical` came from this instance; all chained structs live until the call returns.
        unsafe { self.instance.get_physical_device_properties2(self.physical, &mut p) };
        found
    }

    fn features(&self) -> Features {
        let mut found = Features::default();
        let mut f = vk::PhysicalDeviceFeatures2::default();
        if self.basic.api_version >= vk::API_VERSION_1_2 {
            f = f.push_next(&mut found.v11).push_next(&mut found.v12);
        }
        if self.has_since_13("VK_EXT_subgroup_size_control") {
            f = f.push_next(&mut found.subgroups);
        }
        if self.has_since_13("VK_KHR_shader_integer_dot_product") {
            f = f.push_next(&mut found.dots);
        }
        // SAFETY: as in `properties`.
        unsafe { self.instance.get_physical_device_features2(self.physical, &mut f) };
        found.basic = f.features;
        found
    }

    fn memory(&self) -> (Vec<Heap>, Vec<MemoryType>) {
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut m = vk::PhysicalDeviceMemoryProperties2::default();
        let has_budget = self.has("VK_EXT_memory_budget");
        if has_budget {
            m = m.push_next(&mut budget);
        }
        // SAFETY: as in `properties`.
        unsafe { self.instance.get_physical_device_memory_properties2(self.physical, &mut m) };
        let memory = m.memory_properties;
        let free = |i: usize| budget.heap_budget[i].saturating_sub(budget.heap_usage[i]);
        let told = |i: usize| if has_budget { free(i) } else { memory.memory_heaps[i].size };
        let heaps = memory.memory_heaps[..memory.memory_heap_count as usize].iter().enumerate();
        let heaps = heaps.map(|(i, h)| heap(h, told(i))).collect();
        let types = memory.memory_types[..memory.memory_type_count as usize].iter().map(memory_type).collect();
        (heaps, types)
    }

    /// Columns of cooperative matrices that the kernels can use, fewest first; none if anything else is missing that they need.
    fn matrix_n(&self, p: &Properties, f: &Features) -> Vec<u32> {
        let features = [f.v12.shader_float16, f.v12.vulkan_memory_model, f.v12.vulkan_memory_model_device_scope];
        let ops = vk::SubgroupFeatureFlags::VOTE | vk::SubgroupFeatureFlags::SHUFFLE;
        let fits = self.has("VK_KHR_cooperative_matrix")
            && p.v11.subgroup_size == 32
            && p.v11.subgroup_supported_operations.contains(ops)
            && !features.contains(&vk::FALSE);
        if !fits {
            return Vec::new();
        }
        let loader = ash::khr::cooperative_matrix::Instance::new(self.entry, self.instance);
        // SAFETY: the device has the extension, and came from this instance.
        let shapes = unsafe { loader.get_physical_device_cooperative_matrix_properties(self.physical) };
        let mut wide: Vec<u32> = shapes.unwrap_or_default().iter().filter(|s| takes(s)).map(|s| s.n_size).collect();
        wide.sort_unstable();
        wide.dedup();
        wide
    }

    fn caps(&self, p: &Properties, f: &Features, heaps: Vec<Heap>, memory_types: Vec<MemoryType>) -> Caps {
        let (limits, v) = (self.basic.limits, self.basic.api_version);
        let kind = kind(self.basic.device_type);
        let compute = vk::ShaderStageFlags::COMPUTE;
        let ops = p.v11.subgroup_supported_operations;
        let size = p.v11.subgroup_size.max(1);
        let asks_size = f.subgroups.subgroup_size_control == vk::TRUE
            && p.subgroups.required_subgroup_size_stages.contains(compute)
            && (p.subgroups.min_subgroup_size..=p.subgroups.max_subgroup_size).contains(&size);
        let driver = format!("{} {}", text(&p.v12.driver_name), text(&p.v12.driver_info));
        let [major, minor, patch] = [vk::api_version_major(v), vk::api_version_minor(v), vk::api_version_patch(v)];
        let local = heaps.iter().filter(|h| h.device_local).map(|h| h.budget_bytes).max().unwrap_or(0);
        Caps {
            name: text(&self.basic.device_name),
            driver: driver.trim().to_string(),
            api_version: format!("{major}.{minor}.{patch}"),
            vendor_id: self.basic.vendor_id,
            device_id: self.basic.device_id,
            uuid: hex(&p.v11.device_uuid),
            driver_uuid: hex(&p.v11.driver_uuid),
            kind,
            unified: matches!(kind, DeviceKind::Integrated | DeviceKind::Cpu),
            subgroup_size: size,
            subgroup_min: if asks_size { p.subgroups.min_subgroup_size } else { size },
            subgroup_max: if asks_size { p.subgroups.max_subgroup_size } else { size },
            subgroup_size_control: asks_size,
            full_subgroups: f.subgroups.compute_full_subgroups == vk::TRUE,
            max_workgroup_subgroups: p.subgroups.max_compute_workgroup_subgroups,
            max_workgroup_invocations: limits.max_compute_work_group_invocations,
            max_groups: limits.max_compute_work_group_count,
            cores: self.has("VK_NV_shader_sm_builtins").then_some(p.cores.shader_sm_count),
            max_shared_bytes: limits.max_compute_shared_memory_size,
            max_push_bytes: limits.max_push_constants_size,
            max_allocation_bytes: p.allocation.max_memory_allocation_size,
            timestamp_period_ns: limits.timestamp_period,
            heaps,
            memory_types,
            memory_budget_bytes: local,
            storage16: f.v11.storage_buffer16_bit_access == vk::TRUE && f.basic.shader_int16 == vk::TRUE,
            buffer_address: f.v12.buffer_device_address == vk::TRUE,
            timeline: f.v12.timeline_semaphore == vk::TRUE,
            subgroup_arithmetic: ops.contains(vk::SubgroupFeatureFlags::ARITHMETIC)
                && p.v11.subgroup_supported_stages.contains(compute),
            subgroup_ballot: ops.contains(vk::SubgroupFeatureFlags::BALLOT),
            subgroup_shuffle: ops.contains(vk::SubgroupFeatureFlags::SHUFFLE),
            fp16: f.v12.shader_float16 == vk::TRUE,
            int8: f.v12.shader_int8 == vk::TRUE,
            int_dot8: f.dots.shader_integer_dot_product == vk::TRUE,
            fast_dots: fast_dots(&p.dots),
            host_import_alignment: self
                .has("VK_EXT_external_memory_host")
                .then_some(p.import.min_imported_host_pointer_alignment),
            cooperative_matrix: self.has("VK_KHR_cooperative_matrix"),
            cooperative_matrix2: self.has("VK_NV_cooperative_matrix2"),
            small_halves: p.v12.shader_denorm_preserve_float16 == vk::TRUE,
            matrix_n: self.matrix_n(p, f),
        }
    }
}

/// Whether kernels can use cooperative matrices of that shape: 16 x 16 halves by 16 x 8 or 16, sums in floats.
fn takes(p: &vk::CooperativeMatrixPropertiesKHR<'_>) -> bool {
    let (half, float) = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
    (p.m_size, p.k_size, p.scope) == (16, 16, vk::ScopeKHR::SUBGROUP)
        && (p.a_type, p.b_type, p.c_type, p.result_type) == (half, half, float, float)
        && matches!(p.n_size, 8 | 16)
}

fn fast_dots(p: &vk::PhysicalDeviceShaderIntegerDotProductProperties<'_>) -> FastDots {
    FastDots {
        signed: p.integer_dot_product4x8_bit_packed_signed_accelerated == vk::TRUE,
        unsigned: p.integer_dot_product4x8_bit_packed_unsigned_accelerated == vk::TRUE,
        mixed: p.integer_dot_product4x8_bit_packed_mixed_signedness_accelerated == vk::TRUE,
    }
}

fn kind(kind: vk::PhysicalDeviceType) -> DeviceKind {
    match kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::Discrete,
        vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::Integrated,
        vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceKind::Virtual,
        vk::PhysicalDeviceType::CPU => DeviceKind::Cpu,
        _ => DeviceKind::Other,
    }
}

/// A heap of which the driver told that so many bytes are free; 0 if it does not know.
fn heap(h: &vk::MemoryHeap, told: u64) -> Heap {
    Heap {
        len_bytes: h.size,
        budget_bytes: if told == 0 { h.size / 5 * 4 } else { told.min(h.size) },
        device_local: h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
    }
}

fn memory_type(t: &vk::MemoryType) -> MemoryType {
    let flag = |f| t.property_flags.contains(f);
    MemoryType {
        heap: t.heap_index as usize,
        device_local: flag(vk::MemoryPropertyFlags::DEVICE_LOCAL),
        host_visible: flag(vk::MemoryPropertyFlags::HOST_VISIBLE),
        host_coherent: flag(vk::MemoryPropertyFlags::HOST_COHERENT),
        host_cached: flag(vk::MemoryPropertyFlags::HOST_CACHED),
    }
}
