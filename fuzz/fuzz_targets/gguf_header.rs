//! Any bytes: the header parser answers with a header or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let _ = pumex::gguf::header::parse(bytes, Path::new("fuzz"));
});
