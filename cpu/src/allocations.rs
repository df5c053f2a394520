//! Counts what a thread allocates, for tests that say that something does not: `#[global_allocator] static COUNTING: Counting =
//! Counting;` in the test's program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static COUNT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

fn add(bytes: usize) {
    // None while the thread ends.
    let _ = COUNT.try_with(|count| count.set((count.get().0 + 1, count.get().1 + bytes)));
}

/// How often this thread has asked for memory, and for how many bytes in all; zeros where [`Counting`] is not the allocator.
pub fn so_far() -> (usize, usize) {
    COUNT.get()
}

// SAFETY: everything is the system allocator's; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promises are those of the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: likewise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: likewise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        // SAFETY: likewise.
        unsafe { System.realloc(at, layout, size) }
    }
}
