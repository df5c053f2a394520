//! Any bytes: the reader of the older importance matrices answers with a matrix or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let _ = pumex::imatrix::Imatrix::from_legacy(bytes, Path::new("fuzz"));
});
