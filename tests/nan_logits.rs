//! Logits that are NaN are the fault of one sequence: what stands beside it, or takes its place, is as if it had never been.

use crate::util::{assert_silent, demo_path, device, exact, options};
use pumex::cpu::{Fast, FastSettings, Reference, RunnerSizes};
use pumex::engine::{CacheType, Debug, Options, VulkanRunner};
use pumex::gguf::write::{Entry, ALIGNMENT};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::step::{Nan, Row, RowOutput, Runner, Token};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use std::path::Path;

/// The id that spoils its sequence.
pub const SPOILT: u32 = 1234;

/// Where one id's first column, which is 0 in the rows of all others, becomes infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPosition {
    /// In the first layer's second norm, so that what later layers keep of the row is NaN.
    FirstLayer,
    /// In the last norm: between products, devices take what is infinite for the largest half.
    Logits,
}

/// The demo model with such an id.
pub fn model_with_nan(at: FaultPosition) -> Gguf {
    let demo = Gguf::open(&demo_path()).unwrap();
    let meta = demo.meta().iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
    let (mut bytes, mut tensors) = (Vec::new(), Vec::new());
    let mut add = |name: &str, dims: &[u64], type_id: u32, data: &[u8]| {
        let (start, len_bytes) = (bytes.len(), data.len() as u64);
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
        tensors.push((Entry { name: name.to_string(), dims: dims.to_vec(), type_id, len_bytes }, (0, start)));
    };
    for tensor in demo.tensors() {
        let (name, dims, type_id) = (tensor.name.as_str(), &tensor.dims[..], tensor.type_id);
        let mut data = demo.data(tensor).to_vec();
        let row = data.len() / dims.get(1).map_or(1, |rows| *rows as usize);
        let infinite = if at == FaultPosition::Logits { "output_norm.weight" } else { "blk.0.ffn_norm.weight" };
        if name == infinite {
            data[..4].copy_from_slice(&3e38f32.to_le_bytes());
        } else if name.ends_with("attn_output.weight") || name.ends_with("ffn_down.weight") {
            data[..row].fill(0); // a block of zeros is one of weights that are 0
        } else if name == "token_embd.weight" {
            let mut floats = vec![0f32; dims.iter().product::<u64>() as usize];
            pumex_quant::find(type_id).unwrap().decode_row(&data, &mut floats);
            let cols = dims[0] as usize;
            floats.iter_mut().step_by(cols).for_each(|x| *x = 0.0);
            floats[SPOILT as usize * cols] = 1000.0;
            let floats: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
            add(name, dims, 0, &floats);
            data[..row].fill(0); // of which the product with what is infinite is NaN
            add("output.weight", dims, type_id, &data);
            continue;
        }
        add(name, dims, type_id, &data);
    }
    Gguf::without_file(Path::new("spoilt"), meta, tensors, vec![bytes])
}

fn row(seq: u32, pos: u32, token: Token, output: RowOutput) -> Row {
    Row { seq, pos, token, output, medium: None }
}

/// All interpreters there are, each of a model.
fn each(check: impl Fn(&mut dyn Runner, &str)) {
    let gguf = model_with_nan(FaultPosition::FirstLayer);
    let plan = model::plan(&gguf).unwrap();
    check(&mut Reference::new(&gguf, plan.clone(), 256, 4, 64), "reference");
    let [k, v] = [Float::F16, Float::F32].map(Elements::Floats);
    let sizes = RunnerSizes { n_ctx: 256, n_seqs: 4, max_rows: 64, cache_positions: None, k, v };
    check(&mut Fast::new(&gguf, plan, sizes, &FastSettings::default()).unwrap(), "cpu");
    let Some(device) = device(false) else { return };
    let way = Options { n_seqs: 4, debug: Debug { ..exact() }, ..options(CacheType::F16) };
    let gguf = model_with_nan(FaultPosition::Logits);
    let plan = model::plan(&gguf).unwrap();
    let mut runner = VulkanRunner::new(&gguf, plan, device, &way, &mut |_, _| ()).unwrap();
    check(&mut runner, "vulkan");
    assert_silent(&runner);
}

/// Ids of two steps of a sequence beside one, or alone; the prompt's rows are of three positions.
fn answer(runner: &mut dyn Runner, name: &str, beside: Option<u32>) -> (Vec<u32>, Vec<f32>) {
    let prompt = |seq: u32, ids: [u32; 3]| {
        let output = |at: usize| if at == 2 { RowOutput::Id } else { RowOutput::None };
        (0..3).map(move |at| row(seq, at as u32, Token::Id(ids[at]), output(at)))
    };
    let other = beside.map(|id| prompt(1, [7, 9, id]));
    let first: Vec<Row> = prompt(0, [5, 589, 346]).chain(other.into_iter().flatten()).collect();
    let first = runner.start(&first).unwrap();
    let next = |seq: u32| row(seq, 3, Token::Sampled, RowOutput::Logits);
    let second = [Some(next(0)), beside.map(|_| next(1))].into_iter().flatten().collect::<Vec<_>>();
    let second = runner.start(&second).unwrap();
    let (first, second) = (runner.finish_each(first).unwrap(), runner.finish_each(second).unwrap());
    let spoilt = beside == Some(SPOILT);
    let expected = |row: usize| if spoilt { vec![Nan { output: 1, row }] } else { Vec::new() };
    assert_eq!((first.nan, second.nan), (expected(5), expected(5)), "{name}");
    assert!(second.ids.len() == 1 + usize::from(beside.is_some()));
    let width = runner.n_vocab();
    (vec![first.ids[0], second.ids[0]], second.logits[..width].to_vec())
}

#[test]
fn what_stands_beside_a_sequence_of_nan_is_as_if_it_were_alone() {
    each(|runner, name| {
        let alone = answer(runner, name, Some(10));
        assert!(alone.1.iter().all(|x| x.is_finite()), "{name}");
        (0..2).for_each(|seq| assert_eq!(runner.forget(seq, 0), 0));
        assert!(answer(runner, name, Some(SPOILT)) == alone, "{name}: beside NaN");
        let error = runner.start(&[row(1, 4, Token::Sampled, RowOutput::Id)]).unwrap_err().to_string();
        assert!(error.contains("expected an id that a step sampled"), "{name}: {error}");
        // Its blocks are taken by others, which must not see what it left.
        (0..2).for_each(|seq| assert_eq!(runner.forget(seq, 0), 0));
        for seq in 0..3 {
            let rows: Vec<Row> = (0..40).map(|at| row(seq, at, Token::Id(SPOILT), RowOutput::None)).collect();
            let ticket = runner.start(&rows).unwrap();
            runner.finish_each(ticket).unwrap();
        }
        (0..3).for_each(|seq| assert_eq!(runner.forget(seq, 0), 0));
        assert!(answer(runner, name, Some(10)) == alone, "{name}: in blocks that held NaN");
    });
}
