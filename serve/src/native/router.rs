//! Models loaded and unloaded by name, and what happens to them: llama.cpp's router.

use super::props::meta;
use crate::engine::{ModelChange, ModelState, RefusalKind};
use crate::errors::{invalid, refusal, Result};
use crate::fields::Fields;
use crate::frames::{Format, Frames};
use crate::http::{blocking, json, query, read, App};
use crate::ollama::library;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{header, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use serde_json::{json, Value};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

/// Changes that wait for a slow listener.
const WAITING: usize = 16;

/// `POST /models/load`: begins to load a model; what comes of it is told by `GET /models/sse` and `GET /models`.
pub(crate) async fn load(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let name = Fields::of(&body)?.require_text("model")?.to_string();
    app.ready()?;
    let offers = app.engine.offers();
    let offer = offers.iter().find(|offer| offer.is_named(&name));
    match offer.map(|offer| offer.state) {
        None => return Err(refusal(RefusalKind::NotFound, format!("model {name:.200?} is not found")).into()),
        Some(ModelState::Loaded | ModelState::Loading) => {
            return Err(invalid("model", format!("model {name} is already loaded")))
        }
        Some(_) => {}
    }
    let engine = app.engine.clone();
    // An error is the model's state then.
    drop(tokio::spawn(async move { blocking(move || engine.model(Some(&name)).map(drop)).await.is_ok() }));
    Ok(json(StatusCode::OK, &json!({"success": true})))
}

/// `POST /models/unload`: returns when its requests are over and it is unloaded.
pub(crate) async fn unload(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let name = Fields::of(&body)?.require_text("model")?.to_string();
    let (engine, asked) = (app.engine.clone(), name.clone());
    match blocking(move || engine.unload(&asked)).await? {
        true => Ok(json(StatusCode::OK, &json!({"success": true}))),
        false => Err(invalid("model", format!("model {name:.200} is not loaded"))),
    }
}

/// `POST /models`: begins to fetch a model of the Hub into the server's folder.
pub(crate) async fn fetch(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let name = Fields::of(&body)?.require_text("model")?;
    // A user's repository without a host is the Hub's here.
    let hub = name.split_once('/').is_some_and(|(user, _)| !user.contains(['.', ':']));
    library::fetches(&app, if hub { format!("hf.co/{name}") } else { name.to_string() })?;
    Ok(json(StatusCode::OK, &json!({"success": true})))
}

/// `DELETE /models?model=NAME`: unloads a model and removes its files from the server's folder.
pub(crate) async fn remove(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let name = query(&request, "model").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| invalid("model", "expected the model's name in the query: /models?model=NAME"))?;
    library::removed(&app, name).await?;
    Ok(json(StatusCode::OK, &json!({"success": true})))
}

/// `GET /models/sse`: what happens to models, until the client goes or the server stops.
pub(crate) async fn events(State(app): State<Arc<App>>) -> Response {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(tell(app.clone(), app.engine.changes(), sender));
    let mut response = Response::new(Body::new(EventBody(receiver)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, Format::ServerSent.media());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn tell(app: Arc<App>, mut changes: broadcast::Receiver<ModelChange>, to: mpsc::Sender<Bytes>) {
    let mut pause = tokio::time::interval(app.settings.limits.ping);
    let mut frames = Frames::new(Format::ServerSent);
    loop {
        tokio::select! {
            change = changes.recv() => match change {
                Ok(change) => frames.data(&event(change)),
                // What a listener missed, the list of models tells.
                Err(RecvError::Lagged(_)) => frames.data(&event(ModelChange::Reloaded)),
                Err(RecvError::Closed) => return,
            },
            // The first one comes at once, and with it the headers.
            _ = pause.tick() => frames.comment(),
            () = app.until_stop() => return,
            () = to.closed() => return,
        }
        let Some(bytes) = frames.take() else { continue };
        if to.send(bytes).await.is_err() {
            return;
        }
    }
}

/// A change in llama.cpp's words.
fn event(change: ModelChange) -> Value {
    match change {
        ModelChange::State { model, state, failure, properties } => {
            let mut data = status(state, failure.as_deref());
            data["status"] = data["value"].take();
            data.as_object_mut().map(|data| data.remove("value"));
            if let Some(properties) = properties {
                data["info"] = json!({"meta": meta(&properties)});
            }
            json!({"model": model, "event": "model_status", "data": data})
        }
        ModelChange::Removed { model } => json!({"model": model, "event": "model_remove"}),
        ModelChange::Reloaded => json!({"model": "*", "event": "models_reload"}),
    }
}

/// A model's `status`: one that failed is not loaded.
pub(crate) fn status(state: ModelState, failure: Option<&str>) -> Value {
    let word = match state {
        ModelState::Unloaded | ModelState::Failed => "unloaded",
        ModelState::Loading => "loading",
        ModelState::Loaded => "loaded",
        ModelState::Sleeping => "sleeping",
    };
    match state {
        ModelState::Failed => json!({"value": word, "failed": true, "exit_code": 1, "error": failure}),
        _ => json!({"value": word}),
    }
}

/// Bytes as they come.
pub(crate) struct EventBody(pub mpsc::Receiver<Bytes>);

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
