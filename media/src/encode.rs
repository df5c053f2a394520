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
use crate::{Builder, Clip, EncoderInput, Error, Modality, ProjectorKeys, Result, Source};

/// What an encoder's file builds from.
pub(crate) struct Context<'a> {
    /// Hyper-parameters.
    pub clip: &'a Clip,
    /// Further keys.
    pub keys: ProjectorKeys<'a>,
    /// One input, or two frames of a pair.
    pub inputs: &'a [EncoderInput],
}

/// Builds the rows for the text model.
type Build = fn(&mut Builder<'_>, &Context<'_>) -> Result<Val>;

/// Encoders by `clip.projector_type`: what they take, and models that have them.
const ENCODERS: &[(&str, Modality, &str, Build)] = &[
    ("adapter", Modality::Vision, "GLM-Edge-V", llava::adapter),
    ("cogvlm", Modality::Vision, "CogVLM", cogvlm::build),
    ("deepseek4v", Modality::Vision, "DeepSeek 4", deepseek4::build),
    ("deepseekocr", Modality::Vision, "DeepSeek-OCR", deepseekocr::one),
    ("deepseekocr2", Modality::Vision, "DeepSeek-OCR 2", deepseekocr::two),
    ("dots3note_a", Modality::Audio, "dots 3 note", strided::dots3note),
    ("dots3note_v", Modality::Vision, "dots 3 note", ocr::dots_note),
    ("dots_ocr", Modality::Vision, "dots.ocr", ocr::dots),
    ("exaone4_5", Modality::Vision, "EXAONE 4.5", qwen::exaone),
    ("gemma3", Modality::Vision, "Gemma 3", gemma::three),
    ("gemma3nv", Modality::Vision, "Gemma 3n", mobilenet::build),
    ("gemma4a", Modality::Audio, "Gemma 4", gemma_audio::conformer),
    ("gemma4ua", Modality::Audio, "Gemma 4", gemma_audio::build_from_samples),
    ("gemma4uv", Modality::Vision, "Gemma 4", gemma::four_unified),
    ("gemma4v", Modality::Vision, "Gemma 4", gemma::four),
    ("glm4v", Modality::Vision, "GLM-4.1V, GLM-4.5V", glm::glm),
    ("glm5v", Modality::Vision, "GLM-5V", glm::glm),
    ("glma", Modality::Audio, "GLM-ASR", whisper::glma),
    ("granite4_vision", Modality::Vision, "Granite 4 Vision", granite4::build),
    ("granite_speech", Modality::Audio, "Granite Speech", granite_speech::speech),
    ("hunyuanvl", Modality::Vision, "HunyuanVL, HunyuanOCR", hunyuan::build),
    ("idefics3", Modality::Vision, "Idefics 3, SmolVLM, Granite-Docling", siglip::idefics3),
    ("internvl", Modality::Vision, "InternVL 2, 2.5, 3", intern::internvl),
    ("janus_pro", Modality::Vision, "Janus-Pro", siglip::janus),
    ("kimik25", Modality::Vision, "Kimi K2.5", kimi::k25),
    ("kimivl", Modality::Vision, "Kimi-VL", kimi::vl),
    ("ldp", Modality::Vision, "MobileVLM", llava::ldp),
    ("ldpv2", Modality::Vision, "MobileVLM 2", llava::ldpv2),
    ("lfm2", Modality::Vision, "LFM2-VL", siglip::lfm2),
    ("lfm2a", Modality::Audio, "LFM2-Audio", conformer::lfm2a),
    ("lightonocr", Modality::Vision, "LightOnOCR", pixtral::lighton),
    ("ling3vl", Modality::Vision, "Ling 3", qwen::three),
    ("llama4", Modality::Vision, "Llama 4", intern::llama4),
    ("meralion", Modality::Audio, "MERaLiON", whisper::meralion),
    ("mimo_audio", Modality::Audio, "MiMo-Audio", mimo_audio::mimo),
    ("mimovl", Modality::Vision, "MiMo-VL", mimo::build),
    ("minicpmv4_6", Modality::Vision, "MiniCPM-V 4.6", minicpm::build_merged),
    ("minimax_m3", Modality::Vision, "MiniMax M3", axes::minimax),
    ("mlp", Modality::Vision, "LLaVA 1.5, 1.6, Yi-VL, BakLLaVA", llava::two_layers),
    ("muse-glimmer", Modality::Vision, "Muse Glimmer", axes::muse),
    ("musicflamingo", Modality::Audio, "Music Flamingo", whisper::music_flamingo),
    ("nemotron_v2_vl", Modality::Vision, "Nemotron Nano VL", cogvlm::nemotron),
    ("paddleocr", Modality::Vision, "PaddleOCR-VL", ocr::paddle),
    ("parakeet", Modality::Audio, "Parakeet", conformer::parakeet),
    ("phi4", Modality::Vision, "Phi-4 reasoning vision", siglip::phi4),
    ("pixtral", Modality::Vision, "Pixtral, Mistral Small 3, Ministral 3", pixtral::pixtral),
    ("qwen2.5vl_merger", Modality::Vision, "Qwen2.5-VL, Qwen2.5-Omni", qwen::two_five),
    ("qwen2a", Modality::Audio, "Qwen2-Audio, Qwen2.5-Omni", whisper::qwen2a),
    ("qwen2vl_merger", Modality::Vision, "Qwen2-VL", qwen::two),
    ("qwen3a", Modality::Audio, "Qwen3-ASR, Qwen3-Omni", strided::qwen3a),
    ("qwen3vl_merger", Modality::Vision, "Qwen3-VL, Qwen3.5, Qwen3.6", qwen::three),
    ("resampler", Modality::Vision, "MiniCPM-V 2.5 to 4.5", minicpm::resampler),
    ("step3vl", Modality::Vision, "Step3-VL", axes::step3),
    ("ultravox", Modality::Audio, "Ultravox", whisper::ultravox),
    ("voxtral", Modality::Audio, "Voxtral", whisper::voxtral),
    ("yasa2", Modality::Vision, "Yasa 2", yasa::build),
    ("youtuvl", Modality::Vision, "Youtu-VL", youtu::build),
];

/// The most patches of a merged cell that a file may say, to a side.
const MERGE: usize = 1 << 6;

/// Names of all projectors that there is an encoder for.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENCODERS.iter().map(|(name, ..)| *name)
}

/// Each projector's name, what it takes, and models that have it.
pub fn table() -> impl Iterator<Item = (&'static str, Modality, &'static str)> {
    ENCODERS.iter().map(|(name, modality, models, _)| (*name, *modality, *models))
}

/// The graph for a medium's inputs, of which only sizes count.
///
/// # Errors
/// A projector that there is no encoder for; tensors that are missing or have other shapes; sizes that do not fit.
pub fn build(source: &dyn Source, clip: &Clip, inputs: &[EncoderInput]) -> Result<Graph> {
    let (.., encoder) = ENCODERS.iter().find(|(name, ..)| *name == clip.projector).ok_or_else(|| {
        Error::Unsupported(format!("clip.projector_type: no {} encoder `{}`", clip.modality.name(), clip.projector))
    })?;
    let keys = ProjectorKeys::new(source, clip.modality);
    for name in ["projector.scale_factor", "spatial_merge_size"] {
        match keys.size_or(name, 1)? {
            n if n > MERGE => {
                return Err(Error::Key(format!(
                    "clip.{}.{name}: expected at most {MERGE}, found {n}",
                    clip.modality.name()
                )))
            }
            _ => {}
        }
    }
    if inputs.is_empty() || inputs.iter().any(|i| (i.width, i.height) != (inputs[0].width, inputs[0].height)) {
        return Err(Error::Medium(format!("expected inputs of one size, found {} inputs", inputs.len())));
    }
    let mut builder = Builder::new(source);
    let context = Context { clip, keys, inputs };
    let out = encoder(&mut builder, &context)?;
    Ok(builder.finish(out))
}

impl Context<'_> {
    /// Patches of the picture, columns and rows.
    ///
    /// # Errors
    /// A picture that is smaller than a patch.
    pub fn patches(&self) -> Result<[usize; 2]> {
        let EncoderInput { width, height, .. } = self.inputs[0];
        let grid = [width / self.clip.patch, height / self.clip.patch];
        match grid.contains(&0) {
            true => Err(Error::Shape(format!("expected a picture of a patch at least, found {width} x {height}"))),
            false => Ok(grid),
        }
    }
}
