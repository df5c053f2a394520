//! The validation layer's messages, kept for tests and logs.

use ash::vk;
use std::ffi::{c_void, CStr};
use std::sync::Mutex;

/// Messages so far.
pub type Messages = Mutex<Vec<String>>;

/// Called by the layer for every message.
pub(super) unsafe extern "system" fn on_message(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    if kind.contains(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION) && !data.is_null() && !user.is_null() {
        // SAFETY: the layer passes a valid message, and `user` is the list that outlives the messenger.
        let (text, list) = unsafe {
            let raw = (*data).p_message;
            let text = if raw.is_null() { String::new() } else { CStr::from_ptr(raw).to_string_lossy().into_owned() };
            (text, &*user.cast::<Messages>())
        };
        tracing::warn!("validation {severity:?}: {text}");
        if let Ok(mut list) = list.lock() {
            list.push(text);
        }
    }
    vk::FALSE
}
