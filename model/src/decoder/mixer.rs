//! What a layer mixes rows of a sequence with: attention, or one of the recurrent kinds.

use super::attention::Attention;
use super::compressed::Compressed;
use super::delta::{Delta, Kda};
use super::lightning::Lightning;
use super::mamba::Mamba;
use super::mla::Mla;
use super::plamo_mamba::PlamoMamba;
use super::rwkv::{Rwkv6, Rwkv7};
use super::short_conv::ShortConv;
use super::{Family, Layer, MlaSizes};
use crate::weights::Weights;
use pumex_plan::{Builder, KvSpec, LayerState, Mask, MatPart, RecurrentSpec, Val};

/// The kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// Attention over heads.
    #[default]
    Attention,
    /// Attention over compressed keys and values.
    Mla,
    /// A gated convolution over the last rows.
    ShortConv,
    /// Mamba 1.
    Mamba,
    /// Mamba 2.
    Mamba2,
    /// Gated delta net.
    Delta,
    /// Kimi's delta attention, with a decay for each column.
    Kda,
    /// PLaMo 2's Mamba.
    PlamoMamba,
    /// MiniMax's lightning attention.
    Lightning,
    /// Attention over the last rows and over compressed blocks of all.
    Compressed,
    /// RWKV 6.
    Rwkv6,
    /// RWKV 7.
    Rwkv7,
}

/// Sizes of recurrent layers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recurrent {
    /// Rows that a convolution sees.
    pub conv: usize,
    /// Columns of values.
    pub inner: usize,
    /// Columns of keys per group; of a state.
    pub state: usize,
    /// Heads, or the rank of Mamba 1's time step.
    pub heads: usize,
    /// Groups of keys.
    pub groups: usize,
    /// Whether heads take groups in turn instead of side by side.
    pub tiled: bool,
    /// Kimi's delta attention: what columns fade by at most, below 0, and the sign of what `ssm_a` is in the file; without it
    /// they fade by softplus.
    pub bound: Option<(f32, f32)>,
    /// Added to the square of keys' and queries' length; none takes that of the norms.
    pub unit_eps: Option<f32>,
    /// Whether delta nets gate what they give by a sigmoid instead of SiLU.
    pub sigmoid_gate: bool,
}

/// Weights of one of them.
pub enum Mixer {
    /// See [`Attention`].
    Attention(Attention),
    /// See [`Mla`].
    Mla(Mla),
    /// See [`ShortConv`].
    ShortConv(ShortConv),
    /// See [`Mamba`].
    Mamba(Mamba),
    /// See [`Delta`].
    Delta(Delta),
    /// See [`Kda`].
    Kda(Kda),
    /// See [`PlamoMamba`].
    PlamoMamba(PlamoMamba),
    /// See [`Lightning`].
    Lightning(Lightning),
    /// See [`Compressed`].
    Compressed(Box<Compressed>),
    /// See [`Rwkv6`].
    Rwkv6(Box<Rwkv6>),
    /// See [`Rwkv7`].
    Rwkv7(Box<Rwkv7>),
}

impl Mixer {
    /// Declares those of layer `i`.
    pub fn declare(w: &mut Weights<'_>, f: &Family, mix: Mix, i: usize) -> Mixer {
        match mix {
            Mix::Attention => Mixer::Attention(Attention::declare(w, f, i)),
            Mix::Mla => Mixer::Mla(Mla::declare(w, f, i)),
            Mix::ShortConv => Mixer::ShortConv(ShortConv::declare(w, f, i)),
            Mix::Mamba => Mixer::Mamba(Mamba::declare(w, f, i, false)),
            Mix::Mamba2 => Mixer::Mamba(Mamba::declare(w, f, i, true)),
            Mix::Delta => Mixer::Delta(Delta::declare(w, f, i)),
            Mix::Kda => Mixer::Kda(Kda::declare(w, f, i)),
            Mix::PlamoMamba => Mixer::PlamoMamba(PlamoMamba::declare(w, f, i)),
            Mix::Lightning => Mixer::Lightning(Lightning::declare(w, f, i)),
            Mix::Compressed => Mixer::Compressed(Box::new(Compressed::declare(w, f, i))),
            Mix::Rwkv6 => Mixer::Rwkv6(Box::new(Rwkv6::declare(w, f, i))),
            Mix::Rwkv7 => Mixer::Rwkv7(Box::new(Rwkv7::declare(w, f, i))),
        }
    }

    /// Normed rows `[n, dim]` → what `output` takes. `state` is the index of what the layer keeps, `first` what the first layer
    /// hands on to the others, or one with an indexer to the next ones.
    pub fn run(
        &self,
        p: &mut Builder,
        f: &Family,
        l: &Layer,
        state: usize,
        (h, first): (Val, &mut Option<Val>),
    ) -> Val {
        match self {
            Mixer::Attention(m) => m.run(p, f, l, state, (h, first)),
            Mixer::Mla(m) => m.run(p, f, l, state, (h, first)),
            Mixer::ShortConv(m) => m.run(p, f, state, h),
            Mixer::Mamba(m) => m.run(p, f, state, h),
            Mixer::Delta(m) => m.run(p, f, state, h),
            Mixer::Kda(m) => m.run(p, f, state, h),
            Mixer::PlamoMamba(m) => m.run(p, f, state, h),
            Mixer::Lightning(m) => m.run(p, f, l, state, h),
            Mixer::Compressed(m) => m.run(p, f, l, state, h),
            Mixer::Rwkv6(m) => m.run(p, f, state, h),
            Mixer::Rwkv7(m) => m.run(p, f, state, h, first),
        }
    }

    /// The product that follows.
    pub fn output(&self) -> MatPart {
        match self {
            Mixer::Attention(m) => m.output,
            Mixer::Mla(m) => m.output,
            Mixer::ShortConv(m) => m.output,
            Mixer::Mamba(m) => m.output,
            Mixer::Delta(m) => m.output,
            Mixer::Kda(m) => m.output,
            Mixer::PlamoMamba(m) => m.output,
            Mixer::Lightning(m) => m.output,
            Mixer::Compressed(m) => m.output,
            Mixer::Rwkv6(m) => m.output(),
            Mixer::Rwkv7(m) => m.output(),
        }
    }
}

/// What a layer keeps for a kind of mixing.
pub fn state(f: &Family, l: &Layer, mix: Mix) -> LayerState {
    let r = &f.recurrent;
    let parts = |conv: usize, heads: usize, v_dim: usize, k_dim: usize| {
        let parts = vec![("conv", vec![r.conv.saturating_sub(1), conv]), ("state", vec![heads, v_dim, k_dim])];
        LayerState::Recurrent(RecurrentSpec { parts })
    };
    let both = r.inner + 2 * r.groups * r.state;
    let window = match l.mask {
        Mask::Window(n) | Mask::Chunk(n) => Some(n),
        Mask::Causal | Mask::Full | Mask::Near(_) | Mask::Source | Mask::Answer => None,
    };
    match mix {
        Mix::Attention if l.kv_of.is_some() => LayerState::Nothing,
        Mix::Attention => {
            LayerState::KeysValues(KvSpec { kv_heads: l.kv_heads, k_dim: l.k_dim, v_dim: l.v_dim, window })
        }
        Mix::Mla if f.mla.expanded => {
            let (kv_heads, k_dim, v_dim) = (l.heads, f.mla.k_dim, f.mla.v_dim);
            LayerState::KeysValues(KvSpec { kv_heads, k_dim, v_dim, window })
        }
        Mix::Mla => {
            let MlaSizes { rank, rope, .. } = f.mla_of(l);
            LayerState::KeysValues(KvSpec { kv_heads: 1, k_dim: rank + rope, v_dim: rank, window })
        }
        Mix::ShortConv => parts(f.c.n_embd, 0, 0, 0),
        Mix::Mamba => parts(r.inner, r.inner, 1, r.state),
        Mix::Mamba2 => parts(both, r.heads, r.inner / r.heads.max(1), r.state),
        Mix::Delta => parts(both, r.heads, r.inner / r.heads.max(1), r.state),
        Mix::Kda => parts(3 * r.inner, r.heads, r.state, r.state),
        Mix::PlamoMamba => parts(r.inner, r.heads, r.inner / r.heads.max(1), r.state),
        Mix::Lightning => {
            LayerState::Recurrent(RecurrentSpec { parts: vec![("state", vec![l.heads, l.k_dim, l.k_dim])] })
        }
        Mix::Compressed => super::compressed::state(f, l),
        Mix::Rwkv6 | Mix::Rwkv7 => {
            let (dim, hd) = (f.c.n_embd, l.k_dim);
            let state = ("state", vec![dim / hd.max(1), hd, hd]);
            LayerState::Recurrent(RecurrentSpec { parts: vec![("shifts", vec![2, dim]), state] })
        }
    }
}
