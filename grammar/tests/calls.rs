//! Random walks through the masks of calls: what comes out reads back as calls of their schemas.
#![allow(clippy::unwrap_used)]

use pumex_chat::reply::{Event, Format, Parser};
use pumex_chat::Json;
use pumex_grammar::{Choice, Piece, Vocabulary};
use serde_json::{json, Value};
use std::sync::Arc;

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
];

fn piece(id: u32) -> &'static str {
    MARKS.get((id - END) as usize).copied().unwrap_or_default()
}

fn vocabulary() -> Arc<Vocabulary> {
    let bytes: Vec<[u8; 1]> = (0..=255u8).map(|b| [b]).collect();
    let pieces = bytes.iter().map(|b| Piece::Text(b)).chain(MARKS.iter().map(|m| Piece::Special(m.as_bytes())));
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

/// A text that the grammar allows behind `begin`; none if the walk is too long.
fn walk(vocabulary: &Arc<Vocabulary>, source: &pumex_grammar::Source, begin: &str, seed: u64) -> Option<Vec<u8>> {
    let mut matcher = vocabulary.matcher(source).unwrap_or_else(|e| panic!("{e}: {source:?}"));
    let (mut text, mut state) = (Vec::new(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut queue = begin.bytes().map(u32::from).collect::<std::collections::VecDeque<u32>>();
    if let Some(at) = MARKS.iter().position(|m| *m == begin) {
        queue = [END + at as u32].into();
    }
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
        match u8::try_from(id) {
            Ok(byte) => text.push(byte),
            Err(_) => text.extend_from_slice(piece(id).as_bytes()),
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
    ] {
        let format = Format::known(name, None).unwrap();
        let mut ended = 0;
        for (seed, choice) in
            (0..12u64).zip([Choice::Required, Choice::Auto, Choice::Function("light".into())].into_iter().cycle())
        {
            if choice == Choice::Auto && open.is_empty() {
                continue;
            }
            let source = vocabulary.calls(&format, &tools(), &choice, seed % 2 == 0).unwrap().expect(name);
            let begin = if choice == Choice::Auto { open } else { "" };
            let Some(text) = walk(&vocabulary, &source, begin, seed + 1) else { continue };
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
                    right && (call == "light" || !matches!(choice, Choice::Function(_))),
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
    let of = |name: &str| v.calls(&Format::known(name, None).unwrap(), &tools(), &Choice::Required, true).unwrap();
    for name in ["gpt-oss", "functiongemma", "minimax-m3", "deepseek-dsml", "kimi-k3"] {
        assert_eq!(of(name), None, "{name}");
    }
    let hermes = Format::known("hermes", None).unwrap();
    let error = v.calls(&hermes, &tools(), &Choice::Function("nope".into()), true).unwrap_err().to_string();
    assert!(error.contains("nope is not among the tools"), "{error}");
    assert!(v.calls(&hermes, &json!(3), &Choice::Auto, true).is_err());
}
