//! Hyper-parameters of a dense transformer: one documented field each, read with ranges checked before any arithmetic.

use crate::gguf::Gguf;
use crate::plan::MAX_HEAD_DIM;
use crate::{Error, Result};

/// Most experts of a layer and of a row: kernels keep a row's in shared memory.
const MAX_EXPERTS: u64 = 2048;
const MAX_EXPERTS_USED: u64 = 64;

/// Configuration shared by the dense families.
#[derive(Clone, Debug)]
pub struct Config {
    /// Layers.
    pub n_layer: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Width of the feed-forward layer.
    pub n_ff: usize,
    /// Experts of a layer; 0 if its feed-forward block is dense.
    pub n_expert: usize,
    /// Of which a row uses so many.
    pub n_expert_used: usize,
    /// Width of an expert.
    pub n_ff_exp: usize,
    /// The experts' weights are multiplied with this.
    pub expert_scale: f32,
    /// Query heads.
    pub n_head: usize,
    /// Key/value heads; divides `n_head`.
    pub n_head_kv: usize,
    /// Width of a head, keys and values alike.
    pub head_dim: usize,
    /// Rotated elements per head, even.
    pub rope_dims: usize,
    /// Base of the rotation's geometric series.
    pub rope_base: f32,
    /// Positions are divided by this (linear scaling); 1 for none.
    pub rope_factor: f32,
    /// Epsilon of every RMS norm.
    pub eps: f32,
    /// Context the model was trained for.
    pub n_ctx_train: usize,
}

/// Reads `ARCH.key` values and turns range faults into errors that name the key.
struct Reader<'a> {
    gguf: &'a Gguf,
    arch: &'a str,
}

impl Reader<'_> {
    fn bad(&self, key: &str, expected: &str, found: impl std::fmt::Display) -> Error {
        let what = format!("{}.{key}: expected {expected}, found {found}", self.arch);
        Error::file(self.gguf.path(), "bad_hparam", what)
    }

    fn int(&self, key: &str, default: Option<u64>, min: u64, max: u64) -> Result<usize> {
        let full = format!("{}.{key}", self.arch);
        let value = match (self.gguf.meta().opt_u32(&full)?, default) {
            (Some(v), _) => u64::from(v),
            (None, Some(d)) => d,
            (None, None) => u64::from(self.gguf.meta().u32(&full)?),
        };
        if (min..=max).contains(&value) {
            Ok(value as usize)
        } else {
            Err(self.bad(key, &format!("{min} to {max}"), value))
        }
    }

    fn float(&self, key: &str, default: Option<f32>, min: f32, max: f32) -> Result<f32> {
        let full = format!("{}.{key}", self.arch);
        let value = match (self.gguf.meta().opt_f32(&full)?, default) {
            (Some(v), _) => v,
            (None, Some(d)) => d,
            (None, None) => self.gguf.meta().f32(&full)?,
        };
        if value >= min && value <= max {
            Ok(value)
        } else {
            Err(self.bad(key, &format!("{min:e} to {max:e}"), value))
        }
    }
}

impl Config {
    /// Reads and checks the configuration of `gguf`.
    ///
    /// # Errors
    /// `missing_key`, `bad_key_type` or `bad_hparam`, naming the key with expected and found.
    pub fn from_gguf(gguf: &Gguf) -> Result<Config> {
        let r = Reader { gguf, arch: gguf.meta().arch()? };
        let n_layer = r.int("block_count", None, 1, 1024)?;
        let n_embd = r.int("embedding_length", None, 32, 1 << 20)?;
        let n_ff = r.int("feed_forward_length", None, 32, 1 << 24)?;
        let n_head = r.int("attention.head_count", None, 1, 1024)?;
        let n_head_kv = r.int("attention.head_count_kv", Some(n_head as u64), 1, 1024)?;
        if !n_head.is_multiple_of(n_head_kv) {
            return Err(r.bad("attention.head_count_kv", &format!("a divisor of head_count {n_head}"), n_head_kv));
        }
        let head_dim = r.int("attention.key_length", Some((n_embd / n_head) as u64), 1, MAX_HEAD_DIM as u64)?;
        let value_dim = r.int("attention.value_length", Some(head_dim as u64), 1, MAX_HEAD_DIM as u64)?;
        if value_dim != head_dim {
            return Err(r.bad("attention.value_length", &format!("key_length {head_dim}"), value_dim));
        }
        if !head_dim.is_multiple_of(8) {
            return Err(r.bad("attention.key_length", "a multiple of 8", head_dim));
        }
        let rope_dims = r.int("rope.dimension_count", Some(head_dim as u64), 2, head_dim as u64)?;
        if rope_dims % 2 != 0 {
            return Err(r.bad("rope.dimension_count", "an even number", rope_dims));
        }
        let experts = r.int("expert_count", Some(0), 0, MAX_EXPERTS)?;
        let used = r.int("expert_used_count", Some(0), 0, MAX_EXPERTS_USED)?;
        if used > experts {
            return Err(r.bad("expert_used_count", &format!("at most expert_count {experts}"), used));
        }
        if (experts > 0) != (used > 0) {
            return Err(r.bad("expert_used_count", &format!("1 to expert_count {experts}"), used));
        }
        let n_ff_exp = r.int("expert_feed_forward_length", Some(n_ff as u64), 0, 1 << 24)?;
        let expert_scale = r.float("expert_weights_scale", Some(0.0), 0.0, 1e6)?;
        Ok(Config {
            n_layer,
            n_embd,
            n_ff,
            n_expert: experts,
            n_expert_used: used,
            n_ff_exp,
            expert_scale: if expert_scale == 0.0 { 1.0 } else { expert_scale }, // 0 means "not given"
            n_head,
            n_head_kv,
            head_dim,
            rope_dims,
            rope_base: r.float("rope.freq_base", Some(10000.0), 1.0, 1e12)?,
            rope_factor: rope_factor(&r)?,
            eps: r.float("attention.layer_norm_rms_epsilon", None, 0.0, 1.0)?,
            n_ctx_train: r.int("context_length", None, 1, u64::from(u32::MAX))?,
        })
    }

    /// That the model has `experts`, or none.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn expect_experts(&self, gguf: &Gguf, experts: bool) -> Result<()> {
        if (self.n_expert > 0) == experts {
            return Ok(());
        }
        let expected = if experts { "at least 1" } else { "0: this architecture is dense here" };
        Err(Reader { gguf, arch: gguf.meta().arch()? }.bad("expert_count", expected, self.n_expert))
    }

    /// Radians per position of each rotated pair, `[rope_dims / 2]`; `factors` divides them pair by pair.
    pub fn inv_freq(&self, factors: Option<&[f32]>) -> Vec<f32> {
        (0..self.rope_dims / 2)
            .map(|i| {
                let f = f64::from(self.rope_base).powf(-2.0 * i as f64 / self.rope_dims as f64);
                let factor = factors.map_or(1.0, |f| f64::from(f[i]));
                (f / f64::from(self.rope_factor) / factor) as f32
            })
            .collect()
    }
}

fn rope_factor(r: &Reader<'_>) -> Result<f32> {
    let kind = r.gguf.meta().opt_str(&format!("{}.rope.scaling.type", r.arch))?;
    match kind {
        None | Some("none") => Ok(1.0),
        Some("linear") => {
            let factor = r.float("rope.scaling.factor", Some(1.0), 0.0, 1e6)?;
            Ok(if factor == 0.0 { 1.0 } else { factor }) // 0 means "not given" in converters' output
        }
        Some(other) => Err(r.bad("rope.scaling.type", "none or linear", format!("{other:?}"))),
    }
}
