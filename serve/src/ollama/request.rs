//! What Ollama's requests have in common.

use crate::engine::{Constraint, Generate, Prompt, Reasoning};
use crate::errors::{unsupported, Result};
use crate::fields::Fields;
use crate::http::{App, Caller};
use crate::options;
use serde_json::{json, Map, Value};

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
    }
    (request.constraint, request.constraint_field) = (format(fields)?, "format");
    if fields.boolean("logprobs")?.unwrap_or(false) {
        request.logprobs = Some(fields.count("top_logprobs", 0..=TOP)?.unwrap_or(0));
    }
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

/// Refuses images.
pub(super) fn no_images(fields: &Fields) -> Result<()> {
    match fields.list("images")?.is_some_and(|i| !i.is_empty()) {
        true => Err(unsupported("image input is not supported: this model reads text only")),
        false => Ok(()),
    }
}

/// Whether a body without a prompt asks to unload the model; otherwise it asks to load it.
pub(super) fn unloads(fields: &Fields) -> bool {
    match fields.value("keep_alive") {
        Some(Value::Number(n)) => n.as_f64() == Some(0.0),
        Some(Value::String(s)) => s.trim_end_matches(|c: char| c.is_alphabetic()) == "0",
        _ => false,
    }
}

/// Loads or unloads the model of a body that has nothing to answer, and says which.
pub(super) async fn load(app: &std::sync::Arc<App>, fields: &Fields<'_>) -> Result<(String, &'static str)> {
    let name = fields.text("model")?;
    if unloads(fields) {
        let name = name.unwrap_or_default().to_string();
        let (engine, known) = (app.engine.clone(), name.clone());
        crate::http::blocking(move || engine.unload(&known)).await?;
        return Ok((name, "unload"));
    }
    Ok((app.model(name).await?.properties().name.clone(), "load"))
}
