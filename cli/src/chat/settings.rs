//! Settings of a conversation that `/set` shows and changes. Values are read as those of the flags of the same names.

use pumex_step::sample::{SamplerOptions, Step};

use super::sampler_values::{biases, factor, finite, last_n, mirostat, names, positive, share, whole};

/// What is done with reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Reasoning {
    /// As the template has it; shown on a terminal
    Auto,
    /// Asked for; shown on a terminal
    On,
    /// As the template has it, and not shown
    Hide,
    /// Asked to leave it out
    Off,
}

/// All of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatSettings {
    /// The sampler's chain as it was asked for. What is made of the vocabulary (bans of ends, DRY's breakers, words) is not kept
    /// up to date here.
    pub sampling: SamplerOptions,
    /// Texts that end repetitions for DRY.
    pub breakers: Vec<String>,
    /// Whether end tokens are never sampled.
    pub ignore_eos: bool,
    /// Most tokens of an answer.
    pub predict: i64,
    /// What is done with reasoning.
    pub reasoning: Reasoning,
    /// Most tokens of it; negative: any number.
    pub budget: i64,
    /// How hard the template asks for it; [`AUTO`] is its own default.
    pub effort: String,
}

/// A setting: its name, what it does, its value as text, and how it is read.
type ChatSetting =
    (&'static str, &'static str, fn(&ChatSettings) -> String, fn(&mut ChatSettings, &str) -> Result<(), String>);

/// A setting that is a number of the sampler's options.
macro_rules! number {
    ($name:literal, $what:literal, $($field:ident).+, $read:expr) => {
        ($name, $what, |s| s.sampling.$($field).+.to_string(), |s, text| Ok(s.sampling.$($field).+ = $read(text)?))
    };
}

const TABLE: &[ChatSetting] = &[
    number!("temp", "temperature; 0 is greedy", temperature, finite),
    number!("top-k", "candidates kept; 0 is all", top_k, whole),
    number!("top-p", "probability kept; 1 is all", top_p, finite),
    number!("min-p", "least share of the best one's probability", min_p, finite),
    number!("min-keep", "candidates that are left at least", min_keep, whole),
    number!("top-n-sigma", "deviations of logits below the best; -1 is off", top_n_sigma, finite),
    number!("typical", "locally typical probability kept; 1 is all", typical_p, finite),
    number!("xtc-probability", "chance of excluding likely candidates; 0 is off", xtc_probability, share),
    number!("xtc-threshold", "probability from which one is likely", xtc_threshold, share),
    number!("dynatemp-range", "how far the temperature moves; 0 is off", dynatemp_range, positive),
    number!("dynatemp-exp", "power of the entropy for that", dynatemp_exponent, positive),
    number!("repeat-penalty", "penalty of recent tokens; 1 is off", repeat_penalty, factor),
    number!("repeat-last-n", "recent tokens that penalties see; -1 is all", repeat_last_n, last_n),
    number!("presence-penalty", "penalty if a token occurred", presence_penalty, finite),
    number!("frequency-penalty", "penalty per occurrence", frequency_penalty, finite),
    number!("dry-multiplier", "penalty of repetitions; 0 is off", dry.multiplier, finite),
    number!("dry-base", "its growth with each token", dry.base, positive),
    number!("dry-allowed-length", "tokens that may be repeated", dry.allowed_length, whole),
    number!("dry-penalty-last-n", "recent tokens it sees; 0 is off", dry.last_n, whole),
    number!("mirostat", "1 or 2: instead of other samplers; 0 is off", mirostat, mirostat),
    number!("mirostat-lr", "rate at which it learns", mirostat_eta, positive),
    number!("mirostat-ent", "surprise that it aims at", mirostat_tau, positive),
    number!("adaptive-target", "probability that adaptive_p aims at; -1 is off", adaptive_target, finite),
    number!("adaptive-decay", "how much of its past it keeps", adaptive_decay, share),
    ("dry-sequence-breaker", "texts that end a repetition", show_breakers, read_breakers),
    ("logit-bias", "ID+X or ID-X, with commas between several", show_biases, read_biases),
    ("samplers", "their order, with ; between them", show_order, |s, text| {
        s.sampling.order = if text == NONE { Vec::new() } else { names(text)?.0 };
        Ok(())
    }),
    (
        "ignore-eos",
        "on: never sample an end token",
        |s| on_off(s.ignore_eos),
        |s, text| {
            s.ignore_eos = match text {
                "on" => true,
                "off" => false,
                _ => return Err("expected on or off".into()),
            };
            Ok(())
        },
    ),
    number!("seed", "seed of the draw; -1 is random", seed, whole),
    (
        "predict",
        "most tokens of an answer; -1 is any number",
        |s| s.predict.to_string(),
        |s, text| {
            s.predict = whole(text)?;
            Ok(())
        },
    ),
    (
        "reasoning",
        "auto, on, hide or off",
        |s| format!("{:?}", s.reasoning).to_lowercase(),
        |s, text| {
            let read = <Reasoning as clap::ValueEnum>::from_str(text, true);
            s.reasoning = read.map_err(|_| "expected auto, on, hide or off")?;
            Ok(())
        },
    ),
    (
        "reasoning-budget",
        "most tokens of reasoning; -1 is any number",
        |s| s.budget.to_string(),
        |s, text| {
            s.budget = last_n(text)?.into();
            Ok(())
        },
    ),
    (
        "reasoning-effort",
        "low, medium, high or what else the template knows; auto is its own",
        |s| s.effort.clone(),
        |s, text| {
            s.effort = effort(text)?;
            Ok(())
        },
    ),
];

/// The template's own default.
pub const AUTO: &str = "auto";

/// How hard a model is to reason: a word.
///
/// # Errors
/// Anything else, in words.
pub fn effort(text: &str) -> Result<String, String> {
    let word =
        (1..=32).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if word {
        Ok(text.to_string())
    } else {
        Err("expected a word such as low, medium or high".into())
    }
}

/// A list without entries.
const NONE: &str = "none";

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_string()
}

fn show_biases(s: &ChatSettings) -> String {
    let all: Vec<String> = s.sampling.bias.iter().map(|(id, by)| format!("{id}{by:+}")).collect();
    if all.is_empty() {
        NONE.to_string()
    } else {
        all.join(",")
    }
}

fn read_biases(s: &mut ChatSettings, text: &str) -> Result<(), String> {
    s.sampling.bias = if text == NONE { Vec::new() } else { biases(text)?.0 };
    Ok(())
}

fn show_order(s: &ChatSettings) -> String {
    let name = |step: &Step| Step::ALL.iter().find(|s| s.0 == *step).map_or("", |s| s.1);
    let all: Vec<&str> = s.sampling.order.iter().map(name).collect();
    if all.is_empty() {
        NONE.to_string()
    } else {
        all.join(";")
    }
}

fn show_breakers(s: &ChatSettings) -> String {
    serde_json::json!(s.breakers).to_string()
}

fn read_breakers(s: &mut ChatSettings, text: &str) -> Result<(), String> {
    s.breakers = match text {
        NONE => Vec::new(),
        _ => serde_json::from_str(text).map_err(|_| r#"expected texts as in ["\n", ":"], or none"#)?,
    };
    Ok(())
}

impl ChatSettings {
    /// Every name with its value.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        TABLE.iter().map(|(name, _, get, _)| (*name, get(self)))
    }

    /// A line for each, or for the one that is named.
    ///
    /// # Errors
    /// An unknown name, in words.
    pub fn show(&self, only: Option<&str>) -> Result<String, String> {
        let rows = TABLE.iter().filter(|entry| only.is_none_or(|name| entry.0 == name));
        let lines: String =
            rows.map(|(name, what, get, _)| format!("  {name:<20} {:<8} {what}\n", get(self))).collect();
        match lines.is_empty() {
            true => Err(unknown(only.unwrap_or_default())),
            false => Ok(lines),
        }
    }

    /// Changes one; on an error none.
    ///
    /// # Errors
    /// An unknown name or a value that it does not take, in words.
    pub fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        let (_, _, _, set) = TABLE.iter().find(|entry| entry.0 == name).ok_or_else(|| unknown(name))?;
        let shown: String = value.chars().take(40).collect();
        set(self, value).map_err(|expected| format!("{name}: {expected}, found {shown}"))
    }
}

fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(40).collect();
    let names: Vec<&str> = TABLE.iter().map(|entry| entry.0).collect();
    format!("no setting {shown}: there are {}", names.join(", "))
}
