//! Granite Speech: a conformer over blocks of rows, and queries that gather windows of them.

use super::sound::{
    add_half_feed, bias_of_distance, conv_of_channels, frames, gate_by_second, head_products, pad_rows, parts, qkv,
};
use super::vit::mlp;
use super::Context;
use crate::graph::{Act, NormKind, Spans, Val};
use crate::{Attention, Builder, Error, Result};

/// The epsilon of the norms of the queries' blocks.
const EPS: f32 = 1e-12;

/// Spans of rows in groups of `each`, that see groups of `of_keys` keys.
fn groups(b: &mut Builder<'_>, rows: usize, each: usize, keys: usize, of_keys: usize) -> Spans {
    let span = |row: usize| {
        let group = row / each;
        [(group * of_keys) as u32, keys.min((group + 1) * of_keys) as u32]
    };
    b.spans((0..rows).map(span).collect())
}

/// What all blocks share.
struct SpeechBlocks {
    heads: usize,
    head_dim: usize,
    eps: f32,
    /// Length of the convolutions by channel.
    kernel: usize,
    /// Rows that see each other.
    chunk: usize,
    /// Distances that there are positions for.
    furthest: usize,
    spans: Spans,
}

impl SpeechBlocks {
    fn block(&self, b: &mut Builder<'_>, x: Val, prefix: &str) -> Result<Val> {
        let name = |part: &str| format!("{prefix}.{part}");
        let x = add_half_feed(b, x, NormKind::Layer, self.eps, prefix, "")?;
        let normed = b.norm(NormKind::Layer, x, &name("ln1"), self.eps)?;
        let attended = self.attend(b, normed, prefix)?;
        let x = b.add(x, attended)?;
        let conv = b.norm(NormKind::Layer, x, &name("norm_conv"), self.eps)?;
        let conv = b.linear(conv, &name("conv_pw1"))?;
        let conv = gate_by_second(b, Act::Sigmoid, conv)?;
        let conv = conv_of_channels(b, conv, &name("conv_dw"), self.kernel, self.kernel / 2)?;
        let cols = b.cols(conv);
        let conv = b.mul_weight(conv, &name("conv_norm.weight"), 1, cols)?;
        let conv = b.add_weight(conv, &name("conv_norm.bias"), 1, cols)?;
        let conv = b.act(Act::Silu, conv)?;
        let conv = b.linear(conv, &name("conv_pw2"))?;
        let x = b.add(x, conv)?;
        let x = add_half_feed(b, x, NormKind::Layer, self.eps, prefix, "_1")?;
        b.norm(NormKind::Layer, x, &name("ln2"), self.eps)
    }

    /// Positions are added to keys: one for each distance, the same for all heads.
    fn attend(&self, b: &mut Builder<'_>, x: Val, prefix: &str) -> Result<Val> {
        let [q, k, v] = qkv(b, x, prefix)?;
        let table = b.load(&format!("{prefix}.attn_rel_pos_emb"), 2 * self.furthest + 1, self.head_dim)?;
        let scale = 1.0 / (self.head_dim as f32).sqrt();
        // The table goes from a key far behind its query to one far before it; scores go the other way.
        let reach = self.chunk - 1;
        let rows = (0..=2 * reach).map(|i| ((self.furthest + reach - i) as i32, scale)).collect();
        let picks = b.picks(1, rows);
        let positions = b.pick(table, picks)?;
        let scores = head_products(b, q, positions, self.heads)?;
        let rules = Attention {
            heads: self.heads,
            kv_heads: self.heads,
            scale,
            spans: Some(self.spans),
            biases: vec![bias_of_distance(b, scores, self.heads, reach, self.chunk)],
            ..Attention::default()
        };
        let attended = b.attend(parts(b, [q, k, v]), &rules)?;
        b.linear(attended, &format!("{prefix}.attn_out"))
    }
}

/// Granite Speech.
pub(super) fn speech(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = frames(b, of)?;
    let mut x = b.linear(x, "a.input_projection")?;
    let rows = b.rows(x);
    let chunk = of.keys.size("chunk_size")?.min(rows);
    let furthest = of.keys.size("max_pos_emb")?;
    if chunk > furthest + 1 {
        return Err(Error::Key(format!("clip.audio.max_pos_emb: expected at least {}, found {furthest}", chunk - 1)));
    }
    let spans = groups(b, rows, chunk, rows, chunk);
    let blocks = SpeechBlocks {
        heads: of.clip.heads,
        head_dim: of.clip.head_dim,
        eps: of.clip.eps,
        kernel: of.keys.size("conv_kernel_size")?,
        chunk,
        furthest,
        spans,
    };
    let wanted = |index: usize| of.clip.feature_layers.contains(&(index as i64));
    let mut features = if wanted(0) { vec![x] } else { vec![] };
    for index in 0..of.clip.blocks {
        x = blocks.block(b, x, &format!("a.blk.{index}"))?;
        if wanted(index + 1) {
            features.push(x);
        }
        if index + 1 == of.clip.blocks / 2 {
            // What the letters would be goes back into the rows.
            let letters = b.linear(x, "a.enc_ctc_out")?;
            let letters = b.softmax(letters)?;
            let letters = b.linear(letters, "a.enc_ctc_out_mid")?;
            x = b.add(x, letters)?;
        }
    }
    features.push(x);
    let x = if features.len() > 1 { b.join(&features)? } else { x };
    gather(b, of, x)
}

/// Queries that have seen keys, added to what they were and normed.
fn attend(b: &mut Builder<'_>, prefix: &str, queries: Val, keys: Val, rules: &Attention) -> Result<Val> {
    let name = |end: &str| format!("{prefix}_{end}");
    let (q, k, v) = (b.linear(queries, &name("q"))?, b.linear(keys, &name("k"))?, b.linear(keys, &name("v"))?);
    let attended = b.attend(parts(b, [q, k, v]), rules)?;
    let attended = b.linear(attended, &name("out"))?;
    let sum = b.add(attended, queries)?;
    b.norm(NormKind::Layer, sum, &name("norm"), EPS)
}

/// Queries of each window.
fn gather(b: &mut Builder<'_>, of: &Context<'_>, x: Val) -> Result<Val> {
    let window = of.keys.size("projector.window_size")?;
    let each = window / of.keys.size("projector.downsample_rate")?;
    let (heads, width) = (of.keys.size("projector.head_count")?, of.clip.width);
    if each == 0 || !width.is_multiple_of(heads) {
        return Err(Error::Key(format!(
            "clip.audio.projector.window_size: expected a query of each window and {heads} heads that divide {width}"
        )));
    }
    let windows = b.rows(x).div_ceil(window);
    let x = pad_rows(b, x, windows * window)?;
    let queries = b.load("a.proj_query", each, width)?;
    let queries = b.norm(NormKind::Layer, queries, "a.proj_norm", EPS)?;
    let mut queries = b.reorder(queries, &(0..windows * each).map(|i| (i % each) as i32).collect::<Vec<i32>>())?;
    let rows = windows * each;
    let themselves = groups(b, rows, each, rows, each);
    let sounds = groups(b, rows, each, windows * window, window);
    let rules = |spans: Spans| Attention {
        heads,
        kv_heads: heads,
        scale: 1.0 / ((width / heads) as f32).sqrt(),
        spans: Some(spans),
        ..Attention::default()
    };
    for index in 0.. {
        let prefix = format!("a.proj_blk.{index}");
        if !b.has(&format!("{prefix}.self_attn_q.weight")) {
            break;
        }
        queries = attend(b, &format!("{prefix}.self_attn"), queries, queries, &rules(themselves))?;
        queries = attend(b, &format!("{prefix}.cross_attn"), queries, x, &rules(sounds))?;
        let name = |end: &str| format!("{prefix}.ffn_{end}");
        let fed = mlp(b, queries, &name("up"), Act::Gelu, &name("down"))?;
        let sum = b.add(fed, queries)?;
        queries = b.norm(NormKind::Layer, sum, &name("norm"), EPS)?;
    }
    b.linear(queries, "a.proj_linear")
}
