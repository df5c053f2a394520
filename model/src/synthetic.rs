//! Models of real shapes without a file, to measure speed with: the metadata and tensors that a file of the shape and type
//! would have, and weights that repeat a few random rows. What they compute is finite and means nothing.

mod layers;
mod projectors;
mod shape;
mod shapes;
mod tensors;

pub use projectors::{find_projector, noise, ProjectorShape, PROJECTORS};
pub use shape::{Key, Shape};
pub use shapes::{find, PROBE, PROBE_EXPERTS, SHAPES};

use crate::quantize;
use crate::quantize::recipe::Recipe;
use crate::quantize::Options;
use pumex_gguf::{Error, Gguf, Result};
use pumex_quant::{find as find_format, Format};
use pumex_step::sample::rng::Rng;
use rayon::prelude::*;
use std::path::Path;

/// Random weights held per format; a tensor has at least half of them: nine rows of the widest matrix, or a row for each of
/// 128 experts' wishes, so that these differ.
const RANDOM: usize = 1 << 19;
/// Of which so many are coded, and their blocks then dealt out at random: some encoders search long.
const CODED: usize = 1 << 15;
/// Standard deviation of the random weights, near that of trained ones.
const DEVIATION: f64 = 0.02;

impl Shape {
    /// The model of this shape with weights of the recipe's types.
    ///
    /// # Errors
    /// A row that no block of the recipe's types divides.
    pub fn model(&self, recipe: &'static Recipe) -> Result<Gguf> {
        self.made(recipe, random)
    }

    /// Likewise, with zeros for weights, which are there at once: for plans.
    ///
    /// # Errors
    /// As [`Shape::model`].
    pub fn blank(&self, recipe: &'static Recipe) -> Result<Gguf> {
        self.made(recipe, |f| vec![0; RANDOM / f.block_len * f.block_bytes])
    }

    fn made(&self, recipe: &'static Recipe, weights: fn(&Format) -> Vec<u8>) -> Result<Gguf> {
        let name = format!("{}-{} (synthetic)", self.name, recipe.name);
        let described = Gguf::without_file(Path::new(&name), self.meta(), self.tensors(), Vec::new());
        // The types are those that `quantize` gives a file of floats.
        let options = Options { recipe: Some(recipe), ..Options::default() };
        let plan = quantize::Plan::new(&described, &options)?;
        let mut formats: Vec<&'static Format> = Vec::new();
        let mut tensors = Vec::new();
        for (i, job) in plan.jobs().enumerate() {
            let entry = job.entry.clone();
            // Factors of norms and their like are 1; what a state fades by is negative.
            let fades = entry.name.ends_with("ssm_a");
            if fades || entry.dims.len() == 1 {
                tensors.push((entry, (usize::from(fades), 0)));
                continue;
            }
            let known = find_format(entry.type_id);
            let format = known.ok_or_else(|| Error::Request(format!("type {}: no such format", entry.type_id)))?;
            let at = formats.iter().position(|f| f.id == format.id).unwrap_or_else(|| {
                formats.push(format);
                formats.len() - 1
            });
            // Tensors start at different blocks, so that no two are the same matrix.
            let blocks = RANDOM / 2 / format.block_len;
            tensors.push((entry, (2 + at, i * 61 % blocks * format.block_bytes)));
        }
        let of_vectors = plan.jobs().map(|job| &job.entry).filter(|e| e.dims.len() == 1 || e.name.ends_with("ssm_a"));
        let longest = of_vectors.map(|e| e.dims.iter().product::<u64>()).max().unwrap_or(0) as usize;
        let same = [1f32, -1f32].map(|x| x.to_le_bytes().repeat(longest));
        let made = same.into_iter().chain(formats.iter().map(|f| weights(f))).collect();
        Ok(Gguf::without_file(Path::new(&name), plan.meta, tensors, made))
    }
}

/// [`RANDOM`] weights, coded.
fn random(format: &Format) -> Vec<u8> {
    let mut rng = Rng::new(u64::from(format.ggml_id) + 1);
    // Twelve uniform numbers add up to a spread of one.
    let mut normal = || DEVIATION * ((0..12).map(|_| rng.unit()).sum::<f64>() - 6.0);
    let x: Vec<f32> = (0..CODED).map(|_| normal() as f32).collect();
    let even = vec![1f32; format.block_len];
    let count = CODED / format.block_len;
    let mut coded = vec![0; count * format.block_bytes];
    let blocks = coded.par_chunks_exact_mut(format.block_bytes).zip(x.par_chunks_exact(format.block_len));
    blocks.for_each(|(out, x)| format.encode_row(x, &even, out));
    let mut out = Vec::with_capacity(RANDOM / format.block_len * format.block_bytes);
    for _ in 0..RANDOM / format.block_len {
        let at = rng.next_below(count as u32) as usize * format.block_bytes;
        out.extend(&coded[at..][..format.block_bytes]);
    }
    out
}
