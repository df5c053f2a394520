//! How a family of models writes reasoning and calls.

/// The marks around reasoning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasoning {
    /// What it begins with.
    pub open: String,
    /// What it ends with.
    pub close: String,
    /// Whether it may begin behind content, too: only where no text would hold the mark by chance.
    pub anywhere: bool,
}

impl Reasoning {
    /// Whether an answer to a text may begin with reasoning: not where that is open, or closed, at its end.
    pub fn may_begin(&self, text: &str) -> bool {
        !self.is_open_at_end(text) && !text.trim_end().ends_with(self.close.trim())
    }

    /// Whether a text ends within reasoning.
    pub fn is_open_at_end(&self, text: &str) -> bool {
        let open = text.rfind(self.open.trim_end());
        // Only what the template put behind the last turn's mark counts: white space may follow.
        open.is_some_and(|at| text[at + self.open.trim_end().len()..].trim().is_empty())
    }
}

/// Names of the keys of a call that is a JSON object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The function's name.
    pub name: Vec<String>,
    /// The arguments.
    pub arguments: Vec<String>,
    /// The call's name.
    pub id: Vec<String>,
    /// The object is `{"function": {arguments}}` instead.
    pub short: bool,
}

impl Default for Names {
    fn default() -> Self {
        let all = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
        Names {
            name: all(&["name", "tool_name", "function"]),
            arguments: all(&["arguments", "parameters", "args"]),
            id: all(&["id", "tool_call_id"]),
            short: false,
        }
    }
}

/// How one call is written. Texts are marks that stand in the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallNotation {
    /// A JSON object, or a list of them.
    Json(Names),
    /// `open` name `ends` JSON `close`.
    Named {
        /// Before the name.
        open: String,
        /// Before the name, too: text up to this mark is skipped.
        skip: String,
        /// Behind the name.
        end: String,
        /// Between the call's own name and the arguments, where `end` is followed by one.
        id_end: String,
        /// Behind the arguments.
        close: String,
        /// `functions.name:0`: the function's name is inside, and the whole is the call's.
        qualified: bool,
    },
    /// `open` name `end` parameters `close`, each of them `param` key `key_end` value `param_close`.
    Params {
        /// Before the name.
        open: String,
        /// Behind the name.
        end: String,
        /// Before a parameter.
        param: String,
        /// Behind its name.
        key_end: String,
        /// Behind its value.
        param_close: String,
        /// Behind all.
        close: String,
        /// A line end at both ends of a value is not its own.
        lines: bool,
    },
    /// Name, then keys and values in marks of their own, as GLM has them.
    Pairs,
    /// `name{key:value}` with strings between marks, as Gemma has them.
    Braces {
        /// At both ends of a string.
        quote: String,
    },
    /// `<invoke name="f">` and a tag for each argument, all behind a prefix, as MiniMax M3 has them.
    Tags {
        /// Before every tag.
        prefix: String,
    },
    /// `[name(key="value")]`
    Python,
    /// Code for an interpreter.
    Code,
}

impl CallNotation {
    /// The texts that stand around a call and its parts.
    fn marks(&self) -> Vec<&String> {
        match self {
            CallNotation::Named { open, skip, end, id_end, close, .. } => vec![open, skip, end, id_end, close],
            CallNotation::Params { open, end, param, key_end, param_close, close, .. } => {
                vec![open, end, param, key_end, param_close, close]
            }
            CallNotation::Braces { quote } => vec![quote],
            CallNotation::Tags { prefix } => vec![prefix],
            CallNotation::Json(_) | CallNotation::Pairs | CallNotation::Python | CallNotation::Code => Vec::new(),
        }
    }

    /// Whether a text starts with such a call: none, if more of it must be seen.
    pub(crate) fn starts(&self, text: &str) -> Option<bool> {
        let with = |mark: &str| match text.starts_with(mark) {
            true => Some(true),
            false if mark.starts_with(text) => None,
            false => Some(false),
        };
        let name = |text: &str| text.chars().next().map(|c| c.is_alphanumeric() || c == '_');
        match self {
            CallNotation::Json(_) if text.starts_with('{') => Some(true),
            CallNotation::Json(_) => match text.strip_prefix('[') {
                None if text.is_empty() => None,
                None => Some(false),
                // A list may begin with some space.
                Some(rest) if rest.trim_start().is_empty() && rest.len() < 64 => None,
                Some(rest) => Some(rest.trim_start().starts_with(['{', ']'])),
            },
            CallNotation::Named { open, .. } | CallNotation::Params { open, .. } if !open.is_empty() => with(open),
            CallNotation::Named { .. }
            | CallNotation::Params { .. }
            | CallNotation::Pairs
            | CallNotation::Braces { .. } => name(text),
            CallNotation::Tags { prefix } => with(&format!("{prefix}<invoke")),
            CallNotation::Python => match text.strip_prefix('[') {
                None => {
                    if text.is_empty() {
                        None
                    } else {
                        Some(false)
                    }
                }
                Some(rest) if rest.trim_start().is_empty() && rest.len() >= 64 => Some(false),
                Some(rest) => name(rest.trim_start()),
            },
            CallNotation::Code => text.chars().next().map(|_| true),
        }
    }
}

/// A part of a reply that holds calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// What it begins with.
    pub open: String,
    /// What it ends with; empty: with its last call.
    pub close: String,
    /// How its calls are written; the first that fits counts.
    pub kinds: Vec<CallNotation>,
    /// If there is no call behind `open`, it is dropped instead of shown.
    pub quiet: bool,
}

/// How calls are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Not at all.
    None,
    /// In sections.
    Sections {
        /// They may come in any order.
        sections: Vec<Section>,
        /// A reply that is a JSON object of this kind is a call, too.
        bare: Option<Names>,
    },
    /// gpt-oss's channels, with reasoning in them.
    Harmony,
}

/// A format of replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name, for people.
    pub name: String,
    /// Marks around reasoning, where there is any.
    pub reasoning: Option<Reasoning>,
    /// Calls.
    pub calls: Calls,
    /// Marks that mean nothing to a reader.
    pub dropped: Vec<String>,
}

impl Format {
    /// Text that ends reasoning, for who cuts it short; none where a model does not reason. What begins the answer is in it, too,
    /// unless a grammar sees to that.
    pub fn end_of_reasoning(&self, grammar: bool) -> Option<String> {
        match (&self.calls, &self.reasoning) {
            (Calls::Harmony, _) if grammar => Some("<|end|>".to_string()),
            (Calls::Harmony, _) => Some("<|end|><|start|>assistant<|channel|>final<|message|>".to_string()),
            // Models end their own reasoning with an empty line behind such a mark.
            (_, Some(r)) if r.close.starts_with("</") => Some(format!("\n{}\n\n", r.close)),
            (_, reasoning) => reasoning.as_ref().map(|r| r.close.clone()),
        }
    }

    /// Whether a text, as that of a special token, stands in one of the marks.
    pub fn has_mark(&self, text: &str) -> bool {
        const HARMONY: [&str; 7] =
            ["<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>", "<|call|>", "<|return|>"];
        let sections = match &self.calls {
            Calls::Harmony => return HARMONY.contains(&text),
            Calls::Sections { sections, .. } => &sections[..],
            Calls::None => &[],
        };
        let reasoning = self.reasoning.iter().flat_map(|r| [&r.open, &r.close]);
        let calls = sections
            .iter()
            .flat_map(|s| [&s.open, &s.close].into_iter().chain(s.kinds.iter().flat_map(CallNotation::marks)));
        !text.is_empty() && reasoning.chain(calls).chain(&self.dropped).any(|mark| mark.contains(text))
    }

    /// Replies that are content only.
    pub fn plain() -> Format {
        Format { name: "plain".to_string(), reasoning: None, calls: Calls::None, dropped: Vec::new() }
    }
}

fn section(open: &str, close: &str, kinds: Vec<CallNotation>) -> Section {
    // A mark that no text has by chance is not shown.
    let quiet = open.contains('|') || open.contains('｜');
    Section { open: open.to_string(), close: close.to_string(), kinds, quiet }
}

fn named_notation(open: &str, skip: &str, end: &str, close: &str) -> CallNotation {
    let [open, skip, end, close] = [open, skip, end, close].map(str::to_string);
    CallNotation::Named { open, skip, end, id_end: String::new(), close, qualified: false }
}

fn params(open: &str, end: &str, param: [&str; 3], close: &str, lines: bool) -> CallNotation {
    let [param, key_end, param_close] = param.map(str::to_string);
    CallNotation::Params {
        open: open.to_string(),
        end: end.to_string(),
        param,
        key_end,
        param_close,
        close: close.to_string(),
        lines,
    }
}

fn json() -> CallNotation {
    CallNotation::Json(Names::default())
}

/// The sections of a known way to write calls, and what a template that has it prints for a call of `f` with `{"k": "v"}`: all of
/// these texts, in this order.
pub(crate) struct KnownFormat {
    pub name: &'static str,
    pub signs: &'static [&'static str],
    pub sections: fn() -> Vec<Section>,
    pub bare: bool,
}

fn xml_in(open: &str, close: &str) -> Vec<Section> {
    let function = params("<function=", ">", ["<parameter=", ">", "</parameter>"], "</function>", true);
    vec![section(open, close, vec![function, json()])]
}

fn dsml(outer: &str) -> Vec<Section> {
    let invoke = params(
        "<｜DSML｜invoke name=\"",
        "\">",
        ["<｜DSML｜parameter name=\"", ">", "</｜DSML｜parameter>"],
        "</｜DSML｜invoke>",
        false,
    );
    vec![section(&format!("<｜DSML｜{outer}>"), &format!("</｜DSML｜{outer}>"), vec![invoke])]
}

impl Format {
    /// A known format by name, with a pair of marks around reasoning.
    pub fn known_format(name: &str, reasoning: Option<(&str, &str)>) -> Option<Format> {
        let pair = reasoning.map(|(open, close)| Reasoning {
            open: open.to_string(),
            close: close.to_string(),
            anywhere: REASONING.iter().any(|r| r.0 == open && r.2),
        });
        let known = KNOWN.iter().find(|k| k.name == name);
        let calls = match known {
            Some(k) => Calls::Sections { sections: (k.sections)(), bare: k.bare.then(Names::default) },
            None if name == "gpt-oss" => Calls::Harmony,
            None => return None,
        };
        let dropped = DROPPED.iter().map(|m| m.to_string()).collect();
        Some(Format { name: name.to_string(), reasoning: pair, calls, dropped })
    }
}

/// Known ways; the first whose signs are there counts.
pub(crate) const KNOWN: &[KnownFormat] = &[
    KnownFormat {
        name: "qwen3-coder",
        signs: &["<tool_call>", "<function=f>", "<parameter=k>", "v", "</function>", "</tool_call>"],
        sections: || xml_in("<tool_call>", "</tool_call>"),
        bare: false,
    },
    KnownFormat {
        name: "seed-oss",
        signs: &["<seed:tool_call>", "<function=f>", "<parameter=k>", "v"],
        sections: || xml_in("<seed:tool_call>", "</seed:tool_call>"),
        bare: false,
    },
    KnownFormat {
        name: "minimax-m2",
        signs: &["<minimax:tool_call>", "<invoke name=\"f\">", "<parameter name=\"k\">", "v"],
        sections: || {
            let invoke =
                params("<invoke name=\"", "\">", ["<parameter name=\"", "\">", "</parameter>"], "</invoke>", false);
            vec![section("<minimax:tool_call>", "</minimax:tool_call>", vec![invoke])]
        },
        bare: false,
    },
    KnownFormat {
        name: "deepseek-dsml",
        signs: &["<｜DSML｜function_calls>", "<｜DSML｜invoke name=\"f\">", "parameter name=\"k\"", "v"],
        sections: || dsml("function_calls"),
        bare: false,
    },
    KnownFormat {
        name: "deepseek-dsml",
        signs: &["<｜DSML｜tool_calls>", "<｜DSML｜invoke name=\"f\">", "parameter name=\"k\"", "v"],
        sections: || dsml("tool_calls"),
        bare: false,
    },
    KnownFormat {
        name: "glm",
        signs: &["<tool_call>f", "<arg_key>k</arg_key>", "<arg_value>v</arg_value>", "</tool_call>"],
        sections: || vec![section("<tool_call>", "</tool_call>", vec![json(), CallNotation::Pairs])],
        bare: false,
    },
    KnownFormat {
        name: "deepseek-r1",
        signs: &["<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json", "<｜tool▁call▁end｜>"],
        sections: || {
            vec![section(
                "<｜tool▁calls▁begin｜>",
                "<｜tool▁calls▁end｜>",
                vec![named_notation(
                    "<｜tool▁call▁begin｜>",
                    "<｜tool▁sep｜>",
                    "\n```json\n",
                    "\n```<｜tool▁call▁end｜>",
                )],
            )]
        },
        bare: false,
    },
    KnownFormat {
        name: "deepseek-v3.1",
        signs: &["<｜tool▁call▁begin｜>f<｜tool▁sep｜>", "<｜tool▁call▁end｜>"],
        sections: || {
            vec![section(
                "<｜tool▁calls▁begin｜>",
                "<｜tool▁calls▁end｜>",
                vec![named_notation("<｜tool▁call▁begin｜>", "", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>")],
            )]
        },
        bare: false,
    },
    KnownFormat {
        name: "kimi-k2",
        signs: &["<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>"],
        sections: || {
            let mut call =
                named_notation("<|tool_call_begin|>", "", "<|tool_call_argument_begin|>", "<|tool_call_end|>");
            if let CallNotation::Named { qualified, .. } = &mut call {
                *qualified = true;
            }
            vec![section("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", vec![call])]
        },
        bare: false,
    },
    KnownFormat { name: "mistral", signs: &["[TOOL_CALLS]f", "[ARGS]{"], sections: mistral, bare: false },
    KnownFormat { name: "mistral", signs: &["[TOOL_CALLS]", "[{", "f"], sections: mistral, bare: false },
    KnownFormat {
        name: "functionary-v3.1",
        signs: &["<function=f>{", "</function>"],
        sections: || {
            vec![
                section("<function=", "</function>", vec![named_notation("", "", ">", "")]),
                section("<|python_tag|>", "", vec![CallNotation::Code]),
            ]
        },
        bare: false,
    },
    KnownFormat {
        name: "functionary-v3.2",
        signs: &[">>>f\n{"],
        sections: || vec![section(">>>", "", vec![named_notation("", "", "\n", "")])],
        bare: false,
    },
    KnownFormat {
        name: "command-r7b",
        signs: &["<|START_ACTION|>", "\"tool_name\": \"f\"", "<|END_ACTION|>"],
        sections: || vec![section("<|START_ACTION|>", "<|END_ACTION|>", vec![json()])],
        bare: false,
    },
    KnownFormat {
        name: "command-r",
        signs: &["Action:", "```json", "\"tool_name\": \"f\""],
        sections: || {
            vec![section("Action: ```json", "```", vec![json()]), section("Action:```json", "```", vec![json()])]
        },
        bare: false,
    },
    KnownFormat {
        name: "lfm2",
        signs: &["<|tool_call_start|>[f(k=", "<|tool_call_end|>"],
        sections: || vec![section("<|tool_call_start|>", "<|tool_call_end|>", vec![json(), CallNotation::Python])],
        bare: false,
    },
    KnownFormat {
        name: "lfm2",
        signs: &["<|tool_call_start|>", "f", "<|tool_call_end|>"],
        sections: || vec![section("<|tool_call_start|>", "<|tool_call_end|>", vec![json(), CallNotation::Python])],
        bare: false,
    },
    KnownFormat {
        name: "functiongemma",
        signs: &["<start_function_call>call:f{", "<end_function_call>"],
        sections: || {
            vec![section(
                "<start_function_call>call:",
                "<end_function_call>",
                vec![CallNotation::Braces { quote: "<escape>".to_string() }],
            )]
        },
        bare: false,
    },
    KnownFormat {
        name: "gemma4",
        signs: &["<|tool_call>call:f{", "<tool_call|>"],
        sections: || {
            vec![section(
                "<|tool_call>call:",
                "<tool_call|>",
                vec![CallNotation::Braces { quote: "<|\"|>".to_string() }],
            )]
        },
        bare: false,
    },
    KnownFormat {
        name: "apertus",
        signs: &["<|tools_prefix|>[{\"f\":", "<|tools_suffix|>"],
        sections: || {
            vec![section(
                "<|tools_prefix|>",
                "<|tools_suffix|>",
                vec![CallNotation::Json(Names { short: true, ..Names::default() })],
            )]
        },
        bare: false,
    },
    KnownFormat {
        name: "nemotron-v2",
        signs: &["<TOOLCALL>[{", "f", "</TOOLCALL>"],
        sections: || vec![section("<TOOLCALL>", "</TOOLCALL>", vec![json()])],
        bare: false,
    },
    KnownFormat {
        name: "granite",
        signs: &["<|tool_call|>", "[{", "f"],
        sections: || vec![section("<|tool_call|>", "", vec![json()])],
        bare: false,
    },
    KnownFormat {
        name: "minimax-m3",
        signs: &["]<]minimax[>[<tool_call>", "]<]minimax[>[<invoke name=\"f\">", "v"],
        sections: || {
            let prefix = "]<]minimax[>[";
            let tags = CallNotation::Tags { prefix: prefix.to_string() };
            vec![section(&format!("{prefix}<tool_call>"), &format!("{prefix}</tool_call>"), vec![tags])]
        },
        bare: false,
    },
    KnownFormat {
        name: "kimi-k3",
        signs: &["<|open|>tools<|sep|>", "<|open|>call tool=\"f\"", "<|open|>argument key=\"k\"", "v"],
        sections: || {
            let argument = ["<|open|>argument key=\"", "<|sep|>", "<|close|>argument<|sep|>"];
            let call = params("<|open|>call tool=\"", "<|sep|>", argument, "<|close|>call<|sep|>", false);
            vec![section("<|open|>tools<|sep|>", "<|close|>tools<|sep|>", vec![call])]
        },
        bare: false,
    },
    KnownFormat {
        name: "minicpm5",
        signs: &["<function name=\"f\">", "<param name=\"k\">v</param>", "</function>"],
        sections: || {
            let param = ["<param name=\"", "\">", "</param>"];
            vec![section("<function name=\"", "", vec![params("", "\">", param, "</function>", false)])]
        },
        bare: false,
    },
    KnownFormat {
        name: "hermes",
        signs: &["<tool_call>", "{", "f", "</tool_call>"],
        sections: || {
            let function = params("<function=", ">", ["<parameter=", ">", "</parameter>"], "</function>", true);
            vec![section("<tool_call>", "</tool_call>", vec![json(), function])]
        },
        bare: false,
    },
    KnownFormat {
        name: "llama3",
        signs: &["{\"name\": \"f\", \"parameters\": {"],
        sections: || vec![section("<|python_tag|>", "", vec![json(), CallNotation::Code])],
        bare: true,
    },
];

fn mistral() -> Vec<Section> {
    let mut call = named_notation("", "", "[ARGS]", "");
    if let CallNotation::Named { id_end, .. } = &mut call {
        *id_end = "[CALL_ID]".to_string();
    }
    vec![section("[TOOL_CALLS]", "", vec![json(), call])]
}

/// Pairs of marks around reasoning.
pub(crate) const REASONING: &[(&str, &str, bool)] = &[
    ("<think>", "</think>", false),
    ("[THINK]", "[/THINK]", true),
    ("<|START_THINKING|>", "<|END_THINKING|>", true),
    ("<seed:think>", "</seed:think>", false),
    ("<|channel>thought", "<channel|>", true),
    ("<|inner_prefix|>", "<|inner_suffix|>", true),
    ("<mm:think>", "</mm:think>", false),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>", true),
    ("<thinking>", "</thinking>", false),
    ("<thought>", "</thought>", false),
    ("<reasoning>", "</reasoning>", false),
    ("<|begin_of_thought|>", "<|end_of_thought|>", true),
];

/// Marks that a reader should not see, beside calls and reasoning.
pub(crate) const DROPPED: &[&str] = &[
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "<|close|>message<|sep|>",
    "<|end_of_msg|>",
];
