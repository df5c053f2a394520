//! What Ollama's requests have in common.

use crate::engine::{Constraint, Generate, Prompt, Reasoning, MEDIA_MARK};
use crate::errors::Result;
use crate::fields::Fields;
use crate::http::{App, Caller};
use crate::media::{BodyMedia, BodyMedium};
use crate::options;
use serde_json::{json, Map, Value};
use std::sync::Arc;

/// Tokens told at a position.
const TOP: usize = 20;

/// A request with all options of a body; what is to be answered comes later.
pub(super) fn generate(fields: &Fields, caller: &Caller) -> Result<Generate> {
    let mut request = Generate::new(Prompt::Parts(Vec::new()));
    if let Some(given) = fields.object("options")? {
        request.sampling = options::sampling(&given)?;
        // -2 fills the context.
        request.max_tokens =
            given.integer("num_predict", -2..=i64::from(i32::MAX))?.and_then(|n| usize::try_from(n).ok());
        request.stop = options::stop(&given, "stop")?;
        request.n_keep = given.integer("num_keep", -1..=i64::from(i32::MAX))?.unwrap_or(0);
        request.context = given.count("num_ctx", 0..=i32::MAX as usize)?.filter(|n| *n > 0);
    }
    (request.constraint, request.constraint_field) = (format(fields)?, "format");
    let top = fields.count("top_logprobs", 0..=TOP)?.unwrap_or(0);
    request.logprobs = fields.boolean("logprobs")?.unwrap_or(false).then_some(top);
    request.user = options::user(fields, caller)?;
    Ok(request)
}

/// `format`: "json" or a schema.
fn format(fields: &Fields) -> Result<Option<Constraint>> {
    match fields.value("format") {
        None => Ok(None),
        Some(Value::String(word)) if word.is_empty() => Ok(None),
        Some(Value::String(word)) if word == "json" => Ok(Some(Constraint::JsonObject)),
        Some(Value::Object(_)) => Ok(options::schema(fields, "format")?.map(Constraint::Schema)),
        Some(other) => Err(fields.wrong("format", "\"json\" or a JSON schema", other)),
    }
}

/// How much a model may reason.
const EFFORTS: &[&str] = &["none", "low", "medium", "high", "max"];

/// `think`: whether, or how much.
pub(super) fn think(fields: &Fields) -> Result<(Reasoning, Map<String, Value>)> {
    let mut kwargs = Map::new();
    let enabled = match fields.value("think") {
        None => None,
        Some(Value::Bool(b)) => Some(*b),
        Some(Value::String(effort)) if !EFFORTS.contains(&effort.as_str()) => {
            return Err(fields.refuse("think", format!("expected true, false or one of {}", EFFORTS.join(", "))));
        }
        Some(Value::String(effort)) => {
            kwargs.insert("reasoning_effort".into(), json!(effort));
            Some(effort != "none")
        }
        Some(other) => return Err(fields.wrong("think", "true, false or a word", other)),
    };
    if let Some(enabled) = enabled {
        kwargs.insert("enable_thinking".into(), enabled.into());
    }
    Ok((Reasoning { enabled, ..Reasoning::default() }, kwargs))
}

/// Finds `images`, which stand before the text that they come with: gives their marks.
pub(super) fn images<'a>(fields: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<String> {
    const NAME: &str = "images";
    let list = fields.list(NAME)?.unwrap_or_default();
    for (i, image) in list.iter().enumerate() {
        let at = format!("{NAME}/{i}");
        let Value::String(data) = image else { return Err(fields.wrong(&at, "base64", image)) };
        media.add(BodyMedium::either("image", fields.pointer(NAME), fields.pointer(&at), data));
    }
    Ok(MEDIA_MARK.repeat(list.len()))
}

/// Whether a body asks to unload the model, at once or behind its answer: `keep_alive` is 0. How long it stays otherwise is the
/// server's.
pub(super) fn unloads(fields: &Fields) -> Result<bool> {
    const NAME: &str = "keep_alive";
    let wrong = || fields.refuse(NAME, "expected seconds, or a time as 5m or -1");
    match fields.value(NAME) {
        None => Ok(false),
        Some(Value::Number(n)) => Ok(n.as_f64() == Some(0.0)),
        Some(Value::String(text)) => {
            let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '\u{b5}');
            // Several units may follow each other, as 1h30m.
            let parts = number.split(|c: char| c.is_ascii_alphabetic()).filter(|part| !part.is_empty());
            let parts = parts.map(|part| part.parse::<f64>().ok()).collect::<Option<Vec<f64>>>();
            let parts = parts.filter(|parts| !parts.is_empty()).ok_or_else(wrong)?;
            Ok(parts.iter().all(|n| *n == 0.0))
        }
        Some(_) => Err(wrong()),
    }
}

/// Has a model go behind the answers that it is at, as a body with something to answer asks.
pub(super) fn unload_behind(app: &Arc<App>, fields: &Fields) -> Result<()> {
    if unloads(fields)? {
        let (engine, name) = (app.engine.clone(), fields.text("model")?.unwrap_or_default().to_string());
        // It waits for requests that are queued, which this one is; where there is one model, it may stay.
        tokio::task::spawn_blocking(move || engine.unload(&name));
    }
    Ok(())
}

/// Loads or unloads the model of a body that has nothing to answer, and says which.
pub(super) async fn load(app: &Arc<App>, fields: &Fields<'_>) -> Result<(String, &'static str)> {
    let name = fields.text("model")?;
    if unloads(fields)? {
        let name = name.unwrap_or_default().to_string();
        let (engine, known) = (app.engine.clone(), name.clone());
        crate::http::blocking(move || engine.unload(&known)).await?;
        return Ok((name, "unload"));
    }
    Ok((app.model(name).await?.properties().name.clone(), "load"))
}
