//! A plan and the shape of a step → dispatches, as plain data: no device is needed to see what would run.
//!
//! Passes merge what can be done at once, values get their places, every op becomes one dispatch or several (a file per
//! family of ops), and those of a single row go into the megakernel where it takes them. Barriers follow from what
//! dispatches declare to read and write.

pub mod policy;

mod attention;
mod cache;
mod chosen;
mod compressed;
pub mod dispatch;
pub mod dump;
mod experts;
mod fusion;
mod general;
mod many;
pub mod megakernel;
mod packing;
mod panels;
mod product;
mod recurrent;
mod route;
mod rows;
mod scan;
mod side_by_side;
pub mod sizes;
pub mod slabs;
mod streams;
pub mod target;
pub mod tower;

pub use cache::CacheType;
use dispatch::{Access, Dispatch, Module, Place, Push, Touched};
use megakernel::StageSource;
use policy::KernelQuery;
use pumex_gguf::Result;
use pumex_plan::{pass, Op, Placement, Plan, Rows, Val, Weight};
use pumex_vk::{Caps, TunedProduct};
pub use rows::MAX_K;
pub use target::{Addresses, PackedAt, Packing, RowPacking, Shape, StateAt, Target};

/// A step's dispatches, and what they name.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The plan as it runs: with ops merged.
    pub plan: Plan,
    /// Where its values lie.
    pub places: Placement,
    /// The dispatches in order.
    pub dispatches: Vec<Dispatch>,
    /// Whether a barrier stands before each.
    pub barriers: Vec<bool>,
    /// Words that kernels read at [`Addresses::words`]: stages of the megakernel, addresses of packed rows.
    pub words: Vec<u32>,
}

/// Lowers the plan for a shape.
///
/// # Errors
/// An op or a rule of attention that no kernel does.
pub fn lower(target: &Target<'_>, shape: Shape) -> Result<Lowered> {
    let plan = fuse_ops(target, shape);
    let places = Placement::new(&plan, target.max_rows, target.max_rows);
    let mut lowering = Lowering {
        t: target,
        plan: &plan,
        places: &places,
        shape,
        at: 0,
        tasks: Vec::new(),
        packs: packing::State::default(),
        permuted: None,
        words: Vec::new(),
    };
    lowering.ops()?;
    let (tasks, mut words) = (lowering.tasks, lowering.words);
    let dispatches = match target.megakernel.filter(|_| shape.megakernel && shape.rows == 1) {
        Some(kernel) => megakernel::group(kernel, target, (&plan, &places, shape), tasks, &mut words),
        None => tasks.into_iter().flat_map(|task| task.dispatches).collect(),
    };
    let barriers = dispatch::barriers(&dispatches, &places);
    Ok(Lowered { plan, places, dispatches, barriers, words })
}

impl Lowered {
    /// Products whose shapes can be tuned, each with its op.
    pub fn tunables(&self, caps: &Caps) -> Vec<(usize, TunedProduct)> {
        let of = |d: &Dispatch| {
            let mut candidates = d.candidates(caps).into_iter();
            let taken = candidates.find(|c| c.kernel == d.kernel && c.passed_over.is_none());
            taken.and_then(|taken| taken.tunable).map(|product| (d.op, product))
        };
        self.dispatches.iter().filter_map(of).collect()
    }
}

/// The plan with ops merged as a step of that shape can do them.
pub fn fuse_ops(target: &Target<'_>, shape: Shape) -> Plan {
    let mut plan = target.plan.plan_of(shape.source);
    if !shape.vectors {
        plan.to_mut().without_vectors();
    } else if shape.groups {
        plan.to_mut().with_groups();
    }
    if target.fuse {
        pass::fuse(&plan, &fusion::Rules { t: target, shape })
    } else {
        plan.into_owned()
    }
}

/// The dispatches of an op or of a part of it, and what the megakernel would make of them.
pub(crate) struct Task {
    op: usize,
    dispatches: Vec<Dispatch>,
    source: Option<StageSource>,
}

impl Task {
    /// Keeps what the kernel of its dispatch was chosen by.
    fn keep_query(&mut self, query: impl Into<KernelQuery>) {
        if let Some(dispatch) = self.dispatches.last_mut() {
            dispatch.query = Some(query.into());
        }
    }
}

/// An op on its way to dispatches.
struct Lowering<'a> {
    t: &'a Target<'a>,
    plan: &'a Plan,
    places: &'a Placement,
    shape: Shape,
    /// The op.
    at: usize,
    tasks: Vec<Task>,
    packs: packing::State,
    /// The route whose rows were last permuted for their experts, and columns of the runs.
    permuted: Option<(Val, usize)>,
    words: Vec<u32>,
}

impl Lowering<'_> {
    fn ops(&mut self) -> Result<()> {
        let plan = self.plan;
        let inputs = if self.t.importance { plan.inputs() } else { Vec::new() };
        // Sums of what an encoder multiplies stand before those of the other ops.
        let first = if self.t.importance { self.t.plan.ops_of(self.shape.source).start } else { 0 };
        let before = || self.t.plan.inputs().into_iter().filter(|input| input.op < first);
        let mut sums_at: usize = if first > 0 { before().map(|input| input.floats()).sum() } else { 0 };
        for (i, op) in plan.ops.iter().enumerate() {
            if self.shape.outputs == 0 && self.is_head(op) {
                continue;
            }
            self.at = i;
            self.op(op)?;
            if let Some(input) = inputs.iter().find(|input| input.op == i) {
                self.square_sums(input, sums_at);
                sums_at += input.floats();
            }
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Embed { weight, instead, out } => self.embed(*weight, *instead, *out),
            Op::RmsNorm { x, weight, eps, out } => self.rms_norm(*x, *weight, *eps, *out),
            Op::MatMul { x, norm, parts, add, out } => self.matmul(*x, *norm, parts, *add, *out),
            Op::GatedMatMul { x, norm, gate, up, by, out } => self.gated_matmul(*x, *norm, (gate, up, *by), *out),
            Op::Route { logits, router, top_k, scale, scales, out } => {
                let choice = route::ExpertChoice { logits: *logits, top_k: *top_k, scale: *scale, scales, out: *out };
                match router {
                    Some(router) => self.router(router, &choice),
                    None => self.route(&choice),
                }
            }
            Op::GatedExperts { x, norm, route, top_k, gate, up, biases, by, out } => {
                let of = (*x, *norm, *route, *top_k);
                self.experts(&experts::ExpertsProduct::new(of, Some(*by), *biases, *out), &[*gate, *up])?;
            }
            Op::ExpertsAdd { x, route, top_k, down, bias, out } => {
                let of = (*x, None, *route, *top_k);
                self.experts(&experts::ExpertsProduct::new(of, None, [*bias, None], *out), &[*down])?;
            }
            Op::RopeKv { qkv, spec, rope } => self.rope_kv(*qkv, spec, rope),
            Op::Attend { qkv, rope, spec, scale, out } => self.attend(*qkv, rope, spec, *scale, *out),
            Op::General(g) => self.general(g)?,
            Op::Sample { logits } if self.shape.sampled => self.sample(*logits),
            Op::Sample { logits } => self.argmax(*logits),
        }
        Ok(())
    }

    /// Whether an op only serves the output rows.
    fn is_head(&self, op: &Op) -> bool {
        match op {
            Op::General(g) => self.plan.values[g.output().0].rows == Rows::Output,
            Op::RmsNorm { out, .. } | Op::MatMul { out, .. } => self.plan.values[out.0].rows == Rows::Output,
            Op::Sample { .. } => true,
            _ => false,
        }
    }

    /// Adds a dispatch for the op as a task of its own.
    fn emit(
        &mut self,
        module: Module,
        mut constants: Vec<(&'static str, u32)>,
        push: impl Into<Push>,
        grid: [usize; 3],
        touched: Touched,
    ) -> &mut Task {
        let slabs = touched.reads.iter().find_map(|read| match read.place {
            Place::Weight(w) => self.slab_rows(w),
            _ => None,
        });
        constants.extend(slabs.map(|rows| (slabs::ROWS, rows as u32)));
        let (op, push, grid) = (self.at, push.into(), grid.map(|g| g as u32));
        let (Module { kernel, format }, Touched { reads, writes }) = (module, touched);
        let dispatch = Dispatch { op, kernel, format, constants, push, grid, reads, writes, query: None };
        self.tasks.push(Task { op, dispatches: vec![dispatch], source: None });
        let last = self.tasks.len() - 1;
        &mut self.tasks[last]
    }

    fn val(&self, v: Val) -> u64 {
        self.t.at.arena + self.places.offsets[v.0]
    }

    fn weight(&self, w: Weight) -> u64 {
        self.t.at.weights[w.0]
    }

    /// Rows of a slab, if the weight lies in slabs.
    fn slab_rows(&self, w: Weight) -> Option<usize> {
        slabs::slab_rows(&self.plan.weights[w.0], self.t.caps.largest_buffer(), self.t.soa)
    }

    fn opt(&self, w: Option<Weight>) -> u64 {
        w.map_or(0, |w| self.weight(w))
    }

    fn width(&self, v: Val) -> usize {
        self.plan.values[v.0].width
    }

    fn rows_of(&self, v: Val) -> usize {
        fusion::rows_of(self.plan, self.shape, v)
    }

    fn soa(&self) -> u32 {
        u32::from(self.t.soa)
    }

    /// All columns of a value.
    fn value(&self, v: Val) -> Access {
        Access::all(Place::Value(v), (4 * self.rows_of(v) * self.width(v)) as u64)
    }

    /// Columns of a value.
    fn columns(&self, v: Val, from: usize, count: usize) -> Access {
        Access { range: from..from + count, ..Access::all(Place::Value(v), (4 * self.rows_of(v) * count) as u64) }
    }

    /// Whole weights.
    fn matrices(&self, weights: impl IntoIterator<Item = Weight>) -> Vec<Access> {
        let bytes = |w: Weight| self.plan.weights[w.0].len_bytes();
        weights.into_iter().map(|w| Access::all(Place::Weight(w), bytes(w))).collect()
    }
}
