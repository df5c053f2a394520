//! Options of conversations.

use std::path::PathBuf;

use clap::ValueEnum;
use pumex_dialogue::grammar::ToolChoice;

use super::super::options::Switch;
use super::settings::Reasoning;

/// Options of `run` that are about conversations; names are llama.cpp's.
#[derive(clap::Args, Clone, Debug)]
pub struct ChatArgs {
    /// Hold a conversation (-cnv) [default: on a terminal, if the model has a chat template]
    #[arg(long, overrides_with = "no_conversation")]
    pub conversation: bool,
    /// Continue the prompt as it is (-no-cnv)
    #[arg(long, overrides_with = "conversation")]
    pub no_conversation: bool,
    /// End after the first answer (-st)
    #[arg(long)]
    pub single_turn: bool,
    /// System message of the conversation (-sys)
    #[arg(long, value_name = "TEXT", conflicts_with = "system_prompt_file")]
    pub system_prompt: Option<String>,
    /// File with the system message (-sysf)
    #[arg(long, value_name = "FILE")]
    pub system_prompt_file: Option<PathBuf>,
    /// Enter begins a new line; a \ at a line's end sends (-mli)
    #[arg(long)]
    pub multiline_input: bool,
    /// Keep no history of typed lines
    #[arg(long)]
    pub no_history: bool,
    /// Colours (-co); auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, default_missing_value = "on", default_value = "auto")]
    pub color: Switch,
    /// Chat template: a name such as chatml, or its text
    #[arg(long, value_name = "NAME|TEXT", conflicts_with = "chat_template_file")]
    pub chat_template: Option<String>,
    /// File with the chat template
    #[arg(long, value_name = "FILE")]
    pub chat_template_file: Option<PathBuf>,
    /// Further variables of the template, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub chat_template_kwargs: Option<String>,
    /// What to do with reasoning (-rea): as the template has it, ask for it, do not show it, ask for none
    #[arg(long, value_name = "MODE", value_parser = reasoning, default_value = "auto")]
    pub reasoning: Reasoning,
    /// Most tokens of reasoning; 0 none, -1 any number
    #[arg(long, value_name = "N", default_value_t = -1, value_parser = clap::value_parser!(i64).range(-1..))]
    pub reasoning_budget: i64,
    /// How hard the model is to reason, where its template asks: low, medium, high or what else it knows; auto is its own default
    #[arg(long, value_name = "EFFORT", value_parser = super::settings::effort, default_value = "auto")]
    pub reasoning_effort: String,
    /// States that a conversation can go back to (/undo, /regen, dropped reasoning) without computing all of it anew; only models
    /// with recurrent or windowed layers need them
    #[arg(
        long,
        visible_alias = "swa-checkpoints",
        value_name = "N",
        default_value_t = 3,
        env = "LLAMA_ARG_CTX_CHECKPOINTS"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(..=64))]
    pub ctx_checkpoints: u32,
    /// File with definitions of functions that the model may call; you are asked for their results
    #[arg(long, value_name = "FILE")]
    pub tools: Option<PathBuf>,
    /// Whether the model calls functions: auto, none, required, or the name of the one that each message is answered with
    #[arg(long, value_name = "CHOICE", value_parser = super::calls::choice, requires = "tools")]
    pub tool_choice: Option<ToolChoice>,
    /// Go on when the context is full: leave out the oldest half of what is not kept
    #[arg(long, overrides_with = "no_context_shift")]
    pub context_shift: bool,
    /// Stop when the context is full, and drop no old turns of a conversation
    #[arg(long, overrides_with = "context_shift")]
    pub no_context_shift: bool,
    /// Tokens at the start that --context-shift keeps; -1 is the whole prompt [default: BOS, or the system message]
    #[arg(long, value_name = "N")]
    pub keep: Option<i64>,
    #[arg(long, hide = true)]
    jinja: bool,
    #[arg(long, hide = true)]
    no_jinja: bool,
}

fn reasoning(text: &str) -> Result<Reasoning, String> {
    Reasoning::from_str(text, true).map_err(|_| "expected auto, on, hide or off".to_string())
}

impl ChatArgs {
    /// Ids that stay when the context is full, of a prompt of so many; none if it must not go on.
    pub fn context_keep(&self, prompt: usize, usual: usize) -> Option<usize> {
        self.context_shift.then(|| match self.keep {
            Some(n) => usize::try_from(n).map_or(prompt, |n| n.max(usual).min(prompt)),
            None => usual,
        })
    }
}
