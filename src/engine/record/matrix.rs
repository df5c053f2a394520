//! Products by cooperative matrices: activations are packed once for each layout wanted, then matrices read them so.

use super::{Norm, Push, Writer};
use crate::kernel::Kernels;
use crate::plan::{Access, MatPart, Op, Plan, Rows, Val};
use crate::policy::matrix::{self as tiles, FEW, FEW_WIDE, MOST_COLUMNS, PACKED_LEN};
use crate::policy::Extras;
use crate::vk::{self, Buffer, Caps, Class, Device};
use crate::Result;
use std::collections::HashSet;

/// Activations as halves, and a factor for each row.
pub struct Packed {
    codes: Buffer,
    factors: Buffer,
    /// Where matrices of so many columns keep what.
    maps: Vec<(u32, Buffer)>,
    /// Threads hold matrices as `gemm_few` expects.
    direct: bool,
    /// Threads hold sums as `attn_flash` expects, too.
    ordered: bool,
    /// Inputs of a packed row at most.
    k: usize,
    /// Factors of rows that the op before has packed: of attention, then of gated units.
    passed_factors: Buffer,
    /// Of rows that come packed for a norm: the sums of squares of each sixteen outputs, and what they are packed over, twice.
    squares: Buffer,
    powers: Buffer,
    /// Of experts with many rows.
    runs: Option<RunRoom>,
}

/// Where the rows of each expert come together.
pub(super) struct RunRoom {
    /// What `deal` writes.
    pub list: Buffer,
    /// Packed rows, and their factors.
    pub codes: Buffer,
    pub factors: Buffer,
    /// Products that are to be added up.
    pub products: Buffer,
}

/// Bytes of the list, the packed rows, their factors and the products that steps of up to `max_rows` rows need, if the plan has
/// experts.
fn run_sizes(plan: &Plan, max_rows: usize) -> Option<[u64; 4]> {
    let of = |op: &Op| match op {
        Op::GatedExperts { chosen, gate, .. } => Some((*chosen, plan.weights[gate.0].cols, 0)),
        Op::ExpertsAdd { chosen, down, out, .. } => {
            Some((*chosen, plan.weights[down.0].cols, plan.values[out.0].width))
        }
        _ => None,
    };
    let sizes = plan.ops.iter().filter_map(of).map(|(c, k, m)| {
        let runs = tiles::runs(max_rows, c.used, c.experts); // fewer rows need no more
        let rows = (runs.most * runs.columns).next_multiple_of(MOST_COLUMNS);
        [8 * rows, 2 * rows * k.next_multiple_of(PACKED_LEN), 4 * rows, 4 * max_rows * c.used * m].map(|b| b as u64)
    });
    sizes.reduce(|a, b| [0, 1, 2, 3].map(|i| a[i].max(b[i])))
}

impl RunRoom {
    fn new(device: &Device, plan: &Plan, max_rows: usize) -> Result<Option<RunRoom>> {
        let Some([list, codes, factors, products]) = run_sizes(plan, max_rows) else { return Ok(None) };
        let room = |name: &str, bytes: u64| device.buffer(name, bytes.max(16), Class::Scratch);
        Ok(Some(RunRoom {
            list: room("runs", list)?,
            codes: room("runs.packed", codes)?,
            factors: room("runs.factors", factors)?,
            products: room("runs.products", products)?,
        }))
    }
}

/// How a product hands its rows to a norm, packed for the products that read it: see `shaders/glsl/lib/link.glsl`.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// What the norm makes.
    v: Val,
    /// Of its addresses, among those of the recording.
    at: usize,
    /// Layouts in which rows are packed.
    layouts: [u32; 2],
}

/// Addresses of a link.
const LINK_WORDS: usize = 6;

/// Of the slots for few rows, that of activations which the op before packs; those below it are of layouts.
const PASSED_SLOT: usize = 3;
/// What gated units that are passed on were divided by: PASSED_SCALE of `shaders/glsl/gemm_few.comp`.
const GATED_FACTOR: f32 = 16.0;

/// What a device's threads hold of cooperative matrices.
pub struct Held {
    /// For each number of columns that activations may have, the place of each element.
    pub maps: Vec<(u32, Vec<u32>)>,
    /// As `gemm_few` expects.
    pub direct: bool,
    /// Sums as `attn_flash` expects.
    pub ordered: bool,
}

/// Where a matrix keeps each of its `elements`, if every thread has its own (see `shaders/glsl/matrix_map.comp`).
fn map(device: &Device, kernels: &Kernels, spec: &[(&str, u32)], elements: usize) -> Result<Option<Vec<u32>>> {
    let found = device.buffer("map", 4 * (elements as u64 + 1), Class::Readback)?;
    found.write(0, &vec![0xff; 4 * (elements + 1)]);
    let pipeline = kernels.get("matrix_map", None, spec)?;
    let mut recorder = device.recorder()?;
    recorder.dispatch(&pipeline, &found.address().to_le_bytes(), [1, 1, 1]);
    recorder.host_barrier();
    let recording = recorder.finish()?;
    device.wait(device.submit(&recording)?)?;
    let mut map = vec![0u32; elements + 1];
    found.read(0, bytemuck::cast_slice_mut(&mut map));
    let all = map.pop() == Some(elements as u32);
    let each = elements as u32 / 32;
    let places: HashSet<u32> = map.iter().copied().filter(|p| p / 8 < 32 && p % 8 < each).collect();
    Ok((all && places.len() == elements).then_some(map))
}

/// Asks the device what its threads hold; none if it has no cooperative matrices or threads share elements.
///
/// # Errors
/// A lost device, a module the driver refuses.
pub fn held(device: &Device, kernels: &Kernels) -> Result<Option<Held>> {
    let mut maps = Vec::new();
    for wide in device.caps().matrix_wide.iter().copied() {
        let Some(map) = map(device, kernels, &[("USE", 0), ("WIDE", wide)], 16 * wide as usize)? else {
            tracing::warn!("{}: threads share what matrices of {wide} columns hold; unused", device.caps().name);
            return Ok(None);
        };
        maps.push((wide, map));
    }
    if maps.is_empty() {
        return Ok(None);
    }
    let weights = map(device, kernels, &[("USE", 1), ("WIDE", FEW_WIDE)], 256)?;
    let few = maps.iter().find(|(wide, _)| *wide == FEW_WIDE);
    let sums = match few {
        Some(_) => map(device, kernels, &[("USE", 2), ("WIDE", FEW_WIDE)], 16 * FEW_WIDE as usize)?,
        None => None,
    };
    let ordered = sums.as_ref().is_some_and(|sums| tiles::ordered(sums));
    let all = weights.zip(few).zip(sums);
    let direct = all.is_some_and(|((weights, (_, few)), sums)| tiles::direct(&weights, few, &sums));
    let direct = direct && device.caps().small_halves;
    Ok(Some(Held { maps, direct, ordered }))
}

/// Most inputs of a product, and the bytes of codes and factors that steps of `plan` with up to `max_rows` rows need.
fn sizes(plan: &Plan, max_rows: usize) -> (usize, u64, u64) {
    let inputs = |op: &Op| match op {
        Op::MatMul { parts, .. } => parts.first().map(|p| plan.weights[p.weight.0].cols),
        Op::GatedMatMul { gate, .. } => Some(plan.weights[gate.weight.0].cols),
        _ => None,
    };
    let k = plan.ops.iter().filter_map(inputs).max().unwrap_or(0).next_multiple_of(PACKED_LEN);
    let rows = max_rows.next_multiple_of(MOST_COLUMNS);
    (k, (2 * rows * k) as u64, (4 * rows) as u64)
}

impl Packed {
    /// Bytes on a device.
    pub fn len_bytes(caps: &Caps, plan: &Plan, max_rows: usize) -> u64 {
        let (_, codes, factors) = sizes(plan, max_rows);
        if caps.matrix_wide.is_empty() {
            0
        } else {
            codes + factors + run_sizes(plan, max_rows).map_or(0, |sizes| sizes.iter().sum())
        }
    }

    /// Room for steps of `plan` with up to `max_rows` rows; none where no kernel would use it.
    ///
    /// # Errors
    /// Memory that ran out.
    pub fn new(device: &Device, kernels: &Kernels, plan: &Plan, max_rows: usize) -> Result<Option<Packed>> {
        let (k, codes, factors) = sizes(plan, max_rows);
        let Some(held) = held(device, kernels)?.filter(|_| k > 0) else { return Ok(None) };
        let mut maps = Vec::new();
        for (wide, map) in held.maps {
            let buffer = device.buffer("map", 4 * map.len() as u64, Class::Scratch)?;
            vk::send(device, &buffer, bytemuck::cast_slice(&map))?;
            maps.push((wide, buffer));
        }
        let passed = [[1f32; FEW], [GATED_FACTOR; FEW]].concat();
        let passed_factors = device.buffer("packed.passed", 4 * passed.len() as u64, Class::Scratch)?;
        vk::send(device, &passed_factors, bytemuck::cast_slice(&passed))?;
        let codes = device.buffer("packed", codes, Class::Scratch)?;
        let factors = device.buffer("packed.factors", factors, Class::Scratch)?;
        let squares = device.buffer("packed.squares", (4 * FEW * k / tiles::TALL) as u64, Class::Scratch)?;
        let powers = device.buffer(
            "packed.powers",
            8 * FEW as u64 + 4 * max_rows.next_multiple_of(MOST_COLUMNS) as u64,
            Class::Scratch,
        )?;
        let (direct, ordered) = (held.direct, held.ordered);
        let runs = RunRoom::new(device, plan, max_rows)?;
        Ok(Some(Packed { codes, factors, maps, direct, ordered, k, passed_factors, squares, powers, runs }))
    }

    /// Threads hold matrices as the kernels expect that fill them thread by thread.
    pub fn direct(&self) -> bool {
        self.direct
    }

    /// Threads have sums of a matrix's row before those of the row eight further down.
    pub fn ordered(&self) -> bool {
        self.ordered
    }

    /// All that recordings name.
    pub fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        let buffers = [&self.codes, &self.factors, &self.passed_factors, &self.squares, &self.powers];
        let runs = self.runs.iter().flat_map(|r| [&r.list, &r.codes, &r.factors, &r.products]);
        buffers.into_iter().chain(self.maps.iter().map(|(_, map)| map)).chain(runs)
    }

    /// Where the rows of each expert come together, if the plan has experts.
    pub(super) fn runs(&self) -> Option<&RunRoom> {
        self.runs.as_ref()
    }

    /// Where a matrix of activations of so many columns keeps what.
    pub(super) fn map_of(&self, wide: u32) -> Option<&Buffer> {
        self.maps.iter().find(|(w, _)| *w == wide).map(|(_, map)| map)
    }

    /// Where codes and factors of a layout are: the `slot`th of those that a few rows are packed in at a time.
    fn at(&self, slot: usize) -> (u64, u64) {
        (self.codes.address() + (2 * slot * FEW * self.k) as u64, self.factors.address() + (4 * slot * FEW) as u64)
    }
}

impl Writer<'_, '_> {
    /// Whether all of these products of `n` rows go through cooperative matrices.
    pub(super) fn by_matrices(&self, parts: &[MatPart], n: usize) -> bool {
        let takes = |p: &MatPart| tiles::takes(self.b.device.caps(), self.b.plan.weights[p.weight.0].format, n);
        self.b.packed.is_some() && parts.iter().all(takes)
    }

    /// Layouts of the activations that products of `n` rows want, each once: CHUNKS of `shaders/glsl/pack.comp`.
    fn layouts(&self, packed: &Packed, parts: &[MatPart], n: usize) -> Vec<u32> {
        if !packed.direct || n > FEW {
            return vec![0];
        }
        let mut layouts: Vec<u32> =
            parts.iter().map(|p| tiles::few_chunks(self.b.plan.weights[p.weight.0].format)).collect();
        layouts.sort_unstable();
        layouts.dedup();
        layouts
    }

    /// Whether an op before those that read `v` can pack it: few rows, of whole units.
    fn packs_early(&self, packed: &Packed, v: Val) -> bool {
        let few = packed.direct && (2..=FEW).contains(&self.rows_of(v));
        few && self.b.fuse && self.b.importance.is_none() && self.width(v).is_multiple_of(PACKED_LEN)
    }

    /// Whether the op that makes `v` packs it for the one product that reads it: in which layout, where, and where its
    /// factors are.
    pub(super) fn passed_on(&self, v: Val) -> Option<(u32, u64, u64)> {
        let (packed, plan, n) = (self.b.packed.filter(|p| self.packs_early(p, v))?, self.b.plan, self.rows_of(v));
        let mut readers = plan.ops.iter().filter(|op| op.reads().contains(&Access::Value(v)));
        let (Some(Op::MatMul { parts, .. }), None) = (readers.next(), readers.next()) else { return None };
        let &[layout] = self.layouts(packed, parts, n).as_slice() else { return None };
        let mut makers = plan.ops.iter().filter(|op| op.writes().contains(&Access::Value(v)));
        let kind = match (makers.next(), makers.next()) {
            (Some(Op::Attend { .. }), None) => 0,
            (Some(Op::GatedMatMul { gate, up, .. }), None)
                if self.by_matrices(&[*gate, *up], n) && self.gates_in_one(gate, up, n) =>
            {
                1
            }
            _ => return None,
        };
        let all = self.by_matrices(parts, n);
        let factors = packed.passed_factors.address() + (4 * kind * FEW) as u64;
        all.then_some((layout, packed.at(PASSED_SLOT).0, factors))
    }

    /// The norm that the product `op`, which adds to the rows, can hand them to, packed.
    fn linked(&self, op: usize) -> Option<(Val, Norm, [u32; 2])> {
        let ops = &self.b.plan.ops;
        let (Op::MatMul { parts, add: true, out, .. }, Op::RmsNorm { x, weight, eps, out: v }) =
            (ops.get(op)?, ops.get(op + 1)?)
        else {
            return None;
        };
        let (packed, n) = (self.b.packed.filter(|p| self.packs_early(p, *v))?, self.rows_of(*v));
        let same = x == out && self.b.plan.values[v.0].rows == Rows::Step && parts.len() == 1;
        if !same || !self.by_matrices(parts, n) {
            return None;
        }
        let mut readers = ops.iter().filter(|op| op.reads().contains(&Access::Value(*v)));
        let parts = match (readers.next()?, readers.next()) {
            (Op::MatMul { parts, .. }, None) => parts.clone(),
            (Op::GatedMatMul { gate, up, .. }, None) if self.gates_in_one(gate, up, n) => vec![*gate, *up],
            _ => return None,
        };
        let layouts = self.layouts(packed, &parts, n);
        let two = [layouts[0], layouts.get(1).copied().unwrap_or(0)];
        let norm = Norm { x: *x, weight: *weight, eps: *eps };
        (layouts.len() <= 2 && self.by_matrices(&parts, n)).then_some((*v, norm, two))
    }

    /// Makes the product `op` hand its rows on, if it can.
    fn link(&mut self, op: usize) -> Option<Link> {
        let (packed, (v, norm, layouts)) = (self.b.packed?, self.linked(op).filter(|_| self.powers_known)?);
        let powers = |half: usize| packed.powers.address() + (4 * FEW * half) as u64;
        let addresses = [
            self.weight(norm.weight),
            packed.at(0).0,
            packed.at(1).0,
            packed.squares.address(),
            powers(self.powers),
            powers(1 - self.powers),
        ];
        self.powers = 1 - self.powers;
        let link = Link { v, at: self.links.len(), layouts };
        self.links.extend(addresses);
        self.link = Some(link);
        Some(link)
    }

    /// Address of a link.
    fn link_at(&mut self, link: Link) -> Result<u64> {
        if let Some(buffer) = &self.links_buffer {
            return Ok(buffer.address() + 8 * link.at as u64);
        }
        if self.listed.is_some() {
            return Ok(0);
        }
        let most = self.b.plan.ops.len() * LINK_WORDS;
        let buffer = self.b.device.buffer("links", 8 * most as u64, Class::Scratch)?;
        self.rec.keep(&buffer);
        Ok(self.links_buffer.insert(buffer).address() + 8 * link.at as u64)
    }

    /// Sends all links.
    pub(super) fn send_links(&self) -> Result<()> {
        let Some(buffer) = &self.links_buffer else { return Ok(()) };
        vk::send(self.b.device, buffer, bytemuck::cast_slice(&self.links))
    }

    /// Packs `x` for these products, normed if its norm is folded into products, unless it comes packed.
    pub(super) fn pack(&mut self, x: Val, parts: &[MatPart]) -> Result<()> {
        let Some(packed) = self.b.packed else { return Ok(()) };
        if self.passed_on(x).is_some() || self.link.is_some_and(|link| link.v == x) {
            return Ok(());
        }
        self.settle()?;
        if self.packed_read == Some(self.rec.barriers()) {
            self.rec.barrier();
        }
        let (k, n, norm) = (self.width(x), self.rows_of(x), self.norms.get(&x).copied());
        let caps = self.b.device.caps();
        let (wide, _) = tiles::columns(caps, packed.direct, n);
        let map = packed.map_of(wide).map_or(0, Buffer::address);
        for (slot, chunks) in self.layouts(packed, parts, n).into_iter().enumerate() {
            let (codes, factors) = packed.at(slot);
            let push = Push::default().addr(self.val(norm.map_or(x, |n| n.x))).addr(self.opt(norm.map(|n| n.weight)));
            let half = if n <= FEW { self.powers } else { 2 }; // of many rows nobody reads them
            let powers = packed.powers.address() + (4 * FEW * half) as u64;
            self.powers_known |= norm.is_some() && n <= FEW;
            let push = push.addr(codes).addr(factors).addr(map).addr(powers).word(n).float(norm.map_or(0.0, |n| n.eps));
            let norms = u32::from(norm.is_some());
            let spec = [
                ("SIZE", tiles::pack_threads(caps)),
                ("K", k as u32),
                ("NORM", norms),
                ("CHUNKS", chunks),
                ("WIDE", wide),
            ];
            self.dispatch("pack", None, &spec, push, [tiles::packed_rows(caps, packed.direct, n), 1, 1])?;
        }
        self.rec.barrier();
        self.packed_read = Some(self.rec.barriers());
        Ok(())
    }

    /// The product of what is packed for `all` with up to three matrices of one format, or with gate and up.
    pub(super) fn by_matrix(
        &mut self,
        x: Val,
        (all, parts): (&[MatPart], &[MatPart]),
        extras: Extras,
        out: Val,
        y_at: usize,
    ) -> Result<()> {
        let Some(packed) = self.b.packed else { return Ok(()) };
        let info = &self.b.plan.weights[parts[0].weight.0];
        let n = self.rows_of(x);
        let layouts = self.layouts(packed, all, n);
        let slot = layouts.iter().position(|l| *l == tiles::few_chunks(info.format)).unwrap_or(0);
        let (codes, factors) = packed.at(slot);
        let (codes, factors) = self.passed_on(x).map_or((codes, factors), |(_, codes, factors)| (codes, factors));
        let passed = if extras.gated { self.passed_on(out) } else { None };
        let y = passed.map_or(self.val(out) + 4 * y_at as u64, |(_, y, _)| y);
        let (m, flags, push) = self.product_push(parts, extras.gated);
        let push = push.addr(codes).addr(y);
        let push = push.addr(self.b.codebooks.address()).addr(factors);
        let push = self.product_sizes(push, parts, extras.gated, (info.cols, m, self.width(out)));
        let scale = |i: usize| parts.get(i).map_or(1.0, |p| p.scale);
        let tile = tiles::mat_tile(self.b.device.caps(), packed.direct, info.format, (m, n), extras);
        let came = self.link.filter(|link| link.v == x);
        let sends = if extras.add && came.is_none() { self.link(self.at) } else { None }; // there is room for one link
        let eps = came.and(self.norms.get(&x)).map_or(0.0, |norm| norm.eps);
        let push = push.word(flags | n << 8).float(eps).float(scale(0)).float(scale(1)).float(scale(2));
        let link = came.or(sends).map(|link| self.link_at(link)).transpose()?;
        let push = if tile.kernel == tiles::FEW_KERNEL { push.addr(link.unwrap_or(0)) } else { push };
        let grid = [tile.groups as usize, n.div_ceil(tile.columns()), 1];
        let mut spec = tile.spec(info.cols, extras);
        spec.extend(passed.map(|(layout, _, _)| ("PASSED", layout)));
        spec.extend(sends.iter().flat_map(|link| [("SENT", link.layouts[0]), ("SENT_2", link.layouts[1])]));
        spec.extend(came.map(|_| ("NORMED", 1)));
        self.dispatch(tile.kernel, Some(info.format.stem), &spec, push, grid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gated_units_are_multiplied_by_what_the_shader_divides_them_by() {
        let source = include_str!("../../../shaders/glsl/gemm_few.comp");
        assert!(source.contains(&format!("#define PASSED_SCALE {}\n", 1.0 / GATED_FACTOR)));
    }
}
