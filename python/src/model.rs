//! A model: its endpoints, its vocabulary, its facts.

use crate::answer::Answer;
use crate::errors::{raised, unlocked};
use crate::sequence::{Sampler, Sequence};
use crate::{answer, options};
use pumex::{Error, Result};
use pumex_serve::http::{HttpSettings, Local};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A model, with the endpoints that a server has of it.
#[pyclass(frozen, module = "pumex._native")]
pub struct Model {
    model: pumex::Model,
    texts: OnceLock<Arc<Local>>,
    vectors: OnceLock<Arc<Local>>,
}

impl Model {
    fn new(model: pumex::Model) -> Model {
        Model { model, texts: OnceLock::new(), vectors: OnceLock::new() }
    }

    fn local(&self, embeds: bool) -> Result<&Arc<Local>> {
        let place = if embeds { &self.vectors } else { &self.texts };
        if let Some(known) = place.get() {
            return Ok(known);
        }
        let settings = HttpSettings { prefills: false, page: false, ..HttpSettings::default() };
        let made = Local::new(self.model.engine(embeds), settings).map_err(|e| Error::Request(e.to_string()))?;
        Ok(place.get_or_init(|| Arc::new(made)))
    }
}

#[pymethods]
impl Model {
    /// Opens a file.
    #[new]
    fn open(py: Python<'_>, path: String, options: &str) -> PyResult<Model> {
        let options = options::read(options).map_err(raised)?;
        unlocked(py, || options.open(path)).map(Model::new)
    }

    /// Opens a model of the Hub.
    #[staticmethod]
    fn from_hub(py: Python<'_>, repo: String, options: &str) -> PyResult<Model> {
        let options = options::read(options).map_err(raised)?;
        unlocked(py, || options.from_hub(&repo)).map(Model::new)
    }

    /// Posts a JSON text to an endpoint, which is one for vectors or for texts.
    #[pyo3(signature = (path, body, embeds = false))]
    fn post(&self, py: Python<'_>, path: &str, body: String, embeds: bool) -> PyResult<Answer> {
        let local = self.local(embeds).map_err(raised)?;
        let answer = py.detach(|| local.post(path, body.into_bytes(), answer::signals))?;
        Ok(Answer::new(local.clone(), answer))
    }

    /// Ids of a text.
    fn tokenize(&self, py: Python<'_>, text: &str, add_special: bool, parse_special: bool) -> PyResult<Vec<u32>> {
        unlocked(py, || self.model.tokenize_with(text, add_special, parse_special))
    }

    /// The bytes of ids.
    fn detokenize<'py>(&self, py: Python<'py>, ids: Vec<u32>, special: bool) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = unlocked(py, || {
            let each = ids.iter().map(|id| self.model.token_bytes(*id, special));
            each.collect::<Result<Vec<_>>>().map(|all| all.concat())
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// A sequence of its own.
    fn sequence(&self, py: Python<'_>) -> PyResult<Sequence> {
        unlocked(py, || self.model.session()).map(Sequence::new)
    }

    /// What chooses ids, by a JSON object of llama.cpp's names.
    #[pyo3(signature = (sampling, grammar = None, schema = None))]
    fn sampler(
        &self,
        py: Python<'_>,
        sampling: &str,
        grammar: Option<String>,
        schema: Option<&str>,
    ) -> PyResult<Sampler> {
        unlocked(py, || Sampler::read(&self.model, sampling, (grammar, schema)))
    }

    fn bos(&self) -> PyResult<Option<u32>> {
        self.model.bos().map_err(raised)
    }

    fn eos(&self) -> PyResult<Option<u32>> {
        self.model.eos().map_err(raised)
    }

    fn is_end(&self, id: u32) -> PyResult<bool> {
        self.model.is_end(id).map_err(raised)
    }

    fn n_vocab(&self) -> usize {
        self.model.n_vocab()
    }

    fn n_ctx(&self, py: Python<'_>) -> PyResult<usize> {
        unlocked(py, || self.model.n_ctx())
    }

    fn device(&self, py: Python<'_>) -> PyResult<String> {
        unlocked(py, || self.model.device())
    }

    fn description(&self) -> PyResult<String> {
        self.model.description().map_err(raised)
    }

    /// Whether layers keep positions, and whether layers keep states.
    fn keeps(&self) -> PyResult<(bool, bool)> {
        self.model.keeps().map_err(raised)
    }

    /// A value of the file's metadata.
    fn meta(&self, key: &str) -> Option<String> {
        self.model.metadata(key)
    }

    /// All of the file's metadata but its lists.
    fn metadata(&self) -> HashMap<String, String> {
        let keys = self.model.metadata_keys().into_iter();
        let lists = |key: &str| key.starts_with("tokenizer.ggml.") && !key.ends_with("_id") && !key.ends_with("model");
        let value = |key: String| Some((key.clone(), self.model.metadata(&key)?));
        keys.filter(|key| !lists(key)).filter_map(value).collect()
    }
}

/// The text that a chat template, by its text or its name, makes of a JSON object with `messages`.
#[pyfunction]
#[pyo3(signature = (template, names, bos = "", eos = ""))]
pub fn render(py: Python<'_>, template: &str, names: &str, bos: &str, eos: &str) -> PyResult<String> {
    let render = || -> pumex_chat::Result<String> {
        let mut request = pumex_chat::Request::from_json(names)?;
        (request.bos, request.eos) = (bos.to_string(), eos.to_string());
        let own = pumex_chat::builtin::builtin(template);
        let template = pumex_chat::Template::parse(own.as_deref().unwrap_or(template))?;
        template.render(&request).map(|prompt| prompt.text)
    };
    py.detach(render).map_err(|e| PyValueError::new_err(format!("chat template: {e}")))
}

/// Names of the chat templates that need no file.
#[pyfunction]
pub fn templates() -> Vec<&'static str> {
    pumex_chat::builtin::names()
}
