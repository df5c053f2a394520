//! Speed of the GEMV for every weight format, shape and tile: finds the tiles of the policy.
//!
//! usage: sweep [FORMAT,...|all] [ROWS_OF_X,...]; prints, per format and shape, the best tile and what the policy's reaches.

use pumex::engine::bandwidth;
use pumex::kernel::Kernels;
use pumex::policy::gemv_tile;
use pumex::vk::{self, Class, Device, Uploader};
use pumex_quant::{Format, FORMATS};

/// Outputs and inputs of the matrices.
const SHAPES: [(usize, usize); 3] = [(4096, 4096), (14336, 4096), (128_256, 4096)];
/// Bytes that a round of launches reads at least, so that no cache holds them.
const ROUND_BYTES: usize = 400 << 20;
/// Rounds: the first bring the clock up from idle, the best of all counts.
const ROUNDS: usize = 60;

type Fault = Box<dyn std::error::Error>;

struct Bench {
    device: Device,
    kernels: Kernels,
}

impl Bench {
    /// Microseconds of one launch in a row of them over copies of the matrix.
    fn time(
        &mut self,
        f: &Format,
        (m, k): (usize, usize),
        n: usize,
        tile: (u32, u32),
        w: &vk::Buffer,
    ) -> Result<f64, Fault> {
        let bytes = m * k / f.block_len * f.block_bytes;
        let copies = (w.len_bytes() as usize / bytes.next_multiple_of(256)).max(1);
        let x = self.device.buffer("x", (n * k * 4) as u64, Class::Scratch)?;
        let y = self.device.buffer("y", (n * m * 4) as u64, Class::Scratch)?;
        let spec = [("SIZE", tile.0), ("ROWS", tile.1), ("COLS", n as u32), ("GATED", 0), ("ADD", 0)];
        let pipeline = self.kernels.get("gemv", Some(f.stem), &spec)?;
        let mut recorder = self.device.recorder()?;
        for copy in 0..copies {
            let at = w.address() + (copy * bytes.next_multiple_of(256)) as u64;
            let mut push: Vec<u8> = Vec::new();
            [at, 0, 0, 0, 0, 0, x.address(), y.address(), w.address()]
                .iter()
                .for_each(|a| push.extend(a.to_le_bytes()));
            [k, m, m, m, m, 0, 0].iter().for_each(|v| push.extend((*v as u32).to_le_bytes()));
            push.resize(104, 0);
            recorder.dispatch(&pipeline, &push, [(m as u32).div_ceil(tile.1), 1, 1]);
            recorder.barrier();
        }
        [&x, &y, w].iter().for_each(|b| recorder.keep(b));
        let recording = recorder.finish()?;
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let value = self.device.submit(&recording)?;
            self.device.wait(value)?;
            best = best.min(self.device.gpu_us(&recording).unwrap_or(f64::INFINITY));
        }
        Ok(best / copies as f64)
    }
}

fn main() -> Result<(), Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wanted = args.first().map_or("all", String::as_str);
    let rows = args.get(1).map_or("1", String::as_str).split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    let device = Device::open(&vk::Options::default())?;
    let speed = bandwidth::measure(&device)?;
    println!("{}: read {:.0} GB/s, copy {:.0} GB/s", device.caps().name, speed.read / 1e9, speed.copy / 1e9);
    let mut bench = Bench { kernels: Kernels::new(&device), device };
    println!("format\tm\tk\tn\tpolicy\tus\tGB/s\tbest\tus\tGB/s\tshare of read");
    for f in FORMATS.iter().filter(|f| wanted == "all" || wanted.split(',').any(|w| w == f.stem)) {
        for shape in SHAPES {
            let bytes = shape.0 * shape.1 / f.block_len * f.block_bytes;
            let copies = ROUND_BYTES.div_ceil(bytes);
            let w = bench.device.buffer("w", (copies * bytes.next_multiple_of(256)) as u64, Class::Weights)?;
            if args.get(2).is_some() {
                let noise: Vec<u8> = (0..w.len_bytes()).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
                let mut uploader = Uploader::new(&bench.device, 64 << 20)?;
                uploader.write(&w, 0, &noise)?;
                uploader.finish()?;
            }
            for n in &rows {
                let policy = gemv_tile(bench.device.caps(), f, shape.0, shape.1, *n);
                let policy = (policy.size, policy.rows);
                let at_policy = bench.time(f, shape, *n, policy, &w)?;
                let mut best = (at_policy, policy);
                for size in [32, 64, 128, 256] {
                    for rows in [1, 2, 4, 8] {
                        if rows * *n as u32 <= 16 && (size, rows) != policy {
                            let us = bench.time(f, shape, *n, (size, rows), &w)?;
                            best = if us < best.0 { (us, (size, rows)) } else { best };
                        }
                    }
                }
                let rate = |us: f64| bytes as f64 / us / 1e3;
                let (m, k) = shape;
                println!(
                    "{}\t{m}\t{k}\t{n}\t{policy:?}\t{at_policy:.1}\t{:.0}\t{:?}\t{:.1}\t{:.0}\t{:.1}%",
                    f.name,
                    rate(at_policy),
                    best.1,
                    best.0,
                    rate(best.0),
                    100.0 * rate(best.0) * 1e9 / speed.read
                );
            }
        }
    }
    Ok(())
}
