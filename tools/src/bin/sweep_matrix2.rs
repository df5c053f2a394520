//! Speed of products of many packed rows by matrices that workgroups hold, for every tile.
//!
//! usage: `sweep_matrix2 [FORMAT,...] [ROWS,...] [OUTPUTSxINPUTS,...]`; prints TFLOP/s of each tile, of the decoding of weights to
//! halves, and of `gemm_mat`.

use pumex::exec::fragment_layout;
use pumex::kernel::Kernels;
use pumex::policy::{self, matrix, ActivationQuant, GemmFusion, GroupTile, WeightSource};
use pumex::vk::{self, Buffer, Class, Device, Pipeline};
use pumex_quant::{all, Format};
use pumex_shaders::block::Block;
use pumex_shaders::push;
use std::time::{Duration, Instant};

type Fault = Box<dyn std::error::Error>;

const WARM_UP: Duration = Duration::from_millis(150);
const LAUNCHES: usize = 8;

/// Threads, outputs, rows and inputs at a time.
type Tile = (u32, u32, u32, u32);
const SOURCES: [(WeightSource, &[Tile]); 3] = [
    (
        WeightSource::Halves,
        &[
            (256, 128, 256, 64),
            (256, 128, 256, 32),
            (256, 128, 128, 64),
            (256, 128, 128, 32),
            (256, 256, 128, 64),
            (256, 256, 128, 32),
            (256, 256, 256, 32),
            (128, 128, 128, 64),
            (128, 128, 128, 32),
            (128, 128, 64, 64),
            (128, 64, 128, 64),
            (256, 64, 256, 64),
        ],
    ),
    (WeightSource::Load, &[(256, 128, 256, 64), (256, 128, 128, 64)]),
    (WeightSource::Shared, &[(256, 128, 256, 128), (256, 128, 128, 128), (128, 128, 128, 128), (256, 64, 256, 128)]),
];

struct Bench {
    device: Device,
    kernels: Kernels,
    tables: Buffer,
}

impl Bench {
    /// Microseconds of a launch, the best of many.
    fn time(&self, pipeline: &Pipeline, push: &[u8], grid: [u32; 3], kept: &[&Buffer]) -> Result<f64, Fault> {
        let mut recorder = self.device.recorder()?;
        for _ in 0..LAUNCHES {
            recorder.dispatch(pipeline, push, grid);
            recorder.barrier();
        }
        kept.iter().for_each(|b| recorder.keep(b));
        let recording = recorder.finish()?;
        let (mut best, mut rounds, begun) = (f64::INFINITY, 0, Instant::now());
        while rounds < 10 || begun.elapsed() < WARM_UP {
            rounds += 1;
            let value = self.device.submit(&recording)?;
            self.device.wait(value)?;
            best = best.min(self.device.gpu_us(&recording).unwrap_or(f64::INFINITY));
        }
        Ok(best / LAUNCHES as f64)
    }

    fn shape(&self, f: &Format, n: usize, (m, k): (usize, usize)) -> Result<(), Fault> {
        let rows = n.next_multiple_of(256);
        let buffer = |name: &str, bytes: usize| self.device.buffer(name, bytes as u64, Class::Scratch);
        let (w, halves) = (buffer("w", m * f.soa_bytes(k))?, buffer("halves", 2 * m * k)?);
        let (x, y, scales) = (buffer("x", 2 * rows * k)?, buffer("y", 4 * rows * m)?, buffer("scales", 4 * rows)?);
        let kept = [&w, &halves, &x, &y, &scales, &self.tables];
        let flops = 2.0 * (m * n * k) as f64;
        let tell = |what: String, us: f64| {
            println!("{}\t{m}\t{k}\t{n}\t{what}\t{us:.1} us\t{:.1} TFLOP/s", f.stem, flops / us / 1e6)
        };

        let tables = self.tables.address();
        let push = push::DecodeWeights { w: w.address(), y: halves.address(), tables, k: k as u32, m: m as u32 };
        let decode = self.kernels.get("decode_weights", Some(f.stem), &[("SOA", 1)])?;
        let groups = (m * k).div_ceil(matrix::chunk_len(f) * policy::DECODE_CHUNKS);
        let us = self.time(&decode, &push.bytes(), [groups as u32, 1, 1], &kept)?;
        println!("{}\t{m}\t{k}\tdecode\t{us:.1} us\t{:.0} GB/s written", f.stem, 2.0 * (m * k) as f64 / us / 1e3);

        if let Some(held) = fragment_layout(&self.device, &self.kernels)? {
            let activations = ActivationQuant::Q8;
            let extras = GemmFusion { gated: false, add: false, norm: false, soa: true, activations };
            let tile = matrix::mat_tile(self.device.caps(), held.direct, f, (m, n), extras);
            let pipeline = self.kernels.get(tile.kernel, Some(f.stem), &tile.spec(k, extras))?;
            let push = push::Gemv {
                w0: w.address(),
                x: x.address(),
                y: y.address(),
                tables,
                norm: scales.address(),
                k: k as u32,
                m0: m as u32,
                m01: m as u32,
                m: m as u32,
                y_stride: m as u32,
                flags: (n as u32) << 8,
                ..push::Gemv::default()
            };
            let grid = [tile.groups, n.div_ceil(tile.columns()) as u32, 1];
            tell("gemm_mat".into(), self.time(&pipeline, &push.bytes(), grid, &kept)?);
        }

        let decoded = if f.block_len == 1 { &SOURCES[..1] } else { &SOURCES[..] };
        for (source, tiles) in decoded {
            let (from, stem) = if *source == WeightSource::Halves { (&halves, "f16") } else { (&w, f.stem) };
            let push = push::GemmRows {
                w: from.address(),
                x: x.address(),
                scales: scales.address(),
                y: y.address(),
                tables,
                k: k as u32,
                m: m as u32,
                n: n as u32,
                y_stride: m as u32,
                scale: 1.0,
                ..push::GemmRows::default()
            };
            let runs: &[u32] = if *source == WeightSource::Load { &[0] } else { &[0, 1, 2, 4, 8] };
            for ((size, outputs, rows, step), run) in tiles.iter().flat_map(|tile| runs.iter().map(|run| (*tile, *run)))
            {
                let tile = GroupTile { size, outputs, rows, step, source: *source, run };
                let spec = [tile.spec((m, k)), vec![("SOA", 1)]].concat();
                let grid = [(m as u32).div_ceil(outputs), (n as u32).div_ceil(rows), 1];
                let what = format!("{source:?} {size} {outputs}x{rows}x{step} run {run}");
                match self.kernels.get("gemm_matrix2", Some(stem), &spec) {
                    Ok(pipeline) => tell(what, self.time(&pipeline, &push.bytes(), grid, &kept)?),
                    Err(e) => println!("{what}: {e}"),
                }
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let list = |at: usize, usual: &str| {
        args.get(at).map_or(usual, String::as_str).split(',').map(String::from).collect::<Vec<_>>()
    };
    let device = Device::open(&vk::Options::default())?;
    println!("{}", device.caps().name);
    let packed: Vec<u8> = pumex_quant::tables::pack_all().iter().flat_map(|w| w.to_le_bytes()).collect();
    let tables = device.buffer("tables", packed.len() as u64, Class::Weights)?;
    vk::send(&device, &tables, &packed)?;
    let bench = Bench { kernels: Kernels::new(&device), device, tables };
    for f in all().filter(|f| list(0, "q4_k").iter().any(|w| w == f.stem)) {
        for shape in list(2, "14336x4096") {
            let (m, k) = shape.split_once('x').ok_or("expected OUTPUTSxINPUTS")?;
            for n in list(1, "512") {
                bench.shape(f, n.parse()?, (m.parse()?, k.parse()?))?;
            }
        }
    }
    Ok(())
}
