//! What modules are made of: jobs of the compiler, files of GLSL, and what stands in for files.

use pumex_quant::{all, tables, Format};
use pumex_shaders::kernels::{Formats, Kernel, Needs, KERNELS};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Sizes and fields of a format's block, and where its table lies among all, as GLSL. Fields of a second format in one module
/// get names of their own.
pub fn fields(format: &Format, second: bool) -> String {
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
        if let Some(levels) = t.pack_levels() {
            let words: Vec<String> = levels.iter().map(|w| format!("{w:#010x}u")).collect();
            out += &format!("#define LEVELS {}\n", words.join(", "));
        }
    }
    out
}

/// A kernel, with the formats it is compiled for, if it is compiled for any.
pub struct CompileJob {
    /// The kernel.
    pub kernel: &'static str,
    /// The format, or two of them with `+` between.
    pub stem: Option<&'static str>,
    /// What devices must have for it.
    pub needs: Needs,
}

impl CompileJob {
    /// Every module there is; of some kernels only, if any are named.
    pub fn all(only: &[String]) -> Vec<CompileJob> {
        let mut jobs = Vec::new();
        for kernel in KERNELS.iter().filter(|k| only.is_empty() || only.iter().any(|o| o == k.name)) {
            let one = all().filter(|f| kernel.formats.includes(f.stem, f.block_len)).map(|f| Some(f.stem)).collect();
            let stems: Vec<Option<&str>> = match kernel.formats {
                Formats::None => vec![None],
                Formats::Pairs(pairs) => pairs.iter().copied().map(Some).collect(),
                _ => one,
            };
            jobs.extend(stems.into_iter().map(|stem| CompileJob { kernel: kernel.name, stem, needs: kernel.needs }));
        }
        jobs
    }

    /// The module's name.
    pub fn name(&self) -> String {
        self.stem.map_or(self.kernel.to_string(), |s| format!("{}.{s}", self.kernel))
    }
}

/// The file that `weight.glsl` and its like are for a format, and without what comes after the name.
pub fn resolve_include(wanted: &str, stem: Option<&str>) -> String {
    let name = wanted.split_once(": ").map_or(wanted, |(name, _)| name);
    let name = name.strip_suffix(".2.glsl").map_or(name.to_string(), |name| format!("{name}.glsl"));
    match (name.as_str(), stem) {
        ("weight.glsl", Some(stem)) if !stem.is_empty() => format!("quant/{stem}.glsl"),
        _ => name,
    }
}

/// All that a kernel's modules are made of, by name: its file, what that includes, whether or not a module takes that branch, and
/// what is made for its formats.
///
/// # Errors
/// A file that cannot be read.
pub fn parts(kernel: &Kernel, glsl: &Path) -> Result<BTreeMap<String, String>, String> {
    let jobs = CompileJob::all(&[kernel.name.to_string()]);
    let mut stems: Vec<Option<&str>> =
        jobs.iter().flat_map(|job| job.stem.unwrap_or_default().split('+')).map(Some).collect();
    stems.sort_unstable();
    stems.dedup();
    let mut parts = BTreeMap::new();
    for stem in stems {
        let (mut left, mut met) = (vec![format!("{}.comp", kernel.name)], BTreeSet::new());
        while let Some(file) = left.pop() {
            if !met.insert(file.clone()) {
                continue;
            }
            let format = all().find(|f| file == "fields.glsl" && Some(f.stem) == stem);
            let made = || format.map(|f| fields(f, false) + &fields(f, true)).or_else(|| pumex_shaders::source(&file));
            let read = || std::fs::read_to_string(glsl.join(&file)).map_err(|e| format!("{file}: {e}"));
            let content = made().map_or_else(read, Ok)?;
            let included = content.lines().filter_map(|line| line.trim_start().strip_prefix("#include \""));
            let included = included.filter_map(|rest| Some(resolve_include(rest.split_once('"')?.0, stem)));
            left.extend(included);
            parts.insert(
                if format.is_some() { format!("{file} of {}", stem.unwrap_or_default()) } else { file },
                content,
            );
        }
    }
    parts.insert("jobs".into(), jobs.iter().map(|job| format!("{} {:?}\n", job.name(), job.needs)).collect());
    Ok(parts)
}
