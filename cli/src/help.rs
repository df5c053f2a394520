//! What the program says of itself: `pumex` alone, `-h` with the flags that people use, `--help` under headings, examples.

use clap::{Arg, Command};
use pumex_gguf::spelling::nearest;

/// What `pumex` says alone on a terminal.
pub const START: &str = "\
Pumex runs language models (GGUF files) on this machine. Three ways to begin:

  pumex run -hf ggml-org/gemma-3-1b-it-GGUF    talk to a model; it is downloaded once
  pumex run -p \"In the beginning\" -n 60        the small built-in model goes on with a text, at once
  pumex serve -m model.gguf                    APIs and a page for the browser at http://127.0.0.1:8080

pumex doctor says what this machine can run, pumex --help lists all commands.
";

/// What exit codes mean.
pub const CODES: &[(&str, &str)] = &[
    ("0", "Done."),
    ("1", "It failed; stderr says why."),
    ("2", "Bad usage."),
    ("130", "Stopped by Ctrl-C."),
    ("141", "Whoever read stdout has gone."),
];

/// Flags that `-h` shows, of every command that has them.
const USED: &[&str] = &[
    "model",
    "hf_repo",
    "prompt",
    "file",
    "predict",
    "ctx_size",
    "device",
    "gpu_layers",
    "threads",
    "temp",
    "seed",
    "system_prompt",
    "image",
    "json_schema",
    "host",
    "port",
    "parallel",
    "models_dir",
    "api_key",
    "alias",
    "json",
    "synthetic",
    "n_prompt",
    "n_gen",
    "repetitions",
    "compare",
    "imatrix",
    "dry_run",
    "out",
    "help",
    "version",
];

/// Headings with the flags under them; those that stand nowhere are the command's own.
const HEADINGS: &[(&str, &[&str])] = &[
    (
        "Model",
        &[
            "model",
            "hf_repo",
            "hf_file",
            "hf_token",
            "model_url",
            "offline",
            "no_mmap",
            "mlock",
            "override_kv",
            "lora",
            "lora_scaled",
            "control_vector",
            "control_vector_scaled",
            "control_vector_layer_range",
            "mmproj",
            "mmproj_url",
            "no_mmproj",
            "synthetic",
            "weight_type",
            "models_dir",
            "models_preset",
            "models_max",
            "no_models_autoload",
            "model_draft",
            "spec_type",
            "spec_draft_n_max",
            "spec_draft_n_min",
            "lora_init_without_apply",
        ],
    ),
    (
        "Prompt",
        &[
            "prompt",
            "file",
            "system_prompt",
            "system_prompt_file",
            "image",
            "audio",
            "chat_template",
            "chat_template_file",
            "chat_template_kwargs",
            "tools",
            "tool_choice",
            "reasoning",
            "reasoning_budget",
            "conversation",
            "no_conversation",
            "single_turn",
            "multiline_input",
            "reverse_prompt",
            "no_escape",
            "no_display_prompt",
            "prompt_cache",
            "prompt_cache_all",
            "prompt_cache_ro",
            "image_min_tokens",
            "image_max_tokens",
        ],
    ),
    (
        "Sampling",
        &[
            "temp",
            "top_k",
            "top_p",
            "min_p",
            "seed",
            "samplers",
            "sampler_seq",
            "repeat_penalty",
            "repeat_last_n",
            "presence_penalty",
            "frequency_penalty",
            "min_keep",
            "xtc_probability",
            "xtc_threshold",
            "dynatemp_range",
            "dynatemp_exp",
            "dry_multiplier",
            "dry_base",
            "dry_allowed_length",
            "dry_penalty_last_n",
            "dry_sequence_breaker",
            "mirostat",
            "mirostat_lr",
            "mirostat_ent",
            "adaptive_target",
            "adaptive_decay",
            "logprobs",
            "top_n_sigma",
            "typical",
            "logit_bias",
            "ignore_eos",
            "grammar",
            "grammar_file",
            "json_schema",
            "json_schema_file",
        ],
    ),
    (
        "Context",
        &[
            "ctx_size",
            "predict",
            "keep",
            "context_shift",
            "no_context_shift",
            "cache_type_k",
            "cache_type_v",
            "rope_freq_base",
            "rope_freq_scale",
            "rope_scale",
            "rope_scaling",
            "yarn_orig_ctx",
            "yarn_ext_factor",
            "yarn_attn_factor",
            "yarn_beta_slow",
            "yarn_beta_fast",
            "ctx_checkpoints",
        ],
    ),
    (
        "Device",
        &[
            "device",
            "gpu_layers",
            "cpu_moe",
            "n_cpu_moe",
            "override_tensor",
            "threads",
            "threads_batch",
            "cpu_mask",
            "numa",
            "prio",
            "batch_size",
            "ubatch_size",
            "flash_attn",
            "activations",
            "auto",
            "no_repack",
            "retry_lost",
            "without_kernels",
            "validation",
            "no_mmproj_offload",
            "gpu_layers_draft",
        ],
    ),
    (
        "Server",
        &[
            "host",
            "port",
            "api_key",
            "api_key_file",
            "insecure",
            "allowed_hosts",
            "cors_origins",
            "allow_remote_media",
            "media_path",
            "ssl_cert_file",
            "ssl_key_file",
            "metrics",
            "no_slots",
            "no_ui",
            "api_prefix",
            "timeout",
            "trusted_proxies",
            "max_connections",
            "max_connections_per_address",
            "idle_timeout",
            "threads_http",
            "alias",
            "tags",
            "parallel",
            "kv_unified",
            "no_kv_unified",
            "queue",
            "kept",
            "share_prefixes",
            "slot_save_path",
            "slot_save_limit",
            "log_steps",
            "log_requests",
            "prompt_rows",
            "sleep_idle_seconds",
        ],
    ),
];

/// Two examples of a command, as lines of a shell.
pub const EXAMPLES: &[(&str, [&str; 2])] = &[
    ("run", ["pumex run -m model.gguf", "pumex run -m model.gguf -p \"The capital of France is\" -n 16 --temp 0"]),
    ("serve", ["pumex serve -m model.gguf -c 32768 -np 16", "pumex serve --models-dir models"]),
    ("pull", ["pumex pull ggml-org/gemma-3-1b-it-GGUF:Q8_0", "pumex pull ollama:llama3.2:1b"]),
    ("list", ["pumex list", "pumex list --models-dir models"]),
    ("show", ["pumex show ggml-org/gemma-3-1b-it-GGUF", "pumex show model.gguf --json"]),
    ("rm", ["pumex rm ggml-org/gemma-3-1b-it-GGUF:Q8_0", "pumex rm --models-dir models llama3.2:1b"]),
    ("doctor", ["pumex doctor", "pumex doctor --json"]),
    ("inspect", ["pumex inspect model.gguf", "pumex inspect -m model.gguf --json"]),
    ("tokenize", ["pumex tokenize -m model.gguf -p \"hello world\"", "pumex tokenize -p \"hello world\" --ids"]),
    (
        "template",
        [
            "pumex template -m model.gguf --messages messages.json",
            "pumex template --messages messages.json --chat-template chatml",
        ],
    ),
    ("devices", ["pumex devices", "pumex devices --measure"]),
    ("embed", ["pumex embed -m model.gguf -p \"a text\"", "pumex embed -m model.gguf -f text.txt -o vectors.bin"]),
    (
        "logits",
        [
            "pumex logits -m model.gguf -p \"a text\" -o logits.bin",
            "pumex logits -m model.gguf --tokens 1,2,3 -o logits.bin",
        ],
    ),
    (
        "perplexity",
        [
            "pumex perplexity -m model.gguf -f text.txt -c 512",
            "pumex perplexity -m model.gguf -f text.txt --chunks 8 --json",
        ],
    ),
    ("bench", ["pumex bench -m model.gguf", "pumex bench --synthetic llama-8b -p 512 -n 128"]),
    ("bench-serve", ["pumex bench-serve --url http://127.0.0.1:8080 --users 8", "pumex bench-serve --json"]),
    ("explain", ["pumex explain -m model.gguf --fit", "pumex explain --synthetic llama-8b"]),
    ("profile", ["pumex profile -m model.gguf --layers", "pumex profile --synthetic llama-8b --html page.html"]),
    ("tune", ["pumex tune -m model.gguf", "pumex tune --synthetic llama-8b"]),
    (
        "imatrix",
        ["pumex imatrix -m model.gguf -f text.txt -o imatrix.gguf", "pumex imatrix --show-statistics imatrix.gguf"],
    ),
    ("convert", ["pumex convert folder model.gguf", "pumex convert folder model.gguf Q8_0"]),
    (
        "quantize",
        [
            "pumex quantize model-f16.gguf model-q4.gguf Q4_K_M",
            "pumex quantize --imatrix imatrix.gguf in.gguf out.gguf IQ3_S",
        ],
    ),
    ("split", ["pumex split --split-max-size 4G in.gguf out", "pumex split --dry-run in.gguf out"]),
    ("merge", ["pumex merge out-00001-of-00003.gguf in.gguf", "pumex merge --json out-00001-of-00003.gguf in.gguf"]),
    (
        "merge-lora",
        [
            "pumex merge-lora -m model.gguf --lora adapter.gguf merged.gguf",
            "pumex merge-lora -m model.gguf --lora-scaled adapter.gguf:0.5 merged.gguf",
        ],
    ),
    ("flags", ["pumex flags", "pumex flags --json"]),
    ("completions", ["pumex completions bash", "pumex completions zsh"]),
    ("man", ["pumex man", "pumex man --out pages"]),
];

/// Examples of a command.
pub fn examples(command: &str) -> Option<&'static [&'static str; 2]> {
    EXAMPLES.iter().find(|(name, _)| *name == command).map(|(_, lines)| lines)
}

/// Puts flags under their headings, leaves those that few people use out of `-h`, and ends help with examples.
pub fn arrange_help(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|own| own.get_name().to_string()).collect();
    let command = names.iter().fold(command, |command, name| command.mut_subcommand(name, one));
    command.after_help("pumex COMMAND -h has the flags that people use, pumex COMMAND --help all of them.")
}

fn one(command: Command) -> Command {
    let many = command.get_arguments().filter(|arg| !arg.is_hide_set()).count() > 20;
    let name = command.get_name().to_string();
    let command = command.mut_args(|arg| {
        let id = arg.get_id().as_str().to_string();
        let heading = HEADINGS.iter().find(|(_, ids)| ids.contains(&id.as_str()));
        let rare = many && !USED.contains(&id.as_str()) && !is_positional(&arg);
        let arg = if rare { arg.hide_short_help(true) } else { arg };
        match heading.filter(|_| many) {
            Some((heading, _)) => arg.help_heading(*heading),
            None => arg,
        }
    });
    let Some(lines) = examples(&name) else { return command };
    let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
    command.after_help(format!("Examples:{lines}"))
}

fn is_positional(arg: &Arg) -> bool {
    arg.get_long().is_none() && arg.get_short().is_none()
}

/// Words for a name that is none of a list, with the one that is meant, if it is near.
pub fn expected_one_of(found: &str, names: &[&str]) -> String {
    let listed = format!("expected one of {}", names.join(", "));
    match nearest(found, names.iter().copied()) {
        Some(name) => format!("did you mean {name}? {listed}"),
        None => listed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_comes_first() {
        let names = ["Q4_K_M", "Q4_K_S", "Q8_0", "IQ3_S"];
        assert!(expected_one_of("Q4KM", &names).starts_with("did you mean Q4_K_M? expected one of Q4_K_M, "));
    }
}
