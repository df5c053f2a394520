//! Text by diffusion: a window of positions, the prompt and mask tokens behind it, in which every step puts ids in place of some of the
//! masks, by what the model says of the whole window.
//!
//! Generators, samplers and their order are those of llama.cpp's example `diffusion`, so that equal logits and seeds give equal ids.

mod draw;
mod twister;

use draw::{Candidate, Chain};
use pumex_gguf::{Error, Result};
use pumex_step::{Row, RowOutput, Runner, Token};
use std::sync::atomic::{AtomicBool, Ordering};
use twister::Twister;

/// Architectures whose models write so.
pub const ARCHS: &[&str] = &["dream", "llada", "llada-moe", "rnd1"];

/// By what the masks of a step are chosen that become ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// By chance, and ids are drawn only for those.
    Origin,
    /// Where the drawn id's distribution has the largest entropy.
    Entropy,
    /// Where the best two candidates are farthest apart.
    Margin,
    /// By chance, after ids were drawn for all.
    Random,
    /// Where the drawn id is the most probable.
    Confidence,
}

impl Algorithm {
    /// By llama.cpp's numbers, 0 to 4.
    pub fn from_number(number: u32) -> Option<Algorithm> {
        use Algorithm::{Confidence, Entropy, Margin, Origin, Random};
        [Origin, Entropy, Margin, Random, Confidence].get(number as usize).copied()
    }
}

/// How many masks a step takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// A share of those left that follows from times between 1 and this.
    Times(f32),
    /// Blocks of so many positions, one after the other, whose masks are shared out evenly among their steps.
    Blocks(usize),
}

/// How a text comes about.
#[derive(Clone, Debug)]
pub struct DiffusionSettings {
    /// Steps in all.
    pub steps: usize,
    /// Positions of the window, the prompt's too.
    pub window: usize,
    /// The seed of all generators.
    pub seed: u32,
    /// The temperature of the draw; at 0 logits stay as they are.
    pub temperature: f32,
    /// Candidates kept; 0 or below is all.
    pub top_k: i32,
    /// Probability kept; 1 is all.
    pub top_p: f32,
    /// Which drawn ids are kept at each step.
    pub algorithm: Algorithm,
    /// How many masks each step takes.
    pub schedule: Schedule,
    /// Above 0 masks are drawn by their confidence divided by this, with none left out for having been drawn.
    pub algorithm_temperature: f32,
    /// Above 0 logits go so many times further away from those without the prompt.
    pub guidance: f32,
    /// Whether the first row's logits get Gumbel noise, where the temperature is above 0.
    pub gumbel: bool,
    /// Whether a position's id is that of the row before it.
    pub shifted: bool,
    /// The mask token.
    pub mask: u32,
}

impl DiffusionSettings {
    /// Checks the settings for a prompt of `n` ids.
    ///
    /// # Errors
    /// The first setting that does not hold together with the others, by the flag's name.
    pub fn check(&self, n: usize) -> Result<()> {
        let wrong = |what: String| Err(Error::Request(what));
        if self.steps == 0 {
            return wrong("--diffusion-steps: expected 1 or more, found 0".into());
        }
        if n == 0 || n >= self.window {
            let window = self.window;
            return wrong(format!(
                "the prompt: expected 1 to {} tokens in a window of {window}, found {n}",
                window - 1
            ));
        }
        match self.schedule {
            Schedule::Times(eps) if !(eps > 0.0 && eps <= 1.0) => {
                wrong(format!("--diffusion-eps: expected more than 0 and at most 1, found {eps}"))
            }
            Schedule::Blocks(0) => wrong("--diffusion-block-length: expected 1 or more, found 0".into()),
            Schedule::Blocks(length) if !self.window.is_multiple_of(length) => wrong(format!(
                "--diffusion-block-length: expected a divisor of the window of {}, found {length}",
                self.window
            )),
            Schedule::Blocks(length) if !self.steps.is_multiple_of(self.window / length) => {
                let blocks = self.window / length;
                wrong(format!("--diffusion-steps: expected a multiple of the {blocks} blocks, found {}", self.steps))
            }
            _ => Ok(()),
        }
    }

    /// Blocks, and steps of each.
    fn blocks(&self) -> (usize, usize) {
        match self.schedule {
            Schedule::Times(_) => (1, self.steps),
            Schedule::Blocks(length) => (self.window / length, self.steps / (self.window / length)),
        }
    }

    /// Positions of a block, for a prompt of `n` ids.
    fn span(&self, block: usize, n: usize) -> std::ops::Range<usize> {
        match self.schedule {
            Schedule::Times(_) => 0..self.window,
            Schedule::Blocks(length) => {
                let start = (n + block * length).min(self.window);
                start..(start + length).min(self.window)
            }
        }
    }

    /// The row whose logits are those of a position.
    fn row_of(&self, pos: usize) -> usize {
        if self.shifted {
            pos.saturating_sub(1)
        } else {
            pos
        }
    }

    /// Masks that step `step` of `steps` takes of `left`, where a block had `masks` in the beginning.
    fn masks_to_take(&self, (step, steps): (usize, usize), left: usize, masks: usize) -> usize {
        match self.schedule {
            Schedule::Times(_) if step + 1 >= steps => left,
            Schedule::Times(eps) => {
                let time = |step: usize| 1.0 - step as f32 / steps as f32 * (1.0 - eps);
                let share = 1.0 - time(step + 1) / time(step);
                (left as f32 * share) as usize
            }
            Schedule::Blocks(_) => (masks / steps + usize::from(step < masks % steps)).min(left),
        }
    }
}

/// A text under way: the ids, and where they came from.
struct Writing<'a> {
    settings: &'a DiffusionSettings,
    runner: &'a mut dyn Runner,
    ids: Vec<u32>,
    n_prompt: usize,
    rng: Twister,
    chain: Chain,
    /// Chooses the masks, with a temperature of its own.
    picks: Chain,
}

/// Writes behind `prompt` until the window has no mask left or the steps are done; gives all ids of the window. None if `stop` was
/// raised. `told` gets each step's number and the ids before it.
///
/// # Errors
/// Settings that do not hold together; a window larger than the context or than a step of the runner; what a step says.
pub fn generate(
    runner: &mut dyn Runner,
    prompt: &[u32],
    settings: &DiffusionSettings,
    stop: &AtomicBool,
    told: &mut dyn FnMut(usize, &[u32]),
) -> Result<Option<Vec<u32>>> {
    settings.check(prompt.len())?;
    let room = runner.n_ctx().min(runner.max_rows());
    if settings.window > room {
        let what = format!(
            "the window: expected at most {room} positions, as many as a step takes, found {}",
            settings.window
        );
        return Err(Error::Request(what));
    }
    if settings.mask as usize >= runner.n_vocab() {
        let what = format!("the mask token: expected an id below {}, found {}", runner.n_vocab(), settings.mask);
        return Err(Error::Request(what));
    }
    let mut ids = prompt.to_vec();
    ids.resize(settings.window, settings.mask);
    let chain = Chain::new(settings.seed, settings.top_k, settings.top_p, settings.temperature);
    let mut writing = Writing {
        settings,
        runner,
        ids,
        n_prompt: prompt.len(),
        rng: Twister::new(settings.seed),
        chain,
        picks: Chain::new(settings.seed, 0, 1.0, 0.0),
    };
    let (blocks, steps) = settings.blocks();
    for block in 0..blocks {
        let masks = writing.masks(block).len();
        for step in 0..steps {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            told(block * steps + step, &writing.ids);
            let open = writing.masks(block);
            if open.is_empty() {
                break;
            }
            let taken = settings.masks_to_take((step, steps), open.len(), masks);
            writing.step(&open, taken)?;
        }
    }
    Ok(Some(writing.ids))
}

impl Writing<'_> {
    /// Positions of a block that are masks.
    fn masks(&self, block: usize) -> Vec<usize> {
        let span = self.settings.span(block, self.n_prompt);
        span.filter(|pos| self.ids[*pos] == self.settings.mask).collect()
    }

    /// Puts ids in place of `taken` of the masks `open`.
    fn step(&mut self, open: &[usize], taken: usize) -> Result<()> {
        let mut rows: Vec<usize> = open.iter().map(|pos| self.settings.row_of(*pos)).collect();
        rows.dedup(); // positions 0 and 1 have the same one
        let mut logits = self.logits(&rows)?;
        let n_vocab = self.runner.n_vocab();
        if self.settings.gumbel && self.settings.temperature > 0.0 {
            let first = if rows.first() == Some(&0) { logits.get_mut(..n_vocab) } else { None };
            draw::add_gumbel(&mut self.rng, (self.settings.temperature, n_vocab), first);
        }
        let of = |pos: usize| {
            let row = rows.binary_search(&self.settings.row_of(pos)).unwrap_or_default();
            &logits[row * n_vocab..][..n_vocab]
        };
        if self.settings.algorithm == Algorithm::Origin {
            let share = taken as f32 / open.len() as f32;
            for &pos in open {
                if self.rng.float() < share {
                    let (drawn, at) = self.chain.draw(draw::candidates(of(pos)));
                    self.ids[pos] = drawn[at].id;
                }
            }
            return Ok(());
        }
        let mut drawn = Vec::with_capacity(open.len()); // ids, and how sure each is
        for &pos in open {
            let (candidates, at) = self.chain.draw(draw::candidates(of(pos)));
            drawn.push((candidates[at].id, self.confidence(&candidates, at)));
        }
        for one in self.choose_positions(&drawn, taken) {
            self.ids[open[one]] = drawn[one].0;
        }
        Ok(())
    }

    /// How sure the candidate `at` is.
    fn confidence(&mut self, candidates: &[Candidate], at: usize) -> f32 {
        match self.settings.algorithm {
            Algorithm::Entropy => -candidates.iter().map(|c| c.p * (c.p + 1e-10).ln()).sum::<f32>(),
            Algorithm::Margin => candidates[0].p - candidates.get(1).map_or(0.0, |second| second.p),
            Algorithm::Random => self.rng.float(),
            Algorithm::Confidence | Algorithm::Origin => candidates[at].p,
        }
    }

    /// Which of the drawn ids are taken, `taken` of them; with a temperature of their own some may come twice.
    fn choose_positions(&mut self, drawn: &[(u32, f32)], taken: usize) -> Vec<usize> {
        let taken = taken.min(drawn.len());
        let warmth = self.settings.algorithm_temperature;
        if warmth == 0.0 {
            let mut order: Vec<usize> = (0..drawn.len()).collect();
            order.sort_by(|a, b| drawn[*b].1.total_cmp(&drawn[*a].1));
            order.truncate(taken);
            return order;
        }
        let scores: Vec<f32> = drawn.iter().map(|(_, confidence)| confidence / warmth).collect();
        (0..taken).map(|_| self.picks.draw(draw::candidates(&scores)).1).collect()
    }

    /// Logits of `rows`, `[rows, vocab]`.
    fn logits(&mut self, rows: &[usize]) -> Result<Vec<f32>> {
        let mut logits = self.pass(self.n_prompt, rows)?;
        if self.settings.guidance > 0.0 {
            let by = self.settings.guidance + 1.0;
            let without = self.pass(0, rows)?;
            logits.iter_mut().zip(without).for_each(|(with, without)| *with = without + by * (*with - without));
        }
        Ok(logits)
    }

    /// Logits of `rows`, `[rows, vocab]`, of a window whose prompt is seen up to `seen`, with masks in place of the rest of it.
    fn pass(&mut self, seen: usize, rows: &[usize]) -> Result<Vec<f32>> {
        let id = |pos: usize, id: u32| if (seen..self.n_prompt).contains(&pos) { self.settings.mask } else { id };
        let row = |(pos, own): (usize, &u32)| Row {
            seq: 0,
            pos: pos as u32,
            token: Token::Id(id(pos, *own)),
            output: if rows.binary_search(&pos).is_ok() { RowOutput::Logits } else { RowOutput::None },
            medium: None,
        };
        let step: Vec<Row> = self.ids.iter().enumerate().map(row).collect();
        self.runner.forget(0, 0);
        let ticket = self.runner.start(&step)?;
        Ok(self.runner.finish(ticket)?.logits)
    }
}
