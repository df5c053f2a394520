//! Rewrites llama.cpp's flags into long flags that clap can parse.
//!
//! clap reads `-ngl 99` as `-n -g -l 99` and `-n -1` as two flags. So before clap sees them, the flags of a fixed
//! table become `--long=value`: two- and three-letter flags, other names of one flag, `_` for `-`, negative values.
//! Takes the arguments after the program's name, gives them back with warnings about repeated flags. Flags outside
//! the table pass through untouched; everything after `--` does too.

use super::llama_cpp_flags::{self, FlagValue};
use std::ffi::{OsStr, OsString};
use std::iter::Peekable;

/// A flag's other names, its long name for clap, and what follows it.
pub type FlagAlias = (&'static [&'static str], &'static str, FlagValue);

/// Flags of every command.
pub const COMMON: &[FlagAlias] = &[
    (&["-m"], "--model", FlagValue::Value),
    (&["-hf", "-hfr"], "--hf-repo", FlagValue::Value),
    (&["-hff"], "--hf-file", FlagValue::Value),
    (&["-hft"], "--hf-token", FlagValue::Value),
    (&["-mu"], "--model-url", FlagValue::Value),
    (&[], "--offline", FlagValue::None),
    (&["-mm"], "--mmproj", FlagValue::Value),
    (&["-mmu"], "--mmproj-url", FlagValue::Value),
    (&["--no-mmproj-auto"], "--no-mmproj", FlagValue::None),
    (&[], "--mmproj-auto", FlagValue::None),
    (&[], "--mmproj-offload", FlagValue::None),
    (&[], "--no-mmproj-offload", FlagValue::None),
    (&[], "--image", FlagValue::Repeated),
    (&[], "--audio", FlagValue::Repeated),
    (&[], "--image-min-tokens", FlagValue::Value),
    (&[], "--image-max-tokens", FlagValue::Value),
    (&[], "--prompt-cache", FlagValue::Value),
    (&[], "--prompt-cache-all", FlagValue::None),
    (&[], "--prompt-cache-ro", FlagValue::None),
    (&["-p"], "--prompt", FlagValue::Value),
    (&["-f"], "--file", FlagValue::Value),
    (&["-n", "--n-predict"], "--predict", FlagValue::Value),
    (&["-c", "--n-ctx"], "--ctx-size", FlagValue::Value),
    (&["-b"], "--batch-size", FlagValue::Value),
    (&["-ub"], "--ubatch-size", FlagValue::Value),
    (&["-ngl", "--n-gpu-layers"], "--gpu-layers", FlagValue::Value),
    (&["-cmoe"], "--cpu-moe", FlagValue::None),
    (&["-ncmoe"], "--n-cpu-moe", FlagValue::Value),
    (&["-ot"], "--override-tensor", FlagValue::Repeated),
    (&[], "--override-kv", FlagValue::Repeated),
    (&[], "--rope-scaling", FlagValue::Value),
    (&[], "--rope-scale", FlagValue::Value),
    (&[], "--rope-freq-base", FlagValue::Value),
    (&[], "--rope-freq-scale", FlagValue::Value),
    (&[], "--yarn-orig-ctx", FlagValue::Value),
    (&[], "--yarn-ext-factor", FlagValue::Value),
    (&[], "--yarn-attn-factor", FlagValue::Value),
    (&[], "--yarn-beta-slow", FlagValue::Value),
    (&[], "--yarn-beta-fast", FlagValue::Value),
    (&[], "--reasoning-format", FlagValue::Value),
    (&[], "--api-prefix", FlagValue::Value),
    (&[], "--embd-normalize", FlagValue::Value),
    (&[], "--lora", FlagValue::Repeated),
    (&[], "--lora-scaled", FlagValue::Repeated),
    (&[], "--control-vector", FlagValue::Repeated),
    (&[], "--control-vector-scaled", FlagValue::Repeated),
    (&["-t"], "--threads", FlagValue::Value),
    (&["-tb"], "--threads-batch", FlagValue::Value),
    (&["-C"], "--cpu-mask", FlagValue::Value),
    (&["-nr"], "--no-repack", FlagValue::None),
    (&[], "--cpu-strict", FlagValue::Value),
    (&[], "--poll", FlagValue::Value),
    (&[], "--numa", FlagValue::Value),
    (&[], "--prio", FlagValue::Value),
    (&["-dev"], "--device", FlagValue::Value),
    (&["-ctk"], "--cache-type-k", FlagValue::Value),
    (&["-ctv"], "--cache-type-v", FlagValue::Value),
    (&["-fa"], "--flash-attn", FlagValue::Switch),
    (&["--log-verbose"], "--verbose", FlagValue::None),
    (&["-s"], "--seed", FlagValue::Value),
    (&[], "--diffusion-steps", FlagValue::Value),
    (&[], "--diffusion-eps", FlagValue::Value),
    (&[], "--diffusion-algorithm", FlagValue::Value),
    (&[], "--diffusion-alg-temp", FlagValue::Value),
    (&[], "--diffusion-block-length", FlagValue::Value),
    (&[], "--diffusion-cfg-scale", FlagValue::Value),
    (&[], "--diffusion-add-gumbel-noise", FlagValue::Value),
    (&[], "--diffusion-visual", FlagValue::None),
    (&["--temperature"], "--temp", FlagValue::Value),
    (&[], "--top-k", FlagValue::Value),
    (&[], "--top-p", FlagValue::Value),
    (&[], "--min-p", FlagValue::Value),
    (&[], "--repeat-penalty", FlagValue::Value),
    (&[], "--repeat-last-n", FlagValue::Value),
    (&[], "--presence-penalty", FlagValue::Value),
    (&[], "--frequency-penalty", FlagValue::Value),
    (&[], "--samplers", FlagValue::Value),
    (&[], "--min-keep", FlagValue::Value),
    (&[], "--xtc-probability", FlagValue::Value),
    (&[], "--xtc-threshold", FlagValue::Value),
    (&[], "--dynatemp-range", FlagValue::Value),
    (&[], "--dynatemp-exp", FlagValue::Value),
    (&[], "--dry-multiplier", FlagValue::Value),
    (&[], "--dry-base", FlagValue::Value),
    (&[], "--dry-allowed-length", FlagValue::Value),
    (&[], "--dry-penalty-last-n", FlagValue::Value),
    (&[], "--mirostat", FlagValue::Value),
    (&[], "--mirostat-lr", FlagValue::Value),
    (&[], "--mirostat-ent", FlagValue::Value),
    (&[], "--adaptive-target", FlagValue::Value),
    (&[], "--adaptive-decay", FlagValue::Value),
    (&[], "--logprobs", FlagValue::Value),
    (&["--sampling-seq"], "--sampler-seq", FlagValue::Value),
    (&["--top-nsigma"], "--top-n-sigma", FlagValue::Value),
    (&["--typical-p"], "--typical", FlagValue::Value),
    (&["-l"], "--logit-bias", FlagValue::Repeated),
    (&[], "--dry-sequence-breaker", FlagValue::Repeated),
    (&["-r"], "--reverse-prompt", FlagValue::Repeated),
    (&["-e"], "--escape", FlagValue::None),
    (&[], "--no-escape", FlagValue::None),
    (&["-co"], "--color", FlagValue::Switch),
    (&["-cnv"], "--conversation", FlagValue::None),
    (&["-no-cnv"], "--no-conversation", FlagValue::None),
    (&["-st"], "--single-turn", FlagValue::None),
    (&["-sys"], "--system-prompt", FlagValue::Value),
    (&["-sysf"], "--system-prompt-file", FlagValue::Value),
    (&["-mli"], "--multiline-input", FlagValue::None),
    (&["-rea"], "--reasoning", FlagValue::Value),
    (&[], "--reasoning-budget", FlagValue::Value),
    (&[], "--tools", FlagValue::Value),
    (&[], "--tool-choice", FlagValue::Value),
    (&[], "--keep", FlagValue::Value),
    (&[], "--context-shift", FlagValue::None),
    (&[], "--no-context-shift", FlagValue::None),
    (&[], "--jinja", FlagValue::None),
    (&[], "--no-jinja", FlagValue::None),
    (&[], "--display-prompt", FlagValue::None),
    (&[], "--no-display-prompt", FlagValue::None),
    (&[], "--ignore-eos", FlagValue::None),
    (&[], "--grammar", FlagValue::Value),
    (&[], "--grammar-file", FlagValue::Value),
    (&["-j"], "--json-schema", FlagValue::Value),
    (&["-jf"], "--json-schema-file", FlagValue::Value),
    (&[], "--mmap", FlagValue::None),
    (&[], "--no-mmap", FlagValue::None),
    (&[], "--mlock", FlagValue::None),
    (&[], "--tokens", FlagValue::Value),
    (&["-o"], "--out", FlagValue::Value),
    (&[], "--chunks", FlagValue::Value),
    (&[], "--chat-template", FlagValue::Value),
    (&[], "--chat-template-file", FlagValue::Value),
    (&[], "--chat-template-kwargs", FlagValue::Value),
    (&[], "--messages", FlagValue::Value),
    (&[], "--bos", FlagValue::Value),
    (&[], "--eos", FlagValue::Value),
    (&[], "--now", FlagValue::Value),
];

/// Flags of `run` alone; they go before [`COMMON`].
pub const RUN: &[FlagAlias] = &[(&["-ctxcp"], "--ctx-checkpoints", FlagValue::Value)];

/// Flags of `imatrix` alone; they go before [`COMMON`].
pub const IMATRIX: &[FlagAlias] = &[(&["-o", "--output", "--output-file"], "--out", FlagValue::Value)];

/// Flags that mean something else in `bench`, as in llama-bench; they go before [`COMMON`]. Several of one are a list.
pub const BENCH: &[FlagAlias] = &[
    (&["-p"], "--n-prompt", FlagValue::Repeated),
    (&["-n"], "--n-gen", FlagValue::Repeated),
    (&["-pg"], "--n-prompt-gen", FlagValue::Repeated),
    (&["-d"], "--n-depth", FlagValue::Repeated),
    (&["-r"], "--repetitions", FlagValue::Value),
    (&["-o"], "--output", FlagValue::Value),
];

/// Flags that mean something else in `profile` and `explain` than elsewhere; they go before [`COMMON`].
pub const PROFILE: &[FlagAlias] = &[
    (&["-b"], "--rows", FlagValue::Value),
    (&["-d"], "--depth", FlagValue::Value),
    (&["-r"], "--repetitions", FlagValue::Value),
    (&["-np"], "--parallel", FlagValue::Value),
];

/// Flags that mean something else in `embed`, where every list of ids is a text of its own; they go before [`COMMON`].
pub const EMBED: &[FlagAlias] = &[
    (&[], "--tokens", FlagValue::Repeated),
    (&[], "--pooling", FlagValue::Value),
    (&[], "--embd-normalize", FlagValue::Value),
    (&[], "--embd-separator", FlagValue::Value),
    (&[], "--rerank", FlagValue::Value),
];

/// Flags that mean something else in `serve`; they go before [`COMMON`].
pub const SERVE: &[FlagAlias] = &[
    (&["-np"], "--parallel", FlagValue::Value),
    (&["-kvu"], "--kv-unified", FlagValue::None),
    (&["-no-kvu"], "--no-kv-unified", FlagValue::None),
    (&["-cb"], "--cont-batching", FlagValue::None),
    (&["-a"], "--alias", FlagValue::Value),
    (&[], "--tags", FlagValue::Value),
    (&[], "--host", FlagValue::Value),
    (&[], "--port", FlagValue::Value),
    (&[], "--keep", FlagValue::Value),
    (&[], "--sleep-idle-seconds", FlagValue::Value),
    (&[], "--models-dir", FlagValue::Value),
    (&[], "--models-preset", FlagValue::Value),
    (&[], "--models-max", FlagValue::Value),
    (&[], "--log-requests", FlagValue::Switch),
    (&["--embedding"], "--embeddings", FlagValue::None),
    (&["--rerank"], "--reranking", FlagValue::None),
    (&["--webui"], "--ui", FlagValue::None),
    (&["--no-webui"], "--no-ui", FlagValue::None),
    (&[], "--pooling", FlagValue::Value),
    (&["-to"], "--timeout", FlagValue::Value),
    (&["-md", "--spec-draft-model"], "--model-draft", FlagValue::Value),
    (&["-ngld", "--n-gpu-layers-draft", "--spec-draft-ngl"], "--gpu-layers-draft", FlagValue::Value),
    (&["--draft-n"], "--spec-draft-n-max", FlagValue::Value),
    (&["--draft-n-min"], "--spec-draft-n-min", FlagValue::Value),
];

/// The flags that a command has for itself, or for something else than others.
pub fn own(command: &str) -> &'static [FlagAlias] {
    match command {
        "run" => RUN,
        "bench" => BENCH,
        "profile" | "explain" => PROFILE,
        "embed" => EMBED,
        "imatrix" => IMATRIX,
        "serve" => SERVE,
        _ => &[],
    }
}

/// Flags of llama.cpp's programs that stand for a command here, wherever they are.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (&["--list-devices"], &["devices"]),
    (&["--cache-list", "-cl"], &["list"]),
    (&["--completion-bash"], &["completions", "bash"]),
];

/// What became of arguments.
#[derive(Debug, Default)]
pub struct Rewritten {
    /// They, without the program's name.
    pub args: Vec<OsString>,
    /// What is odd about them.
    pub warnings: Vec<String>,
    /// What of them has no effect, and why.
    pub notes: Vec<String>,
}

/// Rewrites arguments, which are without the program's name.
pub fn rewrite(args: impl IntoIterator<Item = OsString>) -> Rewritten {
    let all: Vec<OsString> = args.into_iter().collect();
    for given in all.iter().take_while(|arg| *arg != "--") {
        if let Some((_, command)) = COMMANDS.iter().find(|(names, _)| names.iter().any(|name| given == name)) {
            return Rewritten { args: command.iter().map(OsString::from).collect(), ..Rewritten::default() };
        }
    }
    let mut input = all.into_iter().peekable();
    let (mut command, mut notes) = ("run".to_string(), Vec::new());
    let mut out: Vec<(Option<&'static str>, OsString)> = Vec::new();
    let mut warnings = Vec::new();
    let mut own = RUN;
    let (mut named, mut unlisted) = (false, false);
    if let Some(first) = input.peek() {
        let text = first.to_string_lossy();
        let global = matches!(&*text, "-h" | "--help" | "-V" | "--version" | "-v" | "-vv" | "--verbose");
        match text.starts_with('-') {
            true if !global => out.push((None, "run".into())),
            // Whose flags follow is not known yet.
            true => command.clear(),
            // A model alone is talked to.
            false if is_model(first) => out.push((None, "run".into())),
            false => command = text.into_owned(),
        }
        own = self::own(&command);
    }
    while let Some(arg) = input.next() {
        if arg == "--" {
            out.push((None, arg));
            out.extend(input.by_ref().map(|rest| (None, rest)));
            break;
        }
        let Some((name, inline)) = split(&arg) else {
            let prompted = out.iter().any(|(long, _)| *long == Some("--prompt"));
            // A model by its file alone, and behind it what it is told. What follows an unlisted flag may be that one's.
            let free = command == "run" && !std::mem::take(&mut unlisted);
            out.push(if free && !named && is_model(&arg) {
                named = true;
                (Some("--model"), join("--model", Some(&arg)))
            } else if free && named && !prompted {
                (Some("--prompt"), join("--prompt", Some(&arg)))
            } else {
                (None, arg)
            });
            continue;
        };
        let passed = llama_cpp_flags::find_own(&command, &name);
        let Some((long, slot)) = find(&name, own).filter(|_| passed.is_none()) else {
            if let Some((slot, why)) = llama_cpp_flags::find(&command, &name) {
                follow(slot, inline, &mut input);
                notes.push(format!("{name} has no effect here: {why}"));
                continue;
            }
            let arg = match name.starts_with("--") {
                true => join(&name, inline.as_deref()),
                // Letters that clap would take for flags of one letter each, or for one with its value.
                false if is_word(&name) => join(&format!("-{name}"), inline.as_deref()),
                false => arg,
            };
            unlisted = true;
            out.push((None, arg));
            continue;
        };
        unlisted = false;
        let value = follow(slot, inline, &mut input);
        if slot != FlagValue::Repeated {
            let before = out.len();
            out.retain(|(earlier, _)| *earlier != Some(long));
            if out.len() < before && slot != FlagValue::None {
                warnings.push(format!("{long} is given more than once; the last one counts"));
            }
        }
        out.push((Some(long), join(long, value.as_deref())));
    }
    Rewritten { args: out.into_iter().map(|(_, arg)| arg).collect(), warnings, notes }
}

/// The value of a flag: behind `=`, or what follows.
fn follow(
    slot: FlagValue,
    inline: Option<OsString>,
    input: &mut Peekable<impl Iterator<Item = OsString>>,
) -> Option<OsString> {
    match slot {
        _ if inline.is_some() => inline,
        FlagValue::None => None,
        FlagValue::Value | FlagValue::Repeated => input.next(),
        FlagValue::Switch => input.next_if(|next| is_switch(next)).or(Some("on".into())),
    }
}

/// Whether an argument is the name of a model's file, or of a Hugging Face folder.
fn is_model(arg: &OsStr) -> bool {
    let path = std::path::Path::new(arg);
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf")) || path.join("config.json").is_file()
}

/// Whether what stands behind one dash is a word, and no letter with a number or with itself.
fn is_word(name: &str) -> bool {
    let word = name.trim_start_matches('-');
    let same = word.chars().all(|c| word.starts_with(c));
    word.len() > 1 && !same && word.chars().nth(1).is_some_and(char::is_alphabetic)
}

/// A flag's name with `_` as `-` (in long names), and its value after `=`; none for what is not a flag.
fn split(arg: &OsStr) -> Option<(String, Option<OsString>)> {
    let text = arg.to_str()?;
    if !text.starts_with('-') || text == "-" {
        return None;
    }
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(OsString::from(value))),
        None => (text, None),
    };
    let name = if name.starts_with("--") { name.replace('_', "-") } else { name.to_string() };
    Some((name, value))
}

fn find(name: &str, own: &[FlagAlias]) -> Option<(&'static str, FlagValue)> {
    let is = |entry: &&FlagAlias| entry.1 == name || entry.0.contains(&name);
    own.iter().chain(COMMON).find(is).map(|entry| (entry.1, entry.2))
}

fn is_switch(value: &OsStr) -> bool {
    ["on", "off", "auto", "0", "1"].iter().any(|word| value == *word)
}

fn join(name: &str, value: Option<&OsStr>) -> OsString {
    let mut out = OsString::from(name);
    if let Some(value) = value {
        out.push("=");
        out.push(value);
    }
    out
}
