//! Products of many rows by kernels that devices without usable matrices take (`gemm_dot`, `gemm_half`, and by
//! matrices from shared memory), forced on any device.

use crate::kernels::{Lab, EPS};
use crate::products::error;
use crate::util::{assert_silent, exhaustive, in_turn, nmse, options, rows, vulkan};
use pumex::engine::{CacheType, Debug, Options};
use pumex::policy::{self, ActivationQuant, ManyRows, PackedRowsRequest, RowTile, StagedTile, WeightSource};
use pumex::quantize::recipe;
use pumex::step::{Runner, Want};
use pumex::vk::Caps;
use pumex::{kernel, synthetic};
use pumex_quant::{all, Format};
use pumex_shaders::block::Block;
use pumex_shaders::push;

/// Bounds of the squared error over the squared sum of magnitudes: activations have 8 bits, or both factors and sums 11.
const BOUNDS: [(ManyRows, f64); 7] = [
    (ManyRows::Bytes, 5e-5),
    (ManyRows::Staged, 1e-6),
    (ManyRows::Dot, 5e-5),
    (ManyRows::Half, 1e-6),
    (ManyRows::Group(WeightSource::Halves), 1e-6),
    (ManyRows::Group(WeightSource::Shared), 1e-6),
    (ManyRows::Group(WeightSource::Load), 1e-6),
];

/// What is asked of a kernel.
#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    k: usize,
    n: usize,
    wide: u32,
    soa: bool,
    norm: bool,
    /// The epilogue after the norm, which may add a bias.
    epilogue: u32,
    constants: &'static [(&'static str, u32)],
}

/// Error of a product by a kernel against plain sums.
fn error_of(lab: &mut Lab, by: ManyRows, format: &Format, case: Case) -> f64 {
    let Case { m, k, n, norm, epilogue, .. } = case;
    let soa = case.soa || format.is_expanded();
    let (bytes, w) = lab.weights(format, m, k);
    let (x, bias, before, weight) = (lab.floats(n * k), lab.floats(m), lab.floats(n * m), lab.floats(k));
    let mut normed = x.clone();
    for row in normed.chunks_mut(k).filter(|_| norm) {
        let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f32>() / k as f32 + EPS).sqrt();
        row.iter_mut().zip(&weight).for_each(|(v, w)| *v *= scale * w);
    }
    let (mut truth, mut scale) = (Vec::new(), 0.0);
    for (i, there) in before.iter().enumerate() {
        let terms =
            w[i % m * k..][..k].iter().zip(&normed[i / m * k..][..k]).map(|(a, b)| f64::from(*a) * f64::from(*b));
        let (sum, there) = (terms.clone().sum::<f64>() + f64::from(bias[i % m]), f64::from(*there));
        let (factor, added) = match epilogue {
            0 => (1.0, 0.0),
            1 => (1.0, there),
            _ => (there / (1.0 + (-there).exp()), 0.0),
        };
        truth.push(sum * factor + added);
        scale += (terms.map(f64::abs).sum::<f64>() * factor).powi(2);
    }
    let laid =
        if soa { bytes.chunks(format.row_bytes(k).unwrap()).flat_map(|r| format.soa(r)).collect() } else { bytes };
    let (w, x, bias) =
        (lab.buffer(&laid), lab.buffer(bytemuck::cast_slice(&x)), lab.buffer(bytemuck::cast_slice(&bias)));
    let (weight, y) = (lab.buffer(bytemuck::cast_slice(&weight)), lab.results(n * m));
    y.write(0, bytemuck::cast_slice(&before));
    let tile = tile_of(lab.device.caps(), by, format, case);
    let whole = n.next_multiple_of(tile.rows());
    let (codes, scales) = (lab.buffer(&vec![0xff; 2 * whole * k]), lab.buffer(&vec![0xff; n * k / 2 + 4 * whole]));
    let pack = push::PackRows {
        x: x.address(),
        norm: weight.address(),
        codes: codes.address(),
        scales: scales.address(),
        k: k as u32,
        eps: EPS,
        ..push::PackRows::default()
    };
    let spec = [("SIZE", 64), ("BITS", by.bits()), ("NORM", u32::from(norm))];
    lab.run_one("pack_rows", None, &spec, pack.bytes(), [n as u32, 1, 1]);
    let halves = lab.buffer(&vec![0xff; 2 * m * k]);
    let decodes = by == ManyRows::Group(WeightSource::Halves) && !policy::lies_as_halves(format);
    if decodes {
        decode(lab, format, (m, k), (w.address(), halves.address()), soa);
    }
    let product = push::GemmRows {
        w: if decodes { halves.address() } else { w.address() },
        bias: bias.address(),
        x: codes.address(),
        scales: scales.address(),
        y: y.address(),
        tables: lab.codebooks.address(),
        k: k as u32,
        m: m as u32,
        n: n as u32,
        y_stride: m as u32,
        flags: 1,
        scale: 1.0,
        ..Default::default()
    };
    let mut spec = [tile.spec(soa || decodes, (m, k)), vec![("EPILOGUE", epilogue)]].concat();
    spec.extend(case.constants);
    let grid = [m.div_ceil(tile.outputs()) as u32, n.div_ceil(tile.rows()) as u32, 1];
    let stem = if decodes { "f16" } else { format.stem };
    lab.run_one(by.kernel(), Some(stem), &spec, product.bytes(), grid);
    let mut found = vec![0f32; n * m];
    y.read(0, bytemuck::cast_slice_mut(&mut found));
    error(&found, &truth, scale)
}

/// Leaves the halves of a matrix.
fn decode(lab: &mut Lab, format: &Format, (m, k): (usize, usize), (w, y): (u64, u64), soa: bool) {
    let push = push::DecodeWeights { w, y, tables: lab.codebooks.address(), k: k as u32, m: m as u32 };
    let groups = (m * k).div_ceil(policy::matrix::chunk_len(format) * policy::DECODE_CHUNKS);
    // Of two, as where there are more than a device has in one.
    let grid = [groups.div_ceil(2) as u32, 2, 1];
    lab.run_one("decode_weights", Some(format.stem), &[("SOA", u32::from(soa))], push.bytes(), grid);
}

/// Rows of several workgroups, the last of them half empty.
#[test]
fn decoded_weights_are_the_halves_of_the_formats_own() {
    let Some(mut lab) = Lab::open() else { return };
    for format in all().filter(|f| pumex_shaders::kernels::Formats::Halves.includes(f.stem, f.block_len)) {
        let (m, k) = (37, 3 * format.block_len.max(64));
        for soa in [false, true].into_iter().filter(|soa| *soa || !format.is_expanded()) {
            let (bytes, w) = lab.weights(format, m, k);
            let rows = bytes.chunks(format.row_bytes(k).unwrap());
            let laid = if soa { rows.flat_map(|r| format.soa(r)).collect() } else { bytes };
            let (w_at, y) = (lab.buffer(&laid), lab.buffer(&vec![0xff; 2 * m * k]));
            decode(&mut lab, format, (m, k), (w_at.address(), y.address()), soa);
            let mut found = vec![0u8; 2 * m * k];
            y.read(0, &mut found);
            let found = found.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32());
            let wrong = found.zip(&w).filter(|(found, w)| (found - **w).abs() > w.abs() / 1024.0 + 1e-7).count();
            assert_eq!(wrong, 0, "{} soa {soa}", format.stem);
        }
    }
    crate::util::assert_silent_on(&lab.device);
}

/// The tile that a case is to be tried with.
fn tile_of(caps: &Caps, by: ManyRows, format: &Format, case: Case) -> RowTile {
    let one = case.soa || format.is_expanded() || case.wide > 1;
    let tile = policy::row_tile(caps, by, format, 64);
    let staged = tile.staged.map(|staged| StagedTile { buffers: if one { 1 } else { staged.buffers }, ..staged });
    if let ManyRows::Group(_) = by {
        return tile;
    }
    RowTile { wide: case.wide, staged, ..tile }
}

/// Whether a device's kernel takes a format where it is forced: matrices of bytes may have more inputs than a scale is for.
fn takes(caps: &Caps, by: ManyRows, format: &Format) -> bool {
    let asked = PackedRowsRequest { forced: Some(by), activations: ActivationQuant::Q8 };
    let built = pumex_shaders::kernels::find(by.kernel()).unwrap().formats.includes(format.stem, format.block_len);
    built && policy::many_rows(caps, &[format], 64, asked) == Some(by)
}

/// Whether a device has what a kernel needs; told if it has not.
fn runs(by: ManyRows, caps: &Caps) -> bool {
    let lacking = kernel::lacking(pumex_shaders::kernels::find(by.kernel()).unwrap().needs, caps);
    lacking.iter().for_each(|what| eprintln!("skipped: {} lacks {what}, for {}", caps.name, by.kernel()));
    lacking.is_none()
}

/// Inputs of two chunks and more, and outputs and rows that fill no tile, or just one and an eighth.
#[test]
fn products_of_many_packed_rows_are_right_for_every_format_and_edge_shape() {
    let Some(mut lab) = Lab::open() else { return };
    let mut wrong = Vec::new();
    let caps = lab.device.caps().clone();
    for (by, bound) in BOUNDS {
        if !runs(by, &caps) {
            continue;
        }
        assert!(all().any(|f| takes(&caps, by, f)), "{by:?}");
        for (at, format) in all().filter(|f| takes(&caps, by, f)).enumerate() {
            let one = format.block_len.max(64);
            let odd = at % 2 == 1;
            let case = Case { m: 75, k: 3 * one, n: 37, wide: 1, soa: odd, norm: false, epilogue: 0, constants: &[] };
            let mut cases = vec![Case { epilogue: at as u32 % 3, norm: at % 4 == 1, ..case }];
            if exhaustive() && in_turn(at, 3) {
                let more = Case { soa: !odd, m: 1, n: 9, ..case };
                cases.extend([
                    more,
                    Case { epilogue: 1, norm: true, ..more },
                    Case { epilogue: 2, n: 64, m: 64, ..more },
                ]);
                cases.push(Case { wide: 2, n: 70, ..case });
            } else if at % 16 == 3 {
                cases.push(Case { wide: 2, n: 70, ..case });
            }
            let held = |case: &Case| tile_of(&caps, by, format, *case).shared_bytes(format);
            cases.retain(|case| held(case) <= caps.max_shared_bytes as usize);
            if by == ManyRows::Dot && (exhaustive() && in_turn(at, 3) || at % 8 == 4) {
                cases.push(Case { constants: &[("SIGNED_DOTS", 1)], ..case });
            }
            for case in cases {
                let error = error_of(&mut lab, by, format, case);
                println!("{} {by:?} {case:?}: {error:.1e}", format.stem);
                if error >= bound {
                    wrong.push(format!("{} {by:?} {case:?}: {error:e}", format.stem));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    crate::util::assert_silent_on(&lab.device);
}

/// A single layer, before which all is rounded alike, so that rows choose the same experts.
#[test]
fn packed_rows_of_one_expert_together_give_what_each_gives_for_itself() {
    let tiny = synthetic::find("tiny-moe").unwrap();
    // Bytes are rounded differently together and alone on devices whose single rows go by other kernels than llvmpipe's.
    for (by, bound) in BOUNDS.map(|(by, _)| (by, if by.bits() == 8 { 1e-4 } else { 2e-5 })) {
        let shape = synthetic::Shape { n_layer: 1, n_embd: 512, n_vocab: 640, experts: Some((16, 4, 256)), ..*tiny };
        let gguf = shape.model(recipe::find("Q4_K_M").unwrap()).unwrap();
        let run = |fuse| {
            let activations = if by.bits() == 8 { ActivationQuant::Q8 } else { ActivationQuant::Q16 };
            let debug = Debug { fuse, many_rows: Some(by), megakernel: Some(false), ..Debug::default() };
            let usual = options(CacheType::F32);
            let options = Options { debug, activations: Some(activations), max_rows: 300, n_ctx: Some(512), ..usual };
            let mut runner = vulkan(&gguf, options).filter(|runner| runs(by, runner.vk().caps()))?;
            let ids: Vec<u32> = (0..400).map(|i| (i * 37 + 5) % 640).collect();
            let mut all = Vec::new();
            for (from, to) in [(0, 33), (33, 133), (133, 400)] {
                all.extend(runner.run(&rows(0, from, &ids[from..to]), Want::Logits).unwrap().logits);
            }
            assert_silent(&runner);
            Some(all)
        };
        let (Some(together), Some(unfused)) = (run(true), run(false)) else { continue };
        let error = nmse(&together, &unfused);
        println!("{by:?}: NMSE {error:.2e}");
        assert!(error < bound, "{by:?}: NMSE {error:e}");
    }
}
