//! What a driver's compiler makes of the pipelines that a model runs: registers, spills, and instructions by class. The device need
//! not be there where a driver pretends to have it (Mesa's null device, or its shims of kernel drivers): see
//! `benches/archive/other-devices.md`.
//!
//! usage: `compiled NAME TYPE,... [ROWS,...] [FOLDER]`; names as of `pumex bench --synthetic`, types as of `pumex quantize`, `-` for none;
//! `ROWS` are those of steps (`1` and `512` unless told), `x8` eight sequences of a row each. Prints a row for each pipeline, with tabs;
//! `FOLDER` gets the listings. What is about to be built stands on standard error, for drivers that crash.
//!
//! Shares are estimates from the instructions of the loop that counts: of the memory's speed, for what reads weights once; of the
//! rate of dot products or matrices, for tiles of many rows.

use pumex::kernel::Kernels;
use pumex::lower::dump::{explain, DispatchText, DryRun};
use pumex::lower::CacheType;
use pumex::policy;
use pumex::quantize::recipe;
use pumex::vk::{self, Caps, Device, Executable};
use pumex::{model, synthetic};
use pumex_tools::listing::{Counts, Listing};
use std::collections::BTreeMap;
use std::path::Path;

type Fault = Box<dyn std::error::Error>;

/// Tokens in the cache.
const DEPTH: usize = 4096;

/// A pipeline: module and constants by name, and the steps that run it.
type PipelineUses = BTreeMap<(String, Vec<(&'static str, u32)>), Vec<String>>;

/// What estimates take of a card: by what its name has in it, threads for which it has an instruction in a cycle, GHz, GB/s, and
/// cycles of a subgroup for a product of matrices as it has them: of 16 x 16 x 16 halves, of 8 rows on Intel (public figures).
const CARDS: [(&str, f64, f64, f64, f64); 12] = [
    ("GFX1201", 64.0 * 64.0, 2.97, 640.0, 16.0),
    ("GFX1100", 96.0 * 64.0, 2.4, 960.0, 32.0),
    ("NAVI31", 96.0 * 64.0, 2.4, 960.0, 32.0),
    ("STRIX1", 16.0 * 64.0, 2.9, 120.0, 32.0),
    ("NAVI21", 72.0 * 64.0, 2.25, 512.0, 0.0),
    ("NAVI10", 40.0 * 64.0, 1.9, 448.0, 0.0),
    ("VEGA10", 64.0 * 64.0, 1.5, 484.0, 0.0),
    ("A770", 32.0 * 128.0, 2.1, 560.0, 16.0),
    ("B580", 20.0 * 128.0, 2.67, 456.0, 16.0),
    ("(LNL)", 8.0 * 128.0, 2.05, 136.0, 16.0),
    ("(MTL)", 8.0 * 128.0, 2.25, 120.0, 0.0),
    ("(TGL", 6.0 * 128.0, 1.35, 68.0, 0.0),
];

/// A step of so many rows of one sequence, or (`x8`) of so many sequences.
fn step(name: &str) -> Result<(usize, bool), Fault> {
    let (rows, batch) = name.strip_prefix('x').map_or((name, false), |rows| (rows, true));
    Ok((rows.parse().map_err(|_| format!("{name}: expected rows of a step"))?, batch))
}

/// Adds what a step runs.
fn add(
    found: &mut PipelineUses,
    caps: &Caps,
    plan: &pumex::plan::Plan,
    (label, name): (&str, &str),
) -> Result<(), Fault> {
    let (rows, decode_batch) = step(name)?;
    let run = DryRun {
        plan,
        caps,
        rows,
        decode_batch,
        outputs: if decode_batch { rows } else { 1 },
        cache_types: (CacheType::F16, CacheType::F16),
        len: DEPTH + rows,
        source: false,
    };
    for DispatchText { module, constants, .. } in explain(&run)?.dispatches {
        let steps = found.entry((module, constants)).or_default();
        let step = format!("{label} {name}");
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    Ok(())
}

/// Two shares of what the card can do: of memory's speed, and of its dot products or matrices.
fn shares(caps: &Caps, (module, constants): (&str, &[(&str, u32)]), loops: &Counts) -> [String; 2] {
    let none = || "-".to_string();
    let upper = caps.name.to_ascii_uppercase();
    let Some((_, lanes, ghz, gbs, matrix)) = CARDS.iter().copied().find(|card| upper.contains(card.0)) else {
        return [none(), none()];
    };
    let valu = f64::from(loops.valu + loops.dots);
    // What neighbours load, too, comes from memory once: of products the weights count, four of a dot product.
    let format = module.split_once('.').and_then(|(_, stem)| pumex_quant::all().find(|f| f.stem == stem));
    let columns = constants.iter().find(|(name, _)| *name == "COLS").map_or(1, |(_, n)| *n);
    let weights = |f: &pumex_quant::Format| f64::from(4 * loops.dots / columns) * f64::from(f.bits()) / 8.0;
    let read = format.filter(|_| module.starts_with("gemv_dot")).map_or(f64::from(loops.loaded), weights);
    let by_memory = || {
        let per_second = lanes * ghz * read / valu;
        format!("{:.2}", per_second / gbs)
    };
    let many = module.starts_with("gemm_") || module.starts_with("attn_prefill");
    let useful = f64::from(loops.dots + loops.fmas) + matrix * f64::from(loops.matrices);
    let by_rate = || format!("{:.2}", useful / (valu + matrix * f64::from(loops.matrices)));
    let memory = if many || loops.loaded == 0 || valu == 0.0 { none() } else { by_memory() };
    [memory, if many && useful > 0.0 { by_rate() } else { none() }]
}

/// One row: figures of the driver by any of the names it has for them, then those of the listing.
fn row(caps: &Caps, (module, constants): (&str, &[(&str, u32)]), one: &Executable) -> String {
    let figure = |names: &[&str]| {
        let found = names.iter().find_map(|name| one.statistic(name));
        found.map_or("-".to_string(), |value| format!("{value}"))
    };
    let text = one.texts.iter().find(|(name, _)| name.contains("ssembly"));
    let listing = text.map(|(_, text)| Listing::of(text, one.subgroup_size)).unwrap_or_default();
    let (all, hot) = (listing.all(), listing.hot());
    let [memory, rate] = shares(caps, (module, constants), &hot);
    let mut cells = vec![
        one.subgroup_size.to_string(),
        figure(&["VGPRs", "Max live registers"]),
        figure(&["SGPRs"]),
        figure(&["Spilled VGPRs", "Spills"]),
        figure(&["Spilled SGPRs", "Fills"]),
        figure(&["Scratch size", "Scratch Memory Size"]),
        figure(&["LDS size", "LDS Size", "Workgroup Memory Size"]),
        figure(&["Subgroups per SIMD", "Max Waves", "Max waves"]),
    ];
    for c in [&all, &hot] {
        let of = [c.valu, c.dots, c.matrices, c.fmas, c.loads, c.loaded, c.shared, c.waits, c.scratch];
        cells.extend(of.map(|n| n.to_string()));
    }
    cells.extend([memory, rate]);
    cells.join("\t")
}

fn main() -> Result<(), Fault> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, types, rest @ ..] = args.as_slice() else {
        return Err("usage: compiled NAME TYPE,... [ROWS,...] [FOLDER]".into());
    };
    let steps = rest.first().map_or("1,512", String::as_str);
    let opened = Device::open(&vk::Options { executables: true, ..vk::Options::default() })?;
    let device = opened.with_caps(policy::as_used(opened.caps().clone()));
    let caps = device.caps();
    println!("{} ({:?}), {}", caps.name, policy::DeviceClass::of(caps), caps.driver);
    let mut found = PipelineUses::new();
    let shape = synthetic::find(name).ok_or_else(|| format!("{name}: no such shape"))?;
    for name in types.split(',').filter(|name| *name != "-") {
        let recipe = recipe::find(name).ok_or_else(|| format!("{name}: no such type"))?;
        let plan = model::plan(&shape.blank(recipe)?)?;
        for rows in steps.split(',') {
            add(&mut found, caps, &plan, (name, rows))?;
        }
    }
    // No plan has these yet.
    for (tile, halves) in policy::conv2d_tiles(caps).iter().flat_map(|tile| [0, 1].map(|halves| (tile, halves))) {
        let spec = [tile.spec(), vec![("HALVES", halves), ("BIAS", 1)]].concat();
        found.insert((tile.kernel.into(), spec), vec!["images".into()]);
    }
    let classes = "VALU\tdot\tmatrix\tFMA\tloads\tbytes\tLDS\twaits\tscratch";
    let told = "subgroup\tVGPRs or live\tSGPRs\tspilled V\tspilled S or fills\tscratch\tLDS\twaves";
    println!("pipeline\tsteps\t{told}\t{classes}\tloop's {classes}\tof memory\tof rate");
    let kernels = Kernels::new(&device);
    for (i, ((module, constants), steps)) in found.iter().enumerate() {
        let spec: Vec<String> = constants.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (kernel, format) = module.split_once('.').map_or((module.as_str(), None), |(k, f)| (k, Some(f)));
        eprintln!("{i} of {}: {module} {}", found.len(), spec.join(" "));
        let told = kernels.get(kernel, format, constants).and_then(|pipeline| pipeline.executables());
        let line = match &told {
            Ok(all) => all.iter().map(|one| row(caps, (module, constants), one)).collect::<Vec<_>>().join("\n\t\t"),
            Err(error) => format!("refused: {error}"),
        };
        println!("{module} {}\t{}\t{line}", spec.join(" "), steps.join(", "));
        if let (Some(folder), Ok(all)) = (rest.get(1), told) {
            std::fs::create_dir_all(folder)?;
            for (name, text) in all.iter().flat_map(|one| &one.texts) {
                let file = format!("{i}.{module}.{}.txt", name.replace(|c: char| !c.is_alphanumeric(), "_"));
                std::fs::write(Path::new(folder).join(file), format!("{}\n{text}", spec.join(" ")))?;
            }
        }
    }
    Ok(())
}
