//! Memory that an item needs soon.

use crate::isa::{ahead, Ahead};
use crate::simd::Simd;

/// What is needed after what is read now, and lies as that does: blocks lie apart, so that it has to be asked for. It is asked for line
/// by line between reads, for a core waits if it is too much at a time.
#[derive(Clone, Copy)]
pub(super) struct Next {
    at: *const u8,
    ahead: Ahead,
}

impl Next {
    /// What to prefetch after `now`; where nothing follows, `now` again, which costs little.
    pub fn of(now: &[u8], next: Option<&[u8]>) -> Next {
        Next { at: next.unwrap_or(now).as_ptr(), ahead: ahead() }
    }

    /// Nothing follows what is read from `now` on.
    pub fn nothing(self, now: *const u8) -> Next {
        Next { at: now, ..self }
    }

    /// From `bytes` on.
    pub fn from(self, bytes: usize) -> Next {
        Next { at: self.at.wrapping_add(bytes), ..self }
    }

    /// Asks for `bytes` from `from` on.
    ///
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    pub unsafe fn ask<S: Simd>(self, from: usize, bytes: usize) {
        for i in (from..from + bytes).step_by(64) {
            // SAFETY: the caller answers for the instructions; what is asked for need not be there.
            unsafe {
                match self.ahead {
                    Ahead::First => S::prefetch(self.at.wrapping_add(i)),
                    Ahead::Second => S::prefetch_second(self.at.wrapping_add(i)),
                }
            }
        }
    }
}
