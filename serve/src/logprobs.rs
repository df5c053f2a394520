//! Log-probabilities, in each API's shape.

use crate::engine::{GeneratedToken, TokenLogprob};
use serde_json::{json, Value};

/// The least number that JSON holds for a probability of 0; clients cannot read an infinity.
const LEAST: f32 = -9999.0;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn finite(logprob: f32) -> f32 {
    match logprob.is_finite() {
        true => logprob,
        false => LEAST,
    }
}

fn candidate(t: &TokenLogprob) -> Value {
    json!({"id": t.id, "token": text(&t.bytes), "bytes": t.bytes, "logprob": finite(t.logprob)})
}

/// One position as chats say it, with llama.cpp's ids.
pub(crate) fn position(piece: &GeneratedToken) -> Value {
    let top: Vec<Value> = piece.top.iter().map(candidate).collect();
    let logprob = finite(piece.logprob.unwrap_or(f32::NEG_INFINITY));
    json!({"id": piece.id, "token": text(&piece.bytes), "bytes": piece.bytes, "logprob": logprob, "top_logprobs": top})
}

/// One position as chats say it, with probabilities after the sampler's chain: none of those that are left is 0.
pub(crate) fn sampled_probability(piece: &GeneratedToken) -> Value {
    let share = |logprob: f32| logprob.exp();
    let top: Vec<Value> = piece
        .top
        .iter()
        .filter(|t| share(t.logprob) > 0.0)
        .map(|t| json!({"id": t.id, "token": text(&t.bytes), "bytes": t.bytes, "prob": share(t.logprob)}))
        .collect();
    let prob = piece.logprob.map_or(0.0, share);
    json!({"id": piece.id, "token": text(&piece.bytes), "bytes": piece.bytes, "prob": prob, "top_probs": top})
}

/// A position of a prompt as vLLM says it: by id the one that stands there and the best ones.
pub(crate) fn prompt_position(piece: &GeneratedToken) -> Value {
    let Some(own) = piece.logprob else { return Value::Null };
    let one = |bytes: &[u8], logprob: f32, rank: Option<usize>| {
        let decoded = text(bytes);
        json!({"logprob": finite(logprob), "rank": rank, "decoded_token": decoded})
    };
    let mut all = serde_json::Map::new();
    let rank = piece.top.iter().position(|t| t.id == piece.id).map(|at| at + 1);
    all.insert(piece.id.to_string(), one(&piece.bytes, own, rank));
    for (at, t) in piece.top.iter().enumerate().filter(|(_, t)| t.id != piece.id) {
        all.insert(t.id.to_string(), one(&t.bytes, t.logprob, Some(at + 1)));
    }
    all.into()
}

/// Several positions as OpenAI's completions say them; `offset` is the first token's place in the text, in characters.
pub(crate) fn columns<'a>(pieces: impl Iterator<Item = &'a GeneratedToken>, offset: &mut usize) -> Value {
    let (mut tokens, mut logprobs, mut tops, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        let token = text(&piece.bytes);
        offsets.push(*offset);
        *offset += token.chars().count();
        tokens.push(token);
        // Nothing stands before a prompt's first token.
        logprobs.push(piece.logprob.map(finite));
        let top = piece.top.iter().map(|t| (text(&t.bytes), Value::from(finite(t.logprob))));
        tops.push(piece.logprob.map(|_| Value::Object(top.collect())));
    }
    json!({"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets})
}
