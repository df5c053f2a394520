//! Speed of the GEMV for every weight format, shape and tile: finds the tiles of the policy.
//!
//! usage: `sweep [FORMAT,...|all] [ROWS_OF_X,...] [plain|some|roles|policy,...] [q16|q8]`; prints, per format and shape, the
//! best tile and what the policy's reaches; `policy` tries no other, `some` wide ones of the two larger shapes. `roles` are
//! the products of an 8B model as a token needs them, with norms, gates and sums.

use pumex::engine::bandwidth;
use pumex::exec::fragment_layout;
use pumex::kernel::Kernels;
use pumex::policy::matrix::{self, MatTile};
use pumex::policy::{self, ActivationQuant, GemmFusion, GemvTile};
use pumex::sample::rng::Rng;
use pumex::vk::{self, Class, Device};
use pumex_quant::{all, Format};
use std::time::{Duration, Instant};

/// A product: outputs, inputs, what it does beside multiplying.
type ProductShape = (usize, usize, GemmFusion);

/// A product with plain weights, the way they lie on a discrete device.
const PLAIN: GemmFusion =
    GemmFusion { gated: false, add: false, norm: false, soa: true, activations: ActivationQuant::Q16 };
const NORM: GemmFusion = GemmFusion { norm: true, ..PLAIN };
const ADD: GemmFusion = GemmFusion { add: true, ..PLAIN };
const GATED: GemmFusion = GemmFusion { gated: true, ..NORM };
const SHAPES: [ProductShape; 3] = [(4096, 4096, PLAIN), (14336, 4096, PLAIN), (128_256, 4096, PLAIN)];
const ROLES: [ProductShape; 5] =
    [(6144, 4096, NORM), (4096, 4096, ADD), (14336, 4096, GATED), (4096, 14336, ADD), (128_256, 4096, NORM)];

/// Bytes that a round of launches reads at least, so that no cache holds them.
const ROUND_BYTES: usize = 400 << 20;
/// Rounds: the first bring the clock up from idle, the best of all counts.
const ROUNDS: usize = 60;
/// Least time of them: while a pipeline is built, clocks fall.
const WARM_UP: Duration = Duration::from_millis(150);

/// Bytes of them that are random each.
const RANDOM_BYTES: u64 = 4 << 20;

type Fault = Box<dyn std::error::Error>;

struct Bench {
    device: Device,
    kernels: Kernels,
    tables: vk::Buffer,
}

impl Bench {
    /// Microseconds of one launch in a row of them over copies of the matrix.
    fn time(
        &mut self,
        f: &Format,
        shape: ProductShape,
        n: usize,
        tile: &GemvTile,
        w: &vk::Buffer,
    ) -> Result<f64, Fault> {
        let mut spec = tile.spec(shape.1, n, shape.2);
        spec.extend(tile.whole_rows(std::iter::once(shape.0)));
        let pipeline = self.kernels.get(tile.kernel, Some(f.stem), &spec)?;
        self.time_of(f, shape, n, (&pipeline, [tile.groups, 1, 1], 0), w)
    }

    /// Microseconds of one launch by cooperative matrices, with packed activations, in a row of launches over copies of the matrix.
    fn time_mat(
        &mut self,
        f: &Format,
        shape: ProductShape,
        n: usize,
        tile: &MatTile,
        w: &vk::Buffer,
    ) -> Result<f64, Fault> {
        let pipeline = self.kernels.get(tile.kernel, Some(f.stem), &tile.spec(shape.1, shape.2))?;
        let grid = [tile.groups, n.div_ceil(tile.columns()) as u32, 1];
        self.time_of(f, shape, n, (&pipeline, grid, n << 8), w)
    }

    fn time_of(
        &mut self,
        f: &Format,
        (m, k, extras): ProductShape,
        n: usize,
        (pipeline, grid, flags): (&vk::Pipeline, [u32; 3], usize),
        w: &vk::Buffer,
    ) -> Result<f64, Fault> {
        let bytes = m * f.soa_bytes(k);
        let step = bytes.next_multiple_of(256);
        let parts = if extras.gated { 2 } else { 1 };
        let copies = (w.len_bytes() as usize / (parts * step)).max(1);
        let x =
            self.device.buffer("x", (n.next_multiple_of(64) * k.next_multiple_of(512) * 4) as u64, Class::Scratch)?;
        let y = self.device.buffer("y", (n * m * 4) as u64, Class::Scratch)?;
        let mut recorder = self.device.recorder()?;
        for copy in 0..copies {
            let at = w.address() + (copy * parts * step) as u64;
            let mut push: Vec<u8> = Vec::new();
            [at, at + step as u64, 0, 0, 0, 0, x.address(), y.address(), self.tables.address(), x.address()]
                .iter()
                .for_each(|a| push.extend(a.to_le_bytes()));
            [k, m, m, m, m, flags].iter().for_each(|v| push.extend((*v as u32).to_le_bytes()));
            push.resize(120, 0);
            recorder.dispatch(pipeline, &push, grid);
            recorder.barrier();
        }
        [&x, &y, w, &self.tables].iter().for_each(|b| recorder.keep(b));
        let recording = recorder.finish()?;
        let (mut best, mut round, begun) = (f64::INFINITY, 0, Instant::now());
        while round < ROUNDS || begun.elapsed() < WARM_UP {
            round += 1;
            let value = self.device.submit(&recording)?;
            self.device.wait(value)?;
            best = best.min(self.device.gpu_us(&recording).unwrap_or(f64::INFINITY));
        }
        Ok(best / copies as f64)
    }
}

impl Bench {
    /// Prints every way to run the shape by cooperative matrices, the policy's first.
    fn matrices(
        &mut self,
        f: &Format,
        shape: ProductShape,
        n: usize,
        (w, only_policy): (&vk::Buffer, bool),
    ) -> Result<(), Fault> {
        let ((m, k, extras), caps) = (shape, self.device.caps().clone());
        let direct = fragment_layout(&self.device, &self.kernels)?.is_some_and(|held| held.direct);
        let chosen = matrix::mat_tile(&caps, direct, f, (m, n), extras);
        let parts = if extras.gated { 2 } else { 1 };
        let mut tiles = vec![chosen];
        let few = chosen.kernel == "gemm_few";
        for subgroups in [4, 8].into_iter().filter(|s| !only_policy && (few || *s <= chosen.size / 32)) {
            for split in [1, 2, 4, 8].into_iter().filter(|split| split * parts <= subgroups) {
                let shape = |per_core| (32 * subgroups, split, per_core);
                let tile = |per| matrix::mat_tile_of(&caps, direct, (m, n), shape(per), extras);
                tiles.extend([2, 3, 4, u32::MAX].map(|per| MatTile { turn: chosen.turn, ..tile(per) }));
            }
        }
        tiles.dedup();
        let bytes = (m * f.row_bytes(k).unwrap_or(0) * parts as usize) as f64;
        let mut timed = Vec::new();
        for tile in tiles {
            timed.push((self.time_mat(f, shape, n, &tile, w)?, tile));
        }
        let policy = timed[0];
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (us, t) in std::iter::once(&policy).chain(timed.iter().take(4)) {
            let tile = format!("{} threads split {} in {}", t.size, t.split, t.groups);
            println!("{}\t{m}\t{k}\t{n}\tmat {tile}\t{us:.1} us\t{:.0} GB/s", f.stem, bytes / us / 1e3);
        }
        Ok(())
    }
}

/// Random codes: where all are the same, threads that look them up never meet in a bank.
fn fill(device: &Device, w: &vk::Buffer) -> Result<(), Fault> {
    let mut rng = Rng::new(7);
    let bytes: Vec<u8> = (0..RANDOM_BYTES.min(w.len_bytes())).map(|_| rng.next_below(256) as u8).collect();
    vk::send(device, w, &bytes)?;
    Ok(vk::repeat(device, vec![(w.clone(), bytes.len() as u64, w.len_bytes())])?)
}

/// A tile in a few characters.
fn name(t: &GemvTile) -> String {
    format!("{} {}x{} in {} depth {}", t.kernel, t.size, t.rows, t.groups, t.depth)
}

fn main() -> Result<(), Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wanted = args.first().map_or("all", String::as_str);
    let rows = args.get(1).map_or("1", String::as_str).split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    let device = Device::open(&vk::Options::default())?;
    let speed = bandwidth::measure(&device)?;
    println!("{}: read {:.0} GB/s, copy {:.0} GB/s", device.caps().name, speed.read / 1e9, speed.copy / 1e9);
    let activations = if args.get(3).is_some_and(|a| a == "q16") { ActivationQuant::Q16 } else { ActivationQuant::Q8 };
    let asked = |what: &str| args.get(2).is_some_and(|a| a.split(',').any(|a| a == what));
    let shapes: &[ProductShape] = if asked("roles") { &ROLES } else { &SHAPES };
    let only_policy = asked("policy");
    let only_some = asked("some");
    let shapes = if only_some { &shapes[1..] } else { shapes };
    let packed: Vec<u8> = pumex_quant::tables::pack_all().iter().flat_map(|w| w.to_le_bytes()).collect();
    let tables = device.buffer("tables", packed.len() as u64, Class::Weights)?;
    vk::send(&device, &tables, &packed)?;
    let mut bench = Bench { kernels: Kernels::new(&device), device, tables };
    println!("format\tm\tk\tn\tpolicy\tus\tGB/s\tbest\tus\tGB/s\tshare of read");
    for f in all().filter(|f| wanted == "all" || wanted.split(',').any(|w| w == f.stem)) {
        for shape @ (m, k, extras) in shapes {
            let bytes = m * f.soa_bytes(*k) * if extras.gated { 2 } else { 1 };
            let copies = ROUND_BYTES.div_ceil(bytes);
            let w = bench.device.buffer("w", (copies * bytes.next_multiple_of(256)) as u64, Class::Weights)?;
            fill(&bench.device, &w)?;
            for n in &rows {
                let caps = bench.device.caps().clone();
                if matrix::takes(&caps, f, *n) {
                    bench.matrices(f, *shape, *n, (&w, only_policy))?;
                    if *n > 4 {
                        continue;
                    }
                }
                let chosen = policy::gemv_tile(&caps, f, *m, *k, *n, GemmFusion { activations, ..*extras });
                let at_policy = bench.time(f, *shape, *n, &chosen, &w)?;
                let mut best = (at_policy, chosen);
                let mut tiles: Vec<GemvTile> = Vec::new();
                let plain = [(32, 2), (32, 4), (64, 4), (64, 8), (128, 4)];
                for (size, rows) in plain.into_iter().filter(|_| !extras.norm && f.block_len == 1) {
                    let groups = (*m as u32).div_ceil(rows);
                    let float = policy::float_tile(&caps, f, (*m, *k), *n, extras.gated);
                    tiles.push(GemvTile { size, rows, groups, ..float });
                }
                if let Some(span) = policy::dot_span(&caps, f, *k, *n, activations) {
                    let sizes = [256, 512, 1024].into_iter().filter(|size| !only_some || *size > 256);
                    for (size, rows) in sizes.flat_map(|size| [1, 2, 4].map(|rows| (size, rows))) {
                        let tile = |turns| policy::dot_tile(&caps, (*m, *k), rows, size, turns, span);
                        let all = [1, 2, 4, 8].map(tile);
                        let some = all.into_iter().filter(|t| !only_some && (90..600).contains(&t.groups));
                        let even = [1, 2, 3, 4]
                            .into_iter()
                            .take(if only_some { 2 } else { 4 })
                            .map(|n| GemvTile { groups: n * policy::cores(&caps), ..tile(1) });
                        let some = some.chain(even.into_iter().filter(|t| span == *k && t.groups <= tile(1).groups));
                        let copies = chosen.copies;
                        tiles.extend(
                            some.flat_map(|t| [1, 2].map(|depth| GemvTile { depth, activations, copies, ..t })),
                        );
                    }
                }
                for tile in tiles
                    .into_iter()
                    .filter(|_| !only_policy)
                    .filter(|t| t.rows * *n as u32 * if extras.gated { 2 } else { 1 } <= 16)
                {
                    let us = bench.time(f, *shape, *n, &tile, &w)?;
                    best = if us < best.0 { (us, tile) } else { best };
                }
                let of_file = (m * f.row_bytes(*k).unwrap_or(0) * if extras.gated { 2 } else { 1 }) as f64;
                let rate = |us: f64| of_file / us / 1e3;
                println!(
                    "{}\t{m}\t{k}\t{n}\t{}\t{at_policy:.1}\t{:.0}\t{}\t{:.1}\t{:.0}\t{:.1}%",
                    f.stem,
                    name(&chosen),
                    rate(at_policy),
                    name(&best.1),
                    best.0,
                    rate(best.0),
                    100.0 * rate(best.0) * 1e9 / speed.read
                );
            }
        }
    }
    bench.kernels.save();
    Ok(())
}
