//! `pumex embed`: a vector for each text, as JSON or as little-endian f32; scores of texts for a query.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use pumex_dialogue::embedding::{check, embed, normalize_vector, pair, ClassifierHead, Pooling, Steps};
use pumex_engine::conversation::check_ids;
use pumex_gguf::{Error, Gguf, Result};
use pumex_model as model;
use pumex_text::Tokenizer;
use serde_json::json;

use super::prompted_model::PromptedModelArgs;
use super::{files, output, session, CommandEnd};

/// [`Pooling`], as flags name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PoolingFlag {
    /// A vector for each token.
    None,
    /// The mean of all.
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    Last,
    /// Scores of the model's classifier.
    Rank,
}

/// Token ids of a text.
#[derive(Clone, Debug)]
struct Ids(Vec<u32>);

fn ids(text: &str) -> std::result::Result<Ids, String> {
    let id = |part: &str| part.trim().parse().map_err(|_| format!("expected ids with commas between, found {part:?}"));
    text.split(',').map(id).collect::<std::result::Result<_, _>>().map(Ids)
}

/// Options of `embed`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: PromptedModelArgs,
    /// Texts, instead of -p, -f or stdin
    #[arg(value_name = "TEXT", conflicts_with_all = ["prompt", "file", "tokens"])]
    texts: Vec<String>,
    /// Every line of the text is one of its own
    #[arg(long)]
    lines: bool,
    /// What parts the texts of -p, -f or stdin (\n: lines)
    #[arg(long, value_name = "TEXT", conflicts_with = "lines")]
    embd_separator: Option<String>,
    /// Token ids in place of a text; may be repeated
    #[arg(long, value_name = "ID,ID,...", value_parser = ids, conflicts_with_all = ["prompt", "file"])]
    tokens: Vec<Ids>,
    /// Score the texts, each of which answers this query; needs a model with a classifier
    #[arg(long, value_name = "QUERY", conflicts_with_all = ["tokens", "pooling", "out"])]
    rerank: Option<String>,
    /// How the rows of a text become one vector [default: the model's, else mean]
    #[arg(long, value_enum)]
    pooling: Option<PoolingFlag>,
    /// Norm by which vectors get length one: 2 by squares, 1 by magnitudes; 0 makes the largest magnitude 32760, -1 leaves them.
    /// Scores stay as they are
    #[arg(long, value_name = "N", default_value_t = 2, allow_hyphen_values = true, value_parser = clap::value_parser!(i32).range(-1..=64))]
    embd_normalize: i32,
    /// File to write, [vectors, width] x f32, instead of JSON on stdout
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Args {
    fn pooling(&self, gguf: &Gguf) -> Result<Pooling> {
        Ok(match self.pooling {
            _ if self.rerank.is_some() => Pooling::Rank,
            Some(PoolingFlag::None) => Pooling::None,
            Some(PoolingFlag::Mean) => Pooling::Mean,
            Some(PoolingFlag::Cls) => Pooling::Cls,
            Some(PoolingFlag::Last) => Pooling::Last,
            Some(PoolingFlag::Rank) => Pooling::Rank,
            None => Pooling::of(gguf)?.unwrap_or(Pooling::Mean),
        })
    }

    /// The texts, of which there is one at least.
    fn texts(&self) -> Result<Vec<String>> {
        if !self.texts.is_empty() {
            return Ok(self.texts.clone());
        }
        let text = self.input.prompt.require_text()?;
        let separator = self.embd_separator.as_deref().map(super::prompt_source::unescape);
        let separator = separator.or(self.lines.then(|| "\n".to_string())).filter(|s| !s.is_empty());
        let Some(separator) = separator else { return Ok(vec![text]) };
        let parts: Vec<String> = text.split(&separator).filter(|t| !t.is_empty()).map(String::from).collect();
        match parts.is_empty() {
            true => Err(Error::Request("the text has nothing but separators: at least one text is needed".into())),
            false => Ok(parts),
        }
    }
}

/// Gives the vectors, or the scores.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<CommandEnd> {
    if !args.input.media.is_empty() {
        return encode_media(args);
    }
    if args.input.media.projector.mmproj.is_some() || args.input.media.projector.mmproj_url.is_some() {
        let what = "--mmproj: expected --image FILE or --audio FILE beside it, found neither";
        return Err(Error::Usage(what.into()));
    }
    let gguf = args.input.open()?;
    let plan = model::plan(&gguf)?;
    let (n_vocab, plan) = (plan.n_ids(), plan.embedding());
    let ahead = plan.looks_ahead();
    let (pooling, head) = (args.pooling(&gguf)?, ClassifierHead::read(&gguf, plan.n_vocab, ahead)?);
    if pooling == Pooling::Rank && !head.ranks() {
        let what = "cls.weight, cls.output.weight: expected one of them for scores, found neither";
        return Err(Error::file(gguf.path(), "missing_tensor", what));
    }
    let texts = encode_texts(args, &gguf)?;
    texts.iter().try_for_each(|ids| check_ids(ids, n_vocab))?;
    let lens: Vec<usize> = texts.iter().map(Vec::len).collect();
    let longest = lens.iter().copied().max().unwrap_or(1);
    let number = |n: usize| u32::try_from(n).map_err(|_| Error::Request(format!("{n} tokens are too many")));
    let mut engine = args.input.engine.clone();
    engine.embeds = true;
    if ahead {
        // All of a text must stand in one step.
        engine.take_rows(number(longest)?);
    }
    let steps = Steps::new(&lens, engine.rows() as usize);
    engine.shared_cache = (number(steps.n_seqs)?, Some(number(steps.cache_positions)?));
    // Before the work, so that a name that cannot be written to does not cost it.
    let file = args.out.as_deref().map(files::create).transpose()?;
    let mut runner = session::load(&gguf, &engine, Some(number(steps.n_ctx)?), stop)?;
    let Some(found) = embed(&mut *runner, &texts, &steps, (pooling, &head), stop)? else {
        return Ok(CommandEnd::Interrupted);
    };
    found.iter().try_for_each(|of| check(of))?;
    let device = runner.device();
    if args.rerank.is_some() {
        let scores: Vec<_> = found.iter().enumerate().map(|(i, of)| scores_json(i, of.first(), &head)).collect();
        output::json(&json!({ "scores": scores, "tokens": lens, "device": device }))?;
        return Ok(CommandEnd::Done);
    }
    let scale = |v: Vec<f32>| if pooling == Pooling::Rank { v } else { normalize_vector(v, args.embd_normalize) };
    let vectors: Vec<Vec<f32>> = found.into_iter().flatten().map(scale).collect();
    let width = vectors.first().map_or(0, Vec::len);
    let (Some(path), Some(mut file)) = (&args.out, file) else {
        let pooling = format!("{pooling:?}").to_lowercase();
        let tokens: usize = lens.iter().sum();
        let all = json!({
            "embeddings": vectors, "pooling": pooling, "width": width, "texts": lens, "tokens": tokens, "device": device,
        });
        output::json(&all)?;
        return Ok(CommandEnd::Done);
    };
    let bytes: Vec<u8> = vectors.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    file.write(&bytes)?;
    file.finish()?;
    output::say(format_args!("wrote {} x {width} floats to {}\n", vectors.len(), path.display()));
    Ok(CommandEnd::Done)
}

/// Gives the rows that a projector makes of media; no model is needed.
fn encode_media(args: &Args) -> Result<CommandEnd> {
    let model = args.input.model.model.as_deref();
    let projector = args
        .input
        .media
        .projector
        .open(&args.input.model, model, &args.input.engine)?
        .ok_or_else(|| Error::Usage("--image, --audio: expected a projector (--mmproj FILE), found none".into()))?;
    let file = args.out.as_deref().map(files::create).transpose()?;
    let (mut vectors, mut width) = (Vec::new(), 0);
    for medium in args.input.media.files()? {
        let (rows, wide) = projector.rows(&medium)?;
        (vectors, width) = ([vectors, rows].concat(), wide);
    }
    let n = vectors.len() / width.max(1);
    let (Some(path), Some(mut file)) = (&args.out, file) else {
        let rows: Vec<&[f32]> = vectors.chunks(width.max(1)).collect();
        output::json(&json!({ "embeddings": rows, "width": width, "tokens": n, "device": projector.device()? }))?;
        return Ok(CommandEnd::Done);
    };
    let bytes: Vec<u8> = vectors.iter().flat_map(|x| x.to_le_bytes()).collect();
    file.write(&bytes)?;
    file.finish()?;
    output::say(format_args!("wrote {n} x {width} floats to {}\n", path.display()));
    Ok(CommandEnd::Done)
}

/// A text's scores: the first, and all by name where there are several.
fn scores_json(index: usize, scores: Option<&Vec<f32>>, head: &ClassifierHead) -> serde_json::Value {
    let scores = scores.map(Vec::as_slice).unwrap_or_default();
    let first = scores.first().copied().unwrap_or_default();
    if scores.len() < 2 {
        return json!({ "index": index, "score": first });
    }
    let named: serde_json::Map<_, _> = scores.iter().enumerate().map(|(i, s)| (head.label(i), json!(s))).collect();
    json!({ "index": index, "score": first, "labels": named })
}

/// The texts as ids.
fn encode_texts(args: &Args, gguf: &Gguf) -> Result<Vec<Vec<u32>>> {
    if !args.tokens.is_empty() {
        return Ok(args.tokens.iter().map(|ids| ids.0.clone()).collect());
    }
    let (tokenizer, texts) = (Tokenizer::from_gguf(gguf)?, args.texts()?);
    if let Some(query) = &args.rerank {
        let template = gguf.meta().opt_str("tokenizer.chat_template.rerank")?;
        return texts.iter().map(|text| pair(&tokenizer, template, query, text)).collect();
    }
    let encode = |text: &String| -> Result<Vec<u32>> {
        let mut ids = tokenizer.encode(text, tokenizer.add_bos(), true)?;
        ids.extend(tokenizer.closing());
        Ok(ids)
    };
    texts.iter().map(encode).collect()
}
