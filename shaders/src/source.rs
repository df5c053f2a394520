//! GLSL of what is declared in Rust: files that shaders include as if they were in `glsl/`.

use crate::block::{Block, Layout};
use crate::constants::{GENERAL, KV_TYPES, MASK, SHARED, TOWER};
use crate::push;
use crate::stage::{self, Stage};
use crate::step::{request, EpilogueAddresses, SampleRequestWords, StepHeader, StepMedium, StepRow, STEP};

/// The text of an include that is made from Rust: `push/KERNEL.glsl` or `words/NAME.glsl`.
pub fn source(path: &str) -> Option<String> {
    if let Some(kernel) = path.strip_prefix("push/").and_then(|p| p.strip_suffix(".glsl")) {
        return push::of(kernel).map(push_block);
    }
    let flags = |prefix: &str, all: &[(&str, u32, &str)]| -> String {
        all.iter().map(|(name, value, doc)| constant(&format!("{prefix}{name}"), *value, doc)).collect()
    };
    Some(match path {
        "words/stage.glsl" => places(&Stage::LAYOUT, "AT_", "STAGE_WORDS", 4) + &flags("", stage::FLAGS),
        "words/step.glsl" => {
            let header = places(&StepHeader::LAYOUT, "STEP_", "STEP_HEADER_WORDS", 4);
            let rows = places(&StepRow::LAYOUT, "ROW_", "STEP_ROW_WORDS", 4);
            header + &rows + &places(&StepMedium::LAYOUT, "MEDIUM_", "STEP_MEDIUM_WORDS", 4) + &flags("", STEP)
        }
        "words/request.glsl" => {
            places(&SampleRequestWords::LAYOUT, "REQUEST_", "STEP_REQUEST_WORDS", 4)
                + &flags("REQUEST_", request::FLAGS)
        }
        "words/pack_norm.glsl" => places(&EpilogueAddresses::LAYOUT, "EPILOGUE_", "", 8),
        "words/kv.glsl" => kv(),
        "words/mask.glsl" => flags("", MASK),
        // Few kernels use all of these; a constant that one does not use would still be in its module.
        "words/shared.glsl" => defines(SHARED),
        "words/general.glsl" => defines(GENERAL),
        "words/tower.glsl" => defines(TOWER),
        _ => return None,
    })
}

fn constant(name: &str, value: u32, doc: &str) -> String {
    format!("const uint {name} = {value}u; // {}\n", doc.trim())
}

fn defines(all: &[(&str, u32, &str)]) -> String {
    all.iter().map(|(name, value, _)| format!("#define {name} {value}u\n")).collect()
}

fn push_block(layout: &Layout) -> String {
    let mut out = format!("// {}\nlayout(push_constant) uniform Push {{\n", layout.doc.trim());
    for field in layout.fields {
        let array = if field.count > 1 { format!("[{}]", field.count) } else { String::new() };
        out += &format!("    {} {}{array}; // {}\n", field.glsl, field.name, field.doc.trim());
    }
    out + "};\n"
}

/// Where each field of a block is, and, by the name `len`, the length of all, in units of so many bytes.
fn places(layout: &Layout, prefix: &str, len: &str, unit: usize) -> String {
    let mut out = String::new();
    for (i, field) in layout.fields.iter().enumerate() {
        let name = format!("{prefix}{}", field.name.to_uppercase());
        out += &constant(&name, (layout.offset(i) / unit) as u32, field.doc);
    }
    if !len.is_empty() {
        out += &constant(len, (layout.len_bytes() / unit) as u32, layout.doc);
    }
    out
}

fn kv() -> String {
    let mut out = String::new();
    for (i, t) in KV_TYPES.iter().enumerate() {
        out += &constant(&format!("KV_{}", t.name.to_uppercase()), i as u32, "Type of K or V.");
    }
    let words: Vec<String> = KV_TYPES.iter().map(|t| format!("{}u", t.words)).collect();
    out + &format!("const uint KV_WORDS[{}] = uint[]({}); // of 32 elements\n", words.len(), words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::source;

    #[test]
    fn includes_say_what_rust_declares() {
        let push = source("push/gemm_few.glsl").unwrap();
        assert!(
            push.contains("\n    uvec2 w0; // ")
                && push.contains("\n    U32x2 norm_epilogue; // ")
                && push.ends_with("};\n")
        );
        assert!(source("push/repack.glsl").unwrap().contains("\n    uint place[10]; // "));
        let stage = source("words/stage.glsl").unwrap();
        assert!(stage.contains("const uint AT_M = 21u;") && stage.contains("const uint STAGE_WORDS = 40u;"));
        assert!(stage.contains("const uint JOIN = 524288u;"));
        assert!(source("words/step.glsl").unwrap().contains("const uint TOKEN_SAMPLED = 4294967295u;"));
        assert!(source("words/pack_norm.glsl").unwrap().contains("const uint EPILOGUE_SQUARES = 3u;"));
        assert!(source("words/kv.glsl").unwrap().contains("const uint KV_IQ4_NL = 8u;"));
        assert_eq!((source("push/none.glsl"), source("lib/types.glsl")), (None, None));
    }
}
