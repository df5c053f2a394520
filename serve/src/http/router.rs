//! Which path is whose.

use super::{guard, log, pages, App};
use crate::anthropic::{messages, models as listed};
use crate::errors::{Cause, RequestFault};
use crate::native::{completion, health, infill, lora, metrics, props, rerank, router as loader, slots, tokens};
use crate::ollama;
use crate::openai::{chat, completions, control, embeddings, models, responses, transcriptions};
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post, MethodRouter};
use axum::Router;
use std::sync::Arc;

type Endpoint = (&'static [&'static str], MethodRouter<Arc<App>>);

/// A router of everything.
pub(super) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for (paths, methods) in openai().into_iter().chain(others()).chain(native()) {
        for path in paths {
            router = router.route(path, methods.clone());
        }
    }
    let prefix = app.settings.prefix.clone();
    let own = router
        .fallback(pages::page)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .layer(from_fn_with_state(app.clone(), log::log))
        .with_state(app);
    match prefix.as_str() {
        "" => own,
        prefix => Router::new().nest(prefix, own),
    }
}

/// OpenAI's paths also work without `/v1`, but for completions, which are llama.cpp's own there.
fn openai() -> Vec<Endpoint> {
    vec![
        (&["/v1/chat/completions", "/chat/completions"], post(chat::chat)),
        (&["/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"], post(chat::input_tokens)),
        (&["/v1/chat/completions/control", "/chat/completions/control"], post(control::control)),
        (&["/v1/completions"], post(completions::completions)),
        (&["/v1/responses", "/responses"], post(responses::responses)),
        (&["/v1/responses/input_tokens", "/responses/input_tokens"], post(responses::input_tokens)),
        (&["/v1/embeddings"], post(embeddings::embeddings)),
        (&["/embedding", "/embeddings"], post(embeddings::embedding)),
        (&["/v1/audio/transcriptions", "/audio/transcriptions"], post(transcriptions::transcriptions)),
        (&["/v1/models"], get(listed::models)),
        (&["/models"], get(models::models).post(loader::fetch).delete(loader::remove)),
        (&["/v1/models/{*name}"], get(listed::one)),
    ]
}

/// Anthropic's and Ollama's.
fn others() -> Vec<Endpoint> {
    vec![
        (&["/v1/messages"], post(messages::messages)),
        (&["/v1/messages/count_tokens"], post(messages::count_tokens)),
        (&["/api/chat"], post(ollama::chat::chat)),
        (&["/api/generate"], post(ollama::generate::generate)),
        (&["/api/embed"], post(ollama::embed::embed)),
        (&["/api/embeddings"], post(ollama::embed::embeddings)),
        (&["/api/tags"], get(ollama::models::tags)),
        (&["/api/ps"], get(ollama::models::ps)),
        (&["/api/show"], post(ollama::models::show)),
        (&["/api/version"], get(ollama::models::version)),
        (&["/api/pull"], post(ollama::library::pull)),
        (&["/api/create"], post(ollama::library::create)),
        (&["/api/copy"], post(ollama::library::copy)),
        (&["/api/delete"], delete(ollama::library::delete)),
    ]
}

fn native() -> Vec<Endpoint> {
    vec![
        (&["/health", "/v1/health", "/ready"], get(health::health)),
        (&["/live"], get(health::live)),
        (&["/completion", "/completions"], post(completion::completion)),
        (&["/infill"], post(infill::infill)),
        (&["/tokenize"], post(tokens::tokenize)),
        (&["/detokenize"], post(tokens::detokenize)),
        (&["/apply-template"], post(tokens::apply_template)),
        (&["/v1/rerank", "/rerank", "/v1/reranking", "/reranking"], post(rerank::rerank)),
        (&["/props"], get(props::props).post(props::set_props)),
        (&["/slots"], get(slots::slots)),
        (&["/slots/{id}"], post(slots::act)),
        (&["/lora-adapters"], get(lora::list).post(lora::set)),
        (&["/metrics"], get(metrics::metrics)),
        (&["/models/load"], post(loader::load)),
        (&["/models/unload"], post(loader::unload)),
        (&["/models/sse"], get(loader::events)),
        (&["/server_info", "/get_server_info"], get(props::server_info)),
        (&["/model_info", "/get_model_info"], get(props::model_info)),
    ]
}

/// The first path of each endpoint.
#[cfg(test)]
pub(super) fn first_paths() -> Vec<&'static str> {
    openai().into_iter().chain(others()).chain(native()).map(|(paths, _)| paths[0]).collect()
}

async fn wrong_method(request: Request) -> RequestFault {
    RequestFault::new(
        Cause::WrongMethod,
        format!("{} does not know the method {}", request.uri().path(), request.method()),
    )
}
