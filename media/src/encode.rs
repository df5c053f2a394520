//! Encoders: from an input's size to a graph. One file for each family, built from shared pieces.

mod pieces;
mod sound;
mod vit;

mod axes;
mod cogvlm;
mod conformer;
mod deepseek4;
mod deepseekocr;
mod gemma;
mod gemma_audio;
mod glm;
mod granite4;
mod granite_speech;
mod hunyuan;
mod intern;
mod kimi;
mod llava;
mod mimo;
mod mimo_audio;
mod minicpm;
mod mobilenet;
mod ocr;
mod pixtral;
mod qwen;
mod sam;
mod siglip;
mod strided;
mod whisper;
mod yasa;
mod youtu;

use crate::graph::{Graph, Val};
use crate::{Builder, Clip, Error, Input, Keys, Result, Source};

/// What an encoder's file builds from.
pub(crate) struct Context<'a> {
    /// Hyper-parameters.
    pub clip: &'a Clip,
    /// Further keys.
    pub keys: Keys<'a>,
    /// One input, or two frames of a pair.
    pub inputs: &'a [Input],
}

/// Builds the rows for the text model.
type Build = fn(&mut Builder<'_>, &Context<'_>) -> Result<Val>;

/// Encoders by `clip.projector_type`.
const ENCODERS: &[(&str, Build)] = &[
    ("adapter", llava::adapter),
    ("cogvlm", cogvlm::build),
    ("deepseek4v", deepseek4::build),
    ("deepseekocr", deepseekocr::one),
    ("deepseekocr2", deepseekocr::two),
    ("dots3note_a", strided::dots3note),
    ("dots3note_v", ocr::dots_note),
    ("dots_ocr", ocr::dots),
    ("exaone4_5", qwen::exaone),
    ("gemma3", gemma::three),
    ("gemma3nv", mobilenet::build),
    ("gemma4a", gemma_audio::conformer),
    ("gemma4ua", gemma_audio::unified),
    ("gemma4uv", gemma::four_unified),
    ("gemma4v", gemma::four),
    ("glm4v", glm::glm),
    ("glm5v", glm::glm),
    ("glma", whisper::glma),
    ("granite4_vision", granite4::build),
    ("granite_speech", granite_speech::speech),
    ("hunyuanvl", hunyuan::build),
    ("idefics3", siglip::idefics3),
    ("internvl", intern::internvl),
    ("janus_pro", siglip::janus),
    ("kimik25", kimi::k25),
    ("kimivl", kimi::vl),
    ("ldp", llava::ldp),
    ("ldpv2", llava::ldpv2),
    ("lfm2", siglip::lfm2),
    ("lfm2a", conformer::lfm2a),
    ("lightonocr", pixtral::lighton),
    ("ling3vl", qwen::three),
    ("llama4", intern::llama4),
    ("meralion", whisper::meralion),
    ("mimo_audio", mimo_audio::mimo),
    ("mimovl", mimo::build),
    ("minicpmv4_6", minicpm::merged),
    ("minimax_m3", axes::minimax),
    ("mlp", llava::two_layers),
    ("muse-glimmer", axes::muse),
    ("musicflamingo", whisper::music_flamingo),
    ("nemotron_v2_vl", cogvlm::nemotron),
    ("paddleocr", ocr::paddle),
    ("parakeet", conformer::parakeet),
    ("phi4", siglip::phi4),
    ("pixtral", pixtral::pixtral),
    ("qwen2.5vl_merger", qwen::two_five),
    ("qwen2a", whisper::qwen2a),
    ("qwen2vl_merger", qwen::two),
    ("qwen3a", strided::qwen3a),
    ("qwen3vl_merger", qwen::three),
    ("resampler", minicpm::resampler),
    ("step3vl", axes::step3),
    ("ultravox", whisper::ultravox),
    ("voxtral", whisper::voxtral),
    ("yasa2", yasa::build),
    ("youtuvl", youtu::build),
];

/// Names of all projectors that there is an encoder for.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENCODERS.iter().map(|(name, _)| *name)
}

/// The graph for a medium's inputs, of which only sizes count.
///
/// # Errors
/// A projector that there is no encoder for; tensors that are missing or have other shapes; sizes that do not fit.
pub fn build(source: &dyn Source, clip: &Clip, inputs: &[Input]) -> Result<Graph> {
    let (_, encoder) = ENCODERS.iter().find(|(name, _)| *name == clip.projector).ok_or_else(|| {
        Error::Unsupported(format!("clip.projector_type: no {} encoder `{}`", clip.modality.name(), clip.projector))
    })?;
    if inputs.is_empty() || inputs.iter().any(|i| (i.width, i.height) != (inputs[0].width, inputs[0].height)) {
        return Err(Error::Medium(format!("expected inputs of one size, found {} inputs", inputs.len())));
    }
    let mut builder = Builder::new(source);
    let context = Context { clip, keys: Keys::new(source, clip.modality), inputs };
    let out = encoder(&mut builder, &context)?;
    Ok(builder.finish(out))
}

impl Context<'_> {
    /// Patches of the picture, columns and rows.
    ///
    /// # Errors
    /// A picture that is smaller than a patch.
    pub fn patches(&self) -> Result<[usize; 2]> {
        let Input { width, height, .. } = self.inputs[0];
        let grid = [width / self.clip.patch, height / self.clip.patch];
        match grid.contains(&0) {
            true => Err(Error::Shape(format!("expected a picture of a patch at least, found {width} x {height}"))),
            false => Ok(grid),
        }
    }
}
