//! `/infill`: what stands between two texts.

use super::completion;
use crate::engine::Prompt;
use crate::errors::{unsupported, Result};
use crate::fields::Fields;
use crate::http::{read, App, Caller};
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use std::sync::Arc;

/// Fills the gap between `input_prefix` and `input_suffix`.
pub(crate) async fn infill(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let mut extra = Vec::new();
    for file in fields.objects("input_extra")? {
        extra.push((file.text("filename")?.map(String::from), file.require_text("text")?.to_string()));
    }
    let prompt = Prompt::Infill {
        prefix: fields.require_text("input_prefix")?.to_string(),
        suffix: fields.require_text("input_suffix")?.to_string(),
        prompt: fields.text("prompt")?.unwrap_or_default().to_string(),
        extra,
    };
    let request = completion::generate(&fields, &caller, prompt)?;
    let model = app.model(fields.text("model")?).await?;
    if !model.properties().infills {
        return Err(unsupported("this model has no tokens that mark a gap"));
    }
    completion::answer(&app, &fields, model, vec![request], false).await
}
