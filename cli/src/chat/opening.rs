//! Whether a run is a conversation, and what it begins with.

use std::io::IsTerminal;
use std::path::Path;

use pumex_dialogue::grammar::ToolChoice;
use pumex_dialogue::{functions, Message, Style};
use pumex_gguf::{Error, Gguf, Result};
use pumex_text::chat::{Json, ModelChat};
use pumex_text::Tokenizer;

use super::super::output;
use super::super::prompt_source::PromptArgs;
use super::args::ChatArgs;

/// Largest file of functions.
const MAX_TOOLS: u64 = 16 << 20;

/// What a conversation begins with.
pub struct Opening {
    source: String,
    bos: String,
    eos: String,
    tools: Option<Json>,
    /// The template's variables that the user gave.
    pub variables: Vec<(String, Json)>,
    /// The system message.
    pub system: Option<String>,
    /// The first message, if it is given.
    pub first: Option<String>,
}

/// Decides: as asked; else where a person sits at a terminal and the model has a chat template. What a script pipes is continued.
///
/// # Errors
/// A conversation that is asked for, of a model without template; files that cannot be read.
pub fn opening(
    args: &ChatArgs,
    prompt: &PromptArgs,
    (escapes, json): (bool, bool),
    gguf: &Gguf,
) -> Result<Option<Opening>> {
    let asked =
        args.conversation || args.system_prompt.is_some() || args.system_prompt_file.is_some() || args.tools.is_some();
    let given = prompt.prompt.is_some() || prompt.file.is_some();
    let person = std::io::stdin().is_terminal() && (std::io::stdout().is_terminal() || !given) && !json;
    if args.no_conversation || !(asked || args.single_turn || person) {
        return Ok(None);
    }
    let chat = ModelChat::of(gguf)?;
    let tools = args.tools.as_deref().map(tools).transpose()?;
    let tools = tools.filter(|_| args.tool_choice != Some(ToolChoice::None));
    let source = match (&args.chat_template, &args.chat_template_file) {
        (Some(name), _) => chat.resolve_template(name),
        (None, Some(path)) => super::super::prompt_source::read_file(path)?,
        (None, None) => match chat.source(tools.is_some()) {
            Ok(source) => source,
            Err(error) if asked => return Err(error),
            // The built-in model says what it is.
            Err(_) if gguf.path() == Path::new("demo.gguf") => return Ok(None),
            Err(_) => {
                output::say(format_args!(
                    "note: the model has no chat template, so it continues texts; --chat-template chatml talks to it all the same\n"
                ));
                return Ok(None);
            }
        },
    };
    let more = args.chat_template_kwargs.as_deref().map_or(Ok(Json::Object(Vec::new())), Json::parse);
    let more = more.ok().and_then(|json| json.as_object().map(<[_]>::to_vec));
    let variables = more.ok_or_else(|| Error::Usage("--chat-template-kwargs: expected a JSON object".into()))?;
    let unescaped = |text: String| if escapes { super::super::prompt_source::unescape(&text) } else { text };
    let system = match (&args.system_prompt, &args.system_prompt_file) {
        (Some(text), _) => Some(unescaped(text.clone())),
        (None, Some(path)) => Some(super::super::prompt_source::read_file(path)?),
        (None, None) => None,
    };
    // A pipe is the only message of one turn, and a message a line of several.
    let piped = args.single_turn && !std::io::stdin().is_terminal();
    let first = if given || piped { prompt.read(escapes)? } else { None };
    if first.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return Err(Error::Request("the message is empty: give -p TEXT, -f FILE or a pipe with text".into()));
    }
    Ok(Some(Opening { source, bos: chat.bos, eos: chat.eos, tools, variables, system, first }))
}

fn tools(path: &Path) -> Result<Json> {
    let meta = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    if !meta.is_file() || meta.len() > MAX_TOOLS {
        return Err(Error::file(path, "bad_tools", format!("expected a file of at most {} MiB", MAX_TOOLS >> 20)));
    }
    let text = super::super::prompt_source::read_file(path)?;
    functions(&text).map_err(|e| Error::file(path, "bad_tools", e.to_string()))
}

impl Opening {
    /// How the model is talked to.
    ///
    /// # Errors
    /// A template that is none.
    pub fn style(&self, tokenizer: &Tokenizer) -> Result<Style> {
        let mut style = Style::of(&self.source, (&self.bos, &self.eos), tokenizer)?;
        style.tools.clone_from(&self.tools);
        style.variables.clone_from(&self.variables);
        Ok(style)
    }

    /// The ids of its first message, where a model answers one alone.
    ///
    /// # Errors
    /// No message; what the template says.
    pub fn only_prompt(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
        let Some(first) = &self.first else {
            return Err(Error::Usage("no message given: use -p TEXT, -f FILE or a pipe".into()));
        };
        let system = self.system.iter().map(|text| Message::new("system", text.clone()));
        let messages: Vec<Message> = system.chain([Message::new("user", first.clone())]).collect();
        let style = self.style(tokenizer)?;
        style.ids(tokenizer, &style.prompt(&messages)?)
    }
}
