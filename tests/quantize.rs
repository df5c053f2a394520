//! Encoding: errors against llama.cpp's quantizer on a real model.

use crate::util::shared;
use pumex::gguf::Gguf;
use pumex_quant::{find, Format, FORMATS};
use rayon::prelude::*;

/// A tensor's name, row length and weights.
type Matrix = (String, usize, Vec<f32>);

fn matrices(gguf: &Gguf) -> Vec<Matrix> {
    let decoded = |t: &pumex::gguf::Tensor| {
        let mut out = vec![0f32; t.elements() as usize];
        find(t.type_id).unwrap().decode_row(gguf.data(t), &mut out);
        (t.name.clone(), t.dims[0] as usize, out)
    };
    gguf.tensors().iter().filter(|t| t.dims.len() == 2).map(decoded).collect()
}

/// Encodes and decodes all rows; squared error and squared signal.
fn loss(format: &Format, (_, cols, x): &Matrix, weight: &[f32]) -> (f64, f64) {
    let one = |row: &[f32]| {
        let mut bytes = vec![0; format.row_bytes(row.len()).unwrap()];
        let mut back = vec![0f32; row.len()];
        format.encode_row(row, weight, &mut bytes);
        format.decode_row(&bytes, &mut back);
        let error: f64 = row.iter().zip(&back).map(|(a, b)| f64::from(a - b).powi(2)).sum();
        (error, row.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>())
    };
    x.par_chunks_exact(*cols).map(one).reduce(|| (0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
}

#[test]
fn no_format_loses_more_than_llama_cpp_s_quantizer() {
    let Some(shared) = shared() else { return };
    let gguf = Gguf::open(&shared.join("models/llama-draft-f16.gguf")).unwrap();
    let matrices = matrices(&gguf);
    let table = std::fs::read_to_string(shared.join("golden/quantization_error.tsv")).unwrap();
    let mut worse = Vec::new();
    for line in table.lines().filter(|l| !l.starts_with('#') && !l.contains("ERR")) {
        let cells: Vec<&str> = line.split('\t').collect();
        if cells.len() < 5
            || cells[1] == "imx"
                && !cells[2].contains("IQ1")
                && !cells[2].contains("IQ2")
                && !cells[2].contains("IQ3_XXS")
        {
            continue;
        }
        // What llama.cpp kept at a higher type stays at it: `TYPExCOUNT,...`, the embedding first.
        let kinds: Vec<&str> = cells[2].split(',').map(|k| k.rsplit_once('x').unwrap().0).collect();
        let by_name = |name: &str| FORMATS.iter().find(|f| f.name == name).unwrap();
        let (mut error, mut signal) = (0.0, 0.0);
        let begun = std::time::Instant::now();
        for m in &matrices {
            let kind = if m.0 == "token_embd.weight" { kinds[0] } else { kinds[kinds.len() - 1] };
            let (e, s) = loss(by_name(kind), m, &vec![1.0; m.1]);
            (error, signal) = (error + e, signal + s);
        }
        let (found, theirs) = ((error / signal).sqrt(), cells[4].parse::<f64>().unwrap());
        println!(
            "{} {}: {found:.6}, llama.cpp {theirs:.6}, {:.2} s",
            cells[0],
            cells[1],
            begun.elapsed().as_secs_f64()
        );
        if found > theirs {
            worse.push(format!("{} {}: {found:.6} above {theirs:.6}", cells[0], cells[1]));
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}
