//! VK_NV_cooperative_matrix2 as the specification lays it out; ash 0.38 has none of it.

use ash::vk;
use std::ffi::{c_void, CStr};

/// The extension's name.
pub(super) const NAME: &CStr = c"VK_NV_cooperative_matrix2";

/// The extension's name.
pub(super) fn name() -> &'static str {
    NAME.to_str().unwrap_or_default()
}

/// VkPhysicalDeviceCooperativeMatrix2FeaturesNV.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Features {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    pub workgroup_scope: vk::Bool32,
    pub flexible_dimensions: vk::Bool32,
    pub reductions: vk::Bool32,
    pub conversions: vk::Bool32,
    pub per_element_operations: vk::Bool32,
    pub tensor_addressing: vk::Bool32,
    pub block_loads: vk::Bool32,
}

impl Features {
    const fn each(on: vk::Bool32) -> Features {
        Features {
            s_type: vk::StructureType::from_raw(1_000_593_000),
            p_next: std::ptr::null_mut(),
            workgroup_scope: on,
            flexible_dimensions: on,
            reductions: on,
            conversions: on,
            per_element_operations: on,
            tensor_addressing: on,
            block_loads: on,
        }
    }

    /// All of them, to be asked for.
    pub const fn all() -> Features {
        Features::each(vk::TRUE)
    }
}

impl Default for Features {
    fn default() -> Features {
        Features::each(vk::FALSE)
    }
}

// SAFETY: the struct starts as every struct of Vulkan's chains does, and the specification lets it extend these two.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Features {}
// SAFETY: likewise.
unsafe impl vk::ExtendsDeviceCreateInfo for Features {}

/// VkPhysicalDeviceCooperativeMatrix2PropertiesNV.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Properties {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    pub max_workgroup_size: u32,
    pub max_dimension: u32,
    pub reserved_shared_memory: u32,
}

impl Default for Properties {
    fn default() -> Properties {
        Properties {
            s_type: vk::StructureType::from_raw(1_000_593_002),
            p_next: std::ptr::null_mut(),
            max_workgroup_size: 0,
            max_dimension: 0,
            reserved_shared_memory: 0,
        }
    }
}

// SAFETY: the struct starts as every struct of Vulkan's chains does, and the specification lets it extend this one.
unsafe impl vk::ExtendsPhysicalDeviceProperties2 for Properties {}

/// VkCooperativeMatrixFlexibleDimensionsPropertiesNV.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FlexibleDimensions {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    pub m_granularity: u32,
    pub n_granularity: u32,
    pub k_granularity: u32,
    pub a_type: vk::ComponentTypeKHR,
    pub b_type: vk::ComponentTypeKHR,
    pub c_type: vk::ComponentTypeKHR,
    pub result_type: vk::ComponentTypeKHR,
    pub saturating_accumulation: vk::Bool32,
    pub scope: vk::ScopeKHR,
    pub workgroup_invocations: u32,
}

impl Default for FlexibleDimensions {
    fn default() -> FlexibleDimensions {
        FlexibleDimensions {
            s_type: vk::StructureType::from_raw(1_000_593_001),
            p_next: std::ptr::null_mut(),
            m_granularity: 0,
            n_granularity: 0,
            k_granularity: 0,
            a_type: vk::ComponentTypeKHR::default(),
            b_type: vk::ComponentTypeKHR::default(),
            c_type: vk::ComponentTypeKHR::default(),
            result_type: vk::ComponentTypeKHR::default(),
            saturating_accumulation: 0,
            scope: vk::ScopeKHR::default(),
            workgroup_invocations: 0,
        }
    }
}

type Enumerate = unsafe extern "system" fn(vk::PhysicalDevice, *mut u32, *mut FlexibleDimensions) -> vk::Result;

/// All granularities of a device that has the extension; none where the driver does not answer.
pub(super) fn flexible_dimensions(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Vec<FlexibleDimensions> {
    let name = c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
    // SAFETY: the instance is alive, and the name ends with a zero.
    let Some(found) = (unsafe { entry.get_instance_proc_addr(instance.handle(), name.as_ptr()) }) else {
        return Vec::new();
    };
    // SAFETY: the function of that name has this signature.
    let enumerate: Enumerate = unsafe { std::mem::transmute(found) };
    let mut count = 0;
    // SAFETY: `physical` came from this instance; without a list only the count is written.
    if unsafe { enumerate(physical, &mut count, std::ptr::null_mut()) } != vk::Result::SUCCESS {
        return Vec::new();
    }
    let mut list = vec![FlexibleDimensions::default(); count as usize];
    // SAFETY: the list has room for `count` of them.
    if unsafe { enumerate(physical, &mut count, list.as_mut_ptr()) } != vk::Result::SUCCESS {
        return Vec::new();
    }
    list.truncate(count as usize);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_specification() {
        assert_eq!(size_of::<Features>(), 16 + 7 * 4 + 4, "with padding to the pointer's alignment");
        assert_eq!(size_of::<Properties>(), 16 + 3 * 4 + 4);
        assert_eq!(size_of::<FlexibleDimensions>(), 16 + 10 * 4);
    }
}
