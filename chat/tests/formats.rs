//! Formats of replies, found from the templates of real models; and what templates print, read back.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use pumex_chat::reply::{Event, Format, Parser};
use pumex_chat::{Json, Request, Template};

fn template(name: &str) -> Template {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/templates").join(format!("{name}.jinja"));
    Template::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Template, format, what reasoning opens with.
const FORMATS: &[(&str, &str, &str)] = &[
    ("Apertus-8B-Instruct", "apertus", "<|inner_prefix|>"),
    ("Bielik-11B-v3.0-Instruct", "hermes", "<think>"),
    ("ByteDance-Seed-OSS", "seed-oss", "<seed:think>"),
    ("CohereForAI-c4ai-command-r-plus-tool_use", "command-r", ""),
    ("CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command-r7b", "<|START_THINKING|>"),
    ("GLM-4.7-Flash", "glm", "<think>"),
    ("GigaChat3-10B-A1.8B", "json", ""),
    ("HuggingFaceTB-SmolLM3-3B", "plain", "<think>"),
    ("Kimi-K2-Instruct", "kimi-k2", ""),
    ("Kimi-K3", "kimi-k3", "<|open|>think<|sep|>"),
    ("LFM2-8B-A1B", "lfm2", ""),
    ("LFM2.5-Instruct", "lfm2", "<think>"),
    ("MiMo-VL", "hermes", ""),
    ("MiniMax-M2", "minimax-m2", "<think>"),
    ("MiniMax-M3", "minimax-m3", "<mm:think>"),
    ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3-coder", "<think>"),
    ("NVIDIA-Nemotron-Nano-v2", "nemotron-v2", "<think>"),
    ("Qwen-QwQ-32B", "hermes", "<think>"),
    ("Qwen-Qwen2.5-7B-Instruct", "hermes", ""),
    ("Qwen3-Coder", "qwen3-coder", ""),
    ("Qwen3.5-4B", "qwen3-coder", "<think>"),
    ("Spark2.5", "glm", "<think>"),
    ("StepFun3.5-Flash", "qwen3-coder", "<think>"),
    ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-r1", "<think>"),
    ("deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1", "<think>"),
    ("deepseek-ai-DeepSeek-V4-Flash-0731", "deepseek-dsml", "<think>"),
    ("deepseek-ai-DeepSeek-V4", "deepseek-dsml", "<think>"),
    ("google-gemma-2-2b-it", "plain", ""),
    ("google-gemma-4-31B-it-interleaved", "gemma4", "<|channel>thought"),
    ("ibm-granite-granite-3.3-2B-Instruct", "granite", "<think>"),
    ("ibm-granite-granite-4.0", "hermes", ""),
    ("inclusionai-ling-3.0-flash", "glm", "<think>"),
    ("llama-cpp-deepseek-r1", "deepseek-r1", "<think>"),
    ("meetkai-functionary-medium-v3.1", "functionary-v3.1", ""),
    ("meetkai-functionary-medium-v3.2", "functionary-v3.2", ""),
    ("meta-llama-Llama-3.2-3B-Instruct", "llama3", ""),
    ("microsoft-Phi-3.5-mini-instruct", "plain", ""),
    ("mistralai-Mistral-Nemo-Instruct-2407", "mistral", ""),
    ("moonshotai-Kimi-K2", "kimi-k2", ""),
    ("openai-gpt-oss-120b", "gpt-oss", ""),
    ("openbmb-MiniCPM5-1B", "minicpm5", "<think>"),
    ("poolside-Laguna-XS-2.1", "glm", "<think>"),
    ("poolside-Laguna-XS.2", "glm", "<think>"),
    ("unsloth-Apriel-1.5", "json", "<thinking>"),
    ("unsloth-mistral-Devstral-Small-2507", "mistral", ""),
];

#[test]
fn formats_are_found_from_templates() {
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/templates")).unwrap();
    assert_eq!(files.count(), FORMATS.len());
    for (name, format, open) in FORMATS {
        let found = Format::of(&template(name));
        let reasoning = found.reasoning.map(|r| r.open).unwrap_or_default();
        assert_eq!((found.name.as_str(), reasoning.as_str()), (*format, *open), "{name}");
    }
}

/// What a template prints for an answer with a call is what a parser of its format reads.
#[test]
fn printed_calls_are_read_back() {
    let tools = Json::parse(
        r#"[{"type": "function", "function": {"name": "look", "description": "d", "parameters": {"type": "object",
        "properties": {"place": {"type": "string", "description": "d"}, "days": {"type": "integer", "description": "d"}}}}}]"#,
    )
    .unwrap();
    let mut read = 0;
    for (name, format, _) in FORMATS.iter().filter(|f| !["plain", "gpt-oss"].contains(&f.1)) {
        let template = template(name);
        let render = |messages: &str, open: bool| {
            let mut request = Request::new(Json::parse(messages).unwrap());
            request.tools = Some(tools.clone());
            request.add_generation_prompt = open;
            template.render(&request).ok().map(|p| p.text)
        };
        let before = render(r#"[{"role": "user", "content": "u"}]"#, true).unwrap_or_default();
        let printed = |arguments: &str| {
            let messages = format!(
                r#"[{{"role": "user", "content": "u"}}, {{"role": "assistant", "content": "", "tool_calls": [{{"id": "call00001",
                "type": "function", "function": {{"name": "look", "arguments": {arguments}}}}}]}}]"#
            );
            render(&messages, false)
        };
        let object = r#"{"place": "Z\u00fcrich <b>", "days": 3}"#;
        let text = r#""{\"place\": \"Z\u00fcrich <b>\", \"days\": 3}""#;
        let ok = [object, text].iter().filter_map(|a| printed(a)).any(|text| {
            // The reply is what stands behind the prompt.
            let same = text.char_indices().zip(before.chars()).find(|((_, a), b)| a != b);
            let at = same.map_or(before.len(), |((at, _), _)| at);
            // A mark that both begin with is the reply's.
            let at = text[..at].rfind('<').filter(|open| !text[*open..at].contains('>')).unwrap_or(at);
            let mut parser = Parser::new(&Format::of(&template), Some(&tools), &text[..at]);
            let mut events = parser.push(&text.as_bytes()[at..]);
            events.extend(parser.finish());
            let mut arguments = String::new();
            let mut named = false;
            for event in events {
                match event {
                    Event::CallStart { name, .. } => named |= name == "look",
                    Event::CallArguments { delta, .. } => arguments.push_str(&delta),
                    _ => (),
                }
            }
            let wanted = Json::parse(r#"{"place": "Zürich <b>", "days": 3}"#).unwrap();
            let same = |json: Json| ["place", "days"].iter().all(|k| json.get(k) == wanted.get(k));
            named && Json::parse(&arguments).is_ok_and(same)
        });
        println!("{name}: {format}: {ok}");
        read += usize::from(ok);
    }
    println!("{read} read back");
    assert!(read >= 37, "{read}");
}
