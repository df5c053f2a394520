//! Encoders of pictures and sounds on a Vulkan device.
//!
//! Every op of a graph is a kernel of its own (`tower_*`), whose sizes are push constants, so that one pipeline serves all
//! pictures; graphs that ran last are kept as recordings. Matrices of products lie in their weight format and go through the text
//! model's kernels (`gemm_panels`, `gemm_tile`), rows of floats with zeros up to what these take. Attention goes by cooperative
//! matrices (`tower_attend_fragments`, `tower_attend_matrix`) where some matrix of the file is none of floats; an encoder all of
//! floats is computed in floats.

mod dry_run;
mod profile;
mod weights;

use crate::exec::fragment_layout;
use crate::kernel::Kernels;
pub use dry_run::{encoder_bytes, explain_encoder, EncoderBytes};
pub use profile::KernelTime;
use pumex_gguf::{Error, Result};
use pumex_lower::tower::{lower, LoweredTower, TowerAddresses, TowerTarget, WeightAt};
use pumex_media::graph::{Graph, View};
use pumex_media::Source;
use pumex_vk as vk;
use pumex_vk::{Buffer, Class, Device, Recording};
use std::collections::VecDeque;
use weights::Weights;

/// Graphs whose recordings are kept.
const MOST_KEPT: usize = 6;

/// A projector's encoders: weights on the device, and recordings of the graphs that ran last.
pub struct Tower<S> {
    source: S,
    device: Device,
    kernels: Kernels,
    tables: Buffer,
    weights: Weights,
    /// Threads hold cooperative matrices as `gemm_panels` expects.
    panels: bool,
    /// And as `tower_attend_fragments` does.
    fragments: bool,
    /// What all recordings run in.
    arena: Option<Buffer>,
    /// The last used first.
    kept: VecDeque<Kept>,
}

/// A recorded graph.
struct Kept {
    graph: Graph,
    lowered: LoweredTower,
    recording: Recording,
    /// Where the result is copied to.
    host: Buffer,
}

impl<S: Source> Tower<S> {
    /// Of a file's tensors. Each goes to the device when a graph first reads it, and stays there.
    ///
    /// # Errors
    /// Memory that ran out, a lost device.
    pub fn new(device: &Device, source: S) -> Result<Tower<S>> {
        let (device, tables) = (device.clone(), super::weights::codebooks(device)?);
        let (kernels, weights) = (Kernels::new(&device), Weights::default());
        let held = fragment_layout(&device, &kernels)?;
        let [panels, fragments] =
            held.map_or([false; 2], |held| [held.panels, held.panels && held.direct && held.ordered]);
        Ok(Tower { source, kernels, tables, weights, panels, fragments, arena: None, kept: VecDeque::new(), device })
    }

    /// The file.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Runs a graph on `inputs`, of which each has the numbers of one of [`Graph::inputs`], and returns the numbers of
    /// [`Graph::out`], row by row.
    ///
    /// # Errors
    /// Inputs of other sizes; tensors that are missing, have other shapes or are not finite; memory that ran out; a lost device.
    pub fn encode(&mut self, graph: &Graph, inputs: &[&[f32]]) -> Result<Vec<f32>> {
        check(graph, inputs)?;
        let known = self.kept.iter().position(|kept| kept.graph == *graph).and_then(|at| self.kept.remove(at));
        let kept = match known {
            Some(kept) => kept,
            None => self.record(graph, false)?,
        };
        self.kept.truncate(MOST_KEPT - 1);
        self.kept.push_front(kept);
        let Some(kept) = self.kept.front() else { return Err(without_result()) };
        self.send(kept, inputs)?;
        self.device.wait(self.device.submit(&kept.recording)?)?;
        let View { rows, cols, .. } = graph.out.map(|x| graph.view(x)).ok_or_else(without_result)?;
        let mut out = pumex_gguf::error::try_filled_vec(0f32, rows * cols, "rows of the encoder")?;
        kept.host.read(0, bytemuck::cast_slice_mut(&mut out));
        Ok(out)
    }

    /// Copies the inputs to where a recording reads them.
    fn send(&self, kept: &Kept, inputs: &[&[f32]]) -> Result<()> {
        let arena = self.arena.as_ref().ok_or_else(without_result)?;
        for (x, numbers) in kept.graph.inputs.iter().zip(inputs) {
            let bytes: &[u8] = bytemuck::cast_slice(numbers);
            let at = kept.lowered.places.offsets[kept.graph.view(*x).buffer];
            vk::send(&self.device, &arena.range(at, bytes.len() as u64), bytes)?;
        }
        Ok(())
    }

    /// Microseconds that the device took for the last graph, copies left out.
    pub fn last_us(&self) -> Option<f64> {
        self.kept.front().and_then(|kept| self.device.gpu_us(&kept.recording))
    }

    /// Bytes that tensors take on the device.
    pub fn weight_bytes(&self) -> u64 {
        self.weights.len_bytes()
    }

    /// Records a graph; `stamps`: with a time stamp behind every dispatch.
    fn record(&mut self, graph: &Graph, stamps: bool) -> Result<Kept> {
        self.weights.load(&self.device, &self.source, graph)?;
        let weights: Vec<WeightAt> = graph.weights.iter().filter_map(|used| self.weights.find(used)).collect();
        let (caps, soa) = (self.device.caps(), self.device.stages_weights());
        let (panels, fragments) = (self.panels, self.fragments);
        let target = |at| TowerTarget { caps, soa, panels, fragments, weights: &weights, at };
        let sizes = lower(graph, &target(TowerAddresses::default()))?;
        let arena = match self.arena.take().filter(|arena| arena.len_bytes() >= sizes.places.len_bytes) {
            Some(arena) => arena,
            None => {
                // What ran in a smaller one names its addresses.
                self.kept.clear();
                self.device.buffer("values of the encoder", sizes.places.len_bytes, Class::Scratch)?
            }
        };
        let arena = &*self.arena.insert(arena);
        let words: &[u8] = bytemuck::cast_slice(&sizes.constants);
        let constants = self.device.buffer("tables of the encoder", words.len() as u64, Class::Scratch)?;
        if !words.is_empty() {
            vk::send(&self.device, &constants, words)?;
        }
        let tables = self.tables.address();
        let at = TowerAddresses { arena: arena.address(), constants: constants.address(), tables };
        let lowered = lower(graph, &target(at))?;
        let out = graph.out.map(|x| graph.view(x)).ok_or_else(without_result)?;
        let len = 4 * graph.buffers[out.buffer] as u64;
        let host = self.device.buffer("rows of the encoder", len, Class::Readback)?;
        let extra = if stamps { lowered.dispatches.len() as u32 } else { 0 };
        let mut recorder = self.device.recorder_with_stamps(extra)?;
        for (dispatch, barrier) in lowered.dispatches.iter().zip(&lowered.barriers) {
            if *barrier {
                recorder.barrier();
            }
            let pipeline = self.kernels.get(dispatch.kernel, dispatch.format, &dispatch.constants)?;
            recorder.dispatch(&pipeline, &dispatch.push.bytes(), dispatch.grid);
            if stamps {
                recorder.stamp();
            }
        }
        recorder.copy_barrier();
        recorder.copy(arena, lowered.places.offsets[out.buffer], &host, 0, len);
        recorder.host_barrier();
        [arena, &constants, &self.tables].into_iter().chain(self.weights.buffers()).for_each(|b| recorder.keep(b));
        let recording = recorder.finish()?;
        self.kernels.save();
        Ok(Kept { graph: graph.clone(), lowered, recording, host })
    }
}

fn without_result() -> Error {
    Error::Request("encoder: expected a graph with a result, found one without".into())
}

/// Fails if inputs are not those of the graph.
fn check(graph: &Graph, inputs: &[&[f32]]) -> Result<()> {
    if inputs.len() != graph.inputs.len() {
        return Err(Error::Request(format!("encoder: expected {} inputs, found {}", graph.inputs.len(), inputs.len())));
    }
    for (x, input) in graph.inputs.iter().zip(inputs) {
        let View { rows, cols, .. } = graph.view(*x);
        if input.len() != rows * cols {
            return Err(Error::Request(format!(
                "encoder: expected an input of {rows} x {cols}, found {} numbers",
                input.len()
            )));
        }
    }
    Ok(())
}
