//! Text by diffusion: `golden/diffusion.json` has what llama.cpp's example writes with seeded models, and `pumex run` writes the same.

use crate::seeded::Recipe;
use crate::util::{exact, options, vulkan};
use pumex::cpu::{Fast, FastSettings as CpuSettings, Reference, RunnerSizes};
use pumex::diffusion::{generate, Algorithm, DiffusionSettings, Schedule};
use pumex::engine::{CacheType, Options};
use pumex::model;
use pumex::step::Runner;
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;

/// Positions of a context and rows of a step.
const ROWS: usize = 32;

/// One text of the example: its settings by the names of its flags, and all ids of the window.
#[derive(serde::Deserialize)]
struct Case {
    model: String,
    prompt: Vec<u32>,
    steps: usize,
    window: usize,
    seed: u32,
    temperature: f32,
    top_k: i32,
    top_p: f32,
    algorithm: u32,
    eps: f32,
    block: usize,
    guidance: f32,
    algorithm_temperature: f32,
    gumbel: u8,
    shifted: u8,
    mask: u32,
    ids: Vec<u32>,
}

impl Case {
    fn settings(&self) -> DiffusionSettings {
        DiffusionSettings {
            steps: self.steps,
            window: self.window,
            seed: self.seed,
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            algorithm: Algorithm::from_number(self.algorithm).unwrap(),
            schedule: if self.block > 0 { Schedule::Blocks(self.block) } else { Schedule::Times(self.eps) },
            algorithm_temperature: self.algorithm_temperature,
            guidance: self.guidance,
            gumbel: self.gumbel > 0,
            shifted: self.shifted > 0,
            mask: self.mask,
        }
    }

    fn check(&self, runner: &mut dyn Runner, what: &str) {
        let mut steps = 0;
        let mut told = |_: usize, _: &[u32]| steps += 1;
        let stop = AtomicBool::new(false);
        let ids = generate(runner, &self.prompt, &self.settings(), &stop, &mut told).unwrap().unwrap();
        assert_eq!(ids, self.ids, "{what}, {} with {:?}", self.model, self.settings());
        assert!(steps > 0 && steps <= self.steps, "{what}: {steps} steps");
    }
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/diffusion.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn windows_are_filled_on_the_cpu_as_by_llama_cpp() {
    let cases = cases();
    assert!(cases.len() > 24, "{}", cases.len());
    for case in cases {
        let name: &'static str = case.model.clone().leak();
        let gguf = Recipe::recipe_of(name).gguf(name);
        let plan = model::plan(&gguf).unwrap();
        case.check(&mut Reference::new(&gguf, plan.clone(), ROWS, 1, ROWS), "the reference");
        let floats = || Elements::Floats(Float::F32);
        let sizes =
            RunnerSizes { n_ctx: ROWS, n_seqs: 1, max_rows: ROWS, cache_positions: None, k: floats(), v: floats() };
        let one = CpuSettings { threads: Some(1), ..CpuSettings::default() };
        case.check(&mut Fast::new(&gguf, plan, sizes, &one).unwrap(), "the CPU");
    }
}

#[test]
fn windows_are_filled_on_a_device_as_by_llama_cpp() {
    for name in ["llada", "rnd1"] {
        let gguf = Recipe::recipe_of(name).gguf(name);
        let options =
            Options { n_ctx: Some(ROWS as u32), max_rows: ROWS as u32, debug: exact(), ..options(CacheType::F32) };
        let Some(mut runner) = vulkan(&gguf, options) else { return };
        for case in cases().iter().filter(|case| case.model == name).take(2) {
            case.check(&mut runner, "a device");
        }
    }
}

#[test]
fn settings_that_do_not_hold_together_are_refused_by_name() {
    let case = cases().remove(0);
    type Change = fn(&mut DiffusionSettings);
    let wrong: [(&str, Change); 7] = [
        ("--diffusion-steps", |s| s.steps = 0),
        ("--diffusion-eps", |s| s.schedule = Schedule::Times(0.0)),
        ("--diffusion-eps", |s| s.schedule = Schedule::Times(f32::NAN)),
        ("--diffusion-block-length", |s| s.schedule = Schedule::Blocks(5)),
        ("--diffusion-steps", |s| (s.schedule, s.steps) = (Schedule::Blocks(8), 7)),
        ("the window", |s| s.window = ROWS + 1),
        ("the mask token", |s| s.mask = 64),
    ];
    let gguf = Recipe::recipe_of("llada").gguf("llada");
    let mut runner = Reference::new(&gguf, model::plan(&gguf).unwrap(), ROWS, 1, ROWS);
    let stop = AtomicBool::new(false);
    for (named, change) in wrong {
        let mut settings = case.settings();
        change(&mut settings);
        let error = generate(&mut runner, &case.prompt, &settings, &stop, &mut |_, _| ()).unwrap_err().to_string();
        assert!(error.contains(named), "{named}: {error}");
    }
    for prompt in [&[][..], &[1; ROWS]] {
        let error = generate(&mut runner, prompt, &case.settings(), &stop, &mut |_, _| ()).unwrap_err().to_string();
        assert!(error.contains("the prompt"), "{error}");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(generate(&mut runner, &case.prompt, &case.settings(), &stop, &mut |_, _| ()).unwrap(), None);
}

/// A model in a file, whose vocabulary are letters and digits, gone with this.
struct TemporaryModel(PathBuf);

impl TemporaryModel {
    fn new(name: &str, shifted: bool) -> TemporaryModel {
        let mut recipe = Recipe::recipe_of(name);
        let letters = ('a'..='z').chain('A'..='Z').chain('0'..='9').map(|c| json!(c.to_string()));
        let tokens: Vec<Value> = letters.chain([json!("<s>"), json!("<mask>")]).collect();
        let kinds: Vec<i32> = (0..tokens.len()).map(|id| if id < 62 { 1 } else { 3 }).collect();
        let keys = [
            ("tokenizer.ggml.model", json!("gpt2")),
            ("tokenizer.ggml.pre", json!("gpt-2")),
            ("tokenizer.ggml.tokens", json!(tokens)),
            ("tokenizer.ggml.token_type", json!(kinds)),
            ("tokenizer.ggml.merges", json!(["a b"])),
            ("tokenizer.ggml.bos_token_id", json!(62)),
            ("tokenizer.ggml.eos_token_id", json!(62)),
            ("tokenizer.ggml.mask_token_id", json!(63)),
            ("diffusion.shift_logits", json!(shifted)),
        ];
        recipe.keys.extend(keys.map(|(key, value)| (key.to_string(), value)));
        let path = std::env::temp_dir().join(format!("pumex-diffusion-{name}-{}.gguf", std::process::id()));
        std::fs::write(&path, recipe.bytes()).unwrap();
        TemporaryModel(path)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
        command.args(["run", "-m"]).arg(&self.0).args(["--device", "reference", "-p", "drQj"]).args(args);
        command.stdin(Stdio::null()).env_remove("RUST_LOG").output().unwrap()
    }

    fn ids(&self, args: &[&str]) -> Vec<u32> {
        let output = self.run(&[args, &["--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        serde_json::from_value(report["ids"].clone()).unwrap()
    }
}

impl Drop for TemporaryModel {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The flags of a case.
fn flags(case: &Case) -> Vec<String> {
    let mut flags = vec![
        format!("--diffusion-steps={}", case.steps),
        format!("--ubatch-size={}", case.window),
        format!("--seed={}", case.seed),
        format!("--temp={}", case.temperature),
        format!("--top-k={}", case.top_k),
        format!("--top-p={}", case.top_p),
        format!("--diffusion-algorithm={}", case.algorithm),
        format!("--diffusion-cfg-scale={}", case.guidance),
        format!("--diffusion-alg-temp={}", case.algorithm_temperature),
        format!("--diffusion-add-gumbel-noise={}", case.gumbel),
    ];
    flags.push(match case.block {
        0 => format!("--diffusion-eps={}", case.eps),
        block => format!("--diffusion-block-length={block}"),
    });
    flags
}

#[test]
fn run_writes_by_diffusion_what_llama_cpp_writes() {
    for (name, shifted) in [("llada", 0), ("rnd1", 1)] {
        let made = TemporaryModel::new(name, shifted > 0);
        let mut tried = 0;
        let like = |case: &Case| case.model == name && case.shifted == shifted && case.prompt.len() == 4;
        for case in cases().into_iter().filter(like) {
            let flags = flags(&case);
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            assert_eq!(made.ids(&flags), case.ids[4..], "{name} {flags:?}");
            tried += 1;
        }
        assert!(tried > 5, "{name}: {tried}");
    }
    let made = TemporaryModel::new("dream", false);
    let usual = ["--top-k", "1", "--seed", "1", "--diffusion-steps", "4"];
    // A window of the prompt and what -n says.
    assert_eq!(made.ids(&[&usual[..], &["-n", "6"]].concat()).len(), 6);
    // stdout has the text alone, steps go to stderr.
    let output = made.run(&[&usual[..], &["-n", "6", "--diffusion-visual"]].concat());
    let (text, steps) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && text.ends_with('\n') && text.len() <= 7, "{text:?}: {steps}");
    assert!(steps.contains("step 0 of 4:") && steps.contains("step 3 of 4:"), "{steps}");
}

#[test]
fn flags_that_do_not_go_with_diffusion_are_refused_by_name() {
    let made = TemporaryModel::new("llada-moe", false);
    let long = ["-n", "9999"];
    let wrong: [(&[&str], &str); 9] = [
        (&["--diffusion-steps", "0"], "--diffusion-steps"),
        (&["--diffusion-eps", "0.1", "--diffusion-block-length", "8"], "--diffusion-block-length"),
        (&["--diffusion-eps", "2"], "--diffusion-eps"),
        (&["--diffusion-algorithm", "5"], "--diffusion-algorithm"),
        (&["--diffusion-block-length", "5", "-n", "24"], "--diffusion-block-length"),
        (&["--min-p", "0.1"], "--min-p"),
        (&["--grammar", "root ::= \"a\""], "--grammar"),
        (&["--logprobs", "1"], "--logprobs"),
        (&long, "-n"),
    ];
    for (args, named) in wrong {
        let output = made.run(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(named), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
    let output = command.args(["run", "-p", "a", "-n", "1", "--diffusion-steps", "4"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--diffusion-steps: expected a model that writes by diffusion"), "{said}");
}
