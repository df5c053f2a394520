//! Types that no weight may have are refused in the same words for each role, before anything is computed.

use crate::seeded::Recipe;
use pumex::gguf::write::{header, ALIGNMENT};
use pumex::gguf::{Gguf, Tensor};
use pumex::model;

/// Types that exist only while computing, and those of numbers that are no weights: id, name, elements of a block, its bytes.
const INTERMEDIATE: [(u32, &str, u64, u64); 2] = [(9, "Q8_1", 32, 36), (15, "Q8_K", 256, 292)];
const NUMBERS: [(u32, &str, u64, u64); 5] =
    [(24, "I8", 1, 1), (25, "I16", 1, 2), (26, "I32", 1, 4), (27, "I64", 1, 8), (28, "F64", 1, 8)];

/// A seeded model's file in which one tensor is of another type, zeros all.
fn with_type(recipe: &Recipe, name: &str, (id, _, len, bytes): (u32, &str, u64, u64)) -> pumex::Result<Gguf> {
    let (meta, (mut entries, data)) = (recipe.meta(), recipe.tensors());
    let (mut at, mut all) = (0, Vec::new());
    for entry in &mut entries {
        let old = entry.len_bytes;
        if entry.name == name {
            entry.type_id = id;
            entry.len_bytes = entry.dims.iter().product::<u64>() / len * bytes;
            all.resize(all.len() + entry.len_bytes as usize, 0);
        } else {
            all.extend(&data[at as usize..][..old as usize]);
        }
        at = (at + old).next_multiple_of(ALIGNMENT);
        all.resize(all.len().next_multiple_of(ALIGNMENT as usize), 0);
    }
    assert!(entries.iter().any(|entry| entry.name == name && entry.type_id == id), "{name}");
    let mut file = header(meta.iter().map(|(key, value)| (key.as_str(), value)), &entries, ALIGNMENT);
    file.extend(all);
    Gguf::from_static("typed.gguf", file.leak())
}

/// A tensor of each role, with the types that its error names.
fn roles() -> [(&'static str, &'static str, String); 6] {
    let weights: Vec<&str> = pumex_quant::FORMATS.iter().map(|f| f.name).collect();
    let weights = format!("expected type {}", weights.join(", "));
    [
        ("llama", "blk.0.attn_q.weight", weights.clone()),
        ("llama", "token_embd.weight", weights.clone()),
        ("llama-moe", "blk.0.ffn_up_exps.weight", weights),
        ("llama", "blk.0.attn_norm.weight", "expected type F32".into()),
        ("dream", "blk.0.attn_q.bias", "expected type F32".into()),
        ("gemma4", "rope_freqs.weight", "expected type F32".into()),
    ]
}

#[test]
fn numbers_that_are_no_weights_are_refused_by_role() {
    for (family, tensor, expected) in roles() {
        for kind in NUMBERS {
            let gguf = with_type(&Recipe::recipe_of(family), tensor, kind).unwrap();
            let found: Vec<&Tensor> = gguf.tensors().iter().filter(|t| t.name == tensor).collect();
            assert_eq!((found.len(), found[0].type_id), (1, kind.0));
            let said = model::plan(&gguf).err().map(|e| e.to_string()).unwrap_or_default();
            let words = format!("type_not_allowed_for_role: {tensor}: {expected}, found {}", kind.1);
            assert!(said.contains(&words), "{family} {tensor} {}: {words}; found {said}", kind.1);
        }
    }
}

#[test]
fn types_that_are_never_stored_are_refused_when_a_file_is_opened() {
    for (family, tensor, _) in roles() {
        for kind in INTERMEDIATE {
            let said = with_type(&Recipe::recipe_of(family), tensor, kind).map(|_| ()).unwrap_err().to_string();
            let words = format!("tensor {tensor}: expected a type weights are stored in, found {}", kind.1);
            assert!(said.contains("type_not_storable: ") && said.ends_with(&words), "{family} {tensor}: {said}");
        }
    }
}

/// A table of ids has the one type of numbers that is run; any other is refused.
#[test]
fn tables_of_ids_are_of_integers_of_32_bits() {
    let recipe = Recipe::recipe_of("deepseek4");
    let table = recipe.tensors().0.into_iter().find(|entry| entry.name.contains("tid2eid")).unwrap();
    for kind in NUMBERS.into_iter().filter(|kind| kind.1 != "I32").chain([(0, "F32", 1, 4)]) {
        let gguf = with_type(&recipe, &table.name, kind).unwrap();
        let said = model::plan(&gguf).err().map(|e| e.to_string()).unwrap_or_default();
        let ends = format!("of I32, found {:?} of {}", table.dims, kind.1);
        assert!(said.contains(&format!("{}: expected", table.name)) && said.contains(&ends), "{}: {said}", kind.1);
    }
}
