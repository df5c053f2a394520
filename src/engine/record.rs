//! Plan + choices → one recorded command buffer per step shape. Nothing that changes per token is in it.

mod attend;
mod chain;
mod matrix;
mod product;
mod route;
mod runs;

use super::draw::MAX_K;
use super::CacheType;
use crate::kernel::{Kernels, Key};
use crate::plan::{Access, Cache, MatPart, Op, Placement, Plan, Rope, RopeStyle, Rows, Val, Weight};
use crate::policy::{self, Activations};
use crate::vk::{self, Buffer, Caps, Class, Device, Recorder, Recording};
use crate::Result;
pub use chain::{run_at_once, Chain, TAGS};
pub use matrix::{held, Held, Packed};
use route::{Choice, Router};
use std::collections::{HashMap, HashSet};

/// The shape of a step: what its recording depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Which of the parameter slots it reads.
    pub slot: usize,
    /// Rows it has room for.
    pub rows: usize,
    /// Wanted rows it has room for; 0 leaves the head out.
    pub wanted: usize,
    /// Copies the logits to the host's buffer.
    pub logits: bool,
    /// Draws the ids instead of taking the largest logits.
    pub drawn: bool,
    /// Most query heads that a workgroup of attention takes.
    pub heads: usize,
    /// No two rows are of one sequence.
    pub apart: bool,
    /// Lets one dispatch do ops of one row that follow each other.
    pub chained: bool,
    /// Parts in which attention is among them; 0 where it is not.
    pub parts: u32,
    /// Takes the time.
    pub timed: bool,
    /// Takes it after every op, too.
    pub stamps: bool,
}

/// A recorded step.
pub struct Step {
    /// The commands.
    pub recording: Recording,
    /// What its stamps stand behind, in order; empty if it has none.
    pub stamped: Vec<Stamped>,
}

/// An op of the plan that a recording has a stamp behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// Index into the plan's ops; those that others do, or that no row wants, have no stamp.
    pub op: usize,
    /// Dispatches it takes.
    pub dispatches: u64,
}

/// Rows of a recording for a step of `n`: exact for few, then the next power of two.
pub fn bucket(n: usize, max_rows: usize) -> usize {
    if n <= policy::FEW_ROWS {
        n
    } else {
        n.next_power_of_two().min(max_rows)
    }
}

/// Everything on the device that recordings name.
pub struct Bound<'a> {
    /// The device.
    pub device: &'a Device,
    /// The plan.
    pub plan: &'a Plan,
    /// Places in the arena.
    pub placement: &'a Placement,
    /// Barriers before ops.
    pub barriers: &'a [bool],
    /// Weights in the plan's order.
    pub weights: &'a [Buffer],
    /// K and V per layer.
    pub caches: &'a [(Buffer, Buffer)],
    /// Lets one dispatch do several ops.
    pub fuse: bool,
    /// Positions a sequence may have.
    pub n_ctx: usize,
    /// Types of K and V.
    pub cache_types: (CacheType, CacheType),
    /// Tables of all formats.
    pub codebooks: &'a Buffer,
    /// Scratch arena.
    pub arena: &'a Buffer,
    /// `inv_freq` of RoPE.
    pub inv_freq: &'a Buffer,
    /// Sampled id per sequence.
    pub sampled: &'a Buffer,
    /// StepParams of the slot.
    pub params: &'a Buffer,
    /// Word of them where draws start.
    pub draws_at: usize,
    /// Ids for the host.
    pub ids: &'a Buffer,
    /// Where workgroups of one dispatch leave what the last of them joins, and count their arrivals.
    pub meeting: &'a Meeting,
    /// Products of one row follow each other in one dispatch, if they do.
    pub chain: Option<&'a Chain>,
    /// Codes of activations in products by integers.
    pub activations: Activations,
    /// Where a chain whose workgroups do not run at once says so.
    pub fault: &'a Buffer,
    /// Activations for cooperative matrices, if these are used.
    pub packed: Option<&'a Packed>,
    /// Sums of squares of the products' inputs, one after the other, if they are wanted.
    pub importance: Option<&'a Buffer>,
    /// Logits for the host.
    pub logits: Option<&'a Buffer>,
}

impl Bound<'_> {
    /// Whether steps of few rows attend by cooperative matrices.
    pub fn attends_by_matrices(&self) -> bool {
        let (k, v) = self.cache_types;
        let fits = policy::attn_mat_fits(self.plan.kv.head_dim) && k.becomes_halves() && v.becomes_halves();
        fits && self.packed.is_some_and(Packed::direct)
    }

    /// Whether steps of many rows do.
    pub fn attends_many_by_matrices(&self) -> bool {
        self.attends_by_matrices() && self.packed.is_some_and(Packed::ordered)
    }
}

/// Workgroups that share a row of logits when ids are drawn.
fn sample_parts(caps: &Caps, n_vocab: usize) -> usize {
    let (threads, loads) = policy::sample_tile(caps);
    n_vocab.div_ceil((threads * loads) as usize)
}

/// Memory for dispatches whose workgroups meet; the counters are zero between dispatches.
pub struct Meeting {
    /// What each found.
    pub found: Buffer,
    /// How many have arrived.
    pub arrivals: Buffer,
}

impl Meeting {
    /// Enough for every step of `plan` with up to `max_rows` rows, wanted or not.
    ///
    /// # Errors
    /// Memory that ran out, a lost device.
    pub fn new(device: &Device, plan: &Plan, max_rows: usize) -> Result<Meeting> {
        let caps = device.caps();
        let argmax = (1..=max_rows).map(|rows| 8 * rows * policy::argmax_parts(caps, rows)).max();
        let candidates = max_rows * sample_parts(caps, plan.n_vocab) * MAX_K;
        let (mut bytes, mut counters) = (argmax.unwrap_or(8).max(8 * candidates), max_rows);
        let mut known = HashSet::new(); // most layers are alike
        for op in &plan.ops {
            let Op::Attend { cache: c, .. } = op else { continue };
            if !known.insert((c.heads, c.kv_heads, c.head_dim)) {
                continue;
            }
            for rows in 1..=max_rows {
                for heads in 1..=policy::ATTN_HEADS {
                    let tile = policy::attn_tile(caps, c, rows, false, heads);
                    bytes = bytes.max(4 * rows * c.heads * tile.parts as usize * (4 + c.head_dim));
                }
                counters = counters.max(rows * c.heads);
            }
        }
        let found = device.buffer("found", bytes as u64, Class::Scratch)?;
        let arrivals = device.buffer("arrivals", 4 * counters as u64, Class::Scratch)?;
        vk::send(device, &arrivals, &vec![0; 4 * counters])?;
        Ok(Meeting { found, arrivals })
    }
}

/// Bytes of a kernel's push constants, appended in order.
#[derive(Default)]
struct Push(Vec<u8>);

impl Push {
    fn addr(mut self, a: u64) -> Self {
        self.0.extend(a.to_le_bytes());
        self
    }
    fn word(mut self, w: usize) -> Self {
        self.0.extend((w as u32).to_le_bytes());
        self
    }
    fn float(mut self, f: f32) -> Self {
        self.0.extend(f.to_le_bytes());
        self
    }
    fn padded(mut self, len: u32) -> Vec<u8> {
        self.0.resize(len as usize, 0);
        self.0
    }
}

/// A norm that products do themselves.
#[derive(Clone, Copy)]
struct Norm {
    x: Val,
    weight: Weight,
    eps: f32,
}

struct Writer<'a, 'b> {
    b: &'b Bound<'a>,
    kernels: &'b Kernels,
    /// The pipelines it takes, if only these are wanted.
    listed: Option<HashSet<Key>>,
    rec: Recorder,
    shape: Shape,
    /// By the normed value, which is not written then.
    norms: HashMap<Val, Norm>,
    /// By the row of q, k and v that attention rotates itself.
    ropes: HashMap<Val, RopeNorms>,
    /// By their logits, which the op that chooses the experts writes then.
    routers: HashMap<Val, Router>,
    /// The route whose rows were last dealt out to their experts.
    dealt: Option<Val>,
    /// Barriers there were when the packed activations were last read.
    packed_read: Option<u64>,
    /// The op.
    at: usize,
    /// The norm whose rows come packed, the addresses of all such, and where these will be.
    link: Option<matrix::Link>,
    links: Vec<u64>,
    links_buffer: Option<Buffer>,
    /// Which half of the powers the last norm's rows were over, once there was one.
    powers: usize,
    powers_known: bool,
    /// Products that will be one dispatch.
    open: Option<chain::Open>,
    /// Stages of all chains before it, and where they will be.
    program: Vec<u32>,
    program_buffer: Option<Buffer>,
    /// Tags that packets of the step have so far.
    tags: u32,
    /// What is recorded next must wait for what was recorded before.
    due: bool,
}

/// RoPE and the per-head norms before it.
type RopeNorms = (Rope, Option<Weight>, Option<Weight>);

/// Records the plan for `shape`.
///
/// # Errors
/// A pipeline that could not be built, a lost device.
pub fn record(bound: &Bound<'_>, kernels: &Kernels, shape: Shape) -> Result<Step> {
    write(bound, kernels, shape, None).map(|(step, _)| step)
}

/// The pipelines that a recording for `shape` takes; `bound` may hold any buffers as weights.
///
/// # Errors
/// A kernel that needs more than the device has.
pub fn pipelines(bound: &Bound<'_>, kernels: &Kernels, shape: Shape) -> Result<HashSet<Key>> {
    write(bound, kernels, shape, Some(HashSet::new())).map(|(_, listed)| listed)
}

fn write(
    bound: &Bound<'_>,
    kernels: &Kernels,
    shape: Shape,
    listed: Option<HashSet<Key>>,
) -> Result<(Step, HashSet<Key>)> {
    let stamps = if shape.stamps { bound.plan.ops.len() as u32 } else { 0 };
    let mut stamped = Vec::with_capacity(stamps as usize);
    let timed = shape.timed || shape.stamps;
    let device = bound.device;
    let rec = if timed { device.recorder_with_stamps(stamps)? } else { device.recorder_untimed()? };
    let (norms, ropes, routers) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut w = Writer {
        b: bound,
        kernels,
        listed,
        rec,
        shape,
        norms,
        ropes,
        routers,
        dealt: None,
        packed_read: None,
        at: 0,
        link: None,
        links: Vec::new(),
        links_buffer: None,
        powers: 0,
        powers_known: false,
        open: None,
        program: Vec::new(),
        program_buffer: None,
        tags: 0,
        due: false,
    };
    let inputs = if bound.importance.is_some() { bound.plan.inputs() } else { Vec::new() };
    let mut sums_at = 0;
    for (i, (op, barrier)) in bound.plan.ops.iter().zip(bound.barriers).enumerate() {
        if shape.wanted == 0 && w.is_head(op) {
            continue;
        }
        if w.folds(op) {
            continue;
        }
        let before = w.rec.dispatches();
        w.at = i;
        w.due |= *barrier;
        w.op(op)?;
        if let (Some(input), Some(sums)) = (inputs.iter().find(|input| input.op == i), bound.importance) {
            let push = Push::default().addr(w.val(input.x)).addr(sums.address() + 4 * sums_at as u64);
            let routed = input.routed;
            let push = push.addr(bound.params.address()).addr(routed.map_or(0, |r| w.val(r.route)));
            let push = push.word(input.cols).word(routed.map_or(1, |r| r.chosen.used));
            let mode = routed.map_or(0, |r| 1 + u32::from(r.apart));
            let grid = [(input.cols / 4).div_ceil(64), input.matrices(), 1];
            w.dispatch("square_sums", None, &[("EXPERTS", mode)], push, grid)?;
            sums_at += input.floats();
        }
        if shape.stamps {
            w.rec.stamp();
            stamped.push(Stamped { op: i, dispatches: w.rec.dispatches() - before });
        }
    }
    w.end_chain()?;
    w.send_program()?;
    w.send_links()?;
    if shape.wanted > 0 {
        if let (true, Some(host)) = (shape.logits, bound.logits) {
            let len = (shape.wanted * bound.plan.n_vocab * 4) as u64;
            w.rec.copy_barrier();
            w.rec.copy(bound.arena, bound.placement.offsets[bound.plan.logits.0], host, 0, len);
        }
        w.rec.host_barrier();
    }
    let meeting = [&bound.meeting.found, &bound.meeting.arrivals];
    let buffers = [bound.codebooks, bound.arena, bound.inv_freq, bound.sampled, bound.params, bound.ids];
    bound.weights.iter().chain(buffers).chain(meeting).chain(bound.importance).for_each(|b| w.rec.keep(b));
    bound.chain.iter().flat_map(|c| c.buffers()).for_each(|b| w.rec.keep(b));
    w.rec.keep(bound.fault);
    bound.packed.iter().flat_map(|p| p.buffers()).for_each(|b| w.rec.keep(b));
    bound.caches.iter().for_each(|(k, v)| {
        w.rec.keep(k);
        w.rec.keep(v);
    });
    Ok((Step { recording: w.rec.finish()?, stamped }, w.listed.unwrap_or_default()))
}

impl Writer<'_, '_> {
    /// Whether an op only serves the wanted rows.
    fn is_head(&self, op: &Op) -> bool {
        match op {
            Op::RmsNorm { out, .. } | Op::MatMul { out, .. } => self.b.plan.values[out.0].rows == Rows::Wanted,
            Op::Sample { .. } => true,
            _ => false,
        }
    }

    /// Whether `op` is a norm, RoPE or router's product that those reading its output will do, and notes it if so.
    fn folds(&mut self, op: &Op) -> bool {
        if !self.b.fuse {
            return false;
        }
        if let Op::MatMul { x, parts, add: false, out } = op {
            return self.folds_router(*x, parts, *out);
        }
        if let Op::RopeKv { qkv, rope, q_norm, k_norm, .. } = op {
            let all = self.shape.apart; // no other row of the step wants its k and v
            if all {
                self.ropes.insert(*qkv, (*rope, *q_norm, *k_norm));
            }
            return all;
        }
        let Op::RmsNorm { x, weight, eps, out } = op else { return false };
        let (plan, n) = (self.b.plan, self.rows_of(*out));
        let same_rows = plan.values[out.0].rows == Rows::Step || (self.shape.rows == 1 && n == 1);
        let reader_folds = |op: &Op| match op {
            Op::MatMul { parts, .. } => n <= policy::GEMV_MAX_COLS || self.by_matrices(parts, n),
            Op::GatedExperts { .. } => n <= policy::GEMV_MAX_COLS,
            Op::GatedMatMul { gate, up, .. } => self.gates_in_one(gate, up, n),
            _ => false,
        };
        let mut readers = plan.ops.iter().filter(|op| op.reads().contains(&Access::Value(*out)));
        let all = self.b.importance.is_none() && same_rows && readers.all(reader_folds);
        if all {
            self.norms.insert(*out, Norm { x: *x, weight: *weight, eps: *eps });
        }
        all
    }

    fn gates_in_one(&self, gate: &MatPart, up: &MatPart, n: usize) -> bool {
        let format = |p: &MatPart| self.b.plan.weights[p.weight.0].format.id;
        (n <= policy::GEMV_MAX_COLS || self.by_matrices(&[*gate, *up], n)) && format(gate) == format(up)
    }

    fn planes(&self) -> u32 {
        u32::from(self.b.device.stages_weights())
    }

    fn val(&self, v: Val) -> u64 {
        self.b.arena.address() + self.b.placement.offsets[v.0]
    }

    fn weight(&self, w: Weight) -> u64 {
        self.b.weights[w.0].address()
    }

    fn opt(&self, w: Option<Weight>) -> u64 {
        w.map_or(0, |w| self.weight(w))
    }

    fn width(&self, v: Val) -> usize {
        self.b.plan.values[v.0].width
    }

    fn rows_of(&self, v: Val) -> usize {
        match self.b.plan.values[v.0].rows {
            Rows::Step => self.shape.rows,
            Rows::Wanted => self.shape.wanted,
        }
    }

    fn dispatch(
        &mut self,
        kernel: &str,
        stem: Option<&str>,
        spec: &[(&str, u32)],
        push: Push,
        grid: [usize; 3],
    ) -> Result<()> {
        self.settle()?;
        if let Some(listed) = &mut self.listed {
            listed.insert(self.kernels.key(kernel, stem, spec)?);
            return Ok(());
        }
        let pipeline = self.kernels.get(kernel, stem, spec)?;
        let bytes = pumex_shaders::kernels::find(kernel).map_or(0, |k| k.push_bytes);
        self.rec.dispatch(&pipeline, &push.padded(bytes), grid.map(|g| g as u32));
        Ok(())
    }

    /// Records what is open and the barrier that is due.
    fn settle(&mut self) -> Result<()> {
        self.end_chain()?;
        if std::mem::take(&mut self.due) {
            self.rec.barrier();
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Result<()> {
        let caps = self.b.device.caps();
        let (threads, params) = (policy::row_threads(caps), self.b.params.address());
        match op {
            Op::Embed { weight, out } => {
                let (dim, stem) = (self.width(*out), self.b.plan.weights[weight.0].format.stem);
                let push = Push::default().addr(self.weight(*weight)).addr(self.val(*out)).addr(params);
                let push = push.addr(self.b.sampled.address()).addr(self.b.codebooks.address()).word(dim);
                self.dispatch(
                    "embed",
                    Some(stem),
                    &[("SIZE", 64), ("PLANES", self.planes())],
                    push,
                    [self.shape.rows, 1, 1],
                )
            }
            Op::RmsNorm { x, weight, eps, out } => {
                let push = Push::default().addr(self.val(*x)).addr(self.weight(*weight)).addr(self.val(*out));
                let push = push.addr(params).word(self.width(*x)).float(*eps);
                let wanted = u32::from(self.b.plan.values[out.0].rows == Rows::Wanted);
                let rows = self.rows_of(*out);
                self.dispatch("rms_norm", None, &[("SIZE", threads), ("WANTED", wanted)], push, [rows, 1, 1])
            }
            Op::MatMul { x, parts, add, out } => self.matmul(*x, parts, *add, *out),
            Op::GatedMatMul { x, gate, up, out } => self.gated(*x, gate, up, *out),
            Op::Route { logits, chosen, scale, scales, out } => {
                let choice = Choice { logits: *logits, chosen: *chosen, scale: *scale, scales, out: *out };
                match self.routers.get(logits).copied() {
                    Some(router) => self.router(router, &choice),
                    None => self.route(&choice),
                }
            }
            Op::GatedExperts { x, route, chosen, gate, up, out } => {
                self.experts(*x, *route, *chosen, &[*gate, *up], true, *out)
            }
            Op::ExpertsAdd { x, route, chosen, down, out } => self.experts(*x, *route, *chosen, &[*down], false, *out),
            Op::RopeKv { qkv, cache, rope, q_norm, k_norm } => self.rope_kv(*qkv, cache, rope, *q_norm, *k_norm),
            Op::Attend { qkv, cache, scale, out } => self.attend(*qkv, cache, *scale, *out),
            Op::Sample { logits } if self.shape.drawn => self.sample(*logits),
            Op::Sample { logits } => {
                let push = Push::default().addr(self.val(*logits)).addr(params).addr(self.b.sampled.address());
                let meeting = self.b.meeting;
                let push = push.addr(self.b.ids.address()).addr(meeting.found.address());
                let push = push.addr(meeting.arrivals.address()).word(self.b.plan.n_vocab);
                let parts = policy::argmax_parts(caps, self.shape.wanted);
                self.dispatch("argmax", None, &[("SIZE", threads)], push, [self.shape.wanted, parts, 1])
            }
        }
    }

    fn sample(&mut self, logits: Val) -> Result<()> {
        let (caps, meeting, vocab) = (self.b.device.caps(), self.b.meeting, self.b.plan.n_vocab);
        let push = Push::default().addr(self.val(logits)).addr(self.b.params.address()).addr(self.b.sampled.address());
        let push = push.addr(self.b.ids.address()).addr(meeting.found.address()).addr(meeting.arrivals.address());
        let (threads, loads) = policy::sample_tile(caps);
        let spec = [("SIZE", threads), ("LOADS", loads), ("K", MAX_K as u32)];
        let grid = [self.shape.wanted, sample_parts(caps, vocab), 1];
        self.dispatch("sample", None, &spec, push.word(vocab).word(self.b.draws_at), grid)
    }

    fn kv_spec(&self, cache: &Cache) -> [(&'static str, u32); 3] {
        let (k, v) = self.b.cache_types;
        [("K_TYPE", k as u32), ("V_TYPE", v as u32), ("HEAD_DIM", cache.head_dim as u32)]
    }

    fn rope_kv(
        &mut self,
        qkv: Val,
        cache: &Cache,
        rope: &Rope,
        q_norm: Option<Weight>,
        k_norm: Option<Weight>,
    ) -> Result<()> {
        let (k, v) = &self.b.caches[cache.layer];
        let push = Push::default().addr(self.val(qkv)).addr(self.opt(q_norm)).addr(self.opt(k_norm));
        let push = push.addr(self.b.inv_freq.address()).addr(k.address()).addr(v.address());
        let push = push.addr(self.b.params.address()).word(cache.heads).word(cache.kv_heads);
        let push = push.word(rope.dims).float(rope.norm_eps);
        let neox = u32::from(rope.style == RopeStyle::Neox);
        let mut spec = vec![("SIZE", 32), ("NEOX", neox), ("NORM", u32::from(q_norm.is_some()))];
        spec.extend(self.kv_spec(cache));
        self.dispatch("rope_kv", None, &spec, push, [self.shape.rows, cache.heads + 2 * cache.kv_heads, 1])
    }
}
