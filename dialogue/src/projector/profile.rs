//! Where the time of a picture goes: on the host before the encoder, and in the encoder by kernel.

use super::{Encoder, MediumFile, Projector};
use pumex_engine::KernelTime;
use pumex_gguf::{Error, Result};
use pumex_media::{encode, PromptPiece, TextModel};
use serde::Serialize;
use std::time::Instant;

/// Times of a picture's first part: each the median of several runs, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct EncoderProfile {
    /// File of the projector.
    pub projector: String,
    /// Name of the Vulkan device.
    pub device: String,
    /// Rows that come out.
    pub rows: usize,
    /// Decoding and resizing, of all parts.
    pub prepare_us: f64,
    /// Building the encoder's graph.
    pub graph_us: f64,
    /// Running it, with the copies to the device and back.
    pub encode_us: f64,
    /// What the device takes of that.
    pub device_us: f64,
    /// Time by kernel.
    pub kernels: Vec<KernelTime>,
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

impl Projector {
    /// Takes the time of a picture's first part, `repetitions` times after a first run.
    ///
    /// # Errors
    /// A picture that cannot be decoded; an encoder that does not run on a Vulkan device; those of encoding.
    pub fn profile(&self, file: &MediumFile, repetitions: usize) -> Result<EncoderProfile> {
        let model = TextModel { n_embd: 0, m_rope: false, has_token: &|_| false };
        let us = |begun: Instant| begun.elapsed().as_secs_f64() * 1e6;
        let [mut prepare, mut graphs, mut encoded, mut on_device] = [vec![], vec![], vec![], vec![]];
        let mut last = None;
        for run in 0..=repetitions.max(1) {
            let begun = Instant::now();
            let pieces = self.prepare(file, &model)?;
            let prepared = us(begun);
            let medium = pieces.into_iter().find_map(|piece| match piece {
                PromptPiece::Medium(medium) => Some(medium),
                PromptPiece::Text(_) | PromptPiece::Token(_) => None,
            });
            let medium = medium.ok_or_else(|| Error::Request("a picture: expected rows, found none".into()))?;
            let begun = Instant::now();
            let graph = encode::build(self.source(), self.clip(medium.picture)?, &medium.inputs)
                .map_err(|e| self.media_error(e))?;
            let built = us(begun);
            let inputs: Vec<&[f32]> = medium.inputs.iter().map(|input| &input.values[..]).collect();
            let begun = Instant::now();
            let device = self.with_tower(|tower| {
                tower.encode(&graph, &inputs)?;
                Ok(tower.last_us().unwrap_or(0.0))
            })?;
            let whole = us(begun);
            if run > 0 {
                [(&mut prepare, prepared), (&mut graphs, built), (&mut encoded, whole), (&mut on_device, device)]
                    .into_iter()
                    .for_each(|(times, time)| times.push(time));
            }
            last = Some((graph, medium));
        }
        let Some((graph, medium)) = last else { unreachable!("it ran at least once") };
        let inputs: Vec<&[f32]> = medium.inputs.iter().map(|input| &input.values[..]).collect();
        let kernels = self.with_tower(|tower| tower.profile(&graph, &inputs, repetitions))?;
        Ok(EncoderProfile {
            projector: self.source().0.path().display().to_string(),
            device: self.device()?,
            rows: medium.rows,
            prepare_us: median(prepare),
            graph_us: median(graphs),
            encode_us: median(encoded),
            device_us: median(on_device),
            kernels,
        })
    }

    fn with_tower<R>(
        &self,
        do_it: impl FnOnce(&mut pumex_engine::Tower<std::sync::Arc<super::ProjectorSource>>) -> Result<R>,
    ) -> Result<R> {
        self.with_encoder(|encoder| match encoder {
            Encoder::Vulkan(tower, _) => do_it(tower),
            Encoder::Cpu(_) => Err(Error::Usage(
                "profile: expected an encoder on a Vulkan device (--device vulkan), found one on the CPU".into(),
            )),
        })
    }
}
