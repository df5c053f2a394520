//! Families with a key of their file changed: each is a clear error or a model that runs.

use crate::seeded::{families, Recipe};
use crate::util::{cpu_ms, exhaustive, rows};
use pumex::cpu::Reference;
use pumex::gguf::write::{Entry, ALIGNMENT};
use pumex::gguf::{Gguf, Value, ValueType};
use pumex::model;
use pumex::step::{Runner, Want};
use pumex::Error;
use pumex_cpu::allocations::so_far;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

/// Most bytes that a plan may ask for in all, and milliseconds of the CPU that it may take.
const PLAN: (usize, u64) = (64 << 20, 2000);

/// A seeded model's parts, of which files with other keys are made.
struct ModelParts {
    meta: Vec<(String, Value)>,
    entries: Vec<Entry>,
    data: Vec<u8>,
}

impl ModelParts {
    fn of(recipe: &Recipe) -> ModelParts {
        let (entries, data) = recipe.tensors();
        ModelParts { meta: recipe.meta(), entries, data }
    }

    /// With another value of a key, or without it.
    fn with(&self, key: &str, value: Option<&Value>) -> Gguf {
        let others = self.meta.iter().filter(|(k, _)| k != key).cloned();
        let meta = others.chain(value.map(|value| (key.to_string(), value.clone()))).collect();
        let mut start = 0;
        let place = |e: &Entry| {
            let e = Entry { name: e.name.clone(), dims: e.dims.clone(), type_id: e.type_id, len_bytes: e.len_bytes };
            let at = start;
            start += e.len_bytes.next_multiple_of(ALIGNMENT) as usize;
            (e, (0, at))
        };
        let tensors = self.entries.iter().map(place).collect();
        Gguf::without_file(Path::new("mutated"), meta, tensors, vec![self.data.clone()])
    }
}

fn array(of: &[i32]) -> Value {
    Value::Array { element: ValueType::I32, raw: of.iter().flat_map(|n| n.to_le_bytes()).collect() }
}

fn floats(of: &[f32]) -> Value {
    Value::Array { element: ValueType::F32, raw: of.iter().flat_map(|n| n.to_le_bytes()).collect() }
}

/// What any key may hold in a bad file; none for a key that is not there.
fn values() -> Vec<(&'static str, Option<Value>)> {
    let numbers = [0, 1, 3, 33, 1 << 20, i32::MAX as u32, u32::MAX].map(Value::U32).into_iter();
    let negative = [Value::I32(-1), Value::I64(i64::MIN), Value::U64(u64::MAX)].into_iter();
    let real = [0.0, -1.0, 1e-30, 1e30, f32::NAN, f32::INFINITY].map(Value::F32).into_iter();
    let lists = [
        array(&[]),
        array(&[1]),
        array(&[-1; 4]),
        array(&[i32::MAX; 64]),
        array(&[0; 64]),
        array(&[2; 64]),
        floats(&[f32::NAN; 64]),
        Value::Array { element: ValueType::Bool, raw: vec![1; 64] },
        Value::Strings { arena: b"ab".to_vec(), ends: vec![1, 2] },
    ];
    let words = [Value::Bool(false), Value::Bool(true), Value::Str(b"yarn".to_vec()), Value::Str(b"\xff".to_vec())];
    let given = numbers.chain(negative).chain(real).chain(lists).chain(words);
    std::iter::once(("no key", None)).chain(given.map(|value| ("given", Some(value)))).collect()
}

/// Plans a file, and runs two rows if it is well; what is wrong with that.
fn fault(gguf: &Gguf) -> Option<String> {
    let (before, began) = (so_far().1, cpu_ms());
    let plan = model::plan(gguf);
    let (asked, took) = (so_far().1 - before, cpu_ms() - began);
    if asked > PLAN.0 || took > PLAN.1 {
        return Some(format!("the plan asked for {asked} bytes and took {took} ms"));
    }
    let plan = match plan {
        Ok(plan) => plan,
        Err(Error::File { .. }) => return None,
        Err(other) => return Some(format!("expected an error about the file, found {other}")),
    };
    let mut runner = Reference::new(gguf, plan, 8, 1, 2);
    if runner.answers_from().is_none() {
        // Numbers may come out as NaN; who takes them says so.
        drop(runner.run(&rows(0, 0, &[1, 2]), Want::Logits));
    }
    None
}

#[test]
fn a_changed_key_is_an_error_or_a_model_that_runs() {
    let (mut faults, mut tried) = (Vec::new(), 0);
    let values = values();
    for (at, (name, recipe)) in families().into_iter().enumerate() {
        let parts = ModelParts::of(&recipe);
        let keys: Vec<String> = parts.meta.iter().map(|(key, _)| key.clone()).collect();
        let keys = keys.iter().filter(|key| !key.starts_with("tokenizer."));
        for (i, (key, (what, value))) in keys.flat_map(|k| values.iter().map(move |v| (k, v))).enumerate() {
            // Another part of them all for each family.
            if !(i + at * 17).is_multiple_of(if exhaustive() { 7 } else { 149 }) {
                continue;
            }
            tried += 1;
            let gguf = parts.with(key, value.as_ref());
            let shown = value.as_ref().map_or(what.to_string(), Value::display);
            let found = catch_unwind(AssertUnwindSafe(|| fault(&gguf))).unwrap_or(Some("a panic".into()));
            if let Some(fault) = found {
                eprintln!("{name}, {key} {shown}: {fault}");
                faults.push(format!("{name}, {key} {shown}: {fault}"));
            }
        }
    }
    println!("{tried} files");
    assert!(faults.is_empty(), "{} of {tried}:\n{}", faults.len(), faults.join("\n"));
}

/// Keys whose values are out of bounds are named.
#[test]
fn an_error_of_a_key_names_it() {
    let cases = [
        ("qwen3vl", "qwen3vl.rope.dimension_sections", array(&[64, 64, 64, 64])),
        ("qwen3vl", "qwen3vl.rope.dimension_sections", array(&[24, 20, 20])),
        ("qwen2vl", "qwen2vl.rope.dimension_sections", array(&[24, 20, -20, 0])),
        ("llama", "llama.attention.head_count", Value::U32(3)),
        ("llama", "llama.rope.freq_base", Value::F32(f32::NAN)),
    ];
    for (name, key, value) in cases {
        let parts = ModelParts::of(&Recipe::recipe_of(name));
        let error = model::plan(&parts.with(key, Some(&value))).expect_err(key).to_string();
        assert!(error.contains(key), "{name}: expected an error about {key}, found {error}");
    }
}
