//! Kernels of attention: of single rows, each split over workgroups, or of many rows.

use super::{turned_off, MatrixLayout, Query, NO_LAYOUT, OTHER_LAYOUT};
use crate::policy::matrix;
use crate::policy::matrix2::{matrix2_attention, matrix2_first, GroupAttention};
use crate::policy::staged::{staged_attention, StagedAttention};
use crate::policy::{attn_flash_tile, attn_mat_fits, attn_mat_tile, attn_prompt_bytes, attn_prompt_tile};
use crate::policy::{attn_tile, prefill_tile, AttnTile, FlashTile};
use pumex_plan::AttentionSpec;
use pumex_quant::FormatId;
use pumex_vk::Caps;
use AttentionKernel::*;

/// A kernel of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionKernel {
    /// Many rows, by matrices that threads fill themselves from what shared memory holds.
    Prompt,
    /// Many rows, by matrices that threads fill themselves.
    Flash,
    /// Many rows, by matrices from shared memory.
    Staged,
    /// Many rows, by matrices that workgroups hold.
    Matrix2,
    /// Many rows, without matrices.
    Prefill,
    /// Single rows, by matrices that threads fill themselves.
    Mat,
    /// Single rows, without matrices.
    Split,
}

impl AttentionKernel {
    /// Those of many rows, as most heads have them, best first.
    pub const MANY_ROWS: [AttentionKernel; 5] = [Prompt, Flash, Staged, Matrix2, Prefill];
    /// Those of single rows, best first.
    pub const SINGLE_ROWS: [AttentionKernel; 2] = [Mat, Split];

    /// Row of the kernel table.
    pub const fn name(self) -> &'static str {
        match self {
            Prompt => "attn_prompt",
            Flash => "attn_flash",
            Staged => "attn_staged",
            Matrix2 => "attn_matrix2",
            Prefill => "attn_prefill",
            Mat => "attn_mat",
            Split => "attn_split",
        }
    }
}

/// Attention of a layer in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionQuery {
    /// The layer's attention.
    pub spec: AttentionSpec,
    /// Rows.
    pub rows: usize,
    /// Each row attends by itself.
    pub single_rows: bool,
    /// Most query heads that a workgroup of single rows takes.
    pub most_heads: usize,
    /// What is cached becomes halves.
    pub halves: bool,
    /// Bits of a cached key, if that is not quantized.
    pub key_bits: u32,
    /// Positions that a sequence may have.
    pub positions: usize,
    /// How threads hold matrices, if these are used at all.
    pub layout: Option<MatrixLayout>,
}

impl AttentionQuery {
    /// What speaks against all matrices whose elements threads set.
    fn refuse_set_by_threads(&self, caps: &Caps) -> Option<String> {
        match self.layout {
            _ if self.spec.chosen.is_some() => Some("rows attend to the positions that an indexer chooses".into()),
            _ if caps.matrix_n.is_empty() => matrix::refusal(caps, FormatId::F16.format(), 16),
            None => Some(NO_LAYOUT.into()),
            Some(layout) if !layout.direct => Some(OTHER_LAYOUT.into()),
            Some(_) => self.refuse_cache(),
        }
    }

    fn refuse_cache(&self) -> Option<String> {
        (!self.halves).then(|| "what is cached does not become halves".into())
    }

    fn refuse_mat(&self, caps: &Caps) -> Option<String> {
        let spec = &self.spec;
        let wide = || (!attn_mat_fits(spec)).then(|| format!("heads of {} and {}", spec.head_dim, spec.v_dim));
        self.refuse_set_by_threads(caps).or_else(wide).or_else(|| turned_off(caps, Mat.name()))
    }

    fn refuse_prompt(&self, caps: &Caps) -> Option<String> {
        self.refuse_set_by_threads(caps).or_else(|| match self.layout {
            Some(layout) if !layout.panels || !layout.ordered => Some(OTHER_LAYOUT.into()),
            _ if attn_prompt_tile(&self.spec).is_none() => Some("not for such heads, positions or rules".into()),
            _ if attn_prompt_bytes(&self.spec) > caps.max_shared_bytes as usize => {
                Some("shared memory does not hold two blocks".into())
            }
            _ => turned_off(caps, Prompt.name()),
        })
    }

    fn refuse_flash(&self, caps: &Caps) -> Option<String> {
        self.refuse_mat(caps).or_else(|| match self.layout {
            Some(layout) if !layout.ordered => Some("threads hold sums in another way".into()),
            _ => turned_off(caps, Flash.name()),
        })
    }

    fn refuse_staged(&self, caps: &Caps) -> Option<String> {
        match self.layout {
            _ if caps.matrix_n.is_empty() => matrix::refusal(caps, FormatId::F16.format(), 16),
            None => Some(NO_LAYOUT.into()),
            Some(_) if staged_attention(caps, &self.spec).is_none() => {
                Some("shared memory does not hold such heads".into())
            }
            Some(_) => self.refuse_cache().or_else(|| turned_off(caps, Staged.name())),
        }
    }

    fn refuse_matrix2(&self, caps: &Caps) -> Option<String> {
        match self.layout {
            _ if !caps.group_matrix() => Some("no cooperative matrices that workgroups hold".into()),
            None => Some(NO_LAYOUT.into()),
            _ if matrix2_attention(caps, &self.spec).is_none() => Some("workgroups do not hold such heads".into()),
            _ => self.refuse_cache().or_else(|| turned_off(caps, Matrix2.name())),
        }
    }

    /// A tile of single rows, of no more parts than there may be positions for.
    fn split(&self, tile: AttnTile) -> AttentionTile {
        let seen = self.spec.chosen.map_or(self.positions, |chosen| chosen.width().min(self.positions));
        AttentionTile::Split(AttnTile { parts: tile.parts.min((seen as u32).div_ceil(tile.least)), ..tile })
    }
}

impl Query for AttentionQuery {
    type Kernel = AttentionKernel;
    type Tile = AttentionTile;

    fn kernels(&self, _: &Caps) -> Vec<AttentionKernel> {
        match () {
            () if self.single_rows => AttentionKernel::SINGLE_ROWS.into(),
            () if matrix2_first(&self.spec) => vec![Prompt, Flash, Matrix2, Staged, Prefill],
            () => AttentionKernel::MANY_ROWS.into(),
        }
    }

    fn name(kernel: AttentionKernel) -> &'static str {
        kernel.name()
    }

    fn refusal(&self, caps: &Caps, kernel: AttentionKernel) -> Option<String> {
        match kernel {
            Prompt => self.refuse_prompt(caps),
            Flash => self.refuse_flash(caps),
            Staged => self.refuse_staged(caps),
            Matrix2 => self.refuse_matrix2(caps),
            Mat => self.refuse_mat(caps),
            Prefill | Split => None,
        }
    }

    fn tile(&self, caps: &Caps, kernel: AttentionKernel) -> AttentionTile {
        let prefill = || AttentionTile::Prefill(prefill_tile(caps, &self.spec, self.rows));
        match kernel {
            Prompt => attn_prompt_tile(&self.spec).map_or_else(prefill, AttentionTile::Prompt),
            Flash => AttentionTile::Flash(attn_flash_tile(&self.spec)),
            Staged => staged_attention(caps, &self.spec).map_or_else(prefill, AttentionTile::Staged),
            Matrix2 => matrix2_attention(caps, &self.spec).map_or_else(prefill, AttentionTile::Matrix2),
            Prefill => prefill(),
            Mat => self.split(attn_mat_tile(caps, &self.spec, self.rows, self.most_heads)),
            Split => self.split(attn_tile(caps, &self.spec, self.rows, self.key_bits, self.most_heads)),
        }
    }
}

/// The shape of a kernel of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionTile {
    /// The shape of `attn_prompt`.
    Prompt(FlashTile),
    /// The shape of `attn_flash`.
    Flash(FlashTile),
    /// The shape of `attn_staged`.
    Staged(StagedAttention),
    /// The shape of `attn_matrix2`.
    Matrix2(GroupAttention),
    /// The shape of `attn_prefill`: rows and positions.
    Prefill((u32, u32)),
    /// The shape of `attn_mat` or `attn_split`.
    Split(AttnTile),
}

impl AttentionTile {
    /// Constants of its pipeline, by name, beside those of the cache and of the rules.
    pub fn spec(&self) -> Vec<(&'static str, u32)> {
        match self {
            AttentionTile::Prompt(tile) | AttentionTile::Flash(tile) => vec![("SIZE", tile.size), ("GH", tile.heads)],
            AttentionTile::Staged(tile) => tile.spec(),
            AttentionTile::Matrix2(tile) => tile.spec(),
            AttentionTile::Prefill((rows, span)) => vec![("BR", *rows), ("BC", *span)],
            AttentionTile::Split(tile) => vec![("SIZE", tile.size), ("GH", tile.heads)],
        }
    }

    /// Workgroups for so many rows of so many heads.
    pub fn grid(&self, rows: usize, heads: usize) -> [usize; 3] {
        let groups = |queries: u32, of: u32| [rows.div_ceil((queries / of) as usize), heads / of as usize, 1];
        match self {
            AttentionTile::Prompt(tile) => {
                [heads / tile.heads as usize, rows.div_ceil(tile.rows as usize), 1]
                // heads beside each other share what they read
            }
            AttentionTile::Flash(tile) => groups(tile.rows * tile.heads, tile.heads),
            AttentionTile::Staged(tile) => groups(tile.queries, tile.heads),
            AttentionTile::Matrix2(tile) => groups(tile.queries, tile.heads),
            AttentionTile::Prefill((height, _)) => groups(*height, 1),
            AttentionTile::Split(tile) => [rows, heads / tile.heads as usize, tile.parts as usize],
        }
    }

    /// Constants of how single rows are split: positions of a workgroup at a time, and those that are worth one.
    pub fn split_spec(&self) -> Vec<(&'static str, u32)> {
        match self {
            AttentionTile::Split(tile) => vec![("SPAN", tile.span), ("LEAST", tile.least)],
            _ => Vec::new(),
        }
    }

    /// Parts that a row's positions are split into.
    pub fn parts(&self) -> u32 {
        match self {
            AttentionTile::Split(tile) => tile.parts,
            _ => 1,
        }
    }
}
