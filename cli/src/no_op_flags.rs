//! Flags that are taken, as other programs' scripts give them, though nothing follows from them: each says so in a line on stderr.

use clap::parser::ValueSource;
use clap::ArgMatches;

/// A flag without an effect.
pub struct Idle {
    /// Commands of which that is so; of all, if there are none.
    pub commands: &'static [&'static str],
    /// Its long name, without dashes.
    pub flag: &'static str,
    /// The only value of which it is so, if not of any.
    pub value: Option<&'static str>,
    /// The flag beside which it has an effect after all.
    pub unless: Option<&'static str>,
    /// Why: what is done anyway, or never.
    pub why: &'static str,
}

const ANY: Idle = Idle { commands: &[], flag: "", value: None, unless: None, why: "" };
const EXPLAIN: Idle = Idle { commands: &["explain"], why: "explain shows a step and runs none", ..ANY };
const TUNE: Idle = Idle { commands: &["tune"], why: "tune measures a GPU's kernels, with all layers there", ..ANY };
const PROFILE: Idle = Idle { commands: &["profile"], why: "profile runs all layers on one device, once", ..ANY };
const CHATS: &[&str] = &["run", "serve"];
const RUN: &[&str] = &["run"];
const SERVE: &[&str] = &["serve"];

/// All of them. A flag that says what is done anyway is one, too: its opposite is what has an effect.
pub const IDLE: &[Idle] = &[
    Idle { flag: "mmap", why: "files are mapped unless --no-mmap is given", ..ANY },
    Idle { flag: "cpu-strict", why: "wherever --cpu-mask is given, each thread has a processor of its own", ..ANY },
    Idle { flag: "poll", why: "threads that wait spin for a moment, then sleep", ..ANY },
    Idle { flag: "flash-attn", value: Some("off"), why: "attention is always fused", ..ANY },
    Idle { flag: "warmup", why: "only bench runs anything before what is asked for", ..ANY },
    Idle { commands: NOT_BENCH, flag: "no-warmup", why: "nothing runs before what is asked for", ..ANY },
    Idle { commands: CHATS, flag: "jinja", why: "templates are always rendered", ..ANY },
    Idle { commands: CHATS, flag: "no-jinja", why: "templates are always rendered", ..ANY },
    Idle { commands: RUN, flag: "escape", why: "escapes are read unless --no-escape is given", ..ANY },
    Idle {
        commands: RUN,
        flag: "display-prompt",
        why: "the prompt is shown unless --no-display-prompt is given",
        ..ANY
    },
    Idle { commands: SERVE, flag: "cont-batching", why: "answers always share steps", ..ANY },
    Idle { commands: SERVE, flag: "props", why: "POST /props changes nothing", ..ANY },
    Idle { commands: SERVE, flag: "slots", why: "slots are told unless --no-slots is given", ..ANY },
    Idle { commands: SERVE, flag: "ui", why: "the page is served unless --no-ui is given", ..ANY },
    Idle {
        commands: SERVE,
        flag: "models-autoload",
        why: "models are loaded unless --no-models-autoload is given",
        ..ANY
    },
    Idle { commands: SERVE, flag: "no-context-shift", why: "that is so unless --context-shift is given", ..ANY },
    Idle { commands: SERVE, flag: "retry-lost", why: "a server always loads the model anew", ..ANY },
    Idle { commands: SERVE, flag: "logprobs", why: "requests ask for them", ..ANY },
    Idle { flag: "batch-size", unless: Some("fit"), ..EXPLAIN },
    Idle { flag: "ubatch-size", unless: Some("fit"), ..EXPLAIN },
    Idle { flag: "activations", unless: Some("fit"), ..EXPLAIN },
    Idle { flag: "threads", ..EXPLAIN },
    Idle { flag: "threads-batch", ..EXPLAIN },
    Idle { flag: "cpu-mask", ..EXPLAIN },
    Idle { flag: "no-repack", ..EXPLAIN },
    Idle { flag: "numa", ..EXPLAIN },
    Idle { flag: "prio", ..EXPLAIN },
    Idle { flag: "retry-lost", ..EXPLAIN },
    Idle { flag: "lose-at", ..EXPLAIN },
    Idle { flag: "auto", ..EXPLAIN },
    Idle { flag: "gpu-layers", ..EXPLAIN },
    Idle { flag: "cpu-moe", ..EXPLAIN },
    Idle { flag: "n-cpu-moe", ..EXPLAIN },
    Idle { flag: "override-tensor", ..EXPLAIN },
    Idle { flag: "validation", ..EXPLAIN },
    Idle { flag: "threads", ..TUNE },
    Idle { flag: "threads-batch", ..TUNE },
    Idle { flag: "cpu-mask", ..TUNE },
    Idle { flag: "no-repack", ..TUNE },
    Idle { flag: "numa", ..TUNE },
    Idle { flag: "prio", ..TUNE },
    Idle { flag: "retry-lost", ..TUNE },
    Idle { flag: "lose-at", ..TUNE },
    Idle { flag: "auto", ..TUNE },
    Idle { flag: "gpu-layers", ..TUNE },
    Idle { flag: "cpu-moe", ..TUNE },
    Idle { flag: "n-cpu-moe", ..TUNE },
    Idle { flag: "override-tensor", ..TUNE },
    Idle { flag: "gpu-layers", ..PROFILE },
    Idle { flag: "cpu-moe", ..PROFILE },
    Idle { flag: "n-cpu-moe", ..PROFILE },
    Idle { flag: "override-tensor", ..PROFILE },
    Idle { flag: "retry-lost", ..PROFILE },
    Idle { flag: "lose-at", ..PROFILE },
];

const NOT_BENCH: &[&str] = &["run", "serve", "embed", "logits", "perplexity", "explain", "profile", "tune", "imatrix"];

/// The rows of a command's flag.
pub fn of<'a>(command: &'a str, flag: &'a str) -> impl Iterator<Item = &'static Idle> + 'a {
    IDLE.iter().filter(move |i| i.flag == flag && (i.commands.is_empty() || i.commands.contains(&command)))
}

/// What to say of the flags that a command line gives; variables of the environment are for many commands, and pass.
pub fn describe_flags(command: &str, given: &ArgMatches) -> Vec<String> {
    let given_here = |flag: &str| {
        let id = flag.replace('-', "_");
        given.try_contains_id(&id).is_ok() && given.value_source(&id) == Some(ValueSource::CommandLine)
    };
    let is_so = |idle: &&Idle| {
        let raw = || given.try_get_raw(&idle.flag.replace('-', "_")).ok().flatten().and_then(|mut all| all.next_back());
        let value = idle.value.is_none_or(|value| raw().is_some_and(|raw| raw.eq_ignore_ascii_case(value)));
        given_here(idle.flag) && value && !idle.unless.is_some_and(given_here)
    };
    let rows = IDLE.iter().filter(|i| i.commands.is_empty() || i.commands.contains(&command));
    rows.filter(is_so).map(line).collect()
}

fn line(idle: &Idle) -> String {
    let value = idle.value.map_or(String::new(), |value| format!(" {value}"));
    format!("--{}{value} has no effect here: {}", idle.flag, idle.why)
}
