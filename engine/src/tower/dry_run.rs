//! What an encoder would run and take on a device, told without it.

use super::super::weights::codebooks_bytes;
use pumex_gguf::{Error, Result};
use pumex_lower::dump::Explained;
use pumex_lower::policy::devices;
use pumex_lower::tower::{self, stored, Stored};
use pumex_media::graph::{Graph, WeightUse};
use pumex_media::Source;
use pumex_vk::Caps;
use serde::Serialize;
use std::collections::HashSet;

/// Where a tensor may start in a piece of memory.
pub(super) const ALIGNMENT: usize = 256;

/// Bytes of a device's memory that encoders take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EncoderBytes {
    /// Tensors, and tables of weight formats.
    pub weights: u64,
    /// Values of the largest graph while it runs.
    pub values: u64,
    /// Tables of that graph, and its result for the host.
    pub results: u64,
}

impl EncoderBytes {
    /// All of them.
    pub fn all(self) -> u64 {
        self.weights + self.values + self.results
    }
}

/// How a file's tensors lie on a device for a graph, in its order.
fn stored_for(graph: &Graph, source: &dyn Source) -> Result<Vec<Stored>> {
    let of = |used: &WeightUse| match source.tensor(&used.name) {
        Some(tensor) => Ok(stored(used, tensor.format)),
        None => Err(Error::Request(format!("missing_tensor: {}: not in the file", used.name))),
    };
    graph.weights.iter().map(of).collect()
}

/// What graphs of one file, each run by itself, would take of a device of `caps`; without one, of a device that packs rows for its
/// matrices, which takes most.
///
/// # Errors
/// Tensors that are missing; an op that no kernel does.
pub fn encoder_bytes(graphs: &[Graph], source: &dyn Source, caps: Option<&Caps>) -> Result<EncoderBytes> {
    let largest = devices::h200;
    let caps = &caps.map_or_else(largest, Caps::clone);
    let (mut all, mut seen) = (EncoderBytes { weights: codebooks_bytes(), ..EncoderBytes::default() }, HashSet::new());
    for graph in graphs {
        let stored = stored_for(graph, source)?;
        for (used, stored) in graph.weights.iter().zip(&stored).filter(|(used, _)| seen.insert(*used)) {
            let row = stored.format.format().row_bytes(stored.cols).unwrap_or(0);
            all.weights += (used.rows * row).next_multiple_of(ALIGNMENT) as u64;
        }
        let [values, results] = tower::step_bytes(graph, caps, &stored)?;
        (all.values, all.results) = (all.values.max(values), all.results.max(results));
    }
    Ok(all)
}

/// The ops of a graph and the dispatches that they would become on a device of `caps`.
///
/// # Errors
/// Tensors that are missing; an op that no kernel does.
pub fn explain_encoder(graph: &Graph, source: &dyn Source, caps: &Caps) -> Result<Explained> {
    tower::explain(graph, caps, &stored_for(graph, source)?)
}
