//! Options that several commands share, as clap sees them after [`super::argv`].
//!
//! [`ModelArgs`] names the file and how it is loaded; [`EngineArgs`] where it runs and with what sizes.

use std::path::PathBuf;

use clap::ValueEnum;
use pumex_engine::cpu::{FastSettings, Numa};
use pumex_engine::{CacheType, Debug, DeviceChoice, Options, Override};
use pumex_gguf::FileAccess;
use pumex_lower::policy::{replaceable_kernels, ActivationQuant};
use pumex_model::quantize::recipe;
use pumex_model::quantize::recipe::Recipe;
use pumex_model::synthetic;
use pumex_model::synthetic::Shape;
use pumex_step::PIECE;
use regex::Regex;

use super::help::expected_one_of;
use super::metadata_overrides::FactArgs;

/// Which file.
#[derive(clap::Args, Clone, Debug)]
pub struct ModelArgs {
    /// GGUF file, or a Hugging Face folder, which is converted once into the cache; without it the small built-in demo model
    #[arg(short, long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Model of the Hugging Face Hub (-hf), downloaded once [default quant: Q4_K_M, else Q8_0, else the first file]
    #[arg(long, value_name = "USER/REPO[:QUANT]", conflicts_with = "model")]
    pub hf_repo: Option<String>,
    /// Which of its files (-hff)
    #[arg(long, value_name = "FILE")]
    pub hf_file: Option<String>,
    /// Token of the Hub (-hft) [default: HF_TOKEN's]
    #[arg(long, value_name = "TOKEN")]
    pub hf_token: Option<String>,
    /// URL of a GGUF file (-mu), downloaded once
    #[arg(long, value_name = "URL", conflicts_with_all = ["model", "hf_repo"])]
    pub model_url: Option<String>,
    /// Take models from the cache, without a network
    #[arg(long)]
    pub offline: bool,
    #[arg(long, hide = true, overrides_with = "no_mmap")]
    mmap: bool,
    /// Read the file into memory instead of mapping it: whatever becomes of it then, the model stays
    #[arg(long, overrides_with = "mmap")]
    no_mmap: bool,
    /// Lock the file's bytes in memory, so that the system never drops them; weights that were copied from there are not locked
    #[arg(long)]
    mlock: bool,
    #[command(flatten)]
    pub facts: FactArgs,
}

impl ModelArgs {
    /// How the file's bytes come into memory.
    pub fn access(&self) -> FileAccess {
        FileAccess { read: self.no_mmap, lock: self.mlock }
    }
}

/// Which model to measure: a file, or none.
#[derive(clap::Args, Clone, Debug)]
pub struct SourceArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// No file: a model of this shape with random weights
    #[arg(long, value_name = "NAME", value_parser = shape, conflicts_with_all = ["model", "hf_repo", "model_url"])]
    pub synthetic: Option<&'static Shape>,
    /// Weight type of the synthetic model, as of `quantize` [default: Q4_K_M]
    #[arg(long = "type", value_name = "TYPE", value_parser = weight_type, requires = "synthetic")]
    pub weight_type: Option<&'static Recipe>,
}

fn shape(name: &str) -> std::result::Result<&'static Shape, String> {
    let names: Vec<&str> = synthetic::SHAPES.iter().map(|s| s.name).collect();
    synthetic::find(name).ok_or_else(|| expected_one_of(name, &names))
}

fn weight_type(name: &str) -> std::result::Result<&'static Recipe, String> {
    let names: Vec<&str> = recipe::RECIPES.iter().map(|r| r.name).collect();
    recipe::find(name).ok_or_else(|| expected_one_of(name, &names))
}

/// Type of the KV cache's elements, by llama.cpp's names.
fn cache_type(text: &str) -> std::result::Result<CacheType, String> {
    CacheType::named(text).ok_or_else(|| expected_one_of(text, &CacheType::ALL.map(CacheType::name)))
}

fn activations(text: &str) -> std::result::Result<ActivationQuant, String> {
    match text.to_ascii_lowercase().as_str() {
        "q8" => Ok(ActivationQuant::Q8),
        "q16" => Ok(ActivationQuant::Q16),
        _ => Err("expected q8 or q16".to_string()),
    }
}

/// How many layers run on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuLayers(pub Option<usize>);

/// A number, all, or auto.
///
/// # Errors
/// Another word.
pub fn gpu_layers(text: &str) -> std::result::Result<GpuLayers, String> {
    match text {
        "auto" | "-1" => Ok(GpuLayers(None)),
        "all" => Ok(GpuLayers(Some(usize::MAX))),
        n => n.parse().map(|n| GpuLayers(Some(n))).map_err(|_| "expected a number, all or auto".to_string()),
    }
}

/// `PATTERN=CPU`, or another device.
fn tensor_override(text: &str) -> std::result::Result<Override, String> {
    let (pattern, target) = text.rsplit_once('=').ok_or("expected PATTERN=CPU or PATTERN=GPU")?;
    let gpu = |name: &str| {
        let number = name.strip_prefix("gpu").or(name.strip_prefix("vulkan"));
        number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    };
    let on_cpu = match target.to_ascii_lowercase().as_str() {
        "cpu" => true,
        name if gpu(name) => false,
        _ => return Err(format!("expected CPU or GPU after the pattern, found {target}")),
    };
    let pattern = Regex::new(pattern).map_err(|_| format!("expected a regular expression, found {pattern}"))?;
    Ok(Override { pattern, on_cpu, flag: Some("--override-tensor") })
}

/// llama.cpp's three-way switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Always.
    #[value(alias = "1")]
    On,
    /// Never.
    #[value(alias = "0")]
    Off,
    /// Where it serves.
    Auto,
}

/// Most rows of a step unless they are told, and where the device has room for more.
const ROWS: u32 = 512;
const ROWS_WITH_ROOM: u32 = 2048;

/// Where and with what sizes a model runs.
#[derive(clap::Args, Clone, Debug)]
pub struct EngineArgs {
    /// auto (the best GPU, else cpu), cpu, reference (plain f32 on the CPU), vulkan (software devices too), or the index, name
    /// or UUID of a device (-dev)
    #[arg(long, default_value = "auto", env = "LLAMA_ARG_DEVICE")]
    pub device: String,
    /// Most rows in one step, as --ubatch-size, whichever is smaller
    #[arg(short, long, value_name = "N", default_value_t = 2048, env = "LLAMA_ARG_BATCH")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_size: u32,
    /// Most rows in one step (-ub) [default: 512; 2048 on a GPU that is the faster for it and has room]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env = "LLAMA_ARG_UBATCH")]
    pub ubatch_size: Option<u32>,
    /// CPU threads; 0 or below means one per physical core that the process may use
    #[arg(short, long, value_name = "N", default_value_t = -1, env = "LLAMA_ARG_THREADS")]
    pub threads: i32,
    /// If the device is lost, load the model anew, once, and go on
    #[arg(long)]
    pub retry_lost: bool,
    /// Leave kernels of the GPU out, whose work others do then: where a driver gets them wrong, or to compare
    #[arg(long, value_name = "KERNEL,...", value_delimiter = ',', value_parser = suspect)]
    pub without_kernels: Vec<&'static str>,
    /// Use no operations over subgroups, as on devices that lack them or whose drivers get them wrong
    #[arg(long, hide = true)]
    pub no_subgroups: bool,
    /// Neither load numbers of 16 bits nor compute with them, as on devices that cannot
    #[arg(long, hide = true)]
    pub no_halves: bool,
    /// Find the device lost from this submission on, counted once the model is loaded, for tests
    #[arg(long, value_name = "N", hide = true)]
    pub lose_at: Option<u64>,
    /// Measure first which kernel shapes are fastest for the model on this GPU, where that is not known yet (see tune)
    #[arg(long)]
    pub auto: bool,
    /// Layers on the GPU, the last ones (-ngl): a number, all, or auto, as many as there is room for
    #[arg(long, value_name = "N", value_parser = gpu_layers, default_value = "auto", env = "LLAMA_ARG_N_GPU_LAYERS")]
    pub gpu_layers: GpuLayers,
    /// Leave the experts of all layers on the CPU (-cmoe)
    #[arg(long, env = "LLAMA_ARG_CPU_MOE", value_parser = clap::builder::FalseyValueParser::new())]
    cpu_moe: bool,
    /// Leave the experts of the first N layers on the CPU (-ncmoe)
    #[arg(long, value_name = "N", env = "LLAMA_ARG_N_CPU_MOE")]
    n_cpu_moe: Option<usize>,
    /// Where tensors go whose names match a regular expression (-ot): CPU or GPU; the first that matches counts
    #[arg(long, value_name = "PATTERN=CPU,...", env = "LLAMA_ARG_OVERRIDE_TENSOR")]
    #[arg(value_parser = tensor_override, value_delimiter = ',')]
    override_tensor: Vec<Override>,
    /// KV cache type of K (-ctk) [default: f16, or f32 where the CPU computes in f32]
    #[arg(long, value_name = "TYPE", value_parser = cache_type, env = "LLAMA_ARG_CACHE_TYPE_K")]
    pub cache_type_k: Option<CacheType>,
    /// KV cache type of V (-ctv), likewise
    #[arg(long, value_name = "TYPE", value_parser = cache_type, env = "LLAMA_ARG_CACHE_TYPE_V")]
    pub cache_type_v: Option<CacheType>,
    /// Fused attention (-fa): it always is
    #[arg(long, value_name = "SWITCH", default_value = "auto", env = "LLAMA_ARG_FLASH_ATTN")]
    pub flash_attn: Switch,
    /// Quantized activations in products of few rows: q8, as llama.cpp has them on the CPU and by CUDA (not by Vulkan for one row), or
    /// q16, exact to 1e-9 as its Vulkan backend is, for 4 to 17 % of an H200's speed; on the CPU q16 means f32 [default: q8, but
    /// for logits on the CPU and q16 for software devices]
    #[arg(long, value_name = "TYPE", value_parser = activations)]
    pub activations: Option<ActivationQuant>,
    /// See [`Options::exact_on_cpu`]
    #[arg(skip)]
    pub exact_on_cpu: bool,
    /// See [`Options::embeds`]
    #[arg(skip)]
    pub embeds: bool,
    /// Steps are those of requests whose answers do not depend on company
    #[arg(skip)]
    pub steady: bool,
    /// Sequences, 0 for one, and the positions that they share
    #[arg(skip)]
    pub shared_cache: (u32, Option<u32>),
    /// See [`Options::checkpoints`]
    #[arg(skip)]
    pub checkpoints: u32,
    /// See [`Options::reserved_bytes`]
    #[arg(skip)]
    pub reserved_bytes: u64,
    /// Turn the Vulkan validation layer on
    #[arg(long)]
    pub validation: bool,
    /// CPU threads of steps of several rows (-tb) [default: as --threads]
    #[arg(long, value_name = "N")]
    threads_batch: Option<i32>,
    /// Processors that CPU threads run on (-C), as a hexadecimal mask
    #[arg(long, value_name = "MASK", value_parser = mask)]
    cpu_mask: Option<Processors>,
    /// Multiply with weights as the file has them (-nr): less memory, less speed, on the CPU
    #[arg(long)]
    no_repack: bool,
    /// Spread CPU threads over the nodes of the machine, keep them on one, or go by numactl
    #[arg(long, value_name = "TYPE", value_parser = numa, env = "LLAMA_ARG_NUMA")]
    numa: Option<Numa>,
    /// Priority of CPU threads: -1 low, 0 normal, 1 medium, 2 high, 3 highest
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i32).range(-1..=3))]
    prio: i32,
    #[arg(long, hide = true)]
    pub cpu_strict: Option<u32>,
    #[arg(long, hide = true)]
    pub poll: Option<u32>,
    #[arg(long, hide = true, overrides_with = "no_warmup")]
    warmup: bool,
    /// Time all runs, the first ones, too
    #[arg(long, hide = true, overrides_with = "warmup")]
    pub no_warmup: bool,
}

/// Numbers of processors.
#[derive(Clone, Debug)]
pub struct Processors(Vec<usize>);

fn numa(text: &str) -> std::result::Result<Numa, String> {
    match text {
        "distribute" => Ok(Numa::Distribute),
        "isolate" => Ok(Numa::Isolate),
        "numactl" => Ok(Numa::Numactl),
        _ => Err("expected distribute, isolate or numactl".to_string()),
    }
}

/// The processors of a hexadecimal mask, lowest first.
fn mask(text: &str) -> std::result::Result<Processors, String> {
    let digits = text.trim_start_matches("0x");
    let digit = |c: char| c.to_digit(16).ok_or_else(|| "expected hexadecimal digits".to_string());
    let digits = digits.chars().rev().map(digit).collect::<std::result::Result<Vec<u32>, String>>()?;
    let set: Vec<usize> = (0..4 * digits.len()).filter(|i| digits[i / 4] >> (i % 4) & 1 == 1).collect();
    if set.is_empty() {
        return Err("expected a processor at least".to_string());
    }
    Ok(Processors(set))
}

/// A kernel that has a next row.
fn suspect(name: &str) -> Result<&'static str, String> {
    let all = replaceable_kernels();
    let known = all.iter().copied().find(|known| *known == name);
    known.ok_or_else(|| format!("expected one of {}", all.join(", ")))
}

impl EngineArgs {
    /// The engine's options for one sequence of `n_ctx` positions (`None`: as many as the model was trained for).
    pub fn options(&self, n_ctx: Option<u32>) -> Options {
        let options = self.to_options(n_ctx);
        tracing::debug!("engine: {options:?}");
        options
    }

    fn to_options(&self, n_ctx: Option<u32>) -> Options {
        Options {
            device: device_choice(&self.device),
            n_ctx,
            n_seqs: self.shared_cache.0.max(1),
            checkpoints: self.checkpoints,
            reserved_bytes: self.reserved_bytes,
            cache_positions: self.shared_cache.1,
            max_rows: self.rows(),
            rows_with_room: self.rows_with_room(),
            cache_type_k: self.cache_type_k,
            cache_type_v: self.cache_type_v,
            gpu_layers: self.gpu_layers.0,
            overrides: self.overrides(),
            exact_on_cpu: self.exact_on_cpu,
            embeds: self.embeds,
            revives: self.retry_lost,
            without: self.without_kernels.clone(),
            debug: Debug {
                lost_at: self.lose_at,
                subgroups: !self.no_subgroups,
                halves: !self.no_halves,
                // Where it gives up, later steps would go through other kernels.
                megakernel: self.steady.then_some(false),
                ..Debug::default()
            },
            validation: self.validation,
            activations: self.activations,
            cpu: FastSettings {
                threads: some(self.threads),
                batch_threads: self.threads_batch.and_then(some),
                in_place: self.no_repack,
                isa: None,
                processors: self.cpu_mask.clone().map_or_else(Vec::new, |p| p.0),
                numa: self.numa,
                priority: self.prio,
            },
            ..Options::default()
        }
    }

    /// Most rows of a step.
    pub fn rows(&self) -> u32 {
        self.ubatch_size.unwrap_or(ROWS).min(self.batch_size)
    }

    /// Rows of a step where the device has room for more: the default, unless the user said how many.
    pub fn rows_with_room(&self) -> u32 {
        if self.ubatch_size.is_some() {
            return 0;
        }
        ROWS_WITH_ROOM.min(self.batch_size)
    }

    /// Has steps be those of a server's requests whose answers do not depend on company.
    ///
    /// # Errors
    /// Fewer rows of a step than that takes.
    pub fn make_steady(&mut self) -> pumex_gguf::Result<()> {
        if (self.rows() as usize) < PIECE {
            let what =
                format!("--deterministic: expected steps of at least {PIECE} rows (-b, -ub), found {}", self.rows());
            return Err(pumex_gguf::Error::Usage(what));
        }
        (self.steady, self.ubatch_size) = (true, Some(PIECE as u32));
        Ok(())
    }

    /// Has steps take so many rows at least.
    pub fn take_rows(&mut self, rows: u32) {
        let rows = self.rows().max(rows);
        self.ubatch_size = Some(rows);
        self.batch_size = self.batch_size.max(rows);
    }

    /// Which layers' experts stay on the CPU, of so many layers, and what other tensors go where: as llama-bench tells it.
    pub fn placement_text(&self, layers: usize) -> (usize, String) {
        let moe = if self.cpu_moe { layers } else { self.n_cpu_moe.unwrap_or(0) };
        let one = |o: &Override| format!("{}={}", o.pattern, if o.on_cpu { "CPU" } else { "GPU" });
        let others: Vec<String> = self.override_tensor.iter().map(one).collect();
        (moe, if others.is_empty() { "none".into() } else { others.join(";") })
    }

    /// The mask of processors in hexadecimal; 0x0 is none.
    pub fn mask_text(&self) -> String {
        let processors = self.cpu_mask.as_ref().map_or(&[][..], |p| &p.0);
        let digits = processors.iter().max().map_or(1, |most| most / 4 + 1);
        let digit =
            |d: usize| (0..4).filter(|bit| processors.contains(&(4 * d + bit))).map(|bit| 1 << bit).sum::<u32>();
        let hex: String = (0..digits).rev().filter_map(|d| char::from_digit(digit(d), 16)).collect();
        format!("0x{hex}")
    }

    /// Whether weights are laid out for the CPU's kernels.
    pub fn repacks(&self) -> bool {
        !self.no_repack
    }

    fn overrides(&self) -> Vec<Override> {
        let all = self.cpu_moe.then(|| Override::experts(None)).flatten();
        let some = self.n_cpu_moe.and_then(|n| Override::experts(Some(n)));
        self.override_tensor.iter().cloned().chain(all).chain(some).collect()
    }

    /// Threads of steps of one row on the CPU.
    pub fn cpu_threads(&self) -> usize {
        some(self.threads).unwrap_or_else(pumex_engine::cpu::usual_threads)
    }

    /// Whether the CPU was asked for.
    pub fn is_cpu(&self) -> bool {
        matches!(device_choice(&self.device), DeviceChoice::Cpu | DeviceChoice::Reference)
    }
}

/// The number of threads that was asked for, none where it is the machine's choice.
fn some(threads: i32) -> Option<usize> {
    // More than this is a slip, and would take the system's threads from others.
    let most = std::thread::available_parallelism().map_or(64, |n| 4 * n.get()).max(64);
    usize::try_from(threads).ok().filter(|&n| n > 0).map(|n| n.min(most))
}

fn device_choice(text: &str) -> DeviceChoice {
    match text.to_ascii_lowercase().as_str() {
        "auto" => DeviceChoice::Auto,
        "cpu" | "none" => DeviceChoice::Cpu,
        "reference" => DeviceChoice::Reference,
        "vulkan" => DeviceChoice::Vulkan,
        _ => DeviceChoice::Named(text.to_string()),
    }
}
