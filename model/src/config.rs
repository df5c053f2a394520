//! Hyper-parameters that most families share: one documented field each, read with ranges checked before any arithmetic.

use pumex_gguf::{Error, Gguf, Result, Value};
use pumex_plan::MAX_HEAD_DIM;

/// Most experts of a layer and of a row: kernels keep a row's in shared memory.
const MAX_EXPERTS: u64 = 2048;
const MAX_EXPERTS_USED: u64 = 64;

/// Configuration of a transformer. Fields by layer have an entry for each of `n_layer`.
#[derive(Clone, Debug)]
pub struct Config {
    /// Layers, without those that only predict further tokens.
    pub n_layer: usize,
    /// Layers in the file.
    pub n_layer_all: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Width of the feed-forward block, by layer.
    pub n_ff: Vec<usize>,
    /// Experts of a layer; 0 if its feed-forward block is dense.
    pub n_expert: usize,
    /// Of which a row uses so many, by layer.
    pub n_expert_used: Vec<usize>,
    /// Width of an expert, by layer.
    pub n_ff_exp: Vec<usize>,
    /// Whether layers have experts that all rows share; none where the keys say nothing.
    pub shares_experts: Option<bool>,
    /// The experts' weights are multiplied with this.
    pub expert_scale: f32,
    /// Query heads, by layer.
    pub n_head: Vec<usize>,
    /// Key/value heads, by layer; divides `n_head`.
    pub n_head_kv: Vec<usize>,
    /// Elements of a query's and a key's head.
    pub k_dim: usize,
    /// Elements of a value's head.
    pub v_dim: usize,
    /// Rotated elements per head, even.
    pub rope_dims: usize,
    /// Base of the rotation's geometric series.
    pub rope_base: f32,
    /// How positions beyond those of training are reached.
    pub scaling: Scaling,
    /// Epsilon of norms by the root of the mean square.
    pub eps: f32,
    /// Epsilon of norms by mean and deviation.
    pub layer_eps: f32,
    /// Positions of a window; 0 for none.
    pub window: usize,
    /// Context the model was trained for.
    pub n_ctx_train: usize,
    /// Context before its positions were stretched.
    pub n_ctx_orig: usize,
    /// Whether rows see none that come later.
    pub causal: bool,
}

/// Scaling of RoPE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Frequencies are multiplied with this.
    pub freq_scale: f32,
    /// YaRN: fast and slow beta, and the context before.
    pub yarn: Option<(f32, f32, usize)>,
    /// Of sine and cosine.
    pub magnitude: f32,
}

impl Scaling {
    /// None.
    pub const NONE: Scaling = Scaling { freq_scale: 1.0, yarn: None, magnitude: 1.0 };
}

/// Reads `ARCH.key` values and turns range faults into errors that name the key.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The file.
    pub gguf: &'a Gguf,
    /// Its architecture.
    pub arch: &'a str,
}

impl<'a> Reader<'a> {
    /// Of a file.
    ///
    /// # Errors
    /// `missing_key` without an architecture.
    pub fn new(gguf: &'a Gguf) -> Result<Self> {
        Ok(Reader { gguf, arch: gguf.meta().arch()? })
    }

    /// An error about a key.
    pub fn bad(&self, key: &str, expected: &str, found: impl std::fmt::Display) -> Error {
        let what = format!("{}.{key}: expected {expected}, found {found}", self.arch);
        Error::file(self.gguf.path(), "bad_hparam", what)
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.arch)
    }

    fn is_array(&self, key: &str) -> bool {
        self.gguf.meta().get(&self.key(key)).is_some_and(|v| v.elements().is_some())
    }

    /// Whether layers have experts that all rows share, by their number and width; none if neither key is there.
    fn shares_experts(&self) -> Result<Option<bool>> {
        let keys = ["expert_shared_count", "expert_shared_feed_forward_length"];
        let known = keys.into_iter().filter(|key| self.has(key)).map(|key| self.int(key, Some(0), 0, 1 << 24));
        let sizes = known.collect::<Result<Vec<_>>>()?;
        Ok((!sizes.is_empty()).then(|| sizes.iter().any(|size| *size > 0)))
    }

    /// Whether there is such a key.
    pub fn has(&self, key: &str) -> bool {
        self.gguf.meta().get(&self.key(key)).is_some()
    }

    /// An integer in a range.
    ///
    /// # Errors
    /// `missing_key` without it and a default, `bad_key_type`, `bad_hparam`; as all here.
    pub fn int(&self, key: &str, default: Option<u64>, min: u64, max: u64) -> Result<usize> {
        let full = self.key(key);
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

    /// A float in a range.
    ///
    /// # Errors
    /// As [`Reader::int`].
    pub fn float(&self, key: &str, default: Option<f32>, min: f32, max: f32) -> Result<f32> {
        let full = self.key(key);
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

    /// A float that counts as not given if it is 0.
    ///
    /// # Errors
    /// As [`Reader::int`].
    pub fn factor(&self, key: &str, default: f32) -> Result<f32> {
        let value = self.float(key, Some(0.0), -1e9, 1e9)?;
        Ok(if value == 0.0 { default } else { value })
    }

    /// A bool.
    ///
    /// # Errors
    /// As [`Reader::int`].
    pub fn flag(&self, key: &str, default: bool) -> Result<bool> {
        Ok(self.gguf.meta().opt_bool(&self.key(key))?.unwrap_or(default))
    }

    /// A word, if the key is there.
    ///
    /// # Errors
    /// As [`Reader::int`].
    pub fn word(&self, key: &str) -> Result<Option<&'a str>> {
        self.gguf.meta().opt_str(&self.key(key))
    }

    /// A number for each of `n` layers: an array, or one for all.
    ///
    /// # Errors
    /// As [`Reader::int`].
    pub fn by_layer(&self, key: &str, n: usize, default: Option<&[usize]>, max: u64) -> Result<Vec<usize>> {
        if !self.is_array(key) {
            return match default {
                Some(default) if !self.has(key) => Ok(default.to_vec()),
                _ => Ok(vec![self.int(key, None, 0, max)?; n]),
            };
        }
        let values = self.gguf.meta().opt_i32s(&self.key(key))?.unwrap_or_default();
        if values.len() < n {
            return Err(self.bad(key, &format!("{n} numbers"), values.len()));
        }
        let of = |v: &i32| u64::try_from(*v).ok().filter(|v| *v <= max).map(|v| v as usize);
        let read = values.iter().take(n).map(|v| of(v).ok_or_else(|| self.bad(key, &format!("0 to {max}"), v)));
        read.collect()
    }

    /// Numbers of an array that may be negative, by layer.
    ///
    /// # Errors
    /// No array of as many.
    pub fn signed(&self, key: &str, n: usize) -> Result<Vec<i32>> {
        let values = self.gguf.meta().opt_i32s(&self.key(key))?.unwrap_or_default();
        match values.get(..n) {
            Some(values) => Ok(values.to_vec()),
            None => Err(self.bad(key, &format!("{n} numbers"), values.len())),
        }
    }

    /// Floats, by layer or one for all.
    ///
    /// # Errors
    /// As [`Reader::int`].
    pub fn floats(&self, key: &str, n: usize, default: f32) -> Result<Vec<f32>> {
        if !self.is_array(key) {
            return Ok(vec![self.float(key, Some(default), -1e30, 1e30)?; n]);
        }
        let values = self.gguf.meta().opt_f32s(&self.key(key))?.unwrap_or_default();
        if values.len() < n {
            return Err(self.bad(key, &format!("{n} numbers"), values.len()));
        }
        Ok(values)
    }

    /// A flag for each of `n` layers, if the key is there as an array.
    ///
    /// # Errors
    /// As [`Reader::int`].
    pub fn is_flags(&self, key: &str, n: usize) -> Result<Option<Vec<bool>>> {
        let Some(flags) = self.gguf.meta().get(&self.key(key)).and_then(|v| v.flags()) else { return Ok(None) };
        match flags.len() < n {
            true => Err(self.bad(key, &format!("{n} flags"), flags.len())),
            false => Ok(Some(flags)),
        }
    }

    /// A flag for each of `n` layers: an array of as many or more, or one for all.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn flags(&self, key: &str, n: usize) -> Result<Vec<bool>> {
        let value = self.gguf.meta().get(&self.key(key));
        if !self.is_array(key) {
            return match value {
                Some(Value::Bool(flag)) => Ok(vec![*flag; n]),
                _ => Ok(vec![self.int(key, None, 0, 1)? > 0; n]),
            };
        }
        let flags: Vec<bool> = value.and_then(|v| v.flags()).unwrap_or_default();
        match flags.len() >= n {
            true => Ok(flags),
            false => Err(self.bad(key, &format!("{n} numbers"), flags.len())),
        }
    }

    /// Which layers slide: by an array, else all but one in `period`, which is the first or the last of them. A family whose
    /// files must have the array has no period, which is 0.
    ///
    /// # Errors
    /// As [`Reader::int`].
    pub fn sliding(&self, n: usize, period: usize, dense_first: bool) -> Result<Vec<bool>> {
        const KEY: &str = "attention.sliding_window_pattern";
        if self.is_array(KEY) {
            return self.flags(KEY, n);
        }
        if period == 0 {
            return Err(self.bad(KEY, &format!("{n} flags"), "none"));
        }
        let period = self.int(KEY, Some(period as u64), 0, 1024)?;
        let full = if dense_first { 0 } else { period.wrapping_sub(1) };
        Ok((0..n).map(|i| period == 0 || i % period != full).collect())
    }

    /// Base by which sliding layers rotate.
    ///
    /// # Errors
    /// As [`Reader::int`].
    pub fn sliding_base(&self, default: f32) -> Result<f32> {
        self.float("rope.freq_base_swa", Some(default), 1.0, 1e12)
    }

    /// Positions that sliding layers see, if any layers slide.
    ///
    /// # Errors
    /// As [`Reader::int`]: there must be one then.
    pub fn window(&self, sliding: &[bool]) -> Result<usize> {
        let none = (!sliding.contains(&true)).then_some(1);
        self.int("attention.sliding_window", none, 1, u64::from(u32::MAX))
    }
}

impl Config {
    /// Reads and checks the configuration of `gguf`.
    ///
    /// # Errors
    /// `missing_key`, `bad_key_type` or `bad_hparam`, naming the key with expected and found.
    pub fn from_gguf(gguf: &Gguf) -> Result<Config> {
        let r = Reader::new(gguf)?;
        let n_layer_all = r.int("block_count", None, 1, 1024)?;
        let nextn = r.int("nextn_predict_layers", Some(0), 0, n_layer_all as u64 - 1)?;
        let n = n_layer_all - nextn;
        let n_embd = r.int("embedding_length", None, 32, 1 << 20)?;
        let n_ff = r.by_layer("feed_forward_length", n, Some(&vec![0; n]), 1 << 24)?;
        let n_head = r.by_layer("attention.head_count", n, Some(&vec![0; n]), 1024)?;
        let n_head_kv = r.by_layer("attention.head_count_kv", n, Some(&n_head), 1024)?;
        for (h, kv) in n_head.iter().zip(&n_head_kv) {
            // RWKV's files count key/value heads alone.
            if *kv > 0 && (!h.is_multiple_of(*kv) || *h == 0) && !r.has("wkv.head_size") {
                return Err(r.bad("attention.head_count_kv", &format!("a divisor of head_count {h}"), kv));
            }
        }
        let heads = n_head.iter().copied().find(|h| *h > 0).unwrap_or(1);
        let most = MAX_HEAD_DIM as u64;
        let k_dim = r.int("attention.key_length", Some((n_embd / heads).max(1) as u64), 1, 1 << 16)?;
        let v_dim = r.int("attention.value_length", Some((n_embd / heads).max(1) as u64), 1, 1 << 16)?;
        let attends = n_head_kv.iter().any(|h| *h > 0);
        for (key, dim) in [("key", k_dim), ("value", v_dim)] {
            if attends && (dim as u64 > most || !dim.is_multiple_of(8)) {
                return Err(r.bad(
                    &format!("attention.{key}_length"),
                    &format!("a multiple of 8, at most {most}"),
                    dim,
                ));
            }
        }
        let rope_dims = r.int("rope.dimension_count", Some(k_dim as u64), 0, 1 << 16)?;
        if rope_dims % 2 != 0 {
            return Err(r.bad("rope.dimension_count", "an even number", rope_dims));
        }
        let experts = r.int("expert_count", Some(0), 0, MAX_EXPERTS)?;
        // Layers without experts may use none.
        let used = r.by_layer("expert_used_count", n, Some(&vec![0; n]), MAX_EXPERTS_USED)?;
        let most_used = used.iter().copied().max().unwrap_or(0);
        if most_used > experts {
            return Err(r.bad("expert_used_count", &format!("at most expert_count {experts}"), most_used));
        }
        if experts > 0 && most_used == 0 {
            return Err(r.bad("expert_used_count", &format!("1 to expert_count {experts}"), most_used));
        }
        let widest = n_ff.iter().copied().max().unwrap_or(0);
        let n_ff_exp = r.by_layer("expert_feed_forward_length", n, Some(&vec![widest; n]), 1 << 24)?;
        // A file may have both, of which one is no more than a zero.
        let [rms, layer] = ["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"];
        let eps = |own: &str, other: &str| match r.has(own) {
            true => r.float(own, None, 0.0, 1.0),
            false => r.float(other, Some(1e-5), 0.0, 1.0),
        };
        let n_ctx_train = r.int("context_length", None, 1, u64::from(u32::MAX))?;
        Ok(Config {
            n_layer: n,
            n_layer_all,
            n_embd,
            n_ff,
            n_expert: experts,
            n_expert_used: used,
            shares_experts: r.shares_experts()?,
            n_ff_exp: n_ff_exp.into_iter().map(|width| if width == 0 { widest } else { width }).collect(),
            expert_scale: r.factor("expert_weights_scale", 1.0)?,
            n_head,
            n_head_kv,
            k_dim,
            v_dim,
            rope_dims: if attends { rope_dims.min(k_dim) } else { 0 },
            rope_base: r.float("rope.freq_base", Some(10000.0), 1.0, 1e12)?,
            scaling: scaling(&r, n_ctx_train)?,
            eps: eps(rms, layer)?,
            layer_eps: eps(layer, rms)?,
            window: r.int("attention.sliding_window", Some(0), 0, u64::from(u32::MAX))?,
            n_ctx_train,
            n_ctx_orig: match r.int("rope.scaling.original_context_length", Some(0), 0, u64::from(u32::MAX))? {
                0 => n_ctx_train,
                n => n,
            },
            causal: r.flag("attention.causal", true)?,
        })
    }
}

fn scaling(r: &Reader<'_>, n_ctx_train: usize) -> Result<Scaling> {
    let kind = r.gguf.meta().opt_str(&r.key("rope.scaling.type"))?.unwrap_or("linear");
    let factor = match r.has("rope.scaling.factor") {
        true => r.factor("rope.scaling.factor", 1.0)?,
        false => r.factor("rope.scale_linear", 1.0)?,
    };
    let attn_factor = r.factor("rope.scaling.attn_factor", 1.0)?;
    match kind {
        "none" => Ok(Scaling { magnitude: attn_factor, ..Scaling::NONE }),
        "linear" | "longrope" => Ok(Scaling { freq_scale: 1.0 / factor, yarn: None, magnitude: attn_factor }),
        "yarn" => {
            let beta = |key, default| r.factor(&format!("rope.scaling.yarn_beta_{key}"), default);
            let before = r.int("rope.scaling.original_context_length", Some(n_ctx_train as u64), 1, 1 << 32)?;
            let log = |scale: f32, by: f32| if scale <= 1.0 { 1.0 } else { 0.1 * by * scale.ln() + 1.0 };
            let all = r.float("rope.scaling.yarn_log_multiplier", Some(0.0), -1e3, 1e3)?;
            // DeepSeek 2 scales both the same, other families only the whole.
            let own = if r.arch == "deepseek2" && all != 1.0 { all } else { 1.0 };
            let magnitude = if all == 0.0 { log(factor, 1.0) } else { log(factor, own) / log(factor, all) };
            Ok(Scaling {
                freq_scale: 1.0 / factor,
                yarn: Some((beta("fast", 32.0)?, beta("slow", 1.0)?, before)),
                magnitude: magnitude * attn_factor,
            })
        }
        other => Err(r.bad("rope.scaling.type", "none, linear, yarn or longrope", format!("{other:?}"))),
    }
}

/// Radians per position of each rotated pair, `[dims / 2]`; `factors` divides them pair by pair.
pub fn inv_freq(dims: usize, base: f32, s: Scaling, factors: Option<&[f32]>) -> Vec<f32> {
    let (n, base) = (dims as f64, f64::from(base));
    let bound = |beta: f32, before: usize| {
        n * (before as f64 / (f64::from(beta) * std::f64::consts::TAU)).ln() / (2.0 * base.ln())
    };
    (0..dims / 2)
        .map(|i| {
            let own = base.powf(-2.0 * i as f64 / n) / factors.map_or(1.0, |f| f64::from(f[i]));
            let scaled = own * f64::from(s.freq_scale);
            let Some((fast, slow, before)) = s.yarn else { return scaled as f32 };
            let (low, high) = (bound(fast, before).floor().max(0.0), bound(slow, before).ceil().min(n - 1.0));
            let ramp = 1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            (scaled * (1.0 - ramp) + own * ramp) as f32
        })
        .collect()
}
