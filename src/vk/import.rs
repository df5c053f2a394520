//! Mapped file → device buffer without a copy, where host and device share one memory.

use super::device::Device;
use super::memory::{Backing, Buffer};
use crate::map::{page_bytes, Map};
use ash::vk;
use std::ffi::c_void;

const HANDLE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;

/// Bytes of a mapping that are imported: the file's, and what is left of the last of the pieces that the device takes. None if
/// a mapping, which is of whole pages, may not have so many.
fn imported_bytes(file_bytes: u64, page: u64, alignment: u64) -> Option<u64> {
    (alignment > 0 && page.is_multiple_of(alignment)).then(|| file_bytes.next_multiple_of(alignment))
}

impl Device {
    /// A read-only buffer over all of a mapped file, if this device can use the host's pages as they are.
    ///
    /// No error: whatever stands against it (a discrete device, a missing extension, a driver that takes no file pages, a
    /// file over the allocation limit), the caller copies instead.
    pub fn import(&self, map: &Map) -> Option<Buffer> {
        let inner = &self.0;
        let caps = &inner.caps;
        let len = imported_bytes(map.len() as u64, page_bytes(), caps.host_import_alignment?)?;
        let possible = caps.unified && !inner.force_staging && !map.is_empty() && inner.usable().is_ok();
        if !possible || len > caps.max_allocation_bytes {
            return None;
        }
        let pointer = map.as_ptr().cast_mut().cast::<c_void>();
        let tell = |call: &str, e: vk::Result| tracing::info!("weights are copied: {call} of {}: {e:?}", caps.name);
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let info = vk::BufferCreateInfo::default().size(len).usage(usage).push_next(&mut external);
        // SAFETY: a mapping starts at a page and covers whole pages, so `len` bytes from `pointer` are mapped; the
        // buffer holds the mapping for as long as the memory lives; chained structs live until their calls return.
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
                Ok(memory) => Some(Buffer::bound(inner, buffer, Backing::File(memory, map.clone()), (len, 0), None)),
                Err(e) => {
                    tell("vkAllocateMemory", e);
                    inner.raw.destroy_buffer(buffer, None);
                    None
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_imported_whatever_their_size() {
        assert_eq!(imported_bytes(5000, 4096, 4096), Some(8192));
        assert_eq!(imported_bytes(5000, 16384, 16384), Some(16384));
        assert_eq!(imported_bytes(16384, 16384, 4096), Some(16384));
        assert_eq!(imported_bytes(5000, 16384, 4096), Some(8192));
        assert_eq!(imported_bytes(5000, 4096, 16384), None, "the mapping may end before");
        assert_eq!(imported_bytes(5000, 4096, 0), None);
    }
}
