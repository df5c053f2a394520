//! Media of one size that wait at the same time are encoded in one run, whoever asked for them: weights are read once for all.

use super::{Encoder, Projector};
use pumex_gguf::{Error, Result};
use pumex_media::{encode, EncoderInput, Graph, Medium};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Most media of a run.
const MOST: usize = 8;
/// Most numbers of all inputs of a run of several media: those of one large picture.
const MOST_NUMBERS: usize = 3 * 2048 * 2048;

/// A medium that somebody waits for.
pub(super) struct WaitingMedium {
    medium: Arc<Medium>,
    rows: Sender<Result<Vec<f32>>>,
}

fn numbers(medium: &Medium) -> usize {
    medium.inputs.iter().map(|input| input.values.len()).sum()
}

/// How many media like this one may go in one run: a power of two, so that few graphs are recorded.
pub(super) fn most_together(medium: &Medium) -> usize {
    let fit = (MOST_NUMBERS / numbers(medium).max(1)).clamp(1, MOST);
    1 << fit.ilog2()
}

/// Whether one graph is that of both.
fn alike(a: &Medium, b: &Medium) -> bool {
    let same = |(a, b): (&EncoderInput, &EncoderInput)| {
        // The size before resizing counts where it says how tiles are put together.
        let original = |x: &EncoderInput| if x.tiles == [0; 2] { [0; 2] } else { x.original };
        let of = |x: &EncoderInput| (x.width, x.height, x.tiles, original(x), x.view_separator, x.lead_pad);
        of(a) == of(b) && a.values.len() == b.values.len()
    };
    let sizes = |m: &Medium| (m.picture, m.rows, m.inputs.len());
    sizes(a) == sizes(b) && a.inputs.iter().zip(&b.inputs).all(same)
}

impl Projector {
    /// The encoder's rows of each medium, `[rows, width]`.
    ///
    /// # Errors
    /// Tensors that are missing or have other shapes; no memory.
    pub(super) fn encode_all(&self, media: Vec<Arc<Medium>>) -> Result<Vec<Vec<f32>>> {
        let queue = || self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = |medium: Arc<Medium>| -> Receiver<Result<Vec<f32>>> {
            let (rows, receiver) = channel();
            queue().push_back(WaitingMedium { medium, rows });
            receiver
        };
        // All wait before the first is encoded.
        let receivers: Vec<_> = media.into_iter().map(wait).collect();
        receivers.iter().map(|receiver| self.encode_until(receiver)).collect()
    }

    /// Encodes what waits until this one is done, by whomever.
    fn encode_until(&self, receiver: &Receiver<Result<Vec<f32>>>) -> Result<Vec<f32>> {
        loop {
            let done = self.with_encoder(|encoder| {
                if let Ok(rows) = receiver.try_recv() {
                    return Ok(Some(rows));
                }
                let run = self.take_alike();
                if run.is_empty() {
                    // Whoever took it has gone.
                    return Err(Error::Request("encoder: a medium was lost".into()));
                }
                self.encode_run(encoder, run)
            })?;
            if let Some(rows) = done {
                return rows;
            }
        }
    }

    /// The first medium that waits, and others like it.
    fn take_alike(&self) -> Vec<WaitingMedium> {
        let mut queue = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = queue.front().map(|waiting| waiting.medium.clone()) else { return Vec::new() };
        let likes: Vec<usize> = (0..queue.len()).filter(|i| alike(&queue[*i].medium, &first)).collect();
        let count = 1 << likes.len().min(most_together(&first)).ilog2();
        let taken = likes[..count].iter().rev().filter_map(|i| queue.remove(*i));
        let mut run: Vec<WaitingMedium> = taken.collect();
        run.reverse();
        run
    }

    /// Encodes media of one size and hands out their rows. Only an error of the device itself is one here.
    fn encode_run<R>(&self, encoder: &mut Encoder, run: Vec<WaitingMedium>) -> Result<Option<R>> {
        let media: Vec<&Medium> = run.iter().map(|waiting| &*waiting.medium).collect();
        let mut lost = None;
        if let Some(all) = self.run_together(encoder, &media) {
            for (waiting, rows) in run.iter().zip(all) {
                let _ = waiting.rows.send(Ok(rows));
            }
            return Ok(None);
        }
        for waiting in &run {
            let rows = self.run_alone(encoder, &waiting.medium);
            let rows = match rows {
                Err(error @ (Error::Lost(_) | Error::Vulkan { .. })) => {
                    let told = Error::Request(error.to_string());
                    lost = Some(error);
                    Err(told)
                }
                rows => rows,
            };
            let _ = waiting.rows.send(rows);
        }
        lost.map_or(Ok(None), Err)
    }

    /// Several media in one run; none if there is one alone, or they cannot go in one.
    fn run_together(&self, encoder: &mut Encoder, media: &[&Medium]) -> Option<Vec<Vec<f32>>> {
        let (first, count) = (media.first()?, media.len());
        let graph = self.graph(self.clip(first.picture).ok()?, first).ok().filter(|_| count > 1)?.batched(count)?;
        let join = |input: usize| media.iter().flat_map(|m| m.inputs[input].values.iter().copied()).collect();
        let inputs: Vec<Vec<f32>> = (0..first.inputs.len()).map(join).collect();
        let inputs: Vec<&[f32]> = inputs.iter().map(|input| &input[..]).collect();
        // One that does not fit memory may go alone.
        let rows = self.run_graph(encoder, &graph, &inputs, count * first.rows).ok()?;
        Some(rows.chunks_exact(rows.len() / count).map(<[f32]>::to_vec).collect())
    }

    /// One medium.
    pub(super) fn run_alone(&self, encoder: &mut Encoder, medium: &Medium) -> Result<Vec<f32>> {
        let graph = self.graph(self.clip(medium.picture)?, medium)?;
        let inputs: Vec<&[f32]> = medium.inputs.iter().map(|input| &input.values[..]).collect();
        self.run_graph(encoder, &graph, &inputs, medium.rows)
    }

    fn run_graph(&self, encoder: &mut Encoder, graph: &Graph, inputs: &[&[f32]], expected: usize) -> Result<Vec<f32>> {
        let begun = Instant::now();
        let mut on_device = None;
        let rows = match encoder {
            Encoder::Cpu(cpu) => cpu.run(graph, inputs).map_err(|e| self.media_error(e)),
            Encoder::Vulkan(tower, _) => {
                let rows = tower.encode(graph, inputs);
                on_device = tower.last_us();
                rows
            }
        }?;
        let device = on_device.map_or_else(String::new, |us| format!(", {:.1} ms of it on the device", us / 1e3));
        self.runs.fetch_add(1, Ordering::Relaxed);
        let made = graph.out.map_or(0, |out| graph.view(out).rows);
        tracing::debug!("encoder: {made} rows in {:.1?}{device}", begun.elapsed());
        self.source().0.check()?;
        match made == expected {
            true => Ok(rows),
            false => Err(Error::Request(format!("an encoder's rows: expected {expected}, found {made}"))),
        }
    }

    pub(super) fn graph(&self, clip: &pumex_media::Clip, medium: &Medium) -> Result<Graph> {
        encode::build(self.source(), clip, &medium.inputs).map_err(|e| self.media_error(e))
    }
}
