//! Re-encoding a model file: which tensor becomes what ([`Plan`]), and the streaming that makes it so ([`write()`]).
//!
//! Tensors go through one at a time, in chunks of rows: mapped bytes → f32 → blocks → the output. Memory stays at a few
//! chunks whatever the model's size. `split` and `merge` are the same path with every tensor copied.

#[cfg(feature = "convert")]
pub mod folder;
mod prune;
pub mod recipe;
mod weighed;

pub use weighed::gaps;

use pumex_gguf::error::try_filled_vec;
use pumex_gguf::file::Replacing;
use pumex_gguf::imatrix::Imatrix;
use pumex_gguf::write::{header, Entry, ALIGNMENT};
use pumex_gguf::{type_name, Error, Gguf, Result, Value};
use pumex_quant::{find, Format, FormatId, FORMATS};
use rayon::prelude::*;
use recipe::{Chooser, Model, Recipe};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Weights of a chunk: 4 million, 16 MiB as f32.
const CHUNK_WEIGHTS: usize = 4 << 20;
/// Version of the block layouts, `general.quantization_version`.
const QUANTIZATION_VERSION: u32 = 2;

/// What to make of a file.
#[derive(Default)]
pub struct Options {
    /// The recipe; none copies every tensor.
    pub recipe: Option<&'static Recipe>,
    /// Importance of columns, and the file it came from.
    pub imatrix: Option<(Imatrix, PathBuf)>,
    /// The recipe's base type for every tensor that is quantized.
    pub pure: bool,
    /// Types by name pattern; the first that matches counts, before the recipe.
    pub tensor_types: Vec<(regex::Regex, FormatId)>,
    /// Type of `token_embd.weight`.
    pub token_embedding: Option<FormatId>,
    /// Type of `output.weight`.
    pub output: Option<FormatId>,
    /// Leaves `output.weight` as it is.
    pub leave_output: bool,
    /// Quantizes what is already quantized.
    pub allow_requantize: bool,
    /// Counts NaN and infinite weights instead of stopping at them; they are coded as 0.
    pub allow_nonfinite: bool,
    /// Metadata to set.
    pub override_kv: Vec<(String, Value)>,
    /// Layers to leave out.
    pub prune_layers: Vec<usize>,
    /// What is added to tensors before they are coded again.
    pub changes: Option<Box<dyn Changes>>,
    /// What goes into each output file.
    pub parts: Parts,
}

/// Changes of weights.
pub trait Changes: Sync {
    /// Whether a tensor changes.
    fn has(&self, name: &str) -> bool;
    /// Adds to rows of a tensor, from row `first` of all its matrices on.
    fn add(&self, name: &str, first: usize, rows: &mut [f32]);
}

/// How many files to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parts {
    /// One.
    #[default]
    One,
    /// As many as the input has.
    Kept,
    /// At most so many tensors in each.
    Tensors(usize),
    /// At most so many bytes of data in each.
    Bytes(u64),
}

/// One tensor's way.
#[derive(Clone, Debug)]
pub struct Job {
    /// Index into the input's tensors.
    pub tensor: usize,
    /// As written.
    pub entry: Entry,
    /// The input's type id.
    pub from: u32,
    /// Encoder; none copies.
    pub to: Option<&'static Format>,
    /// Why the type is not the recipe's.
    pub note: Option<String>,
}

/// What will be written.
#[derive(Debug)]
pub struct Plan {
    /// Tensors of each output file.
    pub parts: Vec<Vec<Job>>,
    /// Metadata of the (first) file.
    pub meta: Vec<(String, Value)>,
    alignment: u64,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Bytes of tensor data read.
    pub bytes_in: u64,
    /// Bytes of tensor data written.
    pub bytes_out: u64,
    /// Weights that were NaN or infinite.
    pub nonfinite: u64,
}

/// The format of that name, upper or lower case.
pub fn format_named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|f| f.name.eq_ignore_ascii_case(name))
}

fn is_float(type_id: u32) -> bool {
    matches!(type_id, 0 | 1 | 30)
}

impl Plan {
    /// Decides every tensor's type.
    ///
    /// # Errors
    /// Metadata the recipe needs, a quantized input without `allow_requantize`, a type no encoder reads.
    pub fn new(gguf: &Gguf, options: &Options) -> Result<Plan> {
        let mut meta: Vec<(String, Value)> = Vec::new();
        for (key, value) in gguf.meta().iter().filter(|(k, _)| !k.starts_with("split.")) {
            if matches!(value, Value::Nested(n) if *n > 0) {
                let what = format!("{key}: expected no array of arrays, found one that cannot be written again");
                return Err(Error::file(gguf.path(), "nested_array", what));
            }
            meta.push((key.to_string(), value.clone()));
        }
        let mut chooser = options.recipe.map(|r| Ok(Chooser::new(r, model(gguf, options)?))).transpose()?;
        let mut jobs = Vec::new();
        let leaving: BTreeSet<usize> = options.prune_layers.iter().copied().collect();
        let mut pruned = BTreeSet::new();
        // The chooser counts tensors layer by layer, whatever their order in the file.
        let mut order: Vec<(usize, &pumex_gguf::Tensor)> = gguf.tensors().iter().enumerate().collect();
        order.sort_by_key(|(_, t)| recipe::place(&t.name));
        for (tensor, t) in order {
            let layer = recipe::place(&t.name).0;
            if let Some(layer) = layer.filter(|l| leaving.contains(l)) {
                pruned.insert(layer);
                continue;
            }
            let before = layer.map_or(0, |l| leaving.range(..l).count());
            let name = match layer {
                Some(l) if before > 0 => t.name.replacen(&format!("blk.{l}."), &format!("blk.{}.", l - before), 1),
                _ => t.name.clone(),
            };
            let (to, note) = match &mut chooser {
                Some(chooser) => choose(gguf, t, &name, chooser, options)?,
                None => (None, None),
            };
            let changes = options.changes.as_ref().is_some_and(|c| c.has(&t.name));
            let to = to.or(if changes { find(t.type_id) } else { None }).filter(|f| changes || f.ggml_id != t.type_id);
            if let Some(f) = to {
                if find(t.type_id).is_none() {
                    let what = format!("tensor {}: expected weights, found {}", t.name, type_name(t.type_id));
                    return Err(Error::file(gguf.path(), "not_weights", what));
                }
                if !is_float(t.type_id) && !options.allow_requantize {
                    return Err(Error::Request(format!(
                        "{}: tensor {}: expected F32, F16 or BF16, found {}; --allow-requantize makes {} of it with more loss",
                        gguf.path().display(),
                        t.name,
                        type_name(t.type_id),
                        f.name
                    )));
                }
            }
            let type_id = to.map_or(t.type_id, |f| f.ggml_id);
            let len_bytes = to.map_or(Some(t.len_bytes), |f| f.row_bytes(t.elements() as usize).map(|n| n as u64));
            let len_bytes = len_bytes.unwrap_or(t.len_bytes);
            let entry = Entry { name, dims: t.dims.clone(), type_id, len_bytes };
            jobs.push(Job { tensor, entry, from: t.type_id, to, note });
        }
        jobs.sort_by_key(|j: &Job| j.tensor);
        if let Some(missing) = leaving.iter().find(|l| !pruned.contains(*l)) {
            return Err(Error::Usage(format!("--prune-layers {missing}: expected a layer of the model, found none")));
        }
        if !pruned.is_empty() {
            prune::metadata(gguf, &pruned, &mut meta)?;
        }
        if let Some(recipe) = options.recipe {
            set(&mut meta, "general.quantization_version", Value::U32(QUANTIZATION_VERSION));
            set(&mut meta, "general.file_type", Value::U32(recipe.file_type));
        }
        if let Some((imatrix, path)) = &options.imatrix {
            let text = |s: String| Value::Str(s.into_bytes());
            set(&mut meta, "quantize.imatrix.file", text(path.display().to_string()));
            if let Some(dataset) = imatrix.datasets.first() {
                set(&mut meta, "quantize.imatrix.dataset", text(dataset.clone()));
            }
            set(&mut meta, "quantize.imatrix.entries_count", Value::I32(imatrix.entries.len() as i32));
            set(&mut meta, "quantize.imatrix.chunks_count", Value::I32(imatrix.chunks as i32));
        }
        for (key, value) in &options.override_kv {
            set(&mut meta, key, value.clone());
        }
        let alignment = gguf.meta().opt_u32("general.alignment")?.map_or(ALIGNMENT, u64::from);
        Ok(Plan { parts: parts(gguf, jobs, options.parts), meta, alignment })
    }

    /// All tensors, in order.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.parts.iter().flatten()
    }

    /// Bytes of tensor data to read.
    pub fn bytes_in(&self, gguf: &Gguf) -> u64 {
        self.jobs().map(|j| gguf.tensors()[j.tensor].len_bytes).sum()
    }

    /// Bytes of tensor data to write.
    pub fn bytes_out(&self) -> u64 {
        self.jobs().map(|j| j.entry.len_bytes).sum()
    }
}

fn set(meta: &mut Vec<(String, Value)>, key: &str, value: Value) {
    match meta.iter_mut().find(|(k, _)| k == key) {
        Some((_, old)) => *old = value,
        None => meta.push((key.to_string(), value)),
    }
}

/// What the recipes ask about a model.
fn model<'a>(gguf: &'a Gguf, options: &Options) -> Result<Model<'a>> {
    let arch = gguf.meta().arch()?;
    // Where layers differ there is a list; the first layer's number counts.
    let number = |key: &str| {
        let key = format!("{arch}.{key}");
        let list = || gguf.meta().opt_i32s(&key).ok().flatten()?.first().and_then(|n| u32::try_from(*n).ok());
        gguf.meta().opt_u32(&key).ok().flatten().or_else(list).unwrap_or(0) as usize
    };
    let kept = |name: &str| recipe::place(name).0.is_none_or(|l| !options.prune_layers.contains(&l));
    let n_head = number("attention.head_count");
    let n_head_kv = number("attention.head_count_kv");
    Ok(Model {
        arch,
        n_layer: number("block_count"),
        n_head,
        n_head_kv: if n_head_kv == 0 { n_head } else { n_head_kv },
        n_expert: number("expert_count"),
        n_attn_v: gguf.tensors().iter().filter(|t| recipe::is_attn_v(&t.name) && kept(&t.name)).count(),
        has_output: gguf.tensor("output.weight").is_some(),
        has_imatrix: options.imatrix.is_some(),
    })
}

/// A tensor's format, or none for a copy; and a note where the recipe's did not fit.
fn choose(
    gguf: &Gguf,
    t: &pumex_gguf::Tensor,
    name: &str,
    chooser: &mut Chooser<'_>,
    options: &Options,
) -> Result<(Option<&'static Format>, Option<String>)> {
    let described = recipe::Tensor { name, dims: &t.dims };
    if !recipe::quantizable(&described) || options.leave_output && name == "output.weight" {
        return Ok((None, None));
    }
    let asked = options.tensor_types.iter().find(|(pattern, _)| pattern.is_match(name)).map(|(_, id)| *id);
    let role = match name {
        "token_embd.weight" | "per_layer_token_embd.weight" => options.token_embedding,
        "output.weight" => options.output,
        _ => None,
    };
    let base = options.recipe.filter(|_| options.pure).map(|r| r.base);
    let floats = options.recipe.is_some_and(|r| matches!(r.base, FormatId::F32 | FormatId::F16 | FormatId::Bf16));
    let tied = name == "token_embd.weight" && gguf.tensor("output.weight").is_none() && !floats;
    let tied = options.output.filter(|_| tied);
    // The recipe's counts go on only over tensors it decides about.
    let wanted = role.or(asked).or(base).or(tied).unwrap_or_else(|| chooser.choose(&described));
    let len = |id: FormatId| id.format().block_len as u64;
    let row = t.dims.first().copied().unwrap_or(1);
    let found = if row.is_multiple_of(len(wanted)) { wanted } else { recipe::fallback(wanted, row, len) };
    if !row.is_multiple_of(len(found)) {
        let what = format!("tensor {}: expected rows of a multiple of {}, found {row}", t.name, len(found));
        return Err(Error::file(gguf.path(), "row_not_block_multiple", what));
    }
    let note = (found != wanted)
        .then(|| format!("rows of {row} are no multiple of {}'s {}", wanted.format().name, len(wanted)));
    Ok((Some(found.format()), note))
}

fn parts(gguf: &Gguf, jobs: Vec<Job>, parts: Parts) -> Vec<Vec<Job>> {
    let mut out: Vec<Vec<Job>> = vec![Vec::new()];
    let mut bytes = 0;
    let mut file = jobs.first().map_or(0, |j| gguf.tensors()[j.tensor].place().0);
    for job in jobs {
        let from = gguf.tensors()[job.tensor].place().0;
        let held = out.last().map_or(0, Vec::len);
        let full = match parts {
            Parts::One => false,
            Parts::Kept => from != file,
            Parts::Tensors(most) => held >= most,
            Parts::Bytes(most) => held > 0 && bytes + job.entry.len_bytes > most,
        };
        if full {
            out.push(Vec::new());
            bytes = 0;
        }
        file = from;
        bytes += job.entry.len_bytes;
        if let Some(part) = out.last_mut() {
            part.push(job);
        }
    }
    out
}

/// Where part `no` of `count` goes: the target itself if it is the only one.
pub fn part_path(target: &Path, no: usize, count: usize) -> PathBuf {
    if count == 1 {
        return target.to_path_buf();
    }
    let text = target.to_string_lossy();
    let stem = text.strip_suffix(".gguf").unwrap_or(&text);
    PathBuf::from(format!("{stem}-{:05}-of-{count:05}.gguf", no + 1))
}

/// Writes the plan's files. `progress` gets bytes read so far and may say false to stop; then nothing is left behind and
/// the answer is none.
///
/// # Errors
/// A file that cannot be written, weights that are not finite, an importance matrix of another shape.
pub fn write(
    gguf: &Gguf,
    plan: &Plan,
    options: &Options,
    target: &Path,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Report>> {
    let mut report = Report::default();
    let count = plan.parts.len();
    let mut written = Vec::new();
    for (no, jobs) in plan.parts.iter().enumerate() {
        let mut meta: Vec<(String, Value)> = if no == 0 { plan.meta.clone() } else { Vec::new() };
        if count > 1 {
            let tensors = plan.jobs().count() as i32;
            set(&mut meta, "split.no", Value::U16(no as u16));
            set(&mut meta, "split.count", Value::U16(count as u16));
            set(&mut meta, "split.tensors.count", Value::I32(tensors));
        }
        let entries: Vec<Entry> = jobs.iter().map(|j| j.entry.clone()).collect();
        let mut file = Replacing::create(&part_path(target, no, count))?;
        let alignment = if no == 0 { plan.alignment } else { ALIGNMENT };
        file.write(&header(meta.iter().map(|(k, v)| (k.as_str(), v)), &entries, alignment))?;
        for job in jobs {
            if !tensor(gguf, job, options, &mut file, &mut report, progress)? {
                return Ok(None);
            }
            let padding = job.entry.len_bytes.next_multiple_of(alignment) - job.entry.len_bytes;
            file.write(&vec![0; padding as usize])?;
        }
        written.push(file);
    }
    written.into_iter().try_for_each(Replacing::finish)?;
    Ok(Some(report))
}

/// Weights that scales of halves may not reach.
const LARGE: f32 = 3e4;

/// The first weight of a row that its type could not hold: not even half of it is left.
fn too_large(to: &Format, x: &[f32], row: &[u8]) -> Result<Option<usize>> {
    if !x.iter().any(|x| x.abs() > LARGE) {
        return Ok(None);
    }
    let mut held = try_filled_vec(0f32, x.len(), "a row to quantize")?;
    to.decode_row(row, &mut held);
    let lost = |x: &f32, held: &f32| x.abs() > LARGE && (held.is_nan() || (held - x).abs() > x.abs() / 2.0);
    Ok(x.iter().zip(&held).position(|(x, held)| lost(x, held)))
}

/// Appends one tensor; false if `progress` said to stop.
fn tensor(
    gguf: &Gguf,
    job: &Job,
    options: &Options,
    file: &mut Replacing,
    report: &mut Report,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<bool> {
    let t = &gguf.tensors()[job.tensor];
    let data = gguf.data(t);
    if data.len() as u64 != t.len_bytes {
        let what = format!("tensor {}: expected {} bytes in a file, found {}", t.name, t.len_bytes, data.len());
        return Err(Error::file(gguf.path(), "synthetic", what));
    }
    let cols = t.dims.first().copied().unwrap_or(1) as usize;
    let rows_per_matrix = t.dims.get(1).copied().unwrap_or(1) as usize;
    let (from, to) = match (find(t.type_id), job.to) {
        (Some(from), Some(to)) => (from, to),
        _ => {
            for part in data.chunks(CHUNK_WEIGHTS) {
                file.write(part)?;
                report.bytes_in += part.len() as u64;
                report.bytes_out += part.len() as u64;
                if !progress(report.bytes_in) {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
    };
    let (Some(row_in), Some(row_out)) = (from.row_bytes(cols), to.row_bytes(cols)) else { return Ok(true) };
    let what = format!("tensor {}, to quantize it", t.name);
    let even = try_filled_vec(1.0f32, cols, &what)?;
    let rows_per_chunk = (CHUNK_WEIGHTS / cols.max(1)).clamp(1, rows_per_matrix.max(1));
    for (index, matrix) in data.chunks(row_in * rows_per_matrix).enumerate() {
        let importance = match &options.imatrix {
            Some((imatrix, _)) => imatrix.columns(&t.name, index, cols)?,
            None => None,
        };
        let weight = importance.unwrap_or(&even);
        for (chunk, bytes) in matrix.chunks(row_in * rows_per_chunk).enumerate() {
            let mut out = try_filled_vec(0u8, bytes.len() / row_in * row_out, &what)?;
            let group = (16384 / cols.max(1)).max(1); // rows one thread takes at a time
            let parts = out.par_chunks_mut(row_out * group).zip(bytes.par_chunks(row_in * group)).enumerate();
            let bad = parts.map(|(i, (out, bytes))| {
                let mut x = try_filled_vec(0f32, bytes.len() / row_in * cols, &what)?;
                from.decode_row(bytes, &mut x);
                if let Some(changes) = options.changes.as_ref().filter(|c| c.has(&t.name)) {
                    changes.add(&t.name, index * rows_per_matrix + chunk * rows_per_chunk + i * group, &mut x);
                }
                let first = x.iter().position(|x| !x.is_finite());
                let count = x.iter().filter(|x| !x.is_finite()).count() as u64;
                x.iter_mut().filter(|x| !x.is_finite()).for_each(|x| *x = 0.0);
                let mut lost = usize::MAX;
                for (row, (x, out)) in x.chunks_exact(cols).zip(out.chunks_exact_mut(row_out)).enumerate() {
                    to.encode_row(x, weight, out);
                    let at = too_large(to, x, out)?.map_or(usize::MAX, |at| (i * group + row) * cols + at);
                    lost = lost.min(at);
                }
                Ok((count, first.map_or(usize::MAX, |at| i * group * cols + at), lost))
            });
            let none = || (0, usize::MAX, usize::MAX);
            let (count, first, lost) = bad.try_reduce(none, |a, b| Ok((a.0 + b.0, a.1.min(b.1), a.2.min(b.2))))?;
            if count > 0 && !options.allow_nonfinite {
                let at = (index * rows_per_matrix + chunk * rows_per_chunk) * cols + first;
                let what = format!("tensor {}: expected finite weights, found NaN or infinity at {at}", t.name);
                return Err(Error::file(gguf.path(), "non_finite_weight", what));
            }
            report.nonfinite += count;
            if lost < usize::MAX {
                let at = (index * rows_per_matrix + chunk * rows_per_chunk) * cols + lost;
                let what = format!(
                    "tensor {}: expected weights that {} can hold, found a larger one at {at}",
                    t.name, to.name
                );
                return Err(Error::file(gguf.path(), "large_weight", what));
            }
            file.write(&out)?;
            report.bytes_in += bytes.len() as u64;
            report.bytes_out += out.len() as u64;
            if !progress(report.bytes_in) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
