//! From rows of the last norm to a vector for each text: pooling, what files have behind it, and lengths; texts share steps.
//!
//! A text is a sequence of its own. Rows that see later ones (encoders, diffusion models) need all of their text in one step:
//! `Plan::looks_ahead` says so. Pooling, dense products and classifiers behind it work on a vector or two for each text, on the
//! host.

mod head;
mod pair;

pub use head::ClassifierHead;
pub use pair::pair;

use pumex_gguf::{Error, Gguf, Result};
use pumex_step::{Row, RowOutput, Runner, Token};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most texts of a step.
const MOST_TEXTS: usize = 64;
/// Positions of the cache are given out in blocks of so many.
const BLOCK: usize = pumex_engine::session::KV_BLOCK;

/// How the rows of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// A vector for each token.
    None,
    /// The mean of all.
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    Last,
    /// Scores: what the file's classifier makes of one of the others.
    Rank,
}

impl Pooling {
    /// What the file asks for, if it does.
    ///
    /// # Errors
    /// `bad_key_type`; `bad_hparam` for a number that stands for nothing.
    pub fn of(gguf: &Gguf) -> Result<Option<Pooling>> {
        let key = format!("{}.pooling_type", gguf.meta().arch()?);
        let Some(number) = gguf.meta().opt_u32(&key)? else { return Ok(None) };
        match number {
            0 => Ok(Some(Pooling::None)),
            1 => Ok(Some(Pooling::Mean)),
            2 => Ok(Some(Pooling::Cls)),
            3 => Ok(Some(Pooling::Last)),
            4 => Ok(Some(Pooling::Rank)),
            u32::MAX => Ok(None),
            other => {
                let what = format!("{key}: expected 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank), found {other}");
                Err(Error::file(gguf.path(), "bad_hparam", what))
            }
        }
    }

    /// Which rows of a text of `len` it takes.
    fn takes(self, at: usize, len: usize) -> bool {
        match self {
            Pooling::None | Pooling::Mean | Pooling::Rank => true,
            Pooling::Cls => at == 0,
            Pooling::Last => at + 1 == len,
        }
    }

    /// Vectors of a text of the rows it takes, `[rows, width]`.
    fn pool(self, rows: &[f32], width: usize) -> Vec<Vec<f32>> {
        match self {
            Pooling::Mean => {
                let n = (rows.len() / width.max(1)).max(1) as f32;
                let mut sum = vec![0.0; width];
                let each = rows.chunks_exact(width);
                each.for_each(|row| sum.iter_mut().zip(row).for_each(|(s, x)| *s += x / n));
                vec![sum]
            }
            _ => rows.chunks_exact(width).map(<[f32]>::to_vec).collect(),
        }
    }
}

/// Texts in steps: how many of them, and what room these take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Texts of each step, in order.
    pub texts: Vec<usize>,
    /// Most texts of a step.
    pub n_seqs: usize,
    /// Positions of the longest text.
    pub n_ctx: usize,
    /// Positions of the cache that the texts of any step take.
    pub cache_positions: usize,
}

impl Steps {
    /// Steps over texts of `lens` ids, each of as many texts as `max_rows` rows hold, but one at least.
    pub fn new(lens: &[usize], max_rows: usize) -> Steps {
        let mut steps = Steps { texts: Vec::new(), n_seqs: 1, n_ctx: 1, cache_positions: BLOCK };
        let (mut rows, mut positions) = (0, 0);
        for &len in lens {
            match steps.texts.last_mut() {
                Some(count) if rows + len <= max_rows && *count < MOST_TEXTS => *count += 1,
                _ => {
                    steps.texts.push(1);
                    (rows, positions) = (0, 0);
                }
            }
            rows += len;
            positions += len.next_multiple_of(BLOCK);
            steps.n_seqs = steps.n_seqs.max(steps.texts.last().copied().unwrap_or(1));
            steps.n_ctx = steps.n_ctx.max(len);
            steps.cache_positions = steps.cache_positions.max(positions);
        }
        steps
    }
}

/// Vectors of each text: one, or one for each id where nothing is pooled. A text that is longer than a step is run in several.
/// None if `stop` was set before the end.
///
/// # Errors
/// A text without ids, an id outside the vocabulary, a failing runner; the file's classifier without its tensors.
pub fn embed(
    runner: &mut dyn Runner,
    texts: &[Vec<u32>],
    steps: &Steps,
    (pooling, head): (Pooling, &ClassifierHead),
    stop: &AtomicBool,
) -> Result<Option<Vec<Vec<Vec<f32>>>>> {
    if let Some(empty) = texts.iter().position(Vec::is_empty) {
        return Err(Error::Request(format!("text {empty} is empty: at least one token is needed")));
    }
    let rows_of = if pooling == Pooling::Rank { head.pooling } else { pooling };
    let (width, mut done) = (runner.n_vocab(), Vec::with_capacity(texts.len()));
    for count in &steps.texts {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let texts = texts.get(done.len()..done.len() + count).unwrap_or_default();
        let row = |seq: usize, at: usize, id: u32, len: usize| {
            let output = if rows_of.takes(at, len) { RowOutput::Logits } else { RowOutput::None };
            Row { seq: seq as u32, pos: at as u32, token: Token::Id(id), output, medium: None }
        };
        let of = |(seq, ids): (usize, &Vec<u32>)| -> Vec<Row> {
            ids.iter().enumerate().map(|(at, id)| row(seq, at, *id, ids.len())).collect()
        };
        let rows: Vec<Row> = texts.iter().enumerate().flat_map(of).collect();
        let mut found = Vec::new();
        for part in rows.chunks(runner.max_rows().max(1)) {
            let ticket = runner.start(part)?;
            // What is NaN is the fault of its text alone: see `check`.
            found.extend(runner.finish_each(ticket)?.logits);
        }
        let mut found = found.as_slice();
        for (seq, ids) in texts.iter().enumerate() {
            let taken = (0..ids.len()).filter(|at| rows_of.takes(*at, ids.len())).count() * width;
            let (own, rest) = found.split_at_checked(taken).unwrap_or((found, &[]));
            found = rest;
            let vectors = rows_of.pool(own, width).into_iter();
            done.push(match pooling {
                Pooling::Rank => vectors.map(|v| head.scores(v)).collect(),
                _ => vectors.map(|v| head.dense(v)).collect(),
            });
            runner.forget(seq as u32, 0);
        }
    }
    Ok(Some(done))
}

/// Checks that what a text gave are numbers.
///
/// # Errors
/// Some that are infinite or NaN.
pub fn check(vectors: &[Vec<f32>]) -> Result<()> {
    match vectors.iter().flatten().find(|x| !x.is_finite()) {
        None => Ok(()),
        Some(x) => Err(Error::Request(format!("the text's vector: expected finite numbers, found {x}"))),
    }
}

/// A vector whose length by `p` is one: 2 by squares, 1 by magnitudes, others likewise; 0 makes the largest magnitude 32760, and -1
/// leaves all as it is. A vector of zeros stays one.
pub fn normalize_vector(mut v: Vec<f32>, p: i32) -> Vec<f32> {
    let power = |x: &f32| f64::from(x.abs()).powi(p);
    let length = match p {
        1.. => v.iter().map(power).sum::<f64>().powf(1.0 / f64::from(p)),
        0 => f64::from(v.iter().fold(0.0f32, |m, x| m.max(x.abs()))) / 32760.0,
        _ => 1.0,
    };
    if length > 0.0 {
        v.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_one_vector_of_length_one() {
        let rows = [3.0, 0.0, 5.0, 8.0];
        assert_eq!(Pooling::Mean.pool(&rows, 2), [vec![4.0, 4.0]]);
        assert_eq!(Pooling::None.pool(&rows, 2).len(), 2);
        assert_eq!((Pooling::Cls.takes(0, 3), Pooling::Cls.takes(2, 3)), (true, false));
        assert_eq!((Pooling::Last.takes(0, 3), Pooling::Last.takes(2, 3)), (false, true));
        assert_eq!(normalize_vector(vec![3.0, 4.0], 2), [0.6, 0.8]);
        assert_eq!(normalize_vector(vec![3.0, -1.0], 1), [0.75, -0.25]);
        assert_eq!(normalize_vector(vec![2.0, -4.0], 0), [16380.0, -32760.0]);
        assert_eq!((normalize_vector(vec![0.0], 2), normalize_vector(vec![7.0], -1)), (vec![0.0], vec![7.0]));
    }

    #[test]
    fn texts_share_steps_of_so_many_rows() {
        let steps = Steps::new(&[3, 4, 2, 20, 1], 9);
        assert_eq!(steps.texts, [3, 1, 1]);
        assert_eq!((steps.n_seqs, steps.n_ctx, steps.cache_positions), (3, 20, 3 * BLOCK));
        let many = Steps::new(&[1; 100], 1000);
        assert_eq!(many.texts, [MOST_TEXTS, 100 - MOST_TEXTS]);
    }
}
