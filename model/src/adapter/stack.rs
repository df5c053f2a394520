//! Pairs of several adapters, and of the matrices of one product, as one: A's rows one below the other, B's columns side by side,
//! with all scales in B.

use super::lora::{each_scale, Lora, Pair};
use pumex_gguf::error::try_filled_vec;
use pumex_gguf::write::Entry;
use pumex_gguf::{Error, Gguf, Result};
use pumex_plan::{Plan, Site, SiteKind};
use pumex_quant::{Format, FormatId};

/// Ranks are filled up to a multiple of this, as kernels read so many weights of a row.
const RANKS: usize = 32;

/// A pair of a site.
pub(super) struct Stacked {
    kind: SiteKind,
    /// `[count, rank, cols]`
    a: Vec<f32>,
    /// `[count, rows, rank]`
    b: Vec<f32>,
    rank: usize,
    /// Of each adapter, in their order.
    ranks: Vec<usize>,
    rows: usize,
    cols: usize,
    /// Type of all that went in, if it is one.
    type_id: Option<u32>,
}

/// A pair, where its rows start among those of the site, and what its matrices are multiplied with.
struct Placed {
    pair: Pair,
    from: usize,
    scales: Vec<f32>,
}

impl Stacked {
    /// Of what adapters have for a site, if they have something.
    ///
    /// # Errors
    /// Weights that are not finite.
    pub(super) fn of(gguf: &Gguf, plan: &Plan, site: &Site, loras: &[(&Lora, f32)]) -> Result<Option<Stacked>> {
        let count = if let SiteKind::Each(count) = site.kind { count } else { 1 };
        let mut placed: Vec<Placed> = Vec::new();
        let mut ranks = vec![0; loras.len()];
        let (mut rows, mut cols) = (0, 0);
        // Columns of one adapter lie side by side.
        for (adapter, (lora, scale)) in loras.iter().enumerate() {
            rows = 0;
            for (weight, product_scale) in &site.parts {
                let info = &plan.weights[weight.0];
                let from = rows;
                rows += info.rows / count;
                cols = info.cols;
                let Some(pair) = lora.pair(&info.name)? else { continue };
                if pair.cols != info.cols || ![1, count].contains(&pair.count) {
                    let what =
                        format!("{}: expected a tensor that is one matrix for a product, found {count}", info.name);
                    return Err(Error::file(lora.path(), "unsupported_adapter", what));
                }
                let mut scales = each_scale(gguf, plan, (*lora, *scale), &info.name, &pair)?;
                scales.iter_mut().for_each(|s| *s *= product_scale);
                // What a file has as one matrix may be several, and several one.
                if scales.len() != count {
                    scales = vec![scales.first().copied().unwrap_or(0.0); count];
                }
                ranks[adapter] += pair.rank;
                placed.push(Placed { pair, from, scales });
            }
        }
        let Some(first) = placed.first() else { return Ok(None) };
        let type_id = first.pair.type_id.filter(|id| placed.iter().all(|p| p.pair.type_id == Some(*id)));
        Self::join(site.kind, (&placed, type_id), ranks, (count, rows, cols)).map(Some)
    }

    fn join(
        kind: SiteKind,
        (placed, type_id): (&[Placed], Option<u32>),
        ranks: Vec<usize>,
        (count, rows, cols): (usize, usize, usize),
    ) -> Result<Stacked> {
        let rank = placed.iter().map(|p| p.pair.rank).sum::<usize>().next_multiple_of(RANKS);
        // One matrix of a file may be for all experts of a model.
        let room = |rows: usize, cols: usize| {
            let n = count.checked_mul(rows).and_then(|n| n.checked_mul(cols)).unwrap_or(usize::MAX);
            try_filled_vec(0.0, n, &format!("an adapter of rank {rank} for {count} matrices"))
        };
        let (mut a, mut b) = (room(rank, cols)?, room(rows, rank)?);
        let mut at = 0;
        for Placed { pair, from, scales } in placed {
            let (r, m) = (pair.rank, pair.up.len() / pair.rank / count);
            for (i, scale) in scales.iter().enumerate() {
                // One `down` may be that of all.
                let own = if pair.down.len() == r * cols { 0 } else { i * r * cols };
                a[(i * rank + at) * cols..][..r * cols].copy_from_slice(&pair.down[own..][..r * cols]);
                for (j, up) in pair.up[i * m * r..][..m * r].chunks_exact(r).enumerate() {
                    let to = &mut b[(i * rows + from + j) * rank + at..][..r];
                    to.iter_mut().zip(up).for_each(|(to, up)| *to = scale * up);
                }
            }
            at += r;
        }
        if kind == SiteKind::Rows {
            // The table's rows come first, and a matrix behind them: [rows, rank], [cols, rank].
            let turned = (0..cols * rank).map(|i| a[i % rank * cols + i / rank]).collect();
            return Ok(Stacked { kind, a: b, b: turned, rank, ranks, rows, cols, type_id });
        }
        Ok(Stacked { kind, a, b, rank, ranks, rows, cols, type_id })
    }

    /// How many columns each adapter has, as a tensor without a name.
    pub(super) fn ranks(&self) -> (Entry, Vec<u8>) {
        let ranks: Vec<f32> = self.ranks.iter().map(|n| *n as f32).collect();
        coded([ranks.len(), 1, 1], &ranks, None)
    }

    /// A and B, yet without names.
    pub(super) fn tensors(self, count: usize) -> [(Entry, Vec<u8>); 2] {
        let (rank, rows, cols) = (self.rank, self.rows, self.cols);
        let shapes = match self.kind {
            SiteKind::Rows => [[rank, rows, 1], [rank, cols, 1]],
            _ => [[cols, rank, count], [rank, rows, count]],
        };
        let [a, b] = shapes;
        [coded(a, &self.a, self.type_id), coded(b, &self.b, self.type_id)]
    }
}

/// Numbers in the halves that they came in, if they still are some; else as floats of 32 bits.
fn coded(dims: [usize; 3], x: &[f32], type_id: Option<u32>) -> (Entry, Vec<u8>) {
    let halves = [FormatId::F16, FormatId::Bf16].map(FormatId::format).into_iter().find(|f| Some(f.ggml_id) == type_id);
    let bytes = |format: &Format| {
        let mut out = vec![0; x.len() * format.block_bytes];
        format.encode_row(x, &vec![1.0; x.len()], &mut out);
        out
    };
    let exact = |format: &&'static Format| {
        let mut back = vec![0.0; x.len()];
        format.decode_row(&bytes(format), &mut back);
        back == x
    };
    let format = halves.filter(exact).unwrap_or(FormatId::F32.format());
    let bytes = bytes(format);
    let dims = dims.iter().map(|d| *d as u64).collect();
    (Entry { name: String::new(), dims, type_id: format.ggml_id, len_bytes: bytes.len() as u64 }, bytes)
}
