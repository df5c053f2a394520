//! Control vectors: what layers add to the residual stream when they end.

use crate::adapted::control_name;
use pumex_gguf::write::Entry;
use pumex_gguf::{type_name, Error, Gguf, Result};
use pumex_plan::Plan;
use pumex_quant::FormatId;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The highest layer that a file may name.
const MAX_LAYER: usize = 1 << 16;

/// Layers that add their vectors, the last one included; 0 stands for the first and the last that can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// First.
    pub from: usize,
    /// Last.
    pub to: usize,
}

/// Attaches control vectors, each times its scale. `direction.N` is what layer N, of 0 and on, adds when it ends; layer 0 has none.
/// Vectors of the same layer add up.
///
/// # Errors
/// Files with other tensors, vectors of another width than the model's; a model whose layers end in several values.
pub(super) fn attach(gguf: &mut Gguf, plan: &Plan, files: &[(PathBuf, f32)], layers: Layers) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let Some((_, stream)) = plan.layer_ends.first() else {
        let what = format!("{}: expected layers that end in one residual stream, for control vectors", plan.arch);
        return Err(Error::file(gguf.path(), "unsupported_adapter", what));
    };
    let (width, last) = (plan.values[stream.0].width, plan.layer_ends.len() - 1);
    let (from, to) = (layers.from.max(1), if layers.to == 0 { last } else { layers.to.min(last) });
    let mut sums: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
    for (path, scale) in files {
        let file = Gguf::open(path)?;
        let fail = |code, what: String| Err(Error::file(path, code, what));
        if file.tensors().is_empty() {
            return fail("missing_tensor", "direction.1: expected a vector for some layer, found no tensors".into());
        }
        for t in file.tensors() {
            let layer = t.name.strip_prefix("direction.").and_then(|n| n.parse::<usize>().ok());
            let Some(layer) = layer.filter(|n| (1..MAX_LAYER).contains(n)) else {
                return fail("unknown_tensor", format!("{}: expected direction.N, with N of at least 1", t.name));
            };
            let flat = t.dims.iter().skip(1).all(|d| *d == 1) && t.dims.first() == Some(&(width as u64));
            if !flat || t.type_id != FormatId::F32.format().ggml_id {
                let found = type_name(t.type_id);
                return fail(
                    "wrong_shape",
                    format!("{}: expected [{width}] of F32, found {:?} of {found}", t.name, t.dims),
                );
            }
            file.touch(t, 0, t.len_bytes as usize)?;
            let mut x = vec![0.0; width];
            FormatId::F32.format().decode_row(file.data(t), &mut x);
            if x.iter().any(|x| !(x * scale).is_finite()) {
                return fail(
                    "non_finite_weight",
                    format!("{}: expected finite numbers, found NaN or infinity", t.name),
                );
            }
            if (from..=to).contains(&layer) && *scale != 0.0 {
                let sum = sums.entry(layer).or_insert_with(|| vec![0.0; width]);
                sum.iter_mut().zip(&x).for_each(|(sum, x)| *sum += scale * x);
            }
        }
    }
    for (layer, sum) in sums {
        let bytes: Vec<u8> = sum.iter().flat_map(|x| x.to_le_bytes()).collect();
        let (name, type_id) = (control_name(layer), FormatId::F32.format().ggml_id);
        gguf.attach(Entry { name, dims: vec![width as u64], type_id, len_bytes: bytes.len() as u64 }, bytes);
    }
    Ok(())
}
