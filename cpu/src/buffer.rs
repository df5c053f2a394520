//! Memory for weights and other large things: aligned to cache lines, zero at first, and of huge pages where there are some.

use std::ptr::NonNull;
use std::sync::Arc;

/// Cache lines, and the widest vectors.
const ALIGN: usize = 64;
/// Bytes of a huge page on most machines.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;
/// Bytes that an [`Arena`] asks the system for at a time.
const ARENA: usize = 64 << 20;

/// Bytes that are zero until they are written, aligned to 64.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    owned: Owned,
}

/// How the memory came, and what returns it.
enum Owned {
    None,
    Heap(std::alloc::Layout),
    #[cfg(target_os = "linux")]
    Pages(NonNull<u8>, usize),
}

// SAFETY: a buffer owns its memory; what is shared of it follows the rules of slices.
unsafe impl Send for Buffer {}
// SAFETY: likewise.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` bytes.
    pub fn new(len: usize) -> Buffer {
        let layout = std::alloc::Layout::from_size_align(len, ALIGN).unwrap_or(std::alloc::Layout::new::<u8>());
        Buffer::of(len).unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
    }

    /// Memory of `len` bytes, zeroed; none where the system has no such memory.
    pub fn of(len: usize) -> Option<Buffer> {
        if len == 0 {
            return Some(Buffer { start: NonNull::<u64>::dangling().cast(), len, owned: Owned::None });
        }
        #[cfg(target_os = "linux")]
        if let Some(buffer) = Buffer::pages(len) {
            return Some(buffer);
        }
        let layout = std::alloc::Layout::from_size_align(len, ALIGN).ok()?;
        // SAFETY: the layout has a size above 0.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        Some(Buffer { start: NonNull::new(start)?, len, owned: Owned::Heap(layout) })
    }

    /// Memory in pages of its own, which cost nothing until they are touched.
    #[cfg(target_os = "linux")]
    fn pages(len: usize) -> Option<Buffer> {
        use rustix::mm::{madvise, mmap_anonymous, Advice, MapFlags, ProtFlags};
        if len < HUGE {
            return None;
        }
        let all = len.checked_add(HUGE)?;
        // SAFETY: new memory at an address of the system's choice.
        let at =
            unsafe { mmap_anonymous(std::ptr::null_mut(), all, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let at = NonNull::new(at.ok()?.cast::<u8>())?;
        let skip = at.as_ptr().align_offset(HUGE);
        // SAFETY: `skip` is below `HUGE`, and there are `HUGE` bytes more than `len`.
        let start = unsafe { at.add(skip) };
        // Advice only: without it pages are small.
        // SAFETY: the range was mapped above and nothing is in it yet.
        let _ = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
        Some(Buffer { start, len, owned: Owned::Pages(at, all) })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` initialized bytes that live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialized bytes that live as long as `self`, which is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.owned {
            Owned::None => {}
            // SAFETY: allocated with this layout, and freed once.
            Owned::Heap(layout) => unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) },
            #[cfg(target_os = "linux")]
            Owned::Pages(at, all) => {
                // SAFETY: mapped with this size, and unmapped once.
                let _ = unsafe { rustix::mm::munmap(at.as_ptr().cast(), all) };
            }
        }
    }
}

/// Memory for many things that come one after the other and stay as long as any of them does. Most are smaller than a few huge pages,
/// of which each would waste a part.
#[derive(Default)]
pub struct Arena {
    last: Option<Arc<Buffer>>,
    used: usize,
}

impl Arena {
    /// `len` bytes that are zero, aligned to 64; none where there is no such memory.
    pub fn take(&mut self, len: usize) -> Option<ArenaSlice> {
        let whole = len.checked_next_multiple_of(ALIGN)?;
        let buffer = match self.last.take().filter(|last| last.len - self.used >= whole) {
            Some(last) => last,
            None => {
                let new = Arc::new(Buffer::of(whole.max(ARENA))?);
                self.used = 0;
                new
            }
        };
        self.last = Some(buffer.clone());
        self.used += whole;
        Some(ArenaSlice { from: self.used - whole, len, buffer })
    }
}

/// A part of an [`Arena`] that nobody else has.
pub struct ArenaSlice {
    buffer: Arc<Buffer>,
    from: usize,
    len: usize,
}

impl ArenaSlice {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: initialized bytes in the buffer, which lives as long; nobody else has them.
        unsafe { std::slice::from_raw_parts(self.buffer.start.as_ptr().add(self.from), self.len) }
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: in the buffer, and of this piece alone, which is borrowed for writing; others read nothing but theirs.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.start.as_ptr().add(self.from), self.len) }
    }
}

/// Disjoint parts of a slice that several threads write.
pub(crate) struct DisjointParts<T>(*mut T, usize);

// SAFETY: whoever takes a part promises that nobody else has it.
unsafe impl<T: Send> Sync for DisjointParts<T> {}

impl<T> DisjointParts<T> {
    /// Parts of `all`, a slice that nobody else touches meanwhile.
    pub fn new(all: &mut [T]) -> DisjointParts<T> {
        DisjointParts(all.as_mut_ptr(), all.len())
    }

    /// `len` elements from `from` on.
    ///
    /// # Safety
    /// No other thread has any of them as long as the part lives.
    ///
    /// # Panics
    /// If they are not all there.
    #[allow(clippy::mut_from_ref)] // that is what it is for
    pub unsafe fn part(&self, from: usize, len: usize) -> &mut [T] {
        assert!(from <= self.1 && len <= self.1 - from, "a part of the slice");
        // SAFETY: in range, and the caller's alone.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(from), len) }
    }
}
