//! An architecture declares its tensors by GGUF name and shape; everything wrong with the file is told at once.
//!
//! Missing, misshapen and unused tensors are errors, and so is a type the role cannot take.

use super::tensors::Tensors;
use pumex_gguf::{type_name, Error, Gguf, Result, Tensor};
use pumex_plan::{ExpertPart, MatPart, Weight, WeightInfo};
use std::collections::HashSet;

/// Collects declarations against one file.
pub struct Weights<'a> {
    gguf: &'a Gguf,
    found: Vec<WeightInfo>,
    /// What the architecture says of its tensors.
    tensors: Tensors,
    used: HashSet<&'a str>,
    problems: Vec<(&'static str, String)>,
    /// Names of tensors that a problem says are missing.
    missing: HashSet<String>,
}

/// Numbers in a shape; a product that is too large is wrong anyway.
fn count(dims: &[usize]) -> usize {
    dims.iter().fold(1, |all, d| all.saturating_mul(*d))
}

/// Longest list of problems that is printed in full.
const MAX_LISTED: usize = 12;

impl<'a> Weights<'a> {
    /// Starts with nothing declared.
    pub fn new(gguf: &'a Gguf) -> Self {
        let tensors = Tensors::of(gguf.meta().arch().unwrap_or_default());
        let (used, missing) = (HashSet::new(), HashSet::new());
        Weights { gguf, found: Vec::new(), tensors, used, problems: Vec::new(), missing }
    }

    /// The place of a tensor that is there to be read. One that is not there and that the architecture requires is a problem.
    fn find(&mut self, name: &str, shape: impl FnOnce() -> String) -> Option<usize> {
        let gguf = self.gguf;
        let found = gguf.tensors().iter().position(|t| t.name == name);
        if self.tensors.ignores(name) {
            self.skip(name);
            return None;
        }
        if found.is_none() && self.tensors.requires(name) {
            self.miss(name, shape());
        }
        found
    }

    /// A tensor that must be there is not.
    fn miss(&mut self, name: &str, shape: String) {
        if self.missing.insert(name.to_string()) {
            self.problems.push(("missing_tensor", format!("{name}: expected {shape}, found no such tensor")));
        }
    }

    /// `dims` as the file orders them: columns first.
    fn declare(&mut self, name: &str, dims: &[usize], vector: bool, optional: bool) -> Option<Weight> {
        let gguf = self.gguf;
        // Those of a tensor that is not there are none.
        let (cols, rows) = (dims.first().copied().unwrap_or(0), count(dims.get(1..).unwrap_or(&[])));
        let shape = format!("{dims:?}");
        let found = self.find(name, || format!("shape {shape}"));
        let Some(index) = found.filter(|index| *index < gguf.own_tensors().len()) else {
            if !optional {
                self.miss(name, format!("shape {shape}"));
            }
            return None;
        };
        let tensor: &'a Tensor = &gguf.tensors()[index];
        self.used.insert(&tensor.name);
        if !tensor.is_shaped(dims) {
            self.problems.push(("wrong_shape", format!("{name}: expected shape {shape}, found {:?}", tensor.dims)));
            return None;
        }
        let format = pumex_quant::find(tensor.type_id).filter(|f| !vector || f.name == "F32");
        let Some(format) = format else {
            let expected = if vector {
                "F32".to_string()
            } else {
                pumex_quant::FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
            };
            let found = type_name(tensor.type_id);
            self.problems
                .push(("type_not_allowed_for_role", format!("{name}: expected type {expected}, found {found}")));
            return None;
        };
        if !vector && !cols.is_multiple_of(32) {
            self.problems
                .push(("wrong_shape", format!("{name}: expected rows of a multiple of 32 weights, found {cols}")));
            return None;
        }
        self.found.push(WeightInfo { name: name.to_string(), tensor: index, rows, cols, format });
        Some(Weight(self.found.len() - 1))
    }

    /// As [`Weights::declare`] for a type that is known to be of floats.
    fn declare_any(&mut self, name: &str, dims: &[usize]) -> Weight {
        let gguf = self.gguf;
        let found = gguf.own_tensors().iter().enumerate().find(|(_, t)| t.name == name);
        let shaped = found.filter(|(_, t)| t.is_shaped(dims));
        let format = shaped.and_then(|(_, t)| pumex_quant::find(t.type_id));
        let (Some((tensor, t)), Some(format)) = (shaped, format) else { return self.table(name, dims) };
        self.used.insert(&t.name);
        let (cols, rows) = (dims.first().copied().unwrap_or(0), count(dims.get(1..).unwrap_or(&[])));
        self.found.push(WeightInfo { name: name.to_string(), tensor, rows, cols, format });
        Weight(self.found.len() - 1)
    }

    /// A matrix `[rows, cols]` (GGUF order `[cols, rows]`).
    ///
    /// A problem is kept for [`Weights::finish`]; the placeholder returned then is never used.
    pub fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> Weight {
        self.declare(name, &[cols, rows], false, false).unwrap_or(Weight(usize::MAX))
    }

    /// A matrix that may be missing.
    pub fn opt_matrix(&mut self, name: &str, rows: usize, cols: usize) -> Option<Weight> {
        self.declare(name, &[cols, rows], false, true)
    }

    /// A vector `[len]`, always F32.
    pub fn vector(&mut self, name: &str, len: usize) -> Weight {
        self.declare(name, &[len], true, false).unwrap_or(Weight(usize::MAX))
    }

    /// A vector that may be missing.
    pub fn opt_vector(&mut self, name: &str, len: usize) -> Option<Weight> {
        self.declare(name, &[len], true, true)
    }

    /// `NAME.weight [rows, cols]`, with `NAME.bias [rows]` and `NAME.scale [1]` if the file has them.
    pub fn linear(&mut self, name: &str, rows: usize, cols: usize) -> MatPart {
        let weight = self.matrix(&format!("{name}.weight"), rows, cols);
        self.skip(&format!("{name}.input_scale"));
        let bias = self.opt_vector(&format!("{name}.bias"), rows);
        MatPart { weight, bias, scale: self.scale(name) }
    }

    /// As [`Weights::linear`], without the scale, which is not read or means something else there.
    pub fn linear_unscaled(&mut self, name: &str, rows: usize, cols: usize) -> MatPart {
        let weight = self.matrix(&format!("{name}.weight"), rows, cols);
        self.skip(&format!("{name}.scale"));
        MatPart { weight, bias: self.opt_vector(&format!("{name}.bias"), rows), scale: 1.0 }
    }

    /// `NAME.weight [experts, rows, cols]`, one matrix below the other, with `NAME.scale [experts]` if the file has it.
    pub fn experts(&mut self, name: &str, [experts, rows, cols]: [usize; 3]) -> ExpertPart {
        let weight = self.declare(&format!("{name}.weight"), &[cols, rows, experts], false, false);
        self.skip(&format!("{name}.input_scale"));
        let scale = self.opt_vector(&format!("{name}.scale"), experts);
        ExpertPart { weight: weight.unwrap_or(Weight(usize::MAX)), scale }
    }

    /// A matrix for each head, `[heads, rows, cols]`.
    pub fn heads(&mut self, name: &str, heads: usize, rows: usize, cols: usize) -> Weight {
        self.declare(name, &[cols, rows, heads], false, false).unwrap_or(Weight(usize::MAX))
    }

    /// A matrix of one row, which the file has as a vector.
    pub fn row(&mut self, name: &str, cols: usize) -> Weight {
        self.declare(name, &[cols], false, false).unwrap_or(Weight(usize::MAX))
    }

    /// `NAME.weight [rows, cols]` with few columns, read as floats, and its bias.
    pub fn narrow(&mut self, name: &str, rows: usize, cols: usize) -> MatPart {
        let weight = match cols.is_multiple_of(32) {
            true => self.matrix(&format!("{name}.weight"), rows, cols),
            false => self.floats(&format!("{name}.weight"), &[cols, rows]),
        };
        MatPart { weight, bias: self.opt_vector(&format!("{name}.bias"), rows), scale: 1.0 }
    }

    /// Whether the file has a tensor that is read; it is a problem if the architecture requires it. Where the same may be written
    /// in two ways, [`Weights::has_rather`] asks.
    pub fn has(&mut self, name: &str) -> bool {
        self.find(name, || "it".into()).is_some()
    }

    /// Whether the file has a tensor, and not `other`, which says the same. To have neither is a problem if the architecture
    /// requires the first.
    pub fn has_rather(&mut self, name: &str, other: &str) -> bool {
        let there = |name: &str| !self.tensors.ignores(name) && self.gguf.tensor(name).is_some();
        there(name) || !there(other) && self.has(name)
    }

    /// The file's dimensions of a tensor, columns first, without those of 1 at the end; empty if it is not there to be read.
    pub fn dims(&mut self, name: &str) -> Vec<usize> {
        let found = self.find(name, || "it".into());
        found.map_or(Vec::new(), |i| self.gguf.tensors()[i].shape().iter().map(|d| *d as usize).collect())
    }

    /// Whether the architecture requires a tensor wherever a block looks for it.
    pub fn requires(&self, name: &str) -> bool {
        self.tensors.requires(name)
    }

    /// The dimensions of a tensor that nobody has to have.
    pub fn dims_if_there(&mut self, name: &str) -> Vec<usize> {
        if self.gguf.tensor(name).is_some() {
            self.dims(name)
        } else {
            Vec::new()
        }
    }

    /// Those of one that must be there.
    pub fn required_dims(&mut self, name: &str) -> Vec<usize> {
        let dims = self.dims(name);
        if dims.is_empty() && !self.tensors.ignores(name) {
            self.miss(name, "it".into());
        }
        dims
    }

    /// A small table of floats of any shape, columns first; always F32.
    pub fn table(&mut self, name: &str, dims: &[usize]) -> Weight {
        self.declare(name, dims, true, false).unwrap_or(Weight(usize::MAX))
    }

    /// A table of floats of any width and shape, columns first.
    pub fn floats(&mut self, name: &str, dims: &[usize]) -> Weight {
        let id = self.gguf.tensor(name).map(|t| t.type_id);
        let float = id.and_then(pumex_quant::find).filter(|f| f.block_len == 1);
        match float {
            Some(_) => self.declare_any(name, dims),
            None => self.table(name, dims),
        }
    }

    /// A table of integers of 32 bits below `below`, columns first, whose bits are kept as those of floats.
    pub fn integers(&mut self, name: &str, dims: [usize; 2], below: usize) -> Weight {
        const I32: u32 = 26;
        let gguf = self.gguf;
        let found = gguf.own_tensors().iter().enumerate().find(|(_, t)| t.name == name);
        let shaped = found.filter(|(_, t)| t.type_id == I32 && t.is_shaped(&dims));
        let Some((tensor, t)) = shaped else {
            let found =
                found.map_or("no such tensor".into(), |(_, t)| format!("{:?} of {}", t.dims, type_name(t.type_id)));
            self.problem("wrong_shape", format!("{name}: expected {dims:?} of I32, found {found}"));
            self.skip(name);
            return Weight(usize::MAX);
        };
        self.used.insert(&t.name);
        let numbers = gguf.data(t).chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        if let Some(bad) = numbers.into_iter().find(|n| *n as usize >= below) {
            self.problem("value_out_of_range", format!("{name}: expected numbers below {below}, found {}", bad as i32));
        }
        let format = pumex_quant::FormatId::F32.format();
        self.found.push(WeightInfo { name: name.to_string(), tensor, rows: dims[1], cols: dims[0], format });
        Weight(self.found.len() - 1)
    }

    /// A small table of the file's own shape `dims`, as rows of `cols` floats.
    pub fn shaped(&mut self, name: &str, dims: &[usize], cols: usize) -> Weight {
        let dims = if dims.is_empty() { &[cols] } else { dims };
        let (weight, count) = (self.table(name, dims), count(dims));
        if !count.is_multiple_of(cols) {
            self.problem("wrong_shape", format!("{name}: expected rows of {cols}, found {dims:?}"));
        } else if let Some(info) = self.found.get_mut(weight.0) {
            (info.rows, info.cols) = (count / cols, cols);
        }
        weight
    }

    /// A product with few inputs: `NAME.weight [rows, cols]`, read as floats where rows are short.
    pub fn small(&mut self, name: &str, rows: usize) -> MatPart {
        let cols = self.dims(&format!("{name}.weight")).first().copied().unwrap_or(32);
        let part = self.narrow(name, rows, cols);
        MatPart { bias: None, ..part }
    }

    /// A small table that may be missing.
    pub fn opt_table(&mut self, name: &str, dims: &[usize]) -> Option<Weight> {
        self.declare(name, dims, true, true)
    }

    /// Accepts all tensors whose names start so; they are not read.
    pub fn ignore(&mut self, prefix: &str) {
        let names = self.gguf.own_tensors().iter().filter(|t| t.name.starts_with(prefix));
        self.used.extend(names.map(|t| t.name.as_str()));
    }

    /// A tensor that is not read, which must be there all the same if the architecture requires it in every layer.
    pub fn pass_over(&mut self, name: &str) {
        if !self.tensors.accepts(name) {
            self.find(name, || "it".into());
        }
        self.skip(name);
    }

    /// Tensors whose names start so, which are not read; where a layer has some of them, it must have all that are required.
    pub fn pass_over_part(&mut self, prefix: &str) {
        let gguf = self.gguf;
        let part =
            prefix.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).filter(|(_, part)| !part.is_empty());
        if let Some((layer, part)) = part.filter(|_| gguf.tensors().iter().any(|t| t.name.starts_with(prefix))) {
            for rest in self.tensors.required_of(part) {
                self.pass_over(&format!("blk.{layer}.{rest}"));
            }
        }
        self.ignore(prefix);
    }

    /// A problem of the file.
    pub fn problem(&mut self, code: &'static str, what: String) {
        self.problems.push((code, what));
    }

    /// What a product is multiplied with: `NAME.scale [1]`, else 1.
    pub fn scale(&mut self, name: &str) -> f32 {
        match self.opt_vector(&format!("{name}.scale"), 1) {
            Some(weight) => self.values(weight).first().copied().unwrap_or(1.0),
            None => 1.0,
        }
    }

    /// Accepts a tensor that is not read.
    fn skip(&mut self, name: &str) {
        if let Some(tensor) = self.gguf.tensor(name) {
            self.used.insert(&tensor.name);
        }
    }

    /// Rows of the embedding, read off the file: the vocabulary's size.
    pub fn vocab_rows(&self) -> usize {
        let table = self.gguf.tensor("token_embd.weight").or_else(|| self.gguf.tensor("output.weight"));
        let rows = table.and_then(|t| t.dims.get(1).copied()).unwrap_or(1);
        usize::try_from(rows).unwrap_or(usize::MAX)
    }

    /// Decoded values of a declared vector.
    pub fn values(&self, weight: Weight) -> Vec<f32> {
        // A placeholder of a tensor that is missing has none.
        let Some(info) = self.found.get(weight.0) else { return Vec::new() };
        let mut out = vec![0.0; info.cols];
        info.format.decode_row(self.gguf.data(&self.gguf.tensors()[info.tensor]), &mut out);
        out
    }

    /// Decoded values of a declared table, row after row.
    pub fn floats_of(&self, weight: Weight) -> Vec<f32> {
        let Some(info) = self.found.get(weight.0) else { return Vec::new() };
        let mut out = vec![0.0; info.rows * info.cols];
        let row_bytes = info.cols / info.format.block_len * info.format.block_bytes;
        let rows = self.gguf.data(&self.gguf.tensors()[info.tensor]).chunks_exact(row_bytes.max(1));
        rows.zip(out.chunks_exact_mut(info.cols.max(1))).for_each(|(row, out)| info.format.decode_row(row, out));
        out
    }

    /// All declared weights, if nothing was wrong and nothing in the file was left over.
    ///
    /// # Errors
    /// One error that lists every problem.
    pub fn finish(mut self) -> Result<Vec<WeightInfo>> {
        for t in self.gguf.own_tensors() {
            if !self.used.contains(t.name.as_str()) && !self.tensors.accepts(&t.name) {
                let what = format!("{}: expected no such tensor in this architecture, found {:?}", t.name, t.dims);
                self.problems.push(("unknown_tensor", what));
            }
        }
        let Some((code, _)) = self.problems.first() else {
            return Ok(self.found);
        };
        let code = *code;
        let mut lines: Vec<&str> = self.problems.iter().map(|(_, what)| what.as_str()).take(MAX_LISTED).collect();
        let more = format!("and {} more", self.problems.len().saturating_sub(MAX_LISTED));
        if self.problems.len() > MAX_LISTED {
            lines.push(&more);
        }
        Err(Error::file(self.gguf.path(), code, lines.join("; ")))
    }
}
