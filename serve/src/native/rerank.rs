//! `/v1/rerank`: texts scored for a query.

use crate::engine::Rerank;
use crate::errors::Result;
use crate::fields::Fields;
use crate::http::{json, read, App};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Texts of one request.
const DOCUMENTS: usize = 1024;

/// `documents` gives Jina's shape, `texts` that of Hugging Face's text-embeddings-inference; best first.
pub(crate) async fn rerank(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let plain = fields.value("texts").is_some();
    let name = if plain { "texts" } else { "documents" };
    let query = fields.require_text("query")?.to_string();
    fields.require(name)?;
    if fields.list(name)?.is_none_or(<[Value]>::is_empty) {
        return Err(fields.refuse(name, "expected a list of texts, found an empty one"));
    }
    let documents = fields.texts(name)?;
    if documents.len() > DOCUMENTS {
        return Err(fields.refuse(name, format!("expected at most {DOCUMENTS} texts, found {}", documents.len())));
    }
    let top = fields.count("top_n", 0..=DOCUMENTS)?.unwrap_or(documents.len());
    let with_texts = fields.boolean("return_text")?.unwrap_or(false);
    let model = app.model(fields.text("model")?).await?;
    let name = model.properties().name.clone();
    let request = Rerank { query, documents: documents.clone() };
    let (reply, done) = oneshot::channel();
    app.work(move || model.rerank(&request, reply)).await?;
    let (scores, tokens) = app.reply(done).await?;
    let mut order: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    order.truncate(top);
    let value = match plain {
        true => {
            let one = |(index, score): &(usize, f32)| match documents.get(*index).filter(|_| with_texts) {
                Some(text) => json!({"index": index, "score": score, "text": text}),
                None => json!({"index": index, "score": score}),
            };
            order.iter().map(one).collect()
        }
        false => {
            let results: Value = order.iter().map(|(i, s)| json!({"index": i, "relevance_score": s})).collect();
            let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
            json!({"model": name, "object": "list", "usage": usage, "results": results})
        }
    };
    Ok(json(StatusCode::OK, &value))
}
