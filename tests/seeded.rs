//! Tiny models made from a seed, one file of `golden/seeded` each: keys, shapes of tensors, ids, and what llama.cpp computed for
//! some rows and columns. `PUMEX_SEEDED_OUT=FOLDER` writes the models as files, to have them computed elsewhere.

use crate::util::{assert_silent, bound, exact, exhaustive, in_turn, logits, nmse, options, vulkan};
use pumex::cpu::{Fast, FastSettings, Reference, RunnerSizes};
use pumex::engine::{CacheType, Debug, Options};
use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::{Gguf, Value, ValueType};
use pumex::model;
use pumex::plan::Plan;
use pumex::step::Runner;
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Positions of a context and rows of a step.
const ROWS: usize = 256;

/// What names of recipes end with whose indexers choose positions.
const SPARSE: &str = "-sparse";

/// A model and what it gives.
#[derive(serde::Deserialize)]
pub struct Recipe {
    /// The recipe that this one varies.
    pub like: Option<String>,
    /// Architecture.
    pub arch: String,
    /// What computed the expected numbers; without it, there are none yet.
    pub confirmed: Option<String>,
    /// Metadata; keys without the architecture's name before them, unless they are the tokenizer's or general.
    pub keys: BTreeMap<String, Json>,
    /// Dimensions, columns first. In a file, `blk.*.` before a name is that of every block.
    pub tensors: BTreeMap<String, Vec<u64>>,
    pub ids: Vec<u32>,
    /// Ids in all, where `ids` are fed over and over.
    #[serde(default)]
    length: usize,
    /// For each row of `rows`, every `every`-th column from `from` on.
    rows: Vec<usize>,
    every: usize,
    #[serde(default)]
    from: usize,
    #[serde(default)]
    expected: Vec<f32>,
}

/// Numbers from -1 to 1 that look random and depend on the name alone.
pub fn noise(name: &str, len: usize) -> impl Iterator<Item = f32> {
    let mut state =
        name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    })
    .take(len)
}

/// A tensor's numbers by its name and shape, of a size that keeps values around one: factors of norms are near 1, decays of
/// state spaces negative, sums over rows of matrices as large as what comes in.
pub fn numbers(name: &str, dims: &[u64]) -> Vec<f32> {
    let (len, cols) = (dims.iter().product::<u64>() as usize, dims[0] as f32);
    let (middle, size) = match name {
        _ if name.contains("norm") && name.ends_with(".weight") => (1.0, 0.2),
        _ if name.contains("ssm_a") => (-0.6, 0.4),
        _ if name.contains("_rel_b") => (0.0, 1.0),
        _ if name.starts_with("rope_f") => (2.0, 1.0),
        _ if dims.len() == 1 => (0.0, 0.3),
        _ if name.contains("token_embd") => (0.0, 1.5),
        _ => (0.0, (3.0 / cols).sqrt()),
    };
    noise(name, len).map(|x| middle + size * x).collect()
}

fn value(json: &Json) -> Value {
    let array = |element, raw: Vec<u8>| Value::Array { element, raw };
    match json {
        Json::Bool(flag) => Value::Bool(*flag),
        Json::String(text) => Value::Str(text.clone().into_bytes()),
        Json::Number(n) => match n.as_u64() {
            Some(n) => Value::U32(n as u32),
            None => Value::F32(n.as_f64().unwrap() as f32),
        },
        Json::Array(all) if all.iter().all(Json::is_string) => {
            let (mut arena, mut ends) = (Vec::new(), Vec::new());
            for text in all {
                arena.extend(text.as_str().unwrap().bytes());
                ends.push(arena.len());
            }
            Value::Strings { arena, ends }
        }
        Json::Array(all) if all.iter().all(Json::is_boolean) => {
            array(ValueType::Bool, all.iter().map(|b| u8::from(b.as_bool().unwrap())).collect())
        }
        Json::Array(all) if all.iter().all(Json::is_i64) => {
            array(ValueType::I32, all.iter().flat_map(|n| (n.as_i64().unwrap() as i32).to_le_bytes()).collect())
        }
        Json::Array(all) => {
            array(ValueType::F32, all.iter().flat_map(|n| (n.as_f64().unwrap() as f32).to_le_bytes()).collect())
        }
        other => panic!("no value of metadata: {other}"),
    }
}

impl Recipe {
    /// The first column that is compared.
    pub fn from(&self) -> usize {
        self.from
    }

    /// One of the folder's.
    pub fn recipe_of(name: &str) -> Recipe {
        recipes().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    /// Its metadata, with whole keys.
    pub fn meta(&self) -> Vec<(String, Value)> {
        let whole =
            |key: &str| match ["general.", "tokenizer.", "xielu.", "diffusion."].iter().any(|of| key.starts_with(of)) {
                true => key.to_string(),
                false => format!("{}.{key}", self.arch),
            };
        let mut meta = vec![("general.architecture".to_string(), Value::Str(self.arch.clone().into_bytes()))];
        meta.extend(self.keys.iter().map(|(key, json)| (whole(key), value(json))));
        meta
    }

    /// Its tensors, one after the other, and their bytes.
    pub fn tensors(&self) -> (Vec<Entry>, Vec<u8>) {
        let f32_id = pumex_quant::all().find(|f| f.name == "F32").unwrap().ggml_id;
        let is_table = |name: &str| name.contains("tid2eid"); // of integers
        let entry = |(name, dims): (&String, &Vec<u64>)| {
            let (name, dims, len_bytes) = (name.clone(), dims.clone(), 4 * dims.iter().product::<u64>());
            let type_id = if is_table(&name) { 26 } else { f32_id };
            Entry { name, dims, type_id, len_bytes }
        };
        let mut bytes = Vec::new();
        for (name, dims) in &self.tensors {
            if is_table(name) {
                let (experts, used) = (self.keys["expert_count"].as_u64().unwrap(), dims[0]);
                let expert = |i: u64| ((i / used * 7 + i % used) % experts) as u32;
                bytes.extend((0..dims[0] * dims[1]).flat_map(|i| expert(i).to_le_bytes()));
            } else {
                bytes.extend(numbers(name, dims).iter().flat_map(|x| x.to_le_bytes()));
            }
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
        }
        (self.tensors.iter().map(entry).collect(), bytes)
    }

    /// The model as a file's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let (meta, (entries, data)) = (self.meta(), self.tensors());
        let mut bytes = header(meta.iter().map(|(key, value)| (key.as_str(), value)), &entries, ALIGNMENT);
        bytes.extend(data);
        bytes
    }

    /// The model as an open file.
    pub fn gguf(&self, name: &'static str) -> Gguf {
        Gguf::from_static(name, self.bytes().leak()).unwrap()
    }

    /// Compares with what llama.cpp computed; gives all logits.
    fn check(&self, runner: &mut dyn Runner, chunk: usize, bound: f64, what: &str) -> Vec<f32> {
        let (all, width) = (logits(runner, &self.ids, chunk), runner.n_vocab());
        let row = |r: &usize| all[r * width..][self.from..width].iter().step_by(self.every).copied();
        let found: Vec<f32> = self.rows.iter().flat_map(row).collect();
        let error = nmse(&found, &self.expected);
        println!("{what}, chunks of {chunk}: NMSE {error:.2e}");
        assert!(error <= bound, "{what}, chunks of {chunk}: NMSE {error:e}, expected at most {bound:e}");
        all
    }

    /// Lengths of chunks; where rows see those that come later there must be one.
    fn chunks(&self, plan: &Plan) -> &'static [usize] {
        match (plan.looks_ahead(), self.is_long()) {
            (true, _) => &[ROWS],
            (_, true) => &[7, ROWS],
            _ => &[ROWS, 7, 1],
        }
    }

    /// Whether it has more ids than a small context takes.
    fn is_long(&self) -> bool {
        self.ids.len() > ROWS
    }

    /// Positions of a context for it.
    fn n_ctx(&self) -> usize {
        self.ids.len().next_multiple_of(ROWS)
    }
}

/// Recipes of families that vary no other.
pub fn families() -> Vec<(&'static str, Recipe)> {
    recipes().into_iter().filter(|(_, recipe)| recipe.like.is_none()).collect()
}

/// Recipes that tests go through: all, or those that `PUMEX_SEEDED` names, with commas between them.
fn tested_recipes() -> Vec<(&'static str, Recipe)> {
    let named = std::env::var("PUMEX_SEEDED").unwrap_or_default();
    let is_tried = |name: &str| named.is_empty() || named.split(',').any(|one| one == name);
    recipes().into_iter().filter(|(name, _)| is_tried(name)).collect()
}

/// All of the folder, by name.
pub fn recipes() -> Vec<(&'static str, Recipe)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/seeded");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    let name = |path: &PathBuf| -> &'static str { path.file_stem().unwrap().to_string_lossy().into_owned().leak() };
    let read = |path: &PathBuf| (name(path), read(path));
    paths.iter().map(read).collect()
}

/// A file's recipe. One that is `like` another has what its file leaves out from there, keys and tensors one by one, and of them
/// takes away those that are null.
fn read(path: &Path) -> Recipe {
    let parsed = |path: &Path| -> serde_json::Map<String, Json> {
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let mut json = parsed(path);
    if let Some(like) = json.get("like").and_then(Json::as_str) {
        let mut other = parsed(&path.with_file_name(like).with_extension("json"));
        for entries in ["keys", "tensors"] {
            let mut all = other.remove(entries).and_then(|all| all.as_object().cloned()).unwrap();
            all.extend(json.remove(entries).and_then(|own| own.as_object().cloned()).unwrap_or_default());
            json.insert(entries.into(), all.into_iter().filter(|(_, value)| !value.is_null()).collect());
        }
        other.into_iter().filter(|(field, _)| field != "confirmed").for_each(|(field, value)| {
            json.entry(field).or_insert(value);
        });
    }
    let mut recipe: Recipe = serde_json::from_value(json.into()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let blocks = recipe.keys.get("block_count").and_then(Json::as_u64).unwrap_or(0);
    for (name, dims) in recipe.tensors.clone() {
        if let Some(rest) = name.strip_prefix("blk.*.") {
            recipe.tensors.remove(&name);
            recipe.tensors.extend((0..blocks).map(|i| (format!("blk.{i}.{rest}"), dims.clone())));
        }
    }
    if recipe.length > 0 {
        recipe.ids = recipe.ids.iter().copied().cycle().take(recipe.length).collect();
    }
    recipe
}

#[test]
fn seeded_models_give_on_the_reference_what_llama_cpp_computed() {
    let out = std::env::var_os("PUMEX_SEEDED_OUT").map(PathBuf::from);
    for (name, recipe) in tested_recipes() {
        if let Some(out) = &out {
            std::fs::write(out.join(name).with_extension("gguf"), recipe.bytes()).unwrap();
            continue;
        }
        assert!(recipe.confirmed.is_some(), "{name}: nothing confirms what is expected");
        // The fast interpreter has them all the same.
        if recipe.is_long() && !(exhaustive() && in_turn(1, 2)) {
            continue;
        }
        let gguf = recipe.gguf(name);
        let plan = model::plan(&gguf).unwrap();
        let bound = bound(&plan, name);
        let chunks = recipe.chunks(&plan);
        let mut runner = Reference::new(&gguf, plan, recipe.n_ctx(), 2, ROWS);
        for chunk in chunks {
            recipe.check(&mut runner, *chunk, bound, name);
        }
    }
}

#[test]
fn seeded_models_give_on_the_cpu_what_llama_cpp_computed() {
    let sizes = |n_ctx, float| {
        let of = || Elements::Floats(float);
        RunnerSizes { n_ctx, n_seqs: 2, max_rows: ROWS, cache_positions: None, k: of(), v: of() }
    };
    for (name, recipe) in tested_recipes() {
        let gguf = recipe.gguf(name);
        let plan = model::plan(&gguf).unwrap();
        let (chunks, explained, n_ctx) = (recipe.chunks(&plan), bound(&plan, name), recipe.n_ctx());
        let runner = |plan, float| Fast::new(&gguf, plan, sizes(n_ctx, float), &FastSettings::default()).unwrap();
        let mut exact = runner(plan.clone(), Float::F32);
        for chunk in chunks {
            recipe.check(&mut exact, *chunk, explained, name);
        }
        // Keys and values of 11 bits.
        recipe.check(
            &mut runner(plan, Float::F16),
            chunks[0],
            explained.max(1e-3),
            &format!("{name}, a cache of halves"),
        );
    }
}

#[test]
fn seeded_models_give_on_a_device_what_llama_cpp_computed() {
    on_a_device(
        &["gemma-embedding", "gemma-embedding2", "t5encoder", "grovemoe", "minimax-01", "graniteswitch"],
        exact(),
    );
    on_a_device(&["k2-horizon", "k2-horizon-dense"], exact());
    on_a_device(&["hy_v4-sparse", "qwen4exp-sparse"], exact());
}

/// Windows and sinks, experts, a recurrence.
#[test]
fn seeded_models_give_without_subgroups_what_llama_cpp_computed() {
    on_a_device(&["gpt-oss", "qwen3next"], Debug { subgroups: false, ..exact() });
}

/// Compares the models of that name, or all, by kernels as `debug` has them.
fn on_a_device(names: &[&str], debug: Debug) {
    let is_tried = |(name, recipe): &(&str, Recipe)| recipe.like.is_none() || name.ends_with(SPARSE);
    for (i, (name, recipe)) in tested_recipes().into_iter().filter(is_tried).enumerate() {
        let chosen = exhaustive() && in_turn(i + usize::from(debug.subgroups), 8);
        if recipe.is_long() || !chosen && !names.contains(&name) {
            continue;
        }
        let gguf = recipe.gguf(name);
        let plan = model::plan(&gguf).unwrap();
        let options = Options { n_ctx: Some(ROWS as u32), max_rows: ROWS as u32, debug, ..options(CacheType::F32) };
        let Some(mut runner) = vulkan(&gguf, options) else { return };
        let explained = bound(&plan, name).max(1e-5);
        let chunks = recipe.chunks(&plan).iter().filter(|chunk| **chunk > 1 || name.ends_with(SPARSE));
        let mut reference = Reference::new(&gguf, plan, ROWS, 2, ROWS);
        let truth = logits(&mut reference, &recipe.ids, ROWS);
        for chunk in chunks {
            let found = recipe.check(&mut runner, *chunk, explained, name);
            let error = nmse(&found, &truth);
            println!("{name}, chunks of {chunk}: NMSE {error:.2e} from the reference");
            assert!(error < 1e-8, "{name}, chunks of {chunk}: NMSE {error:e} from the reference");
        }
        // Few rows have kernels of their own.
        let few = &recipe.ids[..9];
        let error = nmse(&logits(&mut runner, few, 9), &logits(&mut reference, few, 9));
        assert!(error < 1e-9, "{name}, {} rows: NMSE {error:e}", few.len());
        assert_silent(&runner);
    }
}
