//! Any text as a template, and as messages of a simple one: a prompt or an error, in bounded time and memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumex::chat::{Request, Template};

const TALK: &str = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": []}"#;

fuzz_target!(|text: &str| {
    if let (Ok(template), Ok(request)) = (Template::parse(text), Request::from_json(TALK)) {
        let _ = template.render(&request);
        let _ = pumex::chat::reply::Format::of(&template);
    }
    let source = "{% for m in messages %}{{ m.role }}: {{ m.content }} {{ m|tojson }}{% endfor %}";
    if let (Ok(template), Ok(request)) = (Template::parse(source), Request::from_json(text)) {
        let _ = template.render(&request);
    }
});
