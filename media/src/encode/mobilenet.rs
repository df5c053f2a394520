//! MobileNet V5, the tower of Gemma 3n.

use super::vit::norm_if;
use super::Context;
use crate::graph::{Act, NormKind, Val, Window};
use crate::{Attention, Builder, Error, Result};

/// The epsilon of all norms.
const EPS: f32 = 1e-6;
/// Stages that a file may have.
const STAGES: usize = 4;
/// Rows that come out, to a side.
const SIDE: usize = 16;

/// A picture of rows: a value and its columns and rows.
#[derive(Clone, Copy)]
struct FeatureMap {
    val: Val,
    grid: [usize; 2],
}

/// A window of `k` by `k` whose results cover the whole grid, zeros shared between both edges.
fn same(size: [usize; 2], k: usize, stride: usize) -> Window {
    let out = size.map(|n| n.div_ceil(stride));
    let before = [0, 1].map(|i| ((out[i].saturating_sub(1) * stride + k).saturating_sub(size[i])) / 2);
    Window { size, kernel: [k; 2], stride: [stride; 2], before, out }
}

fn side(b: &Builder<'_>, name: &str) -> Result<usize> {
    Ok(b.shape(&format!("{name}.weight"))?.first().copied().unwrap_or(1))
}

fn conv(b: &mut Builder<'_>, x: FeatureMap, name: &str, stride: usize) -> Result<FeatureMap> {
    let window = same(x.grid, side(b, name)?, stride);
    Ok(FeatureMap { val: b.conv(x.val, name, window)?, grid: window.out })
}

fn depthwise(b: &mut Builder<'_>, x: FeatureMap, name: &str, stride: usize) -> Result<FeatureMap> {
    let window = same(x.grid, side(b, name)?, stride);
    Ok(FeatureMap { val: b.depthwise(x.val, name, window)?, grid: window.out })
}

fn norm(b: &mut Builder<'_>, x: FeatureMap, name: &str) -> Result<FeatureMap> {
    Ok(FeatureMap { val: norm_if(b, NormKind::Rms, x.val, name, EPS)?, ..x })
}

fn gelu(b: &mut Builder<'_>, x: FeatureMap) -> Result<FeatureMap> {
    Ok(FeatureMap { val: b.act(Act::Gelu, x.val)?, ..x })
}

/// A 1 x 1 convolution.
fn point(b: &mut Builder<'_>, x: FeatureMap, name: &str) -> Result<FeatureMap> {
    Ok(FeatureMap { val: b.linear(x.val, name)?, ..x })
}

fn scale(b: &mut Builder<'_>, x: FeatureMap, prefix: &str) -> Result<FeatureMap> {
    let name = format!("{prefix}.layer_scale.gamma");
    match b.has(&name) {
        true => Ok(FeatureMap { val: b.mul_weight(x.val, &name, 1, b.cols(x.val))?, ..x }),
        false => Ok(x),
    }
}

/// `y + x` where both are as large, else `y`.
fn residual(b: &mut Builder<'_>, y: FeatureMap, x: FeatureMap) -> Result<FeatureMap> {
    match x.grid == y.grid && b.cols(x.val) == b.cols(y.val) {
        true => Ok(FeatureMap { val: b.add(y.val, x.val)?, ..y }),
        false => Ok(y),
    }
}

fn edge(b: &mut Builder<'_>, x: FeatureMap, prefix: &str, stride: usize) -> Result<FeatureMap> {
    let name = |part: &str| format!("{prefix}.{part}");
    let y = conv(b, x, &name("conv_exp"), stride)?;
    let y = norm(b, y, &name("bn1"))?;
    let y = gelu(b, y)?;
    let y = point(b, y, &name("conv_pwl"))?;
    let y = norm(b, y, &name("bn2"))?;
    residual(b, y, x)
}

fn inverted_residual(b: &mut Builder<'_>, x: FeatureMap, prefix: &str, stride: usize) -> Result<FeatureMap> {
    let name = |part: &str| format!("{prefix}.{part}");
    let has = |b: &Builder<'_>, part: &str| b.has(&format!("{prefix}.{part}.conv.weight"));
    let mut y = x;
    if has(b, "dw_start") {
        y = depthwise(b, y, &name("dw_start.conv"), 1)?;
        y = norm(b, y, &name("dw_start.bn"))?;
    }
    if has(b, "pw_exp") {
        y = point(b, y, &name("pw_exp.conv"))?;
        y = norm(b, y, &name("pw_exp.bn"))?;
        y = gelu(b, y)?;
    }
    if has(b, "dw_mid") {
        y = depthwise(b, y, &name("dw_mid.conv"), stride)?;
        y = norm(b, y, &name("dw_mid.bn"))?;
        y = gelu(b, y)?;
    }
    if has(b, "pw_proj") {
        y = point(b, y, &name("pw_proj.conv"))?;
        y = norm(b, y, &name("pw_proj.bn"))?;
    }
    let y = scale(b, y, prefix)?;
    residual(b, y, x)
}

/// Keys or values: from a smaller picture if the file has a convolution for it.
fn project_narrow(b: &mut Builder<'_>, x: FeatureMap, prefix: &str) -> Result<Val> {
    let mut y = x;
    if b.has(&format!("{prefix}.down_conv.weight")) {
        y = depthwise(b, x, &format!("{prefix}.down_conv"), 2)?;
        y = norm(b, y, &format!("{prefix}.norm"))?;
    }
    b.linear(y.val, &format!("{prefix}.proj"))
}

/// An attention whose queries share one head of keys and values.
fn attention(b: &mut Builder<'_>, x: FeatureMap, prefix: &str) -> Result<FeatureMap> {
    let name = |part: &str| format!("{prefix}.{part}");
    let normed = norm(b, x, &name("norm"))?;
    let q = b.linear(normed.val, &name("attn.query.proj"))?;
    let k = project_narrow(b, normed, &name("attn.key"))?;
    let v = project_narrow(b, normed, &name("attn.value"))?;
    let dim = b.cols(k);
    let heads = b.cols(q) / dim;
    let rules = Attention { heads, kv_heads: 1, scale: 1.0 / (dim as f32).sqrt(), ..Attention::default() };
    let attended = b.attend((b.all(q), b.all(k), b.all(v)), &rules)?;
    let y = FeatureMap { val: b.linear(attended, &name("attn.output.proj"))?, ..x };
    if b.cols(y.val) != b.cols(x.val) {
        return Ok(y);
    }
    let y = scale(b, y, prefix)?;
    residual(b, y, x)
}

/// Gemma 3n.
pub(super) fn build(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let [input] = of.inputs else {
        return Err(Error::Medium(format!("expected one picture, found {} frames", of.inputs.len())));
    };
    let grid = [input.width, input.height];
    let x = FeatureMap { val: b.input(grid[0] * grid[1], 3)?, grid };
    let x = conv(b, x, "v.conv_stem.conv", 2)?;
    let x = norm(b, x, "v.conv_stem.bn")?;
    let mut x = gelu(b, x)?;
    let mut ends = Vec::new();
    for stage in 0..STAGES {
        let mut blocks = 0;
        loop {
            let prefix = format!("v.blk.{stage}.{blocks}");
            let has = |part: &str| b.has(&format!("{prefix}.{part}.weight"));
            let stride = if blocks == 0 { 2 } else { 1 };
            x = if has("conv_exp") {
                edge(b, x, &prefix, stride)?
            } else if has("attn.query.proj") {
                attention(b, x, &prefix)?
            } else if has("dw_start.conv") || has("pw_exp.conv") {
                inverted_residual(b, x, &prefix, stride)?
            } else {
                break;
            };
            blocks += 1;
        }
        if blocks > 0 {
            ends.push(x);
        }
    }
    // The last two of four stages; of fewer only the last.
    let from = if ends.len() == STAGES { STAGES - 2 } else { ends.len().saturating_sub(1) };
    let fused = fuse(b, &ends[from..])?;
    let x = b.scale(fused, (b.cols(fused) as f32).sqrt())?;
    let x = b.norm(NormKind::Rms, x, "mm.soft_emb_norm", EPS)?;
    let x = b.linear(x, "mm.input_projection")?;
    let all = b.all(x);
    b.norm_with(NormKind::Rms, all, 1, (None, None), EPS)
}

/// The ends of stages at the size of the first one, fed forward together, then pooled.
fn fuse(b: &mut Builder<'_>, ends: &[FeatureMap]) -> Result<Val> {
    let Some(first) = ends.first() else {
        return Err(Error::MissingTensor("v.blk.0.0.conv_exp.weight".into()));
    };
    let [w, h] = first.grid;
    let mut parts = Vec::new();
    for end in ends {
        let [from_w, from_h] = end.grid;
        if w % from_w != 0 || h % from_h != 0 {
            return Err(Error::Shape(format!("expected a grid that goes into {w} x {h}, found {from_w} x {from_h}")));
        }
        let place = |i: usize| (i / w / (h / from_h) * from_w + i % w / (w / from_w)) as i32;
        let order: Vec<i32> = (0..w * h).map(place).collect();
        parts.push(b.reorder(end.val, &order)?);
    }
    let mut x = FeatureMap { val: b.join(&parts)?, grid: [w, h] };
    if b.has("v.msfa.ffn.pw_exp.conv.weight") {
        x = point(b, x, "v.msfa.ffn.pw_exp.conv")?;
        x = norm(b, x, "v.msfa.ffn.pw_exp.bn")?;
        x = gelu(b, x)?;
    }
    if b.has("v.msfa.ffn.pw_proj.conv.weight") {
        x = point(b, x, "v.msfa.ffn.pw_proj.conv")?;
        x = norm(b, x, "v.msfa.ffn.pw_proj.bn")?;
    }
    if w > SIDE {
        let k = w / SIDE;
        if !w.is_multiple_of(SIDE) || !h.is_multiple_of(k) {
            return Err(Error::Shape(format!("expected a grid of cells of {k} x {k}, found {w} x {h}")));
        }
        x.val = super::pieces::mean_cells(b, x.val, x.grid, k)?;
    }
    norm_if(b, NormKind::Rms, x.val, "v.msfa.norm", EPS)
}
