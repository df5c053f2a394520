//! The header is what the sources say, and programs in C work with it.
#![allow(clippy::unwrap_used)]
#![allow(unsafe_code)] // to read a text of C

#[path = "../src/last_error.rs"]
mod last_error;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the demo model goes on with after `In the beginning`: its most probable 8 tokens.
const EIGHT: &str = " of the reign of Jehoiakim the";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The C of a Rust type.
fn c_type(rust: &str) -> String {
    let (pointer, pointee) = match rust.split_once(' ') {
        Some(("*const", to)) => ("const ", to),
        Some(("*mut", to)) => ("", to),
        _ => ("", rust),
    };
    let name = match pointee {
        "c_char" => "char",
        "bool" => "bool",
        "f32" => "float",
        "i32" => "int32_t",
        "i64" => "int64_t",
        "u8" => "uint8_t",
        "u32" => "uint32_t",
        "usize" => "size_t",
        object if object.starts_with("Pumex") => object,
        other => panic!("{other}: no type of C's"),
    };
    let star = if rust == pointee { " " } else { " *" };
    format!("{pointer}{name}{star}")
}

/// What C is told of a function: its head from `fn` to the brace, on one line.
fn function_head(head: &str) -> String {
    let (name, rest) = head.split_once('(').unwrap();
    let (given, result) = rest.split_once(')').unwrap();
    let result = result.trim().strip_prefix("->").map_or("void ".to_string(), |to| c_type(to.trim()));
    let parameters = given.split(',').filter_map(|p| p.trim().split_once(": "));
    let parameters: Vec<String> = parameters.map(|(name, kind)| format!("{}{name}", c_type(kind))).collect();
    let parameters = if parameters.is_empty() { "void".to_string() } else { parameters.join(", ") };
    format!("{result}{name}({parameters});\n")
}

/// The header of the library's source: types, and functions with what is said of them.
fn header(source: &str) -> String {
    let mut types = String::new();
    let (mut functions, mut said, mut head) = (String::new(), Vec::new(), String::new());
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            said.push(text.trim().to_string());
        } else if !head.is_empty()
            || line.starts_with("pub unsafe extern \"C\" fn")
            || line.starts_with("pub extern \"C\" fn")
        {
            head += line.trim();
            head += " ";
            if line.ends_with('{') {
                let start = head.split_once("fn ").unwrap().1.trim_end_matches(['{', ' ']).to_string();
                let kept = said.split(|text| text == "# Safety").next().unwrap_or_default();
                let text = kept.join("\n * ").trim_end_matches(['\n', ' ', '*']).replace(['[', ']', '`'], "");
                functions += &format!("\n/* {text} */\n{}", function_head(&start));
                head.clear();
                said.clear();
            }
        } else if let Some(name) = line.strip_prefix("pub struct ") {
            let name = name.split(['(', ' ']).next().unwrap();
            types += &format!("\n/* {} */\ntypedef struct {name} {name};\n", said.join("\n * "));
            said.clear();
        } else if !line.starts_with("#[") {
            said.clear();
        }
    }
    format!(
        "/* Pumex: GGUF models on any Vulkan GPU, or on the CPU. Made of capi/src/lib.rs: `make pumex.h` writes it. */\n\n\
         #ifndef PUMEX_H\n#define PUMEX_H\n\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n{types}{functions}\n#ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
    )
}

/// `PUMEX_WRITE=1` writes the header instead.
#[test]
fn the_header_is_what_the_sources_say() {
    let text = header(&std::fs::read_to_string(root().join("src/lib.rs")).unwrap());
    let path = root().join("pumex.h");
    if std::env::var_os("PUMEX_WRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap() == text, "pumex.h: make pumex.h writes it anew");
    assert_eq!(text.matches("pumex_model_open(").count(), 1);
    assert!(text.contains("int64_t pumex_forget(PumexSequence *sequence, size_t from);"), "{text}");
}

/// A program in C with the library: its name, how it ended on these arguments.
fn run(name: &str, runs: &[&[&str]]) -> Option<Vec<Output>> {
    let Some(folder) = std::env::var_os("PUMEX_C_LIBRARY").map(PathBuf::from) else {
        eprintln!("skipped: PUMEX_C_LIBRARY, the folder of libpumex_c.so, is not given; make test-c builds it");
        return None;
    };
    let program = std::env::temp_dir().join(format!("pumex-{name}-{}", std::process::id()));
    let mut build = Command::new("cc");
    build.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root());
    build.arg(root().join("tests").join(name).with_extension("c"));
    build.arg("-L").arg(&folder).arg("-lpumex_c").arg(format!("-Wl,-rpath,{}", folder.display()));
    let built = build.arg("-o").arg(&program).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let done = runs.iter().map(|given| Command::new(&program).args(*given).output().unwrap()).collect();
    std::fs::remove_file(&program).unwrap();
    Some(done)
}

fn demo() -> String {
    root().join("../assets/demo.gguf").to_string_lossy().into_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_in_c_goes_on_with_a_prompt() {
    let (demo, missing) = (demo(), "no-such.gguf");
    let of = |model| [model, "In the beginning", "8"];
    let Some(done) = run("example", &[&of(&demo), &of(missing)]) else { return };
    assert!(done[0].status.success(), "{}", text(&done[0].stderr));
    assert_eq!(text(&done[0].stdout), EIGHT);
    assert_eq!(done[1].status.code(), Some(1));
    assert!(text(&done[1].stderr).starts_with("open: no-such.gguf: "), "{}", text(&done[1].stderr));
}

#[test]
fn what_is_wrong_in_c_gives_a_message_and_never_ends_the_program() {
    let header = root().join("pumex.h").to_string_lossy().into_owned();
    let Some(done) = run("wrong", &[&[&demo(), &header]]) else { return };
    assert!(done[0].status.success(), "{:?}\n{}", done[0].status, text(&done[0].stderr));
    assert_eq!(text(&done[0].stdout).lines().last(), Some("26 errors"), "{}", text(&done[0].stdout));
}

#[test]
fn what_panics_is_an_error() {
    let told = || {
        let pointer = last_error::pointer();
        // SAFETY: a text of this thread, which no call replaces meanwhile.
        text(unsafe { std::ffi::CStr::from_ptr(pointer) }.to_bytes())
    };
    assert_eq!(told(), "");
    assert_eq!(last_error::record_error(-1, || Err::<i32, _>("a\0b")), -1);
    assert_eq!(told(), "a?b");
    assert_eq!(last_error::record_error(-1, || -> Result<i32, String> { panic!("as it should in this test") }), -1);
    assert!(told().starts_with("pumex failed"), "{}", told());
    assert_eq!(last_error::record_error(-1, || Ok::<i32, String>(1)), 1);
    assert!(told().starts_with("pumex failed"), "what went well takes no error away");
}
