//! Ops on groups of columns: maps, norms, rotations, positions, a matrix for each group.

use super::dispatch::{Access, Module, Place, Touched};
use super::Lowering;
use crate::policy;
use crate::policy::matrix::chunk_len;
use pumex_gguf::{Error, Result};
use pumex_plan::{
    Act, AdapterScales, Arg, ById, Cols, Dot, General, HeadMatMul, Join, Map, MatPart, NormKind, Normalize, RopeStyle,
    Rotate, Rows, TakeVectors, Val, Weight,
};
use pumex_quant::FormatId;
use pumex_shaders::{constants as c, push};

/// Threads of a workgroup that takes numbers one by one.
pub(super) const THREADS: u32 = 64;
/// Widest group of columns that a subgroup norms by itself.
const NARROW: usize = 256;
/// Inputs that are read at a time where the kernels of products read them: rows of others are read number by number.
pub(super) const INPUTS: usize = 32;

/// Outputs, and rows, of a workgroup of `gemm_tile`.
pub(super) const GEMM_TILE: usize = 64;

/// An op on rows with a matrix per group of columns, or one for all of them.
struct HeadProduct {
    part: MatPart,
    heads: usize,
    x: Cols,
    out: Cols,
    add: bool,
}

impl Lowering<'_> {
    pub(super) fn general(&mut self, op: &General) -> Result<()> {
        for w in op.vectors() {
            if !matches!(op, General::Positions { .. }) {
                self.check_floats(w, op.name())?;
            }
        }
        match op {
            General::Map(m) => self.map(m),
            General::Dot(d) => self.dot(d),
            General::Normalize(n) => self.normalize(n),
            General::Rotate(r) => self.rotate(r),
            General::Positions { weight, out } => self.positions(*weight, *out),
            General::ById(b) => self.by_id(b),
            General::TakeVectors(t) => self.take_vectors(t),
            General::AdapterScales(s) => self.scale_adapters(s),
            General::HeadMatMul(h) => self.head_matmul(h),
            General::Choose(c) => self.choose(c),
            General::ExpertsMatMul(e) => self.experts_matmul(e),
            General::ExpertsBias(b) => self.experts_bias(b),
            General::Conv(c) => self.conv(c),
            General::Shift(s) => self.shift(s),
            General::Scan(s) => self.scan(s),
            General::Mix(m) => self.mix(m),
            General::Softmax(s) => self.softmax(s),
            General::StreamGates(g) => self.stream_gates(g),
            General::Pool(p) => self.pool(p),
            General::ChooseBlocks(c) => self.choose_blocks(c),
            General::AttendBlocks(a) => self.attend_blocks(a),
            General::ChoosePositions(c) => self.choose_positions(c),
        }
        Ok(())
    }

    /// Fails on a weight that a kernel would take for floats and that is none.
    pub(super) fn check_floats(&self, w: Weight, op: &str) -> Result<()> {
        let info = &self.plan.weights[w.0];
        if info.format.id == FormatId::F32 {
            return Ok(());
        }
        let what = format!("{}: expected F32 for {op}, found {}", info.name, info.format.name);
        Err(Error::Request(format!("{what}; try --device cpu")))
    }

    /// Where the first group of columns starts.
    pub(super) fn at(&self, cols: Cols) -> u64 {
        self.val(cols.val) + 4 * cols.at as u64
    }

    /// All groups of columns, with what lies between them.
    pub(super) fn groups(&self, cols: Cols, groups: usize, len: usize) -> Access {
        self.columns(cols.val, cols.at, groups.saturating_sub(1) * cols.stride + len)
    }

    /// Numbers of a weight.
    fn numbers(&self, w: Weight) -> u32 {
        let info = &self.plan.weights[w.0];
        (info.rows * info.cols) as u32
    }

    fn map(&mut self, m: &Map) {
        let shape = (m.groups, m.len);
        let of = self.of_columns([m.a, m.b], shape, (m.act, m.scale), m.out);
        let outputs = self.plan.values[m.out.val.0].rows == Rows::Output;
        let rows = ("OUTPUT_ROWS", u32::from(outputs));
        let own = [("SIZE", THREADS), ("TIMES", u32::from(m.join == Join::Mul)), rows];
        let grid = [(m.groups * m.len).div_ceil(THREADS as usize), self.rows_of(m.out.val), 1];
        let touched = Touched { reads: of.reads, writes: vec![self.groups(m.out, m.groups, m.len)] };
        self.emit(Module::of("map"), [&own[..], &of.constants].concat(), of.push, grid, touched);
    }

    fn dot(&mut self, d: &Dot) {
        let of = self.of_columns([d.a, d.b], (d.groups, d.len), (d.act, d.scale), d.out);
        let caps = self.t.caps;
        let threads = if d.len <= NARROW { caps.subgroup_size } else { policy::row_threads(caps) };
        let touched = Touched { reads: of.reads, writes: vec![self.groups(d.out, d.groups, 1)] };
        let constants = [&[("SIZE", threads)][..], &of.constants].concat();
        self.emit(Module::of("dot"), constants, of.push, [self.shape.rows, d.groups, 1], touched);
    }

    /// What maps and dot products of two operands have in common.
    fn of_columns(&self, operands: [Arg; 2], shape: (usize, usize), of: (Act, f32), out: Cols) -> OfColumns {
        let [a, b] = operands.map(|arg| self.operand(arg, shape));
        let (act, p) = act(of.0);
        let push = push::Map {
            a: a.at,
            b: b.at,
            y: self.at(out),
            params: self.t.at.params,
            a_stride: a.stride,
            a_width: a.width,
            b_stride: b.stride,
            b_width: b.width,
            y_stride: out.stride as u32,
            y_width: self.width(out.val) as u32,
            groups: shape.0 as u32,
            len: shape.1 as u32,
            scale: of.1,
            a_number: a.number,
            b_number: b.number,
            p,
        };
        let constants = [("ACT", act), ("A_KIND", a.kind), ("B_KIND", b.kind)];
        OfColumns { push, constants, reads: a.read.into_iter().chain(b.read).collect() }
    }

    fn operand(&self, arg: Arg, (groups, len): (usize, usize)) -> Operand {
        let none = Operand { kind: c::OPERAND_NUMBER, at: 0, stride: 0, width: 0, number: 0.0, read: None };
        let weight = |kind, w: Weight| {
            let read = self.matrices([w]).pop();
            Operand { kind, at: self.weight(w), width: self.numbers(w), read, ..none }
        };
        let columns = |kind, cols: Cols, len| Operand {
            kind,
            at: self.at(cols),
            stride: cols.stride as u32,
            width: self.width(cols.val) as u32,
            read: Some(self.groups(cols, groups, len)),
            ..none
        };
        match arg {
            Arg::Cols(cols) => columns(c::OPERAND_COLUMNS, cols, len),
            Arg::PerGroup(cols) => columns(c::OPERAND_PER_GROUP, cols, 1),
            Arg::Weight(w) => weight(c::OPERAND_WEIGHT, w),
            Arg::GroupWeight(w) => weight(c::OPERAND_GROUP_WEIGHT, w),
            Arg::Table(t) => {
                let at = self.numbers_at(t);
                Operand { kind: c::OPERAND_WEIGHT, at, width: self.plan.numbers[t].len() as u32, ..none }
            }
            Arg::Number(number) => Operand { number, ..none },
        }
    }

    fn normalize(&mut self, n: &Normalize) {
        let rows = |v: Val| self.plan.values[v.0].rows;
        let outputs = match (rows(n.x.val), rows(n.out.val)) {
            (_, Rows::Step) => 0,
            (Rows::Output, Rows::Output) => 1,
            (Rows::Step, Rows::Output) => 2,
        };
        let caps = self.t.caps;
        let threads = if n.len <= NARROW { caps.subgroup_size } else { policy::row_threads(caps) };
        let push = push::Normalize {
            x: self.at(n.x),
            weight: self.opt(n.weight),
            bias: self.opt(n.bias),
            y: self.at(n.out),
            gate: n.gate.map_or(0, |g| self.at(g.cols)),
            params: self.t.at.params,
            x_stride: n.x.stride as u32,
            x_width: self.width(n.x.val) as u32,
            y_stride: n.out.stride as u32,
            y_width: self.width(n.out.val) as u32,
            gate_stride: n.gate.map_or(0, |g| g.cols.stride as u32),
            gate_width: n.gate.map_or(0, |g| self.width(g.cols.val) as u32),
            weights: n.weight.map_or(0, |w| self.numbers(w)),
            biases: n.bias.map_or(0, |w| self.numbers(w)),
            eps: n.eps,
        };
        let kind = match n.kind {
            NormKind::Rms => c::NORM_RMS,
            NormKind::Layer => c::NORM_LAYER,
            NormKind::L2 => c::NORM_L2,
            NormKind::Unit => c::NORM_UNIT,
        };
        let fours = self.four_at_a_time(&[Some(n.x), Some(n.out), n.gate.map(|g| g.cols)], n.len);
        let constants = vec![
            ("SIZE", threads),
            ("KIND", kind),
            ("WEIGHTED", u32::from(n.weight.is_some())),
            ("BIASED", u32::from(n.bias.is_some())),
            ("OUTPUT_ROWS", outputs),
            ("LEN", n.len as u32),
            ("FOURS", u32::from(fours)),
            ("GATED", n.gate.map_or(0, |g| 1 + u32::from(g.first))),
            ("ACT", n.gate.map_or(0, |g| act(g.act).0)),
        ];
        let weights = self.matrices([n.weight, n.bias].into_iter().flatten());
        let gate = n.gate.map(|g| self.groups(g.cols, n.groups, n.len));
        let reads = [vec![self.groups(n.x, n.groups, n.len)], gate.into_iter().collect(), weights].concat();
        let (grid, writes) = ([self.rows_of(n.out.val), n.groups, 1], vec![self.groups(n.out, n.groups, n.len)]);
        self.emit(Module::of("normalize"), constants, push, grid, Touched { reads, writes });
    }

    /// Whether groups of `len` columns can be read and written four at a time.
    fn four_at_a_time(&self, columns: &[Option<Cols>], len: usize) -> bool {
        let fours = |c: &Cols| [c.at, c.stride, self.width(c.val), len].iter().all(|n| n.is_multiple_of(4));
        columns.iter().flatten().all(fours)
    }

    fn rotate(&mut self, r: &Rotate) {
        let (dims, temperature) = (r.rope.dims, r.temperature);
        let items = dims / 2 + if temperature.is_some() { r.len.saturating_sub(dims) } else { 0 };
        if items == 0 {
            return;
        }
        let from = r.from.unwrap_or(r.x);
        let push = push::Rotate {
            x: self.at(r.x),
            from: self.at(from),
            inv_freq: self.table_at(r.rope.table),
            params: self.t.at.params,
            stride: r.x.stride as u32,
            width: self.width(r.x.val) as u32,
            from_stride: from.stride as u32,
            from_width: self.width(from.val) as u32,
            every: r.every,
            groups: r.groups as u32,
            dims: dims as u32,
            len: r.len as u32,
            magnitude: r.magnitude,
            temper_scale: temperature.map_or(0.0, |t| t.scale),
            temper_floor: temperature.map_or(1.0, |t| t.floor as f32),
            temper_offset: temperature.map_or(0.0, |t| t.offset),
        };
        let mut constants = vec![
            ("SIZE", THREADS),
            ("NEOX", u32::from(r.rope.style == RopeStyle::Neox)),
            ("BACK", u32::from(r.back)),
            ("TEMPERED", u32::from(temperature.is_some())),
        ];
        constants.extend(self.streams());
        let grid = [(r.groups * items).div_ceil(THREADS as usize), self.shape.rows, 1];
        let [read, written] = [from, r.x].map(|cols| self.groups(cols, r.groups, r.len.max(dims)));
        let touched = Touched { reads: vec![read], writes: vec![written] };
        self.emit(Module::of("rotate"), constants, push, grid, touched);
    }

    fn positions(&mut self, weight: Weight, out: Val) {
        let info = &self.plan.weights[weight.0];
        let push = push::Positions {
            w: self.weight(weight),
            y: self.val(out),
            params: self.t.at.params,
            tables: self.t.at.codebooks,
            positions: info.rows as u32,
            dim: info.cols as u32,
        };
        let (rows, row_bytes) = (self.shape.rows, info.len_bytes() / info.rows.max(1) as u64);
        let read = Access { bytes: row_bytes * rows as u64, ..self.matrices([weight]).remove(0) };
        let touched = Touched { reads: vec![read, self.value(out)], writes: vec![self.value(out)] };
        let constants = vec![("SIZE", THREADS), ("SOA", self.soa())];
        self.emit(Module::with("positions", info.format.stem), constants, push, [rows, 1, 1], touched);
    }

    fn by_id(&mut self, b: &ById) {
        let push = push::ById {
            list: self.numbers_at(b.list),
            y: self.val(b.out),
            params: self.t.at.params,
            sampled: self.t.at.sampled,
            entries: (self.plan.numbers[b.list].len() / (1 + b.len)) as u32,
            len: b.len as u32,
        };
        let rows = self.shape.rows;
        let touched =
            Touched { reads: vec![Access::all(Place::Ids, 4 * rows as u64)], writes: vec![self.value(b.out)] };
        let grid = [b.len.div_ceil(THREADS as usize), rows, 1];
        self.emit(Module::of("by_id"), vec![("SIZE", THREADS)], push, grid, touched);
    }

    fn take_vectors(&mut self, t: &TakeVectors) {
        let (dim, rows) = (self.width(t.out), self.shape.rows);
        let push = push::TakeVectors {
            vectors: self.t.at.vectors,
            y: self.val(t.out),
            params: self.t.at.params,
            width: self.plan.vectors as u32,
            at: (t.part * dim) as u32,
            dim: dim as u32,
        };
        let touched = Touched { reads: vec![self.value(t.out)], writes: vec![self.value(t.out)] };
        let constants = vec![("SIZE", THREADS), ("ADD", u32::from(t.add))];
        self.emit(Module::of("take_vectors"), constants, push, [dim.div_ceil(THREADS as usize), rows, 1], touched);
    }

    fn scale_adapters(&mut self, s: &AdapterScales) {
        let (width, output) = (self.width(s.out), self.plan.values[s.out.0].rows == Rows::Output);
        let push = push::AdapterScales {
            scales: self.t.at.adapter_scales,
            list: self.numbers_at(s.list),
            y: self.val(s.out),
            params: self.t.at.params,
            adapters: self.plan.adapters as u32,
            len: self.plan.numbers[s.list].len() as u32,
            width: width as u32,
        };
        let rows = if output { self.shape.outputs } else { self.shape.rows };
        let touched = Touched { reads: vec![self.value(s.out)], writes: vec![self.value(s.out)] };
        let constants = vec![("SIZE", THREADS), ("OUTPUTS", u32::from(output))];
        let grid = [width.div_ceil(THREADS as usize), rows, 1];
        self.emit(Module::of("adapter_scales"), constants, push, grid, touched);
    }

    fn head_matmul(&mut self, h: &HeadMatMul) {
        let part = MatPart { weight: h.weight, bias: None, scale: 1.0 };
        self.head_product(&HeadProduct { part, heads: h.heads, x: h.x, out: h.out, add: false });
    }

    /// A product with a matrix whose rows are too short for the kernels of products.
    pub(super) fn short_product(&mut self, x: Val, part: &MatPart, add: bool, out: Val, y_at: usize) {
        let (x, out) = (Cols { val: x, at: 0, stride: 0 }, Cols { val: out, at: y_at, stride: 0 });
        self.head_product(&HeadProduct { part: *part, heads: 1, x, out, add });
    }

    fn head_product(&mut self, p: &HeadProduct) {
        let info = &self.plan.weights[p.part.weight.0];
        let (m, k, n) = (info.rows / p.heads, info.cols, self.rows_of(p.out.val));
        let (x_width, singly) = (self.width(p.x.val), !k.is_multiple_of(INPUTS));
        let aligned = [p.x.at, p.x.stride, x_width].iter().all(|at| at.is_multiple_of(4));
        let written = self.groups(p.out, p.heads, m);
        let mut reads = self.matrices(std::iter::once(p.part.weight).chain(p.part.bias));
        reads.push(self.groups(p.x, p.heads, k));
        reads.extend(p.add.then(|| written.clone()));
        let touched = Touched { reads, writes: vec![written] };
        if n > policy::GEMV_MAX_COLS && aligned && !singly {
            return self.head_product_by_tiles(p, (m, n, k), touched);
        }
        let push = push::HeadMatMul {
            w: self.weight(p.part.weight),
            bias: self.opt(p.part.bias),
            x: self.at(p.x),
            y: self.at(p.out),
            tables: self.t.at.codebooks,
            k: k as u32,
            m: m as u32,
            n: n as u32,
            x_stride: p.x.stride as u32,
            x_width: x_width as u32,
            y_stride: p.out.stride as u32,
            y_width: self.width(p.out.val) as u32,
            flags: u32::from(p.part.bias.is_some()),
            scale: p.part.scale,
        };
        // Threads of an output: no more than it has chunks.
        let chunks = if singly { k.div_ceil(4) } else { k / chunk_len(info.format) };
        let lanes = 1 << chunks.clamp(1, THREADS as usize).ilog2();
        let cols = n.clamp(1, policy::GEMV_MAX_COLS);
        let constants = vec![
            ("SIZE", THREADS),
            ("LANES", lanes),
            ("COLS", cols as u32),
            ("ADD", u32::from(p.add)),
            ("ALIGNED", u32::from(aligned)),
            ("SINGLY", u32::from(singly)),
            // Rows of floats lie as in the file, where a structure of arrays would have them start at multiples of 16 bytes.
            ("SOA", if singly { 0 } else { self.soa() }),
        ];
        let grid = [m.div_ceil((THREADS / lanes) as usize), p.heads, n.div_ceil(cols)];
        self.emit(Module::with("head_matmul", info.format.stem), constants, push, grid, touched);
    }

    /// Products of many rows with the matrices of all heads.
    fn head_product_by_tiles(&mut self, p: &HeadProduct, (m, n, k): (usize, usize, usize), touched: Touched) {
        let info = &self.plan.weights[p.part.weight.0];
        let push = push::Gemm {
            w: self.weight(p.part.weight),
            bias: self.opt(p.part.bias),
            x: self.at(p.x),
            y: self.at(p.out),
            tables: self.t.at.codebooks,
            k: k as u32,
            m: m as u32,
            n: n as u32,
            y_stride: self.width(p.out.val) as u32,
            y_at: 0,
            flags: u32::from(p.part.bias.is_some()),
            scale: p.part.scale,
            x_width: self.width(p.x.val) as u32,
            x_head: p.x.stride as u32,
            y_head: p.out.stride as u32,
        };
        let constants = vec![("EPILOGUE", u32::from(p.add)), ("HEADS", 1), ("SOA", self.soa())];
        let grid = [m.div_ceil(GEMM_TILE), n.div_ceil(GEMM_TILE), p.heads];
        self.emit(Module::with("gemm_tile", info.format.stem), constants, push, grid, touched);
    }
}

/// What maps and dot products of two operands have in common.
struct OfColumns {
    push: push::Map,
    constants: [(&'static str, u32); 3],
    reads: Vec<Access>,
}

/// An operand of a map or a dot product, as the kernel takes it.
struct Operand {
    kind: u32,
    at: u64,
    stride: u32,
    width: u32,
    number: f32,
    read: Option<Access>,
}

/// The number of a function, and what it is of beside its argument.
pub(super) fn act(act: Act) -> (u32, [f32; 4]) {
    let plain = |number| (number, [0.0; 4]);
    match act {
        Act::Same => plain(c::ACT_SAME),
        Act::Silu => plain(c::ACT_SILU),
        Act::Gelu => plain(c::ACT_GELU),
        Act::GeluErf => plain(c::ACT_GELU_ERF),
        Act::GeluQuick => plain(c::ACT_GELU_QUICK),
        Act::Relu => plain(c::ACT_RELU),
        Act::ReluSquared => plain(c::ACT_RELU_SQUARED),
        Act::Sigmoid => plain(c::ACT_SIGMOID),
        Act::Tanh => plain(c::ACT_TANH),
        Act::Softplus => plain(c::ACT_SOFTPLUS),
        Act::Exp => plain(c::ACT_EXP),
        Act::Inverse => plain(c::ACT_INVERSE),
        Act::Sqrt => plain(c::ACT_SQRT),
        Act::Clamp(low, high) => (c::ACT_CLAMP, [low, high, 0.0, 0.0]),
        Act::SoftCap(cap) => (c::ACT_SOFT_CAP, [cap, 0.0, 0.0, 0.0]),
        Act::SiluClamped(alpha, limit) => (c::ACT_SILU_CLAMPED, [alpha, limit, 0.0, 0.0]),
        Act::Situ(cap) => (c::ACT_SITU, [cap, 0.0, 0.0, 0.0]),
        Act::Xielu(p) => (c::ACT_XIELU, p),
    }
}
