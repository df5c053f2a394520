//! A folder's tensors in the types of a recipe, as [`super::Plan`] gives them to those of its F32 file.

use super::recipe::{self, Chooser, Model, Recipe, Tensor};
use pumex_convert::{Conversion, MetaValue};
use pumex_gguf::{Error, Result};
use std::path::Path;

/// Gives a conversion's tensors a recipe's types. Blocks that are only moved keep theirs. `dir` is for messages.
///
/// # Errors
/// Rows that no type's blocks fit.
pub fn retype(conversion: &mut Conversion, recipe: &'static Recipe, dir: &Path) -> Result<()> {
    let Some(MetaValue::Str(arch)) = conversion.meta.get("general.architecture").cloned() else { return Ok(()) };
    let number = |key: &str| conversion.number(&format!("{arch}.{key}")).unwrap_or(0) as usize;
    let (n_head, n_head_kv) = (number("attention.head_count"), number("attention.head_count_kv"));
    let dims = |t: &pumex_convert::Tensor| t.shape().iter().rev().map(|d| *d as u64).collect::<Vec<u64>>();
    let tensors: Vec<(String, Vec<u64>, bool)> =
        conversion.tensors().iter().map(|t| (t.name.clone(), dims(t), t.is_encoded())).collect();
    let model = Model {
        arch: &arch,
        n_layer: number("block_count"),
        n_head,
        n_head_kv: if n_head_kv == 0 { n_head } else { n_head_kv },
        n_expert: number("expert_count"),
        n_attn_v: tensors.iter().filter(|(name, ..)| recipe::is_attn_v(name)).count(),
        has_output: tensors.iter().any(|(name, ..)| name == "output.weight"),
        has_imatrix: false,
    };
    let mut chooser = Chooser::new(recipe, model);
    // The chooser counts tensors layer by layer, whatever their order in the file.
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|i| recipe::place(&tensors[*i].0));
    for at in order {
        let (name, dims, encoded) = &tensors[at];
        let described = Tensor { name, dims };
        if !recipe::quantizable(&described) || !encoded {
            continue;
        }
        let wanted = chooser.choose(&described);
        let len = |id: pumex_quant::FormatId| id.format().block_len as u64;
        let row = dims.first().copied().unwrap_or(1);
        let found = if row.is_multiple_of(len(wanted)) { wanted } else { recipe::fallback(wanted, row, len) };
        let failed = |e: pumex_convert::Error| Error::file(dir, "row_not_block_multiple", e.to_string());
        conversion.retype(at, found.format()).map_err(failed)?;
    }
    conversion.meta.set("general.file_type", MetaValue::U32(recipe.file_type));
    Ok(())
}
