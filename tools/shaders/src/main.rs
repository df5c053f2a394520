//! `shaders/glsl` → `shaders/spirv`, `shaders/src/modules.rs` and `shaders/spirv.lock`.
//!
//! usage: build-shaders [--check] [KERNEL...]; all kernels, or these alone; with `--check` nothing is written and a difference is an
//!        error.
//!        build-shaders --into FOLDER [KERNEL...]; writes plain modules there, of these kernels or all, for spirv-dis and its like.
//!        build-shaders --lock \[BASE\]; compiles nothing: fails where sources or modules are not those of the lock, and prints the
//!        kernels that were compiled since the lock in the file BASE.
//! All but the last need the feature `shaderc`.

use pumex_build_shaders::lock::{lock_of_tree, strays, Lock};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

type Fault = Box<dyn std::error::Error>;

/// Where the lock lies.
const LOCK: &str = "shaders/spirv.lock";

/// Whether the tree is as the lock says.
fn is_unchanged(base: Option<&String>) -> Result<bool, Fault> {
    let root = Path::new(".");
    let lock = Lock::parse(&fs::read_to_string(LOCK)?);
    let wrong = [lock.differences(&lock_of_tree(root)?), strays(root)?].concat();
    wrong.iter().for_each(|what| eprintln!("{what}"));
    if !wrong.is_empty() {
        eprintln!("expected the SPIR-V that the sources make: make shaders KERNELS=\"...\"");
        return Ok(false);
    }
    if let Some(base) = base {
        println!("{}", lock.kernels_changed_since(&Lock::parse(&fs::read_to_string(base)?)).join(" "));
    }
    Ok(true)
}

#[cfg(feature = "shaderc")]
fn compile(args: Vec<String>) -> Result<bool, Fault> {
    use pumex_build_shaders::compile::{outputs, plain};
    use pumex_shaders::kernels::KERNELS;
    let (root, shaders) = (Path::new("."), Path::new("shaders"));
    if let Some(at) = args.iter().position(|a| a == "--into") {
        let into = args.get(at + 1).ok_or("--into: expected a folder")?;
        return plain(shaders, Path::new(into), &args[at + 2..]);
    }
    let check = args.iter().any(|a| a == "--check");
    let only: Vec<String> = args.into_iter().filter(|a| a != "--check").collect();
    if let Some(unknown) = only.iter().find(|name| !KERNELS.iter().any(|k| k.name == **name)) {
        return Err(format!("expected names of kernels, found {unknown}").into());
    }
    let files = outputs(shaders, &only)?;
    let mut same = true;
    for entry in fs::read_dir(shaders.join("spirv"))? {
        let path = entry?.path();
        if !KERNELS.iter().any(|k| path == shaders.join(format!("spirv/{}.bin", k.name))) {
            same = false;
            println!("no source makes {}", path.display());
            if !check {
                fs::remove_file(path)?;
            }
        }
    }
    for (path, bytes) in &files {
        if fs::read(path).ok().as_deref() != Some(bytes) {
            same = false;
            println!("{} {}", if check { "differs from its source:" } else { "wrote" }, path.display());
            if !check {
                fs::write(path, bytes)?;
            }
        }
    }
    if !check {
        let mut lock = Lock::parse(&fs::read_to_string(LOCK).unwrap_or_default());
        let found = lock_of_tree(root)?;
        // Of another compiler's modules nothing is known.
        if lock.compiler != found.compiler {
            lock = Lock { compiler: found.compiler.clone(), ..Lock::default() };
        }
        lock.kernels.retain(|kernel, _| found.kernels.contains_key(kernel));
        let new = found.kernels.into_iter().filter(|(kernel, _)| only.is_empty() || only.contains(kernel));
        lock.kernels.extend(new);
        fs::write(LOCK, lock.text())?;
    }
    println!("{} archives{}", files.len() - 1, if same { ", all as committed" } else { "" });
    Ok(same || !check)
}

#[cfg(not(feature = "shaderc"))]
fn compile(_: Vec<String>) -> Result<bool, Fault> {
    Err("expected the feature shaderc, found a tool without the compiler".into())
}

fn run() -> Result<bool, Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().position(|a| a == "--lock") {
        Some(at) => is_unchanged(args.get(at + 1)),
        None => compile(args),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("build-shaders: {e}");
            ExitCode::FAILURE
        }
    }
}
