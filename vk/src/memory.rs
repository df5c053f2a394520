//! Buffers by class. Which memory type a class gets is a pure choice over the device's table.

use super::caps::{Caps, MemoryType};
use super::counters::add;
use super::device::{Device, Inner};
use super::lock::lock;
use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use gpu_allocator::{AllocationError, MemoryLocation};
use pumex_gguf::map::Map;
use pumex_gguf::{Error, Result};
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

/// Bytes of the smallest buffer.
pub const LEAST_BYTES: u64 = 16;

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

/// The memory type that buffers of a class get on a device, if it has one for them.
pub fn memory_of(caps: &Caps, class: Class) -> Option<usize> {
    memory_type(&caps.memory_types, class, caps.unified)
}

/// What a buffer's bytes lie in.
pub(super) enum Backing {
    Own(Allocation),
    /// Device memory that is a mapped file, and the mapping.
    File(vk::DeviceMemory, Map),
}

/// Where the host reaches a buffer.
struct Mapped(*mut u8);

// SAFETY: the memory is mapped for the buffer's life and belongs to it alone; whoever has the lock around the pointer is the
// only one of the host who uses it.
unsafe impl Send for Mapped {}

struct RawBuffer {
    device: Arc<Inner>,
    buffer: vk::Buffer,
    backing: Option<Backing>,
    address: u64,
    mapped: Option<Mutex<Mapped>>,
    /// Bytes that count as in use: none of staging slots and imported pages.
    counted: u64,
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        self.device.totals.in_use.fetch_sub(self.counted, std::sync::atomic::Ordering::Relaxed);
        if !self.device.queue.may_free() {
            std::mem::forget(self.backing.take());
            return;
        }
        // SAFETY: recordings that use the buffer hold a handle of it and wait for their submissions, so no work on the device
        // names it any more; nothing but the buffer is in imported memory.
        unsafe {
            self.device.raw.destroy_buffer(self.buffer, None);
            match self.backing.take() {
                Some(Backing::File(memory, _map)) => self.device.raw.free_memory(memory, None),
                Some(Backing::Own(allocation)) => {
                    if let Err(e) = lock(&self.device.allocator).free(allocation) {
                        tracing::warn!("freeing device memory: {e}");
                    }
                }
                None => (),
            }
        }
    }
}

/// A buffer on the device, or a range of one; a handle, freed with the last.
#[derive(Clone)]
pub struct Buffer {
    raw: Arc<RawBuffer>,
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

    /// A buffer over memory that is bound to it, which the host reaches at `mapped`, if at all.
    pub(super) fn bound(
        device: &Arc<Inner>,
        buffer: vk::Buffer,
        backing: Backing,
        (len_bytes, counted): (u64, u64),
        mapped: Option<*mut u8>,
    ) -> Buffer {
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        // SAFETY: the caller has bound the buffer's memory.
        let address = unsafe { device.raw.get_buffer_device_address(&info) };
        let mapped = mapped.map(|at| Mutex::new(Mapped(at)));
        let raw = RawBuffer { device: device.clone(), buffer, backing: Some(backing), address, mapped, counted };
        Buffer { raw: Arc::new(raw), start: 0, len_bytes }
    }

    /// Where the host reaches `len` bytes from `offset` on; to be used under the lock.
    fn host(&self, offset: u64, len: usize) -> (&Mutex<Mapped>, usize) {
        let mapped = self.raw.mapped.as_ref();
        let mapped = mapped.unwrap_or_else(|| panic!("a buffer the host reaches is in mapped memory"));
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= self.len_bytes);
        assert!(fits, "an access of the host lies within the buffer");
        (mapped, (self.start + offset) as usize)
    }

    /// Writes bytes. What the device reads of them meanwhile is some of both; what another thread of the host does with the same
    /// buffer comes before or after.
    ///
    /// # Panics
    /// If the buffer is not mapped or too short.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let (mapped, at) = self.host(offset, bytes.len());
        let mapped = lock(mapped);
        // SAFETY: `host` checked the range, and the lock keeps other threads out.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapped.0.add(at), bytes.len()) };
        drop(mapped);
        add(&self.raw.device.totals.to_device, bytes.len() as u64);
    }

    /// Writes bytes as [`Buffer::write`] does, beside other threads that write to other parts of the buffer.
    ///
    /// # Safety
    /// Until it returns nobody else of the host reads or writes these bytes.
    ///
    /// # Panics
    /// If the buffer is not mapped or too short.
    pub(super) unsafe fn write_apart(&self, offset: u64, bytes: &[u8]) {
        let (mapped, at) = self.host(offset, bytes.len());
        let to = lock(mapped).0;
        // SAFETY: `host` checked the range; the caller keeps others from it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(at), bytes.len()) };
        add(&self.raw.device.totals.to_device, bytes.len() as u64);
    }

    /// Reads bytes the device has finished writing; of what it writes meanwhile, some.
    ///
    /// # Panics
    /// If the buffer is not mapped or too short.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        let (mapped, at) = self.host(offset, bytes.len());
        let mapped = lock(mapped);
        // SAFETY: as in `write`.
        unsafe { read_volatile(mapped.0.add(at), bytes) };
        drop(mapped);
        add(&self.raw.device.totals.from_device, bytes.len() as u64);
    }
}

/// Reads bytes that the device might be writing: whatever is there is taken, once.
///
/// # Safety
/// As many bytes can be read at `from`, and no other thread of the host writes them.
unsafe fn read_volatile(from: *const u8, bytes: &mut [u8]) {
    const WORD: usize = size_of::<u64>();
    let head = from.align_offset(WORD).min(bytes.len());
    let (start, rest) = bytes.split_at_mut(head);
    let words = rest.len() / WORD;
    // SAFETY: all of it lies within what the caller allows; words are read where they are aligned.
    unsafe {
        start.iter_mut().enumerate().for_each(|(i, b)| *b = from.add(i).read_volatile());
        let from = from.add(head);
        for (i, word) in rest.chunks_exact_mut(WORD).enumerate() {
            word.copy_from_slice(&from.cast::<u64>().add(i).read_volatile().to_ne_bytes());
        }
        let end = &mut rest[words * WORD..];
        end.iter_mut().enumerate().for_each(|(i, b)| *b = from.add(words * WORD + i).read_volatile());
    }
}

impl Device {
    /// A new buffer.
    ///
    /// # Errors
    /// Memory that ran out, with the numbers, or a size over the device's limit; a device that was waited for in vain.
    pub fn buffer(&self, name: &str, len_bytes: u64, class: Class) -> Result<Buffer> {
        let inner = &self.0;
        let caps = &inner.caps;
        inner.usable()?;
        let most = self.caps().largest_buffer();
        if len_bytes > most {
            return Err(Error::OutOfMemory(format!(
                "{name}: expected at most {most} bytes in one allocation, found {len_bytes}"
            )));
        }
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let info = vk::BufferCreateInfo::default().size(len_bytes.max(LEAST_BYTES)).usage(usage);
        // SAFETY: plain creation on a live device.
        let buffer =
            unsafe { inner.raw.create_buffer(&info, None) }.map_err(|e| inner.call_error("vkCreateBuffer", e))?;
        // SAFETY: the buffer was just made.
        let mut requirements = unsafe { inner.raw.get_buffer_memory_requirements(buffer) };
        let kind = memory_of(caps, class);
        let kind = kind.filter(|k| requirements.memory_type_bits & (1 << k) != 0);
        if let Some(kind) = kind {
            requirements.memory_type_bits = 1 << kind;
        }
        let visible = kind.is_some_and(|k| caps.memory_types[k].host_visible);
        let location = match class {
            Class::Weights if self.forces_staging() => MemoryLocation::GpuOnly,
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
        let allocation = match inner.injected.refuses() {
            true => Err(AllocationError::OutOfMemory),
            false => lock(&inner.allocator).allocate(&desc),
        };
        let allocation = match allocation {
            Ok(allocation) => allocation,
            Err(e) => {
                inner.log.refused.store(len_bytes, std::sync::atomic::Ordering::Relaxed);
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
        let len_bytes = len_bytes.max(LEAST_BYTES);
        let counted = if class == Class::Staging { 0 } else { len_bytes };
        add(&inner.totals.allocations, 1);
        add(&inner.totals.in_use, counted);
        // SAFETY: the memory belongs to this buffer alone and fits its requirements.
        let bound = unsafe { inner.raw.bind_buffer_memory(buffer, allocation.memory(), allocation.offset()) };
        if let Err(e) = bound {
            // SAFETY: nothing uses the buffer yet.
            unsafe { inner.raw.destroy_buffer(buffer, None) };
            let _ = lock(&inner.allocator).free(allocation); // what matters is the first error
            return Err(inner.call_error("vkBindBufferMemory", e));
        }
        let mapped = allocation.mapped_ptr().map(|p| p.as_ptr().cast::<u8>());
        let mapped = mapped.filter(|_| !(class == Class::Weights && self.forces_staging()));
        Ok(Buffer::bound(inner, buffer, Backing::Own(allocation), (len_bytes, counted), mapped))
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

    #[test]
    fn bytes_are_read_wherever_they_start_and_end() {
        let bytes: Vec<u8> = (0..64).collect();
        for (start, len) in (0..9).flat_map(|start| (0..40).map(move |len| (start, len))) {
            let mut found = vec![0xff; len];
            // SAFETY: `start + len` bytes are there, and nobody writes them.
            unsafe { read_volatile(bytes[start..].as_ptr(), &mut found) };
            assert_eq!(found, bytes[start..start + len], "{len} from {start}");
        }
    }
}
