//! Speed of recurrences over a prompt, row by row and by windows of rows.
//!
//! usage: `scans [ROWS] [cpu|vulkan] [NAME]`; prints, per shape, microseconds of a layer in a step of that many rows of a sequence, and in
//! a step of one, with the GB/s at which that one reads and writes the state.

use pumex::cpu::{Fast, FastSettings, RunnerSizes};
use pumex::engine::{self, CacheType, Debug, DeviceChoice, Options, VulkanRunner};
use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::Gguf;
use pumex::plan::{
    Act, Arg, Builder, Cols, General, Join, LayerState, Plan, RecurrentSpec, Scan, ScanKind, Val, Weight, WeightInfo,
};
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use std::time::Instant;

type Fault = Box<dyn std::error::Error>;

/// Ids of the embedding that the columns of a scan come from.
const VOCAB: usize = 64;
/// Layers of the longer of two plans, whose difference is what counts.
const LAYERS: usize = 9;
/// Steps of which the fastest counts.
const STEPS: usize = 7;

/// A model's recurrence: name, kind, heads, columns of values and keys, groups of keys, whether it fades column by column.
type ScanShape = (&'static str, ScanKind, usize, usize, usize, usize, bool);

const SHAPES: [ScanShape; 5] = [
    ("qwen3next-80b", ScanKind::Delta, 32, 128, 128, 16, false),
    ("kimi-linear-48b", ScanKind::Delta, 32, 128, 128, 32, true),
    ("granite-4-h-small", ScanKind::Mamba, 128, 64, 128, 1, false),
    ("falcon-h1-7b", ScanKind::Mamba, 24, 128, 256, 1, false),
    ("mamba-2.8b (one by one)", ScanKind::Mamba, 5120, 1, 16, 1, true),
];

/// Numbers that look random, around 0.
fn noise(len: usize, size: f32) -> impl Iterator<Item = f32> {
    let mut state = 1u64;
    (0..len).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        size * ((state >> 40) as f32 / (1 << 23) as f32 - 1.0)
    })
}

/// A model of `layers` scans of the same columns.
fn model((_, kind, heads, v_dim, k_dim, groups, by_column): ScanShape, layers: usize) -> Result<(Gguf, Plan), Fault> {
    let (keys, values, per) = (groups * k_dim, heads * v_dim, if by_column { k_dim } else { 1 });
    let mamba = kind == ScanKind::Mamba;
    let fades = if mamba { 0 } else { heads * per };
    let width = (2 * keys + values + fades + heads).next_multiple_of(4);
    let f32s = pumex_quant::all().find(|f| f.name == "F32").ok_or("no format F32")?;
    let factors = if mamba { heads * per } else { 4 };
    let tensors: [(&str, Vec<u64>, Vec<f32>); 2] = [
        ("embd", vec![width as u64, VOCAB as u64], noise(VOCAB * width, 1.0 / (k_dim as f32).sqrt()).collect()),
        ("factors", vec![factors as u64], noise(factors, 0.5).map(|x| x - 0.5).collect()),
    ];
    let entry = |(name, dims, data): &(&str, Vec<u64>, Vec<f32>)| Entry {
        name: (*name).into(),
        dims: dims.clone(),
        type_id: f32s.ggml_id,
        len_bytes: 4 * data.len() as u64,
    };
    let mut bytes = header(std::iter::empty(), &tensors.iter().map(entry).collect::<Vec<_>>(), ALIGNMENT);
    for (_, _, data) in &tensors {
        bytes.extend(data.iter().flat_map(|x| x.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
    }
    let info =
        |tensor: usize, rows, cols| WeightInfo { name: tensors[tensor].0.into(), tensor, rows, cols, format: f32s };
    let mut b = Builder::new(vec![info(0, VOCAB, width), info(1, 1, factors)]);
    let x = b.embed(Weight(0));
    let cols = |val: Val, at: usize, stride: usize| Cols { val, at, stride };
    let rate = cols(b.parts("rate", heads), 0, 1);
    let steps = Arg::Cols(cols(x, 2 * keys + values + fades, 0));
    b.map_into(rate, (1, heads), (Act::Sigmoid, steps, 1.0), (Join::Add, Arg::Number(0.0)));
    let decay = cols(b.parts("decay", fades.max(1)), 0, per);
    if fades > 0 {
        let from = Arg::Cols(cols(x, 2 * keys + values, 0));
        b.map_into(decay, (1, fades), (Act::Softplus, from, -0.1), (Join::Add, Arg::Number(0.0)));
    }
    let out = b.parts("out", values);
    for layer in 0..layers {
        b.general(General::Scan(Scan {
            kind,
            heads,
            v_dim,
            k_dim,
            groups,
            tiled: false,
            q: cols(x, 0, k_dim),
            k: cols(x, keys, k_dim),
            v: cols(x, 2 * keys, v_dim),
            decay: (!mamba).then_some(decay),
            decay_per_column: by_column && !mamba,
            rate: Some(rate),
            a: None,
            b: None,
            factor: mamba.then_some(Weight(1)),
            soft: None,
            skip: None,
            scale: 1.0,
            layer,
            at: 0,
            out: cols(out, 0, v_dim),
        }));
    }
    let state = RecurrentSpec { parts: vec![("state", vec![heads, v_dim, k_dim])] };
    let plan = b.finish("scans", out, vec![LayerState::Recurrent(state); layers], Vec::new(), 4096);
    Ok((Gguf::from_static("scans.gguf", bytes.leak())?, plan))
}

/// Seconds of a step of so many rows that goes on with a sequence, the fastest.
fn time(runner: &mut dyn Runner, rows: usize) -> Result<f64, Fault> {
    let (mut best, mut pos) = (f64::INFINITY, 0);
    for _ in 0..STEPS {
        let row = |i: usize| {
            let output = if i + 1 == rows { RowOutput::Id } else { RowOutput::None };
            Row {
                seq: 0,
                pos: (pos + i) as u32,
                token: Token::Id(((pos + i) * 7 % VOCAB) as u32),
                output,
                medium: None,
            }
        };
        let all: Vec<Row> = (0..rows).map(row).collect();
        let begun = Instant::now();
        runner.run(&all, Want::Ids)?;
        best = best.min(begun.elapsed().as_secs_f64());
        pos += rows;
        if pos + rows > 4096 {
            runner.forget(0, 0);
            pos = 0;
        }
    }
    Ok(best)
}

/// Microseconds of a layer of a shape in steps of each of `rows`.
fn layer<const N: usize>(shape: ScanShape, rows: [usize; N], on_cpu: bool, chunks: bool) -> Result<[f64; N], Fault> {
    let mut seconds = [[0.0; N]; 2];
    for (seconds, layers) in seconds.iter_mut().zip([LAYERS, 1]) {
        let (gguf, plan) = model(shape, layers)?;
        let most = rows.into_iter().max().unwrap_or(1);
        let mut runner: Box<dyn Runner + '_> = if on_cpu {
            let half = || Elements::Floats(Float::F16);
            let sizes =
                RunnerSizes { n_ctx: 4096, n_seqs: 1, max_rows: most, cache_positions: None, k: half(), v: half() };
            Box::new(Fast::new(&gguf, plan, sizes, &FastSettings::default())?)
        } else {
            let options = Options {
                device: DeviceChoice::Vulkan,
                n_ctx: Some(4096),
                max_rows: most as u32,
                cache_type_k: Some(CacheType::F16),
                debug: Debug { chunks: Some(chunks), ..Debug::default() },
                ..Options::default()
            };
            let device = engine::device(&options)?.ok_or("no Vulkan device")?;
            Box::new(VulkanRunner::new(&gguf, plan, device, &options, &mut |_, _| ())?)
        };
        for (seconds, rows) in seconds.iter_mut().zip(rows) {
            runner.forget(0, 0);
            *seconds = time(runner.as_mut(), rows)?;
        }
    }
    Ok(std::array::from_fn(|i| 1e6 * (seconds[0][i] - seconds[1][i]) / (LAYERS - 1) as f64))
}

fn main() -> Result<(), Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rows = args.iter().find_map(|a| a.parse().ok()).unwrap_or(512);
    let on_cpu = args.iter().any(|a| a == "cpu");
    let named: Vec<&String> =
        args.iter().filter(|a| !matches!(a.as_str(), "cpu" | "vulkan") && a.parse::<usize>().is_err()).collect();
    for shape in SHAPES.into_iter().filter(|shape| named.iter().all(|name| shape.0.contains(name.as_str()))) {
        let [many, one] = layer(shape, [rows, 1], on_cpu, true)?;
        let plain = if on_cpu { rows as f64 * one } else { layer(shape, [rows], on_cpu, false)?[0] };
        let (name, _, heads, v_dim, k_dim, ..) = shape;
        let gbs = 8e-3 * (heads * v_dim * k_dim) as f64 / one;
        let times = plain / many;
        println!("{name}: {rows} rows by windows {many:.1} us, one by one {plain:.1} us ({times:.1} x); 1 row {one:.1} us, {gbs:.0} GB/s");
    }
    Ok(())
}
