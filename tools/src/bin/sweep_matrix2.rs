//! Speed of products of many packed rows by matrices that workgroups hold, for every tile.
//!
//! usage: `sweep_matrix2 [FORMAT,...] [ROWS,...] [OUTPUTSxINPUTS,...]`; prints TFLOP/s of each tile, of the decoding of weights to
//! halves, and of `gemm_mat`.

use pumex::exec::fragment_layout;
use pumex::kernel::Kernels;
use pumex::policy::matrix;
use pumex::policy::{ActivationQuant, GemmFusion};
use pumex::vk::{self, Buffer, Class, Device, Pipeline};
use pumex_quant::{all, Format};
use std::time::{Duration, Instant};

type Fault = Box<dyn std::error::Error>;

const WARM_UP: Duration = Duration::from_millis(150);
const LAUNCHES: usize = 8;

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

        let chunk = matrix::chunk_len(f);
        let mut push: Vec<u8> = Vec::new();
        [w.address(), halves.address(), self.tables.address()].iter().for_each(|a| push.extend(a.to_le_bytes()));
        [k as u32, m as u32].iter().for_each(|v| push.extend(v.to_le_bytes()));
        let decode = self.kernels.get("decode_weights", Some(f.stem), &[("SOA", 1)])?;
        let groups = (m * k / chunk).div_ceil(64);
        let us = self.time(&decode, &push, [groups as u32, 1, 1], &kept)?;
        println!("{}\t{m}\t{k}\tdecode\t{us:.1} us\t{:.0} GB/s written", f.stem, 2.0 * (m * k) as f64 / us / 1e3);

        if let Some(held) = fragment_layout(&self.device, &self.kernels)? {
            let extras =
                GemmFusion { gated: false, add: false, norm: false, soa: true, activations: ActivationQuant::Q8 };
            let tile = matrix::mat_tile(self.device.caps(), held.direct, f, (m, n), extras);
            let pipeline = self.kernels.get(tile.kernel, Some(f.stem), &tile.spec(k, extras))?;
            let mut push: Vec<u8> = Vec::new();
            [w.address(), 0, 0, 0, 0, 0, x.address(), y.address(), self.tables.address(), scales.address()]
                .iter()
                .for_each(|a| push.extend(a.to_le_bytes()));
            [k, m, m, m, m, n << 8].iter().for_each(|v| push.extend((*v as u32).to_le_bytes()));
            push.resize(120, 0);
            let grid = [tile.groups, n.div_ceil(tile.columns()) as u32, 1];
            tell("gemm_mat".into(), self.time(&pipeline, &push, grid, &kept)?);
        }

        let staged = if f.block_len == 1 { vec![] } else { vec![1, 2] };
        for way in [vec![0], staged].concat() {
            let from = if way == 0 { &halves } else { &w };
            let stem = if way == 0 { "f16" } else { f.stem };
            let mut push: Vec<u8> = Vec::new();
            [from.address(), 0, x.address(), scales.address(), y.address(), self.tables.address(), 0, 0]
                .iter()
                .for_each(|a| push.extend(a.to_le_bytes()));
            [k, m, n, m, 0, 0].iter().for_each(|v| push.extend((*v as u32).to_le_bytes()));
            push.extend(1f32.to_le_bytes());
            push.extend(0u32.to_le_bytes());
            let tiles: &[(u32, u32, u32, u32)] = match way {
                0 => &[
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
                1 => &[(256, 128, 256, 64), (256, 128, 128, 64)],
                _ => &[(256, 128, 256, 128), (256, 128, 128, 128), (128, 128, 128, 128), (256, 64, 256, 128)],
            };
            for (size, tile, rows, step) in tiles.iter().copied() {
                for run in [0, 1, 2, 4, 8] {
                    let whole = u32::from((m as u32).is_multiple_of(tile));
                    let spec = [
                        ("SIZE", size),
                        ("K", k as u32),
                        ("TILE", tile),
                        ("ROWS", rows),
                        ("STEP", step),
                        ("WAY", way),
                        ("RUN", run),
                        ("WHOLE", whole),
                        ("SOA", 1),
                    ];
                    let grid = [(m as u32).div_ceil(tile), (n as u32).div_ceil(rows), 1];
                    match self.kernels.get("gemm_matrix2", Some(stem), &spec) {
                        Ok(pipeline) => tell(
                            format!("way {way} {size} {tile}x{rows}x{step} run {run}"),
                            self.time(&pipeline, &push, grid, &kept)?,
                        ),
                        Err(e) => println!("way {way} {size} {tile}x{rows}x{step} run {run}: {e}"),
                    }
                    if way == 1 {
                        break;
                    }
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
    let packed: Vec<u8> = pumex_quant::tables::packed().iter().flat_map(|w| w.to_le_bytes()).collect();
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
