//! Products with matrices of weight formats, and recordings that are kept.

use super::{agree, case, inputs, largest_difference, Case, TestTensors};
use crate::util::device;
use pumex::engine::Tower;
use pumex_media::graph::Graph;
use pumex_media::interpret::Interpreter;
use pumex_media::Builder;
use pumex_quant::FormatId;

const FORMATS: [FormatId; 5] = [FormatId::F32, FormatId::F16, FormatId::Bf16, FormatId::Q8_0, FormatId::Q4_0];

fn product(name: String, format: FormatId, (rows, m, k): (usize, usize, usize), transposed: bool, at: usize) -> Case {
    let shape = if transposed { [m, k] } else { [k, m] };
    let source = TestTensors::default().with("w", &shape, format).floats("b", &[m]);
    case(name, source, |b| {
        let x = b.input(rows, k + 2 * at).unwrap();
        let weight = if transposed { b.matrix_transposed("w", k).unwrap() } else { b.matrix("w", k).unwrap() };
        let (part, bias) = (b.part(x, at, k).unwrap(), Some(b.vector("b", m).unwrap()));
        b.product(part, weight, bias).unwrap()
    })
}

#[test]
fn products_take_matrices_of_formats_of_any_rows_and_columns() {
    let mut cases = Vec::new();
    for format in FORMATS {
        cases.push(product(format!("{format:?}"), format, (67, 65, 96), false, 0));
        cases.push(product(format!("{format:?} of columns that are not aligned"), format, (5, 33, 64), false, 3));
        if format.format().block_len == 1 {
            cases.push(product(format!("{format:?} of an odd number"), format, (3, 7, 45), false, 0));
        }
        cases.push(product(format!("{format:?} the other way"), format, (9, 64, 27), true, 0));
    }
    agree(cases, 2e-5);
}

fn graph_of(source: &TestTensors, rows: usize) -> Graph {
    let mut b = Builder::new(source);
    let x = b.input(rows, 32).unwrap();
    let y = b.linear(x, "one").unwrap();
    let sum = b.add(y, x).unwrap();
    let out = b.linear(sum, "two").unwrap();
    b.finish(out)
}

#[test]
fn recordings_serve_other_inputs_and_give_way_to_larger_graphs() {
    let Some(device) = device(false) else { return };
    let source =
        TestTensors::default().floats("one.weight", &[32, 32]).floats("one.bias", &[32]).floats("two.weight", &[32, 9]);
    let interpreter = Interpreter::new(&source);
    let mut tower = Tower::new(&device, &source).unwrap();
    for (seed, rows) in [4, 300, 4, 300, 5, 6, 7, 8, 9, 10, 4].into_iter().enumerate() {
        let graph = graph_of(&source, rows);
        let given = inputs(&graph, seed as u32 * 31);
        let given: Vec<&[f32]> = given.iter().map(|x| &x[..]).collect();
        let (found, truth) = (tower.encode(&graph, &given).unwrap(), interpreter.run(&graph, &given).unwrap());
        assert!(largest_difference(&found, &truth) < 2e-5, "{rows} rows");
    }
    let bytes = tower.weight_bytes();
    assert!((4 * (32 * 32 + 32 + 9 * 32)..8 << 10).contains(&bytes), "{bytes} bytes of weights");
    let graph = graph_of(&source, 4);
    let refused = |inputs: &[&[f32]]| Tower::new(&device, &source).unwrap().encode(&graph, inputs).unwrap_err();
    assert!(refused(&[]).to_string().contains("expected 1 inputs, found 0"));
    assert!(refused(&[&[0.0; 7]]).to_string().contains("expected an input of 4 x 32, found 7"));
    let missing = Tower::new(&device, TestTensors::default()).unwrap().encode(&graph, &[&[0.0; 128]]).unwrap_err();
    assert!(missing.to_string().contains("missing_tensor: one.weight"), "{missing}");
    crate::util::assert_silent_on(&device);
}

#[test]
fn memory_that_runs_out_is_told_and_leaves_the_tower_as_it_was() {
    let Some(device) = device(false) else { return };
    let source = TestTensors::default().floats("one.weight", &[32, 32]).floats("two.weight", &[32, 9]);
    let mut tower = Tower::new(&device, &source).unwrap();
    let graph = graph_of(&source, 40);
    let given = inputs(&graph, 3);
    let given: Vec<&[f32]> = given.iter().map(|x| &x[..]).collect();
    for after in 0..4 {
        device.refuse(after, 1);
        let refused = tower.encode(&graph, &given);
        device.refuse(0, 0);
        if let Err(e) = refused {
            assert!(e.to_string().starts_with("out of memory: "), "{e}");
        }
    }
    let truth = Interpreter::new(&source).run(&graph, &given).unwrap();
    assert!(largest_difference(&tower.encode(&graph, &given).unwrap(), &truth) < 2e-5);
}
