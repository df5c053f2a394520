//! `pumex template`: which template is taken, and what comes out with which exit code.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pumex::gguf::{write, Value};

/// A file of metadata with templates and four tokens.
fn model(name: &str, templates: &[(&str, &str)], tokens: &[&str]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pumex-template-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut meta = vec![("general.architecture", Value::Str(b"llama".to_vec()))];
    meta.extend(templates.iter().map(|(key, text)| (*key, Value::Str(text.as_bytes().to_vec()))));
    let mut ends = Vec::new();
    tokens.iter().fold(0, |end, t| {
        ends.push(end + t.len());
        end + t.len()
    });
    meta.push(("tokenizer.ggml.tokens", Value::Strings { arena: tokens.concat().into_bytes(), ends }));
    meta.push(("tokenizer.ggml.bos_token_id", Value::U32(0)));
    meta.push(("tokenizer.ggml.eos_token_id", Value::U32(1)));
    let path = folder.join(name);
    std::fs::write(&path, write::header(meta.iter().map(|(k, v)| (*k, v)), &[], 32)).unwrap();
    path
}

fn template(args: &[&str], messages: &str) -> Output {
    let folder = std::env::temp_dir().join(format!("pumex-template-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let digest = messages.bytes().fold(7u64, |d, b| d.wrapping_mul(31).wrapping_add(b.into()));
    let file = folder.join(format!("{digest}.json"));
    std::fs::write(&file, messages).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
    command.arg("template").args(args).arg("--messages").arg(&file).env_remove("RUST_LOG").output().unwrap()
}

fn stdout_text(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

const HELLO: &str = r#"{"messages": [{"role": "user", "content": "hi <s>"}], "add_generation_prompt": true}"#;
const TOOLS: &str = r#"{"messages": [], "tools": [{"type": "function"}]}"#;

#[test]
fn the_models_template_has_its_tokens_and_its_variant_for_tools() {
    let own = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ x }}\n";
    let templates =
        [("tokenizer.chat_template", own), ("tokenizer.chat_template.tool_use", "tools {{ tools|length }}")];
    let file = model("own.gguf", &templates, &["<s>", "</s>", "a", "b"]);
    let made = template(&["-m", path(&file), "--chat-template-kwargs", "{\"x\": [1.0]}"], HELLO);
    assert_eq!(stdout_text(&made), "<s>hi <s></s>[1.0]");
    assert_eq!(stdout_text(&template(&["-m", path(&file), "--bos", "B", "--eos", ""], HELLO)), "Bhi <s>");
    assert_eq!(stdout_text(&template(&["-m", path(&file)], TOOLS)), "tools 1");
    assert_eq!(stdout_text(&template(&["-m", path(&file), "--chat-template", "tool_use"], TOOLS)), "tools 1");
    assert_eq!(stdout_text(&template(&["--chat-template", "{{ messages|length }}"], HELLO)), "1");
}

#[test]
fn the_parts_say_where_special_tokens_may_stand() {
    let made = template(&["--chat-template", "chatml", "--json"], HELLO);
    let json: serde_json::Value = serde_json::from_str(stdout_text(&made)).unwrap();
    let parts: Vec<(&str, bool)> =
        json["parts"].as_array().unwrap().iter().map(|p| (p["text"].as_str().unwrap(), p["special"] == true)).collect();
    let wanted = [("<|im_start|>user\n", true), ("hi <s>", false), ("<|im_end|>\n<|im_start|>assistant\n", true)];
    assert_eq!(parts, wanted);
}

#[test]
fn a_model_without_template_gets_its_familys_or_a_note() {
    let file = model("chatml.gguf", &[], &["<s>", "</s>", "<|im_start|>", "<|im_end|>"]);
    let made = template(&["-m", path(&file)], HELLO);
    assert_eq!(stdout_text(&made), "<|im_start|>user\nhi <s><|im_end|>\n<|im_start|>assistant\n");
    let file = model("none.gguf", &[], &["<s>", "</s>"]);
    let made = template(&["-m", path(&file)], HELLO);
    assert_eq!(made.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&made.stderr).contains("no chat template"));
}

#[test]
fn refusals_and_errors_exit_1_and_bad_usage_2() {
    let run = |args: &[&str], messages: &str| {
        let made = template(args, messages);
        assert!(made.stdout.is_empty());
        (made.status.code(), String::from_utf8(made.stderr).unwrap())
    };
    let refused = run(&["--chat-template", "{{ raise_exception('only once') }}"], HELLO);
    assert!(refused.0 == Some(1) && refused.1.contains("only once") && refused.1.lines().count() == 1, "{refused:?}");
    let failed = run(&["--chat-template", "a\n{{ x.y }}"], HELLO);
    assert!(failed.0 == Some(1) && failed.1.contains("line 2: 'x' is undefined"), "{failed:?}");
    let endless = run(&["--chat-template", "{{ 'a' * 10**9 }}"], HELLO);
    assert!(endless.0 == Some(1) && endless.1.contains("64 MiB"), "{endless:?}");
    for (args, messages) in [(vec!["--chat-template", "chatml"], "[1]"), (vec!["--chat-template", "chatml"], "{")] {
        assert_eq!(run(&args, messages).0, Some(1));
    }
    let now = ["--chat-template", "chatml", "--now", "yesterday"];
    let kwargs = ["--chat-template", "chatml", "--chat-template-kwargs", "[]"];
    let both = ["--chat-template", "chatml", "--chat-template-file", "x"];
    for args in [&now[..], &kwargs, &both, &[]] {
        assert_eq!(run(args, HELLO).0, Some(2), "{args:?}");
    }
    // Whatever names no template is one.
    assert_eq!(stdout_text(&template(&["--chat-template", "nosuch"], HELLO)), "nosuch");
}

#[test]
fn the_clock_can_be_set() {
    let format = "{{ strftime_now('%d %b %Y %H:%M') }}";
    let made = template(&["--chat-template", format, "--now", "2026-01-15T12:00:00"], HELLO);
    assert_eq!(stdout_text(&made), "15 Jan 2026 12:00");
}
