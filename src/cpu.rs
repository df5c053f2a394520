//! The plan's plain interpreter: f32 on the CPU, one loop per op. It is the truth the Vulkan engine is compared with,
//! and what `--device cpu` runs.

mod interpret;
mod ops;

pub use ops::route;

use crate::gguf::Gguf;
use crate::plan::{LayerState, Plan, Val, Weight};
use crate::sample::SamplerOptions;
use crate::session::{Session, Stores, KV_BLOCK};
use crate::step::{Counters, Limits, Output, Row, RowOutput, Runner, Squares, Ticket, Token};
use crate::{Error, Result};
use std::ops::Range;

/// What one sequence keeps of each layer: K `[pos, k_width]` and V `[pos, v_width]`, empty where a layer keeps none.
type SeqCache = Vec<(Vec<f32>, Vec<f32>)>;

/// Runs a plan on the CPU.
pub struct Reference<'a> {
    gguf: &'a Gguf,
    plan: Plan,
    session: Session,
    caches: Vec<SeqCache>,
    /// By sequence.
    sampled: Vec<u32>,
    /// By output row; none where a logit is NaN.
    ids: Vec<Option<u32>>,
    values: Vec<Vec<f32>>,
    importance: Option<Vec<Vec<f64>>>,
    finished: Vec<(Ticket, Result<Output>)>,
    /// By sequence, the row whose logits were NaN when its last id was to be sampled.
    spoilt: Vec<Option<usize>>,
    next_ticket: u64,
}

impl<'a> Reference<'a> {
    /// An interpreter for up to `n_seqs` sequences of `n_ctx` positions, `max_rows` rows a step.
    pub fn new(gguf: &'a Gguf, plan: Plan, n_ctx: usize, n_seqs: usize, max_rows: usize) -> Self {
        let layer = || (Vec::new(), Vec::new());
        let limits = Limits { n_vocab: plan.n_vocab, n_ctx, max_rows, n_seqs };
        // Memory that grows: there are always as many blocks as sequences may fill.
        let blocks = n_ctx.div_ceil(KV_BLOCK) * n_seqs;
        Reference {
            caches: (0..n_seqs).map(|_| plan.layers.iter().map(|_| layer()).collect()).collect(),
            sampled: vec![0; n_seqs],
            spoilt: vec![None; n_seqs],
            session: Session::new(limits, &Stores::of(&plan.layers).sized(blocks, n_seqs, n_ctx, max_rows)),
            ids: Vec::new(),
            values: vec![Vec::new(); plan.values.len()],
            gguf,
            plan,
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
        let wanted: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].has_output()).collect();
        for i in range {
            self.op(i, rows, &wanted);
        }
    }

    /// A value after [`Reference::run_ops`], `[rows, width]`.
    pub fn value(&self, v: Val) -> &[f32] {
        &self.values[v.0]
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
        let (x, used) = (x.collect::<Vec<_>>(), routed.top_k.k);
        let mut counts = vec![0.0; input.matrices()];
        for (i, route) in self.values[routed.route.0].chunks_exact(4 * used).enumerate() {
            for slot in 0..used {
                let expert = ops::Route::of(route, slot, used).expert;
                add(expert, x[if routed.per_expert_input { i * used + slot } else { i }]);
                counts[expert] += 1.0;
            }
        }
        sums[input.matrices() * input.cols..].iter_mut().zip(&counts).for_each(|(all, n)| *all += n);
    }

    /// What the step of these rows gave.
    fn output(&mut self, rows: &[Row]) -> Result<Output> {
        let listed = || rows.iter().enumerate().filter(|(_, row)| row.has_output());
        let started = rows.iter().filter(|row| row.token == Token::Sampled).find_map(|r| self.spoilt[r.seq as usize]);
        let nan = listed().zip(&self.ids).find_map(|((i, _), id)| id.is_none().then_some(i));
        let failed = started.or(nan);
        for ((i, row), id) in listed().zip(&self.ids) {
            self.spoilt[row.seq as usize] = started.or(id.is_none().then_some(i));
        }
        if let Some(row) = failed {
            return Err(Error::nan_logits(row));
        }
        let ids = self.ids.iter().flatten().copied().collect();
        let logits = self.values[self.plan.logits.0].chunks_exact(self.plan.n_vocab);
        let asked = listed().zip(logits).filter(|((_, row), _)| row.output == RowOutput::Logits);
        let logits = asked.flat_map(|(_, logits)| logits.iter().copied()).collect();
        Ok(Output { ids, logits })
    }
}

impl Runner for Reference<'_> {
    fn n_vocab(&self) -> usize {
        self.plan.n_vocab
    }

    fn n_ctx(&self) -> usize {
        self.session.limits().n_ctx
    }

    fn max_rows(&self) -> usize {
        self.session.limits().max_rows
    }

    fn start(&mut self, rows: &[Row]) -> Result<Ticket> {
        self.session.admit(rows)?;
        self.session.started(rows);
        self.ids.clear();
        self.run_ops(rows, 0..self.plan.ops.len());
        let output = self.output(rows);
        self.next_ticket += 1;
        self.finished.push((Ticket(self.next_ticket), output));
        Ok(Ticket(self.next_ticket))
    }

    fn finish(&mut self, ticket: Ticket) -> Result<Output> {
        let Some(i) = self.finished.iter().position(|(t, _)| *t == ticket) else {
            return Err(Error::Request(format!("step {}: expected a step that was started", ticket.0)));
        };
        let output = self.finished.remove(i).1;
        if output.is_err() {
            let spoilt = self.spoilt.iter().zip(0..).filter(|(row, _)| row.is_some());
            spoilt.for_each(|(_, seq)| self.session.lose_sampled(seq));
        }
        output
    }

    fn refuses(&self, _chain: &SamplerOptions) -> Option<String> {
        None
    }

    fn forget(&mut self, seq: u32, from: u32) {
        let held = self.session.forget(seq, from);
        let layers = &self.plan.layers;
        if let Some(cache) = self.caches.get_mut(seq as usize) {
            for (layer, (k, v)) in layers.iter().zip(cache) {
                let Some(spec) = layer.kv() else { continue };
                k.truncate(held * spec.k_width());
                v.truncate(held * spec.v_width());
            }
        }
    }

    fn fork(&mut self, from: u32, to: u32, n_positions: u32) -> Result<()> {
        self.session.fork(from, to, n_positions as usize)?;
        let n = n_positions as usize;
        let copy = |(layer, (k, v)): (&LayerState, &(Vec<f32>, Vec<f32>))| {
            let (k_width, v_width) = layer.kv().map_or((0, 0), |spec| (spec.k_width(), spec.v_width()));
            (k[..n * k_width].to_vec(), v[..n * v_width].to_vec())
        };
        self.caches[to as usize] = self.plan.layers.iter().zip(&self.caches[from as usize]).map(copy).collect();
        Ok(())
    }

    fn free_blocks(&self) -> usize {
        self.session.blocks().free(0)
    }

    fn blocks_needed(&self, rows: &[Row]) -> usize {
        self.session.blocks().needed(0, rows)
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
