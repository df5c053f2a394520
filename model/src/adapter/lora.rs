//! A LoRA adapter: for tensors of a model, pairs of matrices of low rank whose product is added to them.

use super::MAX_RANK;
use crate::quantize::Changes;
use pumex_gguf::error::try_filled_vec;
use pumex_gguf::{type_name, Error, Gguf, Result, Tensor};
use pumex_plan::Plan;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A pair: a change of `up · down` of a matrix `[rows, cols]`, or of each of several that lie one below the other.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// `[count, rank, cols]`
    pub down: Vec<f32>,
    /// `[count, rows, rank]`
    pub up: Vec<f32>,
    pub rank: usize,
    pub rows: usize,
    pub cols: usize,
    /// Matrices.
    pub count: usize,
    /// Type of both in the file; none if they differ.
    pub type_id: Option<u32>,
}

/// An adapter's file.
#[derive(Debug)]
pub struct Lora {
    gguf: Gguf,
    /// Tells with the rank by how much pairs count; none counts them as they are.
    alpha: Option<f32>,
    /// By the model's tensor, indices of A and of B.
    pairs: BTreeMap<String, [usize; 2]>,
}

/// Dimensions, with ones for what a tensor has not.
fn dims(t: &Tensor) -> [u64; 3] {
    [0, 1, 2].map(|i| t.dims.get(i).copied().unwrap_or(1))
}

/// Whether the pair has the rows of a table instead of those of a matrix, with A and B the other way round.
fn is_table(name: &str) -> bool {
    name.ends_with("token_embd.weight")
}

/// What a tensor's product is multiplied with besides: `NAME.scale` of a plan, one or one for each expert.
fn factors(gguf: &Gguf, plan: &Plan, name: &str) -> Vec<f32> {
    let name = format!("{}.scale", name.strip_suffix(".weight").unwrap_or(name));
    let Some(info) = plan.weights.iter().find(|w| w.name == name) else { return Vec::new() };
    let mut out = vec![0.0; info.rows * info.cols];
    info.format.decode_row(gguf.data(&gguf.tensors()[info.tensor]), &mut out);
    out
}

impl Lora {
    /// Opens an adapter.
    ///
    /// # Errors
    /// A file that is no LoRA adapter, or one with tensors that are no pairs of matrices.
    pub fn open(path: &Path) -> Result<Lora> {
        Self::of(Gguf::open(path)?)
    }

    /// An adapter of an opened file.
    ///
    /// # Errors
    /// As [`Lora::open`].
    pub fn of(gguf: Gguf) -> Result<Lora> {
        let fail = |code, what: String| Err(Error::file(gguf.path(), code, what));
        for (key, expected) in [("general.type", "adapter"), ("adapter.type", "lora")] {
            let found = gguf.meta().opt_str(key)?.unwrap_or("none");
            if found != expected {
                return fail("not_an_adapter", format!("{key}: expected {expected}, found {found}"));
            }
        }
        if gguf.meta().get("adapter.alora.invocation_tokens").is_some() {
            let what = "adapter.alora.invocation_tokens: expected an adapter of whole texts, found one that begins at certain tokens";
            return fail("unsupported_adapter", what.into());
        }
        let alpha = gguf.meta().opt_f32("adapter.lora.alpha")?.filter(|alpha| *alpha != 0.0);
        if let Some(alpha) = alpha.filter(|alpha| !alpha.is_finite()) {
            return fail("bad_hparam", format!("adapter.lora.alpha: expected a finite number, found {alpha}"));
        }
        let mut found: BTreeMap<String, [Option<usize>; 2]> = BTreeMap::new();
        for (i, t) in gguf.tensors().iter().enumerate() {
            let name = &t.name;
            let half =
                [".lora_a", ".lora_b"].iter().enumerate().find_map(|(j, end)| Some((j, name.strip_suffix(end)?)));
            match half {
                Some((j, of)) => found.entry(of.to_string()).or_default()[j] = Some(i),
                None if name.ends_with("_norm.weight") => {
                    tracing::warn!("{}: {name}: norms of adapters are not applied", gguf.path().display());
                }
                None => return fail("unknown_tensor", format!("{name}: expected a name ending in .lora_a or .lora_b")),
            }
            if half.is_some() && (pumex_quant::find(t.type_id).is_none() || t.shape().len() > 3) {
                let what = format!(
                    "{name}: expected up to 3 dimensions of weights, found {:?} of {}",
                    t.dims,
                    type_name(t.type_id)
                );
                return fail("type_not_allowed_for_role", what);
            }
        }
        let mut pairs = BTreeMap::new();
        for (name, halves) in found {
            let [Some(a), Some(b)] = halves else {
                let (there, missing) = if halves[0].is_some() { ("lora_a", "lora_b") } else { ("lora_b", "lora_a") };
                return fail(
                    "missing_tensor",
                    format!("{name}.{missing}: expected it beside {name}.{there}, found no such tensor"),
                );
            };
            pairs.insert(name, [a, b]);
        }
        Ok(Lora { alpha, pairs, gguf })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.gguf.path()
    }

    /// The tensors that it changes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.keys().map(String::as_str)
    }

    /// Whether it is for the model.
    ///
    /// # Errors
    /// Another architecture, tensors that the model has not or has in other shapes, a rank out of bounds.
    pub fn check(&self, base: &Gguf) -> Result<()> {
        let fail = |code, what: String| Err(Error::file(self.path(), code, what));
        let (ours, arch) = (base.meta().arch()?, self.gguf.meta().arch()?);
        if ours != arch {
            return fail("wrong_arch", format!("general.architecture: expected {ours}, found {arch}"));
        }
        for (name, halves) in &self.pairs {
            let Some(t) = base.tensor(name) else {
                let what = format!("{name}: expected a tensor of {}, found no such one there", base.path().display());
                return fail("unknown_tensor", what);
            };
            let [a, b] = halves.map(|i| &self.gguf.tensors()[i]);
            let ([cols, rows, count], [a_0, a_1, a_2], [b_0, b_1, b_2]) = (dims(t), dims(a), dims(b));
            let (rank, fits) = match is_table(name) {
                true => (a_0, b_0 == a_0 && a_1 == rows && b_1 == cols),
                false => (a_1, b_0 == a_1 && a_0 == cols && b_1 == rows),
            };
            if !(1..=MAX_RANK).contains(&rank) {
                return fail("bad_rank", format!("{name}.lora_a: expected a rank of 1 to {MAX_RANK}, found {rank}"));
            }
            if !fits || [a_2, b_2] != [count; 2] || t.shape().len() > 3 {
                let (a_dims, b_dims) = (&a.dims, &b.dims);
                let what =
                    format!("{name}: expected a pair for a tensor of {:?}, found {a_dims:?} and {b_dims:?}", t.dims);
                return fail("wrong_shape", what);
            }
        }
        Ok(())
    }

    fn floats(&self, at: usize) -> Result<Vec<f32>> {
        let t = &self.gguf.tensors()[at];
        let (cols, bad) = (dims(t)[0] as usize, |what: &str| {
            let what = format!("{}: expected finite weights in whole blocks, found {what}", t.name);
            Error::file(self.path(), "non_finite_weight", what)
        });
        let format = pumex_quant::find(t.type_id).ok_or_else(|| bad("no weights"))?;
        let row = format.row_bytes(cols).ok_or_else(|| bad("a part of one"))?;
        self.gguf.touch(t, 0, t.len_bytes as usize)?;
        let count = usize::try_from(t.elements()).unwrap_or(usize::MAX);
        let mut out = try_filled_vec(0.0, count, &format!("{}: tensor {}", self.path().display(), t.name))?;
        let rows = self.gguf.data(t).chunks_exact(row.max(1)).zip(out.chunks_exact_mut(cols.max(1)));
        rows.for_each(|(bytes, out)| format.decode_row(bytes, out));
        match out.iter().all(|x| x.is_finite()) {
            true => Ok(out),
            false => Err(bad("NaN or infinity")),
        }
    }

    /// The pair of a tensor, as the checked model has it.
    pub(super) fn pair(&self, name: &str) -> Result<Option<Pair>> {
        let Some(&[at_a, at_b]) = self.pairs.get(name) else { return Ok(None) };
        let [a, b] = [at_a, at_b].map(|i| &self.gguf.tensors()[i]);
        let type_id = Some(a.type_id).filter(|id| *id == b.type_id);
        let [a_0, a_1, count] = dims(a).map(|d| d as usize);
        let (rows, cols) = (dims(b)[1] as usize, a_0);
        let (a, b) = (self.floats(at_a)?, self.floats(at_b)?);
        if is_table(name) {
            // A has the table's rows, B is [cols, rank].
            let (rank, rows, cols) = (a_0, a_1, rows);
            let down = (0..rank * cols).map(|i| b[i % cols * rank + i / cols]).collect();
            return Ok(Some(Pair { down, up: a, rank, rows, cols, count, type_id }));
        }
        Ok(Some(Pair { down: a, up: b, rank: a_1, rows, cols, count, type_id }))
    }

    /// How much a pair of that rank counts at a scale.
    pub(super) fn scale(&self, scale: f32, rank: usize) -> f32 {
        self.alpha.map_or(scale, |alpha| scale * alpha / rank as f32)
    }
}

/// What adapters add to the tensors of a model, ready to be added to rows of them.
pub struct Deltas(BTreeMap<String, Vec<(Pair, Vec<f32>)>>);

impl Deltas {
    /// Of adapters, each times its scale; `plan` is the model's.
    ///
    /// # Errors
    /// As [`Lora::check`], and weights that are not finite.
    pub fn new(base: &Gguf, plan: &Plan, loras: &[(Lora, f32)]) -> Result<Deltas> {
        super::check_count("--lora", loras.len())?;
        let mut all: BTreeMap<String, Vec<(Pair, Vec<f32>)>> = BTreeMap::new();
        for (lora, scale) in loras {
            lora.check(base)?;
            for name in lora.names().filter(|_| *scale != 0.0) {
                let Some(pair) = lora.pair(name)? else { continue };
                let by = each_scale(base, plan, (lora, *scale), name, &pair)?;
                all.entry(name.to_string()).or_default().push((pair, by));
            }
        }
        Ok(Deltas(all))
    }

    /// The tensors that they are for.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Changes for Deltas {
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn add(&self, name: &str, first: usize, x: &mut [f32]) {
        for (pair, scales) in self.0.get(name).into_iter().flatten() {
            let (rank, cols) = (pair.rank, pair.cols);
            for (row, x) in (first..).zip(x.chunks_exact_mut(cols)) {
                let of = row / pair.rows;
                let (Some(up), Some(scale)) = (pair.up.get(row * rank..(row + 1) * rank), scales.get(of)) else {
                    continue;
                };
                for (up, down) in up.iter().zip(pair.down[of * rank * cols..].chunks_exact(cols)) {
                    x.iter_mut().zip(down).for_each(|(x, down)| *x += scale * up * down);
                }
            }
        }
    }
}

/// What each matrix of a pair is multiplied with, for it to be added to weights. A product's own factor is none of the pair.
pub(super) fn each_scale(
    base: &Gguf,
    plan: &Plan,
    (lora, scale): (&Lora, f32),
    name: &str,
    pair: &Pair,
) -> Result<Vec<f32>> {
    let (scale, factors) = (lora.scale(scale, pair.rank), factors(base, plan, name));
    let factor =
        |i: usize| if factors.len() == pair.count { factors[i] } else { factors.first().copied().unwrap_or(1.0) };
    let all: Vec<f32> = (0..pair.count).map(|i| scale / factor(i)).collect();
    if let Some(bad) = all.iter().find(|x| !x.is_finite()) {
        let what = format!("{name}: expected a scale that the tensor's own divides, found {bad}");
        return Err(Error::file(lora.path(), "bad_scale", what));
    }
    Ok(all)
}

/// Adapters with their scales, of files.
///
/// # Errors
/// As [`Lora::open`].
pub fn open_all(files: &[(PathBuf, f32)]) -> Result<Vec<(Lora, f32)>> {
    super::check_count("--lora", files.len())?;
    files.iter().map(|(path, scale)| Ok((Lora::open(path)?, *scale))).collect()
}
