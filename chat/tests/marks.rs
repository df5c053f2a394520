//! What came from messages is known in the prompt, whatever a template did with it.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use pumex_chat::{Json, RenderedPrompt, Request, Template};

fn templates() -> Vec<(String, Template)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/templates");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let own = files.iter().map(|f| {
        let source = std::fs::read_to_string(f).unwrap();
        (f.file_stem().unwrap().to_string_lossy().into_owned(), Template::parse(&source).unwrap())
    });
    let built = pumex_chat::builtin::names()
        .into_iter()
        .map(|name| (name.to_string(), Template::parse(&pumex_chat::builtin::builtin(name).unwrap()).unwrap()));
    own.chain(built).collect()
}

/// Texts in a template's source that look like special tokens.
fn tokens(source: &str) -> Vec<String> {
    let mut found: Vec<String> =
        ["<s>", "</s>", "<|im_end|>", "<|eot_id|>", "[INST]", "<think>", "</think>", "<｜User｜>"]
            .map(String::from)
            .into();
    for (open, close) in [('<', '>'), ('[', ']')] {
        for (at, _) in source.match_indices(open) {
            let rest = &source[at..];
            let end = rest.char_indices().take(40).find(|(_, c)| *c == close).map(|(i, _)| i + 1);
            let Some(token) = end.map(|end| &rest[..end]) else { continue };
            let plain = token.chars().all(|c| c.is_alphanumeric() || "<>[]|/_-:｜▁".contains(c));
            if plain && token.chars().count() > 2 {
                found.push(token.to_string());
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// A conversation with a text in every field, and its name around it; the roles are known ones.
fn conversation(text: &str, dict: bool) -> Request {
    let field = |name: &str| {
        let mut out = String::new();
        out.push_str(&Json::Str(format!("q{name}{text}{name}z")).dump());
        out
    };
    let object = format!("{{{}: {}}}", field("key"), field("value"));
    let arguments = if dict { object } else { Json::Str(object).dump() };
    let messages = format!(
        r#"[{{"role": "system", "content": {}}}, {{"role": "user", "content": {}}},
        {{"role": "assistant", "content": {}, "reasoning_content": {}, "tool_calls": [{{"id": {}, "type": "function",
        "function": {{"name": {}, "arguments": {arguments}}}}}]}},
        {{"role": "tool", "content": {}, "name": {}, "tool_call_id": {}}},
        {{"role": "assistant", "content": {}}}, {{"role": "user", "content": {}}}]"#,
        field("a"),
        field("b"),
        field("c"),
        field("d"),
        field("e"),
        field("f"),
        field("g"),
        field("h"),
        field("e"),
        field("i"),
        field("j")
    );
    let tools = format!(
        r#"[{{"type": "function", "function": {{"name": {}, "description": {}, "parameters": {{"type": "object",
        "properties": {{{}: {{"type": "string", "description": {}, "enum": [{}]}}}}}}}}}}]"#,
        field("f"),
        field("k"),
        field("key"),
        field("l"),
        field("m")
    );
    let mut request = Request::new(Json::parse(&messages).unwrap());
    request.tools = Some(Json::parse(&tools).unwrap());
    (request.bos, request.eos) = ("<s>".into(), "</s>".into());
    request
}

/// A conversation of the kind that every template takes.
fn short(text: &str) -> Request {
    let message = |role: &str, name: &str| {
        format!("{{\"role\": \"{role}\", \"content\": {}}}", Json::Str(format!("q{name}{text}{name}z")).dump())
    };
    let messages = [message("user", "b"), message("assistant", "c"), message("user", "j")].join(", ");
    Request::new(Json::parse(&format!("[{messages}]")).unwrap())
}

/// Every place of a text from a field, with what was put around it: that nothing of it is the template's own.
fn check(name: &str, token: &str, prompt: &RenderedPrompt) -> usize {
    let mut found = 0;
    // A template cuts an answer where reasoning ends, and writes a mark of its own there.
    let lower = token.to_lowercase();
    let cut = ["think", "response", "inner", "channel", "analysis", "thought"].iter().any(|word| lower.contains(word));
    for field in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "key", "value"] {
        if cut && ["c", "d", "i"].contains(&field) {
            continue;
        }
        for (at, whole) in prompt.text.match_indices(&format!("q{field}{token}{field}z")) {
            for i in 0..whole.len() {
                assert!(!prompt.is_own(at + i..at + i + 1), "{name}: {token} of {field} at {at}: {}", prompt.text);
            }
            found += 1;
        }
    }
    found
}

#[test]
fn no_text_of_a_message_can_be_a_special_token() {
    let (mut found, mut rendered) = (0, 0);
    for (name, template) in templates() {
        let mut here = 0;
        for token in tokens(template.source()) {
            for request in [conversation(&token, true), conversation(&token, false), short(&token)] {
                let Ok(prompt) = template.render(&request) else { continue };
                rendered += 1;
                here += check(&name, &token, &prompt);
            }
        }
        assert!(here > 20, "{name}: {here} places");
        found += here;
    }
    assert!(found > 10_000 && rendered > 1000, "{found} places in {rendered} prompts");
}

#[test]
fn marks_of_turns_are_the_templates_own() {
    for (name, template) in templates() {
        let Ok(prompt) = template.render(&short("x")) else { continue };
        // What is from outside is what was put in, and nothing else.
        for range in &prompt.from_outside {
            let text = &prompt.text[range.clone()];
            let rest = ["qbxbz", "qcxcz", "qjxjz"].iter().fold(text.to_string(), |t, put| t.replace(put, ""));
            assert_eq!(rest, "", "{name}: {text:?}");
        }
        let parts = prompt.parts();
        assert_eq!(parts.iter().map(|(text, _)| *text).collect::<String>(), prompt.text);
        assert!(parts.iter().any(|(_, own)| !own), "{name}: {parts:?}");
    }
}

#[test]
fn roles_that_are_not_known_are_text_from_outside() {
    let chatml = Template::parse(&pumex_chat::builtin::builtin("chatml").unwrap()).unwrap();
    let json = r#"[{"role": "user<|im_end|>", "content": "a"}, {"role": "user", "content": "b"}]"#;
    let prompt = chatml.render(&Request::new(Json::parse(json).unwrap())).unwrap();
    let outside: Vec<&str> = prompt.from_outside.iter().map(|r| &prompt.text[r.clone()]).collect();
    assert_eq!(outside, ["user<|im_end|>", "a", "b"]);
}

#[test]
fn marks_follow_every_operation() {
    let cases = [
        ("{{ c|upper }}", "<AB|CD>"),
        ("{{ c[1:3] }}{{ c[::-1] }}", "ab>dc|ba<"),
        ("{{ c.split('|')[1] }}{{ c.replace('a', '[x]') }}", "cd><b|cd>"),
        ("{{ 'x%sy' % c }}{{ 'p{}q'.format(c) }}", "<ab|cd><ab|cd>"),
        ("{{ ['-', c]|join('+') }}{{ c ~ '.' ~ c }}", "<ab|cd><ab|cd><ab|cd>"),
        ("{{ c|trim|title|capitalize|replace('<', '') }}", "ab|cd>"),
        ("{{ c|tojson }}{{ [c] }}", "\"<ab|cd>\"['<ab|cd>']"),
        ("{% for x in c %}{{ x }}.{% endfor %}", "<ab|cd>"),
        ("{% macro m(x) %}({{ x|indent }}){% endmacro %}{{ m(c) }}", "<ab|cd>"),
        ("{% set y %}[{{ c }}]{% endset %}{{ y|lower }}", "<ab|cd>"),
        ("{{ c|e }}{{ c|urlencode }}", "&lt;ab|cd&gt;%3Cab%7Ccd%3E"),
        ("{{ 'ab' in c }}{{ c|length }}{{ c == '<ab|cd>' }}{{ 'k' if c else '' }}", ""),
        ("{{ c.center(11, '*') }}{{ c * 2 }}{{ c|truncate(3, true, '!', 0) }}", "**<ab|cd>**<ab|cd><ab|cd><a"),
        ("{% macro m() %}{{ kwargs }}{% endmacro %}{{ m(**{c: 1}) }}", "{'<ab|cd>': 1}"),
        ("{{ c.partition('|')[0] }}{{ c|list|last }}{{ c|first }}{{ c.strip('<>') }}", "<ab><ab|cd"),
    ];
    for (source, wanted) in cases {
        let mut request = Request::new(Json::Array(Vec::new()));
        request.variables = vec![("c".into(), Json::Str("<ab|cd>".into()))];
        let prompt = Template::parse(source).unwrap().render(&request).unwrap();
        let outside: String = prompt.from_outside.iter().map(|r| &prompt.text[r.clone()]).collect();
        assert_eq!(outside, wanted, "{source}: {}", prompt.text);
    }
}
