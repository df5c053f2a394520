//! Flags of llama.cpp's programs that are taken and passed over: what they change here is nothing, or a speed. Each says so in a line on
//! stderr. They are no flags of a command, and stand in no help.

/// What follows a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagValue {
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
pub type IgnoredFlag = (&'static [&'static str], FlagValue, &'static str);

/// Commands in which they are passed over.
pub const COMMANDS: &[&str] = &["run", "serve", "bench", "perplexity", "imatrix", "embed"];

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
    (&["--cache-reuse"], FlagValue::Value, "the longest beginning that is kept is used, and no pieces behind it"),
    (&["--cache-prompt", "--no-cache-prompt"], FlagValue::None, "requests say it by cache_prompt"),
    (&["--cache-ram", "-cram"], FlagValue::Value, CACHE),
    (&["--cache-idle-slots", "--no-cache-idle-slots"], FlagValue::None, CACHE),
    (&["-cpent", "--checkpoint-every-n-tokens"], FlagValue::Value, "states to go back to are kept behind messages"),
    (&["-cms", "--checkpoint-min-step"], FlagValue::Value, "states to go back to are kept behind messages"),
    (&["--swa-checkpoints"], FlagValue::Value, "states to go back to are kept behind messages"),
    (&["--swa-full"], FlagValue::None, "layers with a window keep what they see"),
    (&["-fit", "--fit"], FlagValue::Switch, FITS),
    (&["-fitt", "--fit-target", "-fitc", "--fit-ctx"], FlagValue::Value, FITS),
    (&["-fitp", "--fit-print"], FlagValue::Switch, "explain --fit tells it"),
    (&["-sm", "--split-mode", "-mg", "--main-gpu", "-ts", "--tensor-split"], FlagValue::Value, ONE_DEVICE),
    (&["-nkvo", "--no-kv-offload", "-kvo", "--kv-offload"], FlagValue::None, KV),
    (&["-nopo", "--no-op-offload", "--op-offload"], FlagValue::None, "ops run where their weights lie"),
    (&["-ncffn", "--n-cpu-ffn"], FlagValue::Value, "--override-tensor says which tensors stay on the CPU"),
    (&["--repack"], FlagValue::None, "weights are laid out as their device wants"),
    (&["--mtmd-batch-max-tokens"], FlagValue::Value, "rows of pictures share the steps of their prompts"),
    (&["--no-host"], FlagValue::None, "memory is chosen by the device"),
    (&["--check-tensors"], FlagValue::None, "weights are checked while they are loaded"),
    (
        &["-dio", "--direct-io", "-ndio", "--no-direct-io"],
        FlagValue::None,
        "files are mapped unless --no-mmap is given",
    ),
    (&["-lm", "--load-mode", "-lzm", "--lazy-mode"], FlagValue::Value, "files are mapped unless --no-mmap is given"),
    (&["--log-disable", "--no-log-jsonl"], FlagValue::None, LOG),
    (&["--log-file"], FlagValue::Value, LOG),
    (&["--log-colors"], FlagValue::Switch, LOG),
    (&["--log-prefix", "--no-log-prefix", "--log-timestamps", "--no-log-timestamps"], FlagValue::None, LOG),
    (&["-lv", "--verbosity", "--log-verbosity"], FlagValue::Value, LOG),
    (&["--perf", "--no-perf"], FlagValue::None, "times are always taken"),
    (&["-nocb", "--no-cont-batching"], FlagValue::None, "answers always share steps"),
    (&["-sps", "--slot-prompt-similarity"], FlagValue::Value, "the slot is taken that holds the longest beginning"),
    (&["-bs", "--backend-sampling"], FlagValue::None, "ids are sampled on the device where it can"),
    (&["--reuse-port"], FlagValue::None, "one process listens on a port"),
    (&["-dt", "--defrag-thold"], FlagValue::Value, "the cache lies in blocks, which need no order"),
    (&["--draft-p-min", "--spec-draft-p-min", "--draft-p-split", "--spec-draft-p-split"], FlagValue::Value, DRAFT),
    (&["-cd", "--ctx-size-draft", "--spec-draft-ctx-size"], FlagValue::Value, DRAFT),
    (&["-devd", "--device-draft", "-td", "--threads-draft", "-tbd", "--threads-batch-draft"], FlagValue::Value, DRAFT),
    (&["-ctkd", "--cache-type-k-draft", "-ctvd", "--cache-type-v-draft"], FlagValue::Value, DRAFT),
    (&["-otd", "--override-tensor-draft", "-ncmoed", "--n-cpu-moe-draft"], FlagValue::Value, DRAFT),
    (&["-cmoed", "--cpu-moe-draft", "--spec-draft-cpu-moe"], FlagValue::None, DRAFT),
    (&["--spec-draft-backend-sampling", "--no-spec-draft-backend-sampling"], FlagValue::None, DRAFT),
    (&["--spec-draft-type-k", "--spec-draft-type-v", "--spec-draft-override-tensor"], FlagValue::Value, DRAFT),
    (&["--spec-draft-n-cpu-moe", "--spec-draft-ncmoe", "--spec-draft-device"], FlagValue::Value, DRAFT),
    (&["--spec-draft-threads", "--spec-draft-threads-batch"], FlagValue::Value, DRAFT_CPU),
    (&["-Cd", "--cpu-mask-draft", "--spec-draft-cpu-mask"], FlagValue::Value, DRAFT_CPU),
    (&["-Cbd", "--cpu-mask-batch-draft", "--spec-draft-cpu-mask-batch"], FlagValue::Value, DRAFT_CPU),
    (&["-Crd", "--cpu-range-draft", "--spec-draft-cpu-range"], FlagValue::Value, DRAFT_CPU),
    (&["--cpu-strict-draft", "--spec-draft-cpu-strict"], FlagValue::Value, DRAFT_CPU),
    (&["--cpu-strict-batch-draft", "--spec-draft-cpu-strict-batch"], FlagValue::Value, DRAFT_CPU),
    (
        &["--prio-draft", "--spec-draft-prio", "--prio-batch-draft", "--spec-draft-prio-batch"],
        FlagValue::Value,
        DRAFT_CPU,
    ),
    (
        &["--poll-draft", "--spec-draft-poll", "--poll-batch-draft", "--spec-draft-poll-batch"],
        FlagValue::Value,
        DRAFT_CPU,
    ),
    (&["-lcs", "--lookup-cache-static", "-lcd", "--lookup-cache-dynamic"], FlagValue::Value, NGRAM),
    (&["--spec-ngram-size-n", "--spec-ngram-size-m", "--spec-ngram-min-hits"], FlagValue::Value, NGRAM),
    (&["--spec-ngram-mod-n-min", "--spec-ngram-mod-n-max", "--spec-ngram-mod-n-match"], FlagValue::Value, NGRAM),
    (
        &["--spec-ngram-simple-size-n", "--spec-ngram-simple-size-m", "--spec-ngram-simple-min-hits"],
        FlagValue::Value,
        NGRAM,
    ),
    (
        &["--spec-ngram-map-k-size-n", "--spec-ngram-map-k-size-m", "--spec-ngram-map-k-min-hits"],
        FlagValue::Value,
        NGRAM,
    ),
    (
        &["--spec-ngram-map-k4v-size-n", "--spec-ngram-map-k4v-size-m", "--spec-ngram-map-k4v-min-hits"],
        FlagValue::Value,
        NGRAM,
    ),
    (
        &["--prefill-assistant"],
        FlagValue::None,
        "a last message of the assistant's is continued unless --no-prefill-assistant is given",
    ),
    (&["-sp", "--special"], FlagValue::None, "requests say which tokens they want"),
    (&["--no-ui-mcp-proxy", "--no-webui-mcp-proxy", "-no-ag", "--no-agent"], FlagValue::None, "there is none"),
    (&["--no-skip-chat-parsing"], FlagValue::None, "answers are parsed"),
    (&["--simple-io"], FlagValue::None, "the terminal is used as it is"),
    (
        &["-Cr", "--cpu-range", "-Crb", "--cpu-range-batch", "-Cb", "--cpu-mask-batch"],
        FlagValue::Value,
        "see --cpu-mask",
    ),
    (&["--cpu-strict-batch", "--poll-batch", "--prio-batch"], FlagValue::Value, "threads of all steps are the same"),
    (&["--spec-draft-cpu-range-batch", "-Crbd", "--cpu-range-batch-draft"], FlagValue::Value, DRAFT_CPU),
    (&["-mmdev", "--mmproj-device"], FlagValue::Value, "a projector runs on its model's device"),
    (&["--rpc"], FlagValue::Value, "a model runs on the devices of one machine"),
    (&["--spec-draft-hf", "-hfd", "-hfrd", "--hf-repo-draft"], FlagValue::Value, FETCHED),
    (&["--moe-cache-mib"], FlagValue::Value, "experts on the CPU are computed there"),
    (&["--sse-ping-interval"], FlagValue::Value, "streams are kept open without pings"),
    (&["--show-timings", "--no-show-timings"], FlagValue::None, TIMES),
    (&["-ptc", "--print-token-count"], FlagValue::Value, TIMES),
    (&["--verbose-prompt"], FlagValue::None, "tokenize shows the ids of a text"),
    (
        &["-ofreq", "--output-frequency", "--save-frequency"],
        FlagValue::Value,
        "a matrix is written once, when it is whole",
    ),
    (&["--ppl", "--no-ppl"], FlagValue::None, "perplexity measures it"),
];

const FETCHED: &str = "pull fetches a draft, whose file --model-draft of serve names";
const TIMES: &str = "times and counts are told behind each answer";

/// Flags of single commands that are taken and have no effect there; other commands have flags of these names.
pub const OWN: &[(&str, IgnoredFlag)] = &[
    ("serve", (&["-ctxcp", "--ctx-checkpoints"], FlagValue::Value, CACHE)),
    ("serve", (&["-co", "--color"], FlagValue::Switch, LOG)),
    ("run", (&["--reasoning-format"], FlagValue::Value, "reasoning is shown apart, or not at all (--reasoning hide)")),
    ("run", (&["--model-draft", "-md", "--spec-draft-model", "--spec-type"], FlagValue::Value, NO_DRAFT)),
    ("run", (&["--spec-draft-n-max", "--spec-draft-n-min", "--draft", "--draft-n"], FlagValue::Value, NO_DRAFT)),
    ("run", (&["--draft-max", "--draft-min", "--draft-n-min", "--gpu-layers-draft"], FlagValue::Value, NO_DRAFT)),
    ("run", (&["-ngld", "--spec-draft-ngl", "--n-gpu-layers-draft"], FlagValue::Value, NO_DRAFT)),
    ("run", (&["--spec-default", "--mtp", "--dflash", "--eagle3"], FlagValue::None, NO_DRAFT)),
    ("bench", (&["-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified"], FlagValue::None, ONE_SEQUENCE)),
    ("perplexity", (&["-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified"], FlagValue::None, ONE_SEQUENCE)),
    ("perplexity", (&["--context-shift", "--no-context-shift"], FlagValue::None, CHUNKS)),
    ("imatrix", (&["--context-shift", "--no-context-shift"], FlagValue::None, CHUNKS)),
    ("bench", (&["--mmproj-offload", "--no-mmproj-offload"], FlagValue::None, PROJECTOR)),
    ("perplexity", (&["--mmproj-offload", "--no-mmproj-offload"], FlagValue::None, PROJECTOR)),
    ("imatrix", (&["--mmproj-offload", "--no-mmproj-offload"], FlagValue::None, PROJECTOR)),
];

const NO_DRAFT: &str = "run decodes without a draft, which would give the same ids; serve takes one";
const ONE_SEQUENCE: &str = "there is one sequence";
const CHUNKS: &str = "chunks fit into the context";
const PROJECTOR: &str = "a projector runs on its model's device";

/// What follows a flag that a command passes over, and why it does.
pub fn find(command: &str, name: &str) -> Option<(FlagValue, &'static str)> {
    let mut passed = PASSED.iter().filter(|_| COMMANDS.contains(&command));
    let found = || passed.find(|(names, ..)| names.contains(&name)).map(|(_, slot, why)| (*slot, *why));
    find_own(command, name).or_else(found)
}

/// The same of flags that only single commands pass over: they go before those that commands share.
pub fn find_own(command: &str, name: &str) -> Option<(FlagValue, &'static str)> {
    let mut own = OWN.iter().filter(|(of, _)| *of == command).map(|(_, flag)| flag);
    own.find(|(names, ..)| names.contains(&name)).map(|(_, slot, why)| (*slot, *why))
}
