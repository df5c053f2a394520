//! The kernels that choose experts, by logits and by rows, against the reference, whatever the logits are.

use crate::kernels::{Lab, BOUND, EPS};
use crate::util::{exhaustive, sample};
use pumex::cpu::route;
use pumex::policy;
use pumex::vk::{Buffer, Class};
use pumex_quant::{all, Format};

/// A choice of `used` of `experts`, and the scales of gate, up and down.
struct RouterCase {
    experts: usize,
    used: usize,
    scale: f32,
    scales: [Option<Vec<f32>>; 3],
}

/// Rows times a router's matrix.
struct RouterProduct<'a> {
    format: &'a Format,
    bytes: &'a [u8],
    x: &'a [f32],
    k: usize,
    norm: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    scale: f32,
    soa: bool,
}

/// What a launch left in memory.
struct LaunchOutput {
    logits: Vec<f32>,
    route: Vec<f32>,
}

/// Nothing that a kernel should leave where it ought to write.
const UNTOUCHED: f32 = -77.0;

impl RouterCase {
    fn new(lab: &mut Lab, experts: usize, used: usize, scaled: bool) -> RouterCase {
        let scales = [(); 3].map(|()| scaled.then(|| lab.floats(experts)));
        RouterCase { experts, used, scale: if scaled { 2.5 } else { 1.0 }, scales }
    }

    fn flags(&self) -> u32 {
        (0..3).map(|i| u32::from(self.scales[i].is_some()) << i).sum()
    }

    fn truth(&self, logits: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; 4 * self.used];
        route(logits, self.used, self.scale, &self.scales.each_ref().map(|s| s.as_deref()), &mut out);
        out
    }

    /// Asserts that the device's route of a row is the reference's: ids and scales to the bit, weights nearly.
    fn check(&self, found: &[f32], logits: &[f32], what: &str) {
        let (used, truth) = (self.used, self.truth(logits));
        let what = format!("{what}: {used} of {}", self.experts);
        let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found[..used]), bits(&truth[..used]), "{what}: ids");
        assert_eq!(bits(&found[2 * used..]), bits(&truth[2 * used..]), "{what}: scales");
        for (f, t) in found[used..2 * used].iter().zip(&truth[used..]) {
            let close = (f - t).abs() <= 2e-5 * t.abs() + 1e-12;
            assert!(close || !t.is_finite(), "{what}: weight {f}, expected {t}");
        }
    }
}

impl Lab {
    fn output(&self, floats: usize) -> Buffer {
        let buffer = self.device.buffer("output", 4 * floats.max(4) as u64, Class::Readback).unwrap();
        buffer.write(0, bytemuck::cast_slice(&vec![UNTOUCHED; floats]));
        buffer
    }

    fn run(&mut self, kernel: &str, stem: Option<&str>, spec: &[(&str, u32)], push: &mut Vec<u8>, grid: [u32; 3]) {
        let pipeline = self.kernels.get(kernel, stem, spec).unwrap();
        push.resize(pumex_shaders::kernels::find(kernel).unwrap().push_bytes() as usize, 0);
        let mut recorder = self.device.recorder().unwrap();
        recorder.dispatch(&pipeline, push, grid);
        recorder.host_barrier();
        let recording = recorder.finish().unwrap();
        self.device.wait(self.device.submit(&recording).unwrap()).unwrap();
    }

    /// Routes of rows of logits; the recording has room for one row more.
    fn route(&mut self, c: &RouterCase, logits: &[f32], threads: u32) -> Vec<f32> {
        let (n, width) = (logits.len() / c.experts, 4 * c.used);
        let out = self.output((n + 1) * width);
        let held: Vec<Buffer> =
            c.scales.iter().map(|s| self.buffer(bytemuck::cast_slice(s.as_deref().unwrap_or(&[0.0])))).collect();
        let given = self.buffer(bytemuck::cast_slice(logits));
        let step = self.buffer(bytemuck::cast_slice(&[n as u32, 0, 0, 0, 0, 0, 0, 0]));
        let mut push: Vec<u8> = Vec::new();
        let addresses = [given.address(), out.address(), held[0].address(), held[1].address(), held[2].address()];
        addresses.iter().chain([&step.address()]).for_each(|a| push.extend(a.to_le_bytes()));
        push.extend(c.flags().to_le_bytes());
        push.extend(c.scale.to_le_bytes());
        let spec = [("SIZE", threads), ("EXPERTS", c.experts as u32), ("USED", c.used as u32)];
        self.run("route", None, &spec, &mut push, [n as u32 + 1, 1, 1]);
        let mut found = vec![0f32; (n + 1) * width];
        out.read(0, bytemuck::cast_slice_mut(&mut found));
        assert!(
            found[n * width..][..c.used].iter().all(|id| id.to_bits() == 0),
            "ids of no row are those of some expert"
        );
        found.truncate(n * width);
        found
    }

    /// Logits and routes of rows, as the tile says or with workgroups of `tile`.
    fn router(&mut self, c: &RouterCase, p: &RouterProduct<'_>, tile: (u32, u32)) -> LaunchOutput {
        let (n, (threads, rows)) = (p.x.len() / p.k, tile);
        let (logits, out) = (self.output(n * c.experts), self.output(n * 4 * c.used));
        let arrivals = self.output(n);
        arrivals.write(0, &vec![0; 4 * n]);
        let floats = |v: Option<&[f32]>| self.buffer(bytemuck::cast_slice(v.unwrap_or(&[0.0])));
        let held: Vec<Buffer> = c.scales.iter().map(|s| floats(s.as_deref())).collect();
        let (bias, x, norm) = (floats(p.bias), floats(Some(p.x)), floats(p.norm));
        let row_bytes = p.format.row_bytes(p.k).unwrap();
        let laid: Vec<u8> = match p.soa {
            true => p.bytes.chunks(row_bytes).flat_map(|row| p.format.soa(row)).collect(),
            false => p.bytes.to_vec(),
        };
        let w = self.buffer(&laid);
        let mut push: Vec<u8> = Vec::new();
        for buffer in [&w, &bias, &x, &norm, &self.codebooks, &logits, &arrivals, &out, &held[0], &held[1], &held[2]] {
            push.extend(buffer.address().to_le_bytes());
        }
        push.extend((p.k as u32).to_le_bytes());
        push.extend((c.flags() | u32::from(p.bias.is_some()) << 3).to_le_bytes());
        [EPS, p.scale, c.scale].iter().for_each(|f| push.extend(f.to_le_bytes()));
        let spec = [
            ("SIZE", threads),
            ("EXPERTS", c.experts as u32),
            ("USED", c.used as u32),
            ("ROWS", rows),
            ("NORM", u32::from(p.norm.is_some())),
            ("SOA", u32::from(p.soa)),
        ];
        let grid = [(c.experts as u32).div_ceil(rows), n as u32, 1];
        self.run("router", Some(p.format.stem), &spec, &mut push, grid);
        let mut left = LaunchOutput { logits: vec![0.0; n * c.experts], route: vec![0.0; n * 4 * c.used] };
        logits.read(0, bytemuck::cast_slice_mut(&mut left.logits));
        out.read(0, bytemuck::cast_slice_mut(&mut left.route));
        let mut counts = vec![0u32; n];
        arrivals.read(0, bytemuck::cast_slice_mut(&mut counts));
        assert_eq!(counts, vec![0; n], "the counters are zero between dispatches");
        left
    }

    /// Finite logits of all kinds: spread, close, equal, ties of few values, huge, rising, falling, signed zeros.
    fn logits(&mut self, experts: usize) -> Vec<Vec<f32>> {
        let ties = (0..experts).map(|i| [0.5, -1.0, 0.5, 2.0][(i * 7 + i / 5) % 4]).collect();
        let huge = (0..experts).map(|i| [3e38, -3e38, 1.0, 3e38, 2e38][i * 3 % 5]).collect();
        let spread = self.floats(experts).iter().map(|x| 20.0 * x).collect();
        let close = self.floats(experts).iter().map(|x| 1.0 + 1e-6 * x).collect();
        let rising: Vec<f32> = (0..experts).map(|i| i as f32 / 8.0).collect();
        let falling = rising.iter().map(|x| -x).collect();
        let zeros = (0..experts).map(|i| [-0.0, 0.0][i % 2]).collect();
        vec![spread, close, vec![-4.5; experts], ties, huge, rising, falling, zeros]
    }
}

/// Logits that no softmax is made for, but which may not lead out of the experts either.
fn strange(experts: usize) -> Vec<Vec<f32>> {
    let some = |values: [f32; 3]| (0..experts).map(|i| values[i * 5 % 7 % 3]).collect::<Vec<f32>>();
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    vec![
        some([-inf, 1.0, 0.5]),
        some([inf, 1.0, -inf]),
        some([nan, 1.0, -nan]),
        vec![-inf; experts],
        vec![nan; experts],
    ]
}

const EXPERTS: [usize; 14] = [3, 128, 33, 512, 1, 2, 7, 8, 31, 64, 100, 129, 255, 384];
const USED: [usize; 6] = [1, 2, 4, 7, 8, 16];

#[test]
fn experts_by_logits_are_the_references() {
    let Some(mut lab) = Lab::open() else { return };
    for (i, experts) in sample(&EXPERTS, 4).iter().copied().enumerate() {
        for used in [USED[i % 6], USED[(i + 3) % 6], experts].map(|u| u.min(experts).min(16)) {
            let c = RouterCase::new(&mut lab, experts, used, i % 2 == 0);
            let rows: Vec<Vec<f32>> = lab.logits(experts).into_iter().chain(strange(experts)).collect();
            let all: Vec<f32> = rows.concat();
            let few = lab.device.caps().subgroup_size;
            for threads in [policy::route_threads(lab.device.caps(), experts), few] {
                let found = lab.route(&c, &all, threads);
                for (row, found) in rows.iter().zip(found.chunks(4 * used)) {
                    c.check(found, row, &format!("{threads} threads, {row:?}"));
                }
            }
        }
    }
    crate::util::assert_silent_on(&lab.device);
}

/// A row that is one in one column and zero elsewhere makes logits of that column of the matrix.
#[test]
fn experts_by_rows_are_the_references() {
    let Some(mut lab) = Lab::open() else { return };
    let (format, k) = (pumex_quant::find(0).unwrap(), 32);
    for (i, experts) in sample(&EXPERTS, 4).iter().copied().enumerate() {
        let used = USED[(i + 2) % 6].min(experts);
        let c = RouterCase::new(&mut lab, experts, used, i % 2 == 1);
        let tile = policy::router_tile(lab.device.caps(), experts, k);
        let columns = lab.logits(experts);
        let mut choose = |columns: &[Vec<f32>], what: &str| {
            let w: Vec<f32> =
                (0..experts).flat_map(|e| (0..k).map(move |col| columns.get(col).map_or(0.0, |c| c[e]))).collect();
            let x: Vec<f32> = (0..columns.len() * k).map(|at| f32::from(at / k == at % k)).collect();
            let bytes = bytemuck::cast_slice(&w);
            let p = RouterProduct { format, bytes, x: &x, k, norm: None, bias: None, scale: 1.0, soa: false };
            let left = lab.router(&c, &p, tile);
            for (row, logits) in left.logits.chunks(experts).enumerate() {
                assert!(logits.iter().zip(&columns[row]).all(|(a, b)| a == b || b.is_nan()), "{what}: logits of {row}");
                c.check(&left.route[row * 4 * used..][..4 * used], logits, &format!("{what}, row {row}"));
            }
        };
        choose(&columns, "together");
        // An infinite weight spoils other rows' sums: one at a time.
        strange(experts).into_iter().for_each(|column| choose(&[column], "strange"));
    }
    crate::util::assert_silent_on(&lab.device);
}

/// Every format, as blocks and as a structure of arrays, one to eight rows, every extra; tiles of GPUs as well as the device's own.
#[test]
fn a_routers_products_are_right_for_every_format_and_count_of_rows() {
    let Some(mut lab) = Lab::open() else { return };
    for (i, format) in all().enumerate() {
        let blocks = if format.block_len == 1 { 160 } else { 1 + 2 * (i % 2) };
        let (experts, k, n) = (37, blocks * format.block_len.max(32), 1 + i % policy::GEMV_MAX_COLS);
        let c = RouterCase::new(&mut lab, experts, 5, false);
        let (bytes, w) = lab.weights(format, experts, k);
        let (x, norm, bias) = (lab.floats(n * k), lab.floats(k), lab.floats(experts));
        let own = policy::router_tile(lab.device.caps(), experts, k);
        let ways = [(false, own), (true, (128, 1))];
        for &(normed, tile) in if exhaustive() { &ways[..] } else { &ways[i / 2 % 2..][..1] } {
            let scale = if normed { 1.0 } else { 0.7 };
            let (norm, bias) = (normed.then_some(&norm[..]), (!normed).then_some(&bias[..]));
            let soa = format.is_expanded() || normed == (i % 2 == 0);
            let p = RouterProduct { format, bytes: &bytes, x: &x, k, norm, bias, scale, soa };
            let left = lab.router(&c, &p, tile);
            let (mut error, mut signal) = (0.0, 0.0);
            for (at, found) in left.logits.iter().enumerate() {
                let (x, w) = (&x[at / experts * k..][..k], &w[at % experts * k..][..k]);
                let mean = x.iter().map(|x| f64::from(x * x)).sum::<f64>() / k as f64;
                let by = if normed { 1.0 / (mean + f64::from(EPS)).sqrt() } else { f64::from(scale) };
                let weight = |col: usize| f64::from(w[col]) * norm.map_or(1.0, |n| f64::from(n[col]));
                let terms = x.iter().enumerate().map(|(col, x)| f64::from(*x) * weight(col) * by);
                let truth = terms.clone().sum::<f64>() + bias.map_or(0.0, |b| f64::from(b[at % experts]));
                error += (f64::from(*found) - truth).powi(2);
                signal += terms.map(f64::abs).sum::<f64>().powi(2);
            }
            assert!(error / signal < BOUND, "{} k {k}, {n} rows, norm {normed}: {:e}", format.stem, error / signal);
            for (found, logits) in left.route.chunks(20).zip(left.logits.chunks(experts)) {
                c.check(found, logits, format.stem);
            }
        }
    }
    crate::util::assert_silent_on(&lab.device);
}
