//! Flags of llama.cpp's programs that are refused, as they change what is computed or written and that is not done here: each with what
//! to do instead, or why it is not done. They are no flags of a command; those that change nothing are in [`super::llama_cpp_flags`].

/// Names, the commands that refuse them (all, if none is named), and why.
pub type RefusedFlag = (&'static [&'static str], &'static [&'static str], &'static str);

const TOOLS: &str = "functions are run by whoever asks, and never by the server";
const MEASURES: &str =
    "perplexity and divergence are measured; lm-eval measures tasks, by the server's /v1/completions";
const TEMPLATE: &str = "what stands around messages is the chat template's; --chat-template-file has another";
const RETRIEVAL: &str = "a text is embedded whole, or one for each --embd-separator";
const BATCHED: &str = "bench measures one sequence, bench-serve many users of a server";
const SPEECH: &str = "no model here speaks";
const VIDEO: &str = "videos are not taken; --image takes their frames";
const UI: &str = "the page keeps its settings in the browser";
const CORS: &str = "methods and headers follow from the endpoints; --cors-origins says who may ask";

/// All of them. A row for some commands goes before one for all.
pub const REFUSED: &[RefusedFlag] = &[
    (
        &["-gan", "--grp-attn-n", "-gaw", "--grp-attn-w"],
        &[],
        "llama.cpp's server and cli have it no more either; --rope-scaling yarn --rope-scale N stretches a context",
    ),
    (&["--video", "--video-fps", "--video-timestamp-interval", "--video-ffmpeg-dir"], &[], VIDEO),
    (&["--tts-lang", "--tts-speaker-file"], &[], SPEECH),
    (
        &["-dr", "--docker-repo"],
        &[],
        "models come from Hugging Face (-hf), ModelScope, Ollama's registry (pull) or a URL",
    ),
    (&["--embd-gemma-default"], &[], "-hf ggml-org/embeddinggemma-300M-qat-q4_0-GGUF --embeddings names it"),
    (&["--fim-qwen-1.5b-default"], &[], "-hf ggml-org/Qwen2.5-Coder-1.5B-Q8_0-GGUF names it"),
    (&["--fim-qwen-3b-default"], &[], "-hf ggml-org/Qwen2.5-Coder-3B-Q8_0-GGUF names it"),
    (&["--fim-qwen-7b-default", "--fim-qwen-7b-spec"], &[], "-hf ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF names it"),
    (&["--fim-qwen-14b-spec"], &[], "-hf ggml-org/Qwen2.5-Coder-14B-Q8_0-GGUF names it"),
    (&["--fim-qwen-30b-default"], &[], "-hf ggml-org/Qwen3-Coder-30B-A3B-Instruct-Q8_0-GGUF names it"),
    (&["--gpt-oss-20b-default"], &[], "-hf ggml-org/gpt-oss-20b-GGUF names it"),
    (&["--gpt-oss-120b-default"], &[], "-hf ggml-org/gpt-oss-120b-GGUF names it"),
    (&["--vision-gemma-4b-default"], &[], "-hf ggml-org/gemma-3-4b-it-qat-GGUF names it"),
    (&["--vision-gemma-12b-default"], &[], "-hf ggml-org/gemma-3-12b-it-qat-GGUF names it"),
    (&["--mmproj", "--mmproj-url", "--image", "--audio"], &["perplexity", "imatrix"], "it reads text alone"),
    (&["--mmproj-url", "--image", "--audio"], &["bench"], "--mmproj FILE is measured"),
    // Drafts.
    (&["--spec-default"], &["serve"], "--spec-type says what is drafted, and from what"),
    (&["--spec-draft-sampling"], &[], "a draft is the likeliest continuation"),
    (&["--spec-synth-len", "--spec-synth-rates"], &[], "only what a draft gets right is taken"),
    // Conversations and requests.
    (&["--reasoning-effort"], &["serve"], "requests say it by reasoning_effort, --chat-template-kwargs for all"),
    (&["--reasoning-budget-message"], &[], "reasoning that is cut off ends without words of its own"),
    (&["--reasoning-preserve", "--no-reasoning-preserve"], &[], "the template decides which reasoning stays"),
    (&["--skip-chat-parsing"], &[], "--reasoning-format none leaves reasoning in the answer"),
    (&["--reverse-prompt"], &["serve"], "requests say where they end, by stop"),
    (&["--prompt", "--file"], &["serve"], "requests bring prompts"),
    (&["-bf", "--binary-file"], &[], "-f reads a text"),
    (&["-e", "--escape", "--no-escape"], &["serve"], "escapes of JSON are read, and no others"),
    (&["--spm-infill"], &[], "text to be filled in goes by the order that the model's file says"),
    (&["--kv-unified-per-slot"], &[], "the context is shared as requests need it, or in equal parts (--no-kv-unified)"),
    (&["-i", "--interactive", "-if", "--interactive-first"], &["run"], "without -p, lines are read (-cnv talks)"),
    (&["--in-prefix", "--in-prefix-bos", "--in-suffix"], &[], TEMPLATE),
    (&["--server-base"], &[], "run has the model itself; any client of OpenAI's interface asks a server"),
    (&["--parallel", "-np"], &["run"], "run writes one text; serve answers several requests at once"),
    (&["--sequences", "-ns", "--junk", "--pos"], &[], "it is of an example of llama.cpp's alone"),
    (&["--out", "--output", "--output-file"], &["run"], "a shell's > writes what is generated into a file"),
    // The server.
    (&["--path"], &[], "one page is served, which is built in; a proxy serves files"),
    (&["--ui-config", "--webui-config", "--ui-config-file", "--webui-config-file"], &[], UI),
    (&["--ui-mcp-proxy", "--webui-mcp-proxy", "-ag", "--agent"], &[], TOOLS),
    (&["--tools", "--tools-runtime", "--mcp-servers-config", "--mcp-servers-json"], &["serve"], TOOLS),
    (&["--cors-methods", "--cors-headers", "--cors-credentials", "--no-cors-credentials"], &[], CORS),
    (&["--log-prompts-dir"], &[], "prompts are written nowhere"),
    (&["--log-jsonl"], &[], "the log goes to stderr, in one form; --log-requests has a line for each request"),
    // Measuring.
    (&["--hellaswag", "--hellaswag-tasks", "--winogrande", "--winogrande-tasks"], &[], MEASURES),
    (&["--multiple-choice", "--multiple-choice-tasks"], &[], MEASURES),
    (&["--save-all-logits"], &["perplexity"], "--kl-divergence-base writes the file"),
    (&["--ppl-stride", "--ppl-output-type"], &[], "chunks stand beside each other, and a line tells of each"),
    (&["-npp", "-ntg", "-npl", "-pps", "-tgs"], &[], BATCHED),
    (&["--output-format"], &["bench"], "--output says it"),
    (&["--output-format"], &[], "the file is GGUF, as llama.cpp's is"),
    (&["--in-file"], &[], "a matrix is measured from texts, and not from other matrices"),
    (&["--chunk", "--from-chunk"], &["imatrix"], "chunks are measured from the first on; --chunks says how many"),
    (&["--process-output"], &[], "what outputs read is not measured"),
    (&["--parse-special"], &["imatrix"], "names of special tokens are text there"),
    (&["--lora", "--lora-scaled"], &["imatrix"], "merge-lora writes a model with its adapters, which can be measured"),
    // Embeddings.
    (&["--attention"], &[], "the model's file says what its rows see"),
    (&["--context-file", "--chunk-size", "--chunk-separator", "--chunks"], &["embed"], RETRIEVAL),
    (&["--cls-separator"], &[], "--rerank QUERY scores texts"),
    (&["--embd-output-format"], &[], "all goes into one JSON object; --out writes floats"),
];

/// Why a command refuses a flag, if it is one of llama.cpp's that it cannot do.
pub fn find(command: &str, name: &str) -> Option<&'static str> {
    let bare = |name: &str| name.trim_start_matches('-').to_string();
    let name = bare(name);
    let is_here = |commands: &[&str]| commands.is_empty() || commands.contains(&command);
    let mut rows = REFUSED.iter().filter(|(_, commands, _)| is_here(commands));
    rows.find(|(names, ..)| names.iter().any(|known| bare(known) == name)).map(|(.., why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{argv, llama_cpp_flags};
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    use clap::CommandFactory;

    const OPTIONS: &str = include_str!("../golden/llama_cpp_options.txt");

    /// Whether a command takes a flag, passes it over, or says why it does not.
    fn answers(clap: &mut clap::Command, command: &str, name: &str) -> bool {
        let given = [command, "-m", "x.gguf", name].map(std::ffi::OsString::from);
        let argv::Rewritten { args, notes, .. } = argv::rewrite(given);
        let parsed = clap.try_get_matches_from_mut(std::iter::once("pumex".into()).chain(args));
        match parsed {
            Err(error) if error.kind() == ErrorKind::UnknownArgument => match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(unknown)) => find(command, unknown).is_some(),
                _ => false,
            },
            _ => notes.iter().all(|note| note.contains(" has no effect here: ")),
        }
    }

    #[test]
    fn every_option_of_llama_cpp_is_taken_passed_over_or_refused_with_a_reason() {
        let mut clap = crate::Cli::command();
        let (mut count, mut unknown) = (0, Vec::new());
        for line in OPTIONS.lines().filter(|line| !line.starts_with(['#', 'L'])) {
            let (commands, names) = line.split_once(": ").unwrap();
            for (command, name) in commands.split(' ').flat_map(|c| names.split(' ').map(move |name| (c, name))) {
                count += 1;
                if !answers(&mut clap, command, name) {
                    unknown.push(format!("{command} {name}"));
                }
            }
        }
        assert!(count > 900, "{count}");
        assert_eq!(unknown, [] as [String; 0]);
    }

    #[test]
    fn what_is_refused_is_neither_taken_nor_passed_over() {
        for (names, commands, _) in REFUSED {
            let all = llama_cpp_flags::COMMANDS.iter();
            for command in all.filter(|command| commands.is_empty() || commands.contains(command)) {
                for name in *names {
                    assert!(llama_cpp_flags::find(command, name).is_none(), "{command} {name}");
                    assert!(find(command, name).is_some());
                }
            }
        }
        assert!(find("serve", "--grp-attn-n").is_some_and(|why| why.contains("yarn")));
        assert!(find("run", "--gan").is_some() && find("run", "--nonsense").is_none());
        assert!(find("run", "--reasoning-effort").is_none(), "run has it");
    }
}
