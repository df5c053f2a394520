//! Flags of the engine and the sampler, with what they make of their options: each reaches every command that has it.

use super::{folder, log_line, DEMO};
use crate::cli::{pumex, stderr};

/// Engine flags with what they make of the engine's options.
const ENGINE: &[(&[&str], &str)] = &[
    (&["--device", "cpu"], "device: Cpu"),
    (&["--ubatch-size", "48"], "max_rows: 40"),
    (&["--batch-size", "40"], "max_rows: 40"),
    (&["--threads", "1"], "threads: Some(1)"),
    (&["--retry-lost"], "revives: true"),
    (&["--without-kernels", "gemm_mat"], "without: [\"gemm_mat\"]"),
    (&["--no-subgroups"], "subgroups: false"),
    (&["--no-halves"], "halves: false"),
    (&["--lose-at", "999999"], "lost_at: Some(999999)"),
    (&["--gpu-layers", "3"], "gpu_layers: Some(3)"),
    (&["--cpu-moe"], r#"Regex("\\.ffn_(up|down"#),
    (&["--n-cpu-moe", "2"], r#"Regex("^blk\\.(0|1)\\.ffn"#),
    (&["--override-tensor", "blk.1=CPU"], r#"Regex("blk.1"), on_cpu: true"#),
    (&["--cache-type-k", "q8_0"], "cache_type_k: Some(Q8_0)"),
    (&["--cache-type-v", "f32"], "cache_type_v: Some(F32)"),
    (&["--activations", "q8"], "activations: Some(Q8)"),
    (&["--validation"], "validation: true"),
    (&["--threads-batch", "2"], "batch_threads: Some(2)"),
    (&["--cpu-mask", "1"], "processors: [0]"),
    (&["--no-repack"], "in_place: true"),
    (&["--numa", "isolate"], "numa: Some(Isolate)"),
    (&["--prio", "-1"], "priority: -1"),
];

#[test]
fn engine_flags_reach_the_engine_of_every_command() {
    let folder = folder("engine");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_string();
    std::fs::write(path("text"), "In the beginning God created the heaven and the earth. ".repeat(9)).unwrap();
    let (text, out) = (path("text"), path("out"));
    // A port that is taken ends a server that is loaded.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let commands: [&[&str]; 8] = [
        &["run", "-p", "a", "-n", "1"],
        &["logits", "--tokens", "1", "-o", &out],
        &["perplexity", "-f", &text, "-c", "8", "--chunks", "1"],
        &["bench", "-p", "1", "-n", "0", "-r", "1", "--no-warmup"],
        &["embed", "-p", "a"],
        &["imatrix", "-f", &text, "-c", "8", "--chunks", "1", "-o", &out],
        &["profile", "-r", "1"],
        &["serve", "--port", &port],
    ];
    let given: Vec<&str> = ENGINE.iter().flat_map(|(flags, _)| flags.iter().copied()).collect();
    for command in commands {
        let usual = pumex(&[command, &["-m", DEMO, "-vv"]].concat());
        let all = pumex(&[command, &["-m", DEMO, "-vv"], &given].concat());
        assert!(all.status.success() || command[0] == "serve", "{}: {}", command[0], stderr(&all));
        let (usual, all) = (log_line(stderr(&usual), "engine: Options"), log_line(stderr(&all), "engine: Options"));
        for (flags, made) in ENGINE {
            assert!(all.contains(made) && !usual.contains(made), "{} {flags:?}: {made} in {all}", command[0]);
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Sampling flags with what they make of the sampler's options.
const SAMPLING: &[(&[&str], &str)] = &[
    (&["--seed", "7"], "seed: 7"),
    (&["--samplers", "top_k;temperature"], "order: [TopK, Temperature]"),
    (&["--temp", "0.5"], "temperature: 0.5"),
    (&["--top-k", "9"], "top_k: 9"),
    (&["--top-p", "0.25"], "top_p: 0.25"),
    (&["--min-p", "0.125"], "min_p: 0.125"),
    (&["--min-keep", "3"], "min_keep: 3"),
    (&["--top-n-sigma", "2.5"], "top_n_sigma: 2.5"),
    (&["--typical", "0.75"], "typical_p: 0.75"),
    (&["--xtc-probability", "0.375"], "xtc_probability: 0.375"),
    (&["--xtc-threshold", "0.1875"], "xtc_threshold: 0.1875"),
    (&["--dynatemp-range", "0.625"], "dynatemp_range: 0.625"),
    (&["--dynatemp-exp", "1.5"], "dynatemp_exponent: 1.5"),
    (&["--repeat-last-n", "31"], "repeat_last_n: 31"),
    (&["--repeat-penalty", "1.25"], "repeat_penalty: 1.25"),
    (&["--presence-penalty", "0.0625"], "presence_penalty: 0.0625"),
    (&["--frequency-penalty", "0.3125"], "frequency_penalty: 0.3125"),
    (&["--dry-multiplier", "0.875"], "multiplier: 0.875"),
    (&["--dry-base", "1.125"], "base: 1.125"),
    (&["--dry-allowed-length", "5"], "allowed_length: 5"),
    (&["--dry-penalty-last-n", "77"], "last_n: 77"),
    (&["--mirostat", "2"], "mirostat: 2"),
    (&["--mirostat-lr", "0.4375"], "mirostat_eta: 0.4375"),
    (&["--mirostat-ent", "4.5"], "mirostat_tau: 4.5"),
    (&["--adaptive-target", "0.5625"], "adaptive_target: 0.5625"),
    (&["--adaptive-decay", "0.8125"], "adaptive_decay: 0.8125"),
    (&["--logit-bias", "5+1.5"], "bias: [(5, 1.5)]"),
    (&["--ignore-eos"], "banned: ["),
];

#[test]
fn sampling_flags_reach_the_sampler() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let given: Vec<&str> = SAMPLING.iter().flat_map(|(flags, _)| flags.iter().copied()).collect();
    for command in [&["run", "-p", "a", "-n", "1", "--logprobs", "2"][..], &["serve", "--port", &port]] {
        let common = ["--device", "cpu", "-m", DEMO, "-vv"];
        let usual = pumex(&[command, &common].concat());
        let all = pumex(&[command, &common, &given].concat());
        let (usual, all) = (log_line(stderr(&usual), "sampling: Sampler"), log_line(stderr(&all), "sampling: Sampler"));
        for (flags, made) in SAMPLING.iter().filter(|(flags, _)| flags[0] != "--ignore-eos") {
            assert!(all.contains(made) && !usual.contains(made), "{} {flags:?}: {made} in {all}", command[0]);
        }
        assert!(usual.contains("banned: []") && !all.contains("banned: []"), "{}: {all}", command[0]);
    }
}
