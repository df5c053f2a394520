//! In which form a template takes the arguments of earlier calls: as an object, or as its text, as OpenAI's API has them.

use crate::json::Json;
use crate::template::{Request, Template};

/// A form of a call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentForm {
    /// A JSON object.
    Object,
    /// A string that holds one.
    Text,
}

impl Template {
    /// The form that this template prints well, found by trying both. An object, if it makes no difference.
    pub fn argument_form(&self) -> ArgumentForm {
        let printed = |arguments: &str| {
            let messages = format!(
                r#"[{{"role": "user", "content": "u"}}, {{"role": "assistant", "content": "", "tool_calls": [{{"id": "call00001",
                "type": "function", "function": {{"name": "f", "arguments": {arguments}}}}}]}}]"#
            );
            let mut request = Request::new(Json::parse(&messages).ok()?);
            request.add_generation_prompt = false;
            (request.limits.steps, request.limits.bytes) = (1_000_000, 16 << 20);
            self.render(&request).ok().map(|p| p.text)
        };
        // Printed badly: not at all, as Python prints it, or as a string in a string.
        let well = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or_default();
            text.contains("key1") && !["{'key1'", "{\\\"key1", "key1\\\""].iter().any(|bad| text.contains(bad))
        };
        let object = printed(r#"{"key1": "v"}"#);
        let text = printed(r#""{\"key1\": \"v\"}""#);
        if !well(&object) && well(&text) {
            ArgumentForm::Text
        } else {
            ArgumentForm::Object
        }
    }
}

impl Request {
    /// Brings the arguments of all calls in the messages into a form. What is no JSON object stays as it is.
    pub fn bring_arguments(&mut self, form: ArgumentForm) {
        let Json::Array(messages) = &mut self.messages else { return };
        for message in messages {
            let Some(Json::Array(calls)) = entry(message, "tool_calls") else { continue };
            for call in calls {
                let call = if call.get("function").is_some() { entry(call, "function") } else { Some(call) };
                let Some(arguments) = call.and_then(|c| entry(c, "arguments")) else { continue };
                let other = match (&*arguments, form) {
                    (Json::Str(text), ArgumentForm::Object) => {
                        Json::parse(text).ok().filter(|v| matches!(v, Json::Object(_)))
                    }
                    (Json::Object(_), ArgumentForm::Text) => Some(Json::Str(arguments.dump())),
                    _ => None,
                };
                if let Some(other) = other {
                    *arguments = other;
                }
            }
        }
    }
}

fn entry<'a>(of: &'a mut Json, key: &str) -> Option<&'a mut Json> {
    match of {
        Json::Object(entries) => entries.iter_mut().find(|(k, _)| k == key).map(|(_, v)| v),
        _ => None,
    }
}
