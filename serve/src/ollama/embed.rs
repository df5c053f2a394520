//! `/api/embed`, and the older `/api/embeddings`.

use crate::engine::Embed;
use crate::errors::Result;
use crate::fields::Fields;
use crate::http::{json, read, App};
use crate::known_fields;
use crate::native::prompts;
use crate::openai::embeddings::{embedded, shorten_vector};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;
use std::time::Instant;

/// Vectors of one text or several.
pub(crate) async fn embed(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let begun = Instant::now();
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    known_fields::check(&fields, &[known_fields::EMBED])?;
    let inputs = match fields.value("input") {
        // Loads the model.
        Some(Value::Array(items)) if items.is_empty() => Vec::new(),
        _ => prompts::texts(&fields, "input")?,
    };
    let dimensions = fields.count("dimensions", 1..=1 << 20)?;
    let model = app.model(fields.text("model")?).await?;
    let name = model.properties().name.clone();
    let truncate = fields.boolean("truncate")?.unwrap_or(true);
    let embed = Embed { inputs, truncate, pooling: None, normalize: None };
    let embedded = match embed.inputs.is_empty() {
        true => Vec::new(),
        false => embedded(&app, model, embed).await?,
    };
    let tokens: usize = embedded.iter().map(|e| e.tokens).sum();
    let first = |e: crate::engine::EmbeddingResult| {
        shorten_vector(e.vectors.into_iter().next().unwrap_or_default(), dimensions)
    };
    let vectors = embedded.into_iter().map(first).collect::<Result<Vec<_>>>()?;
    let value = json!({
        "model": name,
        "embeddings": vectors,
        "total_duration": u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
        "load_duration": 0,
        "prompt_eval_count": tokens,
    });
    Ok(json(StatusCode::OK, &value))
}

/// The vector of one text, as long as the model makes it.
pub(crate) async fn embeddings(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let inputs = prompts::texts(&fields, "prompt")?;
    let embed = Embed { inputs, truncate: true, pooling: None, normalize: Some(-1) };
    let model = app.model(fields.text("model")?).await?;
    let embedded = embedded(&app, model, embed).await?;
    let vector = embedded.into_iter().next().and_then(|e| e.vectors.into_iter().next()).unwrap_or_default();
    Ok(json(StatusCode::OK, &json!({ "embedding": vector })))
}
