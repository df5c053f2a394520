//! Models made around one op, and steps that both interpreters run.

use crate::util::{assert_silent, exact, nmse, options, vulkan_plan};
use pumex::cpu::{Fast, FastSettings, Reference, RunnerSizes};
use pumex::engine::{CacheType, Debug, Options};
use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::Gguf;
use pumex::plan::{Builder, Cols, LayerState, Plan, RecurrentSpec, Val, Weight, WeightInfo};
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;

/// Columns of the embedding.
pub const DIM: usize = 256;
const VOCAB: usize = 64;
/// Bound of what is computed in f32.
pub const EXACT: f64 = 1e-10;

/// Columns of a value.
pub fn cols(val: Val, at: usize, stride: usize) -> Cols {
    Cols { val, at, stride }
}

/// A state of so many floats.
pub fn keeps(floats: usize) -> Vec<LayerState> {
    vec![LayerState::Recurrent(RecurrentSpec { parts: vec![("state", vec![floats])] })]
}

/// Numbers that look random, around 0.
fn noise(seed: usize, len: usize, size: f32) -> Vec<f32> {
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..len).map(|_| size * next()).collect()
}

/// Weights of a model on its way.
pub struct TestWeights {
    tensors: Vec<(Entry, Vec<u8>)>,
    infos: Vec<WeightInfo>,
}

impl TestWeights {
    /// With an embedding of numbers of that size around 0.
    pub fn new(size: f32) -> TestWeights {
        let mut made = TestWeights { tensors: Vec::new(), infos: Vec::new() };
        made.floats(VOCAB, DIM, size);
        made
    }

    fn weight(&mut self, name: &str, rows: usize, cols: usize, values: &[f32]) -> Weight {
        let format = pumex_quant::all().find(|f| f.name == name).unwrap();
        let row_bytes = format.row_bytes(cols).unwrap();
        let mut data = vec![0; rows * row_bytes];
        for (x, out) in values.chunks(cols).zip(data.chunks_mut(row_bytes)) {
            format.encode_row(x, &vec![1.0; cols], out);
        }
        let name = format!("weight.{}", self.infos.len());
        let dims = if rows == 1 { vec![cols as u64] } else { vec![cols as u64, rows as u64] };
        let (type_id, len_bytes) = (format.ggml_id, data.len() as u64);
        self.tensors.push((Entry { name: name.clone(), dims, type_id, len_bytes }, data));
        self.infos.push(WeightInfo { name, tensor: self.infos.len(), rows, cols, format });
        Weight(self.infos.len() - 1)
    }

    /// A vector or table of floats.
    pub fn floats(&mut self, rows: usize, cols: usize, size: f32) -> Weight {
        let values = noise(self.infos.len() + 1, rows * cols, size);
        self.weight("F32", rows, cols, &values)
    }

    /// A table of floats that `value` gives by their index.
    pub fn values(&mut self, rows: usize, cols: usize, value: impl Fn(usize) -> f32) -> Weight {
        let values: Vec<f32> = (0..rows * cols).map(value).collect();
        self.weight("F32", rows, cols, &values)
    }

    /// A table of floats from -1 to 0.
    pub fn negative(&mut self, rows: usize, cols: usize) -> Weight {
        let values: Vec<f32> = noise(self.infos.len() + 1, rows * cols, 1.0).iter().map(|x| x - 0.5).collect();
        self.weight("F32", rows, cols, &values)
    }

    /// A matrix of a format.
    pub fn add_matrix(&mut self, format: &str, rows: usize, cols: usize) -> Weight {
        let values = noise(self.infos.len() + 1, rows * cols, 1.0);
        self.weight(format, rows, cols, &values)
    }

    /// The model and the plan whose logits are the value that `ops` make of the embedding.
    pub fn plan(
        self,
        layers: &[LayerState],
        ropes: &[Vec<f32>],
        ops: impl FnOnce(&mut Builder, Val) -> Val,
    ) -> (Gguf, Plan) {
        let entries: Vec<Entry> = self.tensors.iter().map(|(entry, _)| entry.clone()).collect();
        let mut bytes = header(std::iter::empty(), &entries, ALIGNMENT);
        for (_, data) in self.tensors {
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
        }
        let gguf = Gguf::from_static("general.gguf", bytes.leak()).unwrap();
        let mut b = Builder::new(self.infos);
        let x = b.embed(Weight(0));
        let made = ops(&mut b, x);
        (gguf, b.finish("made", made, layers.to_vec(), ropes.to_vec(), 256))
    }
}

/// Rows of a step: of which sequence, and how many.
pub type StepRows = &'static [(u32, usize)];

/// Steps of rows of (sequence, how many rows), each from where the sequence is: of one row, of few and of many; two sequences
/// between each other; a row of each; the second sequence again from its start, and again as the first one's fork.
const STEPS: [StepRows; 9] = [
    &[(0, 1)],
    &[(0, 3)],
    &[(0, 40)],
    &[(0, 1), (1, 2), (0, 2), (1, 1), (0, 1), (1, 20)],
    &[(1, 1), (0, 1)],
    &[(1, 5)],
    &[(0, 2), (1, 12)],
    &[(1, 1), (0, 1)],
    &[(0, 3), (1, 2)],
];
/// The step before which the second sequence is forgotten.
const AGAIN: usize = 5;
/// That before which it becomes the first one's fork.
const FORK: usize = 7;

/// Whether the device agrees with the reference in every step, with weights as the file has them and, in the first steps, as they
/// are sent to devices with memory of their own; false without a device.
pub fn agrees(what: &str, gguf: &Gguf, plan: &Plan, bound: f64) -> bool {
    runs(what, gguf, plan, bound, options(CacheType::F32), &STEPS) && {
        let debug = Debug { force_staging: true, ..exact() };
        runs(what, gguf, plan, bound, Options { debug, ..options(CacheType::F32) }, &STEPS[..AGAIN])
    }
}

/// Whether the device agrees with the reference over such steps; false without a device.
pub fn runs(what: &str, gguf: &Gguf, plan: &Plan, bound: f64, options: Options, steps: &[StepRows]) -> bool {
    let Some(mut runner) = vulkan_plan(gguf, plan.clone(), options) else { return false };
    compare(what, gguf, plan, bound, &mut runner, steps);
    assert_silent(&runner);
    true
}

/// The CPU's fast interpreter against the reference, likewise; with packed weights and with the file's.
pub fn fast_agrees(what: &str, gguf: &Gguf, plan: &Plan, bound: f64) {
    let elements = Elements::Floats(Float::F32);
    let sizes = RunnerSizes { n_ctx: 256, n_seqs: 2, max_rows: 64, cache_positions: None, k: elements, v: elements };
    for in_place in [false, true] {
        let settings = FastSettings { threads: Some(2), in_place, ..FastSettings::default() };
        let mut runner = Fast::new(gguf, plan.clone(), sizes, &settings).unwrap();
        compare(&format!("{what} on the CPU"), gguf, plan, bound, &mut runner, &STEPS);
    }
}

/// Asserts that a runner with room for two sequences agrees with the reference over such steps.
pub fn compare(what: &str, gguf: &Gguf, plan: &Plan, bound: f64, runner: &mut dyn Runner, steps: &[StepRows]) {
    let mut reference = Reference::new(gguf, plan.clone(), 256, 2, 64);
    let mut at = [0u32; 2];
    for (i, parts) in steps.iter().enumerate() {
        if i == AGAIN {
            at[1] = 0;
            runner.forget(1, 0);
            reference.forget(1, 0);
        }
        if i == FORK {
            at[1] = at[0];
            runner.fork(0, 1, at[0]).unwrap();
            reference.fork(0, 1, at[0]).unwrap();
        }
        let mut rows: Vec<Row> = Vec::new();
        for (seq, count) in parts.iter() {
            for _ in 0..*count {
                let pos = at[*seq as usize];
                let token = Token::Id((pos * 7 + seq * 5 + 3) % VOCAB as u32);
                rows.push(Row { seq: *seq, pos, token, output: RowOutput::Logits, medium: None });
                at[*seq as usize] += 1;
            }
        }
        let found = runner.run(&rows, Want::Logits).unwrap().logits;
        let truth = reference.run(&rows, Want::Logits).unwrap().logits;
        // Before a first row there is nothing, and the error of nothing no number.
        let error = if found == truth { 0.0 } else { nmse(&found, &truth) };
        assert!(error < bound, "{what}: step {i} of {} rows: NMSE {error:e}", rows.len());
    }
}
