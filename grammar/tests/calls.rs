//! Random walks through the masks of calls: what comes out reads back as calls of their schemas.
#![allow(clippy::unwrap_used)]

use pumex_chat::reply::{Event, Format, Parser};
use pumex_chat::Json;
use pumex_grammar::{CallConstraint, GrammarSource, TokenText, ToolChoice, Vocabulary};
use serde_json::{json, Value};
use std::sync::Arc;

/// The grammar of calls, of a reply that may reason.
fn calls(
    vocabulary: &Vocabulary,
    format: &Format,
    tools: &Value,
    choice: &ToolChoice,
    parallel: bool,
) -> pumex_grammar::Result<Option<GrammarSource>> {
    let asked = CallConstraint { calls: choice, allowed: None, parallel, may_reason: true };
    Ok(vocabulary.calls(format, tools, asked)?.map(|(source, _)| source))
}

const END: u32 = 256;
const MARKS: &[&str] = &[
    "</s>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_end|>",
    "<|tool_call_argument_begin|>",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "<|tool_call|>",
    "<|\"|>",
    "<|tool_call>",
    "<tool_call|>",
    "]<]minimax[>[",
    "｜DSML｜",
    "<|open|>",
    "<|close|>",
    "<|sep|>",
    "<|tool_call_start|>",
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|end|>",
    "<|constrain|>",
    "<|call|>",
];

fn piece(id: u32) -> &'static str {
    MARKS.get((id - END) as usize).copied().unwrap_or_default()
}

fn vocabulary() -> Arc<Vocabulary> {
    let bytes: Vec<[u8; 1]> = (0..=255u8).map(|b| [b]).collect();
    let pieces = bytes.iter().map(|b| TokenText::Text(b)).chain(MARKS.iter().map(|m| TokenText::Special(m.as_bytes())));
    Arc::new(Vocabulary::new(pieces, &[END]).unwrap())
}

fn tools() -> Value {
    json!([
        {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "additionalProperties": false,
            "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["city"]}}},
        {"type": "function", "function": {"name": "light", "parameters": {"type": "object", "additionalProperties": false,
            "properties": {"on": {"type": "boolean"}}, "required": ["on"]}}}
    ])
}

/// Ids of a text, its marks among them.
fn ids(mut text: &str) -> std::collections::VecDeque<u32> {
    let mut ids = std::collections::VecDeque::new();
    while !text.is_empty() {
        let mark = MARKS.iter().enumerate().filter(|(_, m)| text.starts_with(**m)).max_by_key(|(_, m)| m.len());
        let (id, len) = mark.map_or((u32::from(text.as_bytes()[0]), 1), |(i, m)| (END + i as u32, m.len()));
        ids.push_back(id);
        text = text.get(len..).unwrap_or_default();
    }
    ids
}

/// A text that the grammar allows behind `begin`; none if the walk is too long. Reasoning is left out, as who follows replies does.
fn walk(
    vocabulary: &Arc<Vocabulary>,
    source: &pumex_grammar::GrammarSource,
    (format, begin): (&Format, &str),
    seed: u64,
) -> Option<Vec<u8>> {
    let mut matcher = vocabulary.matcher(source).unwrap_or_else(|e| panic!("{e}: {source:?}"));
    let (mut text, mut state) = (Vec::new(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut queue = ids(begin);
    let mut parser = Parser::new(format, None, "");
    for _ in 0..1000 {
        let mask = matcher.mask().unwrap();
        let ids: Vec<u32> =
            (0..END + MARKS.len() as u32).filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1).collect();
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let id = queue.pop_front().unwrap_or(ids[(state >> 33) as usize % ids.len()]);
        if id == END {
            return Some(text);
        }
        matcher.accept(id).unwrap_or_else(|e| panic!("{e} behind {:?}", String::from_utf8_lossy(&text)));
        let byte = [id as u8];
        let piece = if id < END { &byte[..] } else { piece(id).as_bytes() };
        text.extend_from_slice(piece);
        parser.push(piece);
        if parser.is_reasoning() {
            text.extend_from_slice(b"hm<|end|>");
            parser.push(b"hm<|end|>");
        }
    }
    None
}

#[test]
fn random_walks_are_calls_of_their_schemas() {
    let vocabulary = vocabulary();
    let json_tools = Json::parse(&tools().to_string()).unwrap();
    for (name, open) in [
        ("hermes", "<tool_call>"),
        ("qwen3-coder", "<tool_call>"),
        ("seed-oss", "<seed:tool_call>"),
        ("minimax-m2", "<minimax:tool_call>"),
        ("glm", "<tool_call>"),
        ("deepseek-r1", "<｜tool▁calls▁begin｜>"),
        ("deepseek-v3.1", "<｜tool▁calls▁begin｜>"),
        ("kimi-k2", "<|tool_calls_section_begin|>"),
        ("mistral", "[TOOL_CALLS]"),
        ("command-r7b", "<|START_ACTION|>"),
        ("granite", "<|tool_call|>"),
        ("nemotron-v2", "<TOOLCALL>"),
        ("llama3", ""),
        ("functiongemma", "<start_function_call>call:"),
        ("gemma4", "<|tool_call>call:"),
        ("minimax-m3", "]<]minimax[>[<tool_call>"),
        ("deepseek-dsml", "<｜DSML｜function_calls>"),
        ("kimi-k3", "<|open|>tools<|sep|>"),
        ("lfm2", "<|tool_call_start|>"),
        ("gpt-oss", "<|channel|>commentary to=functions."),
    ] {
        let format = Format::known_format(name, None).unwrap();
        let mut ended = 0;
        for (seed, choice) in (0..12u64)
            .zip([ToolChoice::Required, ToolChoice::Auto, ToolChoice::Function("light".into())].into_iter().cycle())
        {
            if choice == ToolChoice::Auto && open.is_empty() {
                continue;
            }
            let source = calls(&vocabulary, &format, &tools(), &choice, seed % 2 == 0).unwrap().expect(name);
            let begin = if choice == ToolChoice::Auto { open } else { "" };
            let Some(text) = walk(&vocabulary, &source, (&format, begin), seed + 1) else { continue };
            ended += 1;
            let shown = String::from_utf8_lossy(&text).into_owned();
            let mut parser = Parser::new(&format, Some(&json_tools), "");
            let mut events = parser.push(&text);
            events.extend(parser.finish());
            let (mut calls, mut arguments): (Vec<String>, Vec<String>) = Default::default();
            for event in events {
                match event {
                    Event::CallStart { name, .. } => {
                        calls.push(name);
                        arguments.push(String::new());
                    }
                    Event::CallArguments { index, delta } => arguments[index].push_str(&delta),
                    Event::CallEnd { complete, .. } => assert!(complete, "{name}: {shown:?}"),
                    _ => (),
                }
            }
            assert!(!calls.is_empty(), "{name} {choice:?}: {shown:?}");
            for (call, arguments) in calls.iter().zip(&arguments) {
                let value: Value =
                    serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{name}: {e}: {shown:?}: {arguments:?}"));
                let right = match call.as_str() {
                    "weather" => {
                        ["Rome", "Oslo"].contains(&value["city"].as_str().unwrap_or_default())
                            && value.get("days").is_none_or(|d| d.as_u64().is_some_and(|d| (1..=9).contains(&d)))
                    }
                    "light" => value["on"].is_boolean(),
                    _ => false,
                };
                assert!(
                    right && (call == "light" || !matches!(choice, ToolChoice::Function(_))),
                    "{name}: {shown:?}: {arguments}"
                );
            }
        }
        assert!(ended > 1, "{name}: {ended} walks came to an end");
    }
}

#[test]
fn tools_that_cannot_be_constrained_say_so() {
    let v = vocabulary();
    let of = |name: &str| {
        calls(&v, &Format::known_format(name, None).unwrap(), &tools(), &ToolChoice::Required, true).unwrap()
    };
    assert!(of("gpt-oss").is_some());
    assert_eq!(calls(&v, &Format::plain(), &tools(), &ToolChoice::Required, true).unwrap(), None);
    let hermes = Format::known_format("hermes", None).unwrap();
    let error = calls(&v, &hermes, &tools(), &ToolChoice::Function("nope".into()), true).unwrap_err().to_string();
    assert!(error.contains("nope is not among the tools"), "{error}");
    assert!(calls(&v, &hermes, &json!(3), &ToolChoice::Auto, true).is_err());
}

fn note() -> Value {
    json!([{"type": "function", "function": {"name": "note", "parameters": {"type": "object",
        "$defs": {"tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}},
        "properties": {
            "text": {"type": "string", "maxLength": 30},
            "code": {"type": "string", "pattern": "^[a-z]{2}\\d$"},
            "at": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "integer"}}, "required": ["x"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "who": {"anyOf": [{"type": "string", "enum": ["me", "you"]}, {"type": "null"}]},
            "tree": {"$ref": "#/$defs/tree"},
            "more": {"type": "object"}
        },
        "required": ["text"]}}}])
}

/// Whether a grammar takes a text, and whether it may end there.
fn takes(vocabulary: &Arc<Vocabulary>, source: &pumex_grammar::GrammarSource, text: &str) -> Option<bool> {
    let mut matcher = vocabulary.matcher(source).unwrap_or_else(|e| panic!("{e}: {source:?}"));
    for (at, id) in ids(text).into_iter().enumerate() {
        if let Err(error) = matcher.accept(id) {
            println!("{text}: at {at}: {error}");
            return None;
        }
    }
    Some(matcher.is_complete().unwrap())
}

#[test]
fn calls_as_templates_write_them_are_taken_and_others_are_not() {
    let v = vocabulary();
    type Texts = &'static [(&'static str, &'static str)];
    let cases: &[(&str, &str, Texts)] = &[
        (
            "gemma4",
            "<|tool_call>call:note{@}<tool_call|>",
            &[
                ("text:<|\"|>a \"b\", }<|\"|>", "text:\"a\""),
                ("at:{x:-1.5,y:2},text:<|\"|><|\"|>", "at:{y:2},text:<|\"|>a<|\"|>"),
                ("code:<|\"|>ab1<|\"|>,text:<|\"|>a<|\"|>", "code:<|\"|>abc<|\"|>,text:<|\"|>a<|\"|>"),
                (
                    "tags:[<|\"|>x<|\"|>,<|\"|>y<|\"|>],text:<|\"|>a<|\"|>,who:null",
                    "tags:[<|\"|>x<|\"|>,<|\"|>y<|\"|>,<|\"|>z<|\"|>],text:<|\"|>a<|\"|>",
                ),
                (
                    "more:{k:[1,{l:<|\"|>m<|\"|>}]},text:<|\"|>a<|\"|>,tree:{kids:[{kids:[]}]}",
                    "text:<|\"|>a<|\"|>,tree:{kids:[1]}",
                ),
            ],
        ),
        (
            "lfm2",
            "<|tool_call_start|>[note(@)]<|tool_call_end|>",
            &[
                ("text=\"a \\\"b\\\"\"", "text=a"),
                ("text=\"\", at={\"x\": -1.5, \"y\": 2}", "at={\"x\": 1}"),
                ("text=\"a\", code=\"ab1\"", "text=\"a\", code=\"abc\""),
                ("text=\"a\", tags=[\"x\", \"y\"], who=None", "text=\"a\", who=\"he\""),
                ("text=\"a\", tree={\"kids\": [{\"kids\": []}]}, more={\"k\": [1, True]}", "text=\"a\", tree={\"kids\": [1]}"),
            ],
        ),
        (
            "minimax-m3",
            "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"note\">@]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
            &[
                ("]<]minimax[>[<text>a <b> & c]<]minimax[>[</text>", "]<]minimax[>[<test>a]<]minimax[>[</test>"),
                (
                    "]<]minimax[>[<text>a]<]minimax[>[</text>]<]minimax[>[<at>]<]minimax[>[<x>1.5]<]minimax[>[</x>]<]minimax[>[</at>",
                    "]<]minimax[>[<text>a]<]minimax[>[</text>]<]minimax[>[<at>]<]minimax[>[<x>b]<]minimax[>[</x>]<]minimax[>[</at>",
                ),
                (
                    "]<]minimax[>[<text>a]<]minimax[>[</text>]<]minimax[>[<tags>]<]minimax[>[<item>x]<]minimax[>[</item>]\
                     <]minimax[>[</tags>",
                    "]<]minimax[>[<text>a]<]minimax[>[</text>]<]minimax[>[<code>1]<]minimax[>[</code>",
                ),
            ],
        ),
        (
            "deepseek-dsml",
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"note\">\n@\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            &[
                (
                    "<｜DSML｜parameter name=\"text\" string=\"true\">a </b></｜DSML｜parameter>",
                    "<｜DSML｜parameter name=\"text\" string=\"false\">1</｜DSML｜parameter>",
                ),
                (
                    "<｜DSML｜parameter name=\"text\" string=\"true\">a</｜DSML｜parameter>\n\
                     <｜DSML｜parameter name=\"at\" string=\"false\">{\"x\": 1}</｜DSML｜parameter>",
                    "<｜DSML｜parameter name=\"text\" string=\"true\">a</｜DSML｜parameter>\n\
                     <｜DSML｜parameter name=\"at\" string=\"false\">{}</｜DSML｜parameter>",
                ),
            ],
        ),
        (
            "kimi-k3",
            "<|open|>tools<|sep|><|open|>call tool=\"note\" index=\"1\"<|sep|>@<|close|>call<|sep|><|close|>tools<|sep|>",
            &[(
                "<|open|>argument key=\"text\" type=\"string\"<|sep|>a<|close|>argument<|sep|>",
                "<|open|>argument key=\"text\" type=\"number\"<|sep|>1<|close|>argument<|sep|>",
            )],
        ),
        (
            "gpt-oss",
            "<|channel|>analysis<|message|><|start|>assistant to=functions.note<|channel|>commentary json<|message|>{@}<|call|>",
            &[("\"text\": \"a\", \"tags\": [\"x\"]", "\"tags\": [\"x\"]"), ("\"text\":\"\"", "\"text\": 1")],
        ),
        (
            "gpt-oss",
            "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant\
             <|channel|>commentary to=functions.note <|constrain|>json<|message|>{@}<|call|>",
            &[("\"text\":\"a\"", "")],
        ),
        (
            "qwen3-coder",
            "<tool_call>\n<function=note>\n@</function>\n</tool_call>",
            &[
                ("<parameter=text>\na < b\n</parameter>\n", "<parameter=text>a</parameter>\n"),
                (
                    "<parameter=text>\na\n</parameter>\n<parameter=code>\nab1\n</parameter>\n",
                    "<parameter=text>\na\n</parameter>\n<parameter=code>\n1\n</parameter>\n",
                ),
            ],
        ),
    ];
    for (name, frame, texts) in cases {
        let format = Format::known_format(name, None).unwrap();
        for choice in [ToolChoice::Required, ToolChoice::Auto] {
            let source = calls(&v, &format, &note(), &choice, false).unwrap().unwrap();
            for (right, wrong) in *texts {
                let whole = frame.replace('@', right);
                assert_eq!(takes(&v, &source, &whole), Some(true), "{name}: {whole}");
                assert_eq!(takes(&v, &source, &frame.replace('@', wrong)), None, "{name}: {wrong}");
                let mut parser = Parser::new(&format, Some(&Json::parse(&note().to_string()).unwrap()), "");
                // What follows replies hands the text of reasoning to the parser alone.
                let read = whole.replace("analysis<|message|>", "analysis<|message|>hm<|end|>");
                let mut events = parser.push(read.as_bytes());
                events.extend(parser.finish());
                assert!(events.contains(&Event::CallEnd { index: 0, complete: true }), "{name}: {whole}: {events:?}");
            }
            let said = "No call is needed.";
            let free = if *name == "gpt-oss" { format!("<|channel|>final<|message|>{said}") } else { said.to_string() };
            assert_eq!(takes(&v, &source, &free) == Some(true), choice == ToolChoice::Auto, "{name}");
        }
    }
}

#[test]
fn an_answer_of_a_schema_stands_in_its_channel() {
    let v = vocabulary();
    let format = Format::known_format("gpt-oss", None).unwrap();
    for source in [
        pumex_grammar::GrammarSource::JsonSchema(r#"{"type":"integer"}"#.into()),
        pumex_grammar::GrammarSource::Gbnf("root ::= digit+\ndigit ::= [0-9]".into()),
        pumex_grammar::GrammarSource::Regex("[0-9]+".into()),
    ] {
        let whole = v.answer(&format, &source).unwrap().0;
        let thought = "<|channel|>analysis<|message|><|start|>assistant<|channel|>final<|message|>";
        for (text, taken) in [("12", Some(true)), ("x", None), ("", Some(false))] {
            assert_eq!(takes(&v, &whole, &format!("{thought}{text}")), taken, "{source:?}");
        }
        // Where there are no channels it is the answer: a schema in the words that it is held to.
        let plain = match &source {
            GrammarSource::JsonSchema(text) => GrammarSource::Held(text.clone()),
            other => other.clone(),
        };
        assert_eq!(v.answer(&Format::plain(), &source).unwrap().0, plain);
    }
}

#[cfg(target_os = "linux")]
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn hostile_functions_end_in_bounded_time() {
    let v = vocabulary();
    let many: serde_json::Map<String, Value> = (0..20_000).map(|i| (format!("p{i}"), json!({}))).collect();
    let listed: Vec<String> = (0..2000).map(|i| format!("{i}{}", "<|x".repeat(20))).collect();
    let mut deep = json!({"type": "string"});
    (0..100).for_each(|_| deep = json!({"type": "object", "properties": {"k": deep.clone()}, "required": ["k"]}));
    let circle = json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "properties": {"k": {"$ref": "#/$defs/a"}}});
    let schemas = [
        json!({"type": "object", "properties": many}),
        json!({"type": "object", "properties": {"k": {"type": "string", "enum": listed}}}),
        json!({"type": "object", "properties": {"k": {"type": "string", "const": "<|".repeat(100_000)}}}),
        json!({"type": "object", "properties": {"k": {"type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$"}}}),
        json!({"type": "object", "properties": {"k": {"type": "string", "minLength": 100_000_000}}}),
        json!({"type": "object", "properties": {"k": {"type": "array", "minItems": 1_000_000_000}}}),
        json!({"type": "object", "properties": {"k": {"type": "array", "items": {"type": "string"}, "maxItems": 0, "minItems": 5}}}),
        deep,
        circle,
        json!({"properties": {"k": {"$ref": "#/properties/k"}}}),
        json!(3),
    ];
    for name in ["hermes", "gemma4", "lfm2", "minimax-m3", "deepseek-dsml", "gpt-oss"] {
        let format = Format::known_format(name, None).unwrap();
        for (i, schema) in schemas.iter().enumerate() {
            let tools = json!([{"name": "f", "parameters": schema}]);
            let begun = cpu_ms();
            let source = calls(&v, &format, &tools, &ToolChoice::Required, true);
            let end =
                source.and_then(|source| v.matcher(&source.unwrap())).and_then(|mut matcher| matcher.mask()).err();
            let spent = cpu_ms() - begun;
            println!("{spent} ms: {name}, schema {i}: {}", end.as_ref().map(ToString::to_string).unwrap_or_default());
            assert!(spent < 5000, "{spent} ms: {name}, schema {i}");
            assert!(end.is_none_or(|e| e.to_string().len() < 5000));
        }
    }
}
