//! Templates for models whose files bring none: the formats that llama.cpp knows by name, written anew in Jinja.
//!
//! They write no BOS: the tokenizer puts one where the model wants one.

/// A format in which every message has text before and behind it.
struct BuiltinTemplate {
    name: &'static str,
    start: &'static str,
    /// What stands around a message of each role; `{role}` is its role.
    system: [&'static str; 2],
    user: [&'static str; 2],
    assistant: [&'static str; 2],
    /// What the assistant's answer begins with.
    open: &'static str,
    trim: bool,
}

/// A row whose roles differ in name alone.
const fn same(name: &'static str, around: [&'static str; 2], open: &'static str, trim: bool) -> BuiltinTemplate {
    BuiltinTemplate { name, start: "", system: around, user: around, assistant: around, open, trim }
}

const fn row(name: &'static str, around: [[&'static str; 2]; 3], open: &'static str, trim: bool) -> BuiltinTemplate {
    let [system, user, assistant] = around;
    BuiltinTemplate { name, start: "", system, user, assistant, open, trim }
}

const EOS: &str = "<｜end▁of▁sentence｜>";
const GRANITE: [&str; 2] = ["<|start_of_role|>{role}<|end_of_role|>", "<|end_of_text|>\n"];
const GRANITE_OPEN: &str = "<|start_of_role|>assistant<|end_of_role|>";
const BAR: [&str; 2] = ["<|{role}|>\n", ""];
const EXAONE: [[&str; 2]; 3] =
    [["[|system|]", "[|endofturn|]\n"], ["[|user|]", "\n"], ["[|assistant|]", "[|endofturn|]\n"]];
const BAILING: [[&str; 2]; 3] =
    [["<role>SYSTEM</role>", ""], ["<role>HUMAN</role>", ""], ["<role>ASSISTANT</role>", ""]];
const COHERE: [[&str; 2]; 3] = [
    ["<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>"],
    ["<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>"],
    ["<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"],
];

const ROWS: &[BuiltinTemplate] = &[
    same("chatml", ["<|im_start|>{role}\n", "<|im_end|>\n"], "<|im_start|>assistant\n", false),
    same(
        "llama3",
        ["<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>"],
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        true,
    ),
    same(
        "llama4",
        ["<|header_start|>{role}<|header_end|>\n\n", "<|eot|>"],
        "<|header_start|>assistant<|header_end|>\n\n",
        true,
    ),
    same("phi3", ["<|{role}|>\n", "<|end|>\n"], "<|assistant|>\n", false),
    same("phi4", ["<|im_start|>{role}<|im_sep|>", "<|im_end|>"], "<|im_start|>assistant<|im_sep|>", false),
    same("falcon3", ["<|{role}|>\n", "\n"], "<|assistant|>\n", false),
    same("zephyr", ["<|{role}|>\n", "<|endoftext|>\n"], "<|assistant|>\n", false),
    same("chatglm4", BAR, "<|assistant|>\n", false).starting("[gMASK]<sop>"),
    same("chatglm3", ["<|{role}|>\n ", ""], "<|assistant|>", false).starting("[gMASK]sop"),
    same("glmedge", BAR, "<|assistant|>", false),
    same("granite", GRANITE, GRANITE_OPEN, false),
    same("granite-4.0", GRANITE, GRANITE_OPEN, false),
    same("granite-4.1", GRANITE, GRANITE_OPEN, false),
    same("megrez", ["<|role_start|>{role}<|role_end|>", "<|turn_end|>"], "<|role_start|>assistant<|role_end|>", false),
    same("seed_oss", ["<seed:bos>{role}\n", "<seed:eos>"], "<seed:bos>assistant\n", false),
    same("solar-open", ["<|begin|>{role}<|content|>", "<|end|>"], "<|begin|>assistant", false),
    same("exaone-moe", ["<|{role}|>\n", "<|endofturn|>\n"], "<|assistant|>\n", true),
    same("deepseek-ocr", ["", ""], "", false),
    row("exaone3", EXAONE, "[|assistant|]", true),
    row("exaone4", EXAONE, "[|assistant|]", true),
    row("command-r", COHERE, "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", true),
    row("bailing", BAILING, "<role>ASSISTANT</role>", false),
    row("bailing-think", BAILING, "<role>ASSISTANT</role><think>", false),
    row(
        "bailing2",
        [
            ["<role>SYSTEM</role>", "<|role_end|>"],
            ["<role>HUMAN</role>", "<|role_end|>"],
            ["<role>ASSISTANT</role>", "<|role_end|>"],
        ],
        "<role>ASSISTANT</role>",
        false,
    ),
    row("mistral-v7", [["[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"], ["[INST] ", "[/INST]"], [" ", "</s>"]], "", false),
    row("mistral-v7-tekken", [["[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"], ["[INST]", "[/INST]"], ["", "</s>"]], "", false),
    row("vicuna", [["", "\n\n"], ["USER: ", "\n"], ["ASSISTANT: ", "</s>\n"]], "ASSISTANT:", false),
    row("vicuna-orca", [["SYSTEM: ", "\n"], ["USER: ", "\n"], ["ASSISTANT: ", "</s>\n"]], "ASSISTANT:", false),
    row(
        "alpaca",
        [["", "\n\n"], ["### Instruction:\n", "\n\n"], ["### Response:\n", "</s>\n\n"]],
        "### Response:\n",
        false,
    ),
    row(
        "deepseek",
        [["", ""], ["### Instruction:\n", "\n"], ["### Response:\n", "\n<|EOT|>\n"]],
        "### Response:\n",
        false,
    ),
    row("deepseek2", [["", "\n\n"], ["User: ", "\n\n"], ["Assistant: ", EOS]], "Assistant:", false),
    row("deepseek3", [["", "\n\n"], ["<｜User｜>", ""], ["<｜Assistant｜>", EOS]], "<｜Assistant｜>", false),
    row("minicpm", [["", ""], ["<用户>", "<AI>"], ["", ""]], "", true),
    row("rwkv-world", [["System: ", "\n\n"], ["User: ", "\n\n"], ["Assistant: ", "\n\n"]], "Assistant:", true),
    row(
        "openchat",
        [
            ["", "<|end_of_turn|>"],
            ["GPT4 Correct User: ", "<|end_of_turn|>"],
            ["GPT4 Correct Assistant: ", "<|end_of_turn|>"],
        ],
        "GPT4 Correct Assistant:",
        false,
    ),
    row("yandex", [["", "\n\n"], [" Пользователь: ", "\n\n"], [" Ассистент: ", "\n\n"]], " Ассистент:[SEP]", false),
    row(
        "gigachat",
        [
            ["", "<|message_sep|>"],
            ["user<|role_sep|>", "<|message_sep|>available functions<|role_sep|>[]<|message_sep|>"],
            ["assistant<|role_sep|>", "<|message_sep|>"],
        ],
        "assistant<|role_sep|>",
        false,
    )
    .starting("<s>"),
    row(
        "smolvlm",
        [["", "\n\n"], ["User: ", "<end_of_utterance>\n"], ["Assistant: ", "<end_of_utterance>\n"]],
        "Assistant:",
        false,
    )
    .starting("<|im_start|>"),
    row(
        "dots1",
        [
            ["<|system|>", "<|endofsystem|>"],
            ["<|userprompt|>", "<|endofuserprompt|>"],
            ["<|response|>", "<|endofresponse|>"],
        ],
        "<|response|>",
        false,
    ),
    row(
        "hunyuan-moe",
        [["<|startoftext|>", "<|extra_4|>"], ["<|startoftext|>", "<|extra_0|>"], ["", "<|eos|>"]],
        "",
        false,
    ),
    row(
        "hunyuan-dense",
        [
            ["", "<｜hy_place▁holder▁no▁3｜>"],
            ["<｜hy_User｜>", "<｜hy_Assistant｜>"],
            ["", "<｜hy_place▁holder▁no▁2｜>"],
        ],
        "",
        false,
    ),
    row(
        "hunyuan-vl",
        [["", "<｜hy_place▁holder▁no▁3｜>"], ["", "<｜hy_User｜>"], ["", "<｜hy_Assistant｜>"]],
        "",
        false,
    )
    .starting("<｜hy_begin▁of▁sentence｜>"),
    row(
        "gpt-oss",
        [
            ["<|start|>system<|message|>", "<|end|>"],
            ["<|start|>user<|message|>", "<|end|>"],
            ["<|start|>assistant<|message|>", "<|return|>"],
        ],
        "<|start|>assistant",
        false,
    ),
    row(
        "kimi-k2",
        [
            ["<|im_system|>system<|im_middle|>", "<|im_end|>"],
            ["<|im_user|>user<|im_middle|>", "<|im_end|>"],
            ["<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"],
        ],
        "<|im_assistant|>assistant<|im_middle|>",
        false,
    ),
    row(
        "grok-2",
        [["System: ", "<|separator|>\n\n"], ["Human: ", "<|separator|>\n\n"], ["Assistant: ", "<|separator|>\n\n"]],
        "Assistant:",
        true,
    ),
    row(
        "pangu-embedded",
        [["[unused9]系统：", "[unused10]"], ["[unused9]用户：", "[unused10]"], ["[unused9]助手：", "[unused10]"]],
        "[unused9]助手：",
        false,
    ),
];

impl BuiltinTemplate {
    const fn starting(mut self, start: &'static str) -> BuiltinTemplate {
        self.start = start;
        self
    }

    fn source(&self) -> String {
        let content = if self.trim { "{{ text(m.content)|trim }}" } else { "{{ text(m.content) }}" };
        let one = |[before, behind]: [&str; 2]| format!("{}{content}{}", literal(before), literal(behind));
        format!(
            "{TEXT}{}{{%- for m in messages -%}}{{%- if m.role == 'user' -%}}{}{{%- elif m.role == 'assistant' -%}}{}\
             {{%- else -%}}{}{{%- endif -%}}{{%- endfor -%}}{{%- if add_generation_prompt -%}}{}{{%- endif -%}}",
            literal(self.start),
            one(self.user),
            one(self.assistant),
            one(self.system),
            literal(self.open)
        )
    }
}

/// A message's content, also one that is a list of parts.
const TEXT: &str =
    "{%- macro text(content) -%}{%- if content is string -%}{{ content }}{%- elif content is sequence -%}\
                    {%- for part in content -%}{{ part.text }}{%- endfor -%}{%- endif -%}{%- endmacro -%}";

/// Text that a template prints, with the role put in.
fn literal(text: &str) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"));
    match text.split_once("{role}") {
        _ if text.is_empty() => String::new(),
        Some((before, behind)) => format!("{{{{ {} ~ m.role ~ {} }}}}", quoted(before), quoted(behind)),
        None => format!("{{{{ {} }}}}", quoted(text)),
    }
}

/// `[INST]` opens a turn that a system message shares with the user's.
fn turns(first: &str, open: &str, system: [&str; 2], close: &str, assistant: &str, trim: bool) -> String {
    let content = if trim { "{{ text(m.content)|trim }}" } else { "{{ text(m.content) }}" };
    format!(
        "{TEXT}{{%- set ns = namespace(open=false, first=true) -%}}{{%- for m in messages -%}}\
         {{%- if m.role == 'assistant' -%}}{}{content}{}{{%- set ns.open = false -%}}{{%- else -%}}\
         {{%- if not ns.open -%}}{{%- if ns.first -%}}{}{{%- else -%}}{}{{%- endif -%}}{{%- endif -%}}\
         {{%- set ns.open = true -%}}{{%- set ns.first = false -%}}\
         {{%- if m.role == 'system' -%}}{}{content}{}{{%- else -%}}{content}{}{{%- endif -%}}\
         {{%- endif -%}}{{%- endfor -%}}",
        literal(assistant),
        literal("</s>"),
        literal(first),
        literal(open),
        literal(system[0]),
        literal(system[1]),
        literal(close),
    )
}

/// The system's text goes before the first of the user's.
fn merge_system_template(before: &str, behind: &str, model: [&str; 2], open: &str, trim: bool) -> String {
    let content = if trim { "{{ text(m.content)|trim }}" } else { "{{ text(m.content) }}" };
    format!(
        "{TEXT}{{%- set ns = namespace(system='') -%}}{{%- for m in messages -%}}{{%- if m.role == 'system' -%}}\
         {{%- set ns.system = ns.system + text(m.content){} -%}}{{%- elif m.role == 'assistant' -%}}{}{content}{}\
         {{%- else -%}}{}{{%- if ns.system -%}}{{{{ ns.system ~ '\\n\\n' }}}}{{%- set ns.system = '' -%}}{{%- endif -%}}\
         {content}{}{{%- endif -%}}{{%- endfor -%}}{{%- if add_generation_prompt -%}}{}{{%- endif -%}}",
        if trim { "|trim" } else { "" },
        literal(model[0]),
        literal(model[1]),
        literal(before),
        literal(behind),
        literal(open)
    )
}

/// The template of a name that [`names`] lists.
pub fn builtin(name: &str) -> Option<String> {
    let sys = ["<<SYS>>\n", "\n<</SYS>>\n\n"];
    Some(match name {
        "llama2" => turns("[INST] ", "[INST] ", ["", "\n"], " [/INST]", "", false),
        "llama2-sys" => turns("[INST] ", "[INST] ", sys, " [/INST]", "", false),
        "llama2-sys-bos" => turns("[INST] ", "<s>[INST] ", sys, " [/INST]", "", false),
        "llama2-sys-strip" => turns("[INST] ", "[INST] ", sys, " [/INST]", "", true),
        "mistral" | "mistral-v1" => turns(" [INST] ", " [INST] ", ["", "\n\n"], " [/INST]", " ", false),
        "mistral-v3" => turns("[INST] ", "[INST] ", ["", "\n\n"], "[/INST]", " ", false),
        "mistral-v3-tekken" => turns("[INST]", "[INST]", ["", "\n\n"], "[/INST]", "", false),
        "gemma" => merge_system_template(
            "<start_of_turn>user\n",
            "<end_of_turn>\n",
            ["<start_of_turn>model\n", "<end_of_turn>\n"],
            "<start_of_turn>model\n",
            true,
        ),
        "orion" => merge_system_template("Human: ", "\n\nAssistant: </s>", ["", "</s>"], "", false),
        "monarch" => format!(
            "{TEXT}{{%- for m in messages -%}}{{{{ ('' if loop.first else '<s>') ~ m.role ~ '\\n' ~ text(m.content) ~ '</s>\\n' }}}}\
             {{%- endfor -%}}{{%- if add_generation_prompt -%}}{}{{%- endif -%}}",
            literal("<s>assistant\n")
        ),
        "phi" => return builtin("phi3"),
        name => return ROWS.iter().find(|row| row.name == name).map(BuiltinTemplate::source),
    })
}

const TURNS: [&str; 12] = [
    "llama2",
    "llama2-sys",
    "llama2-sys-bos",
    "llama2-sys-strip",
    "mistral",
    "mistral-v1",
    "mistral-v3",
    "mistral-v3-tekken",
    "gemma",
    "orion",
    "monarch",
    "phi",
];

/// Names of the templates that there are, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = TURNS.iter().copied().chain(ROWS.iter().map(|row| row.name)).collect();
    names.sort_unstable();
    names
}

/// The template that a model without one was most likely made with: by the marks in its vocabulary, then by its family.
pub fn of_family(architecture: &str, has_token: &dyn Fn(&str) -> bool) -> Option<&'static str> {
    const MARKS: &[(&[&str], &str)] = &[
        (&["<|start_header_id|>", "<|eot_id|>"], "llama3"),
        (&["<|header_start|>", "<|eot|>"], "llama4"),
        (&["<|im_start|>", "<|im_sep|>"], "phi4"),
        (&["<|im_middle|>", "<|im_user|>"], "kimi-k2"),
        (&["<|start_of_role|>", "<|end_of_role|>"], "granite"),
        (&["<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"], "command-r"),
        (&["<start_of_turn>", "<end_of_turn>"], "gemma"),
        (&["<seed:bos>", "<seed:eos>"], "seed_oss"),
        (&["<|channel|>", "<|message|>"], "gpt-oss"),
        (&["<｜User｜>", "<｜Assistant｜>"], "deepseek3"),
        (&["[SYSTEM_PROMPT]", "[INST]"], "mistral-v7-tekken"),
        (&["[INST]", "[AVAILABLE_TOOLS]"], "mistral-v3"),
        (&["[|assistant|]", "[|endofturn|]"], "exaone3"),
        (&["[gMASK]", "<sop>", "<|assistant|>"], "chatglm4"),
        (&["<|user|>", "<|assistant|>", "<|end|>"], "phi3"),
        (&["<|im_start|>", "<|im_end|>"], "chatml"),
    ];
    let marked = MARKS.iter().find(|(tokens, _)| tokens.iter().all(|t| has_token(t))).map(|(_, name)| *name);
    marked.or(match architecture {
        "phi3" | "phimoe" => Some("phi3"),
        "gemma" | "gemma2" | "gemma3" | "gemma3n" => Some("gemma"),
        "command-r" | "cohere2" => Some("command-r"),
        "deepseek2" => Some("deepseek2"),
        "rwkv6" | "rwkv7" | "arwkv7" => Some("rwkv-world"),
        "orion" => Some("orion"),
        "minicpm" => Some("minicpm"),
        _ => None,
    })
}
