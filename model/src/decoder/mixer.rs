//! What a layer mixes rows of a sequence with: attention, or something recurrent. Each kind is a [`MixerSpec`] in a file of its own.

use super::{Family, LayerSpec};
use crate::config::Reader;
use crate::weights::Weights;
use pumex_gguf::Result;
use pumex_plan::{Builder, LayerState, MatPart, RecurrentSpec, Val};
use std::fmt::Debug;

/// A kind of mixing, with its sizes.
pub trait MixerSpec: Debug {
    /// What a layer keeps of a sequence.
    fn state(&self, f: &Family, l: &LayerSpec) -> LayerState;

    /// Declares the weights of layer `i`.
    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer>;

    /// Whether a layer's `attn_norm_2` is a norm inside of it, instead of one before it.
    fn has_norm_2(&self) -> bool {
        false
    }
}

/// A kind of mixing with a layer's weights.
pub trait Mixer {
    /// Normed rows `[n, dim]` → what `output` takes.
    fn run(&self, p: &mut Builder, f: &Family, rows: Rows<'_>) -> Val;

    /// The product that follows, `[dim, columns of what it takes]`.
    fn output(&self) -> MatPart;
}

/// What a mixer gets.
pub struct Rows<'a> {
    /// Normed rows, `[n, dim]`.
    pub h: Val,
    /// The layer.
    pub layer: &'a LayerSpec,
    /// Index of what the layer keeps among the plan's states.
    pub state: usize,
    /// What the first layer hands on to the others, or one with an indexer to the next ones.
    pub handed: &'a mut Option<Val>,
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
}

impl Recurrent {
    /// Reads `ssm.*`.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn read(r: &Reader<'_>) -> Result<Recurrent> {
        let (conv, inner) = (r.int("ssm.conv_kernel", None, 2, 64)?, r.int("ssm.inner_size", None, 1, 1 << 20)?);
        let state = r.int("ssm.state_size", None, 1, 1 << 12)?;
        let heads = r.int("ssm.time_step_rank", None, 1, 1 << 14)?;
        let groups = r.int("ssm.group_count", Some(1), 0, heads.max(1) as u64)?.max(1);
        if r.has("ssm.group_count") && (!inner.is_multiple_of(heads) || !heads.is_multiple_of(groups)) {
            let what = format!("a divisor of inner_size {inner} and a multiple of group_count {groups}");
            return Err(r.bad("ssm.time_step_rank", &what, heads));
        }
        Ok(Recurrent { conv, inner, state, heads, groups })
    }

    /// Columns of values, keys and queries together.
    pub fn channels(&self) -> usize {
        self.inner + 2 * self.groups * self.state
    }

    /// A state of the last rows' `columns`, of which a convolution takes `conv`, and of heads by `v_dim` by `state`.
    pub fn keep(&self, columns: usize, heads: usize, v_dim: usize) -> LayerState {
        let state = ("state", vec![heads, v_dim, self.state]);
        let parts = vec![("conv", vec![self.conv.saturating_sub(1), columns]), state];
        LayerState::Recurrent(RecurrentSpec { parts })
    }

    /// Columns of a head's values.
    pub fn v_dim(&self) -> usize {
        self.inner / self.heads.max(1)
    }
}

impl Family {
    /// What layers keep: of each, then of those that mix with two what the second keeps, or what the stack does, then what indexers
    /// keep.
    pub(super) fn states(&self) -> Vec<LayerState> {
        let of = |which: usize| {
            let one = move |l: &LayerSpec| l.mix.get(which).map_or(LayerState::Nothing, |mix| mix.state(self, l));
            self.layers.iter().map(one)
        };
        let of_stack = self.stack.states(self);
        of(0).chain(of(1).filter(|_| self.mixes_twice())).chain(of_stack).chain(self.index_states()).collect()
    }

    /// States of layers and of the stack.
    pub(super) fn layer_states(&self) -> usize {
        self.layers.len() * (1 + usize::from(self.mixes_twice())) + self.stack.states(self).len()
    }

    /// Whether a layer mixes rows by two kinds.
    fn mixes_twice(&self) -> bool {
        self.layers.iter().any(|l| l.mix.len() > 1)
    }
}
