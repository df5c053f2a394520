//! Buffers by class. Which memory type a class gets is a pure choice over the device's table.

use super::caps::MemoryType;
use super::device::{add, lock, Device, Inner};
use super::import::Imported;
use crate::{Error, Result};
use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use gpu_allocator::MemoryLocation;
use std::sync::{Arc, Mutex};

/// What a buffer is for; it decides where the buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Written once, read by the device.
    Weights,
    /// Lives on the device between steps.
    State,
    /// Lives on the device within a step.
    Scratch,
    /// Small, written by the host each step, read by the device.
    Params,
    /// Written by the device, read by the host.
    Readback,
    /// Written by the host, copied from.
    Staging,
}

/// Buffers from this size on get their own allocation; those for staging from the second.
const DEDICATED_BYTES: u64 = 64 << 20;
const SLOT_BYTES: u64 = 2 << 20;

/// Memory type for a class on a device with this table, best first; `unified` devices have one memory.
///
/// On discrete devices the large classes never take host-visible memory while another local type exists: drivers place
/// such buffers badly, and the visible window may be small.
pub(super) fn memory_type(types: &[MemoryType], class: Class, unified: bool) -> Option<usize> {
    let first = |f: &dyn Fn(&MemoryType) -> bool| types.iter().position(f);
    let mapped = |t: &MemoryType| t.host_visible && t.host_coherent;
    let found = match class {
        Class::Weights | Class::State | Class::Scratch if unified => first(&|t| t.device_local && mapped(t)),
        Class::Weights | Class::State | Class::Scratch => first(&|t| t.device_local && !t.host_visible),
        Class::Params => first(&|t| t.device_local && mapped(t)),
        Class::Readback => {
            first(&|t| mapped(t) && t.host_cached && !t.device_local).or_else(|| first(&|t| mapped(t) && t.host_cached))
        }
        // Cached: what was just written is read from the cache.
        Class::Staging => first(&|t| mapped(t) && t.host_cached && !t.device_local)
            .or_else(|| first(&|t| mapped(t) && !t.device_local)),
    };
    found.or_else(|| match class {
        Class::Weights | Class::State | Class::Scratch => first(&|t| t.device_local),
        _ => first(&mapped),
    })
}

struct Raw {
    device: Arc<Inner>,
    buffer: vk::Buffer,
    allocation: Mutex<Option<Allocation>>,
    imported: Option<Imported>,
    address: u64,
    mapped: Option<usize>,
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(allocation) = lock(&self.allocation).take() {
            if let Err(e) = lock(&self.device.allocator).free(allocation) {
                tracing::warn!("freeing device memory: {e}");
            }
        }
        // SAFETY: recordings that use the buffer hold a handle of it, so no work on the device names it any more.
        unsafe { self.device.raw.destroy_buffer(self.buffer, None) };
        if let Some(imported) = &self.imported {
            imported.free(&self.device);
        }
    }
}

/// A buffer on the device, or a range of one; a handle, freed with the last.
#[derive(Clone)]
pub struct Buffer {
    raw: Arc<Raw>,
    start: u64,
    len_bytes: u64,
}

impl Buffer {
    /// Device address.
    pub fn address(&self) -> u64 {
        self.raw.address + self.start
    }

    /// Size in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Whether the host can reach it.
    pub fn is_mapped(&self) -> bool {
        self.raw.mapped.is_some()
    }

    /// The range `start..start + len_bytes` as a buffer of its own.
    ///
    /// # Panics
    /// If the range leaves the buffer.
    pub fn range(&self, start: u64, len_bytes: u64) -> Buffer {
        assert!(start + len_bytes <= self.len_bytes, "a range of a buffer lies within it");
        Buffer { raw: self.raw.clone(), start: self.start + start, len_bytes }
    }

    /// The whole buffer and where this range starts in it.
    pub(super) fn raw(&self) -> (vk::Buffer, u64) {
        (self.raw.buffer, self.start)
    }

    pub(super) fn imported(device: &Arc<Inner>, buffer: vk::Buffer, imported: Imported, len_bytes: u64) -> Buffer {
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        // SAFETY: the caller has bound the buffer's memory.
        let address = unsafe { device.raw.get_buffer_device_address(&info) };
        let (device, allocation, imported) = (device.clone(), Mutex::new(None), Some(imported));
        let raw = Raw { device, buffer, allocation, imported, address, mapped: None };
        Buffer { raw: Arc::new(raw), start: 0, len_bytes }
    }

    fn host(&self, offset: u64, len: usize) -> *mut u8 {
        let base = self.raw.mapped.unwrap_or_else(|| panic!("a buffer the host reaches is in mapped memory"));
        assert!(offset + len as u64 <= self.len_bytes, "an access of the host lies within the buffer");
        (base + (self.start + offset) as usize) as *mut u8
    }

    /// Writes bytes; the device must not be using them.
    ///
    /// # Panics
    /// If the buffer is not mapped or too short.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let to = self.host(offset, bytes.len());
        // SAFETY: `host` checked the range; the memory is mapped and coherent for the buffer's life.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        add(&self.raw.device.totals.to_device, bytes.len() as u64);
    }

    /// Reads bytes the device has finished writing.
    ///
    /// # Panics
    /// If the buffer is not mapped or too short.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        let from = self.host(offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        add(&self.raw.device.totals.from_device, bytes.len() as u64);
    }
}

impl Device {
    /// A new buffer.
    ///
    /// # Errors
    /// Memory that ran out, with the numbers, or a size over the device's limit.
    pub fn buffer(&self, name: &str, len_bytes: u64, class: Class) -> Result<Buffer> {
        let inner = &self.0;
        let caps = &inner.caps;
        if len_bytes > caps.max_allocation_bytes {
            let most = caps.max_allocation_bytes;
            return Err(Error::OutOfMemory(format!(
                "{name}: expected at most {most} bytes in one allocation, found {len_bytes}"
            )));
        }
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let info = vk::BufferCreateInfo::default().size(len_bytes.max(16)).usage(usage);
        // SAFETY: plain creation on a live device.
        let buffer = unsafe { inner.raw.create_buffer(&info, None) }.map_err(|e| inner.failed("vkCreateBuffer", e))?;
        // SAFETY: the buffer was just made.
        let mut requirements = unsafe { inner.raw.get_buffer_memory_requirements(buffer) };
        let kind = memory_type(&caps.memory_types, class, caps.unified);
        let kind = kind.filter(|k| requirements.memory_type_bits & (1 << k) != 0);
        if let Some(kind) = kind {
            requirements.memory_type_bits = 1 << kind;
        }
        let visible = kind.is_some_and(|k| caps.memory_types[k].host_visible);
        let location = match class {
            Class::Weights if inner.force_staging => MemoryLocation::GpuOnly,
            Class::Readback => MemoryLocation::GpuToCpu,
            Class::Params | Class::Staging => MemoryLocation::CpuToGpu,
            _ if visible => MemoryLocation::CpuToGpu,
            _ => MemoryLocation::GpuOnly,
        };
        // A piece that buffers share costs by its size where it is the host's: a slot gets no more than it asks for.
        let own = if class == Class::Staging { SLOT_BYTES } else { DEDICATED_BYTES };
        let scheme = if len_bytes >= own {
            AllocationScheme::DedicatedBuffer(buffer)
        } else {
            AllocationScheme::GpuAllocatorManaged
        };
        let desc = AllocationCreateDesc { name, requirements, location, linear: true, allocation_scheme: scheme };
        let allocation = lock(&inner.allocator).allocate(&desc);
        let allocation = match allocation {
            Ok(allocation) => allocation,
            Err(e) => {
                // SAFETY: nothing uses the buffer yet.
                unsafe { inner.raw.destroy_buffer(buffer, None) };
                let (free, all) =
                    (caps.memory_budget_bytes >> 20, caps.heaps.iter().map(|h| h.len_bytes).max().unwrap_or(0) >> 20);
                return Err(Error::OutOfMemory(format!(
                    "{name}: {len_bytes} bytes on {} ({free} MiB free at start, largest heap {all} MiB): {e}",
                    caps.name
                )));
            }
        };
        add(&inner.totals.allocations, 1);
        // SAFETY: the memory belongs to this buffer alone and fits its requirements.
        let bound = unsafe { inner.raw.bind_buffer_memory(buffer, allocation.memory(), allocation.offset()) };
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        let mapped = allocation.mapped_ptr().map(|p| p.as_ptr() as usize);
        let mapped = mapped.filter(|_| !(class == Class::Weights && inner.force_staging));
        let raw = Raw {
            device: inner.clone(),
            buffer,
            mapped,
            allocation: Mutex::new(Some(allocation)),
            imported: None,
            // SAFETY: only asked after the memory is bound.
            address: if bound.is_ok() { unsafe { inner.raw.get_buffer_device_address(&info) } } else { 0 },
        };
        bound.map_err(|e| inner.failed("vkBindBufferMemory", e))?;
        Ok(Buffer { raw: Arc::new(raw), start: 0, len_bytes: len_bytes.max(16) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(heap: usize, flags: &str) -> MemoryType {
        let has = |c| flags.contains(c);
        MemoryType {
            heap,
            device_local: has('L'),
            host_visible: has('V'),
            host_coherent: has('V'),
            host_cached: has('C'),
        }
    }

    /// (table, unified, weights, params, readback, staging)
    #[test]
    fn classes_get_the_memory_meant_for_them_on_six_kinds_of_devices() {
        let cases = [
            ("256 MB BAR", vec![t(0, "L"), t(1, "V"), t(1, "VC"), t(2, "LV")], false, [0, 3, 2, 2]),
            ("ReBAR, visible type first", vec![t(0, "LV"), t(0, "L"), t(1, "V"), t(1, "VC")], false, [1, 0, 3, 3]),
            ("unified", vec![t(0, "LV"), t(0, "LVC")], true, [0, 0, 1, 0]),
            ("small VRAM, no window", vec![t(1, ""), t(0, "L"), t(1, "V"), t(1, "VC")], false, [1, 2, 3, 3]),
            ("no cached memory", vec![t(0, "L"), t(1, "V")], false, [0, 1, 1, 1]),
            ("all local memory visible", vec![t(1, "V"), t(0, "LV"), t(1, "VC")], false, [1, 1, 2, 2]),
        ];
        for (name, table, unified, expected) in cases {
            let found = [Class::Weights, Class::Params, Class::Readback, Class::Staging]
                .map(|c| memory_type(&table, c, unified).unwrap());
            assert_eq!(found, expected, "{name}");
        }
    }
}
