//! `pumex run` with a model that writes by diffusion: a window behind the prompt is filled step by step.
//!
//! stdout gets the text, or one JSON object; steps go to stderr.

use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use pumex_dialogue::diffusion::{generate, Algorithm, DiffusionSettings, Schedule, ARCHS};
use pumex_gguf::{Error, Gguf, Result};
use pumex_step::sample::{Sampler, SamplerOptions};
use pumex_text::Tokenizer;
use serde_json::json;

use super::options::EngineArgs;
use super::{output, session, CommandEnd};

/// Positions of a window unless they are told.
const WINDOW: usize = 512;

/// How a model writes that writes by diffusion.
#[derive(clap::Args, Clone, Debug)]
pub struct DiffusionArgs {
    /// Diffusion: steps [default: 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    diffusion_steps: Option<u32>,
    /// Diffusion: steps take a share of all masks, by times between 1 and this [default: 0.001, without --diffusion-block-length]
    #[arg(long, value_name = "X", value_parser = super::sampler_values::finite, conflicts_with = "diffusion_block_length")]
    diffusion_eps: Option<f32>,
    /// Diffusion: steps fill blocks of so many positions, one after the other
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    diffusion_block_length: Option<u32>,
    /// Diffusion: masks are filled by chance before ids are drawn (0), by entropy (1), by the best two candidates' distance (2), by
    /// chance (3), by the drawn id's probability (4) [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=4))]
    diffusion_algorithm: Option<u32>,
    /// Diffusion: masks are drawn by that probability or distance at this temperature; 0 takes the first [default: 0]
    #[arg(long, value_name = "X", value_parser = super::sampler_values::positive)]
    diffusion_alg_temp: Option<f32>,
    /// Diffusion: logits go so many times further from those without the prompt; 0 is off [default: 0]
    #[arg(long, value_name = "X", value_parser = super::sampler_values::positive)]
    diffusion_cfg_scale: Option<f32>,
    /// Diffusion: 1 adds Gumbel noise to the first position's logits, as llama.cpp does [default: 0]
    #[arg(long, value_name = "X", value_parser = super::sampler_values::finite)]
    diffusion_add_gumbel_noise: Option<f32>,
    /// Diffusion: show the text on stderr before each step
    #[arg(long)]
    diffusion_visual: bool,
}

impl DiffusionArgs {
    /// A flag that was given.
    fn first_flag_given(&self) -> Option<&'static str> {
        let flags = [
            (self.diffusion_steps.is_some(), "--diffusion-steps"),
            (self.diffusion_eps.is_some(), "--diffusion-eps"),
            (self.diffusion_block_length.is_some(), "--diffusion-block-length"),
            (self.diffusion_algorithm.is_some(), "--diffusion-algorithm"),
            (self.diffusion_alg_temp.is_some(), "--diffusion-alg-temp"),
            (self.diffusion_cfg_scale.is_some(), "--diffusion-cfg-scale"),
            (self.diffusion_add_gumbel_noise.is_some(), "--diffusion-add-gumbel-noise"),
            (self.diffusion_visual, "--diffusion-visual"),
        ];
        flags.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }

    /// Whether the model writes by diffusion.
    ///
    /// # Errors
    /// A flag of diffusion beside a model that does not; a model that sees whole texts and writes none.
    pub fn serves(&self, gguf: &Gguf) -> Result<bool> {
        let arch = gguf.meta().arch()?;
        if ARCHS.contains(&arch) {
            return Ok(true);
        }
        match self.first_flag_given() {
            Some(flag) => {
                let archs = ARCHS.join(", ");
                Err(Error::Usage(format!("{flag}: expected a model that writes by diffusion ({archs}), found {arch}")))
            }
            None => Ok(false),
        }
    }

    /// The settings for a window of so many positions.
    fn settings(&self, gguf: &Gguf, window: usize, options: &SamplerOptions) -> Result<DiffusionSettings> {
        let key = "tokenizer.ggml.mask_token_id";
        let mask = gguf.meta().u32(key)?;
        let length = self.diffusion_block_length.map(|n| n as usize);
        Ok(DiffusionSettings {
            steps: self.diffusion_steps.unwrap_or(128) as usize,
            window,
            seed: Sampler::new(options.clone()).seed() as u32, // of which the generators take 32 bits
            temperature: options.temperature,
            top_k: options.top_k,
            top_p: options.top_p,
            algorithm: self.diffusion_algorithm.and_then(Algorithm::from_number).unwrap_or(Algorithm::Confidence),
            schedule: length.map_or(Schedule::Times(self.diffusion_eps.unwrap_or(1e-3)), Schedule::Blocks),
            algorithm_temperature: self.diffusion_alg_temp.unwrap_or(0.0),
            guidance: self.diffusion_cfg_scale.unwrap_or(0.0),
            gumbel: self.diffusion_add_gumbel_noise.unwrap_or(0.0) != 0.0,
            shifted: gguf.meta().opt_bool("diffusion.shift_logits")?.unwrap_or(true),
            mask,
        })
    }
}

/// What a run gives beside its flags of diffusion.
pub struct DiffusionSetup<'a> {
    /// The model.
    pub gguf: &'a Gguf,
    /// Where it runs.
    pub engine: EngineArgs,
    /// Its vocabulary.
    pub tokenizer: &'a Tokenizer,
    /// The prompt's ids.
    pub prompt: Vec<u32>,
    /// Ids to write; below 0 the window says.
    pub predict: i64,
    /// Positions of the context; none is the model's.
    pub n_ctx: Option<u32>,
    /// The chain.
    pub options: SamplerOptions,
    /// Whether one JSON object is printed.
    pub json: bool,
    /// Raised by Ctrl-C.
    pub stop: &'a AtomicBool,
}

/// Fills the window and prints the text.
///
/// # Errors
/// Settings that do not hold together; a window that does not fit; what a step says.
pub fn main(args: &DiffusionArgs, given: DiffusionSetup<'_>) -> Result<CommandEnd> {
    let DiffusionSetup { gguf, mut engine, tokenizer, prompt, predict, n_ctx, options, json, stop } = given;
    let info = pumex_engine::model_info(gguf)?;
    let room = n_ctx.unwrap_or(info.n_ctx_train) as usize;
    let told = engine.ubatch_size.map_or(WINDOW.min(room), |n| n as usize);
    let window = usize::try_from(predict).map_or(told, |n| prompt.len() + n);
    let settings = args.settings(gguf, window, &options)?;
    settings.check(prompt.len())?;
    if window > room {
        let flag = if predict >= 0 { "-n" } else { "--ubatch-size" };
        let what = format!("{flag}: expected a window within the context of {room} positions, found {window}");
        return Err(Error::Usage(what));
    }
    let rows =
        u32::try_from(window).map_err(|_| Error::Request(format!("a window of {window} positions is too large")))?;
    engine.take_rows(rows);
    let mut runner = session::load(gguf, &engine, Some(rows), stop)?;
    let (begun, mut last) = (Instant::now(), 0);
    let shows = !json && std::io::stderr().is_terminal();
    let mut on_step = |step: usize, ids: &[u32]| {
        last = step + 1;
        if args.diffusion_visual {
            let seen = ids[prompt.len()..].iter().map(|id| match *id == settings.mask {
                true => " ".to_string(),
                false => tokenizer.decode(&[*id]),
            });
            output::say(format_args!("step {step} of {}: {}\n", settings.steps, seen.collect::<String>()));
        } else if shows {
            output::say(format_args!("\rstep {last} of {}", settings.steps));
        }
    };
    let ids = generate(&mut *runner, &prompt, &settings, stop, &mut on_step)?;
    if shows && !args.diffusion_visual {
        output::say(format_args!("\n"));
    }
    let Some(ids) = ids else { return Ok(CommandEnd::Interrupted) };
    let written = &ids[prompt.len()..];
    let plain: Vec<u32> = written.iter().copied().filter(|id| !tokenizer.is_control(*id)).collect();
    let (text, ms) = (tokenizer.decode(&plain), begun.elapsed().as_secs_f64() * 1e3);
    if json {
        output::json(&json!({
            "text": text,
            "ids": written,
            "prompt_tokens": prompt.len(),
            "generated_tokens": written.len(),
            "steps": last,
            "generate_ms": ms,
            "seed": settings.seed,
            "device": runner.device(),
        }))?;
        return Ok(CommandEnd::Done);
    }
    output::text(&text)?;
    output::text("\n")?;
    let per_step = ms / last.max(1) as f64;
    output::say(format_args!(
        "prompt: {} tokens; generated: {} tokens, {last} steps, {ms:.1} ms, {per_step:.1} ms a step\n",
        prompt.len(),
        written.len()
    ));
    Ok(CommandEnd::Done)
}
