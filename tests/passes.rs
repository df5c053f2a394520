//! Passes on and off, on layers whose residual is written while a norm's readers are still to come: no pass may move a read
//! over a write.

use crate::util::{assert_silent, demo_path, exhaustive, fixture, logits, nmse, options, rows, sample, vulkan_plan};
use pumex::cpu::Reference;
use pumex::engine::CacheType;
use pumex::gguf::Gguf;
use pumex::model;
use pumex::plan::pass::{fuse, Abilities};
use pumex::plan::{Conv, MatPart, Normalize, Op, Plan, Val};
use pumex::step::{Runner, Want};

/// Any subset of the passes.
#[derive(Clone, Copy)]
struct Passes {
    norm: bool,
    rope: bool,
    router: bool,
}

impl Abilities for Passes {
    fn norms_input(&self, _: &Plan, op: &Op) -> bool {
        let takes = matches!(op, Op::MatMul { .. } | Op::GatedMatMul { .. } | Op::GatedExperts { .. });
        self.norm && (takes || matches!(op, Op::Route { router: Some(_), .. }))
    }
    fn rotates(&self, _: &Plan, _: &Op) -> bool {
        self.rope
    }
    fn routes(&self, _: &Plan, _: &Op) -> bool {
        self.router
    }
    fn norms_columns(&self, _: &Conv, _: &Normalize) -> bool {
        self.norm
    }
    fn all_rows_output(&self) -> bool {
        false
    }
}

/// The value that an op makes.
fn out_of(op: &Op) -> Option<Val> {
    match op {
        Op::Embed { out, .. } | Op::RmsNorm { out, .. } | Op::MatMul { out, .. } | Op::GatedMatMul { out, .. } => {
            Some(*out)
        }
        _ => None,
    }
}

/// The model with attention and feed-forward both of what the first norm gives, as GPT-J, Phi and Command-R have it: the second
/// reads the norm's output after the first was added to its input.
fn parallel_residual(gguf: &Gguf) -> Plan {
    let mut plan = model::plan(gguf).unwrap();
    let mut first = None;
    let mut gone = Vec::new();
    for op in plan.ops.iter_mut() {
        match (op, first) {
            (Op::MatMul { x, parts, .. }, _) if parts.len() == 3 => first = Some(*x),
            (Op::GatedMatMul { x, .. }, Some(h)) => {
                gone.push(*x);
                *x = h;
            }
            _ => {}
        }
    }
    plan.ops.retain(|op| !matches!(op, Op::RmsNorm { out, .. } if gone.contains(out)));
    plan
}

/// The model of experts with a product that every row takes beside them, after these were added to the residual: of the
/// attention's own matrices, for the file has no others of the shape.
fn shared_expert(gguf: &Gguf) -> Plan {
    let plan = model::plan(gguf).unwrap();
    let parts = |name: &str| {
        let index = plan.weights.iter().position(|w| w.name == name).unwrap();
        MatPart { weight: pumex::plan::Weight(index), bias: None, scale: 1.0 }
    };
    let mut ops: Vec<Op> = Vec::new();
    let (mut values, mut normed, mut layer) = (plan.values.clone(), None, 0);
    for op in &plan.ops {
        ops.push(op.clone());
        if let Op::RmsNorm { .. } = op {
            normed = out_of(op);
        }
        if let Op::ExpertsAdd { out, .. } = op {
            let (q, o) =
                (parts(&format!("blk.{layer}.attn_q.weight")), parts(&format!("blk.{layer}.attn_output.weight")));
            layer += 1;
            let width = plan.weights[q.weight.0].rows;
            values.push(pumex::plan::ValueInfo { name: "shared", width, rows: pumex::plan::Rows::Step });
            let shared = Val(values.len() - 1);
            let x = normed.unwrap();
            ops.push(Op::MatMul { x, norm: None, parts: vec![q], add: false, out: shared });
            ops.push(Op::MatMul { x: shared, norm: None, parts: vec![o], add: true, out: *out });
        }
    }
    Plan { ops, values, ..plan }
}

/// Logits of chunks of so many rows.
fn chunks(runner: &mut dyn Runner, ids: &[u32]) -> Vec<Vec<f32>> {
    sample(&[3, 9, 1, 8, 40], 1).iter().map(|chunk| logits(runner, ids, *chunk)).collect()
}

/// A model, by what is unusual about it, and how its plan is made.
type Unusual = (&'static str, Gguf, fn(&Gguf) -> Plan);

fn models() -> [Unusual; 2] {
    let moe = Gguf::open(&fixture("qwen3moe").with_extension("gguf")).unwrap();
    [("parallel residual", Gguf::open(&demo_path()).unwrap(), parallel_residual), ("shared expert", moe, shared_expert)]
}

fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 7 + 5) % 120).collect()
}

#[test]
fn no_pass_changes_what_the_reference_computes() {
    for (name, gguf, plan) in models() {
        let plan = plan(&gguf);
        let run = |plan: Plan| {
            let mut runner = Reference::new(&gguf, plan, 256, 1, 64);
            runner.run(&rows(0, 0, &ids(12)), Want::Logits).unwrap().logits
        };
        let truth = run(plan.clone());
        assert!(truth.iter().all(|l| l.is_finite()));
        for set in 0..8 {
            let passes = Passes { norm: set & 1 > 0, rope: set & 2 > 0, router: set & 4 > 0 };
            let fused = fuse(&plan, &passes);
            assert_eq!(run(fused), truth, "{name}, passes {set:03b}");
        }
    }
}

#[test]
fn a_norm_stays_where_its_input_is_written_before_its_last_reader() {
    let all = Passes { norm: true, rope: true, router: true };
    let norms = |plan: &Plan| plan.ops.iter().filter(|op| matches!(op, Op::RmsNorm { .. })).count();
    for (name, gguf, plan) in models() {
        let usual = model::plan(&gguf).unwrap();
        assert_eq!(norms(&fuse(&usual, &all)), 1, "{name}: but for the head's, all norms go into their readers");
        let plan = plan(&gguf);
        assert_eq!(norms(&fuse(&plan, &all)), 1 + plan.layers.len(), "{name}\n{}", fuse(&plan, &all));
    }
}

#[test]
fn dispatches_of_such_layers_compute_what_the_reference_does() {
    for (name, gguf, plan) in models() {
        let plan = plan(&gguf);
        let ids = ids(40);
        let truth = chunks(&mut Reference::new(&gguf, plan.clone(), 256, 1, 64), &ids);
        for &fuse in sample(&[true, false], 1) {
            let mut way = options(CacheType::F32);
            (way.debug.fuse, way.debug.matrices, way.debug.megakernel) = (fuse, false, Some(fuse && exhaustive()));
            let Some(mut runner) = vulkan_plan(&gguf, plan.clone(), way) else { return };
            for (found, truth) in chunks(&mut runner, &ids).iter().zip(&truth) {
                let error = nmse(found, truth);
                assert!(error < 1e-7, "{name}, fused {fuse}: NMSE {error:e}");
            }
            assert_silent(&runner);
        }
    }
}
