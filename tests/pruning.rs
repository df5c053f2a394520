//! Layers left out of files: the others compute what they did, or the layer stays and an error says why.

use std::path::Path;

use pumex::cpu::Reference;
use pumex::gguf::{Gguf, Value};
use pumex::plan::{Access, Act, Arg, Cols, General, Join, Map, Op, Plan, Val};
use pumex::quantize::{self, Options};
use pumex::{model, pruning};

use crate::seeded::{recipes, Recipe};
use crate::util::{exhaustive, logits, nmse};

/// Ids that are compared.
const SOME: usize = 12;

/// The model without a layer, as a file of it would be.
fn prune_layer(gguf: &Gguf, layer: usize, keys: Vec<(String, Value)>) -> Gguf {
    let options = Options { prune_layers: vec![layer], override_kv: keys, ..Options::default() };
    let plan = quantize::Plan::new(gguf, &options).unwrap();
    let mut bytes = Vec::new();
    let tensor = |job: &quantize::Job| {
        let start = bytes.len();
        bytes.extend_from_slice(gguf.data(&gguf.tensors()[job.tensor]));
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        (job.entry.clone(), (0, start))
    };
    let tensors = plan.jobs().map(tensor).collect();
    Gguf::without_file(Path::new("pruned"), plan.meta.clone(), tensors, vec![bytes])
}

/// The plan without a layer's ops: what it is to begin with is what the next one begins with.
fn plan_without_layer(plan: &Plan, layer: usize, head: usize) -> Plan {
    let mut plan = plan.clone();
    let (end, after) = plan.layer_ends[layer];
    let written =
        |op: &Op| op.writes().into_iter().filter_map(|a| if let Access::Value(v) = a { Some(v) } else { None }).next();
    let (start, before): (usize, Val) = match layer.checked_sub(1) {
        Some(last) => plan.layer_ends[last],
        None => (head, plan.ops[..head].iter().rev().find_map(written).unwrap()),
    };
    let width = plan.values[after.0].width;
    let all = |val: Val| Cols { val, at: 0, stride: width };
    let (a, b, out) = (Arg::Cols(all(before)), Arg::Number(0.0), all(after));
    let copy = Map { act: Act::Same, a, scale: 1.0, join: Join::Add, b, groups: 1, len: width, out };
    plan.ops.splice(start..end, (before != after).then_some(Op::General(General::Map(copy))));
    plan.layer_ends.clear();
    plan
}

fn compute_logits(gguf: &Gguf, plan: Plan, recipe: &Recipe) -> Vec<f32> {
    let ids = &recipe.ids[..recipe.ids.len().min(SOME)];
    let mut runner = Reference::new(gguf, plan, 256, 1, 256);
    logits(&mut runner, ids, SOME)
}

#[test]
fn seeded_models_without_a_layer_compute_what_the_other_layers_did_or_are_refused() {
    let (mut same, mut refused) = (Vec::new(), Vec::new());
    for (name, recipe) in recipes() {
        let gguf = recipe.gguf(name);
        let blocks = gguf.meta().u32(&format!("{}.block_count", recipe.arch)).unwrap() as usize;
        let plan = model::plan(&gguf).unwrap();
        let ends = |layer: &usize| *layer == 0 || *layer + 1 == blocks || *layer == blocks / 2;
        for layer in (0..blocks).filter(|layer| exhaustive() || ends(layer)) {
            let has = gguf.tensors().iter().any(|t| t.name.starts_with(&format!("blk.{layer}.")));
            let keys = match pruning::check(&gguf, &[layer]) {
                Ok(keys) => keys,
                Err(error) => {
                    let told = error.to_string();
                    let says =
                        told.contains("expected the other layers to stay as they are, but") && !told.contains('\n');
                    assert!(says || !has && told.contains("expected a layer of the model"), "{name} {layer}: {told}");
                    refused.push((name, layer));
                    continue;
                }
            };
            let after = prune_layer(&gguf, layer, keys);
            let planned = model::plan(&after).unwrap();
            let left = match plan.layer_ends.len() {
                n if layer >= n => plan.clone(), // it predicts further ids
                1 => unreachable!("{name}: a model of one layer without it"),
                _ => {
                    let own = plan.layer_ends[1].0 - plan.layer_ends[0].0;
                    plan_without_layer(&plan, layer, planned.layer_ends[0].0.saturating_sub(own))
                }
            };
            let (found, truth) = (compute_logits(&after, planned, &recipe), compute_logits(&gguf, left, &recipe));
            let error = nmse(&found, &truth);
            assert!(error < 1e-9, "{name} without layer {layer}: NMSE {error:e}");
            same.push((name, layer));
        }
    }
    println!("{} the same, {} refused: {refused:?}", same.len(), refused.len());
    let all: Vec<&str> = recipes().iter().map(|(name, _)| *name).collect();
    let has = |list: &[(&str, usize)], name: &str| list.iter().any(|(of, _)| *of == name);
    for name in
        ["llama", "lfm2", "granitehybrid", "nemotron_h", "plamo2", "qwen35", "deepseek2", "glm4moe", "falcon-h1"]
    {
        assert!(!all.contains(&name) || has(&same, name), "{name}");
    }
    // Windows and fading go by a layer's index there.
    for name in ["exaone-moe-window", "minimax-01"] {
        assert!(!all.contains(&name) || has(&refused, name), "{name}");
    }
    // By model: a few have 40 to 64 layers, each of which is refused where their number says what the others are.
    let (can, cannot): (Vec<&str>, Vec<&str>) = all.iter().partition(|name| has(&same, name));
    assert!(can.len() > 2 * cannot.len(), "{} and {}: {cannot:?}", can.len(), cannot.len());
}
