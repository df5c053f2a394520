//! Flags of llama.cpp's programs that are taken and passed over: what they change here is nothing, or a speed. Each says so in a line on
//! stderr. They are no flags of a command, and stand in no help.

/// What follows a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nothing.
    None,
    /// One value.
    Value,
    /// `on`, `off`, `auto`, `1`, `0`, or nothing, which means `on`.
    Switch,
    /// One value; the flag may be repeated.
    Repeated,
}

/// Names, what follows, and why nothing is to be done.
pub type IgnoredFlag = (&'static [&'static str], Slot, &'static str);

/// Commands in which they are passed over.
pub const COMMANDS: &[&str] = &["run", "serve", "bench", "perplexity", "embed"];

const CACHE: &str = "what is kept of prompts is bounded by --kept and by the context";
const ONE_DEVICE: &str = "a model runs on one GPU and the CPU";
const FITS: &str = "layers go where there is room unless --gpu-layers says how many";
const LOG: &str = "the log goes to stderr, in one form (-v says more)";
const DRAFT: &str = "the draft's sizes follow from the model's";
const DRAFT_CPU: &str = "the draft runs on the model's threads";
const NGRAM: &str = "what was said before is looked up whole";
const KV: &str = "keys and values lie where their layers do";

/// Flags of [`COMMANDS`] that are taken and have no effect.
pub const PASSED: &[IgnoredFlag] = &[
    (&["--cache-reuse"], Slot::Value, "the longest beginning that is kept is used, and no pieces behind it"),
    (&["--cache-prompt", "--no-cache-prompt"], Slot::None, "requests say it by cache_prompt"),
    (&["--cache-ram", "-cram"], Slot::Value, CACHE),
    (&["--cache-idle-slots", "--no-cache-idle-slots"], Slot::None, CACHE),
    (&["-cpent", "--checkpoint-every-n-tokens"], Slot::Value, "states to go back to are kept behind messages"),
    (&["-cms", "--checkpoint-min-step"], Slot::Value, "states to go back to are kept behind messages"),
    (&["--swa-checkpoints"], Slot::Value, "states to go back to are kept behind messages"),
    (&["--swa-full"], Slot::None, "layers with a window keep what they see"),
    (&["-fit", "--fit"], Slot::Switch, FITS),
    (&["-fitt", "--fit-target", "-fitc", "--fit-ctx"], Slot::Value, FITS),
    (&["-fitp", "--fit-print"], Slot::Switch, "explain --fit tells it"),
    (&["-sm", "--split-mode", "-mg", "--main-gpu", "-ts", "--tensor-split"], Slot::Value, ONE_DEVICE),
    (&["-nkvo", "--no-kv-offload", "-kvo", "--kv-offload"], Slot::None, KV),
    (&["-nopo", "--no-op-offload", "--op-offload"], Slot::None, "ops run where their weights lie"),
    (&["-ncffn", "--n-cpu-ffn"], Slot::Value, "--override-tensor says which tensors stay on the CPU"),
    (&["--repack"], Slot::None, "weights are laid out as their device wants"),
    (&["--mtmd-batch-max-tokens"], Slot::Value, "rows of pictures share the steps of their prompts"),
    (&["--no-host"], Slot::None, "memory is chosen by the device"),
    (&["--check-tensors"], Slot::None, "weights are checked while they are loaded"),
    (&["-dio", "--direct-io", "-ndio", "--no-direct-io"], Slot::None, "files are mapped unless --no-mmap is given"),
    (&["-lm", "--load-mode", "-lzm", "--lazy-mode"], Slot::Value, "files are mapped unless --no-mmap is given"),
    (&["--log-disable", "--no-log-jsonl"], Slot::None, LOG),
    (&["--log-file"], Slot::Value, LOG),
    (&["--log-colors"], Slot::Switch, LOG),
    (&["--log-prefix", "--no-log-prefix", "--log-timestamps", "--no-log-timestamps"], Slot::None, LOG),
    (&["-lv", "--verbosity", "--log-verbosity"], Slot::Value, LOG),
    (&["--perf", "--no-perf"], Slot::None, "times are always taken"),
    (&["-nocb", "--no-cont-batching"], Slot::None, "answers always share steps"),
    (&["-sps", "--slot-prompt-similarity"], Slot::Value, "the slot is taken that holds the longest beginning"),
    (&["-bs", "--backend-sampling"], Slot::None, "ids are sampled on the device where it can"),
    (&["--reuse-port"], Slot::None, "one process listens on a port"),
    (&["-dt", "--defrag-thold"], Slot::Value, "the cache lies in blocks, which need no order"),
    (&["--draft-p-min", "--spec-draft-p-min", "--draft-p-split", "--spec-draft-p-split"], Slot::Value, DRAFT),
    (&["-cd", "--ctx-size-draft", "--spec-draft-ctx-size"], Slot::Value, DRAFT),
    (&["-devd", "--device-draft", "-td", "--threads-draft", "-tbd", "--threads-batch-draft"], Slot::Value, DRAFT),
    (&["-ctkd", "--cache-type-k-draft", "-ctvd", "--cache-type-v-draft"], Slot::Value, DRAFT),
    (&["-otd", "--override-tensor-draft", "-ncmoed", "--n-cpu-moe-draft"], Slot::Value, DRAFT),
    (&["-cmoed", "--cpu-moe-draft", "--spec-draft-cpu-moe"], Slot::None, DRAFT),
    (&["--spec-draft-backend-sampling", "--no-spec-draft-backend-sampling"], Slot::None, DRAFT),
    (&["--spec-draft-type-k", "--spec-draft-type-v", "--spec-draft-override-tensor"], Slot::Value, DRAFT),
    (&["--spec-draft-n-cpu-moe", "--spec-draft-ncmoe", "--spec-draft-device"], Slot::Value, DRAFT),
    (&["--spec-draft-threads", "--spec-draft-threads-batch"], Slot::Value, DRAFT_CPU),
    (&["-Cd", "--cpu-mask-draft", "--spec-draft-cpu-mask"], Slot::Value, DRAFT_CPU),
    (&["-Cbd", "--cpu-mask-batch-draft", "--spec-draft-cpu-mask-batch"], Slot::Value, DRAFT_CPU),
    (&["-Crd", "--cpu-range-draft", "--spec-draft-cpu-range"], Slot::Value, DRAFT_CPU),
    (&["--cpu-strict-draft", "--spec-draft-cpu-strict"], Slot::Value, DRAFT_CPU),
    (&["--cpu-strict-batch-draft", "--spec-draft-cpu-strict-batch"], Slot::Value, DRAFT_CPU),
    (&["--prio-draft", "--spec-draft-prio", "--prio-batch-draft", "--spec-draft-prio-batch"], Slot::Value, DRAFT_CPU),
    (&["--poll-draft", "--spec-draft-poll", "--poll-batch-draft", "--spec-draft-poll-batch"], Slot::Value, DRAFT_CPU),
    (&["-lcs", "--lookup-cache-static", "-lcd", "--lookup-cache-dynamic"], Slot::Value, NGRAM),
    (&["--spec-ngram-size-n", "--spec-ngram-size-m", "--spec-ngram-min-hits"], Slot::Value, NGRAM),
    (&["--spec-ngram-mod-n-min", "--spec-ngram-mod-n-max", "--spec-ngram-mod-n-match"], Slot::Value, NGRAM),
    (&["--spec-ngram-simple-size-n", "--spec-ngram-simple-size-m", "--spec-ngram-simple-min-hits"], Slot::Value, NGRAM),
    (&["--spec-ngram-map-k-size-n", "--spec-ngram-map-k-size-m", "--spec-ngram-map-k-min-hits"], Slot::Value, NGRAM),
    (
        &["--spec-ngram-map-k4v-size-n", "--spec-ngram-map-k4v-size-m", "--spec-ngram-map-k4v-min-hits"],
        Slot::Value,
        NGRAM,
    ),
    (
        &["--prefill-assistant"],
        Slot::None,
        "a last message of the assistant's is continued unless --no-prefill-assistant is given",
    ),
    (&["-sp", "--special"], Slot::None, "requests say which tokens they want"),
    (&["--no-ui-mcp-proxy", "--no-webui-mcp-proxy", "-no-ag", "--no-agent"], Slot::None, "there is none"),
    (&["--no-skip-chat-parsing"], Slot::None, "answers are parsed"),
    (&["--simple-io"], Slot::None, "the terminal is used as it is"),
    (&["-Cr", "--cpu-range", "-Crb", "--cpu-range-batch", "-Cb", "--cpu-mask-batch"], Slot::Value, "see --cpu-mask"),
    (&["--cpu-strict-batch", "--poll-batch", "--prio-batch"], Slot::Value, "threads of all steps are the same"),
];

/// Flags of `serve` that are taken and have no effect; other commands have flags of these names.
pub const SERVE: &[IgnoredFlag] = &[(&["-ctxcp", "--ctx-checkpoints"], Slot::Value, CACHE)];

/// What follows a flag that a command passes over, and why it does.
pub fn find(command: &str, name: &str) -> Option<(Slot, &'static str)> {
    let own = if command == "serve" { SERVE } else { &[] };
    let all = own.iter().chain(PASSED).filter(|_| COMMANDS.contains(&command));
    all.into_iter().find(|(names, ..)| names.contains(&name)).map(|(_, slot, why)| (*slot, *why))
}
