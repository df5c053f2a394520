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

/// A reply in a format, and what is in it.
struct ReplySample {
    name: String,
    format: Format,
    prompt: String,
    reply: String,
    whole: Whole,
}

/// The samples of `golden/replies.json`.
fn samples() -> Vec<ReplySample> {
    let json = Json::parse(include_str!("golden/replies.json")).unwrap();
    let one = |json: &Json| {
        let text = |key: &str| json.get(key).unwrap().as_str().unwrap().to_string();
        let marks = json.get("reasoning").unwrap().as_array();
        let marks = marks.map(|m| (m[0].as_str().unwrap(), m[1].as_str().unwrap()));
        let call = |call: &Json| {
            let part = |i: usize| call.as_array().unwrap()[i].as_str().map(str::to_string);
            (part(0).unwrap(), part(1), part(2).unwrap())
        };
        let calls: Vec<_> = json.get("calls").unwrap().as_array().unwrap().iter().map(call).collect();
        let name = text("format");
        let format = Format::known_format(&name, marks).unwrap_or_else(|| panic!("{name}"));
        let whole = Whole { content: text("content"), reasoning: text("thought"), complete: calls.len(), calls };
        ReplySample { name, format, prompt: text("prompt"), reply: text("reply"), whole }
    };
    json.as_array().unwrap().iter().map(one).collect()
}

#[test]
fn every_sample_is_the_same_wherever_it_is_cut() {
    let samples = samples();
    assert!(samples.len() > 40);
    for ReplySample { name, format, prompt, reply, whole } in &samples {
        let bytes = reply.as_bytes();
        assert_eq!(parse(format, prompt, &[bytes]), *whole, "{name}: {reply}");
        for at in 0..=bytes.len() {
            let (a, b) = bytes.split_at(at);
            assert_eq!(parse(format, prompt, &[a, b]), *whole, "{name} cut at {at}: {reply}");
        }
        let each: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(format, prompt, &each), *whole, "{name} byte by byte: {reply}");
        for (_, _, arguments) in &whole.calls {
            assert!(matches!(Json::parse(arguments), Ok(Json::Object(_))), "{name}: {arguments}");
        }
    }
}

#[test]
fn no_part_of_a_mark_is_content_before_the_reply_ends() {
    for ReplySample { name, format, prompt, reply, whole } in samples().iter().filter(|s| !s.whole.calls.is_empty()) {
        for at in 0..reply.len() {
            let mut parser = Parser::new(format, None, prompt);
            let so_far = gather(parser.push(&reply.as_bytes()[..at]));
            assert!(whole.content.starts_with(&so_far.content), "{name} at {at}: {:?}", so_far.content);
            assert!(whole.reasoning.starts_with(&so_far.reasoning), "{name} at {at}: {:?}", so_far.reasoning);
            assert!(so_far.calls.len() <= whole.calls.len());
        }
    }
}

#[test]
fn a_reply_that_ends_anywhere_gives_no_whole_call_too_many() {
    for ReplySample { name, format, prompt, reply, whole } in &samples() {
        for at in 0..reply.len() {
            let cut = parse(format, prompt, &[&reply.as_bytes()[..at]]);
            let most = whole.calls.len();
            assert!(cut.complete <= most && cut.calls.len() <= most.max(1), "{name} at {at}: {cut:?}");
        }
    }
}

#[test]
fn long_replies_without_ends_take_linear_time() {
    let began = std::time::Instant::now();
    let call = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"";
    let marks = ["<", "<think>", "<tool_call>", call, "<|channel|>", "[TOOL_CALLS]", "<function="];
    let texts = ["{\"a\": ", "[", "\"\\", " \n", "é"];
    let mut tried: Vec<Format> = Vec::new();
    for ReplySample { format, reply, .. } in samples() {
        if tried.contains(&format) {
            continue;
        }
        for piece in marks.iter().chain(&texts) {
            let text = reply.clone() + &piece.repeat(20_000 / piece.len());
            for chunk in [7, 20_000] {
                let mut parser = Parser::new(&format, None, "");
                let given: usize = text.as_bytes().chunks(chunk).map(|c| parser.push(c).len()).sum();
                assert!(given + parser.finish().len() < 2 * text.len());
            }
        }
        tried.push(format);
    }
    // A megabyte in small pieces, in states that wait for something.
    let hermes = Format::known_format("hermes", Some(("<think>", "</think>"))).unwrap();
    let long = "x<".repeat(500_000);
    let blank = " ".repeat(500_000);
    for text in [call.to_string() + &long, blank.clone()]
        .into_iter()
        .chain(["<tool_call>", "<tool_call>{", "<tool_call>[", "<think>"].map(|mark| mark.to_string() + &blank))
    {
        let mut parser = Parser::new(&hermes, None, "");
        text.as_bytes().chunks(5).for_each(|c| drop(parser.push(c)));
    }
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn bytes_that_are_no_text_do_not_stop_it() {
    let format = Format::known_format("hermes", None).unwrap();
    let whole = parse(&format, "", &[b"a\xff", b"\xe2\x82", b"\xac b\xe2"]);
    assert_eq!(whole.content, "a\u{fffd}\u{20ac} b\u{fffd}");
}
