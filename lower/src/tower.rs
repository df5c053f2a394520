//! An encoder's graph → dispatches, as plain data: every op becomes one or two. Values lie in one scratch arena, a buffer from the op
//! that first writes it to the last that reads it; tables, spans and picks in a buffer of constants.

mod attend;
mod constants;
mod dry_run;
mod memory;
mod ops;
mod product;

use super::dispatch::{self, Access, Dispatch, Module, Place, Push, Touched};
use crate::policy;
use constants::Constants;
pub use dry_run::{explain, step_bytes};
pub use product::{stored, Stored};
use pumex_gguf::Result;
use pumex_media::graph::{Graph, Op, Part, Val, Weight};
use pumex_plan::{Placement, Val as PlanVal};
use pumex_vk::Caps;

/// Threads of a workgroup of kernels that take numbers one by one: every device has so many.
const THREADS: usize = 128;
/// Most workgroups side by side: every device takes so many.
const MOST_WIDE: usize = 1 << 15;

/// What lowering asks of a device, and where things lie.
#[derive(Clone, Copy)]
pub struct TowerTarget<'a> {
    /// The device.
    pub caps: &'a Caps,
    /// Matrices of products lie as structures of arrays.
    pub soa: bool,
    /// Threads hold cooperative matrices as `gemm_panels` expects.
    pub panels: bool,
    /// And as `tower_attend_fragments` does.
    pub fragments: bool,
    /// Each weight of the graph, in its order.
    pub weights: &'a [WeightAt],
    /// Where the rest lies.
    pub at: TowerAddresses,
}

/// A weight on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightAt {
    /// Its address.
    pub at: u64,
    /// How it is stored.
    pub stored: Stored,
}

/// Addresses of what a graph runs in; any will do to learn sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TowerAddresses {
    /// Scratch arena.
    pub arena: u64,
    /// Words of [`LoweredTower::constants`].
    pub constants: u64,
    /// Tables of all weight formats.
    pub tables: u64,
}

/// A graph's dispatches, and what they need.
#[derive(Clone, Debug)]
pub struct LoweredTower {
    /// Where the graph's buffers lie in the arena, and behind them what single ops need.
    pub places: Placement,
    /// Words that kernels read.
    pub constants: Vec<u32>,
    /// The dispatches in order.
    pub dispatches: Vec<Dispatch>,
    /// Whether a barrier stands before each.
    pub barriers: Vec<bool>,
}

/// Lowers a graph.
///
/// # Errors
/// An op of a kind or size that no kernel does.
pub fn lower(graph: &Graph, target: &TowerTarget<'_>) -> Result<LoweredTower> {
    // Once to learn what ops need beside the graph's buffers, and once with all in its place.
    let unplaced = Placement { offsets: Vec::new(), len_bytes: 0, sizes: Vec::new() };
    let asked = Lowering::new(graph, target, &unplaced).ops()?.scratch;
    let places = memory::places(graph, &asked);
    let Lowering { dispatches, constants, .. } = Lowering::new(graph, target, &places).ops()?;
    let barriers = dispatch::barriers(&dispatches, &places);
    Ok(LoweredTower { constants: constants.words, dispatches, barriers, places })
}

/// Bytes that are in use from one op to another.
#[derive(Clone, Copy)]
struct Scratch {
    ops: (usize, usize),
    bytes: u64,
}

/// Ops on their way to dispatches.
struct Lowering<'a> {
    t: &'a TowerTarget<'a>,
    graph: &'a Graph,
    places: &'a Placement,
    constants: Constants,
    /// Index of the op.
    op: usize,
    /// What ops need beside the graph's buffers.
    scratch: Vec<Scratch>,
    /// Rows that were packed last, as long as they are what they were.
    packed: Option<product::Packed>,
    dispatches: Vec<Dispatch>,
}

impl<'a> Lowering<'a> {
    fn new(graph: &'a Graph, t: &'a TowerTarget<'a>, places: &'a Placement) -> Lowering<'a> {
        let constants = Constants::new(graph);
        Lowering { t, graph, places, constants, op: 0, scratch: Vec::new(), packed: None, dispatches: Vec::new() }
    }

    fn ops(mut self) -> Result<Self> {
        let graph = self.graph;
        let zeroed = memory::zeroed(graph);
        for (i, op) in graph.ops.iter().enumerate() {
            self.op = i;
            if zeroed.contains(&i) {
                self.zero(op.output());
            }
            self.lower(op)?;
            let written = graph.view(op.output()).buffer;
            self.packed = self.packed.take().filter(|packed| graph.view(packed.x.val).buffer != written);
        }
        Ok(self)
    }

    fn lower(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::MatMul { x, weight, bias, out } => self.matmul(*x, *weight, *bias, *out),
            Op::HeadProducts { a, b, heads, out } => self.head_products(*a, *b, *heads, *out),
            Op::Unfold { x, window, out } => self.unfold(*x, window, *out),
            Op::Depthwise { x, window, weight, bias, out } => self.depthwise(*x, window, (*weight, *bias), *out),
            Op::Norm { kind, x, groups, weight, bias, eps, out } => {
                self.norm(*kind, *x, *groups, (*weight, *bias), *eps, *out);
            }
            Op::GlobalResponse { x, weight, bias, eps, out } => self.global_response(*x, (*weight, *bias), *eps, *out),
            Op::Map { act, a, scale, join, out } => self.map(*act, *a, *scale, join.as_ref(), *out),
            Op::Pick { x, picks, out } => self.pick(*x, *picks, *out),
            Op::Permute { x, dims, out } => return self.permute(*x, dims, *out),
            Op::Copy { x, out, row, col } => self.copy(*x, *out, (*row, *col)),
            Op::Load { weight, out } => self.load(*weight, *out),
            Op::Rotate { x, heads, at, dims, pairs, table } => self.rotate(*x, *heads, (*at, *dims), *pairs, *table),
            Op::Attend { .. } => self.attend(op),
            Op::Choose { x, bias, k, out } => self.choose(*x, *bias, *k, *out),
            Op::Nearest { x, codes, values, out } => return self.nearest(*x, *codes, *values, *out),
            Op::Softmax { x, out } => self.softmax(*x, *out),
        }
        Ok(())
    }

    /// Adds a dispatch for the op.
    fn emit(
        &mut self,
        module: Module,
        constants: Vec<(&'static str, u32)>,
        push: impl Into<Push>,
        grid: [usize; 3],
        touched: Touched,
    ) {
        let (op, push, grid) = (self.op, push.into(), grid.map(|g| g as u32));
        let (Module { kernel, format }, Touched { reads, writes }) = (module, touched);
        self.dispatches.push(Dispatch { op, kernel, format, constants, push, grid, reads, writes, query: None });
    }

    /// A kernel with a thread for each of `count` numbers.
    fn by_number(&mut self, kernel: &'static str, push: impl Into<Push>, count: usize, touched: Touched) {
        let spec = vec![("SIZE", THREADS as u32)];
        self.emit(Module::of(kernel), spec, push, grid(count.div_ceil(THREADS)), touched);
    }

    /// A kernel with a workgroup for each of `count` rows or groups of columns.
    fn by_group(&mut self, kernel: &'static str, push: impl Into<Push>, count: usize, touched: Touched) {
        let spec = vec![("SIZE", policy::row_threads(self.t.caps))];
        self.emit(Module::of(kernel), spec, push, grid(count), touched);
    }

    fn rows(&self, x: Val) -> usize {
        self.graph.view(x).rows
    }

    fn cols(&self, x: Val) -> usize {
        self.graph.view(x).cols
    }

    fn all(&self, x: Val) -> Part {
        Part { val: x, at: 0, cols: self.cols(x) }
    }

    /// Numbers of a value.
    fn count(&self, x: Val) -> usize {
        self.rows(x) * self.cols(x)
    }

    /// Byte of the arena where a buffer starts.
    fn offset(&self, buffer: usize) -> u64 {
        self.places.offsets.get(buffer).copied().unwrap_or(0)
    }

    fn at(&self, x: Val) -> u64 {
        self.t.at.arena + self.offset(self.graph.view(x).buffer)
    }

    /// Where the first column of a part is.
    fn part_at(&self, x: Part) -> u64 {
        self.at(x.val) + 4 * x.at as u64
    }

    fn weight_at(&self, w: Weight) -> u64 {
        self.t.weights[w.0].at
    }

    fn opt(&self, w: Option<Weight>) -> u64 {
        w.map_or(0, |w| self.weight_at(w))
    }

    /// Bytes of the arena for this op alone: where they lie, and the access of all of them.
    fn scratch(&mut self, bytes: u64) -> (u64, Access) {
        let value = self.graph.buffers.len() + self.scratch.len();
        self.scratch.push(Scratch { ops: (self.op, self.op), bytes });
        (self.t.at.arena + self.offset(value), Access::all(Place::Value(PlanVal(value)), bytes))
    }

    /// Numbers `from` to `to` of a value's buffer, of which `count` are touched.
    fn numbers(&self, x: Val, (from, to): (usize, usize), count: usize) -> Access {
        let place = Place::Value(PlanVal(self.graph.view(x).buffer));
        Access { range: from..to, ..Access::all(place, 4 * count as u64) }
    }

    /// Columns of all rows.
    fn part(&self, x: Part) -> Access {
        let view = self.graph.view(x.val);
        self.numbers(x.val, (x.at, (view.rows - 1) * view.cols + x.at + x.cols), view.rows * x.cols)
    }

    fn value(&self, x: Val) -> Access {
        self.part(self.all(x))
    }

    /// Reads and writes of an op on values alone.
    fn touched(&self, reads: &[Val], out: Val) -> Touched {
        Touched { reads: reads.iter().map(|x| self.value(*x)).collect(), writes: vec![self.value(out)] }
    }
}

/// A grid of `groups` workgroups, which has a second dimension where the first has not room for all.
fn grid(groups: usize) -> [usize; 3] {
    let wide = groups.clamp(1, MOST_WIDE);
    [wide, groups.div_ceil(wide), 1]
}
