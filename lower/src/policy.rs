//! Which kernel runs an op on a device, and in what shape: pure functions of plain data.
//!
//! A device is of a class ([`class`]), a class has tables of conditions and shapes with what each rests on ([`table`], one file
//! per class), and the functions here look things up in them. What depends on shapes alone stands in the functions.

mod amd;
mod attention;
mod choose;
pub mod class;
pub mod devices;
mod floor;
mod gemv;
mod images;
mod intel;
mod many;
pub mod matrix;
mod matrix2;
mod megakernel;
mod mobile;
mod nvidia;
pub mod panels;
mod portable;
mod rowwise;
mod shared;
mod software;
mod staged;
pub mod subgroups;
pub mod table;
#[cfg(test)]
mod tests;
mod tower;
pub mod tuned;
mod upload;
pub mod workarounds;

pub use attention::{
    attn_flash_tile, attn_heads, attn_mat_fits, attn_mat_tile, attn_prompt_bytes, attn_prompt_tile, attn_tile,
    index_tile, prefill_tile, AttnTile, FlashTile,
};
pub use choose::{
    choose, choose_kernel, replaceable_kernels, AttentionKernel, AttentionQuery, AttentionTile, Candidate,
    ExpertsKernel, ExpertsQuery, ExpertsTile, KernelChoice, KernelQuery, MatrixLayout, ProductKernel, ProductQuery,
    ProductTile, Query,
};
pub use class::{asks_for_cores, cores, integer_dots, signed_dots, DeviceClass};
pub use floor::{lacks_subgroups, without_halves, without_subgroups};
pub use gemv::{
    dot_span, dot_tile, expert_tile, float_tile, gemv_columns, gemv_row, gemv_tile, small_floats, GemvTile, SMALL_TILE,
};
pub use images::{conv2d_tile, conv2d_tiles, Conv2dTile};
pub use many::{
    decodes, groups_rows, many_rows, packs_rows, row_tile, PackedRowsRequest, RowTile, StagedTile, TILE as ROWS_TILE,
};
pub use matrix2::{
    lies_as_halves, matrix2_attention, matrix2_first, GroupAttention, GroupTile, DECODE_CHUNKS, DECODE_GRID,
    MOST_DECODED_BYTES, MOST_GROUP_ROWS,
};
pub use megakernel::{
    megakernel_attends, megakernel_attention_bytes, megakernel_heads, megakernel_messages, megakernel_parts,
    megakernel_positions, megakernel_ranks, megakernel_rows, megakernel_span, megakernel_table_room, megakernel_tile,
    MegakernelTile, MEGAKERNEL_LEAST_WAITS, MEGAKERNEL_MAX_ROWS, MESSAGE, MOST_ATTENTION_PARTS,
};
pub use panels::{by_panels, takes_long_steps};
pub use rowwise::{argmax_parts, route_threads, router_tile, row_threads, sample_tile, scans_by_windows, MOST_NORMED};
pub use shared::{table_bytes, table_copies, usual_copies};
pub use staged::{staged_attention, StagedAttention};
pub use table::{ManyRows, WeightSource, ATTN_HEADS, GEMV_MAX_COLS};
pub use tower::{tower_attention, TowerAttention, TowerAttentionQuery};
pub use upload::{builds_ahead, upload_way};

use pumex_vk::Caps;

/// A device as kernels use it: with subgroups of the sizes that are best for its class or none at all, and without what its driver
/// gets wrong.
pub fn as_used(caps: Caps) -> Caps {
    let mut caps = workarounds::apply(caps);
    if lacks_subgroups(&caps).is_some() {
        caps = without_subgroups(caps);
    }
    if !caps.storage16 {
        caps = without_halves(caps);
    }
    let subgroup_size = subgroups::usual(&caps);
    Caps { subgroup_sizes: subgroups::exceptions(&caps, subgroup_size), subgroup_size, ..caps }
}

/// Codes that integer kernels make of activations, with a scale for each 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActivationQuant {
    /// 16 bits: products are as exact as those of floats.
    #[default]
    Q16,
    /// 8 bits, as llama.cpp's kernels take: a third less to do for each weight.
    Q8,
}

impl ActivationQuant {
    /// Bits of a code.
    pub fn bits(self) -> u32 {
        match self {
            ActivationQuant::Q16 => 16,
            ActivationQuant::Q8 => 8,
        }
    }
}

/// The codes that are best on a device. Software devices have nothing to gain by shorter ones.
pub fn activations(caps: &Caps) -> ActivationQuant {
    class::choices(caps).activations.value
}

/// Most rows of a step that is recorded for just as many, each row's attention split over workgroups.
pub const FEW_ROWS: usize = 16;

/// What a product does beside multiplying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemmFusion {
    /// Gate and up in one.
    pub gated: bool,
    /// Adds to the output.
    pub add: bool,
    /// Norms its input first.
    pub norm: bool,
    /// Weights lie as a structure of arrays.
    pub soa: bool,
    /// Codes of its activations.
    pub activations: ActivationQuant,
}
