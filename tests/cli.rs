//! The command line: the table that rewrites llama.cpp's flags, and the built program's streams and exit codes.

use std::ffi::OsString;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

#[path = "../cli/src/argv.rs"]
mod argv;
#[path = "../cli/src/llama_cpp_flags.rs"]
mod llama_cpp_flags;

fn rewrite(line: &str) -> String {
    let out = argv::rewrite(line.split(' ').map(OsString::from));
    out.args.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
}

pub fn pumex(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
    command.args(args).stdin(Stdio::null()).env_remove("RUST_LOG").output().unwrap()
}

pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn every_alias_becomes_its_long_flag() {
    for (command, table) in [
        ("run", argv::COMMON),
        ("bench", argv::BENCH),
        ("profile", argv::PROFILE),
        ("embed", argv::EMBED),
        ("serve", argv::SERVE),
    ] {
        for (aliases, long, slot) in table {
            let names = aliases.iter().copied().chain([*long]).map(String::from);
            let underscores = [format!("--{}", long[2..].replace('-', "_"))];
            for name in names.chain(underscores) {
                let (given, want) = match slot {
                    // What a command passes over by a name of the common table.
                    _ if llama_cpp_flags::find_own(command, &name.replace('_', "-")).is_some() => {
                        (format!("{command} {name} on x"), format!("{command} x"))
                    }
                    llama_cpp_flags::FlagValue::None => (format!("{command} {name} x"), format!("{command} {long} x")),
                    _ => (format!("{command} {name} on x"), format!("{command} {long}=on x")),
                };
                assert_eq!(rewrite(&given), want);
            }
        }
    }
}

#[test]
fn no_name_stands_twice_in_a_table() {
    for table in [argv::COMMON, argv::BENCH, argv::PROFILE, argv::EMBED, argv::SERVE] {
        let mut names: Vec<&str> = table.iter().flat_map(|e| e.0.iter().copied().chain([e.1])).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

#[test]
fn values_may_be_negative_or_look_like_flags() {
    assert_eq!(rewrite("run -n -1 -s -1 -p -ngl -ngl 99"), "run --predict=-1 --seed=-1 --prompt=-ngl --gpu-layers=99");
    assert_eq!(rewrite("run --n_predict=-2"), "run --predict=-2");
    assert_eq!(rewrite("run -ctk f32 -ub 64"), "run --cache-type-k=f32 --ubatch-size=64");
}

#[test]
fn a_bare_flash_attention_flag_means_on() {
    assert_eq!(rewrite("run -fa -n 1"), "run --flash-attn=on --predict=1");
    assert_eq!(rewrite("run -fa off"), "run --flash-attn=off");
    assert_eq!(rewrite("run -fa"), "run --flash-attn=on");
}

#[test]
fn bench_reads_its_own_meaning_of_p_n_r_o_d() {
    assert_eq!(
        rewrite("bench -p 512 -n 128 -r 3 -o json -d 4,8"),
        "bench --n-prompt=512 --n-gen=128 --repetitions=3 --output=json --n-depth=4,8"
    );
    assert_eq!(rewrite("run -r User: -o x"), "run --reverse-prompt=User: --out=x");
}

#[test]
fn bench_takes_lists_ranges_and_prompts_with_what_follows_them() {
    let line = "bench --device cpu -p 4-16*2 -p 5 -n 0 -pg 8,4 -r 1 --no-warmup -t 1,2 -ctk f16,q8_0 -o jsonl";
    let out = pumex(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let rows: Vec<Value> = stdout(&out).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tests: Vec<[u64; 2]> = rows.iter().map(|r| ["n_prompt", "n_gen"].map(|k| r[k].as_u64().unwrap())).collect();
    assert_eq!(tests, [[4, 0], [8, 0], [16, 0], [5, 0], [8, 4]].repeat(4));
    let loads: Vec<(u64, &str)> =
        rows.iter().step_by(5).map(|r| (r["n_threads"].as_u64().unwrap(), r["type_k"].as_str().unwrap())).collect();
    assert_eq!(loads, [(1, "f16"), (1, "q8_0"), (2, "f16"), (2, "q8_0")]);
    let table =
        pumex(&["bench", "--device=cpu", "-p", "0", "-n", "0", "--n-prompt-gen", "8,4", "-r", "1", "-ub", "64,512"]);
    let table = stdout(&table);
    assert!(
        table.lines().filter(|line| line.contains("pp8+tg4")).count() == 2 && table.contains("| n_ubatch |"),
        "{table}"
    );
    assert_eq!(table.matches("t/s").count(), 1, "one table: {table}");
    for wrong in [["-p", "9-1"], ["-p", "1-9*1"], ["-pg", "5"], ["-pg", "0,4"]] {
        assert_eq!(code(&pumex(&[&["bench"], &wrong[..]].concat())), 2, "{wrong:?}");
    }
}

#[test]
fn nothing_after_two_dashes_is_touched() {
    assert_eq!(rewrite("inspect -- -ngl 4"), "inspect -- -ngl 4");
}

#[test]
fn flags_without_a_command_belong_to_run() {
    assert_eq!(rewrite("-m x -p y"), "run --model=x --prompt=y");
    assert_eq!(rewrite("--version"), "--version");
}

#[test]
fn the_last_of_a_repeated_flag_counts_with_a_warning() {
    let argv::Rewritten { args, warnings, notes } =
        argv::rewrite("run -n 1 --predict 2 -r a -r b".split(' ').map(OsString::from));
    assert!(notes.is_empty());
    assert_eq!(args, ["run", "--predict=2", "--reverse-prompt=a", "--reverse-prompt=b"].map(OsString::from));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("--predict"));
}

#[test]
fn other_programs_flags_are_passed_over_with_a_note_and_words_are_no_clusters() {
    let own = llama_cpp_flags::OWN.iter().filter(|(command, _)| *command == "serve").map(|(_, flag)| flag);
    for (names, slot, why) in llama_cpp_flags::PASSED.iter().chain(own) {
        assert!(!why.is_empty());
        for name in *names {
            let value = if *slot == llama_cpp_flags::FlagValue::Value { " 1" } else { "" };
            let out = argv::rewrite(format!("serve {name}{value} --port 1").split(' ').map(OsString::from));
            assert_eq!((out.args.len(), out.notes.len()), (2, 1), "{name}: {out:?}");
            assert_eq!(out.notes[0], format!("{name} has no effect here: {why}"));
        }
    }
    assert_eq!(rewrite("serve -cram 0 -sm none -fit off --port 1"), "serve --port=1");
    assert_eq!(rewrite("serve -mw x -c5 -vv -n=3"), "serve --mw x -c5 -vv --predict=3");
    assert_eq!(rewrite("explain --fit x"), "explain --fit x");
    assert_eq!(rewrite("--list-devices"), "devices");
    assert_eq!(rewrite("a.gguf hello -n 3"), "run --model=a.gguf --prompt=hello --predict=3");
    assert_eq!(rewrite("run a.gguf"), "run --model=a.gguf");
    assert_eq!(rewrite("inspect a.gguf"), "inspect a.gguf");
}

#[test]
fn every_command_exists_and_prints_help() {
    for command in [
        "run",
        "inspect",
        "tokenize",
        "devices",
        "logits",
        "perplexity",
        "bench",
        "profile",
        "explain",
        "embed",
        "template",
    ] {
        let output = pumex(&[command, "--help"]);
        assert_eq!(code(&output), 0, "{command}: {}", stderr(&output));
        assert!(stdout(&output).contains("Usage:"));
    }
}

#[test]
fn explain_shows_what_a_device_would_run_without_having_it() {
    let text = pumex(&["explain", "--as", "h200", "-b", "40", "-d", "8"]);
    assert_eq!((code(&text), stderr(&text).lines().count()), (0, 1));
    assert!(stderr(&text).starts_with("note: no model given, ") && stderr(&text).contains("-hf "), "{}", stderr(&text));
    let text = stdout(&text);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("device: NVIDIA H200"), "{text}");
    assert!(
        lines[1].contains("= embed token_embd.weight") && lines[2].starts_with("    embed.q6_k [40, 1, 1] "),
        "{text}"
    );
    assert!(text.contains("    attn_prompt [") && lines.last().unwrap().contains(" dispatches, "), "{text}");
    let json = pumex(&["explain", "--synthetic", "llama-8b", "--as", "radeon_rx_7900_xtx", "-np", "3", "--json"]);
    let json: serde_json::Value = serde_json::from_str(stdout(&json)).unwrap();
    let dispatches = json["step"]["dispatches"].as_array().unwrap();
    assert!(dispatches.len() > 100 && dispatches[0]["grid"] == serde_json::json!([3, 1, 1]), "{}", dispatches[0]);
    let wide = dispatches.iter().find(|d| d["module"].as_str().unwrap().starts_with("gemv_dot")).unwrap();
    let matrices = wide["variants"].as_array().unwrap().iter().find(|v| v["kernel"] == "gemm_mat").unwrap();
    assert!(matrices["passed_over"].as_str().unwrap().contains("no matrices"), "{wide}");
    // Subgroups of a kernel's own size are told, and only those.
    let subgroup = |kernel: &str| {
        let of = |d: &&serde_json::Value| d["module"].as_str().unwrap().split('.').next() == Some(kernel);
        &dispatches.iter().find(of).unwrap()["subgroup"]
    };
    assert_eq!((subgroup("attn_split").as_u64(), subgroup("gemv_dot").as_u64()), (Some(32), None));
    // What `devices --json` printed serves as a file.
    let file = std::env::temp_dir().join(format!("pumex-devices-{}.json", std::process::id()));
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/lower/devices/arc_a770.json");
    std::fs::copy(known, &file).unwrap();
    let from_file = pumex(&["explain", "--profile", file.to_str().unwrap()]);
    assert_eq!(stdout(&from_file), stdout(&pumex(&["explain", "--profile", "arc_a770"])));
    assert!(stdout(&from_file).contains("row \"all\" (estimate: "), "{}", stdout(&from_file));
    std::fs::write(&file, "{}").unwrap();
    assert!(stderr(&pumex(&["explain", "--profile", file.to_str().unwrap()])).contains("bad_profile"));
    std::fs::remove_file(&file).unwrap();
    let unknown = pumex(&["explain", "--as", "abacus"]);
    assert_eq!(code(&unknown), 2);
    assert!(stderr(&unknown).contains("expected a file or one of h200, lavapipe"), "{}", stderr(&unknown));
    assert_eq!(code(&pumex(&["explain", "--device", "cpu"])), 2);
}

#[test]
fn version_and_help_exit_0_and_bad_usage_2() {
    let version = pumex(&["--version"]);
    assert_eq!((code(&version), stdout(&version)), (0, concat!("pumex ", env!("CARGO_PKG_VERSION"), "\n")));
    assert_eq!(code(&pumex(&["--help"])), 0);
    for bad in [&["run", "--no-such-flag"][..], &["--no-such-flag"], &["frobnicate"], &["run", "-n", "many"], &[]] {
        let output = pumex(bad);
        assert_eq!(code(&output), 2, "{bad:?}");
        assert_eq!(stdout(&output), "", "{bad:?}");
        assert_ne!(stderr(&output), "", "{bad:?}");
    }
}

#[test]
fn a_missing_model_exits_1_and_names_the_file() {
    for args in [&["run", "-m", "absent.gguf", "-p", "x"][..], &["inspect", "absent.gguf"]] {
        let output = pumex(args);
        assert_eq!(code(&output), 1);
        assert_eq!(stdout(&output), "");
        assert!(stderr(&output).starts_with("error: absent.gguf: "), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1);
    }
}

#[test]
fn an_empty_pipe_is_an_empty_prompt() {
    let output = pumex(&["run", "--device", "cpu", "-n", "1"]);
    assert_eq!((code(&output), stdout(&output)), (1, ""));
    assert!(stderr(&output).contains("the prompt is empty"), "{}", stderr(&output));
}

#[test]
fn tokenize_prints_the_same_ids_in_every_form() {
    let ids = pumex(&["tokenize", "-p", "Once upon a time", "--ids"]);
    assert_eq!(code(&ids), 0, "{}", stderr(&ids));
    let ids: Vec<u32> = serde_json::from_str(stdout(&ids)).unwrap();
    assert!(!ids.is_empty());
    let json = pumex(&["tokenize", "-p", "Once upon a time", "--json"]);
    let json: serde_json::Value = serde_json::from_str(stdout(&json)).unwrap();
    assert_eq!(json["ids"], serde_json::json!(ids));
    let table = pumex(&["tokenize", "-p", "Once upon a time"]);
    let column: Vec<u32> =
        stdout(&table).lines().map(|l| l.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert_eq!(column, ids);
    let plain = pumex(&["tokenize", "-p", "Once upon a time", "--ids", "--no-bos"]);
    let plain: Vec<u32> = serde_json::from_str(stdout(&plain)).unwrap();
    assert!(ids.ends_with(&plain));
}

#[test]
fn inspect_json_names_the_tensors_that_the_table_lists() {
    let json = pumex(&["inspect", "--json"]);
    assert_eq!(code(&json), 0, "{}", stderr(&json));
    let json: serde_json::Value = serde_json::from_str(stdout(&json)).unwrap();
    assert!(json["metadata"]["general.architecture"].is_string());
    let table = pumex(&["inspect"]);
    let tensors = json["tensors"].as_array().unwrap();
    assert!(!tensors.is_empty());
    for tensor in tensors {
        assert!(stdout(&table).contains(tensor["name"].as_str().unwrap()));
    }
}

const RUN: &[&str] = &["run", "--device", "cpu", "-c", "64", "-n", "4", "--temp", "0", "-p", "Once upon a time"];

#[test]
fn run_prints_only_text_on_stdout_and_the_same_in_json() {
    let with_prompt = pumex(RUN);
    assert_eq!(code(&with_prompt), 0, "{}", stderr(&with_prompt));
    let alone = pumex(&[RUN, &["--no-display-prompt"]].concat());
    let new = stdout(&alone);
    assert_eq!(stdout(&with_prompt), format!("Once upon a time{new}"));
    let json = pumex(&[RUN, &["--json", "--counters"]].concat());
    let json: serde_json::Value = serde_json::from_str(stdout(&json)).unwrap();
    assert_eq!(json["text"].as_str().unwrap(), new.strip_suffix('\n').unwrap());
    assert_eq!(json["generated_tokens"], json["counters"].as_array().unwrap().len());
}

#[test]
fn logits_of_ids_outside_the_vocabulary_are_refused() {
    let out = std::env::temp_dir().join(format!("pumex-logits-{}.bin", std::process::id()));
    let path = out.to_str().unwrap();
    let args = |tokens| ["logits", "--device", "cpu", "--tokens", tokens, "--out", path, "--json"];
    let bad = pumex(&args("1,4000000000"));
    assert_eq!((code(&bad), stdout(&bad)), (1, ""));
    assert!(stderr(&bad).contains("token id 4000000000 is out of range"), "{}", stderr(&bad));
    let good = pumex(&args("1,5,7"));
    assert_eq!(code(&good), 0, "{}", stderr(&good));
    let json: serde_json::Value = serde_json::from_str(stdout(&good)).unwrap();
    let bytes = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    assert_eq!(bytes.len() as u64, 3 * 4 * json["n_vocab"].as_u64().unwrap());
    assert!(bytes.chunks_exact(4).all(|b| f32::from_le_bytes(b.try_into().unwrap()).is_finite()));
}

#[test]
fn perplexity_ends_with_the_final_estimate() {
    let file = std::env::temp_dir().join(format!("pumex-ppl-{}.txt", std::process::id()));
    std::fs::write(&file, "Once upon a time there was a little dog. ".repeat(20)).unwrap();
    let output = pumex(&["perplexity", "--device", "cpu", "-f", file.to_str().unwrap(), "-c", "16", "--chunks", "2"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).starts_with("[1]"));
    let last = stdout(&output).lines().last().unwrap();
    assert!(last.starts_with("Final estimate: PPL = ") && last.contains(" +/- "), "{last}");
}

#[test]
fn bench_gives_llama_benchs_fields_in_every_form() {
    let bench = |form| pumex(&["bench", "--device", "cpu", "-p", "4", "-n", "2", "-r", "2", "-d", "0,3", "-o", form]);
    let json = bench("json");
    assert_eq!(code(&json), 0, "{}", stderr(&json));
    let rows: Vec<serde_json::Value> = serde_json::from_str(stdout(&json)).unwrap();
    let tests: Vec<_> = rows.iter().map(|r| (&r["n_prompt"], &r["n_gen"], &r["n_depth"])).collect();
    assert_eq!(format!("{tests:?}").matches("Number").count(), 12);
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[0]["samples_ns"].as_array().unwrap().len(), 2);
    assert_eq!(rows[0]["backends"], "CPU");
    let csv = bench("csv");
    let head = stdout(&csv).lines().next().unwrap();
    assert!(head.starts_with("build_commit,build_number,cpu_info,gpu_info,backends,model_filename,model_type,"));
    assert!(head.ends_with("n_prompt,n_gen,n_depth,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts"));
    let jsonl = bench("jsonl");
    for line in stdout(&jsonl).lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let md = bench("md");
    assert!(
        stdout(&md).starts_with("| model                          |       size |     params | backend    | threads |")
    );
    assert!(stdout(&md).contains("| pp4 @ d3 |") || stdout(&md).contains(" pp4 @ d3 |"));
    assert!(stdout(&md).contains("\n\nbuild: "));
}

#[test]
fn quantize_reports_on_stdout_and_says_what_is_wrong_on_stderr() {
    let folder = std::env::temp_dir().join(format!("pumex-cli-quantize-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (input, output) = (concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf"), folder.join("out.gguf"));
    let output = output.to_str().unwrap();
    let done = pumex(&["quantize", "--allow-requantize", "--json", input, output, "q8_0", "1"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let report: serde_json::Value = serde_json::from_str(stdout(&done)).unwrap();
    assert_eq!(report["files"][0], output);
    assert!(report["report"]["bytes_out"].as_u64().unwrap() > 6_000_000);
    let table = pumex(&["quantize", "--allow-requantize", "--dry-run", input, "Q4_K_M"]);
    assert!(stdout(&table).contains("token_embd.weight") && stdout(&table).contains("bits per weight"));
    for (args, expected, at) in [
        (vec![input, output, "Q9"], 2, "expected one of"),
        (vec![input, input, "Q8_0"], 1, "--allow-requantize"),
        (vec![input, input, "COPY"], 2, "other than the input"),
        (vec!["--tensor-type", "x", input, output, "Q8_0"], 2, "PATTERN=TYPE"),
        (vec!["--override-kv", "x=1", input, output, "COPY"], 2, "KEY=int"),
        (vec!["--prune-layers", "99", input, output, "COPY"], 2, "99"),
        (vec!["no.gguf", output, "Q8_0"], 1, "no.gguf"),
    ] {
        let failed = pumex(&[vec!["quantize"], args.clone()].concat());
        assert_eq!(code(&failed), expected, "{args:?}: {}", stderr(&failed));
        assert!(stderr(&failed).contains(at) && stdout(&failed).is_empty(), "{args:?}: {}", stderr(&failed));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn verbosity_may_stand_before_the_command() {
    assert_eq!(rewrite("-v tokenize -m x"), "-v tokenize --model=x");
}

#[test]
fn an_importance_matrix_and_a_base_go_from_command_to_command() {
    let folder = std::env::temp_dir().join(format!("pumex-cli-imatrix-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_string();
    std::fs::write(path("text"), "In the beginning God created the heaven and the earth. ".repeat(40)).unwrap();
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf");
    let text = path("text");
    let common = ["-m", demo, "--device", "cpu", "-f", &text, "-c", "64", "--chunks", "3"];
    let made = pumex(&[&["imatrix", "-o", &path("im.gguf")], &common[..]].concat());
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    assert!(stdout(&made).contains("42 matrices from 3 windows"), "{}", stdout(&made));
    let shown = pumex(&["imatrix", "--show-statistics", &path("im.gguf")]);
    assert!(stdout(&shown).contains("blk.5.ffn_down.weight"), "{}", stdout(&shown));
    let out = path("q.gguf");
    let quantized = pumex(&["quantize", "--allow-requantize", "--imatrix", &path("im.gguf"), demo, &out, "IQ2_XS"]);
    assert_eq!(code(&quantized), 0, "{}", stderr(&quantized));
    let base = path("base");
    let saved = pumex(&[&["perplexity", "--kl-divergence-base", &base], &common[..]].concat());
    assert_eq!(code(&saved), 0, "{}", stderr(&saved));
    let compared = ["perplexity", "-m", &out, "--device", "cpu", "--kl-divergence-base", &base, "--kl-divergence"];
    let compared = pumex(&compared);
    assert_eq!(code(&compared), 0, "{}", stderr(&compared));
    assert!(stdout(&compared).contains("Mean    KLD") && stdout(&compared).contains("Final estimate: PPL = "));
    let one = path("one");
    let single = ["perplexity", "-m", demo, "--device", "cpu", "-f", &text, "-c", "64", "--chunks", "1"];
    assert_eq!(code(&pumex(&[&single[..], &["--kl-divergence-base", &one]].concat())), 0);
    let again =
        ["perplexity", "-m", demo, "--device", "cpu", "--kl-divergence-base", &one, "--kl-divergence", "--json"];
    let again = pumex(&again);
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    let report: serde_json::Value = serde_json::from_str(stdout(&again)).unwrap();
    assert_eq!((&report["divergence"]["positions"], &report["divergence"]["same_top"]), (&31.into(), &1.0.into()));
    let wrong = pumex(&["perplexity", "-m", &out, "--device", "cpu", "--kl-divergence-base", &text, "--kl-divergence"]);
    assert_eq!(code(&wrong), 1);
    assert!(stderr(&wrong).contains("_logits_"), "{}", stderr(&wrong));
    std::fs::remove_dir_all(folder).unwrap();
}

/// A software device is never the default, and what is the default is what runs.
#[test]
fn devices_mark_what_runs_without_a_choice() {
    let json = pumex(&["devices", "--json"]);
    assert_eq!(code(&json), 0, "{}", stderr(&json));
    let devices: Vec<serde_json::Value> = serde_json::from_str(stdout(&json)).unwrap();
    let default: Vec<_> = devices.iter().filter(|d| d["default"] == true).collect();
    let gpus = devices.iter().filter(|d| d["kind"] != "Cpu").count();
    assert_eq!(default.len(), gpus.min(1));
    assert!(default.iter().all(|d| d["kind"] != "Cpu"));
    // Cores are told by the driver, or counted.
    assert!(devices.iter().all(|d| d["cores"].as_u64().or(d["measured_cores"].as_u64()).is_some_and(|n| n > 0)));
    let table = pumex(&["devices"]);
    let rows: Vec<&str> = stdout(&table).lines().collect();
    assert_eq!(rows.len(), 2 + devices.len(), "a head, and the interpreter: {rows:?}");
    let last = rows.last().unwrap();
    assert!(last.contains("cpu  ") && last.ends_with("yes") == (gpus == 0), "{rows:?}");
    if gpus == 0 {
        let bench = pumex(&["bench", "-p", "0", "-n", "1", "-r", "1", "-o", "json"]);
        let rows: Vec<serde_json::Value> = serde_json::from_str(stdout(&bench)).unwrap();
        assert_eq!(rows[0]["backends"], "CPU");
        let profile = pumex(&["profile", "-r", "1"]);
        assert_eq!(code(&profile), 0, "{}", stderr(&profile));
        assert!(stdout(&profile).contains("memory reads at"), "{}", stdout(&profile));
    }
}

#[cfg(unix)]
#[test]
fn a_continuation_ends_by_exit_and_by_ctrl_c_while_it_waits() {
    for (keys, expected) in [("/exit\r", 0), ("the king\r/exit\r", 0), ("\u{3}", 130)] {
        let args = ["run", "--device", "cpu", "-n", "8"].map(String::from);
        let mut terminal = crate::terminal::screen::Terminal::start(&args, &std::env::temp_dir());
        terminal.wait("Ctrl-D ends\r\n> ");
        terminal.send(keys);
        assert_eq!(terminal.end(), Some(expected), "{}", terminal.visible_text());
    }
}
