//! Shared by the tests: golden files, error measures, runners.

use pumex::conversation::feed_source;
use pumex::cpu::Reference;
use pumex::engine::{self, CacheType, Debug, DeviceChoice, Options, VulkanRunner};
use pumex::gguf::Gguf;
use pumex::plan::{Act, General, Op, Plan};
use pumex::policy::ActivationQuant;
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use pumex::{model, vk};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

mod lease;

pub use lease::{assert_silent_on, device, has_device};

/// What a test may do without where it is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestNeed {
    /// A Vulkan device.
    Device,
    /// The folder of golden files beside the checkout.
    Shared,
    /// The Khronos validation layer.
    Layer,
}

impl TestNeed {
    const ALL: [TestNeed; 3] = [TestNeed::Device, TestNeed::Shared, TestNeed::Layer];

    /// What `PUMEX_REQUIRE` calls it.
    fn name(self) -> &'static str {
        match self {
            TestNeed::Device => "device",
            TestNeed::Shared => "shared",
            TestNeed::Layer => "layer",
        }
    }

    /// Whether `all`, names with commas between them, has its own.
    fn is_in(self, all: &str) -> bool {
        all.split(',').any(|name| name.trim() == self.name())
    }
}

/// Tells why something is not tested; where `PUMEX_REQUIRE` names what is not there, fails instead.
pub fn skip(need: TestNeed, why: &str) {
    let required = std::env::var("PUMEX_REQUIRE").unwrap_or_default();
    assert!(!need.is_in(&required), "{why}, and PUMEX_REQUIRE={required} asks for it");
    eprintln!("skipped: {why}");
}

/// Names beside these are those of scripts: `clients` and `page`.
#[test]
fn what_is_required_is_known_by_its_whole_name() {
    let names = |all: &str| TestNeed::ALL.map(|need| need.is_in(all));
    assert_eq!(names("device, layer,clients"), [true, false, true]);
    assert_eq!(names("devices,shared"), [false, true, false]);
    assert_eq!(names(""), [false; 3]);
}

/// In a group of so many tests that take turns, one tries all its variants.
const TURNS: usize = 24;

/// Whether every variant is tried and not only a sample that touches every kernel, format and op: a software device compiles
/// each pipeline for seconds. In `make test-all` all tests do; where they take turns (`PUMEX_TEST_ALL=turns`, as in `.ci/run`)
/// one of [`TURNS`], by its name and the commit, so that later commits have others do it.
pub fn exhaustive() -> bool {
    let all = std::env::var_os("PUMEX_TEST_ALL");
    all.as_ref().is_some_and(|v| v == "1" || v == "turns" && has_turn(std::thread::current().name(), turn()))
}

fn has_turn(test: Option<&str>, turn: usize) -> bool {
    (turn_of(test.unwrap_or("main")) + turn).is_multiple_of(TURNS)
}

/// Whether the case at `at` is tried by a test that tries all variants: every one in `make test-all`, one of `n` where they
/// take turns, by the commit, so that each case meets each way of trying it, but not all of them at once.
pub fn in_turn(at: usize, n: usize) -> bool {
    (at + turn()).is_multiple_of(n) || std::env::var_os("PUMEX_TEST_ALL").is_none_or(|v| v != "turns")
}

/// A number of the commit that is tested: `PUMEX_TURN` has its hash or any other text, else git tells; 0 where neither does.
pub fn turn() -> usize {
    static TURN: OnceLock<usize> = OnceLock::new();
    *TURN.get_or_init(|| {
        let head = || {
            let args = ["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"];
            let told = std::process::Command::new("git").args(args).output().ok()?;
            let told = Some(told).filter(|told| told.status.success())?;
            String::from_utf8(told.stdout).ok()
        };
        let told = std::env::var("PUMEX_TURN").ok().or_else(head).unwrap_or_default();
        turn_of(told.trim())
    })
}

fn turn_of(commit: &str) -> usize {
    let hash = commit.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    if commit.is_empty() {
        0
    } else {
        (hash >> 40) as usize
    }
}

/// Each case meets each way within some commits, for every number of ways that there is, and each test its turn.
#[test]
fn commits_take_turns_at_all_ways() {
    let turns: Vec<usize> = (0..400).map(|commit| turn_of(&format!("{commit:040x}"))).collect();
    for test in ["goldens::every_format", "seeded::on_a_device", "forced::all"] {
        let had = turns.iter().filter(|turn| has_turn(Some(test), **turn)).count();
        assert!((10..70).contains(&had), "{test} had its turn {had} times of 400");
    }
    for n in 2..=12 {
        let met: BTreeSet<usize> = (0..200).map(|commit| turn_of(&format!("{commit:040x}")) % n).collect();
        assert_eq!(met.len(), n, "{n} ways");
    }
    assert_eq!(turn_of(""), 0);
}

/// All of a list, or the first `n` of it where a sample will do.
pub fn sample<T>(all: &[T], n: usize) -> &[T] {
    if exhaustive() {
        all
    } else {
        &all[..n.min(all.len())]
    }
}

/// How products are computed. Every bound of an error is that of one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Products of one row with activations of 16 bits, of several in f32 or with such activations.
    Exact,
    /// Products of one row with activations of 8 bits, as GPUs do it unless told otherwise; of several as `Exact`.
    Short,
    /// Products of several rows by cooperative matrices of halves, as GPUs do it that have some; of one as `Exact`.
    Halves,
}

impl Arithmetic {
    /// Options of the tests with it.
    pub fn options(self, cache: CacheType) -> Options {
        let activations = if self == Arithmetic::Short { ActivationQuant::Q8 } else { ActivationQuant::Q16 };
        let debug = Debug { matrices: self == Arithmetic::Halves, ..Debug::default() };
        Options {
            activations: Some(activations),
            device: DeviceChoice::Vulkan,
            n_ctx: Some(256),
            n_seqs: 2,
            max_rows: 64,
            cache_type_k: Some(cache),
            cache_type_v: Some(cache),
            debug,
            ..engine::Options::default()
        }
    }

    /// Whether a device lacks it, told on stderr.
    pub fn lacking(self, device: &vk::Device) -> bool {
        let lacks = self == Arithmetic::Halves && device.caps().matrix_n.is_empty();
        if lacks {
            eprintln!("skipped: {} has no cooperative matrices of 16 x 16 halves", device.caps().name);
        }
        lacks
    }
}

/// The folder of reference files beside the checkout, if it is there.
pub fn shared_folder() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    if path.join("golden").is_dir() {
        return Some(path);
    }
    skip(TestNeed::Shared, "no ../shared with golden files");
    None
}

/// Weight types of the small models in the repository, each with what llama.cpp computed.
pub const FIXTURES: [&str; 3] = ["Q4_K_S", "IQ2_XXS", "qwen3moe"];

/// Where such a model lies: `STEM.gguf`, `STEM.json`, `STEM.f32`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/types").join(name)
}

/// The demo model in the repository.
pub fn demo_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.gguf")
}

/// What llama.cpp computed for a model.
#[derive(serde::Deserialize)]
pub struct Golden {
    pub vocab: usize,
    pub tokens: Vec<u32>,
    pub logit_positions: Vec<usize>,
    pub greedy: Vec<u32>,
    pub greedy_margin: Vec<f32>,
    #[serde(skip)]
    pub logits: Vec<f32>,
}

impl Golden {
    pub fn load(stem: &Path) -> Golden {
        let mut golden: Golden = serde_json::from_slice(&std::fs::read(stem.with_extension("json")).unwrap()).unwrap();
        let raw = std::fs::read(stem.with_extension("f32")).unwrap();
        golden.logits = raw.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        golden
    }
}

/// Squared error over squared signal.
pub fn nmse(found: &[f32], truth: &[f32]) -> f64 {
    assert_eq!(found.len(), truth.len());
    let square = |x: f64| x * x;
    let error: f64 = found.iter().zip(truth).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    let signal: f64 = truth.iter().map(|b| square(f64::from(*b))).sum();
    assert!(error.is_finite());
    error / signal
}

/// Rows of one sequence from `start` on, all output rows.
pub fn rows(seq: u32, start: usize, ids: &[u32]) -> Vec<Row> {
    let row = |(i, id): (usize, &u32)| {
        let (pos, token) = ((start + i) as u32, Token::Id(*id));
        Row { seq, pos, token, output: RowOutput::Id, medium: None }
    };
    ids.iter().enumerate().map(row).collect()
}

/// Logits of every position, fed in chunks of `chunk`; the sequence is forgotten first. Where a model answers sources, they are
/// those of an answer that is its own source.
pub fn logits(runner: &mut dyn Runner, ids: &[u32], chunk: usize) -> Vec<f32> {
    runner.forget(0, 0);
    let (mut all, mut start) = (Vec::new(), 0);
    if runner.answers_from().is_some() {
        feed_source(runner, ids).unwrap();
        start = ids.len();
    }
    for (i, part) in ids.chunks(chunk).enumerate() {
        all.extend(runner.run(&rows(0, start + i * chunk, part), Want::Logits).unwrap().logits);
    }
    all
}

/// The rows of `all` at `positions`.
pub fn pick(all: &[f32], vocab: usize, positions: &[usize]) -> Vec<f32> {
    positions.iter().flat_map(|p| all[p * vocab..][..vocab].iter().copied()).collect()
}

/// The CPU reference for a file.
pub fn reference(gguf: &Gguf) -> Reference<'_> {
    Reference::new(gguf, model::plan(gguf).unwrap(), 1024, 2, 512)
}

/// The Vulkan engine on that device.
pub fn vulkan(gguf: &Gguf, options: Options) -> Option<VulkanRunner> {
    vulkan_plan(gguf, model::plan(gguf).unwrap(), options)
}

/// The Vulkan engine on that device, with a plan of the test's own.
pub fn vulkan_plan(gguf: &Gguf, plan: Plan, options: Options) -> Option<VulkanRunner> {
    let device = device(options.debug.force_staging)?;
    let device = device.with_caps(options.mask_capabilities(device.caps().clone()));
    Some(VulkanRunner::new(gguf, plan, device, &options, &mut |_, _| ()).unwrap())
}

/// Options of the tests: a small context, two sequences, exact products.
pub fn options(cache: CacheType) -> Options {
    Arithmetic::Exact.options(cache)
}

/// What [`options`] has of it.
pub fn exact() -> Debug {
    options(CacheType::F16).debug
}

/// Options with products as the device does them best, for tests that compare no numbers with those of another path.
pub fn usual(cache: CacheType) -> Options {
    Options { activations: None, debug: Debug::default(), ..options(cache) }
}

/// Fails on anything the validation layer said.
pub fn assert_silent(runner: &VulkanRunner) {
    assert_silent_on(runner.vk());
}

/// The model a golden file of `golden/types` was made with.
pub fn type_model(shared: &Path, name: &str) -> PathBuf {
    match name {
        "F16" => shared.join("models/llama-draft-f16.gguf"),
        _ => shared.join(format!("models/types/draft-{name}.gguf")),
    }
}

/// Milliseconds that this thread has computed, whatever else the machine does; 0 where the system does not tell.
pub fn cpu_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0) / 1_000_000
}

/// The largest NMSE from what llama.cpp computes that its own arithmetic explains. Nearly all models stay below 1e-12; a wrong
/// epsilon of a norm makes 1e-7.
pub fn bound(plan: &Plan, name: &str) -> f64 {
    let gelu = |op: &Op| match op {
        Op::General(General::Map(m)) => m.act == Act::Gelu,
        Op::GatedMatMul { by, .. } | Op::GatedExperts { by, .. } => by.act == Act::Gelu,
        _ => false,
    };
    match name {
        // The same, where scores are not scaled down; with ReLU the model comes to 5e-13.
        "t5" => 1e-6,
        // The same, where a layer's factor of 0.02 leaves little beside what GELU gave; with factors of 1 six layers come to 2e-8.
        "gemma-embedding2" => 1e-6,
        // Many layers make that more: of two layers the same models stay below 1e-7.
        "gemma3n-deep" | "gemma4-deep" => 1e-3,
        // GELU there is a table of halves: with halves here, too, the same models come to 1e-13.
        _ if plan.ops.iter().any(gelu) => 1e-7,
        // Floats keep four digits of the angles of such positions.
        "llama4-window" | "smallthinker-window" => 1e-8,
        // Their factors of frequencies come down to 0.002, and floats keep four digits of such angles.
        "phi3-dense" | "phimoe-moe" => 1e-8,
        _ => 1e-10,
    }
}
