//! `/v1/chat/completions/control`: what is asked of an answer while it is written.

use crate::engine::{RequestSwitch, WeakSwitch};
use crate::errors::Result;
use crate::fields::Fields;
use crate::http::{json, read, App, Caller};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Switches of answers that are being written, by their names and the keys of who asked.
#[derive(Debug, Default)]
pub(crate) struct Controls(Mutex<HashMap<(Option<usize>, String), WeakSwitch>>);

impl Controls {
    /// A switch for an answer of that name, for the holder of the key alone.
    pub fn add(&self, name: &str, key: Option<usize>) -> RequestSwitch {
        let switch = RequestSwitch::default();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, switch| switch.get().is_some());
        all.insert((key, name.to_string()), switch.weak());
        switch
    }

    fn find(&self, name: &str, key: Option<usize>) -> Option<RequestSwitch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&(key, name.to_string()))?.get()
    }
}

/// Ends the reasoning of an answer that was asked for with `reasoning_control`. One that is over is left as it is.
pub(crate) async fn control(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let name = fields.require_text("id")?;
    let action = fields.require_text("action")?;
    if action != "reasoning_end" {
        return Err(fields.refuse("action", format!("expected reasoning_end, found {action:.100?}")));
    }
    let found = app.controls.find(name, caller.key).inspect(RequestSwitch::set).is_some();
    let value = match found {
        true => json!({"success": true}),
        false => json!({"success": false, "message": "no answer of this id is being written with reasoning_control"}),
    };
    Ok(json(StatusCode::OK, &value))
}
