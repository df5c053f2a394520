//! The Vulkan loader and instances, and what their errors mean to a user.

use super::lock::lock;
use ash::{ext, vk};
use pumex_gguf::{Error, Result};
use std::ffi::CStr;
use std::sync::{Mutex, OnceLock};

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// A call that the driver refused, as an error.
pub(super) fn call_error(call: &'static str, device: &str, result: vk::Result) -> Error {
    match result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            Error::OutOfMemory(format!("{call} on {device}"))
        }
        vk::Result::ERROR_DEVICE_LOST => Error::Lost(format!("{call} on {device}: {result:?}")),
        other => Error::Vulkan { call, device: device.to_string(), result: format!("{other:?}") },
    }
}

/// The system's Vulkan loader, loaded once and kept: drivers do not give back all they take when they are unloaded, so that
/// a process that opens devices again and again would run out of room for them.
pub(super) fn entry() -> Result<ash::Entry> {
    static ENTRY: OnceLock<std::result::Result<ash::Entry, String>> = OnceLock::new();
    // SAFETY: loading the loader runs its initializers, as every Vulkan program does.
    let loaded = ENTRY.get_or_init(|| unsafe { ash::Entry::load() }.map_err(|e| e.to_string()));
    loaded.clone().map_err(|e| {
        Error::Device(format!("expected a Vulkan loader (libvulkan.so.1), found none: {e}; --device cpu needs none"))
    })
}

/// An instance with the validation layer, its owner's alone; or the plain one, made once and kept like the loader: drivers
/// are unloaded with the last instance.
pub(super) fn instance(entry: &ash::Entry, validation: bool) -> Result<ash::Instance> {
    static PLAIN: Mutex<Option<ash::Instance>> = Mutex::new(None);
    let mut plain = lock(&PLAIN);
    let kept = match plain.take() {
        Some(kept) => kept,
        None => new_instance(entry, false)?,
    };
    *plain = Some(kept.clone());
    if validation {
        new_instance(entry, true)
    } else {
        Ok(kept)
    }
}

fn new_instance(entry: &ash::Entry, validation: bool) -> Result<ash::Instance> {
    let app = vk::ApplicationInfo::default().application_name(c"pumex").api_version(vk::API_VERSION_1_3);
    let (mut layers, mut extensions) = (vec![], vec![]);
    let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
    let mut info = vk::InstanceCreateInfo::default().application_info(&app);
    if validation {
        layers.push(LAYER.as_ptr());
        extensions.push(ext::debug_utils::NAME.as_ptr());
        extensions.push(ext::validation_features::NAME.as_ptr());
        info = info.push_next(&mut features);
    }
    let info = info.enabled_layer_names(&layers).enabled_extension_names(&extensions);
    // SAFETY: every pointer in `info` lives until the call returns.
    unsafe { entry.create_instance(&info, None) }.map_err(|e| match e {
        vk::Result::ERROR_LAYER_NOT_PRESENT => Error::Device(
            "expected the layer VK_LAYER_KHRONOS_validation, found none (Debian: vulkan-validationlayers)".into(),
        ),
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
            Error::Device("expected a Vulkan driver, found none; --device cpu needs none".into())
        }
        other => call_error("vkCreateInstance", "the Vulkan loader", other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_refuses_is_told_by_call_device_and_result() {
        let lost = call_error("vkQueueSubmit", "Acme One", vk::Result::ERROR_DEVICE_LOST).to_string();
        assert!(["vkQueueSubmit", "Acme One", "ERROR_DEVICE_LOST"].iter().all(|w| lost.contains(w)), "{lost}");
        let full = call_error("vkAllocateMemory", "Acme One", vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        assert!(matches!(full, Error::OutOfMemory(_)));
    }
}
