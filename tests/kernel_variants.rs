//! Every variant of the kernels that a device has, by force, against golden outputs of llama.cpp: the matrix of variants and models.

use crate::util::{
    assert_silent, device, exhaustive, fixture, in_turn, logits, nmse, options, pick, shared_folder, Golden, FIXTURES,
};
use pumex::engine::{CacheType, Debug, Options, VulkanRunner};
use pumex::gguf::Gguf;
use pumex::policy::{ActivationQuant, ManyRows, WeightSource};
use pumex::{kernel, model};
use std::path::PathBuf;

/// A variant: how the names of the kernels begin that it is about, what makes the engine take it, and the bound of its error.
struct KernelVariant {
    kernel: &'static str,
    name: &'static str,
    chunk: usize,
    cache: CacheType,
    activations: ActivationQuant,
    debug: Debug,
    without: &'static [&'static str],
    bound: f64,
}

/// Errors of f32, of halves, and of activations with 8 bits.
const BOUNDS: [f64; 3] = [1e-6, 1e-5, 5e-4];
/// Rows of a step that take attention and products of many rows.
const MANY: usize = 64;

impl KernelVariant {
    /// Products and attention in f32, row by row.
    fn plain(kernel: &'static str, name: &'static str) -> KernelVariant {
        let debug = Debug { matrices: false, megakernel: Some(false), build_ahead: Some(false), ..Debug::default() };
        let (cache, activations) = (CacheType::F32, ActivationQuant::Q16);
        KernelVariant { kernel, name, chunk: 1, cache, activations, debug, without: &[], bound: BOUNDS[0] }
    }

    fn with(self, change: impl FnOnce(&mut Debug)) -> KernelVariant {
        let mut debug = self.debug;
        change(&mut debug);
        KernelVariant { debug, ..self }
    }

    fn of_rows(self, chunk: usize) -> KernelVariant {
        KernelVariant { chunk, ..self }
    }

    fn of_bytes(self) -> KernelVariant {
        KernelVariant { activations: ActivationQuant::Q8, bound: BOUNDS[2], ..self }
    }

    /// By cooperative matrices of halves, without some kernels.
    fn of_matrices(self, without: &'static [&'static str]) -> KernelVariant {
        let all = self.with(|debug| debug.matrices = true);
        KernelVariant { cache: CacheType::F16, without, bound: BOUNDS[1], ..all }
    }

    fn many(by: ManyRows, name: &'static str) -> KernelVariant {
        let of = KernelVariant::plain(by.kernel(), name).of_rows(MANY);
        let of = of.with(|debug| (debug.matrices, debug.many_rows) = (true, Some(by)));
        let of = KernelVariant { without: &["gemm_mat", "gemm_few"], bound: BOUNDS[1], ..of };
        if by.bits() == 8 {
            of.of_bytes()
        } else {
            of
        }
    }

    fn options(&self) -> Options {
        let more = options(self.cache);
        Options { activations: Some(self.activations), debug: self.debug, without: self.without.to_vec(), ..more }
    }
}

fn variants() -> Vec<KernelVariant> {
    let [gemv, few, tile] = [("gemv", 1), ("gemv", 7), ("gemm_tile", MANY)];
    vec![
        KernelVariant::plain(gemv.0, "a row, activations of 16 bits"),
        KernelVariant::plain(gemv.0, "a row, of 8 bits").of_bytes(),
        KernelVariant::plain(gemv.0, "a row, ops not merged").with(|debug| debug.fuse = false),
        KernelVariant::plain(gemv.0, "a row, weights sent").with(|debug| debug.force_staging = true),
        KernelVariant::plain(gemv.0, "a row, no subgroups").with(|debug| debug.subgroups = false),
        KernelVariant::plain(gemv.0, "a row, no 16 bits").with(|debug| debug.halves = false),
        KernelVariant::plain(gemv.0, "a row, neither").with(|debug| (debug.subgroups, debug.halves) = (false, false)),
        KernelVariant::plain("megakernel", "a row in one dispatch")
            .with(|debug| debug.megakernel = Some(true))
            .of_bytes(),
        KernelVariant::plain("attn_mat", "a row, by matrices").of_matrices(&[]),
        KernelVariant::plain(few.0, "7 rows").of_rows(few.1),
        KernelVariant::plain("gemm_few", "12 rows, by matrices").of_rows(12).of_matrices(&[]),
        KernelVariant::plain(tile.0, "f32").of_rows(tile.1),
        KernelVariant::plain(tile.0, "f32, no subgroups").of_rows(tile.1).with(|debug| debug.subgroups = false),
        KernelVariant::plain("gemm_mat", "matrices").of_rows(MANY).of_matrices(&[]),
        KernelVariant::many(ManyRows::Dot, "integer dot products"),
        KernelVariant::many(ManyRows::Half, "halves"),
        KernelVariant::many(ManyRows::Staged, "matrices of halves"),
        KernelVariant::many(ManyRows::Bytes, "matrices of bytes"),
        KernelVariant::many(ManyRows::Group(WeightSource::Halves), "halves ahead"),
        KernelVariant::many(ManyRows::Group(WeightSource::Load), "decoded by loads"),
        KernelVariant::many(ManyRows::Group(WeightSource::Shared), "shared memory"),
        KernelVariant::plain("attn_prefill", "scalar").of_rows(MANY),
        KernelVariant::plain("attn_prompt", "blocks in shared memory").of_rows(MANY).of_matrices(&[]),
        KernelVariant::plain("attn_flash", "matrices").of_rows(MANY).of_matrices(&["attn_prompt"]),
        KernelVariant::plain("attn_staged", "shared memory").of_rows(MANY).of_matrices(&[
            "attn_prompt",
            "attn_flash",
            "attn_matrix2",
        ]),
        KernelVariant::plain("attn_matrix2", "workgroups").of_rows(MANY).of_matrices(&[
            "attn_prompt",
            "attn_flash",
            "attn_staged",
        ]),
    ]
}

/// Name, file and stem of the golden outputs: those of the repository, and the larger ones where they are there.
fn models() -> Vec<(String, PathBuf, PathBuf)> {
    let own = FIXTURES.map(|name| (name.to_string(), fixture(name).with_extension("gguf"), fixture(name)));
    let others = [("llama-f16", "llama"), ("qwen3", "qwen3"), ("gemma3", "gemma3"), ("qwen3moe-f16", "qwen3moe")];
    let others = shared_folder().into_iter().flat_map(|shared| {
        others.map(|(file, stem)| {
            let path = shared.join("models").join(file).with_extension("gguf");
            (file.to_string(), path, shared.join("golden/demo").join(stem))
        })
    });
    own.into_iter().chain(others).collect()
}

/// Error of a model by a variant; none where the device cannot, or the model gives that kernel nothing to do.
fn error(variant: &KernelVariant, gguf: &Gguf, golden: &Golden) -> Option<f64> {
    let options = variant.options();
    let device = device(options.debug.force_staging)?;
    let device = device.with_caps(options.mask_capabilities(device.caps().clone()));
    let row = pumex_shaders::kernels::find(variant.kernel).unwrap();
    if kernel::lacking(row.needs, device.caps()).is_some() {
        return None;
    }
    let mut runner = VulkanRunner::new(gguf, model::plan(gguf).unwrap(), device, &options, &mut |_, _| ()).unwrap();
    let all = logits(&mut runner, &golden.tokens, variant.chunk);
    assert_silent(&runner);
    let used = runner.kernels().iter().any(|kernel| kernel.starts_with(variant.kernel));
    used.then(|| nmse(&pick(&all, golden.vocab, &golden.logit_positions), &golden.logits))
}

#[test]
fn every_variant_by_force_agrees_with_llama_cpp() {
    let all = models();
    let models = &all[..if exhaustive() { all.len() } else { 1 }];
    let mut wrong = Vec::new();
    let names: Vec<&str> = models.iter().map(|(name, ..)| name.as_str()).collect();
    println!("| kernel | | {} |\n|---|---|{}", names.join(" | "), "---|".repeat(names.len()));
    let opened = models.iter().map(|(_, file, stem)| (Gguf::open(file).unwrap(), Golden::load(stem)));
    let opened: Vec<(Gguf, Golden)> = opened.collect();
    let sampled = ["no 16 bits", "f32", "halves"];
    let tried = |v: &KernelVariant| exhaustive() || sampled.iter().any(|end| v.name.ends_with(end));
    for (i, variant) in variants().iter().enumerate().filter(|(_, v)| tried(v)) {
        let mut line = format!("| `{}` | {} |", variant.kernel, variant.name);
        for (j, ((name, ..), (gguf, golden))) in models.iter().zip(&opened).enumerate() {
            let error = if !exhaustive() || in_turn(i + j, 3) { error(variant, gguf, golden) } else { None };
            line += &error.map_or(" - |".to_string(), |error| format!(" {error:.1e} |"));
            if error.is_some_and(|error| error.is_nan() || error > variant.bound) {
                wrong.push(format!(
                    "{} ({}), {name}: {error:?}, at most {:e}",
                    variant.kernel, variant.name, variant.bound
                ));
            }
        }
        println!("{line}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
