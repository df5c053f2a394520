//! `/api/pull`, `/api/create`, `/api/copy`, `/api/delete`: files of models, where the server has a folder of them.

use crate::engine::{FetchedModel, Library, Refusal, RefusalKind};
use crate::errors::{refusal, unsupported, Result};
use crate::fields::Fields;
use crate::frames::{Format, Frames};
use crate::http::{blocking, json, read, App};
use crate::known_fields::{self, COPY, CREATE, PULL};
use crate::native::router::EventBody;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{header, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{json, Map, Value};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Lines that wait for a slow reader.
const WAITING: usize = 16;
/// Time between two lines of one file.
const PAUSE: Duration = Duration::from_millis(100);

/// Parameters that a model keeps.
const PARAMETERS: &[&str] = &[
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "repeat_last_n",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
];

/// The library, or why there is none.
fn library(app: &App) -> Result<Arc<dyn Library>> {
    app.engine.library().ok_or_else(|| {
        unsupported(
            "This server neither fetches nor changes models for requests: it does so in a folder of its own (serve --models-dir DIR)",
        )
    })
}

/// A model's name, by the one field or the other.
fn model_name<'a>(fields: &Fields<'a>) -> Result<&'a str> {
    let (model, name) = (fields.text("model")?, fields.text("name")?);
    match model.or(name).filter(|name| !name.is_empty()) {
        Some(name) => Ok(name),
        None => fields.require_text("model"),
    }
}

/// `POST /api/pull`.
pub(crate) async fn pull(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    known_fields::check(&fields, &[PULL])?;
    let streams = fields.boolean("stream")?.unwrap_or(true);
    let name = model_name(&fields)?.to_string();
    let library = library(&app)?;
    app.ready()?;
    let engine = app.engine.clone();
    let work = move |tell: &mut dyn FnMut(FetchedModel) -> bool| {
        library.pull(&name, tell)?;
        engine.rescan(false);
        Ok::<_, Refusal>(())
    };
    if !streams {
        blocking(move || work(&mut |_| true)).await?;
        return Ok(json(StatusCode::OK, &json!({"status": "success"})));
    }
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || tell(&sender, work));
    Ok(lines(receiver))
}

/// Does the work, and writes a line for each step of it.
fn tell(
    sender: &mpsc::Sender<Bytes>,
    work: impl FnOnce(&mut dyn FnMut(FetchedModel) -> bool) -> std::result::Result<(), Refusal>,
) {
    let mut frames = Frames::new(Format::Lines);
    let mut send = |value: &Value| {
        frames.data(value);
        frames.take().is_none_or(|bytes| sender.blocking_send(bytes).is_ok())
    };
    send(&json!({"status": "pulling manifest"}));
    let (mut told, mut last) = (Instant::now(), None);
    let done = work(&mut |fetched: FetchedModel| {
        let same = last.as_ref() == Some(&fetched.file);
        if same && told.elapsed() < PAUSE && fetched.done < fetched.total {
            return !sender.is_closed();
        }
        told = Instant::now();
        let line = progress(&fetched);
        last = Some(fetched.file);
        send(&line)
    });
    match done {
        Ok(()) => {
            let last = ["verifying sha256 digest", "writing manifest", "success"];
            last.iter().all(|status| send(&json!({ "status": status })))
        }
        Err(refusal) => send(&json!({"error": refusal.message})),
    };
}

/// A line of how far a file is; clients know files by their digests, which is the name's here.
fn progress(fetched: &FetchedModel) -> Value {
    let digest: String = Sha256::digest(fetched.file.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
    json!({
        "status": format!("pulling {}", fetched.file),
        "digest": format!("sha256:{digest}"),
        "total": fetched.total,
        "completed": fetched.done,
    })
}

fn lines(receiver: mpsc::Receiver<Bytes>) -> Response {
    let mut response = Response::new(Body::new(EventBody(receiver)));
    response.headers_mut().insert(header::CONTENT_TYPE, Format::Lines.media());
    response
}

/// `POST /api/create`: another model's weights with parameters and a system message of their own.
pub(crate) async fn create(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    known_fields::check(&fields, &[CREATE])?;
    let streams = fields.boolean("stream")?.unwrap_or(true);
    let mut said = Map::new();
    for key in ["system", "license"] {
        if let Some(text) = fields.text(key)? {
            said.insert(key.into(), text.into());
        }
    }
    if let Some(parameters) = fields.object("parameters")? {
        if let Some(name) = parameters.map().keys().find(|name| !PARAMETERS.contains(&name.as_str())) {
            return Err(parameters.refuse(name, "is not supported: requests say it in their options"));
        }
        for name in parameters.map().keys() {
            parameters.number(name)?;
        }
        said.insert("parameters".into(), Value::Object(parameters.map().clone()));
    }
    let from = fields.text("from")?;
    let name = model_name(&fields)?.to_string();
    let from = from.map_or_else(|| fields.require_text("from"), Ok)?.to_string();
    let library = library(&app)?;
    let engine = app.engine.clone();
    blocking(move || {
        library.create(&name, &from, &said)?;
        engine.rescan(true);
        Ok(())
    })
    .await?;
    let success = json!({"status": "success"});
    if !streams {
        return Ok(json(StatusCode::OK, &success));
    }
    let mut response = Response::new(Body::from(format!("{success}\n")));
    response.headers_mut().insert(header::CONTENT_TYPE, Format::Lines.media());
    Ok(response)
}

/// `POST /api/copy`.
pub(crate) async fn copy(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    known_fields::check(&fields, &[COPY])?;
    let (from, to) = (fields.text("source")?, fields.text("destination")?);
    let from = from.map_or_else(|| fields.require_text("source"), Ok)?.to_string();
    let to = to.map_or_else(|| fields.require_text("destination"), Ok)?.to_string();
    let library = library(&app)?;
    let engine = app.engine.clone();
    blocking(move || {
        library.copy(&from, &to)?;
        engine.rescan(true);
        Ok(())
    })
    .await?;
    Ok(Response::new(Body::empty()))
}

/// `DELETE /api/delete`: returns when the model's requests are over and its files are gone.
pub(crate) async fn delete(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let name = model_name(&Fields::of(&body)?)?.to_string();
    removed(&app, name).await?;
    Ok(Response::new(Body::empty()))
}

/// Unloads a model and removes its files.
pub(crate) async fn removed(app: &App, name: String) -> Result<()> {
    let library = library(app)?;
    let engine = app.engine.clone();
    let known = |name: &str| engine.offers().iter().any(|offer| offer.is_named(name));
    if !known(&name) && !name.strip_suffix(":latest").is_some_and(known) {
        return Err(refusal(RefusalKind::NotFound, format!("model '{name:.200}' not found")).into());
    }
    blocking(move || {
        engine.unload(&name)?;
        library.remove(&name)?;
        engine.rescan(true);
        Ok(())
    })
    .await?;
    Ok(())
}

/// Begins to fetch a model; what comes of it is told by the list of models.
pub(crate) fn fetches(app: &App, name: String) -> Result<()> {
    let library = library(app)?;
    app.ready()?;
    let engine = app.engine.clone();
    tokio::task::spawn_blocking(move || match library.pull(&name, &mut |_| true) {
        Ok(()) => engine.rescan(false),
        Err(refusal) => tracing::error!("{name}: {}", refusal.message),
    });
    Ok(())
}
