//! Tiles by device and shape: the one place that may know a device's kind. Pure functions of plain data.

pub mod devices;
pub mod matrix;
#[cfg(test)]
mod tests;

use crate::plan::{AttentionSpec as Cache, KV_BLOCK};
use crate::vk::{Caps, DeviceKind, Way};
use pumex_quant::{tables, Format, FormatId};

/// Which GEMV runs a product, and in what shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemvTile {
    /// Row of the kernel table.
    pub kernel: &'static str,
    /// Threads of a workgroup.
    pub size: u32,
    /// Outputs taken at a time: by a workgroup (`gemv`) or a subgroup (`gemv_dot`).
    pub rows: u32,
    /// Workgroups.
    pub groups: u32,
    /// Inputs coded at a time by `gemv_dot`.
    pub span: u32,
    /// Chunks that its threads have under way.
    pub depth: u32,
    /// Codes of its activations.
    pub activations: Activations,
    /// Times that its format's table, if there is one, stands in shared memory.
    pub copies: u32,
}

/// Codes that integer kernels make of activations, with a scale for each 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// 16 bits: products are as exact as those of floats.
    #[default]
    Q16,
    /// 8 bits, as llama.cpp's kernels take: a third less to do for each weight.
    Q8,
}

impl Activations {
    /// Of one.
    pub fn bits(self) -> u32 {
        match self {
            Activations::Q16 => 16,
            Activations::Q8 => 8,
        }
    }
}

/// The codes that are best on a device. Software devices have nothing to gain by shorter ones.
pub fn activations(caps: &Caps) -> Activations {
    if caps.kind == DeviceKind::Cpu {
        Activations::Q16
    } else {
        Activations::Q8
    }
}

/// What a product does beside multiplying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Gate and up in one.
    pub gated: bool,
    /// Adds to the output.
    pub add: bool,
    /// Norms its input first.
    pub norm: bool,
    /// Weights lie as planes.
    pub planes: bool,
    /// Codes of its activations.
    pub activations: Activations,
}

impl GemvTile {
    /// Constants of its pipeline, by name, for `k` inputs and `n` activation rows.
    pub fn spec(&self, k: usize, n: usize, extras: Extras) -> Vec<(&'static str, u32)> {
        let mut spec = vec![
            ("SIZE", self.size),
            ("ROWS", self.rows),
            ("COLS", n as u32),
            ("GATED", u32::from(extras.gated)),
            ("ADD", u32::from(extras.add)),
            ("PLANES", u32::from(extras.planes)),
            ("NORM", u32::from(extras.norm)),
        ];
        if self.kernel == DOT {
            spec.extend([
                ("K", k as u32),
                ("SPAN", self.span),
                ("DEPTH", self.depth),
                ("BITS", self.activations.bits()),
                ("COPIES", self.copies),
            ]);
        }
        spec
    }

    /// One more, where the kernel asks whether it takes whole numbers of the `rows` of each matrix at a time.
    pub fn whole_rows(&self, mut rows: impl Iterator<Item = usize>) -> Option<(&'static str, u32)> {
        let whole = rows.all(|m| m.is_multiple_of(self.rows as usize));
        (self.kernel == DOT).then_some(("WHOLE_ROWS", u32::from(whole)))
    }
}

/// Multiprocessors, or a guess at those of a device whose driver does not say.
pub fn cores(caps: &Caps) -> u32 {
    caps.cores.unwrap_or(128)
}

const FLOAT: &str = "gemv";
const DOT: &str = "gemv_dot";

/// Most activation rows that one GEMV takes; above, the tiled GEMM is used.
pub const GEMV_MAX_COLS: usize = 8;

/// Most rows of a step that is recorded for just as many, each row's attention split over workgroups.
pub const FEW_ROWS: usize = 16;

/// Shared memory the integer kernel leaves for the compiler and for sums over a workgroup.
const DOT_SHARED_RESERVE: usize = 3 << 10;

/// Bytes that a table's copies take where there is room: threads that look entries up meet in a bank less often then.
const TABLE_MOST: usize = 32 << 10;

/// Bytes of the table a format's decoder keeps in shared memory, as often as is usual.
pub fn table_bytes(format: &Format) -> usize {
    tables::of(format.id).map_or(0, |t| 4 * t.len_words()) * usual_copies(format) as usize
}

/// How often a format's table stands in shared memory where nothing else is said.
pub fn usual_copies(format: &Format) -> u32 {
    table_copies(format, tables::USUAL_BYTES)
}

/// How often a format's table, if it has one, fits into so many bytes: once at least.
pub fn table_copies(format: &Format, room: usize) -> u32 {
    tables::of(format.id).map_or(1, |t| t.copies(room)) as u32
}

/// Bytes of shared memory for a table beside `used` bytes; no less than is usual, which callers have left.
fn table_room(caps: &Caps, used: usize) -> usize {
    (caps.max_shared_bytes as usize).saturating_sub(used).clamp(tables::USUAL_BYTES, TABLE_MOST)
}

/// How often a format's table fits beside what the integer kernel keeps of `n` rows of `span` inputs.
fn dot_copies(caps: &Caps, format: &Format, span: usize, n: usize, codes: Activations) -> u32 {
    let used = n * span * (codes.bits() + codes.bits() / 8 + 3) as usize / 8 + DOT_SHARED_RESERVE;
    table_copies(format, table_room(caps, used))
}

/// Inputs that the integer kernel codes at a time: all `k` if `n` rows of them fit its shared memory, with an eighth of padding
/// and 3 bits each for scales and sums, else a multiple of 256; none if it cannot run at all.
pub fn dot_span(caps: &Caps, format: &Format, k: usize, n: usize, codes: Activations) -> Option<usize> {
    if !caps.int_dot8 || !caps.subgroup_shuffle || format.block_len == 1 || caps.subgroup_size < 8 {
        return None;
    }
    let room = (caps.max_shared_bytes as usize).checked_sub(table_bytes(format) + DOT_SHARED_RESERVE)?;
    let fit = room * 8 / (codes.bits() + codes.bits() / 8 + 3) as usize / n;
    if k <= fit {
        return Some(k);
    }
    Some(fit / 256 * 256).filter(|span| *span > 0)
}

/// A GEMV of `m` outputs over `k` inputs for `n` activation rows.
///
/// The integer kernel's shapes are those `sweep` and whole tokens found best on an NVIDIA H200: workgroups wide enough to code
/// the activations at once, and as many as multiprocessors, so that each codes them once.
pub fn gemv_tile(caps: &Caps, format: &Format, m: usize, k: usize, n: usize, extras: Extras) -> GemvTile {
    let Some(span) = dot_span(caps, format, k, n, extras.activations) else {
        return float_tile(caps, format, (m, k), n);
    };
    let cores = cores(caps);
    // (threads, outputs of a subgroup at a time, workgroups)
    let (bits, many_registers) = (format.bits(), matches!(format.id, FormatId::Q5K | FormatId::Q6K));
    let short = extras.activations == Activations::Q8;
    let codebook = tables::of(format.id).is_some_and(|t| t.packed_levels().is_none());
    let (size, rows, groups) = match (m, n) {
        _ if caps.kind == DeviceKind::Cpu => (64, 2, 8),
        (65536.., 1) if short && format.id == FormatId::Iq1MWide => (1024, 4, cores),
        (_, 1) if short && !extras.gated && format.is_wide() => {
            let (size, rows) = if format.id == FormatId::Iq3SWide { (512, 1) } else { (256, 2) };
            (size, rows, if m < 65536 { 2 * cores } else { 3 * cores })
        }
        (..=2048, 1) if k <= 8192 => (256, 1, 2 * cores),
        (..=4224, 1) => (1024, 1, cores),
        (..8192, 1) => (512, 1, cores),
        (..8192, _) => (512, 2, cores),
        _ if extras.gated => (512, 1, cores),
        (..65536, 1) if many_registers => (512, 2, cores),
        (..65536, 1) if short && (codebook || format.id == FormatId::Nvfp4) => (512, 1, cores),
        (..65536, 1) if short && format.id == FormatId::Iq4Xs => (1024, 1, cores),
        (..65536, 1) => (1024, 2, cores),
        (..65536, _) => (512, 2, cores),
        (_, 1) if short && format.id == FormatId::Q4K => (512, 1, 2 * cores),
        (_, 1) if short && many_registers => (256, 1, 4 * cores),
        (_, 1) if short && format.id == FormatId::Iq4Nl => (1024, 1, cores),
        (_, 1) if short && format.id == FormatId::Iq1S => (1024, 4, cores),
        (_, 1) if short && table_bytes(format) > 0 => (1024, 2, cores),
        (_, 1) if short && matches!(format.id, FormatId::Q2K | FormatId::Q3K) => (1024, 2, cores),
        (_, 1) if short && format.id == FormatId::Q2_0 => (512, 2, 2 * cores),
        (_, 1) if short && bits > 8.0 => (1024, 1, 3 * cores),
        (_, 1) if short && matches!(format.id, FormatId::Tq2_0 | FormatId::Tq1_0) => (512, 4, 2 * cores),
        (_, 1) if bits < 2.2 => (1024, 4, cores),
        (_, 1) if format.id == FormatId::Q4K => (512, 4, 2 * cores),
        (_, 1) if many_registers => (512, 2, cores),
        (_, 1) if bits < 6.1 => (1024, 2, 2 * cores),
        (_, 1) => (256, 2, 8 * cores),
        _ => (512, 2, 4 * cores),
    };
    // Two chunks under way of the widest matrices, where codes are short.
    let deep = matches!(format.id, FormatId::Q2_0 | FormatId::Q2K | FormatId::Q3K | FormatId::Q4K) || bits > 8.0;
    let deep = deep || matches!(format.id, FormatId::Iq4Nl | FormatId::Mxfp4);
    let deep = deep && m >= 1 << 16;
    let depth = if short && deep && n == 1 && span == k { 2 } else { 1 };
    let many = if size >= 512 { dot_copies(caps, format, span, n, extras.activations) } else { usual_copies(format) };
    let tile = dot_tile(caps, (m, k), rows, size, 1, span);
    let tile = GemvTile { activations: extras.activations, depth, copies: many, ..tile };
    GemvTile { groups: if span < k { tile.groups } else { tile.groups.min(groups) }, ..tile }
}

/// A GEMV of `m` outputs over `k` inputs with the matrices of one expert, or of all experts of a row side by side.
pub fn expert_tile(caps: &Caps, format: &Format, (m, k): (usize, usize), codes: Activations) -> GemvTile {
    match dot_span(caps, format, k, 1, codes) {
        Some(span) if span == k => {
            let size = if caps.kind == DeviceKind::Cpu { 64 } else { 512 };
            GemvTile { activations: codes, copies: usual_copies(format), ..dot_tile(caps, (m, k), 1, size, 1, span) }
        }
        _ => float_tile(caps, format, (m, k), 1),
    }
}

/// Shape of a dispatch that does products one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainTile {
    /// Threads of a workgroup.
    pub size: u32,
    /// Workgroups, which must all run at once.
    pub groups: u32,
}

/// How the ops of one row follow each other in one dispatch, if they do: where the driver tells how many multiprocessors
/// there are, each of which can hold a workgroup, or, if it is `wanted`, by a single workgroup. (Those drivers' devices also
/// store and load 16 bytes of a thread at once, which the kernel counts on.)
pub fn chain_tile(caps: &Caps, wanted: Option<bool>) -> Option<ChainTile> {
    match (wanted, caps.cores) {
        (Some(false), _) => None,
        _ if !caps.int_dot8 || !caps.subgroup_ballot || !caps.subgroup_shuffle || caps.subgroup_size < 8 => None,
        (_, Some(cores)) if caps.kind != DeviceKind::Cpu => {
            Some(ChainTile { size: 512.min(caps.max_workgroup_invocations), groups: cores })
        }
        (Some(true), _) => Some(ChainTile { size: 64.max(caps.subgroup_size), groups: 1 }),
        (None, _) => None,
    }
}

/// Rows that a chain deals at a time to a workgroup: those of a packet.
pub const PACKET: usize = 16;

/// Packets that a workgroup of a chain has of `m` rows, at most.
pub fn chain_packets(tile: ChainTile, m: usize) -> usize {
    m.div_ceil(PACKET * tile.groups as usize)
}

/// Rows that each of a chain's subgroups takes at a time of `m`: two share what is read of the activations, where that leaves
/// no subgroup without any.
pub fn chain_rows(tile: ChainTile, lanes: u32, m: usize) -> u32 {
    let (own, subgroups) = (PACKET * chain_packets(tile, m), (tile.size / lanes) as usize);
    let turns = |rows: usize| own.div_ceil(rows * subgroups) * rows;
    if m > 0 && turns(2) <= turns(1) {
        2
    } else {
        1
    }
}

/// Outputs of a product above which it is worth a dispatch of its own, whatever comes before it.
pub const CHAIN_MAX_ROWS: usize = 1 << 16;

/// Positions of a sequence up to which attention, with heads of `head_dim`, is a stage of a chain: whole, a workgroup for each
/// head, and, if there can be, in parts. Beyond, a dispatch that reads K and V faster is better.
pub fn chain_positions(head_dim: usize, in_parts: bool) -> (usize, usize) {
    if in_parts {
        (256, (1 << 22) / head_dim)
    } else {
        ((1 << 17) / head_dim, 0)
    }
}

/// Most parts of a sequence's positions that chains join.
pub const MOST_PARTS: usize = 64;

/// Query heads of a K/V head, if a chain's workgroup can take them all at once: some subgroups each, of which four loads of K
/// are of one block of the cache.
pub fn chain_heads(tile: ChainTile, lanes: u32, head_dim: usize, per_kv: usize) -> Option<usize> {
    let (subgroups, run) = ((tile.size / lanes) as usize, 4 * lanes as usize / (head_dim / 8));
    let fits = per_kv.is_power_of_two() && per_kv <= ATTN_HEADS.min(subgroups) && KV_BLOCK.is_multiple_of(run);
    fits.then_some(per_kv)
}

/// Parts that positions are in for a chain whose workgroups attend to so many groups of heads: one for each workgroup, as far as
/// a subgroup of 32 joins them in two rounds of loads.
pub fn chain_parts(tile: ChainTile, groups: usize) -> u32 {
    (tile.groups as usize / groups).clamp(2, MOST_PARTS / 2) as u32
}

/// Whether a chain's workgroups attend with heads of so many dimensions: its subgroups hold some positions each.
pub fn chain_attends(tile: ChainTile, lanes: u32, head_dim: usize) -> bool {
    head_dim.is_power_of_two()
        && (32..=128).contains(&head_dim)
        && head_dim <= 8 * lanes as usize
        && head_dim <= tile.size as usize
}

/// Bytes of shared memory for what the subgroups of a chain that attends have of `pair` heads each.
pub fn chain_attention_bytes(tile: ChainTile, lanes: u32, head_dim: usize, pair: usize) -> usize {
    (tile.size / lanes) as usize * pair * head_dim * 4
}

/// Whether a chain's workgroups choose among so many experts, each for itself.
pub fn chain_ranks(tile: ChainTile, experts: usize, used: usize) -> bool {
    experts <= 512 && used <= 32.min(tile.size as usize)
}

/// Bytes of shared memory that a chain takes beside activations and packets.
const CHAIN_SHARED: usize = 8 << 10;

/// Whether a chain's workgroups can hold the codes of `k` inputs, with an eighth of padding and 4 bits each for scales and sums,
/// beside a table of `table` bytes and the `room` taken by packets that they send ([`chain_packets`]) and by attention, where
/// codes are at other times ([`chain_attention_bytes`]).
pub fn chain_span(
    caps: &Caps,
    (format, table): (&Format, usize),
    k: usize,
    codes: Activations,
    room: (usize, usize),
) -> bool {
    let held = chain_held(k, codes, room) + table;
    dot_span(caps, format, k, 1, codes) == Some(k) && held <= caps.max_shared_bytes as usize
}

/// Bytes of shared memory that a chain takes beside a table.
fn chain_held(k: usize, codes: Activations, (packets, heads): (usize, usize)) -> usize {
    let coded = k * (codes.bits() + codes.bits() / 8) as usize / 8;
    coded.max(heads) + k / 2 + packets * (8 * PACKET + 8) + CHAIN_SHARED
}

/// Bytes of a chain's shared memory for a format's table, beside the codes of up to `k` inputs.
pub fn chain_table_room(caps: &Caps, k: usize, codes: Activations, room: (usize, usize)) -> usize {
    table_room(caps, chain_held(k, codes, room))
}

/// The integer kernel with subgroups taking `rows` of `m` outputs `turns` times, `span` of `k` inputs at a time.
pub fn dot_tile(caps: &Caps, (m, k): (usize, usize), rows: u32, size: u32, turns: u32, span: usize) -> GemvTile {
    let size = size.min(caps.max_workgroup_invocations).max(caps.subgroup_size);
    let turns = if span < k { 1 } else { turns };
    let outputs = size / caps.subgroup_size * rows * turns;
    let (groups, activations) = ((m as u32).div_ceil(outputs), Activations::Q16);
    GemvTile { kernel: DOT, size, rows, groups, span: span as u32, depth: 1, activations, copies: 1 }
}

/// The float kernel: a subgroup's worth of threads per few outputs on GPUs, more outputs on software devices, where a
/// workgroup costs more than a thread.
pub fn float_tile(caps: &Caps, format: &Format, (m, k): (usize, usize), n: usize) -> GemvTile {
    let bits = format.bits();
    let cpu = caps.kind == DeviceKind::Cpu;
    let (size, rows) = match (cpu, n) {
        (true, 0..=2) => (caps.subgroup_size.clamp(8, 64), 4),
        (true, _) => (caps.subgroup_size.clamp(8, 64), 2),
        (false, 0..=2) => (if k >= 8192 { 64 } else { 32 }, if bits > 16.0 { 2 } else { 4 }),
        (false, _) => (if k >= 8192 { 64 } else { 32 }, 2),
    };
    let size = size.max(caps.subgroup_size.min(64));
    let (groups, activations) = ((m as u32).div_ceil(rows), Activations::Q16);
    GemvTile { kernel: FLOAT, size, rows, groups, span: k as u32, depth: 1, activations, copies: 1 }
}

/// How weights reach a device whose memory the host does not use as its own, with `threads` of the host; and why so.
///
/// An H200 reads the host's memory at 51 GB/s, and at 45 with five slots of 8 MiB: four leave it waiting at times, more take
/// longer to make (0.4 ms a MiB) than they save. A window on all its memory takes 33 from a dozen cores.
pub fn upload_way(caps: &Caps, threads: usize) -> (Way, &'static str) {
    if caps.kind == DeviceKind::Cpu {
        let way = Way { threads: threads.clamp(1, 4), batch_bytes: 1 << 20, slots: 4 };
        return (way, "software device: its kernels take the same cores");
    }
    (Way { threads: threads.clamp(1, 12), batch_bytes: 8 << 20, slots: 5 }, "the device reads the host's memory")
}

/// Whether pipelines of usual steps are built while weights are sent. Software devices have one set of cores for both, and
/// their pipelines are kept in no cache, so that those never used would cost the most.
pub fn builds_ahead(caps: &Caps) -> bool {
    caps.kind != DeviceKind::Cpu
}

/// Threads that choose a row's experts by their logits: one for each, as far as that pays.
pub fn route_threads(caps: &Caps, experts: usize) -> u32 {
    let most = if caps.kind == DeviceKind::Cpu { 64 } else { 256 };
    (experts as u32).next_power_of_two().clamp(caps.subgroup_size, most.max(caps.subgroup_size))
}

/// Threads of a workgroup that multiplies a row of `k` inputs with a router's matrix, and experts it does: one, so that as
/// much of the matrix as can be is asked for at once. The last workgroup chooses the experts, too.
pub fn router_tile(caps: &Caps, experts: usize, k: usize) -> (u32, u32) {
    if caps.kind == DeviceKind::Cpu {
        return (caps.subgroup_size.max(64), 4);
    }
    let threads = (k / 32).max(experts).next_power_of_two().clamp(64, 256) as u32;
    (threads.max(caps.subgroup_size), experts.div_ceil(256) as u32)
}

/// Threads per workgroup of the row-wise kernels (norm, argmax): wide on GPUs, narrow on software devices.
pub fn row_threads(caps: &Caps) -> u32 {
    if caps.kind == DeviceKind::Cpu {
        64
    } else {
        caps.max_workgroup_invocations.min(512)
    }
}

/// Outputs and rows of a workgroup of `gemm_float`.
pub const SMALL_TILE: usize = 16;

/// Whether a product of floats is for `gemm_float`: one whose tiles of `gemm_tile`, 64 on a side, leave most multiprocessors idle.
pub fn small_floats(caps: &Caps, format: &Format, (m, k): (usize, usize), n: usize) -> bool {
    let idle = m.div_ceil(64) * n.div_ceil(64) < cores(caps) as usize;
    format.id == FormatId::F32 && k.is_multiple_of(64) && idle && caps.kind != DeviceKind::Cpu
}

/// Rows and positions per tile of prefill attention; shared memory holds both and the scores.
pub fn prefill_tile(head_dim: usize) -> (u32, u32) {
    if head_dim <= 128 {
        (16, 32)
    } else {
        (8, 16)
    }
}

/// How a decode step's attention is spread over workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttnTile {
    /// Row of the kernel table: `attn_split` or `attn_mat`.
    pub kernel: &'static str,
    /// Threads of a workgroup.
    pub size: u32,
    /// Positions it takes at a time.
    pub span: u32,
    /// Positions that are worth a workgroup.
    pub least: u32,
    /// Query heads a workgroup takes, all of one K/V head.
    pub heads: u32,
    /// Parts that a long sequence is split into.
    pub parts: u32,
}

/// Workgroups that keep a GPU's memory busy, and a software device's threads.
fn wanted_groups(caps: &Caps) -> usize {
    if caps.kind == DeviceKind::Cpu {
        6
    } else {
        528
    }
}

/// Most query heads a workgroup takes: their sums are held in registers.
pub const ATTN_HEADS: usize = 8;

/// Most query heads that a workgroup should take for sequences of up to `len` positions. K and V are read once for all of
/// them, but one at a time they keep more of the device busy, which is worth more while there is little to read. By cooperative
/// matrices (`matrices`) more heads cost less.
pub fn attn_heads(caps: &Caps, matrices: bool, len: usize) -> usize {
    match len {
        _ if caps.kind == DeviceKind::Cpu => ATTN_HEADS,
        ..=256 if matrices => 2,
        _ if matrices => ATTN_HEADS,
        0..=768 => 1,
        769..=2048 => 2,
        _ => ATTN_HEADS,
    }
}

/// Attention of `rows` single rows with heads of `head_dim`, of a `wide` cache if its elements take 32 bits, by workgroups
/// of at most `most` heads.
pub fn attn_tile(caps: &Caps, c: &Cache, rows: usize, wide: bool, most: usize) -> AttnTile {
    let (heads, head_dim, per_kv) = (c.heads, c.head_dim, c.heads / c.kv_heads);
    let taken = (1..=most.min(per_kv)).rev().find(|h| per_kv.is_multiple_of(*h)).unwrap_or(1);
    let parts = (wanted_groups(caps) / (rows * heads / taken)).clamp(1, 64);
    // A tile of K stays within 16 KiB and a bit, of whatever type.
    let (size, span, least) = if caps.kind == DeviceKind::Cpu { (64, 16, 32) } else { (256, 64, 256) };
    let span = if head_dim > 128 || wide { span / 2 } else { span };
    AttnTile { kernel: "attn_split", size, span, least, heads: taken as u32, parts: parts as u32 }
}

/// Whether `attn_mat` takes heads of so many dimensions.
pub fn attn_mat_fits(head_dim: usize) -> bool {
    matches!(head_dim, 64 | 128)
}

/// As [`attn_tile`], by cooperative matrices whose parts threads fill themselves ([`matrix::direct`]), of caches that become halves.
pub fn attn_mat_tile(caps: &Caps, c: &Cache, rows: usize, most: usize) -> AttnTile {
    let per_kv = c.heads / c.kv_heads;
    let taken = (1..=most.min(per_kv).min(ATTN_HEADS)).rev().find(|h| per_kv.is_multiple_of(*h)).unwrap_or(1);
    let parts = (2 * cores(caps) as usize / (rows * c.heads / taken)).clamp(1, 64) as u32;
    AttnTile { kernel: "attn_mat", size: 128, span: 128, least: 128, heads: taken as u32, parts }
}

/// How attention of many rows is spread over workgroups, by such matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashTile {
    /// Threads of a workgroup.
    pub size: u32,
    /// Query heads it takes, of one K/V head.
    pub heads: u32,
    /// Rows of each.
    pub rows: u32,
}

/// Four subgroups, of as many heads of a K/V head as there are, for these share what they read.
pub fn attn_flash_tile(c: &Cache) -> FlashTile {
    let heads = [4, 2, 1].into_iter().find(|h| (c.heads / c.kv_heads).is_multiple_of(*h)).unwrap_or(1) as u32;
    FlashTile { size: 128, heads, rows: 16 * 4 / heads }
}

/// Threads and logits of each thread of a workgroup that samples. Software devices end loops after 65,535 turns of a thread
/// in all, so that few threads with many turns are no choice.
pub fn sample_tile(caps: &Caps) -> (u32, u32) {
    let threads = if caps.kind == DeviceKind::Cpu { 128 } else { 256 };
    (threads.min(caps.max_workgroup_invocations), 16)
}

/// Workgroups that share a row of logits when its largest is sought.
pub fn argmax_parts(caps: &Caps, rows: usize) -> usize {
    (wanted_groups(caps) / 4 / rows).max(1)
}
