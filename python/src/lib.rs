//! The native part of the Python package `pumex`: models, answers and sequences.
//!
//! Requests and answers are JSON texts of the server's endpoints, which Python reads and writes; what Python is told beside them is
//! numbers and bytes. Nothing here holds Python's lock while it computes or waits, and signals are heeded meanwhile.

mod answer;
mod errors;
mod model;
mod options;
mod sequence;

use pyo3::prelude::*;

/// The module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PumexError", module.py().get_type::<errors::PumexError>())?;
    module.add_class::<model::Model>()?;
    module.add_class::<answer::Answer>()?;
    module.add_class::<sequence::Sequence>()?;
    module.add_class::<sequence::Sampler>()?;
    module.add_function(wrap_pyfunction!(model::render, module)?)?;
    module.add_function(wrap_pyfunction!(model::templates, module)?)
}
