//! The header is what the sources say, and a program in C does with it what one in Rust does.
#![allow(clippy::unwrap_used)]

use pumex::Model;
use std::path::{Path, PathBuf};
use std::process::Command;

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
fn declared(head: &str) -> String {
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
                functions += &format!("\n/* {text} */\n{}", declared(&start));
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

/// The folder of the libraries: that of this test, or the one above.
fn libraries() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folders = own.ancestors().skip(1).take(2);
    let library = |folder: &Path| folder.join("libpumex_c.so").exists();
    folders.filter(|folder| library(folder)).last().unwrap().to_path_buf()
}

#[test]
fn a_program_in_c_does_what_one_in_rust_does() {
    if Command::new("cc").arg("--version").output().is_err() {
        return eprintln!("skipped: no cc");
    }
    if !cfg!(target_os = "linux") {
        return eprintln!("skipped: libraries have other names here");
    }
    let demo = root().join("../assets/demo.gguf");
    let program = std::env::temp_dir().join(format!("pumex-capi-{}", std::process::id()));
    let folder = libraries();
    let mut build = Command::new("cc");
    build.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root()).arg(root().join("tests/example.c"));
    build.arg("-L").arg(&folder).arg("-lpumex_c").arg(format!("-Wl,-rpath,{}", folder.display()));
    let built = build.arg("-o").arg(&program).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let run = |model: &Path| Command::new(&program).arg(model).args(["In the beginning", "8"]).output().unwrap();
    let (done, wrong) = (run(&demo), run(Path::new("no-such.gguf")));
    std::fs::remove_file(&program).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let model = Model::options().device("cpu").n_ctx(256).open(demo).unwrap();
    let text = model.generate("In the beginning").max_tokens(8).temperature(0.0).text().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout), text);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).starts_with("open: no-such.gguf: "), "{wrong:?}");
}
