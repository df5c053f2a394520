//! Which kernels could do an op, best first: the first that nothing speaks against does it, in the shape of a row of the device's
//! table. Lowering goes by the same conditions; `pumex explain` shows them.

use super::attention::{attn_mat_fits, attn_prompt_bytes, attn_prompt_tile};
use super::gemv::{self, dot_span, float_row, gemv_row, no_dots, small_floats};
use super::matrix::{self, few_row, few_takes, FEW, FEW_KERNEL, PACKED_LEN};
use super::matrix2::{matrix2_attention, matrix2_first};
use super::panels;
use super::staged::staged_attention;
use super::table::Evidence;
use super::tuned::{self, EXPERTS};
use super::{many, ActivationQuant, GemmFusion, ManyRowsAsked, GEMV_MAX_COLS};
use pumex_plan::AttentionSpec;
use pumex_quant::Format;
use pumex_vk::{Caps, TunedProduct};

/// A kernel that could do an op.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Variant {
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

impl Variant {
    /// With what its shape can be tuned for.
    fn tunable(self, product: TunedProduct) -> Variant {
        Variant { tunable: Some(product), ..self }
    }
}

/// Why experts' rows are not multiplied together where nothing was packed for matrices.
pub const NO_ROOM: &str = "no room for rows of experts";

/// What is known of a device's cooperative matrices once it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Threads hold them as `gemm_few` and `attn_mat` expect.
    pub direct: bool,
    /// And sums as `attn_flash` does.
    pub ordered: bool,
    /// As `gemm_panels` expects.
    pub panels: bool,
}

/// A product with weights of one format.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Format of its weights.
    pub format: &'a Format,
    /// Outputs, inputs and activation rows.
    pub size: (usize, usize, usize),
    /// Gate and up in one.
    pub gated: bool,
    /// What is there gates the product.
    pub gates: bool,
    /// Formats of all matrices that read the same packed activations.
    pub beside: &'a [&'a Format],
    /// Codes of its activations.
    pub activations: ActivationQuant,
    /// Matrices, if they are used at all.
    pub held: Option<Held>,
    /// What decides on kernels of packed rows, if rows are packed.
    pub rows: Option<ManyRowsAsked>,
}

impl Evidence {
    /// In a few words.
    fn told(self) -> String {
        match self {
            Evidence::Record(heading) => format!("measured {}", heading.split(':').next().unwrap_or(heading)),
            Evidence::Estimate(why) => format!("estimate: {why}"),
            Evidence::Tuned => "measured on this device".into(),
        }
    }
}

fn variant(kernel: &'static str, passed_over: Option<String>, row: Option<(&'static str, Evidence)>) -> Variant {
    let row = row.filter(|_| passed_over.is_none()).map(|(name, evidence)| (name, evidence.told()));
    Variant { kernel, passed_over, row, tunable: None }
}

/// Why cooperative matrices do not multiply weights of all these formats.
fn no_matrices(caps: &Caps, formats: &[&Format], n: usize, held: Option<Held>) -> Option<String> {
    let told = formats.iter().find_map(|format| matrix::refusal(caps, format, n));
    told.or_else(|| held.is_none().then(|| "threads share what matrices hold, or they are turned off".into()))
}

/// Kernels of packed rows, and what speaks against each.
fn packed_rows(caps: &Caps, asked: &Asked<'_>) -> Vec<Variant> {
    let told = asked.rows.unwrap_or(ManyRowsAsked { forced: None, activations: asked.activations });
    let candidates = many::candidates(caps, told).into_iter();
    let why = |by| {
        let of_format = asked.beside.iter().find_map(|format| many::refusal(caps, by, format, told));
        of_format.or_else(|| asked.rows.is_none().then(|| "rows are not packed".into()))
    };
    candidates.map(|by| variant(by.kernel(), why(by), None)).collect()
}

/// Kernels for a product with whole matrices.
pub fn product(caps: &Caps, asked: &Asked<'_>) -> Vec<Variant> {
    let Asked { format, size: (m, k, n), gated, activations, .. } = *asked;
    let extras = GemmFusion { gated, activations, ..GemmFusion::default() };
    let mut all = Vec::new();
    let matrices = no_matrices(caps, asked.beside, n, asked.held);
    let few = matrices.clone().or_else(|| match asked.held {
        _ if n > FEW => Some(format!("over {FEW} rows")),
        _ if !asked.beside.iter().all(|format| few_takes(format, n)) => Some("tables are looked up too often".into()),
        Some(held) if !held.direct => Some("threads hold matrices in another way".into()),
        _ => None,
    });
    let row = few_row(caps, format, (m, n), extras);
    let key = |kernel, k| tuned::key(kernel, &gemv::product(format, (m, k), n, extras));
    all.push(variant(FEW_KERNEL, few, Some((row.name, row.evidence))).tunable(key(FEW_KERNEL, PACKED_LEN)));
    let fit = asked.held.is_some_and(|held| held.panels);
    let panels = asked.beside.iter().find_map(|format| panels::refusal(caps, format, n, fit));
    all.push(variant(panels::PANELS, matrices.clone().or(panels), None));
    all.push(variant("gemm_mat", matrices, None));
    if n <= GEMV_MAX_COLS {
        all.extend(gemv(caps, format, (m, k, n), extras));
    } else {
        all.extend(packed_rows(caps, asked));
        let small = small_floats(caps, format, (m, k), n) && !asked.gates;
        let why = "not F32, or no small product, or in rows of odd length, or what is there gates it";
        all.push(variant("gemm_float", (!small).then(|| why.into()), None));
        all.push(variant("gemm_tile", None, None));
    }
    all
}

/// Those of few rows without matrices.
fn gemv(caps: &Caps, format: &Format, (m, k, n): (usize, usize, usize), extras: GemmFusion) -> [Variant; 2] {
    let span = dot_span(caps, format, k, n, extras.activations);
    let room = || span.is_none().then(|| "shared memory holds too few activations".into());
    let (row, float) = (gemv_row(caps, format, m, k, n, extras), float_row(caps, format, (m, k), n, extras.gated));
    let key = |kernel, extras| tuned::key(kernel, &gemv::product(format, (m, k), n, extras));
    let dot = variant("gemv_dot", no_dots(caps, format).or_else(room), Some((row.name, row.evidence)));
    let float = variant("gemv", None, Some((float.name, float.evidence)));
    [dot.tunable(key("gemv_dot", extras)), float.tunable(key("gemv", GemmFusion::default()))]
}

/// Kernels for products with the matrices of the experts, `used` of `experts`, of each of `n` rows. `apart`: something in the plan
/// asks for each row by itself.
pub fn experts(caps: &Caps, asked: &Asked<'_>, (used, experts): (usize, usize), apart: Option<&str>) -> Vec<Variant> {
    let Asked { format, size: (m, k, n), activations, .. } = *asked;
    let together = no_matrices(caps, asked.beside, n, asked.held).or(apart.map(String::from));
    let grouped = matrix::groups_experts(caps, format, (n, used, experts));
    let together = together.or_else(|| (!grouped).then(|| "experts have few rows each, or are too many".into()));
    let panels = panels::refusal(caps, format, n, asked.held.is_some_and(|held| held.panels));
    let whole = dot_span(caps, format, k, 1, activations) == Some(k);
    let dots = no_dots(caps, format).or_else(|| (!whole).then(|| "shared memory does not hold all activations".into()));
    let float = float_row(caps, format, (m, k), 1, false);
    let extras = GemmFusion { activations, ..GemmFusion::default() };
    let apart = apart.filter(|_| asked.rows.is_none() || apart != Some(NO_ROOM)).map(String::from);
    let few = !many::groups_rows(n, used, experts);
    let apart = apart.or_else(|| few.then(|| "experts have few rows each, or are too many".into()));
    let rows =
        packed_rows(caps, asked).into_iter().map(|v| Variant { passed_over: v.passed_over.or(apart.clone()), ..v });
    let panels = variant(panels::PANELS, together.clone().or(panels), None);
    let mut all = vec![panels, variant("gemm_mat", together, None)];
    all.extend(rows);
    all.extend([
        variant("gemv_dot", dots, None).tunable(tuned::key(EXPERTS, &gemv::product(format, (m, k), 1, extras))),
        variant("gemv", None, Some((float.name, float.evidence))),
    ]);
    all
}

/// Kernels for attention: of few rows, each split over workgroups, or of many. `halves`: what is cached becomes halves.
pub fn attention(caps: &Caps, spec: &AttentionSpec, few: bool, halves: bool, held: Option<Held>) -> Vec<Variant> {
    let off = |kernel: &str| caps.disabled_reason(kernel).map(|why| format!("turned off: {why}"));
    let set_by_threads = || match held {
        _ if spec.chosen.is_some() => Some("rows attend to the positions that an indexer chooses".into()),
        _ if caps.matrix_n.is_empty() => matrix::refusal(caps, pumex_quant::FormatId::F16.format(), 16),
        None => Some("threads share what matrices hold, or they are turned off".into()),
        Some(held) if !held.direct => Some("threads hold matrices in another way".into()),
        Some(_) => (!halves).then(|| "what is cached does not become halves".into()),
    };
    let by_matrices = || {
        let narrow = attn_mat_fits(spec);
        let wide = || (!narrow).then(|| format!("heads of {} and {}", spec.head_dim, spec.v_dim));
        set_by_threads().or_else(wide).or_else(|| off("attn_mat"))
    };
    if few {
        return vec![variant("attn_mat", by_matrices(), None), variant("attn_split", None, None)];
    }
    let flash = by_matrices().or_else(|| match held {
        Some(held) if !held.ordered => Some("threads hold sums in another way".into()),
        _ => off("attn_flash"),
    });
    let prompt = set_by_threads().or_else(|| match held {
        Some(held) if !held.panels || !held.ordered => Some("threads hold matrices in another way".into()),
        _ if attn_prompt_tile(spec).is_none() => Some("not for such heads, positions or rules".into()),
        _ if attn_prompt_bytes(spec) > caps.max_shared_bytes as usize => {
            Some("shared memory does not hold two blocks".into())
        }
        _ => off("attn_prompt"),
    });
    let staged = match held {
        _ if caps.matrix_n.is_empty() => matrix::refusal(caps, pumex_quant::FormatId::F16.format(), 16),
        None => Some("threads share what matrices hold, or they are turned off".into()),
        Some(_) if staged_attention(caps, spec).is_none() => Some("shared memory does not hold such heads".into()),
        Some(_) if !halves => Some("what is cached does not become halves".into()),
        Some(_) => off("attn_staged"),
    };
    let group = match held {
        _ if !caps.group_matrix() => Some("no cooperative matrices that workgroups hold".into()),
        None => Some("threads share what matrices hold, or they are turned off".into()),
        _ if matrix2_attention(caps, spec).is_none() => Some("workgroups do not hold such heads".into()),
        _ if !halves => Some("what is cached does not become halves".into()),
        _ => off("attn_matrix2"),
    };
    let mut kernels = [
        ("attn_prompt", prompt),
        ("attn_flash", flash),
        ("attn_staged", staged),
        ("attn_matrix2", group),
        ("attn_prefill", None),
    ];
    if matrix2_first(spec) {
        kernels.swap(2, 3);
    }
    kernels.into_iter().map(|(kernel, why)| variant(kernel, why, None)).collect()
}
