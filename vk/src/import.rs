//! Mapped file → device buffer without a copy, where host and device share one memory.

use super::device::Device;
use super::memory::{Backing, Buffer};
use ash::vk;
use pumex_gguf::map::{page_bytes, Map};
use std::ffi::c_void;

const HANDLE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;

/// Bytes of a mapping that are imported: the file's, and what is left of the last of the pieces that the device takes. None if
/// a mapping, which is of whole pages, may not have so many.
fn import_size(file_bytes: u64, page: u64, alignment: u64) -> Option<u64> {
    (alignment > 0 && page.is_multiple_of(alignment)).then(|| file_bytes.next_multiple_of(alignment))
}

/// Parts of so many bytes of which none is longer than `most`: where each starts, in whole pages, and its bytes.
fn parts(len: u64, most: u64, page: u64) -> Vec<(u64, u64)> {
    let each = most / page * page;
    let starts = (0..if each == 0 { 0 } else { len.div_ceil(each) }).map(|i| i * each);
    starts.map(|start| (start, each.min(len - start))).collect()
}

impl Device {
    /// Read-only buffers over a mapped file, as few as the device's limits allow, each with where it starts in the file, if this
    /// device can use the host's pages as they are.
    ///
    /// No error: whatever stands against it (a discrete device, a missing extension, a driver that takes no file pages), and what
    /// lies in two of them, the caller copies instead.
    pub fn import(&self, map: &Map) -> Vec<(u64, Buffer)> {
        let (inner, page) = (&self.0, page_bytes());
        let possible = inner.caps.unified && !self.forces_staging() && !map.is_empty() && inner.usable().is_ok();
        let alignment = inner.caps.host_import_alignment.filter(|_| possible);
        let Some(len) = alignment.and_then(|alignment| import_size(map.len() as u64, page, alignment)) else {
            return Vec::new();
        };
        let parts = parts(len, self.caps().largest_buffer(), page);
        parts.into_iter().map_while(|(start, len)| Some((start, self.import_part(map, start, len)?))).collect()
    }

    /// A buffer over `len` bytes of a mapping from `start` on, both in whole pages.
    fn import_part(&self, map: &Map, start: u64, len: u64) -> Option<Buffer> {
        let inner = &self.0;
        let caps = &inner.caps;
        let pointer = map.as_ptr().wrapping_add(start as usize).cast_mut().cast::<c_void>();
        let tell = |call: &str, e: vk::Result| tracing::info!("weights are copied: {call} of {}: {e:?}", caps.name);
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let info = vk::BufferCreateInfo::default().size(len).usage(usage).push_next(&mut external);
        // SAFETY: a mapping starts at a page and covers whole pages, so `len` bytes from `pointer` are mapped, as the caller
        // stays within them; the buffer holds the mapping for as long as the memory lives; chained structs live until their calls return.
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
        assert_eq!(import_size(5000, 4096, 4096), Some(8192));
        assert_eq!(import_size(5000, 16384, 16384), Some(16384));
        assert_eq!(import_size(16384, 16384, 4096), Some(16384));
        assert_eq!(import_size(5000, 16384, 4096), Some(8192));
        assert_eq!(import_size(5000, 4096, 16384), None, "the mapping may end before");
        assert_eq!(import_size(5000, 4096, 0), None);
    }

    #[test]
    fn files_over_the_limit_are_imported_in_parts_of_whole_pages() {
        assert_eq!(parts(8192, 1 << 30, 4096), [(0, 8192)]);
        assert_eq!(parts(8192, 8192, 4096), [(0, 8192)]);
        assert_eq!(parts(20480, 9000, 4096), [(0, 8192), (8192, 8192), (16384, 4096)]);
        assert_eq!(parts(20480, 4095, 4096), [], "no page fits");
        for (len, most) in [(4096, 4096), (40960, 12288), (1 << 33, (1 << 31) - 1)] {
            let parts = parts(len, most, 4096);
            assert_eq!(parts.iter().map(|(_, len)| len).sum::<u64>(), len);
            assert!(parts.iter().all(|(start, len)| start.is_multiple_of(4096) && *len <= most && *len > 0));
            assert!(parts.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0));
        }
    }
}
