//! Answers of endpoints.

use pumex_serve::http::{Local, LocalAnswer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// Whether somebody wants all to end: what Python raises then.
pub fn signals() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

/// An answer under way.
#[pyclass(frozen, module = "pumex._native")]
pub struct Answer {
    local: Arc<Local>,
    /// Its status.
    #[pyo3(get)]
    status: u16,
    /// Whether it comes in parts.
    #[pyo3(get)]
    streams: bool,
    state: Mutex<State>,
}

struct State {
    answer: Option<LocalAnswer>,
    /// Text that came and was not handed out.
    text: Vec<u8>,
}

impl Answer {
    pub fn new(local: Arc<Local>, answer: LocalAnswer) -> Answer {
        let (status, streams) = (answer.status, answer.streams);
        Answer { local, status, streams, state: Mutex::new(State { answer: Some(answer), text: Vec::new() }) }
    }

    /// Takes more bytes in; false if there are none.
    fn more(&self, state: &mut State) -> PyResult<bool> {
        let Some(answer) = &mut state.answer else { return Ok(false) };
        match self.local.more(answer, signals) {
            Ok(Some(bytes)) => {
                state.text.extend_from_slice(&bytes);
                Ok(true)
            }
            Ok(None) => {
                state.answer = None;
                Ok(false)
            }
            Err(error) => {
                // Whoever is interrupted wants no more of it.
                state.answer = None;
                Err(error)
            }
        }
    }

    /// The next part.
    fn part(&self) -> PyResult<Option<String>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(end) = state.text.windows(2).position(|two| two == b"\n\n") else {
                match self.more(&mut state)? {
                    true => continue,
                    false => return Ok(None),
                }
            };
            let part: Vec<u8> = state.text.drain(..end + 2).collect();
            let line = String::from_utf8_lossy(&part);
            match line.trim_end().strip_prefix("data: ") {
                Some("[DONE]") => state.answer = None,
                Some(data) => return Ok(Some(data.to_string())),
                None => {}
            }
        }
    }
}

#[pymethods]
impl Answer {
    /// The whole text of an answer that does not come in parts.
    fn read(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while self.more(&mut state)? {}
            String::from_utf8(std::mem::take(&mut state.text)).map_err(|e| PyValueError::new_err(e.to_string()))
        })
    }

    /// Ends the request.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.state.lock().unwrap_or_else(PoisonError::into_inner).answer = None);
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        py.detach(|| self.part())
    }
}
