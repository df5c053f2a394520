//! Kernels of encoders' ops: sizes are push constants, so that a pipeline serves all of them.

use super::{Formats, Kernel, Needs};

const fn plain(name: &'static str, spec: &'static [(&'static str, u32)]) -> Kernel {
    Kernel { name, formats: Formats::None, needs: Needs::Nothing, spec }
}

const SIZE: &[(&str, u32)] = &[("SIZE", 0)];

pub(super) const UNFOLD: Kernel = plain("tower_unfold", SIZE);
pub(super) const DEPTHWISE: Kernel = plain("tower_depthwise", SIZE);
pub(super) const NORM: Kernel = plain("tower_norm", SIZE);
pub(super) const GLOBAL_RESPONSE: Kernel = plain("tower_global_response", &[("SIZE", 0), ("WRITES", 1)]);
pub(super) const MAP: Kernel = plain("tower_map", SIZE);
pub(super) const PICK: Kernel = plain("tower_pick", SIZE);
pub(super) const PERMUTE: Kernel = plain("tower_permute", SIZE);
pub(super) const COPY: Kernel = plain("tower_copy", SIZE);
pub(super) const ROTATE: Kernel = plain("tower_rotate", SIZE);
pub(super) const ATTEND: Kernel = plain("tower_attend", &[("BR", 1), ("BC", 2), ("D", 3), ("DV", 4)]);
pub(super) const ATTEND_MATRIX: Kernel = Kernel {
    name: "tower_attend_matrix",
    formats: Formats::None,
    needs: Needs::Matrix,
    spec: &[
        ("SIZE", 0),
        ("WAVES", 1),
        ("BR", 2),
        ("BC", 3),
        ("MAT_M", 4),
        ("MAT_N", 5),
        ("MAT_K", 6),
        ("D", 7),
        ("DV", 8),
    ],
};
pub(super) const ATTEND_FRAGMENTS: Kernel = Kernel {
    name: "tower_attend_fragments",
    formats: Formats::None,
    needs: Needs::Matrix,
    spec: &[("SIZE", 0), ("D", 1)],
};
pub(super) const PACK_KEYS: Kernel = plain("tower_pack_keys", &[("SIZE", 0), ("D", 1)]);
pub(super) const HEAD_PRODUCTS: Kernel = plain("tower_head_products", SIZE);
pub(super) const CHOOSE: Kernel = plain("tower_choose", SIZE);
pub(super) const NEAREST: Kernel = plain("tower_nearest", SIZE);
pub(super) const SOFTMAX: Kernel = plain("tower_softmax", SIZE);
