//! Replies in every known format, cut at every place.
#![allow(clippy::unwrap_used)]

use pumex_chat::reply::{Event, Format, Parser};
use pumex_chat::Json;

const TOOLS: &str = r#"[{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
    "properties": {"location": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}}}}}]"#;

/// What a reply amounts to: content, reasoning, and calls as name, id and arguments.
#[derive(Debug, Default, PartialEq, Clone)]
struct Whole {
    content: String,
    reasoning: String,
    calls: Vec<(String, Option<String>, String)>,
    complete: usize,
}

fn gather(events: impl IntoIterator<Item = Event>) -> Whole {
    let mut whole = Whole::default();
    for event in events {
        match event {
            Event::Content(text) => whole.content.push_str(&text),
            Event::Reasoning(text) => whole.reasoning.push_str(&text),
            Event::CallStart { index, name, id } => {
                assert_eq!(index, whole.calls.len());
                whole.calls.push((name, id, String::new()));
            }
            Event::CallId { index, id } => whole.calls[index].1 = Some(id),
            Event::CallArguments { index, delta } => {
                assert_eq!(index + 1, whole.calls.len());
                whole.calls[index].2.push_str(&delta);
            }
            Event::CallEnd { index, complete } => {
                assert_eq!(index + 1, whole.calls.len());
                whole.complete += usize::from(complete);
            }
        }
    }
    whole
}

fn parse(format: &Format, prompt: &str, pieces: &[&[u8]]) -> Whole {
    let tools = Json::parse(TOOLS).unwrap();
    let mut parser = Parser::new(format, Some(&tools), prompt);
    let mut events: Vec<Event> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    events.extend(parser.finish());
    gather(events)
}

const ARGS: &str = r#"{"location": "Zürich, \"CH\"", "days": 3}"#;

/// Format, reasoning's marks, end of the prompt, reply, content, reasoning, calls.
type Sample = (
    &'static str,
    Option<(&'static str, &'static str)>,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, Option<&'static str>, &'static str)],
);

const THINK: Option<(&str, &str)> = Some(("<think>", "</think>"));
const CALL: (&str, Option<&str>, &str) = ("get_weather", None, ARGS);

const SAMPLES: &[Sample] = &[
    ("hermes", THINK, "", "<think>\nHm.\n</think>\n\nLook:\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"location\": \"Zürich, \\\"CH\\\"\", \"days\": 3}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
        "Look:", "Hm.", &[CALL, ("g", None, "{}")]),
    ("hermes", THINK, "<|im_start|>assistant\n<think>\n", "Hm <tool.\n</think>\n\n2 < 3 <tool, <think> too", "2 < 3 <tool, <think> too", "Hm <tool.", &[]),
    ("hermes", THINK, "<think>\n\n</think>\n\n", "Just text.\n", "Just text.\n", "", &[]),
    ("hermes", None, "", "<tool_call>\n<function=get_weather>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        "", "", &[("get_weather", None, "{\"days\": 3}")]),
    ("hermes", None, "", "a <tool_call> is a mark", "a <tool_call> is a mark", "", &[]),
    ("qwen3-coder", None, "", "Ok.\n<tool_call>\n<function=get_weather>\n<parameter=location>\nline 1\n\n  \"line\" 2\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=other>\nTrue\n</parameter>\n</function>\n</tool_call>",
        "Ok.", "", &[("get_weather", None, "{\"location\": \"line 1\\n\\n  \\\"line\\\" 2\", \"days\": 3, \"other\": true}")]),
    ("qwen3-coder", None, "", "<tool_call>\n<function=now>\n</function>\n</tool_call>", "", "", &[("now", None, "{}")]),
    ("seed-oss", Some(("<seed:think>", "</seed:think>")), "", "<seed:think>a</seed:think>b<seed:tool_call><function=f><parameter=x>[1, 2]</parameter></function></seed:tool_call>",
        "b", "a", &[("f", None, "{\"x\": [1, 2]}")]),
    ("minimax-m2", THINK, "<think>\n", "r\n</think>\n\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"location\">A & B</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
        "", "r", &[("get_weather", None, "{\"location\": \"A & B\"}"), ("g", None, "{}")]),
    ("minimax-m3", None, "", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<location>5]<]minimax[>[</location>]<]minimax[>[<f>]<]minimax[>[<t>]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[</t>]<]minimax[>[</f>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
        "", "", &[("get_weather", None, "{\"location\": \"5\", \"f\": {\"t\": [\"a\"]}}")]),
    ("deepseek-dsml", THINK, "<think>", "r</think>Go.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">12</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" string=\"false\">{\"c\": [1]}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        "Go.", "r", &[("f", None, "{\"a\": \"12\", \"b\": {\"c\": [1]}}")]),
    ("glm", THINK, "", "\n<think>r</think>\nc\n<tool_call>get_weather\n<arg_key>location</arg_key>\n<arg_value>12</arg_value>\n<arg_key>tags</arg_key>\n<arg_value>[\"a\"]</arg_value>\n</tool_call>\n<tool_call>now</tool_call>",
        "c", "r", &[("get_weather", None, "{\"location\": \"12\", \"tags\": [\"a\"]}"), ("now", None, "{}")]),
    ("deepseek-r1", THINK, "<think>\n", "r</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"```\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "", "r", &[("f", None, "{\"a\": \"```\"}"), ("g", None, "{}")]),
    ("deepseek-v3.1", THINK, "</think>", "c<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": {\"b\": \"}\"}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "c", "", &[("f", None, "{\"a\": {\"b\": \"}\"}}")]),
    ("kimi-k2", None, "", "c<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"days\": 3}<|tool_call_end|><|tool_calls_section_end|>",
        "c", "", &[("get_weather", Some("functions.get_weather:0"), "{\"days\": 3}")]),
    ("kimi-k3", Some(("<|open|>think<|sep|>", "<|close|>think<|sep|>")), "<|open|>think<|sep|>", "r<|close|>think<|sep|><|open|>response<|sep|>c<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" type=\"string\"<|sep|>1<|close|>argument<|sep|><|open|>argument key=\"b\" type=\"number\"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
        "c", "r", &[("f", None, "{\"a\": \"1\", \"b\": 2}")]),
    ("mistral", None, "", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": \"]\"}, \"id\": \"abc\"}, {\"name\": \"g\", \"arguments\": {}}]",
        "", "", &[("f", Some("abc"), "{\"a\": \"]\"}"), ("g", None, "{}")]),
    ("mistral", Some(("[THINK]", "[/THINK]")), "", "[THINK]r[/THINK]c[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]x1[ARGS]{}",
        "c", "r", &[("f", None, "{\"a\": 1}"), ("g", Some("x1"), "{}")]),
    ("functionary-v3.1", None, "", "<function=get_weather>{\"days\": 3}</function>", "", "", &[("get_weather", None, "{\"days\": 3}")]),
    ("functionary-v3.1", None, "", "<|python_tag|>print(\"x\")", "", "", &[("python", None, "{\"code\": \"print(\\\"x\\\")\"}")]),
    ("functionary-v3.2", None, ">>>", "all\nHello, 3 > 2.\n>>>get_weather\n{\"days\": 3}>>>g\n{}", "Hello, 3 > 2.", "", &[("get_weather", None, "{\"days\": 3}"), ("g", None, "{}")]),
    ("command-r7b", Some(("<|START_THINKING|>", "<|END_THINKING|>")), "", "<|START_THINKING|>r<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}}\n]<|END_ACTION|>",
        "", "r", &[("f", Some("0"), "{\"a\": 1}")]),
    ("command-r7b", None, "", "<|START_RESPONSE|>Yes.<|END_RESPONSE|>", "Yes.", "", &[]),
    ("command-r", None, "", "Action: ```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {\"a\": 1}\n    }\n]```", "", "", &[("f", None, "{\"a\": 1}")]),
    ("lfm2", None, "", "<|tool_call_start|>[get_weather(location=\"A, (B)\", days=3, x=None, y={'k': [True, 'it\\'s']}), now()]<|tool_call_end|>c",
        "c", "", &[("get_weather", None, "{\"location\": \"A, (B)\", \"days\": 3, \"x\": null, \"y\": {\"k\": [true, \"it's\"]}}"), ("now", None, "{}")]),
    ("functiongemma", None, "", "<start_function_call>call:get_weather{location:<escape>A, {B}<escape>,days:3}<end_function_call>", "", "",
        &[("get_weather", None, "{\"location\": \"A, {B}\", \"days\": 3}")]),
    ("gemma4", Some(("<|channel>thought", "<channel|>")), "", "<|channel>thought\nr\n<channel|><|tool_call>call:f{a:<|\"|>x<|\"|>,b:[1,<|\"|>y<|\"|>],c:{d:true,e:word}}<tool_call|>", "", "r",
        &[("f", None, "{\"a\": \"x\", \"b\": [1, \"y\"], \"c\": {\"d\": true, \"e\": \"word\"}}")]),
    ("apertus", None, "", "<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"g\": {}}]<|tools_suffix|>", "", "", &[("f", None, "{\"a\": 1}"), ("g", None, "{}")]),
    ("nemotron-v2", None, "", "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]</TOOLCALL>", "", "", &[("f", None, "{\"a\": 1}")]),
    ("granite", None, "", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "", "", &[("f", None, "{\"a\": 1}")]),
    ("minicpm5", None, "", "<function name=\"get_weather\"><param name=\"location\"><![CDATA[a <b>]]></param><param name=\"days\">3</param></function>", "", "",
        &[("get_weather", None, "{\"location\": \"a <b>\", \"days\": 3}")]),
    ("llama3", None, "", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "", "", &[("f", None, "{\"a\": 1}")]),
    ("llama3", None, "", "{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"a\": 1}}", "", "", &[("f", None, "{\"a\": 1}")]),
    ("llama3", None, "", "{\"city\": \"Paris\", \"name\": 3}", "{\"city\": \"Paris\", \"name\": 3}", "", &[]),
    ("llama3", None, "", "{\"name\": \"Paris\", \"country\": \"France\"}", "{\"name\": \"Paris\", \"country\": \"France\"}", "", &[]),
    ("llama3", None, "", "{ not json", "{ not json", "", &[]),
    ("llama3", None, "", "<|python_tag|>brave_search.call(query=\"x, y\")", "", "", &[("brave_search", None, "{\"query\": \"x, y\"}")]),
    ("llama3", None, "", "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "", "", &[("f", None, "{}")]),
    ("gpt-oss", None, "<|start|>assistant", "<|channel|>analysis<|message|>r<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>", "", "r", &[("f", None, "{\"a\": 1}")]),
    ("gpt-oss", None, "<|start|>assistant", "<|channel|>analysis<|message|>r<|end|><|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>", "", "r", &[("f", None, "{}")]),
    ("gpt-oss", None, "<|start|>assistant", "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>c<|return|>", "I look.c", "", &[]),
    ("gpt-oss", None, "<|start|>assistant<|channel|>final<|message|>", "c<|return|>", "c", "", &[]),
];

#[test]
fn every_sample_is_the_same_wherever_it_is_cut() {
    for (name, marks, prompt, reply, content, reasoning, calls) in SAMPLES {
        let format = Format::known(name, *marks).unwrap_or_else(|| panic!("{name}"));
        let calls: Vec<_> =
            calls.iter().map(|(n, i, a)| (n.to_string(), i.map(str::to_string), a.to_string())).collect();
        let wanted =
            Whole { content: content.to_string(), reasoning: reasoning.to_string(), complete: calls.len(), calls };
        let bytes = reply.as_bytes();
        assert_eq!(parse(&format, prompt, &[bytes]), wanted, "{name}: {reply}");
        for at in 0..=bytes.len() {
            let (a, b) = bytes.split_at(at);
            assert_eq!(parse(&format, prompt, &[a, b]), wanted, "{name} cut at {at}: {reply}");
        }
        let each: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&format, prompt, &each), wanted, "{name} byte by byte: {reply}");
        for (_, _, arguments) in &wanted.calls {
            assert!(matches!(Json::parse(arguments), Ok(Json::Object(_))), "{name}: {arguments}");
        }
    }
}

#[test]
fn no_part_of_a_mark_is_content_before_the_reply_ends() {
    for (name, marks, prompt, reply, content, reasoning, calls) in SAMPLES.iter().filter(|s| !s.6.is_empty()) {
        let format = Format::known(name, *marks).unwrap();
        for at in 0..reply.len() {
            let mut parser = Parser::new(&format, None, prompt);
            let so_far = gather(parser.push(&reply.as_bytes()[..at]));
            assert!(content.starts_with(&so_far.content), "{name} at {at}: {:?}", so_far.content);
            assert!(reasoning.starts_with(&so_far.reasoning), "{name} at {at}: {:?}", so_far.reasoning);
            assert!(so_far.calls.len() <= calls.len());
        }
    }
}

#[test]
fn a_reply_that_ends_anywhere_gives_no_whole_call_too_many() {
    for (name, marks, prompt, reply, _, _, calls) in SAMPLES {
        let format = Format::known(name, *marks).unwrap();
        for at in 0..reply.len() {
            let whole = parse(&format, prompt, &[&reply.as_bytes()[..at]]);
            assert!(
                whole.complete <= calls.len() && whole.calls.len() <= calls.len().max(1),
                "{name} at {at}: {whole:?}"
            );
        }
    }
}

#[test]
fn long_replies_without_ends_take_linear_time() {
    let began = std::time::Instant::now();
    let pieces = [
        "<",
        "{\"a\": ",
        "[",
        "\"\\",
        "<think>",
        "<tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"",
        "<|channel|>",
        " \n",
        "[TOOL_CALLS]",
        "<function=",
        "é",
    ];
    let mut formats: Vec<Format> = SAMPLES.iter().map(|s| Format::known(s.0, s.1).unwrap()).collect();
    formats.dedup();
    for format in &formats {
        for piece in pieces {
            let text = SAMPLES[0].3.to_string() + &piece.repeat(20_000 / piece.len());
            for chunk in [7, 20_000] {
                let mut parser = Parser::new(format, None, "");
                let given: usize = text.as_bytes().chunks(chunk).map(|c| parser.push(c).len()).sum();
                assert!(given + parser.finish().len() < 2 * text.len());
            }
        }
    }
    // 1 MB of opened calls in small pieces.
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"".to_string() + &"x<".repeat(500_000);
    let mut parser = Parser::new(&Format::known("hermes", None).unwrap(), None, "");
    text.as_bytes().chunks(5).for_each(|c| drop(parser.push(c)));
    for before in ["", "<tool_call>", "<tool_call>{", "<tool_call>[", "<think>"] {
        let text = before.to_string() + &" ".repeat(500_000);
        let mut parser = Parser::new(&Format::known("hermes", Some(("<think>", "</think>"))).unwrap(), None, "");
        text.as_bytes().chunks(5).for_each(|c| drop(parser.push(c)));
    }
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn bytes_that_are_no_text_do_not_stop_it() {
    let format = Format::known("hermes", None).unwrap();
    let whole = parse(&format, "", &[b"a\xff", b"\xe2\x82", b"\xac b\xe2"]);
    assert_eq!(whole.content, "a\u{fffd}\u{20ac} b\u{fffd}");
}
