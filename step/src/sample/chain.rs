//! The steps of a chain in its order.

use super::options::Step;
use super::steps::{self, Candidate};
use super::{dry, infill, shape, SamplerOptions};

/// What comes before the first step that drops candidates: biases, bans, and penalties and DRY where they stand there. Gives how many
/// active steps that were.
pub(super) fn lower<I: Iterator<Item = u32>>(
    list: &mut [Candidate],
    o: &SamplerOptions,
    recent: &dyn Fn() -> I,
    history: &[u32],
) -> usize {
    steps::bias(list, &o.bias);
    steps::ban(list, &o.banned);
    let first = || o.active().take_while(|step| matches!(step, Step::Penalties | Step::Dry));
    first().for_each(|step| change(step, list, o, recent, history));
    first().count()
}

/// Penalties or DRY.
fn change<I: Iterator<Item = u32>>(
    step: Step,
    list: &mut [Candidate],
    o: &SamplerOptions,
    recent: &dyn Fn() -> I,
    history: &[u32],
) {
    match step {
        Step::Dry => dry::dry(list, history, &o.dry),
        _ => steps::penalize(list, recent(), o.repeat_penalty, o.frequency_penalty, o.presence_penalty),
    }
}

/// Biases, bans and all steps but the draw, on the whole vocabulary in id order. An id if the largest logit is taken. `recent`: what
/// the penalties see; `history`: what DRY sees; both oldest first. `chance`: XTC's random number, in `[0, 1)`; 1 is never.
pub(super) fn filter<I: Iterator<Item = u32>>(
    list: &mut Vec<Candidate>,
    o: &SamplerOptions,
    recent: &dyn Fn() -> I,
    history: &[u32],
    chance: f64,
) -> Option<u32> {
    let done = lower(list, o, recent, history);
    rest(list, o, done, recent, history, chance)
}

/// The active steps but for the `done` first.
pub(super) fn rest<I: Iterator<Item = u32>>(
    list: &mut Vec<Candidate>,
    o: &SamplerOptions,
    done: usize,
    recent: &dyn Fn() -> I,
    history: &[u32],
    chance: f64,
) -> Option<u32> {
    let greedy = o.is_greedy();
    for step in o.active().skip(done) {
        match step {
            Step::Penalties | Step::Dry => change(step, list, o, recent, history),
            // None of the others changes which one is the best.
            _ if greedy => {}
            Step::TopNSigma => shape::top_n_sigma(list, o.top_n_sigma),
            Step::TopK => steps::top_k(list, o.top_k),
            Step::Typical => shape::typical(list, o.typical_p, o.min_keep),
            Step::TopP => steps::top_p(list, o.top_p, o.min_keep),
            Step::MinP => steps::min_p(list, o.min_p, o.min_keep),
            Step::Xtc => shape::xtc(list, o.xtc_probability, o.xtc_threshold, o.min_keep, chance),
            Step::Temperature if o.dynatemp_range > 0.0 => {
                shape::dynamic_temperature(list, o.temperature, o.dynatemp_range, o.dynatemp_exponent);
            }
            Step::Temperature => steps::temperature(list, o.temperature),
            Step::Infill => o.words.iter().for_each(|words| infill::infill(list, words)),
            Step::AdaptiveP => {} // at the draw
        }
    }
    greedy.then(|| steps::argmax(list))
}
