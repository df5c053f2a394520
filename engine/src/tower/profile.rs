//! Where the time of an encoder goes on a Vulkan device: every dispatch ends at a time stamp.

use super::{check, Tower};
use pumex_gguf::Result;
use pumex_lower::dispatch::Dispatch;
use pumex_media::graph::{Graph, Op};
use pumex_media::Source;
use serde::Serialize;

/// Runs before the clock counts: clocks of the device rise.
const WARM_UP: usize = 3;

/// The dispatches of one kernel that do the same to values of the same sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelTime {
    /// Row of the kernel table.
    pub kernel: &'static str,
    /// Weight format of its module, where it has one for each.
    pub format: Option<&'static str>,
    /// Sizes: rows x outputs x inputs of a product, queries x keys x heads x columns of a head of attention; else rows x columns.
    pub sizes: String,
    /// How many there are.
    pub dispatches: usize,
    /// Time of all of them, microseconds: the median of several runs.
    pub us: f64,
    /// Operations of products and of attention, two for a product that is added; 0 of other ops.
    pub flops: u64,
}

impl KernelTime {
    /// Operations by time, in 10^12 per second.
    pub fn tflop_per_s(&self) -> f64 {
        self.flops as f64 / self.us.max(1e-3) / 1e6
    }
}

impl<S: Source> Tower<S> {
    /// Runs a graph as [`Tower::encode`] does, `repetitions` times with a time stamp behind every dispatch, and adds up what each
    /// kernel took; those that took longest come first.
    ///
    /// # Errors
    /// As [`Tower::encode`].
    pub fn profile(&mut self, graph: &Graph, inputs: &[&[f32]], repetitions: usize) -> Result<Vec<KernelTime>> {
        check(graph, inputs)?;
        let recorded = self.record(graph, true)?;
        self.send(&recorded, inputs)?;
        let mut runs = Vec::with_capacity(repetitions);
        for run in 0..WARM_UP + repetitions.max(1) {
            self.device.wait(self.device.submit(&recorded.recording)?)?;
            let stamps = self.device.stamps_us(&recorded.recording).unwrap_or_default();
            let starts = std::iter::once(0.0).chain(stamps.iter().copied());
            let each: Vec<f64> = starts.zip(&stamps).map(|(from, to)| to - from).collect();
            if run >= WARM_UP {
                runs.push(each);
            }
        }
        let mut kernels: Vec<KernelTime> = Vec::new();
        for (i, dispatch) in recorded.lowered.dispatches.iter().enumerate() {
            let mut times: Vec<f64> = runs.iter().filter_map(|run| run.get(i).copied()).collect();
            times.sort_by(f64::total_cmp);
            let us = times.get(times.len() / 2).copied().unwrap_or(0.0);
            let (sizes, flops) = work(graph, dispatch);
            let same = |k: &&mut KernelTime| {
                k.kernel == dispatch.kernel && k.format == dispatch.format && k.sizes == sizes && flops_alike(k, flops)
            };
            if let Some(known) = kernels.iter_mut().find(same) {
                known.dispatches += 1;
                known.us += us;
                known.flops += flops;
            } else {
                let (kernel, format) = (dispatch.kernel, dispatch.format);
                kernels.push(KernelTime { kernel, format, sizes, dispatches: 1, us, flops });
            }
        }
        kernels.sort_by(|a, b| b.us.total_cmp(&a.us));
        Ok(kernels)
    }
}

/// Whether a dispatch of `flops` does as much as each of those that were counted.
fn flops_alike(known: &KernelTime, flops: u64) -> bool {
    known.flops == flops * known.dispatches as u64
}

/// Sizes and operations of a dispatch. What only prepares a product or attention counts none.
fn work(graph: &Graph, dispatch: &Dispatch) -> (String, u64) {
    let op = &graph.ops[dispatch.op];
    let multiplies = dispatch.kernel.starts_with("gemm") || dispatch.kernel.starts_with("tower_attend");
    let out = graph.view(op.output());
    match op {
        Op::MatMul { x, weight, .. } if multiplies => {
            let (n, used) = (graph.view(x.val).rows, &graph.weights[weight.0]);
            let [n, m, k] = [n, used.rows, used.cols].map(|size| size as u64);
            (format!("{n} x {m} x {k}"), 2 * n * m * k)
        }
        Op::Attend { q, k, v, heads, kv_heads, spans, .. } if multiplies => {
            let (n, m) = (graph.view(q.val).rows, graph.view(k.val).rows);
            let seen: u64 = match spans {
                Some(spans) => graph.spans[spans.0].iter().map(|[from, to]| u64::from(to - from)).sum(),
                None => (n * m) as u64,
            };
            let (d, dv) = (q.cols / heads, v.cols / kv_heads);
            let seen_by = if spans.is_some() { format!("{} of {m}", seen / n.max(1) as u64) } else { m.to_string() };
            (format!("{n} x {seen_by} x {heads} x {d}"), 2 * seen * (heads * (d + dv)) as u64)
        }
        _ => (format!("{} x {}", out.rows, out.cols), 0),
    }
}
