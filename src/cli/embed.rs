//! `pumex embed`: a vector for each text, as JSON or as little-endian f32.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use pumex::gguf::Gguf;
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use pumex::text::Tokenizer;
use pumex::{Error, Result};
use serde_json::json;

use super::input::PromptArgs;
use super::options::{EngineArgs, ModelArgs};
use super::{output, session, End};

/// How the rows of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pooling {
    /// A vector for each token.
    None,
    /// The mean of all.
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    Last,
}

/// Options of `embed`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    prompt: PromptArgs,
    /// Every line of the text is one of its own
    #[arg(long)]
    lines: bool,
    /// Token ids in place of a text
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',', conflicts_with_all = ["prompt", "file"])]
    tokens: Vec<u32>,
    /// How the rows of a text become one vector [default: the model's, else mean]
    #[arg(long, value_enum)]
    pooling: Option<Pooling>,
    /// Norm by which vectors get length one: 2 by squares, 1 by magnitudes, -1 leaves them
    #[arg(long, value_name = "N", default_value_t = 2, allow_hyphen_values = true, value_parser = clap::value_parser!(i32).range(-1..=8))]
    embd_normalize: i32,
    /// File to write, [vectors, width] x f32, instead of JSON on stdout
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The pooling that the file asks for.
fn pooling(gguf: &Gguf) -> Result<Pooling> {
    let key = format!("{}.pooling_type", gguf.meta().arch()?);
    match gguf.meta().opt_u32(&key)? {
        Some(0) => Ok(Pooling::None),
        Some(2) => Ok(Pooling::Cls),
        Some(3) => Ok(Pooling::Last),
        Some(1 | u32::MAX) | None => Ok(Pooling::Mean), // the largest stands for none given
        Some(other) => {
            let what =
                format!("{key}: expected 0 (none), 1 (mean), 2 (cls) or 3 (last), found {other}; give --pooling");
            Err(Error::file(gguf.path(), "bad_hparam", what))
        }
    }
}

/// Gives the vectors.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<End> {
    let gguf = session::open(&args.model)?;
    let pooling = match args.pooling {
        Some(pooling) => pooling,
        None => pooling(&gguf)?,
    };
    let texts = ids(args, &gguf)?;
    if let Some(empty) = texts.iter().position(Vec::is_empty) {
        return Err(Error::Request(format!("text {empty} is empty: at least one token is needed")));
    }
    let longest = texts.iter().map(Vec::len).max().unwrap_or(1);
    let too_many = |_| Error::Request(format!("{longest} tokens are too many"));
    let mut engine = args.engine.clone();
    engine.embeds = true;
    // Rows of an encoder see all of their text, which must stand in one step.
    engine.ubatch_size = engine.ubatch_size.max(u32::try_from(longest).map_err(too_many)?);
    let mut runner = session::load(&gguf, &engine, Some(u32::try_from(longest).map_err(too_many)?), stop)?;
    let mut vectors: Vec<Vec<f32>> = Vec::new();
    for ids in &texts {
        if stop.load(Ordering::Relaxed) {
            return Ok(End::Interrupted);
        }
        let (rows, width) = (embed(&mut *runner, ids)?, runner.n_vocab());
        vectors.extend(pool(&rows, width, pooling).into_iter().map(|v| normalized(v, args.embd_normalize)));
    }
    let tokens: usize = texts.iter().map(Vec::len).sum();
    let Some(path) = &args.out else {
        output::json(&json!({ "embeddings": vectors, "tokens": tokens, "device": runner.device() }))?;
        return Ok(End::Done);
    };
    let bytes: Vec<u8> = vectors.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    let mut file = std::fs::File::create(path).map_err(|e| Error::io(path, e))?;
    file.write_all(&bytes).map_err(|e| Error::io(path, e))?;
    output::say(format_args!("wrote {} x {} floats to {}\n", vectors.len(), runner.n_vocab(), path.display()));
    Ok(End::Done)
}

/// The texts as ids.
fn ids(args: &Args, gguf: &Gguf) -> Result<Vec<Vec<u32>>> {
    if !args.tokens.is_empty() {
        return Ok(vec![args.tokens.clone()]);
    }
    let (tokenizer, text) = (Tokenizer::from_gguf(gguf)?, args.prompt.required()?);
    let encode = |text: &str| -> Result<Vec<u32>> {
        let mut ids = tokenizer.encode(text, tokenizer.add_bos(), true)?;
        ids.extend(tokenizer.eos().filter(|_| tokenizer.add_eos()));
        Ok(ids)
    };
    match args.lines {
        true => text.lines().filter(|line| !line.is_empty()).map(encode).collect(),
        false => Ok(vec![encode(&text)?]),
    }
}

/// The last norm's rows of a text, `[tokens, width]`.
fn embed(runner: &mut dyn Runner, ids: &[u32]) -> Result<Vec<f32>> {
    runner.forget(0, 0);
    let row = |(pos, id): (u32, &u32)| Row { seq: 0, pos, token: Token::Id(*id), output: RowOutput::Logits };
    let rows: Vec<Row> = (0..).zip(ids).map(row).collect();
    Ok(runner.run(&rows, Want::Logits)?.logits)
}

fn pool(rows: &[f32], width: usize, pooling: Pooling) -> Vec<Vec<f32>> {
    let mut each = rows.chunks_exact(width).map(<[f32]>::to_vec);
    match pooling {
        Pooling::None => each.collect(),
        Pooling::Cls => each.next().into_iter().collect(),
        Pooling::Last => each.next_back().into_iter().collect(),
        Pooling::Mean => {
            let n = (rows.len() / width).max(1) as f32;
            let mut sum = vec![0.0; width];
            each.for_each(|row| sum.iter_mut().zip(row).for_each(|(s, x)| *s += x / n));
            vec![sum]
        }
    }
}

fn normalized(mut v: Vec<f32>, p: i32) -> Vec<f32> {
    let power = |x: &f32| f64::from(x.abs()).powi(p);
    let length = match p {
        1.. => v.iter().map(power).sum::<f64>().powf(1.0 / f64::from(p)),
        0 => f64::from(v.iter().fold(0.0f32, |m, x| m.max(x.abs()))),
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
        assert_eq!(pool(&rows, 2, Pooling::Mean), [vec![4.0, 4.0]]);
        assert_eq!(pool(&rows, 2, Pooling::Cls), [vec![3.0, 0.0]]);
        assert_eq!(pool(&rows, 2, Pooling::Last), [vec![5.0, 8.0]]);
        assert_eq!(pool(&rows, 2, Pooling::None).len(), 2);
        assert_eq!(normalized(vec![3.0, 4.0], 2), [0.6, 0.8]);
        assert_eq!(normalized(vec![3.0, -1.0], 1), [0.75, -0.25]);
        assert_eq!((normalized(vec![0.0], 2), normalized(vec![7.0], -1)), (vec![0.0], vec![7.0]));
    }
}
