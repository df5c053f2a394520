//! What a file says of its model, said otherwise: single keys of its metadata, and how positions are rotated.

use pumex_gguf::{Error, Gguf, Result, Value};

/// Facts in place of the file's.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct FactArgs {
    /// Metadata in place of the file's: int, float, bool or str
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = pair)]
    override_kv: Vec<KeyValue>,
    /// Base of the rotation of positions; 0 is the model's
    #[arg(long, value_name = "N", env = "LLAMA_ARG_ROPE_FREQ_BASE")]
    rope_freq_base: Option<f32>,
    /// Factor of positions: 0.5 stretches the context to twice its length; 0 is the model's
    #[arg(long, value_name = "N", env = "LLAMA_ARG_ROPE_FREQ_SCALE", conflicts_with = "rope_scale")]
    rope_freq_scale: Option<f32>,
    /// How many times longer than trained the context is: one over --rope-freq-scale
    #[arg(long, value_name = "N", env = "LLAMA_ARG_ROPE_SCALE")]
    rope_scale: Option<f32>,
    /// How the rotation is stretched
    #[arg(long, value_name = "TYPE", env = "LLAMA_ARG_ROPE_SCALING_TYPE", value_parser = ["none", "linear", "yarn"])]
    rope_scaling: Option<String>,
    /// Context that the model was trained with, for YaRN; 0 is the model's
    #[arg(long, value_name = "N", env = "LLAMA_ARG_YARN_ORIG_CTX")]
    yarn_orig_ctx: Option<u32>,
    /// 1 is YaRN's own mixture, 0 none of it; -1 is as --rope-scaling says
    #[arg(long, value_name = "N", env = "LLAMA_ARG_YARN_EXT_FACTOR", allow_negative_numbers = true)]
    yarn_ext_factor: Option<f32>,
    /// Factor of YaRN's magnitude
    #[arg(long, value_name = "N", env = "LLAMA_ARG_YARN_ATTN_FACTOR", allow_negative_numbers = true)]
    yarn_attn_factor: Option<f32>,
    /// Turns below which YaRN interpolates
    #[arg(long, value_name = "N", env = "LLAMA_ARG_YARN_BETA_SLOW", allow_negative_numbers = true)]
    yarn_beta_slow: Option<f32>,
    /// Turns above which YaRN leaves positions as they are
    #[arg(long, value_name = "N", env = "LLAMA_ARG_YARN_BETA_FAST", allow_negative_numbers = true)]
    yarn_beta_fast: Option<f32>,
}

/// A key and its value.
type KeyValue = (String, Value);

/// `KEY=TYPE:VALUE`.
fn pair(text: &str) -> std::result::Result<KeyValue, String> {
    let expected = "expected KEY=TYPE:VALUE with a type of int, float, bool or str";
    let (key, typed) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or(expected)?;
    let (kind, value) = typed.split_once(':').ok_or(expected)?;
    let wrong = || format!("expected a value of the type {kind}, found {value:?}");
    let value = match kind {
        "int" => Value::I64(value.parse().map_err(|_| wrong())?),
        "float" => Value::F32(value.parse().ok().filter(|f: &f32| f.is_finite()).ok_or_else(wrong)?),
        "bool" => Value::Bool(value.parse().map_err(|_| wrong())?),
        "str" => Value::Str(value.as_bytes().to_vec()),
        _ => return Err(expected.into()),
    };
    Ok((key.to_string(), value))
}

impl FactArgs {
    /// The file as these flags say it is.
    ///
    /// # Errors
    /// A number out of its range; a file without an architecture.
    pub fn apply(&self, gguf: Gguf) -> Result<Gguf> {
        let pairs = self.pairs(&gguf)?;
        Ok(if pairs.is_empty() { gguf } else { gguf.with_meta(pairs) })
    }

    fn pairs(&self, gguf: &Gguf) -> Result<Vec<KeyValue>> {
        let mut pairs = self.override_kv.clone();
        let positive = |flag: &str, value: Option<f32>| match value {
            Some(found) if !found.is_finite() || found < 0.0 => {
                Err(Error::Usage(format!("{flag}: expected a number above 0, or 0, found {found}")))
            }
            value => Ok(value.filter(|v| *v > 0.0)),
        };
        let mut put = |name: &str, value: Value| -> Result<()> {
            pairs.push((format!("{}.rope.{name}", gguf.meta().arch()?), value));
            Ok(())
        };
        if let Some(base) = positive("--rope-freq-base", self.rope_freq_base)? {
            put("freq_base", Value::F32(base))?;
        }
        let scale = positive("--rope-freq-scale", self.rope_freq_scale)?.map(|scale| 1.0 / scale);
        if let Some(factor) = scale.or(positive("--rope-scale", self.rope_scale)?) {
            put("scaling.factor", Value::F32(factor))?;
        }
        let kind = match (self.yarn_ext_factor.filter(|f| *f >= 0.0), self.rope_scaling.as_deref()) {
            (None, kind) => kind,
            (Some(0.0), None | Some("yarn")) => Some("linear"),
            (Some(1.0), None) => Some("yarn"),
            (Some(1.0), kind @ Some("yarn")) | (Some(0.0), kind) => kind,
            (Some(found), _) => {
                let what = format!("--yarn-ext-factor: expected -1, 0 or, with yarn, 1, found {found}");
                return Err(Error::Usage(what));
            }
        };
        if let Some(kind) = kind {
            put("scaling.type", Value::Str(kind.as_bytes().to_vec()))?;
        }
        if let Some(n) = self.yarn_orig_ctx.filter(|n| *n > 0) {
            put("scaling.original_context_length", Value::U32(n))?;
        }
        if let Some(factor) = self.yarn_attn_factor.filter(|f| *f >= 0.0) {
            let own = gguf.meta().opt_f32(&format!("{}.rope.scaling.attn_factor", gguf.meta().arch()?))?;
            put("scaling.attn_factor", Value::F32(factor * own.unwrap_or(1.0)))?;
        }
        let betas = [("slow", self.yarn_beta_slow), ("fast", self.yarn_beta_fast)];
        for (name, beta) in betas.into_iter().filter_map(|(name, beta)| Some((name, beta.filter(|b| *b >= 0.0)?))) {
            put(&format!("scaling.yarn_beta_{name}"), Value::F32(beta))?;
        }
        Ok(pairs)
    }
}
