//! What the pool is made of: the standard library's, or `loom`'s, which tries all interleavings.

#[cfg(not(all(test, feature = "loom")))]
mod real {
    pub use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub use std::sync::{Arc, Condvar, Mutex};
    pub use std::thread::{Builder, JoinHandle};

    /// Turns of the spinning loop before a thread yields: some tens of microseconds.
    const SPINS: u32 = 2000;
    /// Turns before a worker sleeps: some milliseconds.
    pub const PATIENCE: u32 = SPINS + 4000;

    /// Waits a moment: spinning at first, then leaving the core to others.
    pub fn pause(turns: &mut u32) {
        *turns += 1;
        if *turns < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    /// A value that threads take turns with.
    pub struct Cell<T>(std::cell::UnsafeCell<T>);

    impl<T: Copy> Cell<T> {
        pub fn new(value: T) -> Self {
            Cell(std::cell::UnsafeCell::new(value))
        }

        /// # Safety
        /// Nobody writes meanwhile.
        pub unsafe fn get(&self) -> T {
            // SAFETY: the caller answers for it.
            unsafe { *self.0.get() }
        }

        /// # Safety
        /// Nobody else reads or writes meanwhile.
        pub unsafe fn set(&self, value: T) {
            // SAFETY: the caller answers for it.
            unsafe { *self.0.get() = value }
        }
    }
}

#[cfg(all(test, feature = "loom"))]
mod model {
    pub use loom::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub use loom::sync::{Arc, Condvar, Mutex};
    pub use loom::thread::{Builder, JoinHandle};

    /// One turn of waiting stands for any number.
    pub const PATIENCE: u32 = 0;

    pub fn pause(turns: &mut u32) {
        *turns += 1;
        loom::thread::yield_now();
    }

    /// A value in which loom sees races.
    pub struct Cell<T>(loom::cell::UnsafeCell<T>);

    impl<T: Copy> Cell<T> {
        pub fn new(value: T) -> Self {
            Cell(loom::cell::UnsafeCell::new(value))
        }

        /// # Safety
        /// Nobody writes meanwhile.
        pub unsafe fn get(&self) -> T {
            // SAFETY: the caller answers for it, and loom sees to it.
            self.0.with(|value| unsafe { *value })
        }

        /// # Safety
        /// Nobody else reads or writes meanwhile.
        pub unsafe fn set(&self, value: T) {
            // SAFETY: likewise.
            self.0.with_mut(|at| unsafe { *at = value });
        }
    }
}

#[cfg(all(test, feature = "loom"))]
pub use model::*;
#[cfg(not(all(test, feature = "loom")))]
pub use real::*;
