//! Files made from lists of keys and tensors, with seeded weights.

use pumex_media::{Source, StoredTensor};
use serde_json::Value;
use std::collections::HashMap;

/// Files, whether it is their encoder of pictures, width and height of an input, and the rows and columns that come out.
pub type Size = (&'static str, bool, [usize; 2], [usize; 2]);

/// One for each encoder of the list.
pub const SIZES: &[Size] = &[
    ("cogvlm", true, [112, 112], [66, 64]),
    ("deepseek4v", true, [224, 224], [46, 64]),
    ("deepseekocr", true, [640, 1280], [210, 64]),
    ("deepseekocr2", true, [768, 768], [144, 64]),
    ("dots-ocr", true, [224, 168], [48, 64]),
    ("dots3note-v", true, [224, 168], [48, 64]),
    ("exaone4-5", true, [168, 112], [24, 64]),
    ("gemma3", true, [168, 168], [9, 64]),
    ("gemma3-s2-f16", true, [112, 112], [16, 64]),
    ("gemma3nv", true, [256, 256], [256, 64]),
    ("gemma4-va", true, [120, 360], [75, 64]),
    ("gemma4uv", true, [48, 72], [6, 64]),
    ("gemma4v", true, [48, 72], [6, 64]),
    ("gemma4v-clamp", true, [48, 72], [6, 64]),
    ("glm-edge", true, [112, 112], [18, 64]),
    ("glm4v", true, [112, 84], [12, 64]),
    ("glm5v", true, [112, 84], [12, 64]),
    ("granite4-vision", true, [112, 560], [88, 128]),
    ("hunyuanvl", true, [224, 160], [42, 64]),
    ("idefics3", true, [56, 56], [4, 64]),
    ("internvl", true, [56, 56], [4, 64]),
    ("internvl-tiles", true, [56, 56], [4, 64]),
    ("janus-pro", true, [112, 112], [64, 64]),
    ("kimik25", true, [112, 84], [12, 64]),
    ("kimivl", true, [112, 84], [12, 64]),
    ("ldp", true, [336, 336], [144, 64]),
    ("ldpv2", true, [336, 336], [144, 64]),
    ("lfm2", true, [256, 128], [32, 64]),
    ("lightonocr", true, [224, 168], [48, 64]),
    ("ling3vl", true, [128, 96], [12, 64]),
    ("llama4", true, [112, 112], [16, 64]),
    ("llava", true, [112, 112], [64, 64]),
    ("llava-f16", true, [112, 112], [64, 64]),
    ("llava-featlayers", true, [112, 112], [64, 64]),
    ("llava-yi", true, [112, 112], [64, 64]),
    ("llava16", true, [56, 56], [16, 64]),
    ("mimovl", true, [224, 160], [35, 64]),
    ("minicpmv2.5", true, [112, 70], [96, 128]),
    ("minicpmv2.6", true, [112, 70], [16, 128]),
    ("minicpmv4.6", true, [112, 56], [2, 64]),
    ("minicpmv4.6-x2", true, [112, 56], [8, 64]),
    ("minimax-m3", true, [168, 112], [24, 64]),
    ("mistral3", true, [112, 84], [14, 64]),
    ("muse-glimmer", true, [224, 168], [48, 64]),
    ("nemotron-v2-vl", true, [112, 112], [16, 64]),
    ("paddleocr", true, [224, 168], [48, 64]),
    ("phi4", true, [224, 160], [140, 64]),
    ("pixtral", true, [112, 84], [53, 64]),
    ("qwen2.5omni", true, [168, 112], [24, 64]),
    ("qwen2.5vl", true, [168, 112], [24, 64]),
    ("qwen2.5vl-f16", true, [168, 112], [24, 64]),
    ("qwen2vl", true, [168, 112], [24, 64]),
    ("qwen3vl", true, [128, 96], [12, 192]),
    ("qwen3vl-nodeep", true, [128, 96], [12, 64]),
    ("smolvlm-old", true, [112, 112], [4, 64]),
    ("step3vl", true, [504, 448], [72, 64]),
    ("yasa2", true, [256, 256], [64, 64]),
    ("youtuvl", true, [224, 160], [35, 64]),
    ("dots3note-a", false, [331, 32], [42, 64]),
    ("gemma4-va", false, [329, 32], [83, 64]),
    ("gemma4a", false, [329, 32], [83, 64]),
    ("gemma4ua", false, [83, 640], [83, 64]),
    ("glma", false, [3000, 32], [377, 64]),
    ("granite-speech", false, [165, 64], [33, 64]),
    ("lfm2a", false, [331, 32], [42, 64]),
    ("meralion", false, [3000, 32], [100, 64]),
    ("mimo-audio", false, [101, 32], [7, 64]),
    ("musicflamingo", false, [3000, 32], [750, 64]),
    ("parakeet", false, [331, 32], [42, 64]),
    ("qwen2.5omni", false, [3000, 32], [750, 64]),
    ("qwen2a", false, [3000, 32], [750, 64]),
    ("qwen3a", false, [400, 32], [52, 64]),
    ("ultravox", false, [3000, 32], [187, 64]),
    ("voxtral", false, [3000, 32], [187, 64]),
];

/// A projector's file that holds what a list says.
pub struct SchemaProjector<'a> {
    keys: &'a Value,
    tensors: HashMap<String, (Vec<usize>, u32, Vec<u8>)>,
}

impl<'a> SchemaProjector<'a> {
    /// Weights between -0.1 and 0.1; factors of norms and variances between 0.5 and 1.5.
    pub fn new(of: &'a Value) -> SchemaProjector<'a> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let tensors = of["tensors"].as_object().unwrap().iter().map(|(name, stored)| {
            let stored = stored.as_array().unwrap();
            let mut shape: Vec<usize> = stored[1..].iter().map(|n| n.as_u64().unwrap() as usize).collect();
            while shape.len() > 1 && shape.last() == Some(&1) {
                shape.pop();
            }
            let len: usize = shape.iter().product();
            let factor = shape.len() == 1 && !name.ends_with("bias") && !name.ends_with("mean");
            let half = stored[0] == "F16";
            let bytes = match (half, factor) {
                (false, true) => (0..len).flat_map(|_| (1.0 + next()).to_le_bytes()).collect(),
                (false, false) => (0..len).flat_map(|_| (0.2 * next()).to_le_bytes()).collect(),
                // Of either sign, from 1/16 to 1/8.
                (true, _) => (0..len).flat_map(|_| half_of(next()).to_le_bytes()).collect(),
            };
            (name.clone(), (shape, u32::from(half), bytes))
        });
        SchemaProjector { keys: &of["metadata"], tensors: tensors.collect() }
    }
}

fn half_of(x: f32) -> u16 {
    u16::from(x < 0.0) << 15 | 11 << 10 | (x.abs() * 2047.0) as u16 & 1023
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(f64::from))
}

impl Source for SchemaProjector<'_> {
    fn text(&self, key: &str) -> Option<String> {
        self.keys[key].as_str().map(String::from)
    }

    fn number(&self, key: &str) -> Option<f64> {
        number(&self.keys[key])
    }

    fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        self.keys[key].as_array()?.iter().map(number).collect()
    }

    fn tensor(&self, name: &str) -> Option<StoredTensor<'_>> {
        let (shape, kind, data) = self.tensors.get(name)?;
        let format = pumex_quant::all().find(|f| f.ggml_id == *kind)?;
        Some(StoredTensor { shape: shape.clone(), format: format.id, data })
    }
}
