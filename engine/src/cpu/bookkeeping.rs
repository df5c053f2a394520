//! What every interpreter on the CPU keeps between steps beside its numbers: sampled ids, finished steps, sums of squares.

use super::ops::{self, Route};
use crate::session::Session;
use pumex_gguf::{Error, Result};
use pumex_plan::Plan;
use pumex_step::sample::Shortlist;
use pumex_step::{Nan, Output, Row, RowOutput, Squares, Ticket, Token, MEDIA_IDS};

/// The books of a runner.
#[derive(Default)]
pub struct Books {
    /// By sequence.
    sampled: Vec<u32>,
    /// By row of the step, its positions in the four streams; the first is where it stands in the sequence, or where its text does
    /// behind pictures.
    positions: Vec<[u32; 4]>,
    /// By row of the step, the scales of its sequence's adapters.
    scales: Vec<f32>,
    adapters: usize,
    /// By output row; none where a logit is NaN.
    ids: Vec<Option<u32>>,
    importance: Option<Vec<Vec<f64>>>,
    finished: Vec<(Ticket, Output)>,
    /// By sequence, the row whose logits were NaN when its last id was to be sampled.
    spoilt: Vec<Option<usize>>,
    next_ticket: u64,
}

impl Books {
    /// For so many sequences.
    pub fn new(n_seqs: usize) -> Books {
        Books { sampled: vec![0; n_seqs], spoilt: vec![None; n_seqs], ..Books::default() }
    }

    /// A row's id.
    pub fn id(&self, row: &Row) -> usize {
        match row.token {
            // Of rows of media nothing follows from an id but what follows from the first one.
            Token::Id(id) if id >= MEDIA_IDS => 0,
            Token::Id(id) | Token::Source(id) => id as usize,
            Token::Sampled => self.sampled[row.seq as usize] as usize,
        }
    }

    /// A step of these rows starts, which are admitted.
    pub fn start(&mut self, session: &Session, rows: &[Row]) {
        self.ids.clear();
        self.positions.clear();
        self.positions.extend(rows.iter().map(|row| session.blocks().position(row)));
        self.adapters = session.adapters();
        self.scales.clear();
        self.scales.extend(rows.iter().flat_map(|row| session.adapter_scales(row.seq)));
    }

    /// Scales of the adapters of a row's sequence.
    pub fn adapter_scales(&self, row: usize) -> &[f32] {
        &self.scales[row * self.adapters..][..self.adapters]
    }

    /// By row of the step, its positions in the four streams that rotations go by.
    pub fn positions(&self) -> &[[u32; 4]] {
        &self.positions
    }

    /// Samples the ids of the rows of `wanted` (indices) from their logits, `[wanted, n_vocab]`. `largest` gives the index of
    /// the largest logit, none if one is NaN.
    pub fn sample(
        &mut self,
        logits: &[f32],
        n_vocab: usize,
        rows: &[Row],
        wanted: &[usize],
        largest: impl Fn(&[f32]) -> Option<u32>,
    ) {
        let Books { sampled, ids, .. } = self;
        let unread = |row: &Row| (row.token == Token::Sampled).then(|| sampled[row.seq as usize]);
        let choose = |(&r, logits): (&usize, &[f32])| match &rows[r].output {
            RowOutput::Sample(request) if !request.is_argmax() => {
                request.pick(logits, unread(&rows[r]), &mut Vec::new())
            }
            _ => largest(logits),
        };
        ids.clear();
        ids.extend(wanted.iter().zip(logits.chunks_exact(n_vocab)).map(choose));
        wanted.iter().zip(ids).for_each(|(&r, id)| sampled[rows[r].seq as usize] = id.unwrap_or(0));
    }

    /// Sums of squares are wanted from now on.
    pub fn collect_importance(&mut self, plan: &Plan) {
        self.importance = Some(plan.inputs().iter().map(|input| vec![0.0; input.floats()]).collect());
    }

    /// Adds the squares of an op's input to its sums, if it is a product and they are wanted.
    pub fn note_importance(&mut self, plan: &Plan, values: &[Vec<f32>], index: usize) {
        let Some(sums) = &mut self.importance else { return };
        let inputs = plan.inputs();
        let Some((input, sums)) = inputs.iter().zip(sums).find(|(input, _)| input.op == index) else { return };
        let mut add = |matrix: usize, row: &[f32]| {
            let sums = &mut sums[matrix * input.cols..][..input.cols];
            sums.iter_mut().zip(row).for_each(|(s, x)| *s += f64::from(*x) * f64::from(*x));
        };
        let x = values[input.x.0].chunks_exact(input.cols);
        let Some(routed) = input.routed else { return x.for_each(|row| add(0, row)) };
        let (x, used) = (x.collect::<Vec<_>>(), routed.top_k.k);
        let mut counts = vec![0.0; input.matrices()];
        for (i, route) in values[routed.route.0].chunks_exact(4 * used).enumerate() {
            for slot in 0..used {
                let expert = ops::Route::of(route, slot, used).expert;
                add(expert, x[if routed.per_expert_input { i * used + slot } else { i }]);
                counts[expert] += 1.0;
            }
        }
        sums[input.matrices() * input.cols..].iter_mut().zip(&counts).for_each(|(all, n)| *all += n);
    }

    /// The sums so far.
    pub fn importance(&self, plan: &Plan) -> Vec<Squares> {
        let sums = self.importance.iter().flatten().map(|sums| sums.iter().map(|s| *s as f32).collect::<Vec<_>>());
        plan.inputs().iter().zip(sums).map(|(input, sums)| plan.squares(input, sums)).collect()
    }

    /// The step of these rows has ended with these logits.
    pub fn end(&mut self, logits: &[f32], n_vocab: usize, rows: &[Row]) -> Ticket {
        let output = self.output(logits, n_vocab, rows);
        self.next_ticket += 1;
        self.finished.push((Ticket(self.next_ticket), output));
        Ticket(self.next_ticket)
    }

    /// What the step of these rows gave.
    fn output(&mut self, logits: &[f32], n_vocab: usize, rows: &[Row]) -> Output {
        let listed = || rows.iter().enumerate().filter(|(_, row)| row.has_output());
        let from_sampled = rows.iter().filter(|row| row.token == Token::Sampled);
        let from_nan = from_sampled.filter_map(|r| self.spoilt[r.seq as usize].map(|row| (r.seq, row)));
        let from_nan = from_nan.collect::<Vec<_>>();
        let mut nan = Vec::new();
        for (output, ((i, row), id)) in listed().zip(&self.ids).enumerate() {
            let before = from_nan.iter().find(|(seq, _)| *seq == row.seq).map(|(_, row)| *row);
            let spoilt = before.or(id.is_none().then_some(i));
            self.spoilt[row.seq as usize] = spoilt;
            nan.extend(spoilt.map(|row| Nan { output, row }));
        }
        let ids = self.ids.iter().map(|id| id.unwrap_or(0)).collect();
        let asked = listed().zip(logits.chunks_exact(n_vocab)).filter(|((_, row), _)| row.output == RowOutput::Logits);
        let copied = asked.flat_map(|(_, logits)| logits.iter().copied()).collect();
        let shortlist = |((_, row), logits): ((usize, &Row), &[f32])| match &row.output {
            RowOutput::Shortlist(request) => Some(Shortlist::of(logits, request)),
            _ => None,
        };
        let shortlists = listed().zip(logits.chunks_exact(n_vocab)).filter_map(shortlist).collect();
        Output { ids, logits: copied, shortlists, nan }
    }

    /// Hands a step's output out, and takes ids from sequences that have none after all.
    pub fn finish(&mut self, session: &mut Session, ticket: Ticket) -> Result<Output> {
        let Some(i) = self.finished.iter().position(|(t, _)| *t == ticket) else {
            return Err(Error::Request(format!("step {}: expected a step that was started", ticket.0)));
        };
        let output = self.finished.remove(i).1;
        if !output.nan.is_empty() {
            let spoilt = self.spoilt.iter().zip(0..).filter(|(row, _)| row.is_some());
            spoilt.for_each(|(_, seq)| session.lose_sampled(seq));
        }
        Ok(output)
    }
}

/// The routes of a value's rows, one for each expert that a row uses.
pub fn routes(values: &[f32], used: usize) -> impl Iterator<Item = Route> + '_ {
    values.chunks_exact(4 * used).flat_map(move |row| (0..used).map(move |slot| Route::of(row, slot, used)))
}
