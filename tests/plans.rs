//! Snapshots of plans: a model change shows here as a change of text. `PUMEX_BLESS=1 cargo test plans` writes those of families anew.

use crate::seeded;
use crate::util::{demo_path, shared_folder};
use pumex::gguf::Gguf;
use pumex::kernel::lacking;
use pumex::lower::dump::{explain, DryRun, Explained};
use pumex::lower::CacheType;
use pumex::model;
use pumex::plan::{Placement, Plan};
use pumex::policy::devices;
use pumex::vk::Caps;
use std::path::{Path, PathBuf};

const LLAMA_FIRST_LAYER: &str = "\
llama: 6 x kv 2 x 64, vocab 4096
x0[n, 256] = embed token_embd.weight[4096, 256]:Q6_K
x0[n, 256] = part 0 of vectors
h1[n, 256] = rms_norm x0[n, 256] * blk.0.attn_norm.weight[1, 256]:F32 eps 1e-5
qkv2[n, 512] = matmul h1[n, 256] by blk.0.attn_q.weight[256, 256]:Q4_K, blk.0.attn_k.weight[128, 256]:Q4_K, blk.0.attn_v.weight[128, 256]:Q4_K
qkv2[n, 512], kv0 = rope norm 64 
attn3[n, 256] = attend qkv2[n, 512] kv0 heads 4/2 x 64 scale 0.125
x0[n, 256] += matmul attn3[n, 256] by blk.0.attn_output.weight[256, 256]:Q4_K
h4[n, 256] = rms_norm x0[n, 256] * blk.0.ffn_norm.weight[1, 256]:F32 eps 1e-5
ffn5[n, 768] = silu-gated h4[n, 256] by blk.0.ffn_gate.weight[768, 256]:Q4_K, blk.0.ffn_up.weight[768, 256]:Q4_K
x0[n, 256] += matmul ffn5[n, 768] by blk.0.ffn_down.weight[256, 768]:Q4_K
";

#[test]
fn llama_plan_is_as_reviewed() {
    let plan = model::plan(&Gguf::open(&demo_path()).unwrap()).unwrap();
    let text = plan.to_string();
    assert!(text.starts_with(LLAMA_FIRST_LAYER), "{text}");
    assert!(
        text.ends_with(
            "h_out31[w, 256] = rms_norm x0[n, 256] * output_norm.weight[1, 256]:F32 eps 1e-5\n\
         logits32[w, 4096] = matmul h_out31[w, 256] by token_embd.weight[4096, 256]:Q6_K\n\
         ids[w] = sample logits32[w, 4096]\n"
        ),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1 + 2 + 6 * 8 + 3);
}

#[test]
fn qwen3_norms_heads_before_it_rotates_halves() {
    let Some(shared) = shared_folder() else { return };
    let plan = model::plan(&Gguf::open(&shared.join("models/qwen3.gguf")).unwrap()).unwrap();
    let line = "kv0 = rope neox 64 blk.0.attn_q_norm.weight[1, 64]:F32 blk.0.attn_k_norm.weight[1, 64]:F32";
    assert!(plan.to_string().contains(line), "{plan}");
}

#[test]
fn values_alive_together_never_share_bytes_and_each_layer_has_few_barriers() {
    let mut plan = model::plan(&Gguf::open(&demo_path()).unwrap()).unwrap();
    plan.without_vectors(); // as steps of ids alone run it
    let place = Placement::new(&plan, 64, 64);
    for (i, op) in plan.ops.iter().enumerate() {
        for r in op.reads() {
            for w in op.writes() {
                assert!(r == w || !place.overlap(r, w), "op {i} overwrites what it reads");
            }
        }
    }
    let barriers = place.barriers(&plan).iter().filter(|b| **b).count();
    assert!(barriers <= 8 * plan.layers.len() + 3, "{barriers}");
    let all: u64 = place.sizes.iter().sum();
    assert!(place.len_bytes < all / 2, "the arena is reused");
}

/// Seeded models whose plans differ from all others.
const SEEDED: [&str; 14] = [
    "bailingmoe3",
    "chameleon",
    "deepseek4",
    "dots3note",
    "glm5-next",
    "graniteswitch",
    "grovemoe",
    "hrm_text",
    "hy_v4",
    "kimi-k3",
    "minimax-01",
    "minimax-m3",
    "qwen4exp",
    "t5",
];

/// Plans of tiny models of families.
fn families() -> Vec<(String, Plan)> {
    let files = files().into_iter().map(|(name, path)| (name, Gguf::open(&path).unwrap()));
    let seeded = seeded::families().into_iter().map(|(name, recipe)| (format!("seeded-{name}"), recipe.gguf(name)));
    files.chain(seeded).map(|(name, gguf)| (name, model::plan(&gguf).unwrap())).collect()
}

fn files() -> Vec<(String, PathBuf)> {
    let Some(shared) = shared_folder() else { return Vec::new() };
    let files = std::fs::read_dir(shared.join("models/archs")).unwrap().map(|entry| entry.unwrap().path());
    let named = files.filter(|path| path.extension().is_some_and(|e| e == "gguf"));
    let mut all: Vec<(String, PathBuf)> =
        named.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path)).collect();
    all.sort();
    all
}

/// A step that would run: one of a prompt or, of one row, of decoding.
fn step(plan: &Plan, caps: &Caps, rows: usize) -> Result<Explained, String> {
    let cache_types = (CacheType::F16, CacheType::F16);
    let run = DryRun { plan, caps, rows, decode_batch: rows == 1, outputs: 1, cache_types, len: 200, source: false };
    explain(&run).map_err(|e| e.to_string())
}

/// Dispatches between barriers on a line each, alike lines that follow each other once.
fn dispatches(of: &Explained) -> String {
    let mut groups: Vec<(usize, Vec<&str>)> = Vec::new();
    for d in &of.dispatches {
        match groups.last_mut().filter(|_| !d.barrier) {
            Some((_, group)) => group.push(&d.module),
            None => groups.push((1, vec![&d.module])),
        }
    }
    groups.dedup_by(|next, kept| {
        let same = next.1 == kept.1;
        kept.0 += if same { next.0 } else { 0 };
        same
    });
    let line = |(times, group): &(usize, Vec<&str>)| {
        let times = if *times > 1 { format!("{times} x ") } else { String::new() };
        format!("{times}{}\n", group.join(", "))
    };
    groups.iter().map(line).collect()
}

#[test]
fn plans_of_families_and_what_they_dispatch_are_as_reviewed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plans");
    let bless = std::env::var_os("PUMEX_BLESS").is_some();
    let known = |name: &str| name.strip_prefix("seeded-").is_none_or(|name| SEEDED.contains(&name));
    for (name, plan) in families().into_iter().filter(|(name, _)| known(name)) {
        let name = name.trim_start_matches("seeded-");
        let mut text = plan.to_string();
        for rows in [1, 40] {
            let step = step(&plan, &devices::h200(), rows).unwrap();
            let (count, layers) = (step.dispatches.len(), plan.layers.len());
            let per_layer = count as f64 / layers as f64;
            text += &format!("\n# H200, {rows} rows: {count} dispatches, {per_layer:.1} for each of {layers} layers\n");
            text += &dispatches(&step);
        }
        let file = folder.join(format!("{name}.txt"));
        if bless {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &text).unwrap();
        }
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        let differs = known.lines().zip(text.lines()).find(|(a, b)| a != b);
        assert!(known == text, "{}: first difference {differs:#?}", file.display());
    }
}

/// Every op of every family has a kernel that every class of device can run.
#[test]
fn no_family_needs_the_cpu() {
    for (name, plan) in families() {
        for (device, caps) in devices::all() {
            for rows in [1, 5, 40] {
                let step = step(&plan, &caps, rows).unwrap_or_else(|e| panic!("{name} on {device}, {rows} rows: {e}"));
                for d in &step.dispatches {
                    let of = format!("{name} on {device}, {rows} rows: {}", d.module);
                    let row = d.module.split('.').next().unwrap();
                    let kernel = pumex_shaders::kernels::find(row).unwrap();
                    assert!(pumex_shaders::module(&d.module).is_some(), "{of}: no module");
                    assert_eq!(lacking(kernel.needs, &caps), None, "{of}");
                    let size = d.constants.iter().find(|(name, _)| *name == "SIZE").map_or(1, |(_, size)| *size);
                    assert!(size <= caps.max_workgroup_invocations, "{of}: {size} threads");
                    // What explains a choice is what chose.
                    let taken = d.variants.iter().find(|v| v.passed_over.is_none()).map(|v| v.kernel);
                    assert!(taken.is_none_or(|kernel| kernel == row), "{of}: {:?}", d.variants);
                    assert_eq!(taken.is_some(), !d.variants.is_empty(), "{of}");
                }
            }
        }
    }
}
