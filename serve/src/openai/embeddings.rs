//! `/v1/embeddings`, and `/embeddings`, which also gives the vectors of each token.

use crate::engine::{Embed, EmbeddingResult, Model, Pooling};
use crate::errors::{invalid, Result};
use crate::fields::Fields;
use crate::http::{json, read, App};
use crate::known_fields;
use crate::native::prompts;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use serde_json::{json, Value};
use std::sync::Arc;
use tokio::sync::oneshot;

/// What a body asks for.
struct EmbeddingsRequest {
    embed: Embed,
    /// Little-endian floats in base64 instead of numbers.
    packed: bool,
    /// Numbers of each vector; none: all.
    dimensions: Option<usize>,
}

fn parse_request(fields: &Fields, usual: Option<i32>) -> Result<EmbeddingsRequest> {
    known_fields::check(fields, &[known_fields::EMBEDDINGS])?;
    let name = if fields.value("input").is_some() { "input" } else { "content" };
    let name = if fields.value(name).is_some() { name } else { "input" };
    let packed = fields.choice("encoding_format", &[("float", false), ("base64", true)])?.unwrap_or(false);
    let poolings = [
        ("none", Pooling::None),
        ("mean", Pooling::Mean),
        ("cls", Pooling::Cls),
        ("last", Pooling::Last),
        ("rank", Pooling::Rank),
    ];
    let embed = Embed {
        truncate: false,
        inputs: prompts::texts(fields, name)?,
        pooling: fields.choice("pooling", &poolings)?,
        normalize: fields.integer("embd_normalize", -1..=i64::from(i32::MAX))?.map(|n| n as i32).or(usual),
    };
    Ok(EmbeddingsRequest { embed, packed, dimensions: fields.count("dimensions", 1..=1 << 20)? })
}

/// The vectors of a request, and whose they are.
async fn vectors(
    app: &Arc<App>,
    fields: &Fields<'_>,
    embed: Embed,
) -> Result<(Vec<EmbeddingResult>, String, Option<Pooling>)> {
    let model = app.model(fields.text("model")?).await?;
    let (name, pooling) = (model.properties().name.clone(), embed.pooling.or(model.properties().embeds));
    Ok((embedded(app, model, embed).await?, name, pooling))
}

/// Vectors of texts.
pub(crate) async fn embedded(app: &App, model: Arc<dyn Model>, embed: Embed) -> Result<Vec<EmbeddingResult>> {
    let (reply, done) = oneshot::channel();
    app.work(move || model.embed(&embed, reply)).await?;
    app.reply(done).await
}

/// OpenAI's: one vector for each text.
pub(crate) async fn embeddings(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let EmbeddingsRequest { embed, packed, dimensions } = parse_request(&fields, app.settings.normalize)?;
    let own = app.find_loaded(fields.text("model")?).and_then(|m| m.properties().embeds);
    if embed.pooling.or(own) == Some(Pooling::None) {
        return Err(invalid(
            "pooling",
            "Pooling type 'none' is not OAI compatible. Please use a different pooling type",
        ));
    }
    let (embedded, model, _) = vectors(&app, &fields, embed).await?;
    let tokens: usize = embedded.iter().map(|e| e.tokens).sum();
    let mut data = Vec::new();
    for (index, e) in embedded.into_iter().enumerate() {
        let vector = shorten_vector(e.vectors.into_iter().next().unwrap_or_default(), dimensions)?;
        let mut row = json!({"embedding": numbers(&vector, packed), "index": index, "object": "embedding"});
        if packed {
            row["encoding_format"] = "base64".into();
        }
        data.push(row);
    }
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    Ok(json(StatusCode::OK, &json!({"model": model, "object": "list", "usage": usage, "data": data})))
}

/// llama.cpp's: a bare list, each with a list of vectors.
pub(crate) async fn embedding(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let EmbeddingsRequest { embed, packed, .. } = parse_request(&fields, app.settings.normalize)?;
    let (embedded, ..) = vectors(&app, &fields, embed).await?;
    let row = |(index, e): (usize, &EmbeddingResult)| {
        let vectors: Value = e.vectors.iter().map(|v| numbers(v, packed)).collect();
        json!({"index": index, "embedding": vectors})
    };
    Ok(json(StatusCode::OK, &embedded.iter().enumerate().map(row).collect::<Value>()))
}

/// The first numbers of a vector, of length 1 again.
pub(crate) fn shorten_vector(mut vector: Vec<f32>, dimensions: Option<usize>) -> Result<Vec<f32>> {
    let Some(dimensions) = dimensions.filter(|d| *d != vector.len()) else { return Ok(vector) };
    if dimensions > vector.len() {
        let text = format!("expected at most the model's {}, found {dimensions}", vector.len());
        return Err(invalid("dimensions", text));
    }
    vector.truncate(dimensions);
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    Ok(vector)
}

fn numbers(vector: &[f32], packed: bool) -> Value {
    match packed {
        false => vector.iter().copied().map(Value::from).collect(),
        true => {
            let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            base64::engine::general_purpose::STANDARD.encode(bytes).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_dimensions_have_length_one_again() {
        assert_eq!(shorten_vector(vec![3.0, 4.0, 5.0], Some(2)).unwrap(), [0.6, 0.8]);
        assert_eq!(shorten_vector(vec![3.0, 4.0], None).unwrap(), [3.0, 4.0]);
        assert!(shorten_vector(vec![3.0], Some(2)).is_err());
        assert_eq!(numbers(&[1.0, -2.0], true), "AACAPwAAAMA=");
    }
}
