//! Why the last call on a thread failed.

use std::cell::RefCell;
use std::ffi::{c_char, CString};
use std::fmt::Display;
use std::panic::{catch_unwind, AssertUnwindSafe};

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Runs what a function does, and gives its value; keeps the error that came of it, also of a panic, and gives `otherwise`.
pub fn record_error<T, E: Display>(otherwise: T, work: impl FnOnce() -> Result<T, E>) -> T {
    let error = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "pumex failed in a way that it should not".to_string(),
    };
    // A text for C has no zero within.
    let text = CString::new(error.replace('\0', "?")).unwrap_or_default();
    LAST.with(|last| last.replace(text));
    otherwise
}

/// The text of the last error, which stays until the next one; empty before the first.
pub fn pointer() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
