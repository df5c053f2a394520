//! Settings of a conversation that `/set` shows and changes.

use pumex::sample::SamplerOptions;

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
pub struct Settings {
    /// The sampler's chain.
    pub sampling: SamplerOptions,
    /// Most tokens of an answer.
    pub predict: i64,
    /// What is done with reasoning.
    pub reasoning: Reasoning,
    /// Most tokens of it; negative: any number.
    pub budget: i64,
}

/// A setting: its name, what it does, its value as text, and how it is read.
type Entry = (&'static str, &'static str, fn(&Settings) -> String, fn(&mut Settings, &str) -> Option<()>);

fn finite(text: &str) -> Option<f32> {
    text.parse().ok().filter(|x: &f32| x.is_finite())
}

const TABLE: &[Entry] = &[
    (
        "temp",
        "temperature; 0 is greedy",
        |s| s.sampling.temperature.to_string(),
        |s, v| {
            s.sampling.temperature = finite(v)?;
            Some(())
        },
    ),
    (
        "top-k",
        "candidates kept; 0 is all",
        |s| s.sampling.top_k.to_string(),
        |s, v| {
            s.sampling.top_k = v.parse().ok()?;
            Some(())
        },
    ),
    (
        "top-p",
        "probability kept; 1 is all",
        |s| s.sampling.top_p.to_string(),
        |s, v| {
            s.sampling.top_p = finite(v)?;
            Some(())
        },
    ),
    (
        "min-p",
        "least share of the best one's probability",
        |s| s.sampling.min_p.to_string(),
        |s, v| {
            s.sampling.min_p = finite(v)?;
            Some(())
        },
    ),
    (
        "repeat-penalty",
        "penalty of recent tokens; 1 is off",
        |s| s.sampling.repeat_penalty.to_string(),
        |s, v| {
            s.sampling.repeat_penalty = finite(v)?;
            Some(())
        },
    ),
    (
        "repeat-last-n",
        "recent tokens that penalties see",
        |s| s.sampling.repeat_last_n.to_string(),
        |s, v| {
            s.sampling.repeat_last_n = v.parse().ok()?;
            Some(())
        },
    ),
    (
        "presence-penalty",
        "penalty if a token occurred",
        |s| s.sampling.presence_penalty.to_string(),
        |s, v| {
            s.sampling.presence_penalty = finite(v)?;
            Some(())
        },
    ),
    (
        "frequency-penalty",
        "penalty per occurrence",
        |s| s.sampling.frequency_penalty.to_string(),
        |s, v| {
            s.sampling.frequency_penalty = finite(v)?;
            Some(())
        },
    ),
    (
        "seed",
        "seed of the draw; -1 is random",
        |s| s.sampling.seed.to_string(),
        |s, v| {
            s.sampling.seed = v.parse().ok()?;
            Some(())
        },
    ),
    (
        "predict",
        "most tokens of an answer; -1 is any number",
        |s| s.predict.to_string(),
        |s, v| {
            s.predict = v.parse().ok()?;
            Some(())
        },
    ),
    (
        "reasoning",
        "auto, on, hide or off",
        |s| format!("{:?}", s.reasoning).to_lowercase(),
        |s, v| {
            s.reasoning = <Reasoning as clap::ValueEnum>::from_str(v, true).ok()?;
            Some(())
        },
    ),
    (
        "reasoning-budget",
        "most tokens of reasoning; -1 is any number",
        |s| s.budget.to_string(),
        |s, v| {
            s.budget = v.parse().ok().filter(|n| *n >= -1)?;
            Some(())
        },
    ),
];

impl Settings {
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
            rows.map(|(name, what, get, _)| format!("  {name:<18} {:<8} {what}\n", get(self))).collect();
        match lines.is_empty() {
            true => Err(unknown(only.unwrap_or_default())),
            false => Ok(lines),
        }
    }

    /// Changes one.
    ///
    /// # Errors
    /// An unknown name or a value that it does not take, in words.
    pub fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        let (_, what, _, set) = TABLE.iter().find(|entry| entry.0 == name).ok_or_else(|| unknown(name))?;
        let shown: String = value.chars().take(40).collect();
        set(self, value).ok_or_else(|| format!("{name}: expected a value ({what}), found {shown}"))
    }
}

fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(40).collect();
    let names: Vec<&str> = TABLE.iter().map(|entry| entry.0).collect();
    format!("no setting {shown}: there are {}", names.join(", "))
}
