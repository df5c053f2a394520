//! Rewrites llama.cpp's flags into long flags that clap can parse.
//!
//! clap reads `-ngl 99` as `-n -g -l 99` and `-n -1` as two flags. So before clap sees them, the flags of a fixed
//! table become `--long=value`: two- and three-letter flags, other names of one flag, `_` for `-`, negative values.
//! Takes the arguments after the program's name, gives them back with warnings about repeated flags. Flags outside
//! the table pass through untouched; everything after `--` does too.

use super::llama_cpp_flags::{self, Slot};
use std::ffi::{OsStr, OsString};
use std::iter::Peekable;

/// A flag's other names, its long name for clap, and what follows it.
pub type FlagAlias = (&'static [&'static str], &'static str, Slot);

/// Flags of every command.
pub const COMMON: &[FlagAlias] = &[
    (&["-m"], "--model", Slot::Value),
    (&["-hf", "-hfr"], "--hf-repo", Slot::Value),
    (&["-hff"], "--hf-file", Slot::Value),
    (&["-hft"], "--hf-token", Slot::Value),
    (&["-mu"], "--model-url", Slot::Value),
    (&[], "--offline", Slot::None),
    (&["-mm"], "--mmproj", Slot::Value),
    (&["-mmu"], "--mmproj-url", Slot::Value),
    (&["--no-mmproj-auto"], "--no-mmproj", Slot::None),
    (&[], "--mmproj-auto", Slot::None),
    (&[], "--mmproj-offload", Slot::None),
    (&[], "--no-mmproj-offload", Slot::None),
    (&[], "--image", Slot::Repeated),
    (&[], "--audio", Slot::Repeated),
    (&[], "--image-min-tokens", Slot::Value),
    (&[], "--image-max-tokens", Slot::Value),
    (&[], "--prompt-cache", Slot::Value),
    (&[], "--prompt-cache-all", Slot::None),
    (&[], "--prompt-cache-ro", Slot::None),
    (&["-p"], "--prompt", Slot::Value),
    (&["-f"], "--file", Slot::Value),
    (&["-n", "--n-predict"], "--predict", Slot::Value),
    (&["-c", "--n-ctx"], "--ctx-size", Slot::Value),
    (&["-b"], "--batch-size", Slot::Value),
    (&["-ub"], "--ubatch-size", Slot::Value),
    (&["-ngl", "--n-gpu-layers"], "--gpu-layers", Slot::Value),
    (&["-cmoe"], "--cpu-moe", Slot::None),
    (&["-ncmoe"], "--n-cpu-moe", Slot::Value),
    (&["-ot"], "--override-tensor", Slot::Repeated),
    (&[], "--override-kv", Slot::Repeated),
    (&[], "--rope-scaling", Slot::Value),
    (&[], "--rope-scale", Slot::Value),
    (&[], "--rope-freq-base", Slot::Value),
    (&[], "--rope-freq-scale", Slot::Value),
    (&[], "--yarn-orig-ctx", Slot::Value),
    (&[], "--yarn-ext-factor", Slot::Value),
    (&[], "--yarn-attn-factor", Slot::Value),
    (&[], "--yarn-beta-slow", Slot::Value),
    (&[], "--yarn-beta-fast", Slot::Value),
    (&[], "--reasoning-format", Slot::Value),
    (&[], "--api-prefix", Slot::Value),
    (&[], "--embd-normalize", Slot::Value),
    (&[], "--lora", Slot::Repeated),
    (&[], "--lora-scaled", Slot::Repeated),
    (&[], "--control-vector", Slot::Repeated),
    (&[], "--control-vector-scaled", Slot::Repeated),
    (&["-t"], "--threads", Slot::Value),
    (&["-tb"], "--threads-batch", Slot::Value),
    (&["-C"], "--cpu-mask", Slot::Value),
    (&["-nr"], "--no-repack", Slot::None),
    (&[], "--cpu-strict", Slot::Value),
    (&[], "--poll", Slot::Value),
    (&[], "--numa", Slot::Value),
    (&[], "--prio", Slot::Value),
    (&["-dev"], "--device", Slot::Value),
    (&["-ctk"], "--cache-type-k", Slot::Value),
    (&["-ctv"], "--cache-type-v", Slot::Value),
    (&["-fa"], "--flash-attn", Slot::Switch),
    (&["-s"], "--seed", Slot::Value),
    (&[], "--diffusion-steps", Slot::Value),
    (&[], "--diffusion-eps", Slot::Value),
    (&[], "--diffusion-algorithm", Slot::Value),
    (&[], "--diffusion-alg-temp", Slot::Value),
    (&[], "--diffusion-block-length", Slot::Value),
    (&[], "--diffusion-cfg-scale", Slot::Value),
    (&[], "--diffusion-add-gumbel-noise", Slot::Value),
    (&[], "--diffusion-visual", Slot::None),
    (&["--temperature"], "--temp", Slot::Value),
    (&[], "--top-k", Slot::Value),
    (&[], "--top-p", Slot::Value),
    (&[], "--min-p", Slot::Value),
    (&[], "--repeat-penalty", Slot::Value),
    (&[], "--repeat-last-n", Slot::Value),
    (&[], "--presence-penalty", Slot::Value),
    (&[], "--frequency-penalty", Slot::Value),
    (&[], "--samplers", Slot::Value),
    (&[], "--min-keep", Slot::Value),
    (&[], "--xtc-probability", Slot::Value),
    (&[], "--xtc-threshold", Slot::Value),
    (&[], "--dynatemp-range", Slot::Value),
    (&[], "--dynatemp-exp", Slot::Value),
    (&[], "--dry-multiplier", Slot::Value),
    (&[], "--dry-base", Slot::Value),
    (&[], "--dry-allowed-length", Slot::Value),
    (&[], "--dry-penalty-last-n", Slot::Value),
    (&[], "--mirostat", Slot::Value),
    (&[], "--mirostat-lr", Slot::Value),
    (&[], "--mirostat-ent", Slot::Value),
    (&[], "--adaptive-target", Slot::Value),
    (&[], "--adaptive-decay", Slot::Value),
    (&[], "--logprobs", Slot::Value),
    (&["--sampling-seq"], "--sampler-seq", Slot::Value),
    (&["--top-nsigma"], "--top-n-sigma", Slot::Value),
    (&["--typical-p"], "--typical", Slot::Value),
    (&["-l"], "--logit-bias", Slot::Repeated),
    (&[], "--dry-sequence-breaker", Slot::Repeated),
    (&["-r"], "--reverse-prompt", Slot::Repeated),
    (&["-e"], "--escape", Slot::None),
    (&[], "--no-escape", Slot::None),
    (&["-co"], "--color", Slot::Switch),
    (&["-cnv"], "--conversation", Slot::None),
    (&["-no-cnv"], "--no-conversation", Slot::None),
    (&["-st"], "--single-turn", Slot::None),
    (&["-sys"], "--system-prompt", Slot::Value),
    (&["-sysf"], "--system-prompt-file", Slot::Value),
    (&["-mli"], "--multiline-input", Slot::None),
    (&["-rea"], "--reasoning", Slot::Value),
    (&[], "--reasoning-budget", Slot::Value),
    (&[], "--tools", Slot::Value),
    (&[], "--tool-choice", Slot::Value),
    (&[], "--keep", Slot::Value),
    (&[], "--context-shift", Slot::None),
    (&[], "--no-context-shift", Slot::None),
    (&[], "--jinja", Slot::None),
    (&[], "--no-jinja", Slot::None),
    (&[], "--display-prompt", Slot::None),
    (&[], "--no-display-prompt", Slot::None),
    (&[], "--ignore-eos", Slot::None),
    (&[], "--grammar", Slot::Value),
    (&[], "--grammar-file", Slot::Value),
    (&["-j"], "--json-schema", Slot::Value),
    (&["-jf"], "--json-schema-file", Slot::Value),
    (&[], "--mmap", Slot::None),
    (&[], "--no-mmap", Slot::None),
    (&[], "--mlock", Slot::None),
    (&[], "--tokens", Slot::Value),
    (&["-o"], "--out", Slot::Value),
    (&[], "--chunks", Slot::Value),
    (&[], "--chat-template", Slot::Value),
    (&[], "--chat-template-file", Slot::Value),
    (&[], "--chat-template-kwargs", Slot::Value),
    (&[], "--messages", Slot::Value),
    (&[], "--bos", Slot::Value),
    (&[], "--eos", Slot::Value),
    (&[], "--now", Slot::Value),
];

/// Flags that mean something else in `bench`, as in llama-bench; they go before [`COMMON`].
pub const BENCH: &[FlagAlias] = &[
    (&["-p"], "--n-prompt", Slot::Value),
    (&["-n"], "--n-gen", Slot::Value),
    (&["-d"], "--n-depth", Slot::Value),
    (&["-r"], "--repetitions", Slot::Value),
    (&["-o"], "--output", Slot::Value),
];

/// Flags that mean something else in `profile` and `explain` than elsewhere; they go before [`COMMON`].
pub const PROFILE: &[FlagAlias] = &[
    (&["-b"], "--rows", Slot::Value),
    (&["-d"], "--depth", Slot::Value),
    (&["-r"], "--repetitions", Slot::Value),
    (&["-np"], "--parallel", Slot::Value),
];

/// Flags that mean something else in `embed`, where every list of ids is a text of its own; they go before [`COMMON`].
pub const EMBED: &[FlagAlias] = &[
    (&[], "--tokens", Slot::Repeated),
    (&[], "--pooling", Slot::Value),
    (&[], "--embd-normalize", Slot::Value),
    (&[], "--embd-separator", Slot::Value),
    (&[], "--rerank", Slot::Value),
];

/// Flags that mean something else in `serve`; they go before [`COMMON`].
pub const SERVE: &[FlagAlias] = &[
    (&["-np"], "--parallel", Slot::Value),
    (&["-kvu"], "--kv-unified", Slot::None),
    (&["-no-kvu"], "--no-kv-unified", Slot::None),
    (&["-cb"], "--cont-batching", Slot::None),
    (&["-a"], "--alias", Slot::Value),
    (&[], "--tags", Slot::Value),
    (&[], "--host", Slot::Value),
    (&[], "--port", Slot::Value),
    (&[], "--keep", Slot::Value),
    (&[], "--sleep-idle-seconds", Slot::Value),
    (&[], "--models-dir", Slot::Value),
    (&[], "--models-preset", Slot::Value),
    (&[], "--models-max", Slot::Value),
    (&[], "--log-requests", Slot::Switch),
    (&["--embedding"], "--embeddings", Slot::None),
    (&["--rerank"], "--reranking", Slot::None),
    (&["--webui"], "--ui", Slot::None),
    (&["--no-webui"], "--no-ui", Slot::None),
    (&[], "--pooling", Slot::Value),
    (&["-to"], "--timeout", Slot::Value),
    (&["-md", "--spec-draft-model"], "--model-draft", Slot::Value),
    (&["-ngld", "--n-gpu-layers-draft", "--spec-draft-ngl"], "--gpu-layers-draft", Slot::Value),
    (&["--draft-n"], "--spec-draft-n-max", Slot::Value),
    (&["--draft-n-min"], "--spec-draft-n-min", Slot::Value),
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
    let mut input = args.into_iter().peekable();
    let (mut command, mut notes) = ("run".to_string(), Vec::new());
    let mut out: Vec<(Option<&'static str>, OsString)> = Vec::new();
    let mut warnings = Vec::new();
    let mut own: &[FlagAlias] = &[];
    let (mut named, mut unlisted) = (false, false);
    if let Some(first) = input.peek() {
        let text = first.to_string_lossy();
        own = match &*text {
            "bench" => BENCH,
            "profile" | "explain" => PROFILE,
            "embed" => EMBED,
            "serve" => SERVE,
            _ => &[],
        };
        let global = matches!(&*text, "-h" | "--help" | "-V" | "--version" | "-v" | "-vv" | "--verbose");
        if text == "--list-devices" {
            return Rewritten { args: vec!["devices".into()], ..Rewritten::default() };
        }
        match text.starts_with('-') {
            true if !global => out.push((None, "run".into())),
            // Whose flags follow is not known yet.
            true => command.clear(),
            // A model alone is talked to.
            false if is_model(first) => out.push((None, "run".into())),
            false => command = text.into_owned(),
        }
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
        let Some((long, slot)) = find(&name, own) else {
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
        if slot != Slot::Repeated {
            let before = out.len();
            out.retain(|(earlier, _)| *earlier != Some(long));
            if out.len() < before && slot != Slot::None {
                warnings.push(format!("{long} is given more than once; the last one counts"));
            }
        }
        out.push((Some(long), join(long, value.as_deref())));
    }
    Rewritten { args: out.into_iter().map(|(_, arg)| arg).collect(), warnings, notes }
}

/// The value of a flag: behind `=`, or what follows.
fn follow(
    slot: Slot,
    inline: Option<OsString>,
    input: &mut Peekable<impl Iterator<Item = OsString>>,
) -> Option<OsString> {
    match slot {
        _ if inline.is_some() => inline,
        Slot::None => None,
        Slot::Value | Slot::Repeated => input.next(),
        Slot::Switch => input.next_if(|next| is_switch(next)).or(Some("on".into())),
    }
}

/// Whether an argument is the name of a model's file.
fn is_model(arg: &OsStr) -> bool {
    std::path::Path::new(arg).extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf"))
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

fn find(name: &str, own: &[FlagAlias]) -> Option<(&'static str, Slot)> {
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
