//! Encoders' ops and graphs on a device, against the plain interpreter.

mod encoders;
#[path = "../media/tests/gguf/mod.rs"]
mod gguf;
mod ops;
mod products;

use crate::util::device;
use pumex::engine::Tower;
use pumex_media::graph::{Graph, Val};
use pumex_media::interpret::Interpreter;
use pumex_media::{Builder, Source, StoredTensor};
use pumex_quant::FormatId;
use std::collections::HashMap;

/// Tensors that were made up.
#[derive(Default)]
struct TestTensors {
    tensors: HashMap<String, (Vec<usize>, FormatId, Vec<u8>)>,
}

impl Source for TestTensors {
    fn text(&self, _: &str) -> Option<String> {
        None
    }

    fn number(&self, _: &str) -> Option<f64> {
        None
    }

    fn numbers(&self, _: &str) -> Option<Vec<f64>> {
        None
    }

    fn tensor(&self, name: &str) -> Option<StoredTensor<'_>> {
        let (shape, format, data) = self.tensors.get(name)?;
        Some(StoredTensor { shape: shape.clone(), format: *format, data })
    }
}

impl TestTensors {
    /// Adds a tensor of random numbers; lengths with the fastest varying first.
    fn with(mut self, name: &str, shape: &[usize], format: FormatId) -> TestTensors {
        let numbers = numbers(shape.iter().product(), self.tensors.len() as u32 + 77);
        let mut data = vec![0; format.format().row_bytes(numbers.len()).unwrap()];
        format.format().encode_row(&numbers, &vec![1.0; numbers.len()], &mut data);
        self.tensors.insert(name.into(), (shape.to_vec(), format, data));
        self
    }

    fn floats(self, name: &str, shape: &[usize]) -> TestTensors {
        self.with(name, shape, FormatId::F32)
    }
}

/// Numbers between -1 and 1.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut x = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        (x >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// A number for each of a graph's inputs.
fn inputs(graph: &Graph, seed: u32) -> Vec<Vec<f32>> {
    let len = |x: &Val| graph.view(*x).rows * graph.view(*x).cols;
    graph.inputs.iter().enumerate().map(|(i, x)| numbers(len(x), seed + i as u32)).collect()
}

/// The largest difference of a number from what the interpreter has, in parts of its root mean square.
fn largest_difference(found: &[f32], truth: &[f32]) -> f64 {
    assert_eq!(found.len(), truth.len());
    let rms = (truth.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / truth.len() as f64).sqrt();
    let worst = found.iter().zip(truth).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
    let finite = found.iter().all(|x| x.is_finite());
    if finite {
        worst / rms.max(1e-12)
    } else {
        f64::INFINITY
    }
}

/// One graph of a file.
struct Case {
    name: String,
    source: TestTensors,
    graph: Graph,
}

/// A case whose graph `build` makes.
fn case(name: impl Into<String>, source: TestTensors, build: impl FnOnce(&mut Builder<'_>) -> Val) -> Case {
    let mut builder = Builder::new(&source);
    let out = build(&mut builder);
    let graph = builder.finish(out);
    Case { name: name.into(), source, graph }
}

/// Runs all on the device, and fails at those that differ by more than `bound`.
fn agree(cases: Vec<Case>, bound: f64) {
    let Some(device) = device(false) else { return };
    let mut wrong = Vec::new();
    for Case { name, source, graph } in cases {
        let given = inputs(&graph, 5);
        let given: Vec<&[f32]> = given.iter().map(|x| &x[..]).collect();
        let truth = Interpreter::new(&source).run(&graph, &given).unwrap();
        let found = Tower::new(&device, &source).unwrap().encode(&graph, &given).unwrap();
        let off = largest_difference(&found, &truth);
        if off > bound || off.is_nan() {
            wrong.push(format!("{name}: off by {off:.1e}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    crate::util::assert_silent_on(&device);
}
