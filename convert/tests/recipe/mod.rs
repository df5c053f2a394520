//! Seeded folders of every family: the same bytes on every machine, so that sums of what an oracle makes of them can be kept.

pub mod cases;
pub mod vocabularies;

use safetensors::tensor::{serialize, Dtype, TensorView};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A stored tensor.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A folder to be.
#[derive(Clone, Debug, Default)]
pub struct RecipeFolder {
    /// Its name.
    pub name: String,
    /// Files by name, but those of tensors.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// Files that tensors are divided among.
    pub parts: usize,
    /// What files of tensors begin with.
    pub begin: &'static str,
    /// The name of an adapter's base folder.
    pub base: Option<&'static str>,
    /// What `tokenizer.ggml.pre` is said to be.
    pub pre: Option<&'static str>,
    /// What its row in documents is called.
    pub title: &'static str,
}

/// The next number of a generator (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A generator's state by a text.
fn seed(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Weights between -1 and 1 by a name.
pub fn weights(name: &str, shape: &[usize], dtype: Dtype) -> Tensor {
    let mut state = seed(name);
    let mut bytes = Vec::new();
    for _ in 0..shape.iter().product::<usize>() {
        let random = next(&mut state);
        let x = ((random >> 40) as f32 / (1 << 23) as f32) - 1.0;
        match dtype {
            Dtype::BF16 => bytes.extend(half::bf16::from_f32(x).to_le_bytes()),
            Dtype::F16 => bytes.extend(half::f16::from_f32(x).to_le_bytes()),
            Dtype::U8 => bytes.push(random as u8),
            _ => bytes.extend(x.to_le_bytes()),
        }
    }
    Tensor { shape: shape.to_vec(), dtype, bytes }
}

impl RecipeFolder {
    /// A folder with a configuration and no tensors.
    pub fn new(title: &'static str, name: &str, config: &Value) -> RecipeFolder {
        let mut folder =
            RecipeFolder { title, name: name.to_string(), parts: 1, begin: "model", ..RecipeFolder::default() };
        folder.json("config.json", config);
        folder
    }

    /// A file of JSON.
    pub fn json(&mut self, name: &str, value: &Value) {
        self.text(name, &serde_json::to_string_pretty(value).unwrap());
    }

    /// A file of text.
    pub fn text(&mut self, name: &str, text: &str) {
        self.files.insert(name.to_string(), text.as_bytes().to_vec());
    }

    /// A tensor of seeded weights.
    pub fn tensor(&mut self, name: &str, shape: &[usize], dtype: Dtype) {
        self.tensors.insert(name.to_string(), weights(&format!("{}/{name}", self.name), shape, dtype));
    }

    /// Writes it into a folder, and returns where it stands.
    pub fn write(&self, into: &Path) -> std::path::PathBuf {
        let dir = into.join(&self.name);
        std::fs::create_dir_all(&dir).unwrap();
        for (name, bytes) in &self.files {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let all: Vec<(&String, &Tensor)> = self.tensors.iter().collect();
        let part_name = |part: usize| match self.parts {
            1 => format!("{}.safetensors", self.begin),
            n => format!("{}-{:05}-of-{n:05}.safetensors", self.begin, part + 1),
        };
        let mut index = serde_json::Map::new();
        // Neighbours in different files, as in no real folder: the order of the file follows.
        for part in 0..self.parts {
            let mine = || all.iter().enumerate().filter(move |(i, _)| i % self.parts == part).map(|(_, t)| *t);
            let views =
                mine().map(|(name, t)| (name.clone(), TensorView::new(t.dtype, t.shape.clone(), &t.bytes).unwrap()));
            let bytes = serialize(views, None).unwrap();
            std::fs::write(dir.join(part_name(part)), bytes).unwrap();
            mine().for_each(|(name, _)| {
                index.insert(name.clone(), Value::String(part_name(part)));
            });
        }
        if self.parts > 1 {
            let index = serde_json::json!({"metadata": {"total_size": 0}, "weight_map": index});
            std::fs::write(dir.join(format!("{}.safetensors.index.json", self.begin)), index.to_string()).unwrap();
        }
        dir
    }
}
