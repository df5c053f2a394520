//! Fields of OpenAI's endpoints and of llama-server's own completions.

use super::Fate::{Needless, Obeyed, Refused};
use super::FieldTable;

/// Fields of everything that generates.
const GENERATION: FieldTable = &[
    (&["model"], Obeyed("any name where one model is served")),
    (&["stream"], Obeyed("")),
    (&["temperature", "top_p", "presence_penalty", "frequency_penalty"], Obeyed("")),
    (&["seed"], Obeyed("up to 64 bits")),
    (&["logit_bias"], Obeyed("by id or text; false bans")),
    (
        &[
            "top_k",
            "min_p",
            "typical_p",
            "top_n_sigma",
            "xtc_probability",
            "xtc_threshold",
            "dynatemp_range",
            "dynatemp_exponent",
            "repeat_penalty",
            "repeat_last_n",
            "dry_multiplier",
            "dry_base",
            "dry_allowed_length",
            "dry_penalty_last_n",
            "dry_sequence_breakers",
            "mirostat",
            "mirostat_tau",
            "mirostat_eta",
            "adaptive_target",
            "adaptive_decay",
            "min_keep",
            "ignore_eos",
        ],
        Obeyed("as llama-server"),
    ),
    (&["samplers"], Obeyed("names that are not known are left out")),
    (&["repetition_penalty"], Obeyed("vLLM's name of `repeat_penalty`")),
    (&["user"], Obeyed("users take turns, and share no beginnings of prompts")),
    (&["n_predict"], Obeyed("llama-server's name of `max_tokens`")),
    (
        &["t_max_predict_ms", "n_keep", "n_discard", "id_slot", "cache_prompt", "lora", "post_sampling_probs"],
        Obeyed("as llama-server"),
    ),
    (&["return_progress", "timings_per_token"], Obeyed("as llama-server")),
    (&["priority"], Obeyed("a word, or vLLM's number")),
    (&["min_tokens", "stop_token_ids"], Obeyed("as vLLM")),
    (&["grammar"], Obeyed("GBNF")),
    (&["ebnf", "regex"], Obeyed("as SGLang")),
    (&["guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"], Obeyed("as vLLM")),
    (&["guided_decoding_backend", "guided_whitespace_pattern"], Needless("there is one")),
    (
        &[
            "metadata",
            "service_tier",
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "cache_salt",
            "request_id",
        ],
        Needless("it changes no answer"),
    ),
    (
        &["speculative.n_max", "speculative.n_min", "speculative.p_min", "n_cache_reuse"],
        Needless("it changes how fast an answer comes, and not the answer"),
    ),
    (&["skip_special_tokens", "spaces_between_special_tokens"], Needless("answers never show special tokens")),
    (&["use_beam_search"], Refused(&[], "answers are sampled")),
    (&["length_penalty"], Refused(&["1", "1.0"], "there is no search by beams")),
    (&["bad_words", "allowed_token_ids", "logits_processors"], Refused(&[], "see logit_bias, and grammars")),
    (&["include_stop_str_in_output", "no_stop_trim"], Refused(&[], "a text that ends an answer is none of it")),
    (&["stop_regex"], Refused(&[], "see stop")),
    (&["truncate_prompt_tokens"], Refused(&[], "a prompt that is too long is refused")),
    (&["return_tokens_as_token_ids", "return_token_ids"], Refused(&[], "see logprobs, which tell ids")),
    (&["grammar_lazy", "grammar_triggers", "preserved_tokens"], Refused(&[], "see tools")),
    (
        &["kv_transfer_params", "vllm_xargs", "custom_params", "lora_path", "session_params"],
        Refused(&[], "this server has no such thing"),
    ),
];

/// Fields of what answers a conversation.
const TALK: FieldTable = &[
    (&["tools", "tool_choice", "parallel_tool_calls"], Obeyed("")),
    (&["chat_template_kwargs"], Obeyed("names for the template")),
    (&["reasoning_effort", "verbosity", "documents"], Obeyed("a name for the template")),
];

/// `/v1/chat/completions`.
pub(crate) const CHAT: [FieldTable; 3] = [
    &[
        (
            &["messages"],
            Obeyed(
                "text, refusals, calls and their results, reasoning, images and audio where the model takes them; \
                 video and files are refused",
            ),
        ),
        (&["max_tokens", "max_completion_tokens"], Obeyed("")),
        (&["n", "stop", "logprobs", "top_logprobs", "response_format", "stream_options"], Obeyed("")),
        (&["functions", "function_call"], Obeyed("answered in their own shape")),
        (&["json_schema", "n_probs"], Obeyed("as llama-server")),
        (
            &["reasoning_format", "thinking_budget_tokens", "reasoning_budget", "reasoning_control"],
            Obeyed("as llama-server"),
        ),
        (&["add_generation_prompt", "continue_final_message"], Obeyed("as llama-server and vLLM")),
        (&["verbose"], Obeyed("as llama-server")),
        (&["store"], Needless("answers are not kept")),
        (&["prediction"], Needless("it changes how fast an answer comes, and not the answer")),
        (&["separate_reasoning", "stream_reasoning", "include_reasoning"], Needless("see reasoning_format")),
        (&["add_special_tokens"], Needless("the template writes what begins a text")),
        (&["modalities"], Refused(&["[\"text\"]"], "answers are text")),
        (&["audio"], Refused(&[], "answers are text")),
        (&["mm_processor_kwargs"], Refused(&[], "see `detail` of an image")),
        (&["web_search_options"], Refused(&[], "this server searches nothing")),
        (&["prompt_logprobs"], Refused(&[], "see /v1/completions")),
        (&["echo"], Refused(&[], "see /v1/completions")),
        (&["chat_template"], Refused(&[], "the server's template is used (see --chat-template)")),
    ],
    TALK,
    GENERATION,
];

/// `/v1/completions`.
pub(crate) const COMPLETIONS: [FieldTable; 2] = [
    &[
        (&["prompt"], Obeyed("text, ids, both mixed, or a list of prompts")),
        (&["max_tokens"], Obeyed("none where it is absent: until the context is full")),
        (&["n", "stop", "logprobs", "echo", "stream_options"], Obeyed("")),
        (&["prompt_logprobs"], Obeyed("as vLLM")),
        (&["response_format", "json_schema", "n_probs"], Obeyed("as llama-server")),
        (&["best_of"], Obeyed("equal to `n`; other values are refused")),
        (&["add_special_tokens"], Refused(&["true"], "give ids to begin otherwise")),
        (&["suffix"], Refused(&[], "see /infill")),
    ],
    GENERATION,
];

/// `/v1/responses`.
pub(crate) const RESPONSES: [FieldTable; 3] = [
    &[
        (
            &["input"],
            Obeyed("text, or items, with images and audio where the model takes them; one of an earlier response may be named by its id"),
        ),
        (&["instructions", "max_output_tokens", "text", "reasoning", "top_logprobs", "include"], Obeyed("")),
        (&["store"], Obeyed("unless false, later requests may name the response's items")),
        (&["stream_options", "max_tool_calls"], Needless("there are no tools that this server runs")),
        (&["truncation"], Obeyed("`auto`: the oldest messages go where the prompt is too long")),
        (&["previous_response_id", "conversation"], Refused(&[], "this server keeps no conversations: send all items")),
        (&["background"], Refused(&[], "this server keeps no responses")),
        (&["prompt", "context_management", "moderation"], Refused(&[], "this server has no such thing")),
    ],
    TALK,
    GENERATION,
];

/// `/v1/embeddings`.
pub(crate) const EMBEDDINGS: FieldTable = &[
    (&["input"], Obeyed("text, ids, both mixed, or a list of these")),
    (&["model", "encoding_format", "dimensions"], Obeyed("")),
    (&["embd_normalize", "pooling"], Obeyed("as llama-server")),
    (&["user", "priority", "request_id"], Needless("it changes no vector")),
    (&["truncate_prompt_tokens"], Refused(&[], "a text that is too long is refused")),
    (&["input_type", "task"], Refused(&[], "write what the model wants before the text")),
];

/// `/completion`.
pub(crate) const COMPLETION: [FieldTable; 2] = [
    &[
        (&["prompt"], Obeyed("text, ids, both mixed, `prompt_string` with `multimodal_data`, or a list of prompts")),
        (&["n_probs", "return_tokens", "response_fields", "json_schema", "stop"], Obeyed("")),
        (&["n_cmpl"], Obeyed("")),
        (&["n_indent"], Refused(&["0"], "")),
        (
            &["image_data", "multimodal_data"],
            Refused(&[], "media stand in `prompt`: `prompt_string` with `multimodal_data`"),
        ),
    ],
    GENERATION,
];
