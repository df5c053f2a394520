//! What a layer keeps between steps, for every sequence that has a place in the cache.
//!
//! Keys and values with head counts and widths of the layer's own, for all positions or a window; a recurrent state; or nothing.

/// The state of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerState {
    /// Nothing: a layer without attention, or one that reads another layer's cache.
    Nothing,
    /// K and V of positions, in blocks that a sequence's block table names.
    KeysValues(KvSpec),
    /// A state of fixed size per sequence, which every step replaces.
    Recurrent(RecurrentSpec),
}

/// Keys and values of a layer: `kv_heads` heads each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvSpec {
    /// Key/value heads.
    pub kv_heads: usize,
    /// Elements of a key, at most [`MAX_HEAD_DIM`].
    pub k_dim: usize,
    /// Elements of a value, at most [`MAX_HEAD_DIM`].
    pub v_dim: usize,
    /// Positions that are kept; none keeps all of them. Kept positions are a ring of blocks.
    pub window: Option<usize>,
}

/// Widest head of any layer: compressed keys of multi-head latent attention with their rotated part.
pub const MAX_HEAD_DIM: usize = 576;

impl KvSpec {
    /// Elements of a position's keys.
    pub fn k_width(&self) -> usize {
        self.kv_heads * self.k_dim
    }

    /// Elements of a position's values.
    pub fn v_width(&self) -> usize {
        self.kv_heads * self.v_dim
    }
}

/// A recurrent state, f32: that of a short convolution, of a state-space model, of a delta rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecurrentSpec {
    /// Its parts by name, each with its shape per sequence.
    pub parts: Vec<(&'static str, Vec<usize>)>,
}

impl RecurrentSpec {
    /// Elements of all parts of one sequence.
    pub fn elements(&self) -> usize {
        self.parts.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }
}

impl LayerState {
    /// Elements of its recurrent state, per sequence.
    pub fn recurrent_elements(&self) -> usize {
        match self {
            LayerState::Recurrent(spec) => spec.elements(),
            LayerState::Nothing | LayerState::KeysValues(_) => 0,
        }
    }

    /// Keys and values, if the layer keeps some.
    pub fn kv(&self) -> Option<&KvSpec> {
        match self {
            LayerState::KeysValues(spec) => Some(spec),
            LayerState::Nothing | LayerState::Recurrent(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_of_all_heads_and_a_recurrent_state_is_all_its_parts() {
        let latent = KvSpec { kv_heads: 1, k_dim: 576, v_dim: 512, window: None };
        assert_eq!((latent.k_width(), latent.v_width()), (576, 512));
        let state = RecurrentSpec { parts: vec![("conv", vec![3, 64]), ("ssm", vec![16, 64])] };
        assert_eq!(state.elements(), 3 * 64 + 16 * 64);
    }
}
