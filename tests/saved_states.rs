//! Saved sequences: what goes on after a restore as if it had never stopped, and files that are refused.

use crate::seeded::Recipe;
use crate::util::{assert_silent, demo_path, nmse, options, rows, sample, vulkan};
use pumex::cpu::{Fast, FastSettings, Reference, RunnerSizes};
use pumex::engine::{CacheType, Options};
use pumex::gguf::Gguf;
use pumex::step::{Runner, Want};
use pumex::{model, state};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use std::path::{Path, PathBuf};

const ROWS: usize = 256;

fn sizes(k: Elements) -> RunnerSizes {
    let v = Elements::Floats(Float::F16);
    RunnerSizes { n_ctx: ROWS, n_seqs: 3, max_rows: 64, cache_positions: None, k, v }
}

fn fast(gguf: &Gguf, k: Elements) -> Fast<'_> {
    let settings = FastSettings { threads: Some(2), ..FastSettings::default() };
    Fast::new(gguf, model::plan(gguf).unwrap(), sizes(k), &settings).unwrap()
}

fn halves() -> Elements {
    Elements::Floats(Float::F16)
}

fn q8() -> Elements {
    Elements::Blocks(pumex_quant::all().find(|f| f.name == "Q8_0").unwrap())
}

fn feed(runner: &mut dyn Runner, seq: u32, start: usize, ids: &[u32]) -> Vec<f32> {
    let chunk = runner.max_rows().min(48);
    let parts = ids.chunks(chunk).enumerate();
    parts.flat_map(|(i, part)| runner.run(&rows(seq, start + i * chunk, part), Want::Logits).unwrap().logits).collect()
}

fn forget(runner: &mut dyn Runner, seq: u32) {
    runner.forget(seq, 0);
}

/// Another sequence goes on from what is saved of the first, as the first does and as its fork does.
fn goes_on(runner: &mut dyn Runner, ids: &[u32], what: &str) {
    let bound = 0.0;
    let cut = ids.len() - 40;
    feed(runner, 0, 0, &ids[..cut]);
    let mut saved = Vec::new();
    runner.save(0, &mut saved).unwrap();
    runner.fork(0, 2, cut as u32).unwrap();
    let truth = feed(runner, 0, cut, &ids[cut..]);
    feed(runner, 1, 0, &ids[7..20]); // to be forgotten
    runner.restore(1, &mut &saved[..]).unwrap();
    assert_eq!(
        (runner.sequence_len(1), runner.sequence_len(0), runner.sequence_len(2)),
        (cut, ids.len(), cut),
        "{what}"
    );
    let mut again = Vec::new();
    runner.save(1, &mut again).unwrap();
    let differs = saved.iter().zip(&again).position(|(a, b)| a != b);
    assert_eq!((again.len(), differs), (saved.len(), None), "{what}: saved again");
    let (restored, forked) = (feed(runner, 1, cut, &ids[cut..]), feed(runner, 2, cut, &ids[cut..]));
    let [restored, forked] = [restored, forked].map(|found| nmse(&found, &truth));
    println!("{what}: {restored:e} restored, {forked:e} forked");
    assert!(restored.max(forked) <= bound, "{what}: {restored:e} restored, {forked:e} forked");
    // What is cut short leaves nothing behind, and others alone.
    for len in [0, 7, 20, saved.len() / 2, saved.len() - 1] {
        assert!(runner.restore(1, &mut &saved[..len]).is_err(), "{what}: {len} of {} bytes", saved.len());
        assert_eq!((runner.sequence_len(1), runner.sequence_len(0)), (0, ids.len()), "{what}");
    }
    assert!(runner.restore(9, &mut &saved[..]).is_err() && runner.sequence_len(9) == 0, "{what}: no such sequence");
    let free = runner.free_blocks();
    runner.restore(1, &mut &saved[..]).unwrap();
    runner.forget(1, 0);
    assert_eq!(runner.free_blocks(), free, "{what}");
    begins(runner, ids, &truth, what);
    (0..3).for_each(|seq| {
        runner.forget(seq, 0);
    });
}

/// A beginning of a sequence that went on comes back beside it, with the blocks that both have.
fn begins(runner: &mut dyn Runner, ids: &[u32], truth: &[f32], what: &str) {
    let cut = ids.len() - 40;
    (0..3).for_each(|seq| forget(runner, seq));
    feed(runner, 0, 0, &ids[..cut]);
    runner.fork(0, 1, cut as u32).unwrap();
    feed(runner, 0, cut, &ids[cut..]);
    let (mut whole, mut beginning) = (Vec::new(), Vec::new());
    runner.save(0, &mut whole).unwrap();
    runner.save_beside(1, &mut beginning).unwrap();
    (0..2).for_each(|seq| forget(runner, seq));
    let free = runner.free_blocks();
    runner.restore(2, &mut &whole[..]).unwrap();
    let taken = free - runner.free_blocks();
    runner.restore_beside(2, 0, &mut &beginning[..]).unwrap();
    assert_eq!((runner.sequence_len(2), runner.sequence_len(0)), (ids.len(), cut), "{what}");
    assert_eq!(free - runner.free_blocks(), taken, "{what}: blocks of all positions are shared");
    let restored = nmse(&feed(runner, 0, cut, &ids[cut..]), truth);
    assert!(restored <= 0.0, "{what}: {restored:e} of a beginning");
    runner.forget(0, 0);
    for len in [0, 9, beginning.len() - 1] {
        assert!(runner.restore_beside(2, 0, &mut &beginning[..len]).is_err(), "{what}: {len} of {}", beginning.len());
        assert_eq!((runner.sequence_len(2), runner.sequence_len(0)), (ids.len(), 0), "{what}");
    }
    assert!(runner.restore_beside(1, 0, &mut &beginning[..]).is_err(), "{what}: beside one that holds nothing");
    (0..3).for_each(|seq| forget(runner, seq));
    assert_eq!(runner.free_blocks(), free, "{what}");
}

/// Usual, windows, Mamba, delta nets, latent attention, blocks of rows, and attention beside Mamba.
const MODELS: &[&str] = &["gemma3", "qwen3next", "mamba2", "llama", "deepseek2", "mamba", "deepseek4", "falcon-h1"];

fn ids_of(recipe: &Recipe) -> Vec<u32> {
    recipe.ids.iter().copied().cycle().take(150).collect()
}

#[test]
fn restored_sequences_go_on_on_the_cpu_as_if_they_had_never_stopped() {
    for &name in MODELS {
        let recipe = Recipe::recipe_of(name);
        let (gguf, ids) = (recipe.gguf(name), ids_of(&recipe));
        let mut truth = Reference::new(&gguf, model::plan(&gguf).unwrap(), ROWS, 3, 64);
        goes_on(&mut truth, &ids, &format!("{name}, reference"));
        goes_on(&mut fast(&gguf, halves()), &ids, &format!("{name}, fast"));
    }
    let gguf = Gguf::open(&demo_path()).unwrap();
    let ids: Vec<u32> = (0..150).map(|i| i * 97 % 4000 + 5).collect();
    goes_on(&mut fast(&gguf, q8()), &ids, "demo, q8_0");
}

#[test]
fn restored_sequences_go_on_on_a_device_as_if_they_had_never_stopped() {
    for &name in sample(MODELS, 2) {
        let recipe = Recipe::recipe_of(name);
        let (gguf, ids) = (recipe.gguf(name), ids_of(&recipe));
        let way = Options { n_ctx: Some(ROWS as u32), n_seqs: 3, max_rows: 64, ..options(CacheType::F16) };
        let Some(mut runner) = vulkan(&gguf, way) else { return };
        goes_on(&mut runner, &ids, name);
        assert_silent(&runner);
    }
    let gguf = Gguf::open(&demo_path()).unwrap();
    let way = Options { n_ctx: Some(ROWS as u32), n_seqs: 3, max_rows: 64, ..options(CacheType::Q8_0) };
    let Some(mut runner) = vulkan(&gguf, way) else { return };
    let ids: Vec<u32> = (0..150).map(|i| i * 97 % 4000 + 5).collect();
    goes_on(&mut runner, &ids, "demo, q8_0");
}

#[test]
fn restored_sequences_go_on_on_both_sides_of_a_parted_model() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(device) = crate::util::device(false) else { return };
    let way =
        Options { n_ctx: Some(ROWS as u32), n_seqs: 3, max_rows: 64, gpu_layers: Some(2), ..options(CacheType::F16) };
    let mut runner = pumex::engine::load_on(&gguf, Some(device), &way, &mut |_, _| ()).unwrap();
    let ids: Vec<u32> = (0..80).map(|i| i * 97 % 4000 + 5).collect();
    goes_on(&mut *runner, &ids, "demo, parted");
}

struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> TemporaryFolder {
        let folder = std::env::temp_dir().join(format!("pumex-states-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        TemporaryFolder(folder)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_that_is_not_what_was_saved_is_refused_by_name() {
    let recipe = Recipe::recipe_of("mamba2");
    let (gguf, ids) = (recipe.gguf("mamba2"), &ids_of(&recipe)[..9]);
    let (folder, other) = (TemporaryFolder::new("files"), Recipe::recipe_of("llama"));
    let (path, mark) = (folder.0.join("state"), state::fingerprint(&gguf));
    let mut runner = fast(&gguf, halves());
    feed(&mut runner, 0, 0, ids);
    assert!(state::save(&path, mark, &ids[1..], &mut runner, 0).is_err() && !path.exists());
    state::save(&path, mark, ids, &mut runner, 0).unwrap();
    let good = std::fs::read(&path).unwrap();
    assert_eq!(state::load(&path, mark, &mut runner, 1).unwrap(), ids);
    let truth = feed(&mut runner, 0, 9, &[3]);
    assert!(feed(&mut runner, 1, 9, &[3]) == truth);
    let refused = |runner: &mut dyn Runner, path: &Path, mark: u64| {
        let held = runner.sequence_len(0);
        let error = state::load(path, mark, runner, 0).unwrap_err().to_string();
        assert!(error.starts_with(path.to_str().unwrap()) && error.lines().count() == 1, "{error}");
        assert_eq!(runner.sequence_len(0), held, "{error}");
        error
    };
    let strange = other.gguf("llama");
    assert!(refused(&mut runner, &path, state::fingerprint(&strange)).contains("another model's"));
    let mut truth = Reference::new(&gguf, model::plan(&gguf).unwrap(), ROWS, 3, 64);
    assert!(refused(&mut truth, &path, mark).contains("saved on such a device"));
    let mut short = Fast::new(
        &gguf,
        model::plan(&gguf).unwrap(),
        RunnerSizes { n_ctx: 8, ..sizes(halves()) },
        &FastSettings::default(),
    );
    let error = refused(short.as_mut().unwrap(), &path, mark);
    assert!(error.contains("the context's 8 positions"), "{error}");
    let bad = folder.0.join("bad");
    // Every length of the beginning and the end, and some between; likewise a flipped bit.
    let places = || (0..good.len()).filter(|at| *at < 100 || *at + 20 > good.len() || at % 997 == 0);
    for at in places() {
        std::fs::write(&bad, &good[..at]).unwrap();
        refused(&mut runner, &bad, mark);
        let mut flipped = good.clone();
        flipped[at] ^= 1 << (at % 8);
        std::fs::write(&bad, &flipped).unwrap();
        let error = refused(&mut runner, &bad, mark);
        assert_eq!(error.contains("expected version 2 of"), (8..12).contains(&at), "{at}: {error}");
    }
    std::fs::write(&bad, [&good[..], b"more"].concat()).unwrap();
    assert!(refused(&mut runner, &bad, mark).contains("damaged or cut short"));
    assert!(refused(&mut runner, &folder.0.join("absent"), mark).contains("No such file"));
}

#[test]
fn a_runs_prompt_goes_on_from_its_cache() {
    let folder = TemporaryFolder::new("run");
    let file = folder.0.join("cache");
    let run = |prompt: &str, args: &[&str]| {
        let usual =
            ["run", "--device", "cpu", "-c", "128", "-n", "8", "--temp", "0", "--prompt-cache", file.to_str().unwrap()];
        let args = [&usual[..], &["-p", prompt], args].concat();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pumex"));
        let output = command.args(args).stdin(std::process::Stdio::null()).env_remove("RUST_LOG").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let prompt = "In the beginning God created the heaven and the earth";
    let first = run(prompt, &[]);
    assert!(first.0 == 0 && !first.2.contains("prompt cache: "), "{}", first.2);
    let saved = std::fs::read(&file).unwrap();
    let again = run(prompt, &["--prompt-cache-ro"]);
    assert_eq!((again.0, &again.1), (0, &first.1));
    assert!(again.2.contains("prompt cache: "), "{}", again.2);
    // Another text takes what is common, and is saved in its place unless that is not wanted.
    let longer = format!("{prompt}, and the spirit");
    assert_eq!(run(&longer, &["--prompt-cache-ro"]).0, 0);
    assert!(std::fs::read(&file).unwrap() == saved);
    assert_eq!(run(&longer, &["--prompt-cache-all"]).0, 0);
    assert!(std::fs::read(&file).unwrap().len() > saved.len());
    std::fs::write(&file, &saved[..saved.len() - 1]).unwrap();
    let damaged = run(prompt, &[]);
    assert!(damaged.0 == 1 && damaged.2.contains("damaged or cut short"), "{}", damaged.2);
}
