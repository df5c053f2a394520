//! Functions for a model whose template knows none: it is told of them in the system's message, and writes calls as JSON between marks.

use pumex_chat::Json;

/// The notation that it is told, by its name among the known ones.
pub const FORMAT: &str = "hermes";

/// What it is told of functions.
fn lesson(tools: &Json) -> String {
    let each = tools.as_array().unwrap_or_default().iter().map(|tool| tool.get("function").unwrap_or(tool).dump());
    format!(
        "You may call these functions:\n{}\n\nTo call one, write its name and its arguments as JSON between these marks:\n\
         <tool_call>\n{{\"name\": \"NAME\", \"arguments\": {{}}}}\n</tool_call>",
        each.collect::<Vec<_>>().join("\n")
    )
}

fn pair(key: &str, text: String) -> (String, Json) {
    (key.to_string(), Json::Str(text))
}

fn text(message: &Json, key: &str) -> String {
    message.get(key).and_then(Json::as_str).unwrap_or_default().to_string()
}

/// A message in words alone: calls stand in its text, and results are the user's.
fn plain(message: Json) -> Json {
    let role = text(&message, "role");
    if role == "tool" {
        let result = format!("<tool_response>\n{}\n</tool_response>", text(&message, "content"));
        return Json::Object(vec![pair("role", "user".into()), pair("content", result)]);
    }
    let Some(calls) = message.get("tool_calls").and_then(Json::as_array).filter(|calls| !calls.is_empty()) else {
        return message;
    };
    let call = |call: &Json| {
        let function = call.get("function").unwrap_or(call);
        let arguments = match function.get("arguments") {
            // Text of JSON, as requests have it.
            Some(Json::Str(text)) => text.clone(),
            Some(other) => other.dump(),
            None => "{}".into(),
        };
        format!(
            "<tool_call>\n{{\"name\": {}, \"arguments\": {arguments}}}\n</tool_call>",
            Json::Str(text(function, "name")).dump()
        )
    };
    let own = Some(text(&message, "content")).filter(|own| !own.is_empty());
    let all: Vec<String> = own.into_iter().chain(calls.iter().map(call)).collect();
    Json::Object(vec![pair("role", role), pair("content", all.join("\n"))])
}

/// Messages for a model that is told of the functions so.
pub fn add_tool_prompt(messages: Vec<Json>, tools: &Json) -> Vec<Json> {
    let mut messages: Vec<Json> = messages.into_iter().map(plain).collect();
    let lesson = lesson(tools);
    let system = messages.first().filter(|first| text(first, "role") == "system").map(|first| text(first, "content"));
    let content = match &system {
        Some(own) if !own.is_empty() => format!("{own}\n\n{lesson}"),
        _ => lesson,
    };
    messages.drain(..usize::from(system.is_some()));
    messages.insert(0, Json::Object(vec![pair("role", "system".into()), pair("content", content)]));
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_calls_and_results_are_words() {
        let json = |text: &str| Json::parse(text).unwrap();
        let tools = json(r#"[{"type": "function", "function": {"name": "f"}}]"#);
        let messages = json(
            r#"[{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
                {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
                {"role": "tool", "content": "r"}]"#,
        );
        let out = add_tool_prompt(messages.as_array().unwrap().to_vec(), &tools);
        let of = |at: usize| (text(&out[at], "role"), text(&out[at], "content"));
        assert!(out.len() == 4 && of(0).1.starts_with("s\n\nYou may call") && of(0).1.contains("\"f\""));
        assert_eq!(of(2).1, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>");
        assert_eq!(of(3), ("user".to_string(), "<tool_response>\nr\n</tool_response>".to_string()));
        let bare = add_tool_prompt(vec![json(r#"{"role": "user", "content": "u"}"#)], &tools);
        assert_eq!((bare.len(), text(&bare[0], "role").as_str()), (2, "system"));
    }
}
