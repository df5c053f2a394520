//! Every kernel with weights, for every format and edge shape, against plain sums over decoded weights.

use crate::panels::Tensors;
use crate::util::{exhaustive, in_turn, sample};
use pumex::exec::fragment_layout;
use pumex::kernel::Kernels;
use pumex::policy::{self, matrix, panels, ActivationQuant, GemmFusion};
use pumex::sample::Rng;
use pumex::vk::{self, Buffer, Class, Device};
use pumex_quant::{all, Format};
use pumex_shaders::block::Block;
use pumex_shaders::step::{StepHeader, StepRow};

/// Bound of the squared error over the squared sum of magnitudes: f32 products summed in another order.
pub const BOUND: f64 = 1e-12;
/// The integer kernel's: activations are rounded to 16 bits of their run's largest, or to 8.
const DOT_BOUNDS: [(ActivationQuant, f64); 2] = [(ActivationQuant::Q16, 1e-8), (ActivationQuant::Q8, 5e-5)];
/// The cooperative matrices': both factors are rounded to halves.
pub const HALF_BOUND: f64 = 1e-6;
/// The epsilon of the norms.
pub const EPS: f32 = 1e-5;

/// A device, its pipelines, and buffers that the host reaches on every kind of device.
pub struct Lab {
    pub device: Device,
    pub kernels: Kernels,
    pub codebooks: Buffer,
    pub rng: Rng,
}

/// One launch of a GEMV or GEMM on `m` outputs, `k` inputs and `n` rows.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub m: usize,
    pub k: usize,
    pub n: usize,
    pub bias: bool,
    pub add: bool,
    pub gated: bool,
    pub norm: bool,
    pub soa: bool,
    pub activations: ActivationQuant,
}

impl Case {
    pub const PLAIN: Case = Case {
        m: 7,
        k: 0,
        n: 1,
        bias: false,
        add: false,
        gated: false,
        norm: false,
        soa: false,
        activations: ActivationQuant::Q16,
    };

    fn extras(&self) -> GemmFusion {
        GemmFusion { gated: self.gated, add: self.add, norm: self.norm, soa: self.soa, activations: self.activations }
    }
}

impl Lab {
    pub fn open() -> Option<Lab> {
        let device = crate::util::device(false)?;
        let words = pumex_quant::tables::pack_all();
        let codebooks = device.buffer("codebooks", 4 * words.len() as u64, Class::Params).unwrap();
        codebooks.write(0, bytemuck::cast_slice(&words));
        Some(Lab { kernels: Kernels::new(&device), codebooks, device, rng: Rng::new(7) })
    }

    pub fn buffer(&self, bytes: &[u8]) -> Buffer {
        let buffer = self.device.buffer("input", bytes.len().next_multiple_of(16) as u64, Class::Params).unwrap();
        buffer.write(0, bytes);
        buffer
    }

    pub fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| (self.rng.unit() * 2.0 - 1.0) as f32).collect()
    }

    /// `rows` rows of random blocks whose weights are neither huge nor all tiny, and the same decoded.
    pub fn weights(&mut self, format: &Format, rows: usize, k: usize) -> (Vec<u8>, Vec<f32>) {
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        let (mut block, mut out) = (vec![0u8; format.block_bytes], vec![0f32; format.block_len]);
        for _ in 0..rows * k / format.block_len {
            loop {
                block.iter_mut().for_each(|b| *b = self.rng.next_below(256) as u8);
                (format.decode)(&block, &mut out);
                let most = out.iter().fold(0f32, |a, x| a.max(x.abs()));
                if format.first_non_finite(&block).is_none() && (1e-2..1e2).contains(&most) {
                    break;
                }
            }
            bytes.extend(&block);
            values.extend(&out);
        }
        (bytes, values)
    }

    fn launch(&mut self, kernel: &str, format: &Format, spec: &[(&str, u32)], push: &[u8], grid: [u32; 3]) {
        self.launch_of(kernel, Some(format.stem), spec, push, grid);
    }

    fn launch_of(&mut self, kernel: &str, stem: Option<&str>, spec: &[(&str, u32)], push: &[u8], grid: [u32; 3]) {
        let pipeline = self.kernels.get(kernel, stem, spec).unwrap();
        let mut push = push.to_vec();
        push.resize(pumex_shaders::kernels::find(kernel).unwrap().push_bytes() as usize, 0);
        let mut recorder = self.device.recorder().unwrap();
        recorder.dispatch(&pipeline, &push, grid);
        recorder.host_barrier();
        let recording = recorder.finish().unwrap();
        let value = self.device.submit(&recording).unwrap();
        self.device.wait(value).unwrap();
    }

    /// Runs the case on the device and by plain sums; squared difference over the squared sums of magnitudes, so that a sum
    /// that happens to cancel proves nothing.
    pub fn error(&mut self, format: &Format, case: Case, kernel: &str) -> f64 {
        let case = Case { soa: case.soa || format.is_expanded(), ..case };
        let Case { m, k, n, .. } = case;
        let parts = if case.gated { 2 } else { 1 };
        let (bytes, w): (Vec<_>, Vec<_>) = (0..parts).map(|_| self.weights(format, m, k)).unzip();
        let (given, bias, before, norm) = (self.floats(n * k), self.floats(m), self.floats(n * m), self.floats(k));
        let mut x = given.clone();
        for row in x.chunks_mut(k).filter(|_| case.norm) {
            let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f32>() / k as f32 + EPS).sqrt();
            row.iter_mut().zip(&norm).for_each(|(v, n)| *v *= scale * n);
        }
        let product = |part: usize, col: usize, row: usize| -> f64 {
            let (w, x) = (&w[part][row * k..][..k], &x[col * k..][..k]);
            w.iter().zip(x).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let magnitude = |part: usize, col: usize, row: usize| -> f64 {
            let (w, x) = (&w[part][row * k..][..k], &x[col * k..][..k]);
            w.iter().zip(x).map(|(a, b)| f64::from((a * b).abs())).sum()
        };
        let (mut truth, mut scale) = (vec![0f64; n * m], 0f64);
        for (i, t) in truth.iter_mut().enumerate() {
            let (col, row) = (i / m, i % m);
            let mut y = product(0, col, row) + if case.bias { f64::from(bias[row]) } else { 0.0 };
            let mut most = magnitude(0, col, row);
            if case.gated {
                // An error of either product comes out times the other factor, that of the gate times the gate's slope, too.
                let (part, sigmoid) = (product(1, col, row), 1.0 / (1.0 + (-y).exp()));
                let slope = sigmoid * (1.0 + y * (1.0 - sigmoid));
                most = (slope * part).abs() * most + (y * sigmoid).abs() * magnitude(1, col, row);
                y *= sigmoid * part;
            }
            *t = y + if case.add { f64::from(before[i]) } else { 0.0 };
            scale += most.powi(2).max(t.powi(2));
        }
        let laid = |b: &Vec<u8>| match case.soa {
            true => b.chunks(format.row_bytes(k).unwrap()).flat_map(|row| format.soa(row)).collect(),
            false => b.clone(),
        };
        let held: Vec<Buffer> = bytes.iter().map(|b| self.buffer(&laid(b))).collect();
        let (x, bias) = (self.buffer(bytemuck::cast_slice(&given)), self.buffer(bytemuck::cast_slice(&bias)));
        let norm = self.buffer(bytemuck::cast_slice(&norm));
        let soa = ("SOA", u32::from(case.soa));
        let y = self.device.buffer("y", (n * m * 4) as u64, Class::Readback).unwrap();
        y.write(0, bytemuck::cast_slice(&before));
        let (w0, w1) = (held[0].address(), held.last().unwrap().address());
        let words =
            |push: &mut Vec<u8>, words: &[usize]| words.iter().for_each(|w| push.extend((*w as u32).to_le_bytes()));
        let mut push = Vec::new();
        if kernel == "gemm_tile" || kernel == "gemm_float" {
            [w0, bias.address(), x.address(), y.address(), self.codebooks.address()]
                .iter()
                .for_each(|a| push.extend(a.to_le_bytes()));
            words(&mut push, &[k, m, n, m, 0, usize::from(case.bias)]);
            push.extend(1f32.to_le_bytes());
            let tile = if kernel == "gemm_float" { policy::SMALL_TILE } else { 64 };
            let grid = [m.div_ceil(tile) as u32, n.div_ceil(tile) as u32, 1];
            if kernel == "gemm_float" {
                self.launch_of(kernel, None, &[("EPILOGUE", u32::from(case.add))], &push, grid);
                return error_of(&y, &truth, scale);
            }
            self.launch("gemm_tile", format, &[("EPILOGUE", u32::from(case.add)), soa], &push, grid);
        } else if kernel == panels::PANELS {
            let tensors =
                Tensors { w: [w0, w1], bias: bias.address(), x: x.address(), norm: norm.address(), y: y.address() };
            self.by_panels(format, case, tensors);
        } else if let Some((which, split)) = kernel.strip_prefix("gemm_").and_then(|k| k.split_once(' ')) {
            let caps = self.device.caps().clone();
            let held = fragment_layout(&self.device, &self.kernels).unwrap().unwrap();
            let few = which == "few";
            assert!(held.direct || !few);
            let rows = matrix::packed_rows(&caps, few, n);
            let codes = self.buffer(&vec![0xff; 2 * rows * k.next_multiple_of(matrix::PACKED_LEN)]);
            let (factors, powers) = (self.buffer(&vec![0xff; 4 * rows]), self.buffer(&vec![0xff; 4 * rows]));
            let (wide, _) = matrix::columns(&caps, few, n);
            let map = held.maps.iter().find(|(w, _)| *w == wide).map(|(_, map)| map.clone()).unwrap();
            let map = self.buffer(bytemuck::cast_slice(&map));
            let mut packing = Vec::new();
            [x.address(), norm.address(), codes.address(), factors.address(), map.address(), powers.address()]
                .iter()
                .for_each(|a| packing.extend(a.to_le_bytes()));
            words(&mut packing, &[n]);
            packing.extend(EPS.to_le_bytes());
            let chunks = if few { matrix::few_chunks(format) } else { 0 };
            let norms = u32::from(case.norm);
            let spec = [("SIZE", 256), ("K", k as u32), ("NORM", norms), ("CHUNKS", chunks), ("MAT_N", wide)];
            self.launch_of("pack", None, &spec, &packing, [rows as u32, 1, 1]);
            [
                w0,
                w1,
                0,
                bias.address(),
                0,
                0,
                codes.address(),
                y.address(),
                self.codebooks.address(),
                factors.address(),
            ]
            .iter()
            .for_each(|a| push.extend(a.to_le_bytes()));
            words(&mut push, &[k, m, m, m, m, usize::from(case.bias) | n << 8]);
            [EPS, 1.0, 1.0, 1.0].iter().for_each(|f| push.extend(f.to_le_bytes()));
            let chosen = matrix::mat_tile(&caps, few, format, (m, n), case.extras());
            let shape = (chosen.size, split.parse().unwrap_or(chosen.split), 1);
            let tile = matrix::mat_tile_of(&caps, few, (m, n), shape, case.extras());
            let grid = [tile.groups.min(3), n.div_ceil(tile.columns()) as u32, 1];
            self.launch(tile.kernel, format, &tile.spec(k, case.extras()), &push, grid);
        } else {
            [w0, w1, 0, bias.address(), 0, 0, x.address(), y.address(), self.codebooks.address(), norm.address()]
                .iter()
                .for_each(|a| push.extend(a.to_le_bytes()));
            words(&mut push, &[k, m, m, m, m, usize::from(case.bias)]);
            [EPS, 1.0, 1.0, 1.0].iter().for_each(|f| push.extend(f.to_le_bytes()));
            let caps = self.device.caps();
            let tile = match kernel {
                "gemv" => policy::float_tile(caps, format, (m, k), n, case.gated),
                _ => {
                    let (held, span) = if kernel.contains("in slices") { (8, 1024) } else { (u32::MAX, 256) };
                    let span = if kernel.ends_with("in spans") { span.min(k) } else { k };
                    let tile = policy::dot_tile(caps, (m, k), if n > 2 { 1 } else { 2 }, 64, 2, span);
                    let (depth, activations) = (1 + u32::from(case.soa), case.activations);
                    let room = if case.soa { 16 << 10 } else { 0 };
                    let (copies, apart) = (policy::table_copies(format, room), kernel.contains("apart"));
                    policy::GemvTile { depth, activations, copies, apart, held, ..tile }
                }
            };
            let mut spec = tile.spec(k, n, case.extras());
            spec.extend(tile.whole_rows(std::iter::once(m)));
            self.launch(tile.kernel, format, &spec, &push, [tile.groups, 1, 1]);
        }
        error_of(&y, &truth, scale)
    }
}

/// Squared difference of what a buffer holds over `scale`; infinite where it holds anything that is not finite.
fn error_of(y: &Buffer, truth: &[f64], scale: f64) -> f64 {
    let mut found = vec![0f32; truth.len()];
    y.read(0, bytemuck::cast_slice_mut(&mut found));
    let error: f64 = found.iter().zip(truth).map(|(f, t)| (f64::from(*f) - t).powi(2)).sum();
    if error.is_finite() {
        error / scale
    } else {
        f64::INFINITY
    }
}

/// The integer kernel's codes of activations, with its bounds, where it takes so many inputs and rows.
fn dots(lab: &Lab, format: &Format, k: usize, n: usize) -> Vec<(ActivationQuant, f64)> {
    let fits =
        |(codes, _): &(ActivationQuant, f64)| policy::dot_span(lab.device.caps(), format, k, n, *codes).is_some();
    DOT_BOUNDS.into_iter().filter(fits).collect()
}

#[test]
fn gemv_and_gemm_are_right_for_every_format_and_edge_shape() {
    let Some(mut lab) = Lab::open() else { return };
    for (at, format) in all().enumerate() {
        let (begun, one) = (std::time::Instant::now(), format.block_len.max(32));
        // Of a sample, every other format as blocks and with short codes; every fourth in GEMV of floats, in GEMM, and of
        // several rows.
        let (every, odd) = (exhaustive() && in_turn(at, 3), at % 2 == 1);
        let shapes = [(5 * one, 131, 1), (one, 1, 1), (3 * one, 33, 3)];
        let shapes = if every { &shapes[..] } else { &shapes[if at % 4 == 3 { 2 } else { 0 }..][..1] };
        for &(k, m, n) in shapes {
            let soa = if every { n > 1 || m == 1 } else { odd };
            let case = Case { m, k, n, soa, ..Case::PLAIN };
            let exact = |codes: ActivationQuant| codes == ActivationQuant::Q16;
            let few = |(codes, _): &(ActivationQuant, f64)| {
                if every {
                    exact(*codes) || m == 131
                } else {
                    exact(*codes) != odd
                }
            };
            for (activations, bound) in dots(&lab, format, k, n).into_iter().filter(few) {
                let also = (every && exact(activations)).then_some(!case.soa);
                for soa in [Some(case.soa), also].into_iter().flatten() {
                    let error = lab.error(format, Case { soa, activations, ..case }, "gemv_dot");
                    assert!(error < bound, "gemv_dot {} {case:?}, {activations:?}: {error:e}", format.stem);
                }
            }
            if exhaustive() || at % 4 == 1 {
                let error = lab.error(format, case, "gemv");
                assert!(error < BOUND, "gemv {} {case:?}: {error:e}", format.stem);
            }
        }
        for &(k, m, n, add) in sample(&[(3 * one, 130, 70, false), (one, 1, 9, false)], 1) {
            if !exhaustive() && at % 4 != 2 {
                continue;
            }
            let soa = if every { m > 1 } else { at / 4 % 2 == 0 };
            let case = Case { m, k, n, add, bias: add, soa, ..Case::PLAIN };
            let error = lab.error(format, case, "gemm_tile");
            assert!(error < BOUND, "gemm {} {case:?}: {error:e}", format.stem);
        }
        println!("{}: {:.1} s", format.stem, begun.elapsed().as_secs_f64());
    }
    crate::util::assert_silent_on(&lab.device);
}

#[test]
fn cooperative_matrices_are_right_for_every_format_edge_shape_and_number_of_rows() {
    let Some(mut lab) = Lab::open() else { return };
    if lab.device.caps().matrix_n.is_empty() {
        println!("skipped: {} has no cooperative matrices of 16 x 16 halves", lab.device.caps().name);
        return;
    }
    let mut wrong = Vec::new();
    let mut check = |lab: &mut Lab, format: &Format, case: Case, kernel: &str| {
        let error = lab.error(format, case, kernel);
        if error >= HALF_BOUND {
            wrong.push(format!("{} {kernel}, {case:?}: {error:e}", format.stem));
        }
    };
    let caps = lab.device.caps().clone();
    let direct = fragment_layout(&lab.device, &lab.kernels).unwrap().is_some_and(|held| held.direct);
    println!("threads hold matrices as gemm_few expects: {direct}");
    for format in all().filter(|f| matrix::takes(&caps, f, 2)) {
        let one = format.block_len.max(32);
        let small = [(one, 1, 2), (5 * one, 131, 9), (7 * one, 50, 29), (3 * one, 33, 33)];
        for (k, m, n) in small.into_iter().chain([(9 * one, 70, 130), (3 * one, 37, 530)]) {
            let case = Case { m, k, n, soa: n != 9, bias: m == 33, add: m == 131, norm: n == 33, ..Case::PLAIN };
            let few = direct && n <= matrix::FEW;
            check(&mut lab, format, case, if few { "gemm_few as chosen" } else { "gemm_mat as chosen" });
        }
    }
    let format = pumex_quant::find(12).unwrap();
    for (n, split, gated) in [1, 2, 4, 8].into_iter().flat_map(|s| [(4, s, s < 8), (16, s, false), (64, s, s < 8)]) {
        let case = Case { m: 90, k: 2048, n, gated, norm: gated, bias: true, soa: true, ..Case::PLAIN };
        check(&mut lab, format, case, &format!("gemm_mat {split}"));
        if direct && n <= matrix::FEW {
            check(&mut lab, format, case, &format!("gemm_few {split}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn chunks_of_the_policy_are_those_of_the_shaders() {
    for format in all() {
        let path = format!("{}/shaders/glsl/quant/{}.glsl", env!("CARGO_MANIFEST_DIR"), format.stem);
        let source = std::fs::read_to_string(path).unwrap();
        let chunk = source.lines().find_map(|l| l.strip_prefix("#define CHUNK ")).unwrap();
        assert_eq!(chunk.parse(), Ok(matrix::chunk_len(format)), "{}", format.name);
    }
}

#[test]
fn epilogues_add_and_take_biases_in_gemv_and_gemm() {
    let Some(mut lab) = Lab::open() else { return };
    for id in [0, 1, 12] {
        let format = pumex_quant::find(id).unwrap();
        for (n, add, gated, kernel) in [
            (2, true, false, "gemv"),
            (2, false, true, "gemv"),
            (33, true, false, "gemm_tile"),
            (2, true, false, "gemv_dot"),
            (1, false, true, "gemv_dot"),
        ] {
            let k = 2 * format.block_len.max(32);
            let case = Case { m: 65, k, n, bias: true, add, gated, ..Case::PLAIN };
            let ways =
                if kernel == "gemv_dot" { dots(&lab, format, k, n) } else { vec![(ActivationQuant::Q16, BOUND)] };
            for (activations, bound) in ways {
                let error = lab.error(format, Case { activations, ..case }, kernel);
                assert!(error < bound, "{} {case:?}, {activations:?}: {error:e}", format.name);
            }
        }
    }
}

#[test]
fn small_products_of_floats_are_right_at_every_edge() {
    let Some(mut lab) = Lab::open() else { return };
    let format = pumex_quant::find(0).unwrap();
    for (m, k, n, add) in [(1, 64, 1, false), (16, 128, 16, true), (37, 192, 21, false), (128, 320, 50, true)] {
        let case = Case { m, k, n, add, bias: !add, ..Case::PLAIN };
        let error = lab.error(format, case, "gemm_float");
        assert!(error < BOUND, "{case:?}: {error:e}");
    }
    crate::util::assert_silent_on(&lab.device);
}

#[test]
fn one_read_of_the_weights_serves_up_to_eight_rows() {
    let Some(mut lab) = Lab::open() else { return };
    let format = pumex_quant::find(12).unwrap();
    // Pipelines of many rows are the longest to compile: the float kernel's are a sixth of the integer one's.
    let counts: Vec<usize> = (1..=policy::GEMV_MAX_COLS).collect();
    let few = |n: &&usize| exhaustive() && in_turn(**n, 3) || [1, 4, 8].contains(*n);
    for &n in counts.iter().filter(few) {
        let case = Case { m: 9, k: 768, n, ..Case::PLAIN };
        for norm in [false, true] {
            let error = lab.error(format, Case { norm, ..case }, "gemv");
            assert!(error < BOUND, "{n} rows, norm {norm}: {error:e}");
        }
        for (activations, bound) in dots(&lab, format, case.k, n) {
            let ways =
                [(true, "gemv_dot"), (false, "gemv_dot in spans"), (false, "gemv_dot"), (true, "gemv_dot in spans")];
            let first = usize::from(activations == ActivationQuant::Q8);
            let ways = if exhaustive() && in_turn(n, 3) { &ways[..] } else { &ways[first..][..usize::from(n < 8)] };
            for &(norm, kernel) in ways {
                let error = lab.error(format, Case { norm, activations, ..case }, kernel);
                assert!(error < bound, "{n} rows, {kernel}, norm {norm}, {activations:?}: {error:e}");
            }
        }
    }
}

/// Takes formats with offsets for a run and for half of one, and without. The last slice has fewer than threads hold, or none.
#[test]
fn activations_held_in_slices_are_coded_as_those_held_at_once() {
    let Some(mut lab) = Lab::open() else { return };
    let ids = [12, 14, 8, 10, 18, 23];
    for (i, id) in ids.into_iter().enumerate().take(if exhaustive() { ids.len() } else { 2 }) {
        let format = pumex_quant::find(id).unwrap();
        for (j, kernel) in ["gemv_dot in slices", "gemv_dot in slices in spans"].into_iter().enumerate() {
            let plain = Case { m: 9, k: 1280 + format.block_len, n: 1 + 2 * (i % 2), soa: i % 2 == 0, ..Case::PLAIN };
            let case = Case { norm: (i + j) % 2 == 1, ..plain };
            for (activations, bound) in dots(&lab, format, case.k, case.n).into_iter().skip(j) {
                let (case, begun) = (Case { activations, ..case }, lab.rng.clone());
                let error = lab.error(format, case, kernel);
                assert!(error < bound, "{} {case:?}, {kernel}: {error:e}", format.name);
                lab.rng = begun; // of the same numbers
                let at_once = lab.error(format, case, "gemv_dot");
                let same = case.norm || kernel.ends_with("in spans") || error == at_once;
                assert!(same, "{} {case:?}, {kernel}: {error:e}, at once {at_once:e}", format.name);
            }
        }
    }
    crate::util::assert_silent_on(&lab.device);
}

/// Takes more outputs than there are subgroups.
#[test]
fn gate_and_up_one_after_the_other_are_gate_and_up() {
    let Some(mut lab) = Lab::open() else { return };
    for (i, id) in [12, 13, 14, 18].into_iter().enumerate() {
        let format = pumex_quant::find(id).unwrap();
        let ways = ["gemv_dot apart", "gemv_dot apart in spans"].into_iter().flat_map(|k| [1, 3, 4].map(|n| (k, n)));
        for (kernel, n) in
            ways.enumerate().filter(|(j, _)| exhaustive() && in_turn(j + i, 4) || j % 4 == i).map(|(_, way)| way)
        {
            let case = Case { m: 131, k: 1280, n, gated: true, norm: n > 1, soa: n < 4, ..Case::PLAIN };
            for (activations, bound) in dots(&lab, format, case.k, n).into_iter().skip(usize::from(i % 2 == 1)) {
                let case = Case { activations, ..case };
                let error = lab.error(format, case, kernel);
                println!("{} {kernel} {n} {activations:?}: {error:.2e}", format.name);
                assert!(error < bound, "{} {case:?}, {kernel}: {error:e}, expected at most {bound:e}", format.name);
            }
        }
    }
    crate::util::assert_silent_on(&lab.device);
}

#[test]
fn a_row_of_the_embedding_is_the_decoded_row_for_every_format() {
    let Some(mut lab) = Lab::open() else { return };
    for (format, soa) in all().flat_map(|f| [(f, f.is_expanded()), (f, true)]) {
        let (k, vocab) = (2 * format.block_len.max(32), 5);
        let (bytes, values) = lab.weights(format, vocab, k);
        let rows = bytes.chunks(format.row_bytes(k).unwrap());
        let table = lab.buffer(&rows.flat_map(|r| if soa { format.soa(r) } else { r.to_vec() }).collect::<Vec<_>>());
        let ids = [4u32, 0, 3];
        let mut step = StepHeader { rows: ids.len() as u32, ..Default::default() }.words();
        ids.iter().for_each(|token| step.extend(StepRow { token: *token, ..Default::default() }.words()));
        let step = lab.buffer(bytemuck::cast_slice(&step));
        let y = lab.device.buffer("y", (ids.len() * k * 4) as u64, Class::Readback).unwrap();
        let mut push: Vec<u8> = Vec::new();
        let sampled = lab.buffer(&[0; 16]);
        let no_pairs = sampled.address();
        [table.address(), y.address(), step.address(), sampled.address(), lab.codebooks.address(), no_pairs]
            .iter()
            .for_each(|a| push.extend(a.to_le_bytes()));
        [k as u32, 0].iter().for_each(|word| push.extend(word.to_le_bytes()));
        lab.launch("embed", format, &[("SIZE", 64), ("SOA", u32::from(soa))], &push, [ids.len() as u32, 1, 1]);
        let mut found = vec![0f32; ids.len() * k];
        y.read(0, bytemuck::cast_slice_mut(&mut found));
        for (i, id) in ids.iter().enumerate() {
            let truth = &values[*id as usize * k..][..k];
            let error = crate::util::nmse(&found[i * k..][..k], truth);
            assert!(error < 1e-13, "{} id {id}: {error:e}", format.stem);
        }
    }
    crate::util::assert_silent_on(&lab.device);
}

#[test]
fn a_wait_for_a_value_in_the_past_returns_and_a_device_is_known_by_name() {
    let Some(lab) = Lab::open() else { return };
    let recording = lab.device.recorder().unwrap().finish().unwrap();
    let value = lab.device.submit(&recording).unwrap();
    lab.device.wait(value).unwrap();
    assert!(lab.device.is_reached(value).unwrap());
    assert!(!lab.device.is_reached(value + 1).unwrap());
    let error =
        vk::Device::open(&vk::Options { select: vk::Select::Name("no such card".into()), ..Default::default() });
    assert!(error.err().unwrap().to_string().contains("no such card"));
}
