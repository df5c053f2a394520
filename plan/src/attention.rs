//! Attention as data: heads, which positions a row sees, and what is done to the scores.

use super::{Chosen, Weight};

/// Which positions of its sequence a row sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mask {
    /// All up to its own.
    #[default]
    Causal,
    /// The last so many up to its own, which counts.
    Window(usize),
    /// Positions of a row's own chunk of so many positions, up to its own.
    Chunk(usize),
    /// All positions that the sequence has in the step and before it.
    Full,
    /// Positions that the sequence has in the step and before it, up to so many before and behind a row's own.
    Near(usize),
    /// All positions of the sequence's source, which are its first.
    Source,
    /// All after these, up to its own.
    Answer,
}

/// What a sequence has, as far as masks ask for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Positions, the step's included.
    pub held: usize,
    /// Positions of these, the first ones, that are the source's.
    pub source: usize,
}

impl Mask {
    /// Positions of the window or of a chunk, or to either side; 0 where the mask has none.
    pub fn positions(self) -> usize {
        match self {
            Mask::Window(n) | Mask::Chunk(n) => n.max(1),
            Mask::Near(n) => n,
            Mask::Causal | Mask::Full | Mask::Source | Mask::Answer => 0,
        }
    }

    /// Whether a row sees positions behind its own, so that all of a text must stand in one step.
    pub fn looks_ahead(self) -> bool {
        matches!(self, Mask::Full | Mask::Near(_))
    }

    /// Last position that a row at `pos` sees of its sequence.
    pub fn last(self, pos: usize, Extent { held, source }: Extent) -> usize {
        match self {
            Mask::Source => source.saturating_sub(1),
            Mask::Full => held.max(pos + 1) - 1,
            Mask::Near(n) => (held.max(pos + 1) - 1).min(pos.saturating_add(n)),
            Mask::Causal | Mask::Window(_) | Mask::Chunk(_) | Mask::Answer => pos,
        }
    }

    /// First position that a row at `pos` sees of its sequence.
    pub fn first(self, pos: usize, Extent { source, .. }: Extent) -> usize {
        match self {
            Mask::Causal | Mask::Full | Mask::Source => 0,
            Mask::Answer => source,
            Mask::Window(n) => (pos + 1).saturating_sub(n.max(1)),
            Mask::Near(n) => pos.saturating_sub(n),
            Mask::Chunk(n) => pos / n.max(1) * n.max(1),
        }
    }
}

/// Attention's shape, the layer whose keys and values it reads, and its rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSpec {
    /// Layer whose state it reads: its own, or an earlier one's where layers share.
    pub layer: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of a query's and of a key's head.
    pub head_dim: usize,
    /// Elements of a value's head.
    pub v_dim: usize,
    /// Positions a row sees.
    pub mask: Mask,
    /// Scores become `cap * tanh(score / cap)`.
    pub soft_cap: Option<f32>,
    /// `[heads]`: a score per head that takes part in the softmax and has no value.
    pub sinks: Option<Weight>,
    /// ALiBi's largest bias: a score loses `slope(head) * distance`.
    pub alibi: Option<f32>,
    /// Which of the plan's tables is added to scores, `[heads, 2 * BIAS_REACH + 1]`: by how far behind the row's own position
    /// another lies, from `-BIAS_REACH` on, beyond which it stays the same. There are no sinks then.
    pub biases: Option<usize>,
    /// Whether rows of a step see those behind them of their group, too, see [`super::GroupSight`].
    pub groups: bool,
    /// What an indexer leaves of the positions up to a row's own; all of them, if there is none.
    pub chosen: Option<Chosen>,
}

/// Distance up to which [`AttentionSpec::biases`] differ.
pub const BIAS_REACH: usize = pumex_shaders::constants::BIAS_REACH as usize;

impl AttentionSpec {
    /// Whether the last position that a row sees is its own, and the first one follows from that.
    pub fn ends_at_its_own(&self) -> bool {
        self.chosen.is_none() && !self.groups && matches!(self.mask, Mask::Causal | Mask::Window(_) | Mask::Chunk(_))
    }

    /// Causal attention with heads of one width and no further rules.
    pub fn causal(layer: usize, heads: usize, kv_heads: usize, head_dim: usize) -> AttentionSpec {
        let mask = Mask::Causal;
        AttentionSpec {
            layer,
            heads,
            kv_heads,
            head_dim,
            v_dim: head_dim,
            mask,
            soft_cap: None,
            sinks: None,
            alibi: None,
            biases: None,
            groups: false,
            chosen: None,
        }
    }

    /// Width of a row of q, k and v side by side.
    pub fn qkv_width(&self) -> usize {
        (self.heads + self.kv_heads) * self.head_dim + self.kv_heads * self.v_dim
    }

    /// Column of the row where v starts.
    pub fn v_at(&self) -> usize {
        (self.heads + self.kv_heads) * self.head_dim
    }

    /// Whether it is [`AttentionSpec::causal`]: what every kernel of attention does.
    pub fn is_plain(&self) -> bool {
        *self == AttentionSpec::causal(self.layer, self.heads, self.kv_heads, self.head_dim)
    }

    /// What a row at `own` adds to the score of `pos`, of a table of biases.
    pub fn bias(table: &[f32], head: usize, own: usize, pos: usize) -> f32 {
        let reach = own.abs_diff(pos).min(BIAS_REACH);
        let at = if own > pos { BIAS_REACH - reach } else { BIAS_REACH + reach };
        table[head * (2 * BIAS_REACH + 1) + at]
    }

    /// ALiBi's slope of a head, 0 without ALiBi. The first `n` heads, `n` the largest power of two in `heads`, take powers of
    /// `2^(-bias / n)`; the others odd powers of `2^(-bias / 2n)` (Press et al., 2021).
    pub fn slope(&self, head: usize) -> f32 {
        let Some(bias) = self.alibi else { return 0.0 };
        let n = if self.heads.is_power_of_two() { self.heads } else { self.heads.next_power_of_two() / 2 };
        let power = if head < n { (head + 1) as f32 / n as f32 } else { (2 * (head - n) + 1) as f32 / (2 * n) as f32 };
        2f32.powf(-bias * power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_begin_where_their_rules_say() {
        let extent = Extent { held: 10, source: 3 };
        let firsts = |mask: Mask| [0, 3, 4, 9].map(|pos| mask.first(pos, extent));
        assert_eq!(firsts(Mask::Causal), [0, 0, 0, 0]);
        assert_eq!(firsts(Mask::Window(4)), [0, 0, 1, 6]);
        assert_eq!(firsts(Mask::Chunk(4)), [0, 0, 4, 8]);
        assert_eq!(firsts(Mask::Near(2)), [0, 1, 2, 7]);
        assert_eq!((firsts(Mask::Source), firsts(Mask::Answer)), ([0; 4], [3; 4]));
    }

    #[test]
    fn masks_end_where_their_rules_say() {
        let extent = Extent { held: 10, source: 3 };
        let lasts = |mask: Mask| [0, 3, 9].map(|pos| mask.last(pos, extent));
        assert_eq!(lasts(Mask::Causal), [0, 3, 9]);
        assert_eq!(lasts(Mask::Window(4)), [0, 3, 9]);
        assert_eq!(lasts(Mask::Full), [9, 9, 9]);
        assert_eq!(lasts(Mask::Near(2)), [2, 5, 9]);
        assert_eq!((lasts(Mask::Source), lasts(Mask::Answer)), ([2; 3], [0, 3, 9]));
        assert_eq!(Mask::Full.last(4, Extent::default()), 4, "a row sees itself");
    }

    #[test]
    fn slopes_of_heads_that_are_no_power_of_two_lie_between_the_others() {
        let spec = AttentionSpec { alibi: Some(8.0), ..AttentionSpec::causal(0, 12, 12, 64) };
        let slopes: Vec<f32> = (0..12).map(|h| spec.slope(h)).collect();
        assert_eq!(slopes[..3], [0.5, 0.25, 0.125]);
        assert_eq!(slopes[7], 2f32.powi(-8));
        assert_eq!(slopes[8], 2f32.powf(-0.5));
        assert_eq!(AttentionSpec::causal(0, 8, 8, 64).slope(3), 0.0);
    }
}
