//! The plan's plain interpreter: f32 on the CPU, one loop per op. It is the truth the Vulkan engine is compared with,
//! and what `--device cpu` runs.

mod interpret;
mod ops;

pub use ops::route;

use crate::gguf::Gguf;
use crate::plan::{LayerState, Plan, Val, Weight};
use crate::sample::{Draw, SamplerOptions};
use crate::step::{self, Counters, Output, Row, Runner, Squares, Ticket, Want};
use crate::{Error, Result};
use std::ops::Range;

/// What one sequence keeps of each layer: K `[pos, k_width]` and V `[pos, v_width]`, empty where a layer keeps none.
type SeqCache = Vec<(Vec<f32>, Vec<f32>)>;

/// Runs a plan on the CPU.
pub struct Reference<'a> {
    gguf: &'a Gguf,
    plan: Plan,
    n_ctx: usize,
    max_rows: usize,
    caches: Vec<SeqCache>,
    sampled: Vec<u32>,
    draws: Vec<Draw>,
    ids: Vec<u32>,
    values: Vec<Vec<f32>>,
    importance: Option<Vec<Vec<f64>>>,
    finished: Vec<(Ticket, Output)>,
    next_ticket: u64,
}

impl<'a> Reference<'a> {
    /// An interpreter for up to `n_seqs` sequences of `n_ctx` positions, `max_rows` rows a step.
    pub fn new(gguf: &'a Gguf, plan: Plan, n_ctx: usize, n_seqs: usize, max_rows: usize) -> Self {
        let layer = || (Vec::new(), Vec::new());
        Reference {
            caches: (0..n_seqs).map(|_| plan.layers.iter().map(|_| layer()).collect()).collect(),
            sampled: vec![0; n_seqs],
            draws: Vec::new(),
            ids: Vec::new(),
            values: vec![Vec::new(); plan.values.len()],
            gguf,
            plan,
            n_ctx,
            max_rows,
            importance: None,
            finished: Vec::new(),
            next_ticket: 0,
        }
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the ops of `range` for `rows`; values of earlier ops are those of the last call.
    pub fn run_ops(&mut self, rows: &[Row], range: Range<usize>) {
        let wanted: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].wanted).collect();
        for i in range {
            self.op(i, rows, &wanted);
        }
    }

    /// A value after [`Reference::run_ops`], `[rows, width]`.
    pub fn value(&self, v: Val) -> &[f32] {
        &self.values[v.0]
    }

    /// Positions of a sequence in the first cache there is.
    fn held(&self, seq: usize) -> usize {
        let mut layers = self.plan.layers.iter().map(LayerState::kv).zip(&self.caches[seq]);
        layers.find_map(|(spec, (k, _))| Some(k.len() / spec?.k_width())).unwrap_or(0)
    }

    fn matrix(&self, w: Weight) -> ops::Matrix<'_> {
        let info = &self.plan.weights[w.0];
        let data = self.gguf.data(&self.gguf.tensors()[info.tensor]);
        ops::Matrix { data, rows: info.rows, cols: info.cols, format: info.format }
    }

    fn vector(&self, w: Weight) -> Vec<f32> {
        self.matrix(w).row(0)
    }

    /// Adds the squares of an op's input to its sums, if it is a product and they are wanted.
    fn note_importance(&mut self, index: usize) {
        let Some(sums) = &mut self.importance else { return };
        let inputs = self.plan.inputs();
        let Some((input, sums)) = inputs.iter().zip(sums).find(|(input, _)| input.op == index) else { return };
        let mut add = |matrix: usize, row: &[f32]| {
            let sums = &mut sums[matrix * input.cols..][..input.cols];
            sums.iter_mut().zip(row).for_each(|(s, x)| *s += f64::from(*x) * f64::from(*x));
        };
        let x = self.values[input.x.0].chunks_exact(input.cols);
        let Some(routed) = input.routed else { return x.for_each(|row| add(0, row)) };
        let (x, used) = (x.collect::<Vec<_>>(), routed.chosen.used);
        let mut counts = vec![0.0; input.matrices()];
        for (i, route) in self.values[routed.route.0].chunks_exact(4 * used).enumerate() {
            for slot in 0..used {
                let expert = ops::Route::of(route, slot, used).expert;
                add(expert, x[if routed.apart { i * used + slot } else { i }]);
                counts[expert] += 1.0;
            }
        }
        sums[input.matrices() * input.cols..].iter_mut().zip(&counts).for_each(|(all, n)| *all += n);
    }
}

impl Runner for Reference<'_> {
    fn n_vocab(&self) -> usize {
        self.plan.n_vocab
    }

    fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    fn max_rows(&self) -> usize {
        self.max_rows
    }

    fn start(&mut self, rows: &[Row], want: Want<'_>) -> Result<Ticket> {
        let limits = step::Limits {
            n_vocab: self.plan.n_vocab,
            n_ctx: self.n_ctx,
            max_rows: self.max_rows,
            n_seqs: self.caches.len(),
        };
        limits.check(rows)?;
        step::Limits::check_draws(rows, want)?;
        for row in rows {
            let held = self.held(row.seq as usize);
            let earlier = rows.iter().filter(|r| r.seq == row.seq && r.pos < row.pos).count();
            if row.pos as usize > held + earlier {
                let what = format!("position {} of sequence {}: expected at most {held}", row.pos, row.seq);
                return Err(Error::Request(what));
            }
        }
        self.draws = want.draws().to_vec();
        self.run_ops(rows, 0..self.plan.ops.len());
        self.draws.clear();
        let (logits, ids) = (&self.values[self.plan.logits.0], self.ids.clone());
        let logits = if want == Want::Logits { logits.clone() } else { Vec::new() };
        self.next_ticket += 1;
        self.finished.push((Ticket(self.next_ticket), Output { ids, logits }));
        Ok(Ticket(self.next_ticket))
    }

    fn finish(&mut self, ticket: Ticket) -> Result<Output> {
        match self.finished.iter().position(|(t, _)| *t == ticket) {
            Some(i) => Ok(self.finished.remove(i).1),
            None => Err(Error::Request(format!("step {}: expected a step that was started", ticket.0))),
        }
    }

    fn refuses(&self, _chain: &SamplerOptions) -> Option<String> {
        None
    }

    fn forget(&mut self, seq: u32, from: u32) {
        for (layer, (k, v)) in self.plan.layers.iter().zip(&mut self.caches[seq as usize]) {
            let Some(spec) = layer.kv() else { continue };
            k.truncate(from as usize * spec.k_width());
            v.truncate(from as usize * spec.v_width());
        }
    }

    fn collect_importance(&mut self) -> Result<()> {
        self.importance = Some(self.plan.inputs().iter().map(|input| vec![0.0; input.floats()]).collect());
        Ok(())
    }

    fn importance(&mut self) -> Result<Vec<Squares>> {
        let sums = self.importance.iter().flatten().map(|sums| sums.iter().map(|s| *s as f32).collect::<Vec<_>>());
        Ok(self.plan.inputs().iter().zip(sums).map(|(input, sums)| self.plan.squares(input, sums)).collect())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn device(&self) -> String {
        format!("CPU reference, {} threads", rayon::current_num_threads())
    }
}
