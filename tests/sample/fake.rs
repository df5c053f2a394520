//! A runner without a model: the next id is a fixed function of the last one.
//!
//! It checks what every runner may rely on: positions without gaps, at most two steps in flight, at most `max_rows`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pumex::step::{Counters, Output, Row, RowOutput, Runner, Ticket, Token};
use pumex::Result;

/// After `id` comes `(id + 1) % 10` with logit 3, then `(id + 2) % 10` with logit 2, the rest have 0.
pub struct FakeRunner {
    pub cache: Vec<u32>,
    sampled: u32,
    pub unfinished: VecDeque<Output>,
    pub most_unfinished: usize,
    pub steps: u64,
    pub logit_rows: usize,
    n_ctx: usize,
    /// Whether it draws ids itself.
    draws: bool,
    pub drawn_rows: usize,
    /// Whether a started step is done when `start` is.
    at_once: bool,
    /// How long a step takes then, and how long its pipelines do, of the first one that has its number of rows.
    takes: [Duration; 2],
    seen: Vec<usize>,
    built: Duration,
}

/// Logits after `id`.
fn logits_after(id: u32) -> [f32; 10] {
    let mut logits = [0.0; 10];
    logits[(id as usize + 1) % 10] = 3.0;
    logits[(id as usize + 2) % 10] = 2.0;
    logits
}

impl FakeRunner {
    pub fn new(n_ctx: usize) -> Self {
        FakeRunner {
            cache: vec![],
            sampled: 0,
            unfinished: VecDeque::new(),
            most_unfinished: 0,
            steps: 0,
            logit_rows: 0,
            draws: false,
            drawn_rows: 0,
            n_ctx,
            at_once: false,
            takes: [Duration::ZERO; 2],
            seen: vec![],
            built: Duration::ZERO,
        }
    }
}

impl FakeRunner {
    /// This runner, drawing ids itself if `draws`.
    pub fn drawing(self, draws: bool) -> Self {
        FakeRunner { draws, ..self }
    }

    /// This runner, doing a step's work when it is started, as the CPU does, in that time and one more for a shape's first.
    pub fn at_once(self, step: Duration, pipelines: Duration) -> Self {
        FakeRunner { at_once: true, takes: [step, pipelines], ..self }
    }
}

impl Runner for FakeRunner {
    fn n_vocab(&self) -> usize {
        10
    }
    fn n_ctx(&self) -> usize {
        self.n_ctx
    }
    fn max_rows(&self) -> usize {
        4
    }
    fn runs_ahead(&self) -> bool {
        !self.at_once
    }
    fn start(&mut self, rows: &[Row]) -> Result<Ticket> {
        std::thread::sleep(self.takes[0]);
        if !self.seen.contains(&rows.len()) {
            self.seen.push(rows.len());
            let begun = Instant::now();
            std::thread::sleep(self.takes[1]);
            self.built += begun.elapsed();
        }
        assert!(!rows.is_empty() && rows.len() <= 4, "{} rows", rows.len());
        let mut output = Output::default();
        for row in rows {
            assert_eq!(row.pos as usize, self.cache.len(), "positions come without gaps");
            assert!(self.cache.len() < self.n_ctx, "row outside the context");
            let id = if let Token::Id(id) = row.token { id } else { self.sampled };
            self.cache.push(id);
            if row.has_output() {
                let unread = (row.token == Token::Sampled).then_some(id);
                self.sampled = match &row.output {
                    RowOutput::Sample(request) => {
                        self.drawn_rows += 1;
                        request.pick(&logits_after(id), unread, &mut Vec::new()).unwrap()
                    }
                    _ => (id + 1) % 10,
                };
                output.ids.push(self.sampled);
                if row.output == RowOutput::Logits {
                    output.logits.extend(logits_after(id));
                    self.logit_rows += 1;
                }
            }
        }
        self.unfinished.push_back(output);
        self.most_unfinished = self.most_unfinished.max(self.unfinished.len());
        assert!(self.unfinished.len() <= 2, "more than two steps in flight");
        self.steps += 1;
        Ok(Ticket(self.steps))
    }
    fn finish_each(&mut self, _: Ticket) -> Result<Output> {
        Ok(self.unfinished.pop_front().unwrap())
    }
    fn refuses(&self, _: &pumex::sample::SamplerOptions) -> Option<String> {
        (!self.draws).then(|| "a test of the host's loop".into())
    }
    fn forget(&mut self, _: u32, from: u32) -> usize {
        self.cache.truncate(from as usize);
        self.cache.len()
    }
    fn collect_importance(&mut self) -> Result<()> {
        Ok(())
    }

    fn importance(&mut self) -> Result<Vec<pumex::step::Squares>> {
        Ok(Vec::new())
    }

    fn counters(&self) -> Counters {
        Counters { submits: self.steps, build_us: self.built.as_secs_f64() * 1e6, ..Default::default() }
    }
    fn device(&self) -> String {
        "fake".into()
    }
}
