//! Every choice for every known device: those for the shapes of usual models as a table, and a hash for each device of those over a
//! grid of shapes.
//!
//! A change of a choice that is meant changes `lower/golden/policy.txt`; one that is not shows here. What was chosen over the
//! grid is written out, so that two commits' files can be compared line by line.

mod cells;
mod table;

use super::matrix::{self, MatTile};
use super::*;
use pumex_plan::AttentionSpec;
use pumex_quant::{all, Format};
use std::fmt::Write;

/// Outputs of products: on both sides of every limit, and those of models.
pub(super) const OUTPUTS: [usize; 26] = [
    1, 64, 512, 1024, 2048, 2049, 2560, 3072, 4096, 4224, 4225, 5120, 6144, 8191, 8192, 8193, 11008, 14336, 28672,
    32000, 49152, 65535, 65536, 128256, 151936, 262144,
];
/// Inputs of products.
pub(super) const INPUTS: [usize; 9] = [256, 1024, 2560, 4096, 8192, 8448, 14336, 28672, 65536];
pub(super) const CODES: [ActivationQuant; 2] = [ActivationQuant::Q16, ActivationQuant::Q8];
const ROWS: [usize; 18] = [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 32, 40, 64, 65, 128, 255, 512, 2048];

/// Lines of one topic of one device.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, of: impl std::fmt::Debug, chosen: impl std::fmt::Debug) {
        writeln!(self.0, "{of:?} {chosen:?}").unwrap();
    }
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Fields without their names, so that no name is part of what is chosen.
fn gemv(t: &GemvTile) -> (&'static str, [u32; 7]) {
    (t.kernel, [t.size, t.rows, t.groups, t.span, t.depth, t.activations.bits(), t.copies])
}

fn mat(t: &MatTile) -> (&'static str, [u32; 7]) {
    (t.kernel, [t.size, t.split, t.mat_n, t.tiles, t.groups, t.turn, t.copies])
}

fn values(spec: Vec<(&'static str, u32)>) -> Vec<u32> {
    spec.into_iter().map(|(_, value)| value).collect()
}

fn attn(t: &AttnTile) -> (&'static str, [u32; 5]) {
    (t.kernel, [t.size, t.span, t.least, t.heads, t.parts])
}

fn caches() -> Vec<AttentionSpec> {
    let shapes = [(1, 1), (8, 8), (8, 2), (14, 2), (24, 8), (32, 8), (32, 4), (64, 8), (40, 10), (71, 1), (128, 8)];
    let widths = [32, 64, 80, 96, 128, 256];
    let cache = |(heads, kv_heads): (usize, usize), head_dim| AttentionSpec::causal(0, heads, kv_heads, head_dim);
    shapes.iter().flat_map(|s| widths.map(|w| cache(*s, w))).collect()
}

fn gemv_lines(caps: &Caps, format: &Format) -> Lines {
    let mut lines = Lines::default();
    for (m, k) in OUTPUTS.iter().flat_map(|m| INPUTS.map(|k| (*m, k))) {
        for (n, codes) in [1, 2, 3, GEMV_MAX_COLS].into_iter().flat_map(|n| CODES.map(|c| (n, c))) {
            let tile = |gated| {
                let extras = GemmFusion { gated, activations: codes, ..GemmFusion::default() };
                gemv_tile(caps, format, m, k, n, extras)
            };
            lines.add((m, k, n, codes.bits()), (gemv(&tile(false)), gemv(&tile(true))));
            if m == 4096 {
                let extras =
                    GemmFusion { gated: true, soa: true, norm: true, activations: codes, ..GemmFusion::default() };
                let whole = [16, 17].map(|odd| tile(true).whole_rows([4096, odd].into_iter()).map(|(_, value)| value));
                lines.add((values(tile(true).spec(k, n, extras)), whole), dot_span(caps, format, k, n, codes));
                let float = [false, true].map(|gated| gemv(&float_tile(caps, format, (m, k), n, gated)));
                lines.add(("float", n), float);
            }
        }
        lines.add(("expert", m, k), CODES.map(|codes| gemv(&expert_tile(caps, format, (m, k), codes))));
    }
    lines
}

fn matrix_lines(caps: &Caps, format: &Format) -> Lines {
    let mut lines = Lines::default();
    lines.add("chunk", (matrix::chunk_len(format), matrix::few_chunks(format), matrix::pack_threads(caps)));
    let copies = [0, 5000, 17_000, 32 << 10].map(|bytes| table_copies(format, bytes));
    lines.add("table", (table_bytes(format), usual_copies(format), copies));
    for n in ROWS {
        lines.add(("takes", n), (matrix::takes(caps, format, n), matrix::takes(caps, format, 1 << 16)));
        for direct in [false, true] {
            let extras = GemmFusion { add: true, soa: true, ..GemmFusion::default() };
            let tile = matrix::mat_tile(caps, direct, format, (4096, n), extras);
            lines.add((n, direct), (values(tile.spec(512, extras)), tile.columns(), matrix::columns(caps, direct, n)));
            lines.add("packed", matrix::packed_rows(caps, direct, n));
        }
        for m in OUTPUTS {
            let (plain, gated) = (GemmFusion::default(), GemmFusion { gated: true, ..GemmFusion::default() });
            let tile = |direct, extras| mat(&matrix::mat_tile(caps, direct, format, (m, n), extras));
            lines.add((n, m), (tile(false, plain), tile(false, gated), tile(true, plain), tile(true, gated)));
            lines.add("small", [64, 96, 4096].map(|k| small_floats(caps, format, (m, k), n)));
        }
        for experts in [(2, 8), (4, 32), (8, 64), (8, 128), (8, 512), (8, 2048)] {
            let moe = matrix::moe_tiles(n, experts.0, experts.1);
            let together = matrix::groups_experts(caps, format, (n, experts.0, experts.1));
            lines.add((n, experts), (moe.columns, moe.most, together));
            for m in [64, 512, 768, 1536, 14336] {
                let tile =
                    |gated| matrix::moe_tile(caps, format, m, moe, GemmFusion { gated, ..GemmFusion::default() });
                lines.add(m, (mat(&tile(false)), mat(&tile(true))));
            }
        }
    }
    lines
}

fn packed_lines(caps: &Caps, format: &Format) -> Lines {
    let mut lines = Lines::default();
    for (forced, activations) in [None].into_iter().chain(ManyRows::ALL.map(Some)).flat_map(|f| CODES.map(|c| (f, c))) {
        let asked = PackedRowsRequest { forced, activations };
        let by = [1, 8, 9, 512, 1 << 16].map(|n| many_rows(caps, &[format], n, asked).map(ManyRows::kernel));
        lines.add((forced, activations.bits(), packs_rows(caps, asked)), by);
    }
    for by in ManyRows::ALL {
        lines.add(by, [32, 64, 128].map(|columns| (row_tile(caps, by, format, columns)).spec(true, (4096, 4096))));
    }
    lines
}

fn attention_lines(caps: &Caps) -> Lines {
    let mut lines = Lines::default();
    let lens = [1, 255, 256, 257, 768, 769, 2048, 2049, 1 << 20];
    lens.iter().for_each(|l| lines.add(l, [true, false].map(|mat| attn_heads(caps, mat, *l))));
    for c in caches() {
        let flash = attn_flash_tile(&c);
        lines.add((c.heads, c.kv_heads, c.head_dim), [flash.size, flash.heads, flash.rows]);
        lines.add([9, 64, 512].map(|rows| prefill_tile(caps, &c, rows)), attn_mat_fits(&c));
        for (rows, most) in (1..=FEW_ROWS).chain([32, 64]).flat_map(|r| (1..=ATTN_HEADS).map(move |m| (r, m))) {
            let split = [16, 32].map(|bits| attn(&attn_tile(caps, &c, rows, bits, most)));
            lines.add((rows, most), (split, attn(&attn_mat_tile(caps, &c, rows, most))));
        }
    }
    lines
}

fn row_lines(caps: &Caps) -> Lines {
    let mut lines = Lines::default();
    lines.add("all", (cores(caps), activations(caps).bits(), builds_ahead(caps), row_threads(caps), sample_tile(caps)));
    for experts in [2, 4, 7, 8, 16, 32, 60, 64, 100, 128, 256, 257, 512, 1024] {
        lines.add(experts, (route_threads(caps, experts), INPUTS.map(|k| router_tile(caps, experts, k))));
    }
    (1..=64).for_each(|rows| lines.add(rows, argmax_parts(caps, rows)));
    for threads in [1, 2, 4, 11, 12, 13, 128] {
        let (way, why) = upload_way(caps, threads);
        lines.add(threads, (way.threads, way.batch_bytes, way.slots, why));
    }
    lines
}

fn subgroup_lines(caps: &Caps) -> Lines {
    let mut lines = Lines::default();
    lines.add("usual", (caps.subgroup_size, caps.emulated_subgroups));
    caps.subgroup_sizes.iter().for_each(|own| lines.add(&own.module, own.threads));
    lines
}

fn megakernel_lines(caps: &Caps) -> Lines {
    let mut lines = Lines::default();
    let lanes = caps.subgroup_size;
    for wanted in [None, Some(false), Some(true)] {
        let Some(tile) = megakernel_tile(caps, wanted) else {
            lines.add(wanted, "none");
            continue;
        };
        lines.add(wanted, (tile.size, tile.groups));
        OUTPUTS.iter().for_each(|m| lines.add(m, (megakernel_messages(tile, *m), megakernel_rows(tile, lanes, *m))));
        for head_dim in [32, 48, 64, 96, 128, 256, 512] {
            lines.add(head_dim, (megakernel_positions(head_dim, true), megakernel_positions(head_dim, false)));
            lines.add(
                megakernel_attends(tile, lanes, head_dim),
                [1, 2].map(|p| megakernel_attention_bytes(tile, lanes, head_dim, p)),
            );
            if head_dim <= 4 * 8 * lanes as usize {
                lines
                    .add("heads", (1..=16).map(|per| megakernel_heads(tile, lanes, head_dim, per)).collect::<Vec<_>>());
            }
        }
        lines.add("parts", (1..200).map(|teams| megakernel_parts(tile, teams)).collect::<Vec<_>>());
        let ranks = [(8, 2), (64, 8), (128, 32), (128, 33), (512, 8), (513, 8), (256, 65)];
        lines.add("ranks", ranks.map(|(experts, used)| megakernel_ranks(tile, experts, used)));
        for (format, k) in all().flat_map(|f| INPUTS.map(|k| (f, k))) {
            for (codes, heads) in CODES.into_iter().flat_map(|c| [0, 8 << 10, 24 << 10].map(|h| (c, h))) {
                let room = (megakernel_messages(tile, k), heads);
                let spans = [0, 8 << 10, 32 << 10].map(|table| megakernel_span(caps, (format, table), k, codes, room));
                lines.add((format.stem, k, codes.bits(), heads), (spans, megakernel_table_room(caps, k, codes, room)));
            }
        }
    }
    lines
}

#[test]
fn choices_for_known_devices_are_those_written_down() {
    let mut found = table::text();
    found += "\n## all of a grid of shapes, as a hash\n";
    let mut grids = Vec::new();
    for (name, caps) in devices::all() {
        let mut grid = String::new();
        let mut topic = |topic: &str, lines: Lines| write!(grid, "# {topic}\n{}", lines.0).unwrap();
        topic("attention", attention_lines(&caps));
        topic("megakernel", megakernel_lines(&caps));
        topic("rows", row_lines(&caps));
        topic("subgroups", subgroup_lines(&caps));
        for format in all() {
            topic(&format!("few rows, {}", format.stem), gemv_lines(&caps, format));
            topic(&format!("matrices, {}", format.stem), matrix_lines(&caps, format));
            topic(&format!("many rows, {}", format.stem), packed_lines(&caps, format));
        }
        writeln!(found, "{name}: {:016x}", hash(&grid)).unwrap();
        grids.push((name, grid));
    }
    let golden = include_str!("../../golden/policy.txt");
    if found == golden {
        return;
    }
    let out = std::env::temp_dir().join("pumex-policy");
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("policy.txt"), &found).unwrap();
    for (name, grid) in grids {
        std::fs::write(out.join(name), grid).unwrap();
    }
    let pairs = found.lines().zip(golden.lines().chain(std::iter::repeat("nothing")));
    let (at, (now, written)) = pairs.enumerate().find(|(_, (now, written))| now != written).unwrap();
    panic!(
        "other choices from line {} on: {now:?}, written down {written:?}; a new lower/golden/policy.txt, and the grids, are in {}",
        at + 1,
        out.display()
    );
}
