//! Conversations on a terminal and over pipes: the built program with an instruct model made of the demo model.

mod dropped;
pub mod screen;
mod shown;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::util;
use pumex::gguf::{write, Gguf, Value};
use screen::Terminal;

#[path = "../cli/src/chat/commands.rs"]
mod commands;
#[path = "../cli/src/chat/compose.rs"]
mod compose;
#[path = "../cli/src/sampler_values.rs"]
mod sampler_values;
#[path = "../cli/src/chat/settings.rs"]
mod settings;

use commands::Command as Slash;

const PLAIN: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
                     {% if add_generation_prompt %}assistant:{% endif %}";
/// The prompt opens a block of reasoning, which earlier turns do not keep.
const THINKS: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
                      {% if add_generation_prompt %}assistant:<think>{% if enable_thinking is false %}\n</think>\n{% endif %}{% endif %}";

/// The demo model with a chat template, in a file that only this process writes.
fn model(name: &str, template: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pumex-terminal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.gguf"));
    let demo = Gguf::open(&util::demo_path()).unwrap();
    let template = Value::Str(template.as_bytes().to_vec());
    let meta = demo.meta().iter().chain([("tokenizer.chat_template", &template)]);
    let entry = |t: &pumex::gguf::Tensor| write::Entry {
        name: t.name.clone(),
        dims: t.dims.clone(),
        type_id: t.type_id,
        len_bytes: demo.data(t).len() as u64,
    };
    let entries: Vec<_> = demo.tensors().iter().map(entry).collect();
    let mut bytes = write::header(meta, &entries, 32);
    for tensor in demo.tensors() {
        bytes.extend(demo.data(tensor));
        bytes.resize(bytes.len().next_multiple_of(32), 0);
    }
    // Tests run beside each other: the file must never be half there.
    let part = folder.join(format!("{name}.{:?}.part", std::thread::current().id()));
    std::fs::write(&part, bytes).unwrap();
    std::fs::rename(&part, &path).unwrap();
    path
}

/// How a prompt without text ends on a terminal: lines with text move the cursor further. Keys that come earlier meet a terminal
/// that nobody reads, where Ctrl-D means another thing.
const PROMPT: &str = "\u{1b}[2C";

fn args(model: &std::path::Path, more: &[&str]) -> Vec<String> {
    let usual = ["run", "--device", "cpu", "--temp", "0", "-c", "256", "-n", "8", "-m", model.to_str().unwrap()];
    usual.iter().chain(more).map(|a| a.to_string()).collect()
}

/// A conversation on a terminal of its own, with its state in a folder of its own.
fn terminal(name: &str, model: &std::path::Path, more: &[&str]) -> Terminal {
    let state = std::env::temp_dir().join(format!("pumex-terminal-{}/state-{name}", std::process::id()));
    let mut terminal = Terminal::start(&args(model, more), &state);
    terminal.wait(PROMPT);
    terminal
}

fn run_piped(args: &[String], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
    command.args(args).env_remove("RUST_LOG").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may end before it read all.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn what_a_script_asks_for_is_continued_as_it_is() {
    let with = model("plain", PLAIN);
    let without = util::demo_path();
    let raw = ["-p", "And it came to pass", "--no-display-prompt"];
    let [a, b] = [&with, &without].map(|m| run_piped(&args(m, &raw), ""));
    assert_eq!((a.status.code(), text(&a.stdout)), (Some(0), text(&b.stdout)));
    assert!(text(&a.stdout).starts_with(", when the"), "{:?}", text(&a.stdout));
    let no = run_piped(&args(&with, &["-no-cnv", "--no-display-prompt"]), "And it came to pass");
    assert_eq!(text(&no.stdout), text(&a.stdout));
    // One turn of a model without template is a prompt, too.
    let single = run_piped(&args(&without, &["-st", "-p", "And it came to pass", "--no-display-prompt"]), "");
    assert_eq!(text(&single.stdout), text(&a.stdout));
    let asked = run_piped(&args(&without, &["-cnv"]), "hi\n");
    assert_eq!((asked.status.code(), text(&asked.stdout)), (Some(1), ""));
    assert!(text(&asked.stderr).contains("no chat template"));
}

#[test]
fn one_turn_over_pipes_is_what_the_template_makes_of_it() {
    let file = model("plain", PLAIN);
    let one = run_piped(&args(&file, &["-st", "-p", "who came to pass?"]), "");
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));
    let prompt = "user: who came to pass?\nassistant:";
    let raw = run_piped(&args(&file, &["-p", prompt, "--no-display-prompt", "-no-cnv"]), "");
    assert_eq!(text(&one.stdout).trim(), text(&raw.stdout).split("\nuser:").next().unwrap().trim());
    assert!(!text(&one.stderr).contains('\u{1b}'), "no colours: {:?}", text(&one.stderr));
    assert!(text(&one.stderr).contains(" t/s; context "), "{}", text(&one.stderr));
    let from_pipe = run_piped(&args(&file, &["-st"]), "who came to pass?\n");
    assert_eq!(from_pipe.stdout, one.stdout);
    let json = run_piped(&args(&file, &["-st", "--json", "-sys", "be short", "-p", "who came to pass?"]), "");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["message"]["role"], &json["generated_tokens"]), (&"assistant".into(), &8.into()));
}

#[test]
fn lines_of_a_pipe_are_turns_and_commands() {
    let file = model("plain", PLAIN);
    let both = run_piped(
        &args(&file, &["-cnv"]),
        "who came \\\nto pass?\n/frobnicate\n/tokens\n\"\"\"\nand\nthen\n\"\"\"\n/set temp warm\n",
    );
    assert_eq!(both.status.code(), Some(0), "{}", text(&both.stderr));
    let said = text(&both.stderr);
    assert!(said.contains("no command /frobnicate: there are /help /clear"), "{said}");
    assert!(said.contains("in 1 turns"), "{said}");
    assert!(said.contains("temp: expected a finite number, found warm"), "{said}");
    assert_eq!(said.matches(" t/s; context ").count(), 2, "{said}");
    assert!(!said.contains("> "), "no prompts where nobody types: {said}");
}

#[test]
fn settings_change_what_they_name_and_nothing_else() {
    let file = model("plain", PLAIN);
    let talk = |more: &[&str], lines: &str| {
        let out = run_piped(&args(&file, &[&["-cnv", "--temp", "1.5", "--seed", "5"], more].concat()), lines);
        (text(&out.stdout).to_string(), text(&out.stderr).to_string())
    };
    let (plain, _) = talk(&["--mirostat", "2"], "who came?\nand then?\n");
    let (set, _) = talk(&["--mirostat", "2"], "who came?\n/set min-keep 1\n/set top-k 3\nand then?\n");
    assert_eq!(set, plain, "the draw goes on");
    let (_, said) = talk(&["--logit-bias", "5-inf"], "/set mirostat 2\n/set mirostat 0\n/set\n");
    for kept in ["penalties;dry;top_n_sigma;top_k;", "5-inf", "0.95", "1.5"] {
        assert!(said.contains(kept), "{kept}: {said}");
    }
    let (_, said) = talk(&[], "/set logit-bias 99999999+1\n/set logit-bias\n/set repeat-penalty -1\n/set\n");
    assert!(said.contains("logit-bias: expected an id below ") && said.contains("  none "), "{said}");
    assert!(said.contains("repeat-penalty: expected a finite number above 0, found -1"), "{said}");
    // What DRY needs of the vocabulary comes with the setting.
    let long = ["-n", "60", "--temp", "0"];
    let flag = talk(&[&long[..], &["--dry-multiplier", "4"]].concat(), "the king of the land\n").0;
    let set = talk(&long, "/set dry-multiplier 4\nthe king of the land\n").0;
    let off = talk(&long, "the king of the land\n").0;
    assert_eq!(flag, set);
    assert_ne!(flag, off);
}

#[test]
fn an_answer_given_anew_is_another_and_the_same_in_each_run() {
    let file = model("plain", PLAIN);
    let run = |seed: &str, lines: &str| {
        let out = run_piped(&args(&file, &["-cnv", "--json", "--temp", "1.5", "--seed", seed]), lines);
        let said = text(&out.stderr).to_string();
        let answers = serde_json::Deserializer::from_slice(&out.stdout).into_iter::<serde_json::Value>();
        (answers.map(|a| a.unwrap()["message"]["content"].to_string()).collect::<Vec<_>>(), said)
    };
    let (first, _) = run("5", "who came?\n/regen\n/regen\n");
    assert!(first.len() == 3 && first[0] != first[1] && first[1] != first[2], "{first:?}");
    assert_eq!(run("5", "who came?\n/regen\n/regen\n").0, first);
    assert_eq!(run("5", "who came?\n/set top-k 40\n/regen\n").0[1], first[1], "a setting draws nothing");
    assert_ne!(run("6", "who came?\n/regen\n").0[1], first[1]);
    let said = |temp: &str| {
        let out = run_piped(&args(&file, &["-cnv", "--temp", temp, "--seed", "5"]), "who came?\n/regen\n");
        text(&out.stderr).to_string()
    };
    assert!(said("1.5").contains("[once more, draw 1 of seed 5]") && said("0").contains("the answer to the same"));
}

#[test]
fn a_loaded_conversation_without_functions_leaves_those_of_the_command_line() {
    let with_tools = format!("{{{{ tools | tojson if tools }}}}{PLAIN}");
    let file = model("tools", &with_tools);
    let (kept, tools) = (file.with_file_name("no-tools.json"), file.with_file_name("tools.json"));
    std::fs::write(&tools, r#"[{"type": "function", "function": {"name": "weather", "parameters": {}}}]"#).unwrap();
    let lines = format!("/load {0}\n/save {0}\n/load {0}\n", kept.display());
    assert!(run_piped(&args(&file, &["-cnv"]), &format!("/save {}\n", kept.display())).status.success());
    let out = run_piped(&args(&file, &["-cnv", "--tools", tools.to_str().unwrap()]), &lines);
    let said = text(&out.stderr);
    assert_eq!(said.matches("; the functions of --tools stay").count(), 1, "{said}");
    assert!(std::fs::read_to_string(&kept).unwrap().contains("weather"), "{said}");
}

#[test]
fn reasoning_is_cut_off_at_its_budget_and_is_no_part_of_the_answer() {
    let file = model("thinks", THINKS);
    let answer = |more: &[&str]| {
        let out = run_piped(&args(&file, &[&["-st", "--json", "-p", "who came to pass?"], more].concat()), "");
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        (json, text(&out.stderr).to_string())
    };
    let (all, _) = answer(&[]);
    assert!(all["message"]["reasoning_content"].is_string() && all["message"]["content"] == "", "{all}");
    let (some, _) = answer(&["--reasoning-budget", "3", "-n", "12"]);
    let (thought, whole) = (&some["message"]["reasoning_content"], &all["message"]["reasoning_content"]);
    assert!(whole.as_str().unwrap().starts_with(thought.as_str().unwrap()) && thought != whole, "{some}");
    assert_ne!(some["message"]["content"], "", "{some}");
    assert_eq!(some["generated_tokens"], 12, "{some}");
    for none in [&["--reasoning-budget", "0"][..], &["--reasoning", "off"]] {
        let (none, _) = answer(none);
        assert!(none["message"]["reasoning_content"].is_null() && none["message"]["content"] != "", "{none}");
    }
}

#[test]
fn answers_stay_within_a_grammar_and_reasoning_before_them_does_not() {
    let (plain, thinks) = (model("plain", PLAIN), model("thinks", THINKS));
    let answer = |file: &Path, more: &[&str]| {
        let out =
            run_piped(&args(file, &[&["-cnv", "--json", "-n", "24"], more].concat()), "who came to pass?\nand then?\n");
        let lines = serde_json::Deserializer::from_slice(&out.stdout).into_iter::<serde_json::Value>();
        let answers: Vec<serde_json::Value> = lines.map(|line| line.unwrap()["message"].clone()).collect();
        assert_eq!(answers.len(), 2, "{}", text(&out.stderr));
        answers
    };
    for message in answer(&plain, &["-j", r#"{"enum": ["yes", "no"]}"#]) {
        let said: String = serde_json::from_str(message["content"].as_str().unwrap()).unwrap();
        assert!(["yes", "no"].contains(&said.as_str()), "{message}");
    }
    for message in answer(&thinks, &["--grammar", r#"root ::= "yes" | "no""#, "--reasoning-budget", "5"]) {
        assert!(["yes", "no"].contains(&message["content"].as_str().unwrap()), "{message}");
        assert!(message["reasoning_content"].as_str().is_some_and(|text| text.len() > 4), "{message}");
    }
}

#[test]
fn a_full_context_ends_an_answer_or_goes_on_and_drops_old_turns() {
    let file = model("plain", PLAIN);
    let small = |more: &[&str], input: &str| {
        let out = run_piped(&args(&file, &[&["-c", "64", "--ignore-eos"], more].concat()), input);
        (text(&out.stdout).to_string(), text(&out.stderr).to_string(), out.status.code())
    };
    let (_, said, code) = small(&["-no-cnv", "-n", "-1"], "And it came");
    assert!(code == Some(0) && said.contains("the context of 64 tokens is full: -c N"), "{said}");
    let (long, said, code) = small(&["-no-cnv", "-n", "200", "--context-shift", "--keep", "2"], "And it came");
    assert!(code == Some(0) && long.len() > 400 && said.contains("generated: 200 tokens"), "{said}");
    let many = "tell me of the people of the land and of the king\n".repeat(6);
    let (_, said, code) = small(&["-cnv"], &many);
    assert!(code == Some(0) && said.contains("no longer sees the oldest"), "{said}");
    let (_, said, code) = small(&["-cnv", "--no-context-shift"], &many);
    assert!(code == Some(0) && said.contains("/undo, /clear, or start with -c"), "{said}");
    let (answer, said, code) = small(&["-cnv", "--context-shift", "-n", "150"], "tell me\n");
    assert!(code == Some(0) && answer.len() > 200 && said.contains("the context was full"), "{said}");
    let (_, said, code) = small(&["-st", "-p", &many], "");
    assert!(code == Some(1) && said.contains("the conversation needs"), "{said}");
}

#[test]
fn hostile_files_are_refused_in_one_line() {
    let file = model("plain", PLAIN);
    let folder = file.parent().unwrap();
    let deep = folder.join("deep.json");
    std::fs::write(&deep, "[".repeat(1 << 20)).unwrap();
    let out = run_piped(&args(&file, &["-cnv", "--tools", deep.to_str().unwrap()]), "");
    assert_eq!((out.status.code(), text(&out.stderr).lines().count()), (Some(1), 1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("deep.json: bad_tools: "), "{}", text(&out.stderr));
    let out = run_piped(&args(&file, &["-cnv"]), &format!("/load {}\n/read {}x\n", deep.display(), deep.display()));
    assert!(text(&out.stderr).contains("deep.json: not_a_conversation: "), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("deep.jsonx: "), "{}", text(&out.stderr));
    for bad in
        [["--reasoning", "loud"], ["--reasoning-budget", "-2"], ["--color", "pink"], ["--chat-template-kwargs", "[]"]]
    {
        assert_eq!(run_piped(&args(&file, &[&["-cnv"], &bad[..]].concat()), "").status.code(), Some(2), "{bad:?}");
    }
}

#[test]
fn a_closed_stdout_ends_the_conversation() {
    let file = model("plain", PLAIN);
    let line = format!(
        "(printf 'tell me\\nmore\\n' | {} {}; echo ended by $? >&2) | head -c 0",
        env!("CARGO_BIN_EXE_pumex"),
        args(&file, &["-cnv"]).join(" ")
    );
    let out = Command::new("sh").args(["-c", &line]).env_remove("RUST_LOG").output().unwrap();
    assert_eq!(text(&out.stderr), "ended by 141\n", "nothing failed, and nobody reads it");
}

#[test]
fn a_terminal_gets_a_conversation_and_ctrl_d_leaves() {
    let file = model("plain", PLAIN);
    let mut t = terminal("talk", &file, &[]);
    assert!(
        t.visible_text().contains("plain.gguf on CPU") || t.visible_text().contains("/help lists commands"),
        "{}",
        t.visible_text()
    );
    t.send("who came to pass?\r");
    t.wait(" of 256]");
    t.wait(PROMPT);
    t.send("/he\t\r");
    t.wait("/regen");
    t.wait(PROMPT);
    t.send("/nonsense\r");
    t.wait("no command /nonsense");
    t.wait(PROMPT);
    t.send("/undo\r");
    t.wait("taken back: who came");
    t.wait(PROMPT);
    t.resize(20, 40);
    t.send("a\\\rb\r");
    t.wait(" of 256]");
    t.wait(PROMPT);
    t.send("/set temp 0.5\r");
    t.wait(PROMPT);
    t.send("/set temp\r");
    t.wait("0.5");
    t.wait(PROMPT);
    t.send("\u{4}");
    assert_eq!(t.end(), Some(0));
}

#[test]
fn ctrl_c_stops_the_answer_and_not_the_program() {
    let file = model("plain", PLAIN);
    let mut t = terminal("stop", &file, &["-n", "100000", "--ignore-eos", "-c", "0", "--context-shift"]);
    t.send("tell me of the king\r");
    t.wait("king");
    t.wait_for_more(400);
    t.send("\u{3}");
    t.wait("[stopped]");
    t.wait(PROMPT);
    t.send("half a line\u{3}");
    t.wait(PROMPT);
    assert!(!t.visible_text().contains("Ctrl-C once more"), "{}", t.visible_text());
    t.send("\u{3}");
    t.wait("Ctrl-C once more");
    t.wait(PROMPT);
    t.send("\u{3}");
    assert_eq!(t.end(), Some(130));
}

#[test]
fn a_long_prompt_says_how_far_it_is_and_can_be_stopped() {
    let file = model("plain", PLAIN);
    let mut t = terminal("prompt", &file, &["-c", "100000", "-ub", "64"]);
    let pasted = "in the beginning was a line\n".repeat(100 * 1024 / 28);
    t.send(&format!("\u{1b}[200~{pasted}\u{1b}[201~"));
    t.send("\r");
    t.wait("reading the prompt");
    t.send("\u{3}");
    t.wait("the message is taken back");
    t.wait(PROMPT);
    t.send("/tokens\r");
    t.wait("0 of 100000 tokens");
    t.wait(PROMPT);
    t.send("\u{4}");
    assert_eq!(t.end(), Some(0));
}

#[test]
fn history_stays_and_can_be_switched_off() {
    let file = model("plain", PLAIN);
    let mut t = terminal("history", &file, &[]);
    t.send("/tokens\r");
    t.wait("0 of 256");
    t.wait(PROMPT);
    t.send("/exit\r");
    assert_eq!(t.end(), Some(0));
    let mut t = terminal("history", &file, &[]);
    t.send("\u{1b}[A\u{1b}[A\r");
    t.wait("0 of 256");
    t.wait(PROMPT);
    t.send("\u{4}");
    assert_eq!(t.end(), Some(0));
    let mut t = terminal("history", &file, &["--no-history"]);
    t.send("\u{1b}[A\u{1b}[A/bye\r");
    assert_eq!(t.end(), Some(0));
}

#[test]
fn a_pasted_text_of_100_kb_is_one_message() {
    let file = model("plain", PLAIN);
    let mut t = terminal("paste", &file, &[]);
    let pasted = "in the beginning was a line\n".repeat(100 * 1024 / 28);
    t.send(&format!("\u{1b}[200~{pasted}\u{1b}[201~"));
    t.send("\r");
    // It is far too long for the context, which says that all of it came at once.
    t.wait("error: the conversation needs ");
    t.wait(PROMPT);
    assert_eq!(t.visible_text().matches("error:").count(), 1);
    t.send("/tokens\r");
    t.wait("0 of 256 tokens");
    t.wait(PROMPT);
    t.send("\u{4}");
    assert_eq!(t.end(), Some(0));
}

#[test]
fn a_conversation_is_saved_and_loaded() {
    let file = model("plain", PLAIN);
    let kept = file.with_file_name("kept.json");
    let kept = kept.to_str().unwrap();
    let out =
        run_piped(&args(&file, &["-cnv", "-sys", "be good"]), &format!("who came?\n/set top-k 3\n/save {kept}\n"));
    assert!(text(&out.stderr).contains("3 messages saved"), "{}", text(&out.stderr));
    let out =
        run_piped(&args(&file, &["-cnv"]), &format!("/load {kept}\n/system\n/set top-k\n/regen\n/clear\n/tokens\n"));
    let said = text(&out.stderr);
    assert!(
        said.contains("3 messages loaded") && said.contains("be good") && said.contains("top-k                3"),
        "{said}"
    );
    assert_eq!(said.matches(" t/s; context ").count(), 1, "{said}");
}

#[test]
fn the_result_of_a_call_is_asked_for_and_becomes_the_tools_message() {
    let file = model("plain", PLAIN);
    let (called, kept) = (file.with_file_name("called.json"), file.with_file_name("answered.json"));
    let call = r#"{"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": "{}"}}"#;
    let messages = format!(
        r#"[{{"role": "user", "content": "how is it?"}}, {{"role": "assistant", "content": "", "tool_calls": [{call}]}}]"#
    );
    let whole = format!(r#"{{"format": "pumex conversation", "version": 1, "messages": {messages}}}"#);
    std::fs::write(&called, whole).unwrap();
    let mut t = terminal("call", &file, &["-mli"]);
    t.send("/tool early\r");
    t.wait("the model has called no tool");
    t.wait(PROMPT);
    t.send(&format!("/load {}\r", called.display()));
    t.wait("result of weather> ");
    t.wait("\u{1b}[19C");
    t.send("sunny\rand warm\\\r");
    t.wait(" of 256]");
    t.wait(PROMPT);
    t.send(&format!("/save {}\r", kept.display()));
    t.wait("4 messages saved");
    t.wait(PROMPT);
    t.send("\u{4}");
    assert_eq!(t.end(), Some(0));
    let saved: serde_json::Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
    let tool = &saved["messages"][2];
    assert_eq!((&tool["role"], &tool["content"]), (&"tool".into(), &"sunny\nand warm".into()), "{saved}");
    assert_eq!((&tool["tool_call_id"], &tool["name"]), (&"call00001".into(), &"weather".into()));
}

#[test]
fn commands_are_read_as_the_table_says() {
    let parse = |text: &str| commands::parse(text);
    for entry in commands::TABLE {
        for name in entry.0 {
            let given = if entry.1.is_empty() { name.to_string() } else { format!("{name} x") };
            assert!(matches!(parse(&given), Some(Ok(_))), "{given}");
            assert!(commands::help().contains(name));
        }
    }
    assert_eq!(parse("/set temp 0.5 "), Some(Ok(Slash::Set(Some(("temp".into(), Some("0.5".into())))))));
    assert_eq!(parse("/system be\nshort"), Some(Ok(Slash::System(Some("be\nshort".into())))));
    for message in ["hello", " /help", "/etc/passwd is a file", "/", "a /help"] {
        assert_eq!(parse(message), None, "{message}");
    }
    for wrong in ["/save", "/clear all", "/nothing"] {
        assert!(matches!(parse(wrong), Some(Err(_))), "{wrong}");
    }
}

#[test]
fn lines_go_on_where_they_say_so() {
    let one = |text: &str| compose::compose(text, false);
    assert_eq!(one("a"), Some("a".into()));
    assert_eq!((one("a\\"), one("a\\\nb")), (None, Some("a\nb".into())));
    assert_eq!((one("\"\"\"a\nb"), one("\"\"\"")), (None, None));
    assert_eq!((one("\"\"\"\na\nb\n\"\"\""), one("\"\"\"a\"\"\"")), (Some("a\nb".into()), Some("a".into())));
    assert_eq!((one("a\nb"), one("")), (Some("a\nb".into()), Some("".into())));
    let many = |text: &str| compose::compose(text, true);
    assert_eq!((many("a"), many("a\n"), many("a\nb\\")), (None, None, Some("a\nb".into())));
    assert_eq!((many("/help"), many(" ")), (Some("/help".into()), Some("".into())));
}

#[test]
fn settings_take_what_they_show_and_refuse_the_rest() {
    let mut s = settings::ChatSettings {
        sampling: pumex::sample::SamplerOptions::default(),
        breakers: vec!["\n".into(), "a\"b".into()],
        ignore_eos: false,
        predict: -1,
        reasoning: settings::Reasoning::Auto,
        budget: -1,
        effort: settings::AUTO.into(),
    };
    let (before, values) = (s.clone(), s.values().collect::<Vec<_>>());
    for (name, value) in &values {
        s.change(name, value).unwrap();
        assert!(s.change(name, "much luck").unwrap_err().contains(name));
        assert!(s.show(Some(name)).unwrap().contains(value));
    }
    for (name, wrong, expected) in [
        ("repeat-penalty", "0", "above 0"),
        ("repeat-last-n", "-2", "at least -1"),
        ("mirostat", "3", "0, 1 or 2"),
        ("xtc-threshold", "1.5", "from 0 to 1"),
        ("dry-base", "inf", "at least 0"),
        ("logit-bias", "5", "ID+X"),
        ("samplers", "top_k;luck", "expected one of"),
        ("reasoning-budget", "-2", "at least -1"),
        ("ignore-eos", "yes", "on or off"),
    ] {
        let said = s.change(name, wrong).unwrap_err();
        assert!(said.starts_with(name) && said.contains(expected) && !said.contains('\n'), "{said}");
    }
    assert_eq!(s, before, "what is refused changes nothing");
    for (name, value) in [("logit-bias", "5+1.5,7-inf"), ("samplers", "top_k;temperature"), ("mirostat", "2")] {
        s.change(name, value).unwrap();
        let shown = s.values().find(|v| v.0 == name).unwrap().1;
        assert_eq!(shown, value);
    }
    assert!(s.change("volume", "11").unwrap_err().contains("there are temp, "));
    assert!(s.show(Some("volume")).is_err() && s.show(None).unwrap().lines().count() == values.len());
}

/// A template that tells how calls are written.
const CALLS: &str = "{% if tools %}{{ tools|length }} in <tool_call> </tool_call>\n{% endif %}\
                     {% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
                     {% if add_generation_prompt %}assistant:{% endif %}";

#[test]
fn calls_are_forced_or_left_out_as_the_flag_says_and_are_always_of_their_schema() {
    let file = model("calls", CALLS);
    let tools = file.with_file_name("lamps.json");
    let schema = r#"{"type": "object", "properties": {"on": {"type": "boolean"}, "lamp": {"type": "integer", "minimum": 1,
        "maximum": 9}}, "required": ["on", "lamp"], "additionalProperties": false}"#;
    let one = |name: &str| format!(r#"{{"name": "{name}", "parameters": {schema}}}"#);
    std::fs::write(&tools, format!("[{}, {}]", one("light"), one("switch"))).unwrap();
    let run = |choice: &[&str], input: &str| {
        let usual = ["-cnv", "--json", "-n", "210", "--tools", tools.to_str().unwrap()];
        run_piped(&args(&file, &[&usual[..], choice].concat()), input)
    };
    for (choice, name) in [("required", None), ("switch", Some("switch"))] {
        let out = run(&["--tool-choice", choice], "dark here\n");
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| {
            panic!("{e}: {}: {}", text(&out.stdout), text(&out.stderr));
        });
        let calls = answer["message"]["tool_calls"].as_array().unwrap();
        assert!(!calls.is_empty(), "{answer}");
        let call = &calls[0]["function"];
        assert!(name.is_none_or(|name| call["name"] == name), "{answer}");
        let arguments: serde_json::Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert!(arguments["on"].is_boolean() && (1..=9).contains(&arguments["lamp"].as_u64().unwrap()), "{answer}");
    }
    // The answer to a result may be text.
    let out = run(&["--tool-choice", "light"], "dark here\ndone\n");
    let answers: Vec<serde_json::Value> =
        serde_json::Deserializer::from_slice(&out.stdout).into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1]["message"]["tool_calls"], serde_json::Value::Null, "{}", answers[1]);
    let out = run(&["--tool-choice", "none"], "dark here\n");
    assert!(!text(&out.stdout).contains("tool_calls") && out.status.success(), "{}", text(&out.stdout));
    for (choice, code, expected) in [
        (&["--tool-choice", "nope"][..], 1, "--tool-choice: function nope is not among the tools"),
        (&["--json-schema", "{}"], 2, "--tools: expected no grammar"),
        (&["--tool-choice", ""], 2, "expected auto, none, required"),
    ] {
        let out = run(choice, "hi\n");
        assert_eq!(out.status.code(), Some(code), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains(expected), "{}", text(&out.stderr));
    }
    let odd = file.with_file_name("odd.json");
    let list = r#"{"type": "array", "minItems": 5, "maxItems": 0}"#;
    let schema = format!(r#"{{"type": "object", "properties": {{"k": {list}}}, "required": ["k"]}}"#);
    std::fs::write(&odd, format!(r#"[{{"name": "f", "parameters": {schema}}}]"#)).unwrap();
    let out = run_piped(&args(&file, &["-cnv", "--tools", odd.to_str().unwrap()]), "hi\n");
    let told = |out: &std::process::Output| {
        text(&out.stderr).contains("function \"f\": its arguments are not held to their schema")
    };
    assert!(out.status.success() && told(&out), "{}", text(&out.stderr));
    let forced = ["-cnv", "--tools", odd.to_str().unwrap(), "--tool-choice", "f"];
    let out = run_piped(&args(&file, &forced), "hi\n");
    // It is called all the same, with whatever arguments.
    assert!(told(&out) && text(&out.stderr).contains("property 'k' is unsatisfiable"), "{}", text(&out.stderr));
    let plain = model("plain", PLAIN);
    let out =
        run_piped(&args(&plain, &["-cnv", "--tools", tools.to_str().unwrap(), "--tool-choice", "required"]), "hi\n");
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("calls (plain) cannot be forced"), "{}", text(&out.stderr));
    let out = run_piped(&args(&file, &["-cnv", "--tool-choice", "required"]), "hi\n");
    assert_eq!(out.status.code(), Some(2), "a choice needs functions");
    let out = run_piped(&args(&file, &["-cnv", "--logprobs", "2"]), "hi\n");
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("--logprobs: expected a prompt to continue"), "{}", text(&out.stderr));
}
