//! What a terminal shows of a model's work: kernels that are prepared, lines broken between words.

use super::screen::Terminal;
use super::{args, model, run_piped, text, PLAIN};
use crate::util;
use pumex::vk::DeviceKind;

/// The program on a software device, whose kernels are compiled in each run.
fn first_run(args: &[&str]) -> Terminal {
    let state = std::env::temp_dir().join(format!("pumex-terminal-{}/state-kernels", std::process::id()));
    let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
    Terminal::start(&args, &state)
}

#[test]
fn a_first_run_says_how_many_kernels_are_prepared() {
    if !pumex::vk::list().is_ok_and(|found| found.iter().all(|caps| caps.kind == DeviceKind::Cpu) && !found.is_empty())
    {
        return util::skip(util::TestNeed::Device, "only a software device prepares kernels in each run");
    }
    let prompt = ["run", "--device", "vulkan", "-no-cnv", "-p", "And it", "-n", "4", "--temp", "0"];
    let mut t = first_run(&prompt);
    t.wait("preparing kernels ");
    t.wait("/");
    t.wait("░");
    // What stood there is gone before the text begins.
    t.wait("\u{1b}[K");
    t.wait("And it");
    t.wait("pipelines: built in ");
    t.wait("prompt: ");
    assert_eq!(t.end(), Some(0));
    let file = model("plain", PLAIN);
    let mut t = first_run(&["run", "--device", "vulkan", "-n", "4", "-st", "-p", "hi", "-m", file.to_str().unwrap()]);
    t.wait("preparing kernels ");
    assert_eq!(t.end(), Some(0));
    let args: Vec<String> = prompt.map(String::from).into();
    assert!(!text(&run_piped(&args, "").stderr).contains("preparing"), "nobody looks");
}

#[test]
fn answers_are_wrapped_between_words_on_a_terminal_alone() {
    let file = model("plain", PLAIN);
    let more = ["-st", "-p", "tell me of the king", "-n", "60", "--ignore-eos"];
    let piped = run_piped(&args(&file, &more), "");
    let state = std::env::temp_dir().join(format!("pumex-terminal-{}/state-wrap", std::process::id()));
    let mut t = Terminal::start(&args(&file, &more), &state);
    t.resize(30, 32);
    t.wait(" of 256]");
    let shown = t.visible_text();
    assert_eq!(t.end(), Some(0));
    let answer = text(&piped.stdout).trim();
    assert!(answer.lines().any(|line| line.len() > 32), "one line is too long for the terminal: {answer:?}");
    assert!(!shown.contains(&answer.replace('\n', "\r\n")), "{shown:?}");
    let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    let (shown_words, answer_words) = (words(&shown), words(answer));
    assert!(shown_words.windows(answer_words.len()).any(|w| w == answer_words), "{shown:?} for {answer:?}");
}
