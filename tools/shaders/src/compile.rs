//! GLSL → SPIR-V → archives, by the compiler.

use crate::lock::index;
use crate::sources::{fields, resolve_include, CompileJob};
use pumex_quant::all;
use pumex_shaders::archive;
use pumex_shaders::kernels::Needs;
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

type Fault = Box<dyn std::error::Error>;

/// SPIR-V of the module.
fn compile(job: &CompileJob, compiler: &shaderc::Compiler, glsl: &Path) -> Result<Vec<u8>, Fault> {
    let mut formats = job.stem.unwrap_or_default().split('+');
    let (first, other) = (formats.next(), formats.next());
    let second = Cell::new(false);
    let mut options = shaderc::CompileOptions::new()?;
    let version = match job.needs {
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
        let file = resolve_include(wanted, format);
        let found = all().find(|f| file == "fields.glsl" && Some(f.stem) == format);
        let made = || found.map(|f| fields(f, second.get())).or_else(|| pumex_shaders::source(&file));
        let read = || fs::read_to_string(glsl.join(&file)).map_err(|e| format!("{file}: {e}"));
        let before: String = given.iter().map(|(name, value)| format!("#define {name} {value}\n")).collect();
        let after: String = given.iter().map(|(name, _)| format!("#undef {name}\n")).collect();
        let content = before + &made().map_or_else(read, Ok)? + &after;
        Ok(shaderc::ResolvedInclude { resolved_name: file, content })
    });
    let file = format!("{}.comp", job.kernel);
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

/// Name and SPIR-V of every module, or of those of some kernels, sorted by name.
fn compile_all(glsl: &Path, only: &[String]) -> Result<Vec<(String, Vec<u8>)>, Fault> {
    let jobs = CompileJob::all(only);
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(String, Vec<u8>)>, String> {
        let compiler = shaderc::Compiler::new().map_err(|e| e.to_string())?;
        let mut made = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let spirv = compile(job, &compiler, glsl).map_err(|e| format!("{}: {e}", job.name()))?;
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

/// Path and bytes of the files the tool owns: an archive per kernel, or per kernel that is named, and a list of all.
pub fn outputs(shaders: &Path, only: &[String]) -> Result<Vec<(PathBuf, Vec<u8>)>, Fault> {
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
pub fn plain(shaders: &Path, into: &Path, only: &[String]) -> Result<bool, Fault> {
    fs::create_dir_all(into)?;
    for (name, spirv) in compile_all(&shaders.join("glsl"), only)? {
        fs::write(into.join(format!("{name}.spv")), spirv)?;
    }
    Ok(true)
}
