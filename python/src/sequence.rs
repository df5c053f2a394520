//! One sequence, id by id, and what chooses its ids.

use crate::errors::{raised, unlocked};
use pumex::{Constraint, Error, Model, Result, Sampling, Session};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sequence.
#[pyclass(frozen, module = "pumex._native")]
pub struct Sequence(Mutex<Session>);

impl Sequence {
    pub fn new(session: Session) -> Sequence {
        Sequence(Mutex::new(session))
    }
}

#[pymethods]
impl Sequence {
    /// Goes on with ids. Gives the logits after the last, or after all of them, as little-endian f32.
    fn eval<'py>(&self, py: Python<'py>, ids: Vec<u32>, all: bool) -> PyResult<Bound<'py, PyBytes>> {
        let logits = unlocked(py, || {
            let mut session = lock(&self.0);
            if all {
                session.eval_all(&ids)
            } else {
                session.eval(&ids)
            }
        })?;
        PyBytes::new_with(py, logits.len() * 4, |bytes| {
            bytes.chunks_exact_mut(4).zip(&logits).for_each(|(to, x)| to.copy_from_slice(&x.to_le_bytes()));
            Ok(())
        })
    }

    /// Forgets ids from a position on. Gives how many are held now.
    fn forget(&self, py: Python<'_>, from_: usize) -> PyResult<usize> {
        unlocked(py, || lock(&self.0).forget(from_))
    }

    fn held(&self, py: Python<'_>) -> usize {
        py.detach(|| lock(&self.0).held())
    }

    fn n_ctx(&self, py: Python<'_>) -> usize {
        py.detach(|| lock(&self.0).n_ctx())
    }

    fn n_vocab(&self, py: Python<'_>) -> usize {
        py.detach(|| lock(&self.0).n_vocab())
    }

    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = unlocked(py, || lock(&self.0).save())?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn restore(&self, py: Python<'_>, held: usize, bytes: Vec<u8>) -> PyResult<()> {
        unlocked(py, || lock(&self.0).restore(held, bytes))
    }
}

/// What chooses ids.
#[pyclass(frozen, module = "pumex._native")]
pub struct Sampler(Mutex<pumex::Sampler>);

impl Sampler {
    /// By a JSON object of llama.cpp's names, within a grammar or a JSON schema.
    pub fn read(model: &Model, sampling: &str, (grammar, schema): (Option<String>, Option<&str>)) -> Result<Sampler> {
        let value: Value = serde_json::from_str(sampling).map_err(|e| Error::Request(format!("sampling: {e}")))?;
        let number = |name: &str| value.get(name).and_then(Value::as_f64).map(|x| x as f32);
        let whole = |name: &str| value.get(name).and_then(Value::as_i64);
        let small = |name: &str| whole(name).and_then(|n| i32::try_from(n).ok());
        let sampling = Sampling {
            temperature: number("temperature"),
            top_k: small("top_k"),
            top_p: number("top_p"),
            min_p: number("min_p"),
            typical_p: number("typical_p"),
            repeat_penalty: number("repeat_penalty"),
            repeat_last_n: small("repeat_last_n"),
            presence_penalty: number("presence_penalty"),
            frequency_penalty: number("frequency_penalty"),
            mirostat: whole("mirostat").and_then(|n| u8::try_from(n).ok()),
            mirostat_tau: number("mirostat_tau"),
            mirostat_eta: number("mirostat_eta"),
            seed: whole("seed"),
            ..Sampling::default()
        };
        let schema = schema.map(serde_json::from_str).transpose();
        let schema = schema.map_err(|e| Error::Request(format!("schema: {e}")))?.map(Constraint::Schema);
        let within = grammar.map(Constraint::Grammar).or(schema);
        Ok(Sampler(Mutex::new(model.sampler(&sampling, within.as_ref())?)))
    }
}

#[pymethods]
impl Sampler {
    /// The next id, of little-endian f32.
    fn sample(&self, py: Python<'_>, logits: &[u8]) -> PyResult<u32> {
        if !logits.len().is_multiple_of(4) {
            return Err(PyValueError::new_err(format!("logits: expected f32, found {} bytes", logits.len())));
        }
        let of = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let logits: Vec<f32> = logits.chunks_exact(4).map(of).collect();
        unlocked(py, || lock(&self.0).sample(&logits))
    }

    fn accept(&self, id: u32) -> PyResult<()> {
        lock(&self.0).accept(id).map_err(raised)
    }

    fn look_back(&self, ids: Vec<u32>) {
        lock(&self.0).look_back(&ids);
    }

    fn is_over(&self) -> bool {
        lock(&self.0).is_over()
    }
}
