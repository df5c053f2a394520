//! `shaders/glsl` → `shaders/spirv` and `shaders/src/modules.rs`.
//!
//! usage: build-shaders [--check] [KERNEL...]; all kernels, or these alone; with `--check` nothing is written and a difference is an
//!        error.
//!        build-shaders --into FOLDER [KERNEL...]; writes plain modules there, of these kernels or all, for spirv-dis and its like.

use pumex_quant::{all, tables, Format};
use pumex_shaders::archive;
use pumex_shaders::kernels::{Formats, Needs, KERNELS};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

type Fault = Box<dyn std::error::Error>;

/// Sizes and fields of a format's block, and where its table lies among all, as GLSL. Fields of a second format in one module
/// get names of their own.
fn fields(format: &Format, second: bool) -> String {
    let mut out = format!("#define BLOCK_LEN {}\n#define BLOCK_BYTES {}\n", format.block_len, format.block_bytes);
    out += &format!("#define SOA_BYTES {}\n", format.soa_block_bytes());
    let mut before = 0;
    let parts = format.parts();
    // What only one of the two has stands there with nothing of the other.
    let of_blocks = format.fields.iter().filter(|f| !parts.iter().any(|p| p.name == f.name)).map(|f| (f.name, 0));
    for (name, bytes) in parts.iter().map(|p| (p.name, p.bytes)).chain(of_blocks) {
        let at = format.fields.iter().find(|f| f.name == name).map_or(0, |f| f.at);
        if second {
            out += &format!("#define {name} {name}_2\n");
        }
        out += &format!("const Field {name} = Field({at}, {bytes}, {before});\n");
        before += bytes;
    }
    if let Some(t) = tables::of(format.id) {
        out += &format!("#define TABLE_AT {}\n#define TABLE_WORDS {}\n", t.at(), t.words().len());
        out += &format!("#define TABLE_COPIES {}\n", t.copies(tables::USUAL_BYTES));
        if t.entry_words() == 2 {
            out += "#define TABLE_OF_PAIRS\n";
        }
        if let Some(levels) = t.packed_levels() {
            let words: Vec<String> = levels.iter().map(|w| format!("{w:#010x}u")).collect();
            out += &format!("#define LEVELS {}\n", words.join(", "));
        }
    }
    out
}

/// A kernel, with the formats it is compiled for, if it is compiled for any.
struct Job {
    kernel: &'static str,
    stem: Option<&'static str>,
    needs: Needs,
}

impl Job {
    /// Every module there is; of some kernels only, if any are named.
    fn all(only: &[String]) -> Vec<Job> {
        let mut jobs = Vec::new();
        for kernel in KERNELS.iter().filter(|k| only.is_empty() || only.iter().any(|o| o == k.name)) {
            let one = all().filter(|f| kernel.formats.includes(f.stem, f.block_len)).map(|f| Some(f.stem)).collect();
            let stems: Vec<Option<&str>> = match kernel.formats {
                Formats::None => vec![None],
                Formats::Pairs(pairs) => pairs.iter().copied().map(Some).collect(),
                _ => one,
            };
            jobs.extend(stems.into_iter().map(|stem| Job { kernel: kernel.name, stem, needs: kernel.needs }));
        }
        jobs
    }

    fn name(&self) -> String {
        self.stem.map_or(self.kernel.to_string(), |s| format!("{}.{s}", self.kernel))
    }

    /// SPIR-V of the module.
    fn compile(&self, compiler: &shaderc::Compiler, glsl: &Path) -> Result<Vec<u8>, Fault> {
        let mut formats = self.stem.unwrap_or_default().split('+');
        let (first, other) = (formats.next(), formats.next());
        let second = Cell::new(false);
        let mut options = shaderc::CompileOptions::new()?;
        let version = match self.needs {
            Needs::Matrix2 => shaderc::EnvVersion::Vulkan1_3,
            _ => shaderc::EnvVersion::Vulkan1_2,
        };
        options.set_target_env(shaderc::TargetEnv::Vulkan, version as u32);
        options.set_optimization_level(shaderc::OptimizationLevel::Performance);
        options.set_warnings_as_errors();
        if other.is_some() {
            options.add_macro_definition("SECOND", None);
        }
        options.set_include_callback(|wanted, _, _, _| {
            // From the second contract on, the other format is meant.
            let wanted = wanted.strip_suffix(".2.glsl").map_or(wanted.to_string(), |name| {
                second.set(true);
                format!("{name}.glsl")
            });
            let format = if second.get() { other } else { first };
            // `FILE: NAME=VALUE ...` has macros for as long as the file is read.
            let (wanted, given) = wanted.split_once(": ").unwrap_or((&wanted, ""));
            let given: Vec<_> = given.split_whitespace().filter_map(|g| g.split_once('=')).collect();
            let file = match (wanted, format) {
                ("weight.glsl", Some(stem)) if !stem.is_empty() => format!("quant/{stem}.glsl"),
                _ => wanted.to_string(),
            };
            let found = all().find(|f| file == "fields.glsl" && Some(f.stem) == format);
            let made = || found.map(|f| fields(f, second.get())).or_else(|| pumex_shaders::source(&file));
            let read = || fs::read_to_string(glsl.join(&file)).map_err(|e| format!("{file}: {e}"));
            let before: String = given.iter().map(|(name, value)| format!("#define {name} {value}\n")).collect();
            let after: String = given.iter().map(|(name, _)| format!("#undef {name}\n")).collect();
            let content = before + &made().map_or_else(read, Ok)? + &after;
            Ok(shaderc::ResolvedInclude { resolved_name: file, content })
        });
        let file = format!("{}.comp", self.kernel);
        // The includes are not in GLSL itself; sources stay free of the directive that allows them.
        let source = fs::read_to_string(glsl.join(&file))?.replacen(
            "#version 460",
            "#version 460\n#extension GL_GOOGLE_include_directive : require",
            1,
        );
        let kind = shaderc::ShaderKind::Compute;
        let artifact = compiler.compile_into_spirv(&source, kind, &file, "main", Some(&options))?;
        Ok(artifact.as_binary_u8().to_vec())
    }
}

/// Name and SPIR-V of every module, or of those of some kernels, sorted by name.
fn compile_all(glsl: &Path, only: &[String]) -> Result<Vec<(String, Vec<u8>)>, Fault> {
    let jobs = Job::all(only);
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(String, Vec<u8>)>, String> {
        let compiler = shaderc::Compiler::new().map_err(|e| e.to_string())?;
        let mut made = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let spirv = job.compile(&compiler, glsl).map_err(|e| format!("{}: {e}", job.name()))?;
            made.push((job.name(), spirv));
        }
        Ok(made)
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut modules = Vec::new();
    std::thread::scope(|scope| -> Result<(), Fault> {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            modules.extend(worker.join().map_err(|_| "a thread that compiled panicked")??);
        }
        Ok(())
    })?;
    modules.sort();
    Ok(modules)
}

/// The list of archives, of all kernels.
fn index() -> String {
    let mut kernels: Vec<&str> = KERNELS.iter().map(|k| k.name).collect();
    kernels.sort_unstable();
    let mut index =
        String::from("//! Made by build-shaders; the archive of every kernel's modules, sorted by name.\n\n");
    index += "/// Archives, one for each kernel.\npub const ARCHIVES: &[&[u8]] = &[\n";
    index.extend(kernels.iter().map(|kernel| format!("    include_bytes!(\"../spirv/{kernel}.bin\"),\n")));
    index + "];\n"
}

/// Path and bytes of the files the tool owns: an archive per kernel, or per kernel that is named, and a list of all.
fn outputs(shaders: &Path, only: &[String]) -> Result<Vec<(PathBuf, Vec<u8>)>, Fault> {
    let mut modules = compile_all(&shaders.join("glsl"), only)?.into_iter().peekable();
    let mut files = Vec::new();
    while let Some((name, _)) = modules.peek() {
        let kernel = name.split('.').next().unwrap_or_default().to_string();
        let mut of_kernel = Vec::new();
        while let Some(module) = modules.next_if(|(name, _)| name.split('.').next() == Some(&kernel)) {
            of_kernel.push(module);
        }
        let archive = archive::write(&of_kernel).ok_or("SPIR-V that is no list of instructions")?;
        check(&of_kernel, &archive)?;
        files.push((shaders.join(format!("spirv/{kernel}.bin")), archive));
    }
    files.push((shaders.join("src/modules.rs"), index().into_bytes()));
    Ok(files)
}

/// Fails unless every module comes out of the archive as it went in.
fn check(modules: &[(String, Vec<u8>)], archive: &[u8]) -> Result<(), Fault> {
    let read = archive::read(archive).ok_or("an archive that cannot be read")?;
    for ((name, spirv), (read_name, packed)) in modules.iter().zip(&read) {
        if name != read_name || archive::unpack(packed).as_ref() != Some(spirv) {
            return Err(format!("{name}: packed, it does not come out as it went in").into());
        }
    }
    Ok(())
}

/// Writes plain modules of some kernels into a folder, for tools that read SPIR-V.
fn plain(shaders: &Path, into: &Path, only: &[String]) -> Result<bool, Fault> {
    fs::create_dir_all(into)?;
    for (name, spirv) in compile_all(&shaders.join("glsl"), only)? {
        fs::write(into.join(format!("{name}.spv")), spirv)?;
    }
    Ok(true)
}

fn run() -> Result<bool, Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let shaders = Path::new("shaders");
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
    println!("{} archives{}", files.len() - 1, if same { ", all as committed" } else { "" });
    Ok(same || !check)
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
