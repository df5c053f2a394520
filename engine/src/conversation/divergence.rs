//! How far a model's distributions are from a base model's: KL divergence, and agreement on the likeliest token.
//!
//! The base is a file in llama.cpp's form: the ids, then per scored position the log-probabilities as 16-bit steps between
//! the largest and the one 16 below it.

use std::path::Path;

use rayon::prelude::*;

use pumex_gguf::file::Replacing;
use pumex_gguf::map::Map;
use pumex_gguf::{Error, Result};

const MAGIC: &[u8; 8] = b"_logits_";
/// Log-probabilities further below the largest count as this far below.
const RANGE: f32 = 16.0;

/// Bytes of a scored position: scale, least, and an even number of steps.
fn row_bytes(n_vocab: usize) -> usize {
    8 + 2 * n_vocab.next_multiple_of(2)
}

/// Largest logit and the logarithm of the sum of exponentials below it.
fn normalizer(logits: &[f32]) -> (f32, f64) {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    (top, logits.iter().map(|l| f64::from(l - top).exp()).sum::<f64>().ln())
}

/// Writes a base file while perplexity is measured.
pub struct BaseWriter {
    file: Replacing,
    n_vocab: usize,
}

impl BaseWriter {
    /// Starts a file for the windows of `ids`.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn create(path: &Path, n_ctx: usize, n_vocab: usize, windows: usize, ids: &[u32]) -> Result<BaseWriter> {
        let mut file = Replacing::create(path)?;
        file.write(MAGIC)?;
        [n_ctx, n_vocab, windows].iter().try_for_each(|n| file.write(&(*n as u32).to_le_bytes()))?;
        let ids: Vec<u8> = ids[..n_ctx * windows].iter().flat_map(|id| id.to_le_bytes()).collect();
        file.write(&ids)?;
        Ok(BaseWriter { file, n_vocab })
    }

    /// Appends positions.
    ///
    /// # Errors
    /// A full disk.
    pub fn rows(&mut self, logits: &[f32]) -> Result<()> {
        let coded = |row: &[f32]| {
            let (top, sum) = normalizer(row);
            let least = row.iter().copied().fold(f32::INFINITY, f32::min).max(top - RANGE);
            let scale = (top - least) / 65535.0;
            let mut out = Vec::with_capacity(row_bytes(self.n_vocab));
            out.extend(scale.to_le_bytes());
            out.extend(((f64::from(least - top) - sum) as f32).to_le_bytes());
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            for l in row {
                out.extend((((l - least).max(0.0) * inverse).round() as u16).to_le_bytes());
            }
            out.resize(row_bytes(self.n_vocab), 0);
            out
        };
        let parts: Vec<Vec<u8>> = logits.par_chunks_exact(self.n_vocab).map(coded).collect();
        parts.iter().try_for_each(|part| self.file.write(part))
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// As for [`Replacing::finish`].
    pub fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

/// A base file, mapped.
pub struct Base {
    map: Map,
    /// Ids per window.
    pub n_ctx: usize,
    /// Windows.
    pub windows: usize,
    n_vocab: usize,
}

impl Base {
    /// Opens a file and checks that it holds what it says.
    ///
    /// # Errors
    /// `bad_base`, with expected and found.
    pub fn open(path: &Path, n_vocab: usize) -> Result<Base> {
        let map = Map::open(path)?;
        let fail = |what: String| Err(Error::file(path, "bad_base", what));
        if map.len() < 20 || !map.starts_with(MAGIC) {
            return fail("expected saved log-probabilities (_logits_), found something else".into());
        }
        let number = |i: usize| u32::from_le_bytes([map[i], map[i + 1], map[i + 2], map[i + 3]]) as usize;
        let (n_ctx, vocab, windows) = (number(8), number(12), number(16));
        if vocab != n_vocab {
            return fail(format!("vocabulary: expected the model's {n_vocab}, found {vocab}"));
        }
        let rows = windows.checked_mul(n_ctx.saturating_sub(n_ctx / 2 + 1)).filter(|_| n_ctx >= 4);
        let bytes = rows.and_then(|r| r.checked_mul(row_bytes(vocab))).and_then(|b| b.checked_add(20));
        let bytes = windows.checked_mul(n_ctx).and_then(|n| n.checked_mul(4)).zip(bytes);
        let Some(expected) = bytes.and_then(|(ids, rows)| ids.checked_add(rows)) else {
            return fail(format!("expected a window of at least 4 ids, found {windows} windows of {n_ctx}"));
        };
        if map.len() != expected {
            return fail(format!("expected {expected} bytes for {windows} windows of {n_ctx}, found {}", map.len()));
        }
        Ok(Base { map, n_ctx, windows, n_vocab })
    }

    /// The ids that were scored.
    pub fn ids(&self) -> Vec<u32> {
        let raw = &self.map[20..20 + 4 * self.n_ctx * self.windows];
        raw.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    /// Log-probabilities of a scored position.
    fn row(&self, index: usize) -> Option<Vec<f32>> {
        let at = 20 + 4 * self.n_ctx * self.windows + index * row_bytes(self.n_vocab);
        let raw = self.map.get(at..at + row_bytes(self.n_vocab))?;
        let float = |i: usize| f32::from_le_bytes([raw[i], raw[i + 1], raw[i + 2], raw[i + 3]]);
        let (scale, least) = (float(0), float(4));
        let steps = raw[8..8 + 2 * self.n_vocab].chunks_exact(2);
        Some(steps.map(|b| least + scale * f32::from(u16::from_le_bytes([b[0], b[1]]))).collect())
    }
}

/// One position's comparison.
#[derive(Clone, Copy, Debug)]
struct Position {
    divergence: f64,
    same_top: bool,
    difference: f64,
    loss_base: f64,
}

/// Comparisons so far.
pub struct Divergence {
    base: Base,
    positions: Vec<Position>,
}

/// What they come to.
#[derive(Clone, Debug, serde::Serialize)]
#[allow(missing_docs)]
pub struct Summary {
    /// Positions compared.
    pub positions: usize,
    /// exp of the base's mean loss.
    pub ppl_base: f64,
    pub mean: f64,
    /// Standard error of the mean.
    pub uncertainty: f64,
    pub maximum: f64,
    pub minimum: f64,
    /// (per cent, divergence that so many positions stay below).
    pub percentiles: Vec<(f64, f64)>,
    /// Share of positions whose likeliest token is the base's.
    pub same_top: f64,
    /// Root mean square and mean of the change in the right token's probability.
    pub rms_difference: f64,
    pub mean_difference: f64,
}

impl Divergence {
    /// Compares with `base`.
    pub fn new(base: Base) -> Divergence {
        Divergence { base, positions: Vec::new() }
    }

    /// Adds positions: logits and the ids that came.
    ///
    /// # Errors
    /// More positions than the base holds.
    pub fn rows(&mut self, logits: &[f32], targets: &[u32]) -> Result<()> {
        let first = self.positions.len();
        let one = |(i, (row, id)): (usize, (&[f32], &u32))| -> Option<Position> {
            let base = self.base.row(first + i)?;
            let (top, sum) = normalizer(row);
            let log = |j: usize| f64::from(row[j] - top) - sum;
            let mut divergence = 0.0;
            // What lies this far down was cut off by the form, so it says nothing.
            for (j, b) in base.iter().enumerate().filter(|(_, b)| **b > -RANGE) {
                let p = f64::from(*b).exp();
                divergence += p * (f64::from(*b) - log(j));
            }
            let best = |values: &[f32]| {
                let larger = |a: usize, j: usize| if values[j] > values[a] { j } else { a };
                (1..values.len()).fold(0, larger)
            };
            let id = *id as usize;
            Some(Position {
                divergence,
                same_top: best(row) == best(&base),
                difference: log(id).exp() - f64::from(base[id]).exp(),
                loss_base: -f64::from(base[id]),
            })
        };
        let pairs = logits.par_chunks_exact(self.base.n_vocab).zip(targets).enumerate();
        let found: Option<Vec<Position>> = pairs.map(one).collect();
        let what = || Error::Request("the base holds fewer positions than the text".into());
        self.positions.extend(found.ok_or_else(what)?);
        Ok(())
    }

    /// The summary of all positions so far; none before the first.
    pub fn summary(&self) -> Option<Summary> {
        let n = self.positions.len() as f64;
        let mean = |f: &dyn Fn(&Position) -> f64| self.positions.iter().map(f).sum::<f64>() / n;
        let mut sorted: Vec<f64> = self.positions.iter().map(|p| p.divergence).collect();
        sorted.sort_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let at = |percent: f64| sorted[((percent / 100.0 * (n - 1.0)).round()) as usize];
        let average = mean(&|p| p.divergence);
        let variance = mean(&|p| (p.divergence - average).powi(2));
        Some(Summary {
            positions: self.positions.len(),
            ppl_base: mean(&|p| p.loss_base).exp(),
            mean: average,
            uncertainty: (variance / (n - 1.0).max(1.0)).sqrt(),
            maximum: last,
            minimum: first,
            percentiles: [99.9, 99.0, 95.0, 90.0, 50.0, 10.0, 5.0, 1.0, 0.1].map(|p| (p, at(p))).to_vec(),
            same_top: mean(&|p| f64::from(u8::from(p.same_top))),
            rms_difference: mean(&|p| p.difference.powi(2)).sqrt(),
            mean_difference: mean(&|p| p.difference),
        })
    }
}
