//! Files made from lists of keys and tensors, with seeded weights.

use pumex_media::{Source, Stored};
use serde_json::Value;
use std::collections::HashMap;

/// A projector's file that holds what a list says.
pub struct Made<'a> {
    keys: &'a Value,
    tensors: HashMap<String, (Vec<usize>, u32, Vec<u8>)>,
}

impl<'a> Made<'a> {
    /// Weights between -0.1 and 0.1; factors of norms and variances between 0.5 and 1.5.
    pub fn new(of: &'a Value) -> Made<'a> {
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
        Made { keys: &of["metadata"], tensors: tensors.collect() }
    }
}

fn half_of(x: f32) -> u16 {
    u16::from(x < 0.0) << 15 | 11 << 10 | (x.abs() * 2047.0) as u16 & 1023
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(f64::from))
}

impl Source for Made<'_> {
    fn text(&self, key: &str) -> Option<String> {
        self.keys[key].as_str().map(String::from)
    }

    fn number(&self, key: &str) -> Option<f64> {
        number(&self.keys[key])
    }

    fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        self.keys[key].as_array()?.iter().map(number).collect()
    }

    fn tensor(&self, name: &str) -> Option<Stored<'_>> {
        let (shape, kind, data) = self.tensors.get(name)?;
        let format = pumex_quant::all().find(|f| f.ggml_id == *kind)?;
        Some(Stored { shape: shape.clone(), format: format.id, data })
    }
}
