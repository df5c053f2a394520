//! Single products on a device, by whichever kernel, for tests of what kernels make of certain weights.

use crate::kernels::{Lab, EPS};
use pumex::exec::fragment_layout;
use pumex::policy::{self, matrix, ActivationQuant, GemmFusion};
use pumex::vk::{Buffer, Class};
use pumex_quant::Format;
use pumex_shaders::block::Block;
use pumex_shaders::step::{StepHeader, StepRow};

/// `n` rows times a matrix of `m` rows of `k` weights.
pub struct ProductCase<'a> {
    pub format: &'a Format,
    pub bytes: &'a [u8],
    pub soa: bool,
    pub x: &'a [f32],
    pub m: usize,
    pub k: usize,
    /// How kernels of integers code activations.
    pub activations: ActivationQuant,
    /// Constants beside those of the tile.
    pub constants: &'a [(&'a str, u32)],
}

/// Push constants: addresses, then words.
fn push(addresses: &[u64], words: &[usize], floats: &[f32]) -> Vec<u8> {
    let mut push: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
    words.iter().for_each(|w| push.extend((*w as u32).to_le_bytes()));
    floats.iter().for_each(|f| push.extend(f.to_le_bytes()));
    push
}

impl ProductCase<'_> {
    fn n(&self) -> usize {
        self.x.len() / self.k
    }

    fn extras(&self) -> GemmFusion {
        GemmFusion { soa: self.soa, activations: self.activations, ..GemmFusion::default() }
    }

    /// The weights as the kernels take them.
    fn lay_out_weights(&self) -> Vec<u8> {
        match self.soa {
            true => {
                self.bytes.chunks(self.format.row_bytes(self.k).unwrap()).flat_map(|r| self.format.soa(r)).collect()
            }
            false => self.bytes.to_vec(),
        }
    }
}

impl Lab {
    pub fn run_one(&self, kernel: &str, stem: Option<&str>, spec: &[(&str, u32)], mut push: Vec<u8>, grid: [u32; 3]) {
        let pipeline = self.kernels.get(kernel, stem, spec).unwrap();
        push.resize(pipeline.push_bytes() as usize, 0);
        let mut recorder = self.device.recorder().unwrap();
        recorder.dispatch(&pipeline, &push, grid);
        recorder.host_barrier();
        let recording = recorder.finish().unwrap();
        self.device.wait(self.device.submit(&recording).unwrap()).unwrap();
    }

    pub fn results(&self, floats: usize) -> Buffer {
        self.device.buffer("y", 4 * floats as u64, Class::Readback).unwrap()
    }

    /// Rows 0, 1, ... of a matrix, decoded by the kernel of the embedding.
    pub fn embed_rows(&self, p: &ProductCase<'_>) -> Vec<f32> {
        let (table, y, sampled) = (self.buffer(&p.lay_out_weights()), self.results(p.m * p.k), self.buffer(&[0; 16]));
        let mut step = StepHeader { rows: p.m as u32, ..Default::default() }.words();
        (0..p.m as u32).for_each(|token| step.extend(StepRow { token, ..Default::default() }.words()));
        let step = self.buffer(bytemuck::cast_slice(&step));
        let no_pairs = sampled.address();
        let at = [table.address(), y.address(), step.address(), sampled.address(), self.codebooks.address(), no_pairs];
        let spec = [("SIZE", 64), ("SOA", u32::from(p.soa))];
        self.run_one("embed", Some(p.format.stem), &spec, push(&at, &[p.k, 0], &[]), [p.m as u32, 1, 1]);
        floats(&y, p.m * p.k)
    }

    /// What `kernel` makes of a product: `[n, m]`; none if the device cannot run it, or it does not take that.
    pub fn product(&self, kernel: &str, p: &ProductCase<'_>) -> Option<Vec<f32>> {
        let (w, x) = (self.buffer(&p.lay_out_weights()), self.buffer(bytemuck::cast_slice(p.x)));
        let y = self.results(p.n() * p.m);
        match kernel {
            "gemm_tile" => self.tile(p, [&w, &x, &y]),
            "router" => self.router_logits(p, [&w, &x, &y]),
            "gemm_mat" | "gemm_few" => self.matrices(kernel == "gemm_few", p, [&w, &x, &y])?,
            _ => self.gemv(kernel, p, [&w, &x, &y])?,
        }
        Some(floats(&y, p.n() * p.m))
    }

    fn tile(&self, p: &ProductCase<'_>, [w, x, y]: [&Buffer; 3]) {
        let at = [w.address(), 0, x.address(), y.address(), self.codebooks.address()];
        let push = push(&at, &[p.k, p.m, p.n(), p.m, 0, 0], &[1.0]);
        let grid = [p.m.div_ceil(64) as u32, p.n().div_ceil(64) as u32, 1];
        self.run_one("gemm_tile", Some(p.format.stem), &[("SOA", u32::from(p.soa))], push, grid);
    }

    fn router_logits(&self, p: &ProductCase<'_>, [w, x, y]: [&Buffer; 3]) {
        let (n, used) = (p.n(), 1);
        let (arrivals, route) = (self.buffer(&vec![0; 4 * n]), self.results(4 * used * n));
        let at = [w, x, x, x, &self.codebooks, y, &arrivals, &route, x, x, x].map(Buffer::address);
        let (threads, rows) = policy::router_tile(self.device.caps(), p.m, p.k);
        let spec = [
            ("SIZE", threads),
            ("EXPERTS", p.m as u32),
            ("USED", used as u32),
            ("ROWS", rows),
            ("NORM", 0),
            ("SOA", u32::from(p.soa)),
        ];
        let push = push(&at, &[p.k, 0], &[EPS, 1.0, 1.0]);
        let grid = [(p.m as u32).div_ceil(rows), n as u32, 1];
        self.run_one("router", Some(p.format.stem), &spec, push, grid);
    }

    fn gemv(&self, kernel: &str, p: &ProductCase<'_>, [w, x, y]: [&Buffer; 3]) -> Option<()> {
        let (caps, w) = (self.device.caps(), w.address());
        let tile = if kernel == "gemv" {
            policy::float_tile(caps, p.format, (p.m, p.k), p.n(), p.extras().gated)
        } else {
            let span = policy::dot_span(caps, p.format, p.k, p.n(), p.activations)?;
            let tile = policy::dot_tile(caps, (p.m, p.k), 1, 64, 2, span);
            policy::GemvTile { activations: p.activations, copies: policy::usual_copies(p.format), ..tile }
        };
        let mut spec = tile.spec(p.k, p.n(), p.extras());
        spec.extend(p.constants);
        let at = [w, w, 0, 0, 0, 0, x.address(), y.address(), self.codebooks.address(), 0];
        let push = push(&at, &[p.k, p.m, p.m, p.m, p.m, 0], &[EPS, 1.0, 1.0, 1.0]);
        self.run_one(kernel, Some(p.format.stem), &spec, push, [tile.groups, 1, 1]);
        Some(())
    }

    fn matrices(&self, few: bool, p: &ProductCase<'_>, [w, x, y]: [&Buffer; 3]) -> Option<()> {
        let caps = self.device.caps();
        if caps.matrix_n.is_empty() || !matrix::takes(caps, p.format, p.n()) {
            return None;
        }
        let held = fragment_layout(&self.device, &self.kernels).unwrap().filter(|held| held.direct || !few)?;
        let rows = matrix::packed_rows(caps, few, p.n());
        let codes = self.buffer(&vec![0xff; 2 * rows * p.k.next_multiple_of(matrix::PACKED_LEN)]);
        let (factors, powers) = (self.buffer(&vec![0xff; 4 * rows]), self.buffer(&vec![0xff; 4 * rows]));
        let (wide, _) = matrix::columns(caps, few, p.n());
        let map = held.maps.iter().find(|(w, _)| *w == wide).map(|(_, map)| map.clone())?;
        let map = self.buffer(bytemuck::cast_slice(&map));
        let chunks = if few { matrix::few_chunks(p.format) } else { 0 };
        let spec = [("SIZE", 256), ("K", p.k as u32), ("NORM", 0), ("CHUNKS", chunks), ("MAT_N", wide)];
        let at = [x, x, &codes, &factors, &map, &powers].map(Buffer::address);
        self.run_one("pack", None, &spec, push(&at, &[p.n()], &[EPS]), [rows as u32, 1, 1]);
        let w = w.address();
        let tables = [self.codebooks.address(), factors.address()];
        let at = [&[w, w, 0, 0, 0, 0, codes.address(), y.address()], &tables[..]].concat();
        let push = push(&at, &[p.k, p.m, p.m, p.m, p.m, p.n() << 8], &[EPS, 1.0, 1.0, 1.0]);
        let tile = matrix::mat_tile(caps, few, p.format, (p.m, p.n()), p.extras());
        let grid = [tile.groups.min(3), p.n().div_ceil(tile.columns()) as u32, 1];
        self.run_one(tile.kernel, Some(p.format.stem), &tile.spec(p.k, p.extras()), push, grid);
        Some(())
    }
}

fn floats(y: &Buffer, len: usize) -> Vec<f32> {
    let mut found = vec![0f32; len];
    y.read(0, bytemuck::cast_slice_mut(&mut found));
    found
}

/// A product by plain sums over decoded weights, and the squared sum of magnitudes of all.
pub fn plain(w: &[f32], x: &[f32], k: usize) -> (Vec<f64>, f64) {
    let (mut sums, mut scale) = (Vec::new(), 0.0);
    for x in x.chunks(k) {
        for w in w.chunks(k) {
            let terms = w.iter().zip(x).map(|(a, b)| f64::from(*a) * f64::from(*b));
            sums.push(terms.clone().sum());
            scale += terms.map(f64::abs).sum::<f64>().powi(2);
        }
    }
    (sums, scale)
}

/// Squared difference over `scale`; infinite where anything found is not finite.
pub fn error(found: &[f32], truth: &[f64], scale: f64) -> f64 {
    assert_eq!(found.len(), truth.len());
    let error: f64 = found.iter().zip(truth).map(|(f, t)| (f64::from(*f) - t).powi(2)).sum();
    if error.is_finite() {
        error / scale
    } else {
        f64::INFINITY
    }
}
