//! Which kernel does an op: each kind of op has a query and a table of kernels, best first, of which the first that nothing speaks
//! against does it. Lowering emits what [`choose`] gives; `pumex explain`, `pumex tune` and the self-test read the same tables.

mod attention;
mod experts;
mod product;

pub use attention::{AttentionKernel, AttentionQuery, AttentionTile};
pub use experts::{ExpertsKernel, ExpertsQuery, ExpertsTile};
pub use product::{ProductKernel, ProductQuery, ProductTile};

use super::table::Evidence;
use super::ManyRows;
use pumex_vk::{Caps, TunedProduct};

/// How the threads of a device hold cooperative matrices, as it was found when the device was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixLayout {
    /// Elements lie where `gemm_few` and `attn_mat` expect them.
    pub direct: bool,
    /// Sums lie where `attn_flash` expects them.
    pub ordered: bool,
    /// Elements lie where `gemm_panels` expects them.
    pub panels: bool,
}

/// An op of some kind with its shape and all else that decides on its kernel, but for the device.
pub trait Query {
    /// The kernels that could do such an op.
    type Kernel: Copy;
    /// The shape of such a kernel's workgroups.
    type Tile;

    /// The table: all kernels, best first; nothing speaks against the last one.
    fn kernels(&self, caps: &Caps) -> Vec<Self::Kernel>;
    /// Row of the kernel table.
    fn name(kernel: Self::Kernel) -> &'static str;
    /// What speaks against a kernel, if anything does.
    fn refusal(&self, caps: &Caps, kernel: Self::Kernel) -> Option<String>;
    /// Its shape, if nothing does.
    fn tile(&self, caps: &Caps, kernel: Self::Kernel) -> Self::Tile;
    /// The row of the device's table that gives its shape, if there is one, and what that rests on.
    fn row(&self, _caps: &Caps, _kernel: Self::Kernel) -> Option<(&'static str, Evidence)> {
        None
    }
    /// What its shape can be tuned for.
    fn tunable(&self, _kernel: Self::Kernel) -> Option<TunedProduct> {
        None
    }
}

/// What is chosen for an op.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelChoice<K, T> {
    /// The kernel.
    pub kernel: K,
    /// Row of the kernel table.
    pub name: &'static str,
    /// Its shape.
    pub tile: T,
    /// The row of the device's table that gives the shape, if there is one, and what that rests on.
    pub row: Option<(&'static str, Evidence)>,
    /// Kernels that come before it, and what speaks against each.
    pub passed_over: Vec<(&'static str, String)>,
}

/// The first kernel of the table that nothing speaks against.
///
/// # Panics
/// If something speaks against the last one, which tests exclude.
pub fn choose_kernel<Q: Query>(caps: &Caps, query: &Q) -> Q::Kernel {
    let mut kernels = query.kernels(caps).into_iter();
    kernels.find(|kernel| query.refusal(caps, *kernel).is_none()).expect("a table's last kernel takes everything")
}

/// The first kernel of the table that nothing speaks against, in its shape, and why it is not one before it.
///
/// # Panics
/// If something speaks against the last one, which tests exclude.
pub fn choose<Q: Query>(caps: &Caps, query: &Q) -> KernelChoice<Q::Kernel, Q::Tile> {
    let mut passed_over = Vec::new();
    for kernel in query.kernels(caps) {
        let name = Q::name(kernel);
        match query.refusal(caps, kernel) {
            Some(why) => passed_over.push((name, why)),
            None => {
                let (tile, row) = (query.tile(caps, kernel), query.row(caps, kernel));
                return KernelChoice { kernel, name, tile, row, passed_over };
            }
        }
    }
    panic!("a table's last kernel takes everything")
}

/// A kernel that could do an op, as `pumex explain` shows it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Candidate {
    /// Row of the kernel table.
    pub kernel: &'static str,
    /// Why it does not do it; none if it could.
    pub passed_over: Option<String>,
    /// The row of the device's table that gives its shape, if there is one, and what that rests on.
    pub row: Option<(&'static str, String)>,
    /// What its shape can be tuned for.
    #[serde(skip)]
    pub tunable: Option<TunedProduct>,
}

/// The whole table for an op: of the kernels that are not passed over, the first does it.
fn candidates<Q: Query>(caps: &Caps, query: &Q) -> Vec<Candidate> {
    let candidate = |kernel| {
        let passed_over = query.refusal(caps, kernel);
        let row = if passed_over.is_some() { None } else { query.row(caps, kernel) };
        let row = row.map(|(name, evidence)| (name, evidence.describe()));
        Candidate { kernel: Q::name(kernel), passed_over, row, tunable: query.tunable(kernel) }
    };
    query.kernels(caps).into_iter().map(candidate).collect()
}

/// What a dispatch's kernel was chosen by.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelQuery {
    /// Attention.
    Attention(AttentionQuery),
    /// A product with whole matrices.
    Product(ProductQuery),
    /// A product with experts' matrices.
    Experts(ExpertsQuery),
}

impl KernelQuery {
    /// Kernels that could do it, best first, of which the first that is not passed over does.
    pub fn candidates(&self, caps: &Caps) -> Vec<Candidate> {
        match self {
            KernelQuery::Attention(query) => candidates(caps, query),
            KernelQuery::Product(query) => candidates(caps, query),
            KernelQuery::Experts(query) => candidates(caps, query),
        }
    }
}

impl From<AttentionQuery> for KernelQuery {
    fn from(query: AttentionQuery) -> KernelQuery {
        KernelQuery::Attention(query)
    }
}

impl From<ProductQuery> for KernelQuery {
    fn from(query: ProductQuery) -> KernelQuery {
        KernelQuery::Product(query)
    }
}

impl From<ExpertsQuery> for KernelQuery {
    fn from(query: ExpertsQuery) -> KernelQuery {
        KernelQuery::Experts(query)
    }
}

/// Kernels of all tables that another one stands in for if they are left out, in the order in which the self-test suspects them: all but
/// the last of each table.
pub fn replaceable_kernels() -> Vec<&'static str> {
    let attention = AttentionKernel::MANY_ROWS.split_last().into_iter().flat_map(|(_, first)| first);
    let attention = attention.copied().chain([AttentionKernel::Mat]).map(AttentionKernel::name);
    let matrices = [ProductKernel::Few, ProductKernel::Panels, ProductKernel::Mat];
    let packed = ManyRows::ALL.map(ProductKernel::Rows);
    let products = matrices.into_iter().chain(packed).chain([ProductKernel::Dot, ProductKernel::SmallTile]);
    let mut names = vec!["megakernel"];
    for name in attention.chain(products.map(ProductKernel::name)).chain(["megakernel_moe"]) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What is said of matrices that are not used for lack of a known layout.
const NO_LAYOUT: &str = "threads share what matrices hold, or they are turned off";
/// What is said where threads hold them otherwise than a kernel expects.
const OTHER_LAYOUT: &str = "threads hold matrices in another way";

/// Why a kernel is turned off on a device, if it is.
fn turned_off(caps: &Caps, kernel: &str) -> Option<String> {
    caps.disabled_reason(kernel).map(|why| format!("turned off: {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::{devices, ActivationQuant, GemmFusion, PackedRowsRequest};
    use super::*;
    use pumex_plan::AttentionSpec;
    use pumex_quant::{all, FormatId};

    const LAYOUT: MatrixLayout = MatrixLayout { direct: true, ordered: true, panels: true };

    fn attention(head_dim: usize, single_rows: bool) -> AttentionQuery {
        AttentionQuery {
            spec: AttentionSpec::causal(0, 32, 8, head_dim),
            rows: 512,
            single_rows,
            most_heads: 4,
            halves: true,
            key_bits: 16,
            positions: 4096,
            layout: Some(LAYOUT),
        }
    }

    fn product(format: FormatId, n: usize, short: bool) -> ProductQuery {
        ProductQuery {
            formats: vec![format],
            gate_and_up: false,
            short,
            any_in_slabs: false,
            decoded_bytes: 0,
            format,
            in_slabs: false,
            size: (4096, 4096, n),
            fusion: GemmFusion::default(),
            gates: false,
            layout: Some(LAYOUT),
            packed_rows: Some(PackedRowsRequest::default()),
        }
    }

    fn experts(format: FormatId, n: usize) -> ExpertsQuery {
        ExpertsQuery {
            formats: vec![format; 2],
            size: (768, 2048, n),
            experts: (8, 128),
            fusion: GemmFusion { gated: true, ..GemmFusion::default() },
            side_by_side: false,
            merges: true,
            has_room: true,
            short: false,
            any_in_slabs: false,
            decoded_bytes: 0,
            layout: Some(LAYOUT),
            packed_rows: Some(PackedRowsRequest { forced: None, activations: ActivationQuant::Q8 }),
        }
    }

    /// What is passed over is what the table shows before the kernel that is chosen, and nothing speaks against the last one.
    fn check<Q: Query>(caps: &Caps, query: &Q, replaceable: &[&str]) {
        let (choice, table) = (choose(caps, query), candidates(caps, query));
        let before: Vec<_> = table.iter().map_while(|c| Some((c.kernel, c.passed_over.clone()?))).collect();
        assert_eq!(choice.passed_over, before, "{}", caps.name);
        assert_eq!(table[before.len()].kernel, choice.name);
        assert_eq!(table.last().and_then(|last| last.passed_over.as_ref()), None);
        // A kernel with a next one may be left out, unless the same one, in another way, comes last elsewhere.
        let (last, first) = table.split_last().unwrap();
        let missing = |c: &&Candidate| !replaceable.contains(&c.kernel) && c.kernel != "gemv";
        assert_eq!(first.iter().find(missing), None, "before {}", last.kernel);
    }

    #[test]
    fn tables_end_with_a_kernel_for_everything_and_all_others_can_be_left_out() {
        let replaceable = replaceable_kernels();
        for (_, caps) in devices::all() {
            for (dim, single) in [64, 80, 128, 256, 512, 576].iter().flat_map(|dim| [(*dim, true), (*dim, false)]) {
                check(&caps, &attention(dim, single), &replaceable);
            }
            for (format, n) in all().flat_map(|format| [1, 8, 9, 17, 64, 512].map(|n| (format.id, n))) {
                check(&caps, &product(format, n, false), &replaceable);
                check(&caps, &product(format, n, true), &replaceable);
                check(&caps, &experts(format, n), &replaceable);
            }
        }
    }

    #[test]
    fn kernels_are_suspected_in_the_order_of_their_tables() {
        let attention = ["megakernel", "attn_prompt", "attn_flash", "attn_staged", "attn_matrix2", "attn_mat"];
        let matrices = ["gemm_few", "gemm_panels", "gemm_mat", "gemm_matrix2", "gemm_bytes", "gemm_staged"];
        let others = ["gemm_dot", "gemm_half", "gemv_dot", "gemm_float", "megakernel_moe"];
        assert_eq!(replaceable_kernels(), [&attention[..], &matrices, &others].concat());
    }

    /// A kernel that is turned off has the next one stand in, and says so.
    #[test]
    fn what_is_turned_off_is_passed_over() {
        let mut caps = devices::h200();
        let query = product(FormatId::Q4K, 512, false);
        assert_eq!(choose(&caps, &query).name, "gemm_panels");
        caps.disabled.push(pumex_vk::Disabled { kernel: "gemm_panels".into(), why: "test".into() });
        let choice = choose(&caps, &query);
        assert_eq!(choice.kernel, ProductKernel::Mat);
        assert_eq!(choice.passed_over.last(), Some(&("gemm_panels", "turned off: test".to_string())));
    }
}
