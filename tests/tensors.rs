//! What architectures require of a file's tensors, and what they read of those that may be there: every tensor of every seeded model
//! is taken away, and every optional one is added and taken away. `golden/optional.json` has what llama.cpp computes then.

use crate::seeded::{families, numbers, recipes, Recipe};
use crate::util::{bound, exhaustive, logits, nmse};
use pumex::cpu::Reference;
use pumex::gguf::write::{Entry, ALIGNMENT};
use pumex::gguf::{Gguf, Value};
use pumex::model;
use pumex::model::arch::ARCHS;
use pumex::model::tensors::Tensors;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Ids that the models see; the last one's row is compared.
const ROWS: usize = 6;
/// Columns of it.
const COLUMNS: usize = 12;

type Shapes = BTreeMap<String, Vec<u64>>;

/// Tensors that may be there or not.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Names {
    Added { tensors: Shapes, expected: Option<Vec<f32>> },
    Removed { tensors: Vec<String>, expected: Option<Vec<f32>> },
}

impl Names {
    /// What comes out then, if it is not what comes out anyway.
    fn expected_logits(&self) -> Option<&Vec<f32>> {
        match self {
            Names::Added { expected, .. } | Names::Removed { expected, .. } => expected.as_ref(),
        }
    }
}

/// What llama.cpp computes for a seeded model: as it is, with all optional tensors it lacks, without all it has, and with each.
#[derive(serde::Deserialize)]
struct Optional {
    base: Vec<f32>,
    all: Option<Vec<f32>>,
    bare: Option<Vec<f32>>,
    with: BTreeMap<String, Names>,
    without: BTreeMap<String, Names>,
}

fn optional() -> BTreeMap<String, Optional> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/optional.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A seeded model's metadata and tensors, of which others are made.
struct ModelParts {
    name: &'static str,
    meta: Vec<(String, Value)>,
    entries: Vec<(Entry, usize)>,
    bytes: Vec<u8>,
}

impl ModelParts {
    fn of(name: &'static str, recipe: &Recipe) -> ModelParts {
        let (entries, bytes) = recipe.tensors();
        let mut start = 0;
        let at = |entry: Entry| {
            let own = start;
            start += (entry.len_bytes as usize).next_multiple_of(ALIGNMENT as usize);
            (entry, own)
        };
        ModelParts { name, meta: recipe.meta(), entries: entries.into_iter().map(at).collect(), bytes }
    }

    /// Without some tensors, with others.
    fn change_tensors(&self, dropped: &[&str], added: &Shapes) -> Gguf {
        let mut bytes = self.bytes.clone();
        let kept = self.entries.iter().filter(|(entry, _)| !dropped.contains(&entry.name.as_str()));
        let mut tensors: Vec<_> = kept.map(|(entry, start)| (entry.clone(), (0, *start))).collect();
        for (name, dims) in added {
            let start = bytes.len();
            bytes.extend(numbers(name, dims).iter().flat_map(|x| x.to_le_bytes()));
            let (len_bytes, dims) = ((bytes.len() - start) as u64, dims.clone());
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
            tensors.push((Entry { name: name.clone(), dims, type_id: 0, len_bytes }, (0, start)));
        }
        Gguf::without_file(Path::new(self.name), self.meta.clone(), tensors, vec![bytes])
    }

    /// Without one tensor, and with nothing in the others.
    fn empty_tensors(&self, dropped: &str) -> Gguf {
        let kept = self.entries.iter().filter(|(entry, _)| entry.name != dropped);
        let most = self.entries.iter().map(|(entry, _)| entry.len_bytes as usize).max().unwrap();
        let tensors = kept.map(|(entry, _)| (entry.clone(), (0, 0))).collect();
        Gguf::without_file(Path::new(self.name), self.meta.clone(), tensors, vec![vec![0; most]])
    }
}

/// A tensor has four extents, of which a file may leave those of 1 at the end out.
#[test]
fn extents_of_one_at_the_end_change_no_plan() {
    let mut wrong = Vec::new();
    for (name, recipe) in recipes() {
        let parts = ModelParts::of(name, &recipe);
        let bare = parts.change_tensors(&[], &Shapes::new());
        let tensors = parts.entries.iter().map(|(entry, start)| {
            let mut dims = entry.dims.clone();
            dims.resize(4, 1);
            (Entry { dims, ..entry.clone() }, (0, *start))
        });
        let whole =
            Gguf::without_file(Path::new(name), parts.meta.clone(), tensors.collect(), vec![parts.bytes.clone()]);
        match (model::plan(&bare), model::plan(&whole)) {
            (Ok(bare), Ok(whole)) if bare.to_string() == whole.to_string() => {}
            (_, whole) => {
                wrong.push(format!("{name}: {}", whole.map_or_else(|e| e.to_string(), |_| "another plan".into())))
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_required_tensor_that_is_missing_is_an_error_that_names_it() {
    let mut silent = Vec::new();
    for (name, recipe) in families() {
        let (parts, known) = (ModelParts::of(name, &recipe), Tensors::of(&recipe.arch));
        assert!(
            model::plan(&parts.empty_tensors("")).is_ok(),
            "{name}: {}",
            model::plan(&parts.empty_tensors("")).unwrap_err()
        );
        // Layers that predict further ids are not read.
        let count = |key: &str| recipe.keys.get(key).and_then(|n| n.as_u64()).unwrap_or(0);
        let unread = format!("blk.{}.", count("block_count").wrapping_sub(count("nextn_predict_layers")));
        for tensor in recipe.tensors.keys().filter(|name| known.requires(name) && !name.starts_with(&unread)) {
            match model::plan(&parts.empty_tensors(tensor)) {
                Ok(_) => silent.push(format!("{name}: {tensor}: no error")),
                Err(e) if !e.to_string().contains(tensor.as_str()) => silent.push(format!("{name}: {tensor}: {e}")),
                Err(_) => (),
            }
        }
    }
    assert!(silent.is_empty(), "{} tensors:\n{}", silent.len(), silent.join("\n"));
}

/// Keys that a model has instead, tensors it then lacks (parts of their names), and those it has in every layer.
type ModelVariant =
    (&'static str, &'static [(&'static str, i64)], &'static [&'static str], &'static [(&'static str, &'static [u64])]);

/// Real files that differ from the seeded models by what a key says: small ones whose queries are not compressed, older ones with one
/// product for keys and values, sizes without experts, without experts that all rows share, without vectors of layers.
const VARIANTS: &[ModelVariant] = &[
    ("deepseek2", &[("attention.q_lora_rank", 0)], &["attn_q_a", "attn_q_b"], &[("attn_q.weight", &[128, 192])]),
    ("bailingmoe3", &[("attention.q_lora_rank", 0)], &["attn_q_a", "attn_q_b"], &[("attn_q.weight", &[128, 192])]),
    ("kimi-k3", &[("attention.q_lora_rank", 0)], &["attn_q_a", "attn_q_b"], &[("attn_q.weight", &[128, 192])]),
    ("kimi-k3", &[("expert_latent_length", 0)], &["ffn_routed", "_exps"], &EXPERTS_OF_KIMI),
    ("gemma4", &[("embedding_length_per_layer_input", 0)], &["per_layer", "inp_gate", ".proj.", ".post_norm."], &[]),
    (
        "gemma4",
        &[("expert_count", 0), ("expert_used_count", 0)],
        &["_exps", "ffn_gate_inp", "ffw_norm_1", "ffw_norm_2"],
        &[],
    ),
    ("gemma4", &[], &["ffn_gate_exps", "ffn_up_exps"], &[("ffn_gate_up_exps.weight", &[256, 192, 4])]),
    ("afmoe", &[("expert_shared_count", 0)], &["_shexp"], &[]),
    ("cohere2moe", &[("expert_shared_count", 0), ("expert_shared_feed_forward_length", 0)], &["_shexp"], &[]),
    ("ernie4_5-moe", &[("expert_shared_count", 0), ("expert_shared_feed_forward_length", 0)], &["_shexp"], &[]),
    ("glm4moe", &[("expert_shared_count", 0)], &["_shexp"], &[]),
    ("granite-moe", &[("expert_shared_feed_forward_length", 0)], &["_shexp"], &[]),
    ("hy_v4", &[("attention.indexer.top_k", 0)], &["indexer"], &[]),
];

const EXPERTS_OF_KIMI: [(&str, &[u64]); 3] = [
    ("ffn_gate_exps.weight", &[128, 64, 4]),
    ("ffn_up_exps.weight", &[128, 64, 4]),
    ("ffn_down_exps.weight", &[64, 128, 4]),
];

#[test]
fn what_a_key_turns_off_is_not_asked_for() {
    let mut wrong = Vec::new();
    for (name, keys, dropped, added) in VARIANTS {
        let mut recipe = Recipe::recipe_of(name);
        for (key, n) in *keys {
            recipe.keys.insert(key.to_string(), (*n).into());
        }
        let gone: Vec<String> =
            recipe.tensors.keys().filter(|t| dropped.iter().any(|part| t.contains(part))).cloned().collect();
        gone.iter().for_each(|tensor| drop(recipe.tensors.remove(tensor)));
        for (tensor, dims) in *added {
            let layers = gone.iter().filter_map(|t| t.strip_prefix("blk.")?.split('.').next());
            for layer in layers.collect::<BTreeSet<_>>() {
                recipe.tensors.insert(format!("blk.{layer}.{tensor}"), dims.to_vec());
            }
        }
        let gguf = ModelParts::of(name, &recipe).change_tensors(&[], &Shapes::new());
        if let Err(e) = model::plan(&gguf) {
            wrong.push(format!("{name} with {keys:?}: {e}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each model with all optional tensors and without any; where all is tried, with and without each, too.
#[test]
fn optional_tensors_count_as_they_do_for_llama_cpp() {
    let known = optional();
    let mut wrong = Vec::new();
    for (name, recipe) in families() {
        let Some(optional) = known.get(name) else { continue };
        let parts = ModelParts::of(name, &recipe);
        let mut check = |what: &str, (dropped, added): (&[&str], &Shapes), expected: &[f32]| {
            let gguf = parts.change_tensors(dropped, added);
            let found = model::plan(&gguf).map(|plan| {
                let bound = bound(&plan, name).max(1e-9);
                let mut runner = Reference::new(&gguf, plan, 256, 1, ROWS);
                let all = logits(&mut runner, &recipe.ids[..ROWS], ROWS);
                let row = &all[all.len() / ROWS * (ROWS - 1)..][recipe.from()..];
                let found: Vec<f32> = row.iter().step_by((row.len() / COLUMNS).max(1)).take(COLUMNS).copied().collect();
                (nmse(&found, expected), bound)
            });
            match found {
                Ok((error, bound)) if error <= bound => (),
                Ok((error, bound)) => wrong.push(format!("{name} {what}: NMSE {error:e}, expected at most {bound:e}")),
                Err(e) => wrong.push(format!("{name} {what}: {e}")),
            }
        };
        let (mut all, mut bare) = (Shapes::new(), Vec::new());
        for (role, names) in optional.with.iter().chain(&optional.without) {
            let base = &optional.base;
            match names {
                Names::Added { tensors, expected } => {
                    all.extend(tensors.clone());
                    if exhaustive() {
                        check(&format!("with {role}"), (&[], tensors), expected.as_ref().unwrap_or(base));
                    }
                }
                Names::Removed { tensors, expected } => {
                    let dropped: Vec<&str> = tensors.iter().map(String::as_str).collect();
                    if exhaustive() {
                        let expected = expected.as_ref().unwrap_or(base);
                        check(&format!("without {role}"), (&dropped, &Shapes::new()), expected);
                    }
                    bare.extend(dropped);
                }
            }
        }
        if let Some(expected) = &optional.all {
            check("with all", (&[], &all), expected);
        }
        if let Some(expected) = &optional.bare {
            check("without any", (&bare, &Shapes::new()), expected);
        }
    }
    assert!(wrong.is_empty(), "{} models:\n{}", wrong.len(), wrong.join("\n"));
}

/// Names as the table has them: what follows a layer's number, those that differ in a word once.
fn list_names<'a>(roles: impl Iterator<Item = &'a String>) -> String {
    let names: BTreeSet<&str> = roles.map(|role| role.strip_prefix("*.").unwrap_or(role)).collect();
    names.into_iter().map(|name| name.strip_suffix(".weight").unwrap_or(name)).collect::<Vec<_>>().join(", ")
}

/// `docs/architectures.md` (`PUMEX_BLESS=1` writes it) says what these tests found.
#[test]
fn the_list_of_architectures_says_which_optional_tensors_are_read() {
    let known = optional();
    let mut text = String::from(
        "# Architectures\n\nValues of `general.architecture` that run. Each was compared with what another program computes for a small \
         model; the third\nand fourth column say which optional tensors change what comes out, and which are accepted and change nothing, \
         as in\nllama.cpp: each was added, or taken away. Names of a layer's tensors stand without the layer, and those of weights \
         without\n`.weight`. Made by `make test`.\n\n\
         | architecture | compared with | optional, read | optional, not read |\n|---|---|---|---|\n",
    );
    for arch in ARCHS {
        let own: Vec<_> = families().into_iter().filter(|(_, recipe)| recipe.arch == arch.name).collect();
        let by: BTreeSet<&str> = own.iter().filter_map(|(_, recipe)| recipe.confirmed.as_deref()).collect();
        let found: Vec<_> = own.iter().filter_map(|(name, _)| known.get(*name)).collect();
        let roles = |read: bool| {
            let all = found.iter().flat_map(|optional| optional.with.iter().chain(&optional.without));
            let roles = all.filter(|(_, names)| names.expected_logits().is_some() == read).map(|(role, _)| role);
            roles.collect::<BTreeSet<&String>>()
        };
        let (read, unread) = (roles(true), roles(false));
        let unread = list_names(unread.into_iter().filter(|role| !read.contains(role)));
        let by = by.into_iter().collect::<Vec<_>>().join("; ");
        text += &format!("| {} | {by} | {} | {unread} |\n", arch.name, list_names(read.into_iter()));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architectures.md");
    if std::env::var_os("PUMEX_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &text).unwrap();
    }
    assert!(std::fs::read_to_string(&file).unwrap_or_default() == text, "{}: not what the tests found", file.display());
}
