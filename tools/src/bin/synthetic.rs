//! Writes a model of a real shape with random weights as a file, for programs that need one.
//!
//! usage: `synthetic NAME TYPE OUT.gguf`; names as of `pumex bench --synthetic`, types as of `pumex quantize`.

use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::Value;
use pumex::quantize::recipe;
use pumex::synthetic;
use std::fs::File;
use std::io::{BufWriter, Write};

type Fault = Box<dyn std::error::Error>;

fn main() -> Result<(), Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, recipe, out] = args.as_slice() else { return Err("usage: synthetic NAME TYPE OUT.gguf".into()) };
    let shape = synthetic::find(name).ok_or_else(|| format!("{name}: no such shape"))?;
    let recipe = recipe::find(recipe).ok_or_else(|| format!("{recipe}: no such type"))?;
    let gguf = shape.model(recipe)?;
    let entry = |t: &pumex::gguf::Tensor| Entry {
        name: t.name.clone(),
        dims: t.dims.clone(),
        type_id: t.type_id,
        len_bytes: t.len_bytes,
    };
    let entries: Vec<Entry> = gguf.tensors().iter().map(entry).collect();
    let mut file = BufWriter::with_capacity(1 << 24, File::create(out)?);
    // Others want to know that there is no vocabulary, and how many ids the model has all the same.
    let arch = match gguf.meta().get("general.architecture") {
        Some(Value::Str(name)) => String::from_utf8_lossy(name),
        _ => return Err("no architecture".into()),
    };
    let ids = entries.iter().find(|e| e.name == "token_embd.weight").and_then(|e| e.dims.get(1)).copied().unwrap_or(0);
    let more = [
        ("tokenizer.ggml.model".to_string(), Value::Str("no_vocab".into())),
        (format!("{arch}.vocab_size"), Value::U32(ids as u32)),
    ];
    let more = more.iter().filter(|(key, _)| gguf.meta().get(key).is_none()).map(|(key, value)| (key.as_str(), value));
    file.write_all(&header(gguf.meta().iter().chain(more), &entries, ALIGNMENT))?;
    for tensor in gguf.tensors() {
        let held = gguf.data(tensor);
        let mut left = tensor.len_bytes as usize;
        while left > 0 {
            let some = left.min(held.len());
            file.write_all(&held[..some])?;
            left -= some;
        }
        let end = tensor.len_bytes.next_multiple_of(ALIGNMENT) - tensor.len_bytes;
        file.write_all(&vec![0; end as usize])?;
    }
    Ok(file.flush()?)
}
