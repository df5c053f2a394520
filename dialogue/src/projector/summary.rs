//! What a projector is, and what it takes of a device, told before anything is encoded.

use super::together::most_together;
use super::{MediumFile, Projector};
use pumex_engine::{encoder_bytes, explain_encoder, Caps, DeviceChoice, EncoderBytes, Explained};
use pumex_gguf::{Error, Result};
use pumex_media::{encode, Clip, Graph, Medium, Modality, Picture, PromptPiece, TextModel};
use serde::Serialize;

/// Sides of pictures, in pixels, whose tokens a summary tells.
const SIDES: [usize; 4] = [224, 512, 1024, 2048];
/// Sides of a picture that is larger than what most projectors take as it is.
const LARGE: usize = 2048;
/// Seconds of sounds whose tokens a summary tells; encoders take no more at once.
const SECONDS: [usize; 2] = [1, 30];

/// The tokens of a medium of some size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MediumTokens {
    /// Its size, in words.
    pub size: String,
    /// Rows of the encoder: with the texts around them that have to be, a few more tokens of the prompt.
    pub tokens: usize,
    /// Parts that are encoded one by one.
    pub parts: usize,
}

/// An encoder of a projector's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EncoderSummary {
    /// `clip.projector_type`
    pub projector: String,
    /// `pictures` or `sounds`.
    pub takes: &'static str,
    /// Models that have such a one.
    pub models: &'static str,
    /// Blocks of its tower.
    pub blocks: usize,
    /// Columns of the tower's rows.
    pub width: usize,
    /// Heads of its attention.
    pub heads: usize,
    /// Side of a patch in pixels; 0 of sounds.
    pub patch: usize,
    /// `image_size`; 0 of sounds.
    pub image_size: usize,
    /// Columns of the rows that it gives the text model.
    pub row_width: usize,
    /// Tokens of square pictures, or of sounds, of several sizes.
    pub tokens: Vec<MediumTokens>,
}

fn no_model() -> TextModel<'static> {
    TextModel { n_embd: 0, m_rope: false, has_token: &|_| false }
}

fn media(pieces: Vec<PromptPiece>) -> Vec<Medium> {
    let medium = |piece| match piece {
        PromptPiece::Medium(medium) => Some(medium),
        PromptPiece::Text(_) | PromptPiece::Token(_) => None,
    };
    pieces.into_iter().filter_map(medium).collect()
}

impl Projector {
    /// A white picture of `side` pixels, or `side` seconds of silence, as its encoder takes it.
    fn blank(&self, clip: &Clip, side: usize) -> Result<Vec<Medium>> {
        let pieces = match clip.modality {
            Modality::Vision => Picture::new(side, side, vec![255; side * side * 3]).and_then(|white| {
                pumex_media::prepare_picture(clip, self.source(), &white, &self.options, &no_model())
            }),
            Modality::Audio => pumex_media::sound_rate(clip).and_then(|rate| {
                let silence = vec![0.0; side * rate as usize];
                pumex_media::prepare_sound(clip, self.source(), &silence, &no_model())
            }),
        };
        pieces.map(media).map_err(|e| self.media_error(e))
    }

    /// Its encoders, pictures first.
    ///
    /// # Errors
    /// Metadata that cannot be; tensors that are missing.
    pub fn summary(&self) -> Result<Vec<EncoderSummary>> {
        self.clips.iter().map(|clip| self.summarize(clip)).collect()
    }

    fn summarize(&self, clip: &Clip) -> Result<EncoderSummary> {
        let is_picture = clip.modality == Modality::Vision;
        let (mut tokens, mut row_width) = (Vec::new(), 0);
        for side in if is_picture { &SIDES[..] } else { &SECONDS[..] } {
            // A sound may be too short for a row.
            let Ok(parts) = self.blank(clip, *side) else { continue };
            let size = if is_picture { format!("{side} x {side}") } else { format!("{side} s") };
            tokens.push(MediumTokens { size, tokens: parts.iter().map(|m| m.rows).sum(), parts: parts.len() });
            if let Some(first) = parts.first().filter(|_| row_width == 0) {
                let graph = self.graph(clip, first)?;
                row_width = graph.out.map_or(0, |out| graph.view(out).cols);
            }
        }
        let models = encode::table().find(|(name, ..)| *name == clip.projector).map_or("", |(.., models)| models);
        Ok(EncoderSummary {
            projector: clip.projector.clone(),
            takes: if is_picture { "pictures" } else { "sounds" },
            models,
            blocks: clip.blocks,
            width: clip.width,
            heads: clip.heads,
            patch: clip.patch,
            image_size: clip.image_size,
            row_width,
            tokens,
        })
    }

    /// Bytes of a device's memory that a text model is to leave to its encoders: none where these run on the CPU.
    pub fn reserved_bytes(&self) -> u64 {
        match self.engine.device {
            DeviceChoice::Cpu | DeviceChoice::Reference => 0,
            // An encoder that cannot be built says so when a medium comes.
            _ => self.device_bytes(None).map_or(0, EncoderBytes::all),
        }
    }

    /// What its encoders would take of a device of `caps`, or of the one that takes most, for media up to a picture of 2,048 x 2,048
    /// pixels and a sound of 30 seconds.
    ///
    /// # Errors
    /// Metadata that cannot be; tensors that are missing.
    pub fn device_bytes(&self, caps: Option<&Caps>) -> Result<EncoderBytes> {
        let mut graphs: Vec<Graph> = Vec::new();
        for clip in &self.clips {
            let side = if clip.modality == Modality::Vision { LARGE } else { SECONDS[1] };
            for medium in self.blank(clip, side)? {
                let graph = self.graph(clip, &medium)?;
                let graph = graph.batched(most_together(&medium)).unwrap_or(graph);
                if !graphs.contains(&graph) {
                    graphs.push(graph);
                }
            }
        }
        encoder_bytes(&graphs, self.source(), caps)
    }

    /// The ops of an encoder and the dispatches that they become on a device of `caps`, for a medium's first part: a picture or a
    /// sound, or without one a white picture of `image_size`, or a second of silence.
    ///
    /// # Errors
    /// A medium that cannot be decoded or that the projector does not take; tensors that are missing; an op that no kernel does.
    pub fn explain(&self, file: Option<&MediumFile>, caps: &Caps) -> Result<Explained> {
        let clip = match file {
            Some(file) => self.clip(file.picture)?,
            None => self.clips.first().ok_or_else(|| Error::Request("expected an encoder, found none".into()))?,
        };
        let parts = match file {
            Some(file) => media(self.prepare(file, &no_model())?),
            None => self.blank(clip, clip.image_size.clamp(1, LARGE))?,
        };
        let first = parts.first().ok_or_else(|| Error::Request("a medium: expected rows, found none".into()))?;
        explain_encoder(&self.graph(clip, first)?, self.source(), caps)
    }
}
