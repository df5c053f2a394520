//! Which path is whose.

use super::{guard, pages, App};
use crate::errors::{Cause, Fault};
use crate::native::health;
use crate::openai::chat;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post, MethodRouter};
use axum::Router;
use std::sync::Arc;

/// A router of everything.
pub(super) fn router(app: Arc<App>) -> Router {
    let rows: Vec<(&[&str], MethodRouter<Arc<App>>)> = vec![
        (&["/health", "/v1/health", "/ready"], get(health::health)),
        (&["/live"], get(health::live)),
        (&["/v1/chat/completions", "/chat/completions"], post(chat::chat)),
        (&["/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"], post(chat::input_tokens)),
    ];
    let mut router = Router::new();
    for (paths, methods) in rows {
        for path in paths {
            router = router.route(path, methods.clone());
        }
    }
    router
        .fallback(pages::page)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}

async fn wrong_method(request: Request) -> Fault {
    Fault::new(Cause::WrongMethod, format!("{} does not know the method {}", request.uri().path(), request.method()))
}
