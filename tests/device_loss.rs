//! Devices that are lost amid the work, and memory that runs out there: what is told, and what goes on.

use crate::util::{demo_path, options, rows, vulkan};
use pumex::engine::{self, CacheType, Debug, DeviceChoice, Options};
use pumex::gguf::Gguf;
use pumex::sample::{Allowed, SampleRequest, SamplerOptions};
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use pumex::{Error, Result};
use std::process::{Command, Output};
use std::sync::Arc;

const PROMPT: [u32; 9] = [5, 102, 199, 296, 393, 490, 587, 684, 781];

/// A runner on a Vulkan device that is lost from some submission on; none without a device.
fn load_losable(gguf: &Gguf, revives: bool, lost_at: Option<u64>) -> Option<Box<dyn Runner + '_>> {
    if !crate::util::has_device() {
        return None;
    }
    let usual = options(CacheType::F16);
    let debug = Debug { lost_at, ..usual.debug };
    let options = Options { device: DeviceChoice::Vulkan, revives, debug, ..usual };
    Some(engine::load(gguf, &options, &mut |_, _| ()).unwrap())
}

/// Ids that follow a prompt, two steps in flight, with a penalty that sees those before, then those of a fork.
fn read_ids(runner: &mut dyn Runner) -> Result<Vec<u32>> {
    let chain = Arc::new(SamplerOptions { temperature: 0.0, repeat_penalty: 1.5, ..SamplerOptions::default() });
    let sample = || {
        let (options, recent) = (chain.clone(), vec![5]);
        RowOutput::Sample(SampleRequest { options, recent, unit: 0.0, allowed: Allowed::All })
    };
    let mut ids = runner.run(&rows(0, 0, &PROMPT), Want::Ids)?.ids;
    let mut ahead = None;
    for pos in 9..17 {
        let row = Row { seq: 0, pos, token: Token::Sampled, output: sample(), medium: None };
        if let Some(earlier) = ahead.replace(runner.start(&[row])?) {
            ids.extend(runner.finish(earlier)?.ids);
        }
    }
    if let Some(last) = ahead {
        ids.extend(runner.finish(last)?.ids);
    }
    runner.fork(0, 1, 12)?;
    ids.extend(runner.run(&rows(1, 12, &[9]), Want::Ids)?.ids);
    runner.forget(0, 10);
    ids.extend(runner.run(&rows(0, 10, &[7]), Want::Ids)?.ids);
    Ok(ids)
}

#[test]
fn a_model_that_lost_its_device_goes_on_with_a_new_one_as_if_nothing_was() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(mut runner) = load_losable(&gguf, true, None) else { return };
    let before = runner.counters().submits;
    let truth = read_ids(&mut *runner).unwrap();
    let last = runner.counters().submits - before;
    assert!(truth.len() == 9 + 8 + 2 && last >= 11 && !runner.was_revived());
    drop(runner);
    // In the prompt, with two steps in flight, of the fork, in the last step.
    for at in [1, 5, last - 1, last] {
        let Some(mut runner) = load_losable(&gguf, true, Some(at)) else { return };
        assert_eq!(read_ids(&mut *runner).unwrap(), truth, "lost at submission {at} of {last}");
        assert!(runner.was_revived(), "lost at submission {at} of {last}");
    }
    let Some(mut runner) = load_losable(&gguf, false, Some(5)) else { return };
    let error = read_ids(&mut *runner).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Lost(_)), "{text}");
    for part in ["ERROR_DEVICE_LOST", "driver ", "; submission ", "dispatches from ", "MiB"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn memory_that_runs_out_amid_a_run_is_freed_or_told_with_the_context_that_would_fit() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(mut runner) = vulkan(&gguf, options(CacheType::F16)) else { return };
    let step = |runner: &mut dyn Runner, n: usize| {
        runner.forget(0, 0);
        runner.run(&rows(0, 0, &PROMPT[..n]), Want::Logits).map(|output| output.logits)
    };
    let truth = step(&mut runner, 9).unwrap();
    assert!(runner.recordings() > 0);
    // More logits need a larger buffer.
    runner.vk().refuse(0, 1);
    let again = runner.run(&rows(1, 0, &PROMPT), Want::Logits).unwrap().logits;
    assert_eq!(again, truth, "what was freed is made again");
    let kept = runner.recordings();
    runner.vk().refuse(0, 1000);
    let error = runner.run(&rows(1, 9, &[1; 12]), Want::Logits).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::OutOfMemory(_)) && text.contains("would fit"), "{text}");
    assert!(kept > 0 && runner.recordings() == 0, "all that can be made again is freed");
    runner.vk().refuse(0, 0);
    assert_eq!(runner.sequence_len(1), 9, "the step that failed left nothing");
    assert_eq!(step(&mut runner, 9).unwrap(), truth);
    crate::util::assert_silent_on(runner.vk());
}

fn pumex(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pumex")).args(args).env_remove("RUST_LOG").output().unwrap()
}

#[test]
fn commands_tell_of_a_lost_device_and_end_with_1_or_go_on_where_that_is_asked_for() {
    if !crate::util::has_device() {
        return;
    }
    let text = std::env::temp_dir().join(format!("pumex-lost-{}.txt", std::process::id()));
    std::fs::write(&text, "In the beginning was the word, and the word was with us. ".repeat(40)).unwrap();
    let file = text.to_str().unwrap();
    let commands: [&[&str]; 3] = [
        &["run", "-p", "In the beginning", "-n", "24", "--temp", "0"],
        &["perplexity", "-f", file, "-c", "32", "--chunks", "12"],
        &["bench", "-p", "0", "-n", "40", "-r", "2"],
    ];
    for command in commands {
        let all = [command, &["--device", "vulkan", "--ubatch-size", "32"]].concat();
        let with = |more: &[&str]| pumex(&[&all, more].concat());
        let lost = with(&["--lose-at", "5"]);
        let told = String::from_utf8_lossy(&lost.stderr).into_owned();
        assert_eq!(lost.status.code(), Some(1), "{command:?}: {told}");
        let errors: Vec<&str> = told.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(
            errors.len() == 1 && errors[0].contains("device lost") && errors[0].contains("dispatches from"),
            "{told}"
        );
        if command[0] != "bench" {
            let (again, usual) = (with(&["--lose-at", "5", "--retry-lost"]), with(&[]));
            let told = String::from_utf8_lossy(&again.stderr).into_owned();
            assert_eq!(again.status.code(), Some(0), "{command:?}: {told}");
            assert_eq!(again.stdout, usual.stdout, "{command:?}: {told}");
        }
    }
    std::fs::remove_file(text).unwrap();
}
