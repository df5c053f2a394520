//! Mapped file → device buffer without a copy, where host and device share one memory.

use super::device::{Device, Inner};
use super::memory::Buffer;
use crate::map::Map;
use ash::vk;
use std::ffi::c_void;

/// Imports are whole pages of this size; devices that ask for more copy instead.
const PAGE: u64 = 4096;
const HANDLE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;

/// Device memory that is a mapped file; it holds the mapping.
pub(super) struct Imported {
    memory: vk::DeviceMemory,
    _map: Map,
}

impl Imported {
    pub(super) fn free(&self, inner: &Inner) {
        // SAFETY: the buffer over this memory is gone.
        unsafe { inner.raw.free_memory(self.memory, None) };
    }
}

impl Device {
    /// A read-only buffer over all of a mapped file, if this device can use the host's pages as they are.
    ///
    /// No error: whatever stands against it (a discrete device, a missing extension, a driver that takes no file pages, a
    /// file over the allocation limit), the caller copies instead.
    pub fn import(&self, map: &Map) -> Option<Buffer> {
        let inner = &self.0;
        let caps = &inner.caps;
        let len = (map.len() as u64).next_multiple_of(PAGE);
        let possible = caps.unified && caps.host_import_alignment.is_some_and(|a| PAGE.is_multiple_of(a));
        if !possible || inner.force_staging || map.is_empty() || len > caps.max_allocation_bytes {
            return None;
        }
        let pointer = map.as_ptr().cast_mut().cast::<c_void>();
        let tell = |call: &str, e: vk::Result| tracing::info!("weights are copied: {call} of {}: {e:?}", caps.name);
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let info = vk::BufferCreateInfo::default().size(len).usage(usage).push_next(&mut external);
        // SAFETY: a mapping starts at a page and covers whole pages, so `len` bytes from `pointer` are mapped; `Imported`
        // holds the mapping for as long as the memory lives; structs chained live until their calls return.
        unsafe {
            let host = ash::ext::external_memory_host::Device::new(&inner.instance, &inner.raw);
            let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
            let call = host.fp().get_memory_host_pointer_properties_ext;
            let result = call(inner.raw.handle(), HANDLE, pointer, &mut properties);
            result.result().map_err(|e| tell("vkGetMemoryHostPointerPropertiesEXT", e)).ok()?;
            let buffer = inner.raw.create_buffer(&info, None).map_err(|e| tell("vkCreateBuffer", e)).ok()?;
            let bits = inner.raw.get_buffer_memory_requirements(buffer).memory_type_bits & properties.memory_type_bits;
            let mut import = vk::ImportMemoryHostPointerInfoEXT::default().handle_type(HANDLE).host_pointer(pointer);
            let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let info = vk::MemoryAllocateInfo::default().allocation_size(len).memory_type_index(bits.trailing_zeros());
            let info = info.push_next(&mut import).push_next(&mut flags);
            let memory = if bits == 0 {
                Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE)
            } else {
                inner.raw.allocate_memory(&info, None)
            };
            let bound = memory.and_then(|memory| {
                let bound = inner.raw.bind_buffer_memory(buffer, memory, 0);
                bound.inspect_err(|_| inner.raw.free_memory(memory, None)).map(|()| memory)
            });
            match bound {
                Ok(memory) => Some(Buffer::imported(inner, buffer, Imported { memory, _map: map.clone() }, len)),
                Err(e) => {
                    tell("vkAllocateMemory", e);
                    inner.raw.destroy_buffer(buffer, None);
                    None
                }
            }
        }
    }
}
