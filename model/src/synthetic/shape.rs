//! A shape: its hyper-parameters, as metadata, and its tensors.

use super::tensors::Tensors;
use pumex_gguf::meta::ValueType;
use pumex_gguf::write::Entry;
use pumex_gguf::Value;
use pumex_quant::FormatId;

/// Positions that all shapes claim to be trained for.
const N_CTX_TRAIN: u32 = 131_072;

/// A value of a key that few families have.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// An integer.
    U(u32),
    /// A float.
    F(f32),
    /// `.0` for every layer but each `.1`th from layer `.2` on, which has `.3`.
    Each(u32, u32, u32, u32),
}

/// A model's hyper-parameters.
#[derive(Debug)]
pub struct Shape {
    /// As on the command line.
    pub name: &'static str,
    /// `general.architecture`.
    pub arch: &'static str,
    /// `general.size_label`; none has the size counted.
    pub label: Option<&'static str>,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// Layers.
    pub n_layer: u32,
    /// Width of the feed-forward layer.
    pub n_ff: u32,
    /// Query heads.
    pub n_head: u32,
    /// Key/value heads.
    pub n_head_kv: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Tokens.
    pub n_vocab: u32,
    /// Base of RoPE's series.
    pub rope_base: f32,
    /// Experts of a layer, how many of them a row uses, and the width of one.
    pub experts: Option<(u32, u32, u32)>,
    /// Whether the embedding is the output matrix too.
    pub tied: bool,
    /// Keys beside those above, without the architecture's name; they replace those of the same name.
    pub keys: &'static [(&'static str, Key)],
    /// Adds the tensors of a layer.
    pub layer: fn(&Shape, u32, &mut Tensors),
}

impl Shape {
    /// An integer among the further keys; 0 if it is not there.
    pub(super) fn key(&self, name: &str) -> u32 {
        let found = self.keys.iter().find(|(key, _)| *key == name);
        found.map_or(0, |(_, key)| if let Key::U(x) = key { *x } else { 0 })
    }

    pub(super) fn meta(&self) -> Vec<(String, Value)> {
        let text = |t: &str| Value::Str(t.as_bytes().to_vec());
        let (experts, used, n_ff_exp) = self.experts.unwrap_or_default();
        let general =
            [("architecture", self.arch), ("name", self.name)].map(|(k, v)| (format!("general.{k}"), text(v)));
        let label = self.label.map(|label| ("general.size_label".to_string(), text(label)));
        let own = [
            ("context_length", N_CTX_TRAIN),
            ("embedding_length", self.n_embd),
            ("block_count", self.n_layer),
            ("feed_forward_length", self.n_ff),
            ("attention.head_count", self.n_head),
            ("attention.head_count_kv", self.n_head_kv),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("rope.dimension_count", self.head_dim),
            ("expert_count", experts),
            ("expert_used_count", used),
            ("expert_feed_forward_length", n_ff_exp),
        ];
        let floats = [("attention.layer_norm_rms_epsilon", 1e-5), ("rope.freq_base", self.rope_base)];
        let replaced = |name: &str| self.keys.iter().any(|(key, _)| *key == name);
        let own = own.map(|(k, v)| (k, Value::U32(v))).into_iter().filter(|(_, v)| !matches!(v, Value::U32(0)));
        let own = own.chain(floats.map(|(k, v)| (k, Value::F32(v)))).filter(|(k, _)| !replaced(k));
        let more = self.keys.iter().map(|(k, v)| {
            let value = match *v {
                Key::U(x) => Value::U32(x),
                Key::F(x) => Value::F32(x),
                Key::Each(usual, period, first, other) => {
                    let of = |i: u32| if i % period == first { other } else { usual };
                    Value::Array {
                        element: ValueType::U32,
                        raw: (0..self.n_layer).flat_map(|i| of(i).to_le_bytes()).collect(),
                    }
                }
            };
            (*k, value)
        });
        let named = own.chain(more).map(|(k, v)| (format!("{}.{k}", self.arch), v));
        general.into_iter().chain(label).chain(named).collect()
    }

    /// Every tensor as a file of half floats has it.
    pub(super) fn tensors(&self) -> Vec<(Entry, (usize, usize))> {
        let mut all = Tensors::default();
        all.add("token_embd.weight", &[self.n_embd, self.n_vocab]);
        for i in 0..self.n_layer {
            all.layer(i);
            (self.layer)(self, i, &mut all);
        }
        all.whole();
        all.add("output_norm.weight", &[self.n_embd]);
        if !self.tied {
            all.add("output.weight", &[self.n_embd, self.n_vocab]);
        }
        let entry = |(name, dims): (String, Vec<u32>)| {
            // Files keep these as they are.
            let few = ["ffn_gate_inp.weight", "ssm_a", "ssm_d", "ssm_conv1d.weight", "ssm_norm.weight", "exps.bias"];
            let float = dims.len() == 1 || few.iter().any(|end| name.ends_with(end));
            let format = if float { FormatId::F32 } else { FormatId::F16 }.format();
            let dims: Vec<u64> = dims.into_iter().map(u64::from).collect();
            let len_bytes = dims.iter().product::<u64>() * format.block_bytes as u64;
            (Entry { name, dims, type_id: format.ggml_id, len_bytes }, (0, 0))
        };
        all.found.into_iter().map(entry).collect()
    }
}
