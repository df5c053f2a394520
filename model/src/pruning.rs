//! What a model without some of its layers is: the others as they were, or none that can be told in a file.
//!
//! [`check`] plans the model before and after, and compares the layers that stay, op by op. Families read more off a layer's index
//! than their keys say, such as windows in every layer but one in six, which would mean other layers then.

use crate as model;
use crate::config::Config;
use crate::quantize;
use crate::quantize::Options;
use pumex_gguf::{Error, Gguf, Result, Value, ValueType};
use pumex_plan::{Access, LayerState, Op, Plan, Val};
use regex::{Captures, Regex};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// Tensors of so many bytes keep theirs where plans are compared: factors of RoPE, for instance, are read for a plan.
const SMALL: u64 = 1 << 16;
/// Which layers are recurrent, where every so many-th is not unless there is this array.
const RECURRENT: &str = "attention.recurrent_layers";

/// Finds what metadata a model without layers needs beside that which [`quantize::Plan`] takes out of it, so that the others compute
/// as they did.
///
/// # Errors
/// A layer that would be another one than it was, and the key that says so by its index; a family of which layers cannot be told apart.
pub fn check(gguf: &Gguf, layers: &[usize]) -> Result<Vec<(String, Value)>> {
    let gone: BTreeSet<usize> = layers.iter().copied().collect();
    let before = planned(gguf, &Options::default())?;
    let with =
        |keys: Vec<(String, Value)>| Options { prune_layers: layers.to_vec(), override_kv: keys, ..Options::default() };
    let attempt = |keys: Vec<(String, Value)>| -> Result<Vec<(String, Value)>> {
        let kept = keys.clone();
        let after = planned(gguf, &with(keys));
        let after =
            after.map_err(|error| refused(&gone, &format!("the others make no model: {}", first_fault(&error))))?;
        compare(gguf, &before, &after, &gone).map(|()| kept)
    };
    let first = attempt(Vec::new());
    match (first, recurrent(gguf, &before, &gone)) {
        (Err(why), Some(key)) => attempt(vec![key]).map_err(|_| why),
        (first, _) => first,
    }
}

fn refused(gone: &BTreeSet<usize>, why: &str) -> Error {
    let layers: Vec<String> = gone.iter().map(usize::to_string).collect();
    Error::Request(format!(
        "--prune-layers {}: expected the other layers to stay as they are, but {why}",
        layers.join(",")
    ))
}

/// The first fault of those that an error lists.
fn first_fault(error: &Error) -> String {
    let told = error.to_string();
    told.split_once("; ").map_or(told.clone(), |(first, _)| format!("{first}; and more"))
}

/// The plan of what quantizing with such options makes, whose large tensors are empty.
fn planned(gguf: &Gguf, options: &Options) -> Result<Plan> {
    let plan = quantize::Plan::new(gguf, options)?;
    let most = plan.jobs().map(|job| job.entry.len_bytes).filter(|len| *len > SMALL).max().unwrap_or(0);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let empty = pumex_gguf::error::try_filled_vec(0, most, &format!("{}: a tensor", gguf.path().display()))?;
    let (mut bytes, mut tensors) = (Vec::new(), Vec::new());
    for job in plan.jobs() {
        let tensor = &gguf.tensors()[job.tensor];
        if tensor.len_bytes > SMALL {
            tensors.push((job.entry.clone(), (0, 0)));
        } else {
            tensors.push((job.entry.clone(), (1, bytes.len())));
            bytes.extend_from_slice(gguf.data(tensor));
            bytes.resize(bytes.len().next_multiple_of(64), 0);
        }
    }
    model::plan(&Gguf::without_file(gguf.path(), plan.meta.clone(), tensors, vec![empty, bytes]))
}

/// The array that says which layers are recurrent, if some are and the file leaves it to their index.
fn recurrent(gguf: &Gguf, plan: &Plan, gone: &BTreeSet<usize>) -> Option<(String, Value)> {
    let arch = gguf.meta().arch().ok()?;
    let key = format!("{arch}.{RECURRENT}");
    let all = gguf.meta().u32(&format!("{arch}.block_count")).ok()? as usize;
    let is = |layer: usize| matches!(plan.layers.get(layer), Some(LayerState::Recurrent(_)));
    let raw: Vec<u8> = (0..all).filter(|layer| !gone.contains(layer)).map(|layer| u8::from(is(layer))).collect();
    let missing = gguf.meta().get(&key).is_none() && raw.contains(&1);
    missing.then_some((key, Value::Array { element: ValueType::Bool, raw }))
}

/// Values that an op writes.
fn written(op: &Op) -> impl Iterator<Item = Val> {
    op.writes().into_iter().filter_map(|access| if let Access::Value(value) = access { Some(value) } else { None })
}

/// The layers of a plan, for comparison.
struct Layers<'a> {
    plan: &'a Plan,
    /// Where each layer's ops begin and end; behind the last one follows what makes logits.
    ends: Vec<usize>,
    /// Where each value is written first: layer, and number among those of the layer.
    made: HashMap<usize, (usize, usize)>,
    /// Ops before the first layer that stays, if that is not the file's first one.
    head: usize,
    /// Likewise each state, by the op that reads or writes it first.
    states: HashMap<usize, (usize, usize)>,
    /// Number in the pruned model of each layer; none of those that go.
    number: Vec<Option<usize>>,
}

impl<'a> Layers<'a> {
    /// None of families whose layers end in several values, run more than once or belong to an encoder: those have not as many ends
    /// as there are layers.
    fn of(plan: &'a Plan, count: usize, gone: &BTreeSet<usize>) -> Option<Layers<'a>> {
        if plan.layer_ends.len() != count || count == 0 || plan.encoder.is_some() {
            return None;
        }
        let ends: Vec<usize> = plan.layer_ends.iter().map(|(end, _)| *end).chain([plan.ops.len()]).collect();
        let mut next = 0;
        let number = |layer: usize| {
            let stays = !gone.contains(&layer);
            next += usize::from(stays);
            stays.then(|| next - 1)
        };
        let (made, states, number) = (HashMap::new(), HashMap::new(), (0..=count).map(number).collect());
        Some(Layers { plan, ends, made, states, head: 0, number })
    }

    fn start(&self, layer: usize) -> usize {
        layer.checked_sub(1).map_or(self.head, |before| self.ends[before])
    }

    fn len(&self, layer: usize) -> usize {
        self.ends[layer].saturating_sub(self.start(layer))
    }

    /// Numbers values and states, once it is known where the first layer begins.
    fn number_all(&mut self) {
        let mut counts = vec![[0; 2]; self.ends.len() + 1];
        for (at, op) in self.plan.ops.iter().enumerate() {
            // What comes before the first layer is of none, which is 0 here.
            let layer = if at < self.head { 0 } else { 1 + self.ends.partition_point(|end| *end <= at) };
            for access in op.reads().into_iter().chain(op.writes()) {
                let (entry, count) = match access {
                    Access::State(state) => (self.states.entry(state), &mut counts[layer][0]),
                    Access::Value(value) => (self.made.entry(value.0), &mut counts[layer][1]),
                    Access::Ids => continue,
                };
                entry.or_insert_with(|| {
                    *count += 1;
                    (layer, *count)
                });
            }
        }
    }

    /// A place among those of all layers, by which it is known again.
    fn place(&self, place: Option<&(usize, usize)>) -> String {
        match place {
            None => "unset".to_string(),
            Some((0, number)) => format!("head {number}"),
            Some((of, number)) => match self.number[of - 1] {
                Some(of) => format!("{of}.{number}"),
                None => format!("gone {of}.{number}"),
            },
        }
    }

    /// The value that a layer begins with.
    fn enters(&self, layer: usize) -> Option<Val> {
        match layer.checked_sub(1) {
            Some(before) => Some(self.plan.layer_ends[before].1),
            None => self.plan.ops[..self.head].iter().rev().flat_map(written).next(),
        }
    }

    fn value(&self, value: Val, layer: usize) -> String {
        let info = &self.plan.values[value.0];
        let from = match self.enters(layer) == Some(value) {
            true => "in".to_string(),
            false => self.place(self.made.get(&value.0)),
        };
        format!("({from})[{}, {:?}]", info.width, info.rows)
    }

    /// What stands in a table of the plan.
    fn table(&self, tables: &[Vec<f32>], index: usize) -> String {
        let long = self.plan.long_ropes.as_ref().and_then(|(above, long)| Some((above, long.get(index)?)));
        let bits = |table: &[f32]| {
            table
                .iter()
                .fold(0xcbf2_9ce4_8422_2325u64, |h, x| (h ^ u64::from(x.to_bits())).wrapping_mul(0x100_0000_01b3))
        };
        format!(
            "{:x}/{:?}",
            tables.get(index).map_or(0, |table| bits(table)),
            long.map(|(above, table)| (above, bits(table)))
        )
    }

    /// An op as text that is the same where it does the same: names for numbers of weights and values, contents for those of tables.
    fn line(&self, op: &Op, layer: usize, numbers: &Regex) -> String {
        let weights = op.weights();
        let of_weight = |index: usize| {
            let info = &self.plan.weights[index];
            let name = match quantize::recipe::place(&info.name).0 {
                Some(of) => {
                    let rest = info.name.splitn(3, '.').nth(2).unwrap_or_default();
                    format!("{:?}.{rest}", self.number.get(of).copied().flatten())
                }
                None => info.name.clone(),
            };
            format!("{name}[{}, {}, {}]", info.rows, info.cols, info.format.name)
        };
        let text = format!("{op:?}");
        let named = |found: &Captures<'_>| {
            let index = found.get(2).and_then(|digits| digits.as_str().parse::<usize>().ok()).unwrap_or(usize::MAX);
            match &found[1] {
                "Val(" => self.value(Val(index), layer),
                "Weight(" if weights.iter().any(|w| w.0 == index) => of_weight(index),
                "layer: " => format!("state {} {:?}", self.place(self.states.get(&index)), self.plan.layers.get(index)),
                "table: " | "biases: Some(" => self.table(&self.plan.ropes, index),
                "Table(" | "list: " | "instead: Some(" => self.table(&self.plan.numbers, index),
                _ => found[0].to_string(),
            }
        };
        numbers.replace_all(&text, named).into_owned()
    }

    fn lines(&self, layer: usize, numbers: &Regex) -> String {
        let mut all = String::new();
        for op in &self.plan.ops[self.start(layer).min(self.ends[layer])..self.ends[layer]] {
            // Writing to a string does not fail.
            let _ = writeln!(all, "{}", self.line(op, layer, numbers));
        }
        all
    }
}

/// Compares the layers that stay.
fn compare(gguf: &Gguf, before: &Plan, after: &Plan, gone: &BTreeSet<usize>) -> Result<()> {
    let config = Config::from_gguf(gguf)?;
    let stay: Vec<usize> = (0..=config.n_layer).filter(|layer| !gone.contains(layer)).collect();
    let parted = Layers::of(before, config.n_layer, gone).zip(Layers::of(after, stay.len() - 1, &BTreeSet::new()));
    let Some((mut old, mut new)) = parted else {
        let what = format!(
            "layers of {} cannot be told apart: they hand on several values, run often or answer an encoder",
            before.arch
        );
        return Err(refused(gone, &what));
    };
    // Ops before the first layer are part of its range; how many they are is told by the layer that comes to its place.
    if let Some(first) = stay.first().filter(|first| **first > 0) {
        let head = new.len(0).saturating_sub(old.len(*first));
        (old.head, new.head) = (head.min(old.ends[0]), head);
    }
    old.number_all();
    new.number_all();
    let numbers =
        Regex::new(r"(Val\(|Weight\(|\blayer: |\btable: |\bbiases: Some\(|Table\(|\blist: |\binstead: Some\()(\d+)\)?");
    let numbers = numbers.map_err(|e| Error::Request(e.to_string()))?;
    let heads = |layers: &Layers<'_>| -> Vec<String> {
        layers.plan.ops[..layers.head].iter().map(|op| layers.line(op, 0, &numbers)).collect()
    };
    let same = heads(&old) == heads(&new);
    let other = stay.iter().enumerate().find(|(to, from)| old.lines(**from, &numbers) != new.lines(*to, &numbers));
    match other {
        None if same && before.dense_positions == after.dense_positions => Ok(()),
        None => Err(refused(gone, "what comes before the layers would be another")),
        Some((to, from)) => {
            let key = decides(gguf, (&old, *from), (&new, to));
            let what = if *from == config.n_layer {
                "what makes the logits".to_string()
            } else {
                format!("layer {from}, then {to},")
            };
            Err(refused(gone, &format!("{what} would be another one than it is: {key}")))
        }
    }
}

/// What decides by a layer's index how two that should be the same differ.
fn decides(gguf: &Gguf, (old, from): (&Layers<'_>, usize), (new, to): (&Layers<'_>, usize)) -> String {
    let arch = &old.plan.arch;
    let masks = |layers: &Layers<'_>, layer: usize| -> Vec<String> {
        let ops = &layers.plan.ops[layers.start(layer).min(layers.ends[layer])..layers.ends[layer]];
        ops.iter()
            .filter_map(|op| if let Op::Attend { spec, .. } = op { Some(format!("{:?}", spec.mask)) } else { None })
            .collect()
    };
    let recurs = |layers: &Layers<'_>, layer: usize| {
        let mut states = layers.states.iter().filter(|(_, place)| place.0 == layer + 1).map(|(state, _)| *state);
        states.any(|state| matches!(layers.plan.layers.get(state), Some(LayerState::Recurrent(_))))
    };
    let keys = if masks(old, from) != masks(new, to) && recurs(old, from) == recurs(new, to) {
        &["attention.sliding_window_pattern", "attention.sliding_window"][..]
    } else if recurs(old, from) != recurs(new, to) {
        &[RECURRENT, "full_attention_interval"][..]
    } else {
        &["interleave_moe_layer_step", "moe_every_n_layers"][..]
    };
    let given = keys.iter().map(|key| format!("{arch}.{key}")).find(|key| gguf.meta().get(key).is_some());
    match given {
        Some(key) => format!("{key} goes by a layer's index, and readers take no array that could say otherwise"),
        None => format!("{arch} makes layers by their index or number, and no key of the file says otherwise"),
    }
}
