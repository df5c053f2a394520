//! `pumex template`: the prompt that a chat template makes of messages.

use std::io::Read;
use std::path::{Path, PathBuf};

use pumex_gguf::{Error, Gguf, Result};
use pumex_text::chat::{DateTime, Json, ModelChat, Request, Template};
use serde_json::json;

use super::{output, CommandEnd};

/// Options of `template`.
#[derive(clap::Args)]
pub struct Args {
    /// GGUF file whose template is taken
    #[arg(short, long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Template: a name such as chatml, a variant in the file such as `tool_use`, or its text
    #[arg(long, value_name = "NAME|TEXT", conflicts_with = "chat_template_file")]
    chat_template: Option<String>,
    /// File with the template
    #[arg(long, value_name = "FILE")]
    chat_template_file: Option<PathBuf>,
    /// JSON with "messages", and "tools", "`add_generation_prompt`", "`chat_template_kwargs`" as needed; - is stdin
    #[arg(long, value_name = "FILE")]
    messages: PathBuf,
    /// Further variables of the template, as a JSON object
    #[arg(long, value_name = "JSON")]
    chat_template_kwargs: Option<String>,
    /// Text of the BOS token [default: the model's]
    #[arg(long, value_name = "TEXT")]
    bos: Option<String>,
    /// Text of the EOS token [default: the model's]
    #[arg(long, value_name = "TEXT")]
    eos: Option<String>,
    /// What the template's clock says, as 2026-01-15T12:00:00 [default: the present, in UTC]
    #[arg(long, value_name = "TIME")]
    now: Option<String>,
    /// Print one JSON object: the prompt, and its parts with whether special tokens are read in them
    #[arg(long)]
    json: bool,
}

/// Prints the prompt.
pub fn main(args: &Args) -> Result<CommandEnd> {
    let now = match &args.now {
        Some(text) => {
            let time = DateTime::parse(text);
            Some(
                time.ok_or_else(|| Error::Usage(format!("--now: expected a time as 2026-01-15T12:00:00, got {text}")))?,
            )
        }
        None => None,
    };
    let more = args.chat_template_kwargs.as_deref().map_or(Ok(Json::Object(Vec::new())), Json::parse);
    let more = more.ok().and_then(|json| json.as_object().map(<[_]>::to_vec));
    let more = more.ok_or_else(|| Error::Usage("--chat-template-kwargs: expected a JSON object".into()))?;
    if args.model.is_none() && args.chat_template.is_none() && args.chat_template_file.is_none() {
        return Err(Error::Usage(
            "no template: give -m FILE, --chat-template-file FILE or --chat-template NAME".into(),
        ));
    }
    let chat = match &args.model {
        Some(path) => ModelChat::of(&Gguf::open(path)?)?,
        None => ModelChat::default(),
    };
    let named = args.chat_template.as_deref().map(|name| chat.resolve_template(name));
    let request = Request::from_json(&read(&args.messages)?).map_err(|e| template_error(&args.messages, &e))?;
    let source = match (named, &args.chat_template_file) {
        (Some(source), _) => source,
        (None, Some(path)) => read(path)?,
        (None, None) => chat.source(request.tools.is_some())?,
    };
    let mut request = Request {
        bos: args.bos.clone().unwrap_or(chat.bos),
        eos: args.eos.clone().unwrap_or(chat.eos),
        now,
        ..request
    };
    request.variables.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
    request.variables.extend(more);
    let refused = |e: pumex_chat::Error| Error::Request(e.to_string());
    let prompt = Template::parse(&source).map_err(refused)?.render(&request).map_err(refused)?;
    if args.json {
        let parts: Vec<_> = prompt.parts().iter().map(|(text, own)| json!({ "text": text, "special": own })).collect();
        output::json(&json!({ "prompt": prompt.text, "parts": parts }))?;
    } else {
        output::text(&prompt.text)?;
    }
    Ok(CommandEnd::Done)
}

fn template_error(path: &Path, error: &pumex_chat::Error) -> Error {
    Error::Request(format!("{}: {error}", path.display()))
}

/// A file's whole text, or stdin's.
fn read(path: &Path) -> Result<String> {
    let stdin = path == Path::new("-");
    let bytes = if stdin {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    String::from_utf8(bytes.map_err(|e| Error::io(path, e))?)
        .map_err(|e| Error::file(path, "not_utf8", format!("invalid byte at offset {}", e.utf8_error().valid_up_to())))
}
