//! How a model is opened, as Python says it.

use pumex::{Error, ModelOptions, Result};
use serde_json::{Map, Value};

/// Options of a JSON object.
///
/// # Errors
/// A name that is none, a value of a wrong type.
pub fn read(text: &str) -> Result<ModelOptions> {
    let map: Map<String, Value> = serde_json::from_str(text).map_err(|e| Error::Request(format!("options: {e}")))?;
    let mut options = ModelOptions::default();
    let mut caches = ("f16", "f16");
    for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let wrong = |expected: &str| Error::Request(format!("{name}: expected {expected}, found {value}"));
        let number = || value.as_u64().and_then(|n| u32::try_from(n).ok()).ok_or_else(|| wrong("a number from 0 on"));
        let text = || value.as_str().ok_or_else(|| wrong("a text"));
        let truth = || value.as_bool().ok_or_else(|| wrong("True or False"));
        options = match name.as_str() {
            "n_ctx" => options.n_ctx(number()?),
            "device" => options.device(text()?),
            "n_gpu_layers" => options.gpu_layers(number()? as usize),
            "n_threads" => options.threads(number()? as usize),
            "n_ubatch" => options.batch(number()?),
            "n_parallel" => options.parallel(number()? as usize),
            "mmproj" => options.mmproj(text()?),
            "chat_template" => options.chat_template(text()?),
            "embedding" => options.embeddings(truth()?),
            "on_demand" => options.on_demand(truth()?),
            "deterministic" => options.deterministic(truth()?),
            "type_k" => {
                caches.0 = text()?;
                options
            }
            "type_v" => {
                caches.1 = text()?;
                options
            }
            "loras" => loras(options, value).ok_or_else(|| wrong("pairs of a path and a scale"))?,
            _ => return Err(Error::Request(format!("{name}: no such option"))),
        };
    }
    match map.contains_key("type_k") || map.contains_key("type_v") {
        true => options.cache_types(caches.0, caches.1),
        false => Ok(options),
    }
}

fn loras(options: ModelOptions, value: &Value) -> Option<ModelOptions> {
    value.as_array()?.iter().try_fold(options, |options, pair| {
        let scale = pair.get(1)?.as_f64()?;
        Some(options.lora(pair.get(0)?.as_str()?, scale as f32))
    })
}
