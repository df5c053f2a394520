//! Going on behind a full context: the oldest ids are left out and what stays is computed anew.
//!
//! Keys are never moved to other positions, so this is right for every kind of layer: windows, recurrent states, any rotation.

use super::{generate_within, Constraint, Request, Stats, StopReason};
use pumex_gguf::Result;
use pumex_step::sample::Sampler;
use pumex_step::{Media, Runner};

/// Which ids go of so many that fill a context: from one, up to another. The first `keep` stay, and of the others all but the `discard`
/// oldest; with 0, the newer half. Media stay or go as wholes.
pub fn discarded_range(len: usize, media: &Media, keep: usize, discard: usize) -> (usize, usize) {
    let from = media.cut_before(keep.min(len));
    let rest = len - keep.min(len);
    let count = if discard == 0 { rest.div_ceil(2) } else { discard.min(rest) };
    (from, media.cut_behind((keep.min(len) + count).min(len)).min(len))
}

/// What stays of ids that fill a context: the first `keep`, and of the others all but the `discard` oldest; with 0, the newer half.
pub fn shift_ids(ids: &[u32], keep: usize, discard: usize) -> Vec<u32> {
    let (from, to) = discarded_range(ids.len(), &Media::new(), keep, discard);
    [&ids[..from], &ids[to..]].concat()
}

/// Generates as [`generate_within`] does, where `ids` are those that sequence 0 holds, `request.start` of them; afterwards they are all of
/// the
/// text, and [`Stats::ended`], of which it holds the first [`Stats::held`]. With `keep`, a full context does not stop it: see
/// [`shift_ids`]; no more than three quarters of it are kept. `on_shift` is told how many ids were left out.
///
/// # Errors
/// As for [`generate_within`].
pub fn generate_on(
    runner: &mut dyn Runner,
    request: &Request<'_>,
    (ids, keep): (&mut Vec<u32>, Option<usize>),
    (sampler, mut constraint): (&mut Sampler, Option<&mut dyn Constraint>),
    on_token: &mut dyn FnMut(u32),
    on_shift: &mut dyn FnMut(usize),
) -> Result<Stats> {
    let (mut prompt, mut start, mut left) = (request.prompt.to_vec(), request.start, request.n_predict);
    let mut media = request.media.clone();
    let mut total: Option<Stats> = None;
    loop {
        let mut out = Vec::new();
        let part = Request { prompt: &prompt, media: &media, start, n_predict: left, ..*request };
        let within = constraint.as_mut().map(|c| &mut **c as &mut dyn Constraint);
        let stats = generate_within(runner, &part, sampler, within, &mut |id| {
            out.push(id);
            on_token(id);
        })?;
        ids.truncate(start);
        ids.extend(prompt.iter().chain(&out).chain(&stats.ended));
        let held = stats.held;
        let full = stats.stop == StopReason::ContextFull;
        let sum = match total.take() {
            None => stats,
            Some(before) => join_stats(before, stats),
        };
        let goes = keep
            .filter(|_| full && runner.answers_from().is_none())
            .map(|keep| discarded_range(ids.len(), &media, keep.min(runner.n_ctx() / 4 * 3), 0));
        let stay = goes.map(|(from, to)| [&ids[..from], &ids[to..]].concat());
        let Some(stay) = stay.filter(|stay| !stay.is_empty() && stay.len() < ids.len() && stay.len() < runner.n_ctx())
        else {
            return Ok(sum);
        };
        let known: Vec<_> = media.iter().map(|(_, medium)| medium.clone()).collect();
        media = Media::find(&known, &stay);
        on_shift(ids.len() - stay.len());
        let same = stay.iter().zip(&ids[..held]).take_while(|(a, b)| a == b).count().min(stay.len() - 1);
        start = runner.forget(0, same as u32).min(same);
        ids.truncate(start);
        prompt = stay[start..].to_vec();
        left = if left < 0 { left } else { left - out.len() as i64 };
        total = Some(sum);
    }
}

/// The numbers of two parts of one generation; the prompt is the first one's.
fn join_stats(before: Stats, after: Stats) -> Stats {
    Stats {
        prompt_tokens: before.prompt_tokens,
        generated_tokens: before.generated_tokens + after.generated_tokens,
        prompt_ms: before.prompt_ms,
        generate_ms: before.generate_ms + after.prompt_ms + after.generate_ms,
        build_ms: before.build_ms + after.build_ms,
        per_token: [before.per_token, after.per_token].concat(),
        ..after
    }
}

#[cfg(test)]
mod tests {
    use super::{discarded_range, shift_ids};
    use pumex_step::{Media, Medium, Positions};

    #[test]
    fn the_first_ids_stay_and_the_newer_half_of_the_others() {
        assert_eq!(shift_ids(&[1, 2, 3, 4, 5, 6], 2, 0), [1, 2, 5, 6]);
        assert_eq!(shift_ids(&[1, 2, 3, 4, 5], 2, 0), [1, 2, 5]);
        assert_eq!(shift_ids(&[1, 2, 3], 9, 0), [1, 2, 3]);
        assert_eq!(shift_ids(&[1, 2, 3], 0, 0), [3]);
        assert_eq!(shift_ids(&[1, 2, 3, 4, 5], 1, 1), [1, 3, 4, 5]);
        assert_eq!(shift_ids(&[1, 2, 3], 1, 9), [1]);
    }

    #[test]
    fn media_stay_or_go_as_wholes() {
        let medium = Medium::new(1, vec![0.0; 4].into(), 4, Positions::Sequential, false).unwrap();
        let mut media = Media::new();
        media.push(3, medium.into());
        let of = |keep, discard| discarded_range(12, &media, keep, discard);
        assert_eq!([of(2, 1), of(2, 2), of(3, 4), of(5, 1), of(8, 2)], [(2, 3), (2, 7), (3, 7), (3, 7), (8, 10)]);
    }
}
