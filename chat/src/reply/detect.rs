//! Which format a template's model replies in: found by what the template prints for a known call, and for reasoning.

use crate::json::Json;
use crate::reply::format::{
    CallNotation, Calls, Format, KnownFormat, Names, Reasoning, Section, DROPPED, KNOWN, REASONING,
};
use crate::template::{Request, Template};

impl Format {
    /// The format of a template's model.
    pub fn of(template: &Template) -> Format {
        let source = template.source();
        if source.contains("<|channel|>") && source.contains("<|message|>") {
            return Format { name: "gpt-oss".to_string(), reasoning: None, calls: Calls::Harmony, dropped: Vec::new() };
        }
        let printed = probe(template);
        let all = printed.concat();
        let (name, calls) = calls(template, &printed);
        let there = |m: &&&str| source.contains(**m) || all.contains(**m);
        let dropped = DROPPED.iter().filter(there).map(|m| m.to_string()).collect();
        let marks = REASONING
            .iter()
            .find(|(open, close, _)| source.contains(open) || source.contains(close) || all.contains(close));
        let reasoning = marks.map(|(open, close, anywhere)| Reasoning {
            open: open.to_string(),
            close: close.to_string(),
            anywhere: *anywhere,
        });
        Format { name, reasoning, calls, dropped }
    }
}

/// What a template prints for a call of `f` with `{"k": "v"}` in the last message, without what stands before it.
fn probe(template: &Template) -> Vec<String> {
    let tools = r#"[{"type": "function", "function": {"name": "f", "description": "d",
        "parameters": {"type": "object", "properties": {"k": {"type": "string", "description": "d"}}, "required": ["k"]}}}]"#;
    let user = r#"{"role": "user", "content": "u"}"#;
    let result = r#"{"role": "tool", "tool_call_id": "call00001", "name": "f", "content": "r"}"#;
    let mut printed = Vec::new();
    for content in ["\"\"", "null"] {
        for arguments in [r#"{"k": "v"}"#, r#""{\"k\": \"v\"}""#] {
            let call = format!(
                r#"{{"role": "assistant", "content": {content}, "tool_calls": [{{"id": "call00001", "type": "function",
                "function": {{"name": "f", "arguments": {arguments}}}}}]}}"#
            );
            for rest in [String::new(), format!(", {result}")] {
                let render = |messages: String| {
                    let mut request = Request::new(Json::parse(&messages).ok()?);
                    request.tools = Json::parse(tools).ok();
                    request.add_generation_prompt = false;
                    request.limits.steps = 1_000_000;
                    request.limits.bytes = 16 << 20;
                    template.render(&request).ok().map(|p| p.text)
                };
                let before = render(format!("[{user}]"));
                let Some(text) = render(format!("[{user}, {call}{rest}]")) else { continue };
                let same = before.map_or(0, |b| common(&b, &text));
                printed.push(text[same..].to_string());
            }
        }
    }
    printed
}

/// How many bytes two texts share at their start.
fn common(a: &str, b: &str) -> usize {
    a.char_indices().zip(b.chars()).find(|((_, a), b)| a != b).map_or(a.len().min(b.len()), |((at, _), _)| at)
}

fn in_order(text: &str, signs: &[&str]) -> bool {
    let mut at = 0;
    signs.iter().all(|sign| match text[at..].find(sign) {
        Some(found) => {
            at += found + sign.len();
            true
        }
        None => false,
    })
}

fn calls(template: &Template, printed: &[String]) -> (String, Calls) {
    let known = |k: &&KnownFormat| printed.iter().any(|text| in_order(text, k.signs));
    if let Some(known) = KNOWN.iter().find(known) {
        let bare = known.bare.then(Names::default);
        return (known.name.to_string(), Calls::Sections { sections: (known.sections)(), bare });
    }
    if let Some(section) = printed.iter().find_map(|text| derive_section(text)) {
        return ("json".to_string(), Calls::Sections { sections: vec![section], bare: None });
    }
    // A template that prints no calls may still tell the model how to write them.
    let told = [
        ("<tool_call>", "hermes"),
        ("<|tool_call_start|>", "lfm2"),
        ("<|tool_list_start|>", "lfm2"),
        ("List of tools: [", "lfm2"),
        ("[TOOL_CALLS]", "mistral"),
        ("<|tool_call|>", "granite"),
    ];
    let found = told.iter().find(|(open, _)| template.source().contains(open));
    match found.and_then(|(_, name)| KNOWN.iter().find(|k| k.name == *name)) {
        Some(known) => (known.name.to_string(), Calls::Sections { sections: (known.sections)(), bare: None }),
        None => ("plain".to_string(), Calls::None),
    }
}

/// A section around a JSON object that names the function, with whatever marks the template has.
fn derive_section(text: &str) -> Option<Section> {
    let at = text.find("\"f\"")?;
    let brace = text[..at].rfind('{')?;
    let before = text[..brace].trim_end().trim_end_matches('[').trim_end();
    // The last line or mark before the object.
    let open = &before[before
        .rfind(['\n', '>'])
        .filter(|i| i + 1 < before.len())
        .map_or_else(|| before.rfind(['<', '[']).unwrap_or(before.len()), |i| i + 1)..];
    let (_, used) = Json::parse_first(&text[brace..]).ok()?;
    let behind = text[brace + used..].trim_start().trim_start_matches(']').trim_start();
    let close = match open.strip_prefix('<').or_else(|| open.strip_prefix('[')) {
        Some(_) => behind.split_inclusive(['>', ']']).next().unwrap_or_default(),
        None => "",
    };
    let pairs = close.contains('/') || (close.contains('|') && !close.contains("im_end") && !close.contains("eot"));
    let open = open.trim();
    (open.len() >= 3).then(|| Section {
        open: open.to_string(),
        close: if pairs { close.to_string() } else { String::new() },
        kinds: vec![CallNotation::Json(Names::default())],
        quiet: open.contains('|'),
    })
}
