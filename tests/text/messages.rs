//! What stands in a message never becomes a special token: every special token of a vocabulary, in every field of a conversation,
//! through every template.

use std::path::{Path, PathBuf};

use pumex::chat::{encode_prompt, Json, RenderedPrompt, Request, Template};
use pumex::gguf::Gguf;
use pumex::text::Tokenizer;
use serde_json::json;

/// The templates in a folder; those that the project keeps, or all there are.
fn templates() -> Vec<(String, Template)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("chat/tests/golden/templates");
    let folder = crate::util::shared_folder().map_or(own, |shared| shared.join("golden/chat/templates"));
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, Template::parse(&std::fs::read_to_string(path).unwrap()).unwrap())
    };
    paths.into_iter().map(read).collect()
}

/// The demo's vocabulary and those in shared/.
fn vocabularies() -> Vec<(String, Tokenizer)> {
    let mut paths = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.gguf")];
    if let Some(shared) = crate::util::shared_folder() {
        let of = std::fs::read_dir(shared.join("vocab")).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(of.filter(|path| path.extension().is_some_and(|e| e == "gguf")));
    }
    paths.sort();
    let read = |path: PathBuf| {
        let gguf = Gguf::open(&path).unwrap();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), Tokenizer::from_gguf(&gguf).unwrap())
    };
    paths.into_iter().map(read).collect()
}

/// A conversation with `text` in every field that a message has, in the roles that most templates take, and its tools.
fn conversations(text: &str) -> Vec<serde_json::Value> {
    let call = |arguments: serde_json::Value| {
        let function = json!({ "name": text, "arguments": arguments });
        json!([{ "type": "function", "id": text, "function": function }])
    };
    let tools = json!([{ "type": "function", "function": { "name": text, "description": text,
        "parameters": { "type": "object", "properties": { "a": { "type": "string", "description": text } } } } }]);
    let with = |system: bool, calls: Option<serde_json::Value>| {
        let mut all = vec![];
        if system {
            all.push(json!({ "role": "system", "content": text }));
        }
        all.push(json!({ "role": "user", "content": text }));
        if let Some(calls) = calls {
            all.push(json!({ "role": "assistant", "content": text, "tool_calls": calls }));
            all.push(json!({ "role": "tool", "name": text, "tool_call_id": text, "content": text }));
        }
        all.push(json!({ "role": "assistant", "content": text, "reasoning_content": text, "thinking": text }));
        all.push(json!({ "role": "user", "content": text }));
        all
    };
    let called = |system| with(system, Some(call(json!({ "a": text }))));
    vec![
        json!({ "messages": with(true, None), "add_generation_prompt": true }),
        json!({ "messages": with(false, None), "add_generation_prompt": false }),
        json!({ "messages": called(true), "tools": tools, "add_generation_prompt": true }),
        json!({ "messages": called(false), "tools": tools, "add_generation_prompt": true }),
    ]
}

/// Ids that steer a model, in order.
fn steering(tokenizer: &Tokenizer, prompt: &RenderedPrompt) -> Vec<u32> {
    let ids = encode_prompt(tokenizer, prompt).unwrap();
    ids.into_iter().filter(|&id| tokenizer.is_control(id) && tokenizer.unk() != Some(id)).collect()
}

/// The prompt with nothing but letters from outside.
fn harmless(prompt: &RenderedPrompt) -> RenderedPrompt {
    let mut bytes = prompt.text.clone().into_bytes();
    prompt.from_outside.iter().for_each(|range| bytes[range.clone()].fill(b'x'));
    RenderedPrompt { text: String::from_utf8(bytes).unwrap(), from_outside: prompt.from_outside.clone() }
}

#[test]
fn no_message_spells_a_special_token_in_any_template() {
    let (templates, mut rendered) = (templates(), 0);
    for (vocabulary, tokenizer) in vocabularies() {
        let special = (0..tokenizer.n_vocab() as u32).filter(|&id| tokenizer.is_control(id));
        let texts: Vec<String> =
            special.map(|id| String::from_utf8_lossy(tokenizer.token_text(id)).into_owned()).collect();
        // All of a vocabulary's at once, by threes side by side, as halves of them could meet.
        let parts: Vec<String> =
            texts.chunks(48).map(|some| some.chunks(3).map(|t| t.concat() + " ").collect()).collect();
        for (name, template) in &templates {
            for text in parts.iter().take(if crate::util::exhaustive() { usize::MAX } else { 1 }) {
                for talk in conversations(text) {
                    let mut request = Request::from_json(&talk.to_string()).unwrap();
                    request.bring_arguments(template.argument_form());
                    (request.bos, request.eos) = ("<s>".into(), "</s>".into());
                    let Ok(prompt) = template.render(&request) else { continue };
                    rendered += 1;
                    let (found, expected) = (steering(&tokenizer, &prompt), steering(&tokenizer, &harmless(&prompt)));
                    assert_eq!(found, expected, "{vocabulary}, {name}");
                }
            }
        }
    }
    assert!(rendered > 30, "{rendered} prompts");
    // What the template writes itself counts, or the test would say nothing.
    let (_, demo) = vocabularies().into_iter().find(|(name, _)| name == "demo").unwrap();
    let end = std::str::from_utf8(demo.token_text(demo.eos().unwrap())).unwrap();
    let source = format!("{{% for m in messages %}}{{{{ m.content }}}}{end}{{% endfor %}}");
    let request = Request::new(Json::parse(&json!([{ "role": "user", "content": end }]).to_string()).unwrap());
    let prompt = Template::parse(&source).unwrap().render(&request).unwrap();
    assert_eq!(steering(&demo, &prompt).iter().filter(|&&id| Some(id) == demo.eos()).count(), 1);
}
