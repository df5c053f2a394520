//! `config.json`, with what its model's class adds where it is silent.

use crate::json::Object;
use crate::{Error, Result};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

/// Hyper-parameters by their names in `config.json`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file, for messages.
    pub path: PathBuf,
    values: Object,
}

impl Config {
    /// Hyper-parameters of a file's object; those of `text_config` stand at the top.
    pub fn new(path: &Path, mut values: Object) -> Config {
        if let Some(Value::Object(text)) = values.get("text_config").cloned() {
            values.extend(text);
        }
        Config { path: path.to_path_buf(), values }
    }

    /// The value of a key; null is none.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|v| !v.is_null())
    }

    /// The value of the first of some keys that is there, even if it is null, which is none.
    pub fn first(&self, keys: &[&str]) -> Option<(&str, &Value)> {
        let (key, value) = keys.iter().find_map(|k| self.values.get_key_value(*k))?;
        (!value.is_null()).then_some((key.as_str(), value))
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: Value) {
        self.values.insert(key.to_string(), value);
    }

    /// Sets a key that is not there.
    pub fn default(&mut self, key: &str, value: Value) {
        if !self.values.contains_key(key) {
            self.set(key, value);
        }
    }

    /// Sets a key that is not there or null.
    pub fn fill(&mut self, key: &str, value: Value) {
        if self.get(key).is_none() {
            self.set(key, value);
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) {
        self.values.remove(key);
    }

    /// Whether a key is there, even if it is null.
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    fn wrong(&self, key: &str, expected: &str, found: impl std::fmt::Display) -> Error {
        Error::file(&self.path, format!("{key}: expected {expected}, found {found}"))
    }

    /// A whole number of 32 bits.
    ///
    /// # Errors
    /// Another value.
    pub fn opt_u32(&self, keys: &[&str]) -> Result<Option<u32>> {
        let Some((key, value)) = self.first(keys) else { return Ok(None) };
        let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
        number.map(Some).ok_or_else(|| self.wrong(key, "a whole number of 32 bits", value))
    }

    /// A whole number that has to be there.
    ///
    /// # Errors
    /// Another value, or none.
    pub fn u32(&self, keys: &[&str]) -> Result<u32> {
        self.opt_u32(keys)?.ok_or_else(|| self.wrong(&keys.join(" or "), "a number", "none"))
    }

    /// A whole number that has to be there, as a size.
    ///
    /// # Errors
    /// As [`Config::u32`].
    pub fn size(&self, key: &str) -> Result<usize> {
        self.u32(&[key]).map(|n| n as usize)
    }

    /// A number.
    ///
    /// # Errors
    /// Another value.
    pub fn opt_f64(&self, keys: &[&str]) -> Result<Option<f64>> {
        let Some((key, value)) = self.first(keys) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| self.wrong(key, "a number", value))
    }

    /// A number that has to be there.
    ///
    /// # Errors
    /// Another value, or none.
    pub fn f64(&self, key: &str) -> Result<f64> {
        self.opt_f64(&[key])?.ok_or_else(|| self.wrong(key, "a number", "none"))
    }

    /// A text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// Whether a key is true.
    pub fn is(&self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool) == Some(true)
    }

    /// Layers.
    ///
    /// # Errors
    /// No number of layers, or one that no model has.
    pub fn layers(&self) -> Result<usize> {
        let keys = ["n_layers", "num_hidden_layers", "n_layer", "num_layers"];
        let n = self.u32(&keys)?;
        if n > 4096 {
            return Err(self.wrong(&keys.join(" or "), "at most 4096 layers", n));
        }
        Ok(n as usize)
    }

    /// Elements of a head: `head_dim`, or an equal part of the width.
    ///
    /// # Errors
    /// Neither is there.
    pub fn head_dim(&self) -> Result<u32> {
        if let Some(dim) = self.opt_u32(&["head_dim"])? {
            return Ok(dim);
        }
        let (width, heads) = (self.u32(&["hidden_size"])?, self.u32(&["num_attention_heads"])?);
        width.checked_div(heads).ok_or_else(|| self.wrong("num_attention_heads", "some heads", heads))
    }

    /// The parameters of rotations: `rope_parameters` or `rope_scaling`, with what stands beside them.
    pub fn rope(&self) -> Object {
        let given = if self.has("rope_parameters") { "rope_parameters" } else { "rope_scaling" };
        let mut rope = self.get(given).and_then(Value::as_object).cloned().unwrap_or_default();
        if rope.contains_key("full_attention") || rope.contains_key("sliding_attention") {
            return rope;
        }
        let base = ["global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"];
        let local =
            ["local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"];
        if let Some((_, theta)) = self.first(&local) {
            rope.insert("sliding_attention".into(), json!({"rope_theta": theta}));
        }
        let mut mirror = |key: &str, value: Option<&Value>| {
            if let (false, Some(value)) = (rope.contains_key(key), value) {
                rope.insert(key.into(), value.clone());
            }
        };
        mirror("rope_theta", self.first(&base).map(|(_, v)| v));
        let kind = self.get(given).and_then(|r| r.get("type")).filter(|v| !v.is_null());
        mirror("rope_type", kind);
        mirror(
            "partial_rotary_factor",
            self.first(&["partial_rotary_factor", "rope_pct", "rope_percent"]).map(|(_, v)| v),
        );
        let original = "original_max_position_embeddings";
        mirror(original, self.get(original));
        rope
    }
}
