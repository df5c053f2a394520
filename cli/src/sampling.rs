//! Options of the sampler, with llama.cpp's names and defaults. What a file says itself, in keys `general.sampling.*`, is the default
//! where a flag is not given.

use std::sync::Arc;

use pumex_dialogue::vocabulary::{breakers, ends, words};
use pumex_gguf::{Error, Gguf, Result};
use pumex_step::sample::{DryOptions, Sampler, SamplerOptions, Step, MAX_LOGPROBS};
use pumex_text::Tokenizer;

use super::prompt_source::unescape;
use super::sampler_values::{biases, factor, finite, last_n, mirostat, names, positive, share, whole, Biases, Order};

/// The sampler's chain.
#[derive(clap::Args, Clone, Debug)]
pub struct SamplingArgs {
    /// Seed of the draw; -1 is random
    #[arg(short, long, value_name = "N", default_value_t = -1)]
    pub seed: i64,
    /// Samplers in this order, with ; between them [default:
    /// penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature]
    #[arg(long, value_name = "NAMES", value_parser = names)]
    samplers: Option<Order>,
    /// The same by letters [default: edskypmxt]
    #[arg(long, value_name = "LETTERS", value_parser = letters, conflicts_with = "samplers")]
    sampler_seq: Option<Order>,
    /// Temperature; 0 is greedy [default: 0.8]
    #[arg(long, value_name = "X", value_parser = finite)]
    temp: Option<f32>,
    /// Candidates kept; 0 is all [default: 40]
    #[arg(long, value_name = "N")]
    top_k: Option<i32>,
    /// Probability kept; 1 is all [default: 0.95]
    #[arg(long, value_name = "X", value_parser = finite)]
    top_p: Option<f32>,
    /// Least share of the best candidate's probability; 0 is off [default: 0.05]
    #[arg(long, value_name = "X", value_parser = finite)]
    min_p: Option<f32>,
    /// Candidates that top-p, min-p, typical and XTC leave at least
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_keep: u32,
    /// Standard deviations of logits below the best; -1 is off
    #[arg(long, value_name = "X", default_value_t = -1.0, value_parser = finite)]
    top_n_sigma: f32,
    /// Locally typical probability kept; 1 is all
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = finite)]
    typical: f32,
    /// Chance of excluding the likely candidates but one; 0 is off [default: 0]
    #[arg(long, value_name = "X", value_parser = share)]
    xtc_probability: Option<f32>,
    /// Probability from which a candidate is likely; above 0.5 is off [default: 0.1]
    #[arg(long, value_name = "X", value_parser = share)]
    xtc_threshold: Option<f32>,
    /// How far the temperature moves with the entropy; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = positive)]
    dynatemp_range: f32,
    /// Power of the entropy
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = positive)]
    dynatemp_exp: f32,
    /// Recent tokens that penalties see; -1 is all [default: 64]
    #[arg(long, value_name = "N", value_parser = last_n)]
    repeat_last_n: Option<i32>,
    /// Penalty of recent tokens; 1 is off [default: 1]
    #[arg(long, value_name = "X", value_parser = factor)]
    repeat_penalty: Option<f32>,
    /// Penalty of tokens that occurred recently; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = finite)]
    presence_penalty: f32,
    /// Penalty per recent occurrence; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = finite)]
    frequency_penalty: f32,
    /// Penalty of what would go on with a repetition; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = finite)]
    dry_multiplier: f32,
    /// Growth of that penalty with each token
    #[arg(long, value_name = "X", default_value_t = 1.75, value_parser = positive)]
    dry_base: f32,
    /// Tokens that may be repeated
    #[arg(long, value_name = "N", default_value_t = 2)]
    dry_allowed_length: u32,
    /// Recent tokens in which repetitions are sought; 0 is off
    #[arg(long, value_name = "N", default_value_t = 64)]
    dry_penalty_last_n: u32,
    /// Text that ends a repetition, instead of newline : " *; may be repeated; none is no text
    #[arg(long, value_name = "TEXT")]
    dry_sequence_breaker: Vec<String>,
    /// 1 or 2: mirostat and temperature instead of all other samplers; 0 is off [default: 0]
    #[arg(long, value_name = "N", value_parser = mirostat)]
    mirostat: Option<u8>,
    /// Rate at which mirostat learns [default: 0.1]
    #[arg(long, value_name = "X", value_parser = positive)]
    mirostat_lr: Option<f32>,
    /// Surprise that mirostat aims at [default: 5]
    #[arg(long, value_name = "X", value_parser = positive)]
    mirostat_ent: Option<f32>,
    /// Probability that the sampler adaptive_p aims at; negative is off
    #[arg(long, value_name = "X", default_value_t = -1.0, value_parser = finite)]
    adaptive_target: f32,
    /// How much of its past it keeps, 0 to 0.99
    #[arg(long, value_name = "X", default_value_t = 0.9, value_parser = share)]
    adaptive_decay: f32,
    /// Adds to a token's logit: ID+X or ID-X, with commas between several; may be repeated
    #[arg(long, value_name = "ID+X", value_parser = biases)]
    logit_bias: Vec<Biases>,
    /// Never sample an end token
    #[arg(long)]
    pub ignore_eos: bool,
    /// Log-probabilities of each token and of the N best, before the samplers; up to 20
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=MAX_LOGPROBS as i64))]
    pub logprobs: Option<u8>,
}

fn letters(text: &str) -> std::result::Result<Order, String> {
    Step::from_letters(text).map(Order)
}

impl SamplingArgs {
    /// The sampler of a run. Texts of flags have escapes if `escapes`.
    ///
    /// # Errors
    /// A bias of an id that the vocabulary lacks; a text that it cannot spell.
    pub fn sampler(&self, gguf: &Gguf, tokenizer: &Tokenizer, escapes: bool) -> Result<Sampler> {
        let sampler = Sampler::new(self.options(gguf, tokenizer, escapes)?);
        tracing::info!("seed {}", sampler.seed());
        Ok(sampler)
    }

    /// The chain's options. Texts of flags have escapes if `escapes`.
    ///
    /// # Errors
    /// As [`SamplingArgs::sampler`].
    pub fn options(&self, gguf: &Gguf, tokenizer: &Tokenizer, escapes: bool) -> Result<SamplerOptions> {
        let usual = SamplerOptions::default();
        let bias: Vec<(u32, f32)> = self.logit_bias.iter().flat_map(|b| b.0.iter().copied()).collect();
        check_biases(&bias, tokenizer).map_err(|what| Error::Usage(format!("--logit-bias: {what}")))?;
        let given = self.samplers.as_ref().or(self.sampler_seq.as_ref()).map(|order| order.0.clone());
        let order = given.or_else(|| order_of(gguf)).unwrap_or(usual.order);
        let wants_words = order.contains(&Step::Infill);
        let options = SamplerOptions {
            temperature: pick(self.temp, gguf, "temp", usual.temperature, finite),
            top_k: pick(self.top_k, gguf, "top_k", usual.top_k, whole),
            top_p: pick(self.top_p, gguf, "top_p", usual.top_p, finite),
            min_p: pick(self.min_p, gguf, "min_p", usual.min_p, finite),
            repeat_penalty: pick(self.repeat_penalty, gguf, "penalty_repeat", usual.repeat_penalty, factor),
            repeat_last_n: pick(self.repeat_last_n, gguf, "penalty_last_n", usual.repeat_last_n, last_n),
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            seed: self.seed,
            banned: if self.ignore_eos { ends(tokenizer) } else { Vec::new() },
            bias,
            order,
            min_keep: self.min_keep as usize,
            top_n_sigma: self.top_n_sigma,
            typical_p: self.typical,
            xtc_probability: pick(self.xtc_probability, gguf, "xtc_probability", usual.xtc_probability, share),
            xtc_threshold: pick(self.xtc_threshold, gguf, "xtc_threshold", usual.xtc_threshold, share),
            dynatemp_range: self.dynatemp_range,
            dynatemp_exponent: self.dynatemp_exp,
            dry: self.dry(tokenizer, escapes),
            mirostat: pick(self.mirostat, gguf, "mirostat", usual.mirostat, whole::<u8>).min(2),
            mirostat_tau: pick(self.mirostat_ent, gguf, "mirostat_tau", usual.mirostat_tau, positive),
            mirostat_eta: pick(self.mirostat_lr, gguf, "mirostat_eta", usual.mirostat_eta, positive),
            adaptive_target: self.adaptive_target,
            adaptive_decay: self.adaptive_decay,
            words: wants_words.then(|| Arc::new(words(tokenizer))),
            logprobs: self.logprobs.map(usize::from),
        };
        tracing::debug!("sampling: {:?}", SamplerOptions { words: None, ..options.clone() });
        Ok(options)
    }

    /// The chain's options where a model writes by diffusion, whose draw knows top-k, top-p and the temperature.
    ///
    /// # Errors
    /// A flag of another sampler.
    pub fn of_diffusion(&self, gguf: &Gguf, tokenizer: &Tokenizer) -> Result<SamplerOptions> {
        let others = [
            (self.samplers.is_some(), "--samplers"),
            (self.sampler_seq.is_some(), "--sampler-seq"),
            (self.min_p.is_some(), "--min-p"),
            (self.min_keep > 0, "--min-keep"),
            (self.top_n_sigma >= 0.0, "--top-n-sigma"),
            (self.typical != 1.0, "--typical"),
            (self.xtc_probability.is_some(), "--xtc-probability"),
            (self.dynatemp_range > 0.0, "--dynatemp-range"),
            (self.repeat_penalty.is_some(), "--repeat-penalty"),
            (self.presence_penalty != 0.0, "--presence-penalty"),
            (self.frequency_penalty != 0.0, "--frequency-penalty"),
            (self.dry_multiplier > 0.0, "--dry-multiplier"),
            (self.mirostat.is_some(), "--mirostat"),
            (self.adaptive_target >= 0.0, "--adaptive-target"),
            (!self.logit_bias.is_empty(), "--logit-bias"),
            (self.ignore_eos, "--ignore-eos"),
            (self.logprobs.is_some(), "--logprobs"),
        ];
        match others.iter().find(|(given, _)| *given) {
            Some((_, flag)) => {
                let what = "expected --temp, --top-k, --top-p and --seed alone with a model that writes by diffusion";
                Err(Error::Usage(format!("{flag}: {what}")))
            }
            None => self.options(gguf, tokenizer, false),
        }
    }

    fn dry(&self, tokenizer: &Tokenizer, escapes: bool) -> DryOptions {
        let mut dry = DryOptions {
            multiplier: self.dry_multiplier,
            base: self.dry_base,
            allowed_length: self.dry_allowed_length,
            last_n: self.dry_penalty_last_n,
            breakers: Arc::default(),
        };
        if dry.is_active() {
            dry.breakers = Arc::new(breakers(&self.breakers(escapes), tokenizer));
        }
        dry
    }

    /// Texts that end a repetition.
    pub fn breakers(&self, escapes: bool) -> Vec<String> {
        if self.dry_sequence_breaker.is_empty() {
            return ["\n", ":", "\"", "*"].map(String::from).into();
        }
        // As in llama.cpp, "none" drops those before it.
        let from = self.dry_sequence_breaker.iter().rposition(|text| text == "none").map_or(0, |at| at + 1);
        let one = |text: &String| if escapes { unescape(text) } else { text.clone() };
        self.dry_sequence_breaker[from..].iter().map(one).collect()
    }
}

/// Refuses a bias of an id that the vocabulary lacks, in words.
pub fn check_biases(bias: &[(u32, f32)], tokenizer: &Tokenizer) -> std::result::Result<(), String> {
    let n_vocab = n_vocab(tokenizer);
    match bias.iter().find(|b| tokenizer.has_vocab() && b.0 >= n_vocab) {
        Some((id, _)) => Err(format!("expected an id below {n_vocab}, found {id}")),
        None => Ok(()),
    }
}

fn n_vocab(tokenizer: &Tokenizer) -> u32 {
    u32::try_from(tokenizer.n_vocab()).unwrap_or(u32::MAX)
}

/// The flag's value, or the file's, or the default. A value of the file that is none is passed over.
fn pick<T: Copy + std::fmt::Display>(
    flag: Option<T>,
    gguf: &Gguf,
    key: &str,
    usual: T,
    read: impl Fn(&str) -> std::result::Result<T, String>,
) -> T {
    flag.unwrap_or_else(|| {
        let key = format!("general.sampling.{key}");
        let Some(value) = gguf.meta().get(&key) else { return usual };
        match read(value.display().trim_matches('"')) {
            Ok(x) => {
                tracing::info!("sampling: {key} of the file, {x}");
                x
            }
            Err(expected) => {
                tracing::warn!("{key}: {expected}, found {}", value.display());
                usual
            }
        }
    })
}

fn order_of(gguf: &Gguf) -> Option<Vec<Step>> {
    let names = gguf.meta().opt_str("general.sampling.sequence").ok()??;
    match Step::from_names(names) {
        Ok(order) => {
            tracing::info!("sampling: general.sampling.sequence of the file, {names}");
            Some(order)
        }
        Err(error) => {
            tracing::warn!("general.sampling.sequence: {error}");
            None
        }
    }
}
