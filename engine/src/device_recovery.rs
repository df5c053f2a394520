//! A runner that outlives its device: where that is lost, the model is loaded anew, once, and what its sequences held is computed
//! again. Whoever runs it notices nothing but the time.
//!
//! Without `--retry-lost` a device that is lost ends a command with what it was handed last.

use pumex_gguf::{Error, Result};
use pumex_step::sample::{Allowed, SamplerOptions};
use pumex_step::{
    whole_groups, Counters, MediumRow, Output, Row, RowOutput, Runner, Squares, Ticket, Token, VectorLimits,
};
use std::collections::VecDeque;
use std::io::{Read, Write};

/// How the model is loaded anew.
pub type Anew<'a> = Box<dyn FnOnce() -> Result<Box<dyn Runner + 'a>> + Send + 'a>;

/// A step in flight.
struct Flying {
    ours: Ticket,
    /// The runner's own.
    theirs: Ticket,
    rows: Vec<Row>,
    allowed: Option<Vec<Allowed>>,
    /// Sequences that were cut since, and where.
    cut: Vec<(u32, u32)>,
}

/// A runner, and what to have another one compute if it is lost.
pub struct Reviving<'a> {
    /// None once it was lost and there is no other.
    runner: Option<Box<dyn Runner + 'a>>,
    /// None once it was done, or what sequences hold cannot be told by their tokens.
    anew: Option<Anew<'a>>,
    revived: bool,
    /// Tokens and vectors of each sequence, of finished steps.
    held: Vec<Vec<(Token, Option<MediumRow>)>>,
    /// By sequence, the id that its last output row gave, and whether the runner knows it as the one that it sampled.
    latest: Vec<(Option<u32>, bool)>,
    flying: VecDeque<Flying>,
    started: u64,
    /// By sequence, the scales of its adapters; empty where none were set.
    scales: Vec<Vec<f32>>,
}

impl<'a> Reviving<'a> {
    /// A runner, and how it is made again.
    pub fn new(runner: Box<dyn Runner + 'a>, anew: Anew<'a>) -> Self {
        let (held, latest, flying) = (Vec::new(), Vec::new(), VecDeque::new());
        let scales = Vec::new();
        Reviving { runner: Some(runner), anew: Some(anew), revived: false, held, latest, flying, started: 0, scales }
    }

    fn own(&mut self) -> Result<&mut (dyn Runner + 'a)> {
        self.runner.as_deref_mut().ok_or_else(|| Error::Lost("the device of this model was lost before".into()))
    }

    fn get<T>(&self, of: impl FnOnce(&dyn Runner) -> T) -> Option<T> {
        let runner = self.runner.as_deref()?;
        Some(of(runner))
    }

    /// Has room for a sequence.
    fn books(&mut self, seq: u32) -> usize {
        let (seq, len) = (seq as usize, self.held.len().max(seq as usize + 1));
        self.held.resize(len, Vec::new());
        self.latest.resize(len, (None, true));
        seq
    }

    /// Rows as the runner takes them: with the ids that another one sampled.
    fn resolve_sampled_ids(&self, rows: &[Row]) -> Vec<Row> {
        let known = |row: &Row| {
            let mut row = row.clone();
            if let (Token::Sampled, Some((Some(id), false))) = (row.token, self.latest.get(row.seq as usize)) {
                row.token = Token::Id(*id);
                if let RowOutput::Sample(request) = &mut row.output {
                    request.recent.push(*id); // which the device does with those that it sampled
                }
            }
            row
        };
        rows.iter().map(known).collect()
    }

    /// Sequences with output rows have ids that the runner knows.
    fn mark_sampled(&mut self, rows: &[Row]) {
        for row in rows.iter().filter(|row| row.has_output()) {
            let seq = self.books(row.seq);
            self.latest[seq].1 = true;
        }
    }

    /// Loads the model anew, has it compute what sequences held, and starts the steps that were in flight.
    fn revive(&mut self, lost: Error) -> Result<()> {
        let Some(anew) = self.anew.take() else { return Err(lost) };
        tracing::warn!("{lost}; the model is loaded anew, and what it held computed again");
        let n_ctx = self.n_ctx();
        self.runner = None; // what it holds is freed first
        let mut runner = anew()?;
        if runner.n_ctx() < n_ctx {
            let found = runner.n_ctx();
            return Err(Error::Lost(format!("{lost}; anew, expected room for {n_ctx} positions, found {found}")));
        }
        for (seq, scales) in (0..).zip(&self.scales).filter(|(_, scales)| !scales.is_empty()) {
            runner.set_adapter_scales(seq, scales)?;
        }
        for (seq, held) in (0..).zip(&self.held) {
            let row = |(pos, (token, medium)): (u32, &(Token, Option<MediumRow>))| {
                let (token, medium) = (*token, medium.clone());
                Row { seq, pos, token, output: RowOutput::None, medium }
            };
            let rows: Vec<Row> = (0..).zip(held).map(row).collect();
            let source = rows.iter().take_while(|row| row.token.is_source()).count();
            let mut at = 0;
            while at < rows.len() {
                let count = if at < source { source } else { whole_groups(&rows[at..], runner.max_rows())? };
                let ticket = runner.start(&rows[at..at + count])?;
                runner.finish(ticket)?;
                at += count;
            }
        }
        (self.runner, self.revived) = (Some(runner), true);
        self.latest.iter_mut().for_each(|(_, own)| *own = false);
        for i in 0..self.flying.len() {
            let rows = self.flying[i].rows.clone();
            let taken = self.resolve_sampled_ids(&rows);
            let theirs = self.own()?.start(&taken)?;
            if let Some(allowed) = self.flying[i].allowed.clone() {
                self.own()?.allow(theirs, &allowed)?;
            }
            for (seq, from) in self.flying[i].cut.clone() {
                self.own()?.forget(seq, from);
            }
            self.flying[i].theirs = theirs;
            self.mark_sampled(&rows);
        }
        Ok(())
    }

    /// What asks the runner for something that nothing was started for; a lost one is revived, and asked again.
    fn ask_runner<T>(&mut self, ask: impl Fn(&mut dyn Runner) -> Result<T>) -> Result<T> {
        match ask(self.own()?) {
            Err(lost @ Error::Lost(_)) => self.revive(lost)?,
            other => return other,
        }
        ask(self.own()?)
    }

    /// A finished step's rows are held, and its ids known.
    fn keep(&mut self, step: Flying, output: &Output) {
        let is_nan = |at: usize| output.nan.iter().any(|nan| nan.output == at);
        let mut ids = output.ids.iter().enumerate().map(|(at, id)| Some(*id).filter(|_| !is_nan(at)));
        for row in &step.rows {
            let seq = self.books(row.seq);
            let token = match (row.token, self.latest[seq].0) {
                (Token::Sampled, Some(id)) => Token::Id(id),
                (token, _) => token,
            };
            self.held[seq].truncate(row.pos as usize);
            self.held[seq].push((token, row.medium.clone()));
            if row.has_output() {
                self.latest[seq].0 = ids.next().flatten();
            }
        }
        for (seq, from) in step.cut {
            let seq = self.books(seq);
            self.held[seq].truncate(from as usize);
            self.latest[seq].0 = None;
        }
    }
}

impl Runner for Reviving<'_> {
    fn n_vocab(&self) -> usize {
        self.get(|runner| runner.n_vocab()).unwrap_or(0)
    }

    fn n_ctx(&self) -> usize {
        self.get(|runner| runner.n_ctx()).unwrap_or(0)
    }

    fn max_rows(&self) -> usize {
        self.get(|runner| runner.max_rows()).unwrap_or(0)
    }

    fn vectors(&self) -> Option<VectorLimits> {
        self.get(|runner| runner.vectors()).flatten()
    }

    fn answers_from(&self) -> Option<u32> {
        self.get(|runner| runner.answers_from()).flatten()
    }

    fn adapters(&self) -> usize {
        self.get(|runner| runner.adapters()).unwrap_or(0)
    }

    fn set_adapter_scales(&mut self, seq: u32, scales: &[f32]) -> Result<()> {
        self.own()?.set_adapter_scales(seq, scales)?;
        let at = seq as usize;
        self.scales.resize(self.scales.len().max(at + 1), Vec::new());
        self.scales[at] = scales.to_vec();
        Ok(())
    }

    fn start(&mut self, rows: &[Row]) -> Result<Ticket> {
        let theirs = loop {
            let taken = self.resolve_sampled_ids(rows);
            match self.own()?.start(&taken) {
                Err(lost @ Error::Lost(_)) => self.revive(lost)?,
                other => break other?,
            }
        };
        self.mark_sampled(rows);
        let ours = Ticket(self.started);
        self.started += 1;
        self.flying.push_back(Flying { ours, theirs, rows: rows.to_vec(), allowed: None, cut: Vec::new() });
        Ok(ours)
    }

    fn finish_each(&mut self, ticket: Ticket) -> Result<Output> {
        loop {
            let Some(theirs) = self.flying.front().filter(|step| step.ours == ticket).map(|step| step.theirs) else {
                return Err(Error::Request(format!("step {}: expected the oldest one in flight", ticket.0)));
            };
            let output = match self.own()?.finish_each(theirs) {
                Err(lost @ Error::Lost(_)) => {
                    self.revive(lost)?;
                    continue;
                }
                output => output,
            };
            let none = Output::default();
            if let Some(step) = self.flying.pop_front() {
                self.keep(step, output.as_ref().unwrap_or(&none));
            }
            return output;
        }
    }

    fn runs_ahead(&self) -> bool {
        self.get(|runner| runner.runs_ahead()).unwrap_or(false)
    }

    fn allows_later(&self) -> bool {
        self.get(|runner| runner.allows_later()).unwrap_or(false)
    }

    fn allow(&mut self, ticket: Ticket, allowed: &[Allowed]) -> Result<()> {
        loop {
            let newest = self.flying.back().filter(|step| step.ours == ticket).map(|step| step.theirs);
            let theirs = newest.unwrap_or(Ticket(u64::MAX)); // which no runner has
            match self.own()?.allow(theirs, allowed) {
                Err(lost @ Error::Lost(_)) => self.revive(lost)?,
                other => {
                    if let (Ok(()), Some(step)) = (&other, self.flying.back_mut()) {
                        step.allowed = Some(allowed.to_vec());
                    }
                    return other;
                }
            }
        }
    }

    fn lists(&self) -> bool {
        self.get(|runner| runner.lists()).unwrap_or(false)
    }

    /// Logits of the last step; of one before the device was lost there are none any more.
    fn last_logits(&mut self) -> Result<Vec<f32>> {
        self.own()?.last_logits()
    }

    fn refuses(&self, chain: &SamplerOptions) -> Option<String> {
        self.get(|runner| runner.refuses(chain)).flatten()
    }

    fn forget(&mut self, seq: u32, from: u32) -> usize {
        let Some(runner) = &mut self.runner else { return 0 };
        let still = runner.forget(seq, from);
        let at = self.books(seq);
        if still < self.held[at].len() || from == 0 {
            self.held[at].truncate(still);
            self.latest[at] = (None, true);
        }
        let later = |step: &&mut Flying| step.rows.iter().any(|row| row.seq == seq && row.pos as usize >= still);
        self.flying.iter_mut().filter(later).for_each(|step| step.cut.push((seq, still as u32)));
        still
    }

    fn can_cut(&self, seq: u32, from: u32) -> bool {
        self.get(|runner| runner.can_cut(seq, from)).unwrap_or(false)
    }

    fn fork(&mut self, from: u32, to: u32, n_positions: u32) -> Result<()> {
        self.own()?.fork(from, to, n_positions)?;
        let (from, to) = (self.books(from), self.books(to));
        match self.held[from].get(..n_positions as usize) {
            Some(tokens) => self.held[to] = tokens.to_vec(),
            None => self.anew = None, // some of them are in flight
        }
        self.latest[to] = (None, true);
        Ok(())
    }

    fn sequence_len(&self, seq: u32) -> usize {
        self.get(|runner| runner.sequence_len(seq)).unwrap_or(0)
    }

    fn state_layout(&self) -> String {
        self.get(|runner| runner.state_layout()).unwrap_or_default()
    }

    fn save(&mut self, seq: u32, to: &mut dyn Write) -> Result<()> {
        self.own()?.save(seq, to)
    }

    fn restore(&mut self, seq: u32, from: &mut dyn Read) -> Result<()> {
        self.anew = None; // nobody says which tokens it holds
        self.own()?.restore(seq, from)
    }

    fn may_change(&self) -> Option<String> {
        self.get(|runner| runner.may_change()).flatten()
    }

    fn save_beside(&mut self, seq: u32, to: &mut dyn Write) -> Result<()> {
        self.own()?.save_beside(seq, to)
    }

    fn restore_beside(&mut self, beside: u32, seq: u32, from: &mut dyn Read) -> Result<()> {
        self.anew = None;
        self.own()?.restore_beside(beside, seq, from)
    }

    fn free_blocks(&self) -> usize {
        self.get(|runner| runner.free_blocks()).unwrap_or(0)
    }

    fn blocks_needed(&self, rows: &[Row]) -> usize {
        self.get(|runner| runner.blocks_needed(rows)).unwrap_or(0)
    }

    fn fill_rows(&mut self, rows: &[f32]) {
        self.anew = None; // rows that no token stands for
        self.runner.iter_mut().for_each(|runner| runner.fill_rows(rows));
    }

    fn time_steps(&mut self, on: bool) {
        self.runner.iter_mut().for_each(|runner| runner.time_steps(on));
    }

    fn counters(&self) -> Counters {
        self.get(|runner| runner.counters()).unwrap_or_default()
    }

    fn device(&self) -> String {
        self.get(|runner| runner.device()).unwrap_or_else(|| "a device that was lost".into())
    }

    fn was_revived(&self) -> bool {
        self.revived
    }

    fn collect_importance(&mut self) -> Result<()> {
        self.ask_runner(|runner| runner.collect_importance())?;
        self.anew = None; // sums are lost with the device
        Ok(())
    }

    fn importance(&mut self) -> Result<Vec<Squares>> {
        self.own()?.importance()
    }
}
