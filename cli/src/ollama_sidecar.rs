//! What stands beside a model in a file of Ollama's words: the sampler's defaults and a system message become facts of the model.

use std::path::Path;

use pumex_gguf::{Gguf, Value};
use serde_json::Value as Json;

/// What the file's name ends in, behind the model's.
const END: &str = ".ollama.json";
/// Most bytes that are read of it.
const MOST: u64 = 4 << 20;

/// Ollama's parameters of the sampler, with the keys by which a model's file says the same.
const SAMPLING: &[(&str, &str)] = &[
    ("temperature", "temp"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("repeat_penalty", "penalty_repeat"),
    ("repeat_last_n", "penalty_last_n"),
    ("mirostat", "mirostat"),
    ("mirostat_tau", "mirostat_tau"),
    ("mirostat_eta", "mirostat_eta"),
];

/// The file as what stands beside it says it is. What is there and cannot be read is told, and passed over.
pub fn apply(gguf: Gguf) -> Gguf {
    let Some(said) = read(gguf.path()) else { return gguf };
    let mut pairs: Vec<(String, Value)> = Vec::new();
    for (name, value) in said["parameters"].as_object().into_iter().flatten() {
        let known = SAMPLING.iter().find(|(word, _)| word == name);
        match (known, value.as_f64()) {
            (Some((_, key)), Some(number)) => pairs.push((format!("general.sampling.{key}"), number_of(value, number))),
            _ => tracing::info!("{name} of {END} has no effect here"),
        }
    }
    if let Some(system) = said["system"].as_str().filter(|text| !text.trim().is_empty()) {
        match gguf.meta().opt_str("tokenizer.chat_template") {
            Ok(Some(template)) => {
                let text = Value::Str(with_system(template, system).into_bytes());
                pairs.push(("tokenizer.chat_template".into(), text));
            }
            _ => tracing::warn!("the system message of {END} is left out, as the file has no chat template"),
        }
    }
    if pairs.is_empty() {
        gguf
    } else {
        gguf.with_meta(pairs)
    }
}

/// Whole numbers stay whole.
fn number_of(value: &Json, number: f64) -> Value {
    match value.as_i64().and_then(|whole| i32::try_from(whole).ok()) {
        Some(whole) => Value::I32(whole),
        None => Value::F32(number as f32),
    }
}

/// A template that begins conversations with a message, unless they have one of their own.
fn with_system(template: &str, system: &str) -> String {
    let text = Json::from(system).to_string();
    format!(
        "{{%- if messages and messages[0]['role'] != 'system' %}}\
         {{%- set messages = [{{'role': 'system', 'content': {text}}}] + messages %}}{{%- endif %}}{template}"
    )
}

/// The object beside a file, if there is one.
pub fn read(path: &Path) -> Option<Json> {
    let mut name = path.file_name()?.to_os_string();
    name.push(END);
    let path = path.with_file_name(name);
    let meta = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
    let text = (meta.len() <= MOST).then(|| std::fs::read_to_string(&path).ok()).flatten();
    let said = text.and_then(|text| serde_json::from_str::<Json>(&text).ok()).filter(Json::is_object);
    if said.is_none() {
        tracing::warn!("{}: expected a JSON object of at most {MOST} bytes, found something else", path.display());
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_message_is_a_string_of_the_template_whatever_is_in_it() {
        let text = with_system("T", "a 'b' \"c\"\n%} {{ d }} \\");
        assert!(text.ends_with("{%- endif %}T"), "{text}");
        assert!(text.contains(r#"'content': "a 'b' \"c\"\n%} {{ d }} \\"}]"#), "{text}");
    }

    #[test]
    fn numbers_stay_what_they_are() {
        assert!(matches!(number_of(&Json::from(40), 40.0), Value::I32(40)));
        assert!(matches!(number_of(&Json::from(0.5), 0.5), Value::F32(x) if x == 0.5));
    }
}
