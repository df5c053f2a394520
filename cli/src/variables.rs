//! llama.cpp's variables of the environment for flags that clap does not read from there: each stands for its flag, unless the command line
//! has the flag, another one of its pair, or one that cannot stand beside it. Of those that no command here has, a line says so.

use super::llama_cpp_flags;
use std::ffi::{OsStr, OsString};

/// What a variable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A flag with this value.
    Value(&'static str),
    /// A flag for a word that means yes, and another, if there is one, for a word that means no.
    Switch(&'static str, Option<&'static str>),
}

use Means::{Switch, Value};

/// What all of them begin with.
const START: &str = "LLAMA_ARG_";
/// Words that mean yes, and no.
const YES: [&str; 4] = ["1", "on", "true", "enabled"];
const NO: [&str; 4] = ["0", "off", "false", "disabled"];

/// Variables without what they begin with.
pub const VARIABLES: &[(&str, Means)] = &[
    ("TEMPERATURE", Value("--temp")),
    ("TOP_K", Value("--top-k")),
    ("TOP_P", Value("--top-p")),
    ("MIN_P", Value("--min-p")),
    ("REPEAT_PENALTY", Value("--repeat-penalty")),
    ("PRESENCE_PENALTY", Value("--presence-penalty")),
    ("FREQUENCY_PENALTY", Value("--frequency-penalty")),
    ("POOLING", Value("--pooling")),
    ("TAGS", Value("--tags")),
    ("MODELS_DIR", Value("--models-dir")),
    ("MODELS_PRESET", Value("--models-preset")),
    ("MODELS_AUTOLOAD", Switch("--models-autoload", Some("--no-models-autoload"))),
    ("API_KEY_FILE", Value("--api-key-file")),
    ("CORS_ORIGINS", Value("--cors-origins")),
    ("CHAT_TEMPLATE_KWARGS", Value("--chat-template-kwargs")),
    ("JINJA", Switch("--jinja", Some("--no-jinja"))),
    ("REASONING", Value("--reasoning")),
    ("REASONING_EFFORT", Value("--reasoning-effort")),
    ("THINK_BUDGET", Value("--reasoning-budget")),
    ("PREFILL_ASSISTANT", Switch("--prefill-assistant", Some("--no-prefill-assistant"))),
    ("SPEC_DRAFT_MODEL", Value("--model-draft")),
    ("N_GPU_LAYERS_DRAFT", Value("--gpu-layers-draft")),
    ("SPEC_DRAFT_N_MAX", Value("--spec-draft-n-max")),
    ("DRAFT_MAX", Value("--spec-draft-n-max")),
    ("SPEC_DRAFT_N_MIN", Value("--spec-draft-n-min")),
    ("DRAFT_MIN", Value("--spec-draft-n-min")),
    ("SPEC_TYPE", Value("--spec-type")),
    ("CONTEXT_SHIFT", Switch("--context-shift", Some("--no-context-shift"))),
    ("KV_UNIFIED", Switch("--kv-unified", Some("--no-kv-unified"))),
    ("CONT_BATCHING", Switch("--cont-batching", Some("--no-cont-batching"))),
    ("EMBEDDINGS", Switch("--embeddings", None)),
    ("RERANKING", Switch("--reranking", None)),
    ("ENDPOINT_METRICS", Switch("--metrics", None)),
    ("ENDPOINT_PROPS", Switch("--props", None)),
    ("ENDPOINT_SLOTS", Switch("--slots", Some("--no-slots"))),
    ("UI", Switch("--ui", Some("--no-ui"))),
    ("MMPROJ_AUTO", Switch("--mmproj-auto", Some("--no-mmproj"))),
    ("REPACK", Switch("--repack", Some("--no-repack"))),
    // Those of flags that have no effect.
    ("CACHE_PROMPT", Switch("--cache-prompt", Some("--no-cache-prompt"))),
    ("CACHE_REUSE", Value("--cache-reuse")),
    ("CACHE_RAM", Value("--cache-ram")),
    ("CACHE_IDLE_SLOTS", Switch("--cache-idle-slots", Some("--no-cache-idle-slots"))),
    ("CHECKPOINT_MIN_SPACING_NT", Value("--checkpoint-min-step")),
    ("SWA_FULL", Switch("--swa-full", None)),
    ("FIT", Value("--fit")),
    ("FIT_TARGET", Value("--fit-target")),
    ("FIT_CTX", Value("--fit-ctx")),
    ("FIT_ESTIMATE", Value("--fit-print")),
    ("SPLIT_MODE", Value("--split-mode")),
    ("MAIN_GPU", Value("--main-gpu")),
    ("TENSOR_SPLIT", Value("--tensor-split")),
    ("N_CPU_FFN", Value("--n-cpu-ffn")),
    ("KV_OFFLOAD", Switch("--kv-offload", Some("--no-kv-offload"))),
    ("NO_HOST", Switch("--no-host", None)),
    ("LOAD_MODE", Value("--load-mode")),
    ("LAZY_MODE", Value("--lazy-mode")),
    ("DEFRAG_THOLD", Value("--defrag-thold")),
    ("PERF", Switch("--perf", Some("--no-perf"))),
    ("BACKEND_SAMPLING", Switch("--backend-sampling", None)),
    ("MTMD_BATCH_MAX_TOKENS", Value("--mtmd-batch-max-tokens")),
    ("REUSE_PORT", Switch("--reuse-port", None)),
    ("LOG_FILE", Value("--log-file")),
    ("LOG_COLORS", Value("--log-colors")),
    ("LOG_VERBOSITY", Value("--log-verbosity")),
    ("LOG_PREFIX", Switch("--log-prefix", Some("--no-log-prefix"))),
    ("LOG_TIMESTAMPS", Switch("--log-timestamps", Some("--no-log-timestamps"))),
    ("SPEC_DRAFT_P_MIN", Value("--draft-p-min")),
    ("SPEC_DRAFT_P_SPLIT", Value("--draft-p-split")),
    ("SPEC_DRAFT_CACHE_TYPE_K", Value("--cache-type-k-draft")),
    ("SPEC_DRAFT_CACHE_TYPE_V", Value("--cache-type-v-draft")),
    ("SPEC_DRAFT_CPU_MOE", Switch("--cpu-moe-draft", None)),
    ("SPEC_DRAFT_N_CPU_MOE", Value("--n-cpu-moe-draft")),
    ("SPEC_DRAFT_HF_REPO", Value("--hf-repo-draft")),
    ("SPEC_DRAFT_BACKEND_SAMPLING", Switch("--spec-draft-backend-sampling", Some("--no-spec-draft-backend-sampling"))),
    ("RPC", Value("--rpc")),
    ("MOE_CACHE_MIB", Value("--moe-cache-mib")),
    ("SSE_PING_INTERVAL", Value("--sse-ping-interval")),
    ("SLOT_SAVE_PATH", Value("--slot-save-path")),
];

/// Variables of flags that are refused, and the flags: a variable may be meant for another program, so a line says so.
const REFUSED: &[(&str, &str)] = &[
    ("DOCKER_REPO", "--docker-repo"),
    ("LOG_JSONL", "--log-jsonl"),
    ("KV_UNIFIED_PER_SLOT", "--kv-unified-per-slot"),
    ("VIDEO_FPS", "--video-fps"),
    ("VIDEO_TIMESTAMP_INTERVAL", "--video-timestamp-interval"),
    ("VIDEO_FFMPEG_DIR", "--video-ffmpeg-dir"),
    ("STATIC_PATH", "--path"),
    ("CORS_METHODS", "--cors-methods"),
    ("CORS_HEADERS", "--cors-headers"),
    ("CORS_CREDENTIALS", "--cors-credentials"),
    ("UI_CONFIG", "--ui-config"),
    ("UI_CONFIG_FILE", "--ui-config-file"),
    ("UI_MCP_PROXY", "--ui-mcp-proxy"),
    ("TOOLS", "--tools"),
    ("TOOLS_RUNTIME", "--tools-runtime"),
    ("MCP_SERVERS_CONFIG", "--mcp-servers-config"),
    ("MCP_SERVERS_JSON", "--mcp-servers-json"),
    ("AGENT", "--agent"),
    ("THINK_BUDGET_MESSAGE", "--reasoning-budget-message"),
    ("REASONING_PRESERVE", "--reasoning-preserve"),
    ("SKIP_CHAT_PARSING", "--skip-chat-parsing"),
    ("SPEC_SYNTH_LEN", "--spec-synth-len"),
    ("SPEC_SYNTH_RATES", "--spec-synth-rates"),
    ("SPEC_DRAFT_SAMPLING", "--spec-draft-sampling"),
];

/// Variables of the environment that [`super::fetch`] reads.
const FETCHED: [&str; 5] = ["MODEL", "MODEL_URL", "HF_REPO", "HF_FILE", "OFFLINE"];

/// Puts the flags of variables behind the command's name, and adds what is to be told of others to the notes. `set` has the variables of
/// the environment with their values.
pub fn add(args: &mut Vec<OsString>, notes: &mut Vec<String>, cli: &mut clap::Command, set: &[(String, OsString)]) {
    let set: Vec<(&str, &OsStr)> =
        set.iter().filter_map(|(name, value)| Some((name.strip_prefix(START)?, value.as_os_str()))).collect();
    let Some(name) = args.first().and_then(|first| first.to_str()).map(String::from) else { return };
    if set.is_empty() || !llama_cpp_flags::COMMANDS.contains(&name.as_str()) {
        return;
    }
    cli.build();
    let mut added = Vec::new();
    if let Some(command) = cli.find_subcommand(&name) {
        let given = |flag: &str| {
            let mut own = args.iter().take_while(|arg| *arg != "--").filter_map(|arg| arg.to_str());
            own.any(|arg| arg.split('=').next() == Some(flag))
        };
        for (variable, means) in VARIABLES {
            let Some(flag) = flag_of(variable, *means, &set) else { continue };
            let Some(long) = flag.to_str().and_then(|flag| flag.split('=').next()).map(String::from) else { continue };
            let pair = match means {
                Value(flag) => vec![*flag],
                Switch(yes, no) => std::iter::once(*yes).chain(*no).collect(),
            };
            if pair.into_iter().any(given) {
                continue;
            }
            let is_known = |arg: &&clap::Arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                arg.get_long().into_iter().chain(aliases).any(|name| long.strip_prefix("--") == Some(name))
            };
            match command.get_arguments().find(is_known) {
                Some(arg) => {
                    let conflicts = |a: &clap::Arg, b: &clap::Arg| {
                        command.get_arg_conflicts_with(a).iter().any(|other| other.get_id() == b.get_id())
                    };
                    let is_beside = |other: &clap::Arg| {
                        other.get_long().is_some_and(|long| given(&format!("--{long}")))
                            && (conflicts(arg, other) || conflicts(other, arg))
                    };
                    if !command.get_arguments().any(is_beside) {
                        added.push(flag);
                    }
                }
                None => notes.extend(
                    llama_cpp_flags::find(&name, &long)
                        .map(|(_, why)| format!("{START}{variable} has no effect here: {why}")),
                ),
            }
        }
    }
    args.splice(1..1, added);
    let of_clap: Vec<String> = cli
        .get_subcommands()
        .flat_map(clap::Command::get_arguments)
        .filter_map(|arg| Some(arg.get_env()?.to_string_lossy().into_owned()))
        .collect();
    let is_read = |variable: &str| {
        let plain = variable.strip_prefix("NO_").unwrap_or(variable);
        let listed = VARIABLES.iter().any(|(known, _)| *known == variable || *known == plain);
        listed || FETCHED.contains(&variable) || of_clap.iter().any(|known| known.strip_prefix(START) == Some(variable))
    };
    let unread = set.iter().filter(|(variable, _)| !is_read(variable));
    let why = |variable: &str| {
        let (_, flag) = REFUSED.iter().find(|(known, _)| *known == variable)?;
        super::refused_flags::find(&name, flag).or_else(|| super::refused_flags::find("serve", flag))
    };
    notes.extend(unread.map(|(variable, _)| {
        format!("{START}{variable} is not read: {}", why(variable).unwrap_or("no flag here has this variable"))
    }));
}

/// The flag that a variable stands for, if it is set. `NO_` before a switch's name means no, whatever its value.
fn flag_of(variable: &str, means: Means, set: &[(&str, &OsStr)]) -> Option<OsString> {
    let of = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    match means {
        Value(flag) => {
            let mut whole = OsString::from(format!("{flag}="));
            whole.push(of(variable)?);
            Some(whole)
        }
        Switch(yes, no) => {
            let word = of(variable).map(|value| value.to_string_lossy().to_ascii_lowercase());
            match word {
                _ if of(&format!("NO_{variable}")).is_some() => no.map(OsString::from),
                Some(word) if YES.contains(&word.as_str()) => Some(yes.into()),
                Some(word) if NO.contains(&word.as_str()) => no.map(OsString::from),
                // The flag's own error names what is wrong with its value.
                Some(word) => Some(format!("{yes}={word}").into()),
                None => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn add_variables(args: &[&str], set: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let set: Vec<(String, OsString)> = set.iter().map(|(k, v)| (format!("{START}{k}"), v.into())).collect();
        let mut notes = Vec::new();
        add(&mut args, &mut notes, &mut crate::Cli::command(), &set);
        (args.into_iter().map(|arg| arg.into_string().unwrap()).collect(), notes)
    }

    #[test]
    fn every_variable_is_of_a_flag_of_some_command_and_of_none_that_clap_reads() {
        let mut cli = crate::Cli::command();
        cli.build();
        let args: Vec<&clap::Arg> = cli.get_subcommands().flat_map(clap::Command::get_arguments).collect();
        for (variable, means) in VARIABLES {
            let flags = match means {
                Value(flag) => vec![*flag],
                Switch(yes, no) => std::iter::once(*yes).chain(*no).collect(),
            };
            for flag in flags {
                let own = args.iter().any(|arg| arg.get_long() == flag.strip_prefix("--"));
                assert!(own || llama_cpp_flags::find("serve", flag).is_some(), "{variable}: {flag}");
            }
            let name = format!("{START}{variable}");
            assert!(!args.iter().any(|arg| arg.get_env() == Some(OsStr::new(&name))), "{name} is clap's");
        }
    }

    #[test]
    fn variables_are_flags_unless_the_command_line_says_otherwise() {
        let set = [("TOP_K", "7"), ("ENDPOINT_SLOTS", "off"), ("UI", "1"), ("EMBEDDINGS", "0")];
        let (args, notes) = add_variables(&["serve", "--port=1"], &set);
        assert_eq!(args, ["serve", "--top-k=7", "--no-slots", "--ui", "--port=1"]);
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(
            add_variables(&["serve", "--top-k=3", "--slots", "--no-ui"], &set).0,
            ["serve", "--top-k=3", "--slots", "--no-ui"]
        );
        assert_eq!(add_variables(&["serve"], &[("NO_CONTEXT_SHIFT", "")]).0, ["serve", "--no-context-shift"]);
        assert_eq!(
            add_variables(&["serve", "--model=x"], &[("MODELS_DIR", "d")]).0,
            ["serve", "--model=x"],
            "one or the other"
        );
        assert_eq!(add_variables(&["inspect", "x"], &set).0, ["inspect", "x"]);
        assert_eq!(add_variables(&["serve"], &[("UI", "perhaps")]).0, ["serve", "--ui=perhaps"]);
    }

    #[test]
    fn variables_without_effect_and_unknown_ones_are_told() {
        let (args, notes) = add_variables(
            &["serve"],
            &[("SWA_FULL", "1"), ("NONSENSE", "x"), ("PORT", "1"), ("HF_REPO", "a/b"), ("TOP_K", ""), ("AGENT", "1")],
        );
        assert_eq!(args, ["serve", "--top-k="]);
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[0].starts_with("LLAMA_ARG_SWA_FULL has no effect here: "), "{notes:?}");
        assert_eq!(notes[1], "LLAMA_ARG_NONSENSE is not read: no flag here has this variable");
        assert!(notes[2].starts_with("LLAMA_ARG_AGENT is not read: functions are run"), "{notes:?}");
    }

    #[test]
    fn every_variable_of_llama_cpp_s_server_is_read_or_said_not_to_be_with_a_reason() {
        let options = include_str!("../golden/llama_cpp_options.txt");
        let names = options.lines().find_map(|line| line.strip_prefix("LLAMA_ARG: ")).unwrap();
        assert!(names.split(' ').count() > 140);
        for name in names.split(' ') {
            let (_, notes) = add_variables(&["serve"], &[(name, "1")]);
            assert!(!notes.iter().any(|note| note.ends_with("no flag here has this variable")), "{notes:?}");
        }
    }
}
