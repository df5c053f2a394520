//! What a physical device says of itself, by properties, features and memory, as [`Caps`].

use super::matrix::{usable_columns, ElementType, FlexibleShape, Matrix2, MatrixScope, MatrixShape};
use super::{Caps, DeviceKind, FastDots, Heap, MemoryType};
use crate::matrix2;
use ash::vk;

/// Extensions that tell how many multiprocessors, compute units or cores there are.
const MULTIPROCESSORS: &str = "VK_NV_shader_sm_builtins";
const COMPUTE_UNITS: &str = "VK_AMD_shader_core_properties";
const ACTIVE_UNITS: &str = "VK_AMD_shader_core_properties2";
const SHADER_CORES: &str = "VK_ARM_shader_core_builtins";

const PCI: &str = "VK_EXT_pci_bus_info";

/// A physical device that is asked.
struct PhysicalDeviceReader<'a> {
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
    buffers: vk::PhysicalDeviceMaintenance4Properties<'static>,
    multiprocessors: vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV<'static>,
    compute_units: vk::PhysicalDeviceShaderCorePropertiesAMD<'static>,
    active_units: vk::PhysicalDeviceShaderCoreProperties2AMD<'static>,
    shader_cores: vk::PhysicalDeviceShaderCoreBuiltinsPropertiesARM<'static>,
    matrix2: matrix2::Properties,
    pci: vk::PhysicalDevicePCIBusInfoPropertiesEXT<'static>,
}

/// Features, likewise.
#[derive(Default)]
struct Features {
    basic: vk::PhysicalDeviceFeatures,
    v11: vk::PhysicalDeviceVulkan11Features<'static>,
    v12: vk::PhysicalDeviceVulkan12Features<'static>,
    subgroups: vk::PhysicalDeviceSubgroupSizeControlFeatures<'static>,
    dots: vk::PhysicalDeviceShaderIntegerDotProductFeatures<'static>,
    matrix2: matrix2::Features,
}

fn text(raw: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The queue family for all work, copies too: the first that can.
pub(crate) fn queue_family(instance: &ash::Instance, physical: vk::PhysicalDevice) -> u32 {
    // SAFETY: `physical` came from this instance.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    families.iter().position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE)).unwrap_or(0) as u32
}

/// Asks a device everything.
pub(crate) fn read(entry: &ash::Entry, instance: &ash::Instance, physical: vk::PhysicalDevice) -> Caps {
    // SAFETY: `physical` came from this instance.
    let (basic, extensions) = unsafe {
        let extensions = instance.enumerate_device_extension_properties(physical).unwrap_or_default();
        (instance.get_physical_device_properties(physical), extensions)
    };
    let extensions = extensions.iter().map(|e| text(&e.extension_name)).collect();
    let asked = PhysicalDeviceReader { entry, instance, physical, basic, extensions };
    let (properties, features) = (asked.properties(), asked.features());
    let (heaps, memory_types) = asked.memory();
    asked.caps(&properties, &features, heaps, memory_types)
}

impl PhysicalDeviceReader<'_> {
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
        if self.has_since_13("VK_KHR_maintenance4") {
            p = p.push_next(&mut found.buffers);
        }
        if self.has(MULTIPROCESSORS) {
            p = p.push_next(&mut found.multiprocessors);
        }
        if self.has(COMPUTE_UNITS) {
            p = p.push_next(&mut found.compute_units);
        }
        if self.has(ACTIVE_UNITS) {
            p = p.push_next(&mut found.active_units);
        }
        if self.has(SHADER_CORES) {
            p = p.push_next(&mut found.shader_cores);
        }
        if self.has(matrix2::name()) {
            p = p.push_next(&mut found.matrix2);
        }
        if self.has(PCI) {
            p = p.push_next(&mut found.pci);
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
        if self.has(matrix2::name()) {
            f = f.push_next(&mut found.matrix2);
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

    /// Products of cooperative matrices that the device tells of.
    fn matrix_shapes(&self) -> Vec<MatrixShape> {
        if !self.has("VK_KHR_cooperative_matrix") {
            return Vec::new();
        }
        let loader = ash::khr::cooperative_matrix::Instance::new(self.entry, self.instance);
        // SAFETY: the device has the extension, and came from this instance.
        let shapes = unsafe { loader.get_physical_device_cooperative_matrix_properties(self.physical) };
        let shapes = shapes.unwrap_or_default();
        let mut all: Vec<MatrixShape> = Vec::with_capacity(shapes.len());
        for s in &shapes {
            let [a, b, c, result] = [s.a_type, s.b_type, s.c_type, s.result_type].map(ElementType::of);
            let shape =
                MatrixShape { m: s.m_size, n: s.n_size, k: s.k_size, a, b, c, result, scope: MatrixScope::of(s.scope) };
            if !all.contains(&shape) {
                all.push(shape); // with and without saturation they are the same otherwise
            }
        }
        all
    }

    /// What VK_NV_cooperative_matrix2 adds.
    fn matrix2(&self, p: &Properties, f: &Features) -> Option<Matrix2> {
        if !self.has(matrix2::name()) {
            return None;
        }
        let list = matrix2::flexible_dimensions(self.entry, self.instance, self.physical);
        let shape = |d: &matrix2::FlexibleDimensions| {
            let [a, b, c, result] = [d.a_type, d.b_type, d.c_type, d.result_type].map(ElementType::of);
            let (m, n, k) = (d.m_granularity, d.n_granularity, d.k_granularity);
            let shape = MatrixShape { m, n, k, a, b, c, result, scope: MatrixScope::of(d.scope) };
            FlexibleShape { shape, threads: d.workgroup_invocations }
        };
        let (p, f) = (p.matrix2, f.matrix2);
        Some(Matrix2 {
            workgroup_scope: f.workgroup_scope == vk::TRUE,
            flexible_dimensions: f.flexible_dimensions == vk::TRUE,
            reductions: f.reductions == vk::TRUE,
            conversions: f.conversions == vk::TRUE,
            per_element: f.per_element_operations == vk::TRUE,
            tensor_addressing: f.tensor_addressing == vk::TRUE,
            block_loads: f.block_loads == vk::TRUE,
            max_threads: p.max_workgroup_size,
            max_dimension: p.max_dimension,
            reserved_shared_bytes: p.reserved_shared_memory,
            shapes: list.iter().map(shape).collect(),
        })
    }

    /// Columns of cooperative matrices that the kernels can use, fewest first; none if anything else is missing that they need.
    fn matrix_n(&self, p: &Properties, f: &Features, shapes: &[MatrixShape]) -> Vec<u32> {
        let features = [f.v12.shader_float16, f.v12.vulkan_memory_model, f.v12.vulkan_memory_model_device_scope];
        let ops = vk::SubgroupFeatureFlags::VOTE | vk::SubgroupFeatureFlags::SHUFFLE;
        let fits = p.v11.subgroup_size == 32
            && p.v11.subgroup_supported_operations.contains(ops)
            && !features.contains(&vk::FALSE);
        if fits {
            usable_columns(shapes)
        } else {
            Vec::new()
        }
    }

    /// Multiprocessors, and subgroups that one holds at a time, by whichever extension tells them.
    fn cores(&self, p: &Properties) -> (Option<u32>, Option<u32>) {
        let some = |n: u32| Some(n).filter(|n| *n > 0);
        if self.has(MULTIPROCESSORS) {
            return (some(p.multiprocessors.shader_sm_count), some(p.multiprocessors.shader_warps_per_sm));
        }
        if self.has(COMPUTE_UNITS) {
            let u = &p.compute_units;
            let all = u.shader_engine_count * u.shader_arrays_per_engine_count * u.compute_units_per_shader_array;
            let active = if self.has(ACTIVE_UNITS) { p.active_units.active_compute_unit_count } else { 0 };
            return (some(active).or(some(all)), some(u.wavefronts_per_simd));
        }
        if self.has(SHADER_CORES) {
            return (some(p.shader_cores.shader_core_count), some(p.shader_cores.shader_warps_per_core));
        }
        (None, None)
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
        let (cores, waves) = self.cores(p);
        let shapes = self.matrix_shapes();
        let local = heaps.iter().filter(|h| h.device_local).map(|h| h.budget_bytes).max().unwrap_or(0);
        Caps {
            name: text(&self.basic.device_name),
            driver: driver.trim().to_string(),
            driver_id: format!("{:?}", p.v12.driver_id),
            driver_version: self.basic.driver_version,
            api_version: format!("{major}.{minor}.{patch}"),
            vendor_id: self.basic.vendor_id,
            device_id: self.basic.device_id,
            uuid: hex(&p.v11.device_uuid),
            driver_uuid: hex(&p.v11.driver_uuid),
            pci: self.has(PCI).then(|| {
                let at = &p.pci;
                format!("{:04x}:{:02x}:{:02x}.{:x}", at.pci_domain, at.pci_bus, at.pci_device, at.pci_function)
            }),
            kind,
            unified: matches!(kind, DeviceKind::Integrated | DeviceKind::Cpu),
            subgroup_size: size,
            subgroup_sizes: Vec::new(),
            subgroup_min: if asks_size { p.subgroups.min_subgroup_size } else { size },
            subgroup_max: if asks_size { p.subgroups.max_subgroup_size } else { size },
            subgroup_size_control: asks_size,
            full_subgroups: f.subgroups.compute_full_subgroups == vk::TRUE,
            emulated_subgroups: false,
            max_workgroup_subgroups: p.subgroups.max_compute_workgroup_subgroups,
            max_workgroup_invocations: limits.max_compute_work_group_invocations,
            max_groups: limits.max_compute_work_group_count,
            cores,
            measured_cores: None,
            waves,
            max_shared_bytes: limits.max_compute_shared_memory_size,
            max_push_bytes: limits.max_push_constants_size,
            max_allocation_bytes: p.allocation.max_memory_allocation_size,
            max_buffer_bytes: Some(p.buffers.max_buffer_size).filter(|bytes| *bytes > 0),
            max_storage_range: Some(limits.max_storage_buffer_range),
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
            float8: self.has("VK_EXT_shader_float8"),
            int_dot8: f.dots.shader_integer_dot_product == vk::TRUE,
            fast_dots: fast_dots(&p.dots),
            host_import_alignment: self
                .has("VK_EXT_external_memory_host")
                .then_some(p.import.min_imported_host_pointer_alignment),
            cooperative_matrix: self.has("VK_KHR_cooperative_matrix"),
            cooperative_matrix2: self.has(matrix2::name()),
            small_halves: p.v12.shader_denorm_preserve_float16 == vk::TRUE,
            matrix_n: self.matrix_n(p, f, &shapes),
            matrix_shapes: shapes,
            matrix2: self.matrix2(p, f),
            disabled: Vec::new(),
            tuned: Vec::new(),
        }
    }
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
