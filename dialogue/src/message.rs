//! Messages as OpenAI's API has them, and what people do with a list of them.

use pumex_chat::Json;
use serde::{Deserialize, Serialize};

use pumex_gguf::{Error, Result};

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Its text.
    pub content: String,
    /// An assistant's reasoning before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Calls of an assistant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// For a message of a tool: the call whose result it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// For a message of a tool: the function that was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The call's name.
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is called.
    pub function: Function,
}

/// A function's name, and the text of a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Name.
    pub name: String,
    /// Arguments.
    pub arguments: String,
}

impl Message {
    /// A message of text.
    pub fn new(role: &str, content: impl Into<String>) -> Message {
        Message { role: role.to_string(), content: content.into(), ..Message::default() }
    }

    /// The message as JSON for templates.
    pub fn json(&self) -> Json {
        let text = |text: &str| Json::Str(text.to_string());
        let pair = |key: &str, value: Json| (key.to_string(), value);
        let mut pairs = vec![pair("role", text(&self.role)), pair("content", text(&self.content))];
        let some = |key: &str, value: &Option<String>| value.as_deref().map(|value| pair(key, text(value)));
        pairs.extend(some("reasoning_content", &self.reasoning_content));
        let call = |call: &ToolCall| {
            let function =
                vec![pair("name", text(&call.function.name)), pair("arguments", text(&call.function.arguments))];
            let all = vec![
                pair("id", text(&call.id)),
                pair("type", text(&call.kind)),
                pair("function", Json::Object(function)),
            ];
            Json::Object(all)
        };
        if !self.tool_calls.is_empty() {
            pairs.push(pair("tool_calls", Json::Array(self.tool_calls.iter().map(call).collect())));
        }
        pairs.extend(some("tool_call_id", &self.tool_call_id));
        pairs.extend(some("name", &self.name));
        Json::Object(pairs)
    }
}

/// The messages of a conversation: a system message or none, then turns, each of which a user's message begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Talk {
    messages: Vec<Message>,
}

impl Talk {
    /// Takes messages over.
    ///
    /// # Errors
    /// Names the first that has an unknown role, or is a system message at another place than the first.
    pub fn of(messages: Vec<Message>) -> Result<Talk> {
        for (i, message) in messages.iter().enumerate() {
            let role = message.role.as_str();
            let first = i == 0 || (i == 1 && messages[0].role == "system");
            let fits = match role {
                "system" => i == 0,
                "user" => true,
                "assistant" | "tool" => !first,
                _ => false,
            };
            if !fits {
                let role: String = role.chars().take(40).collect();
                return Err(Error::Request(format!(
                    "message {i}: expected system, then user, assistant or tool, found {role:?}"
                )));
            }
        }
        Ok(Talk { messages })
    }

    /// All messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Appends a message.
    pub fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// The system message's text.
    pub fn system(&self) -> Option<&str> {
        self.messages.first().filter(|m| m.role == "system").map(|m| m.content.as_str())
    }

    /// Replaces the system message; empty: there is none then.
    pub fn set_system(&mut self, text: &str) {
        let had = self.system().is_some();
        self.messages.drain(..usize::from(had));
        if !text.is_empty() {
            self.messages.insert(0, Message::new("system", text));
        }
    }

    /// Drops all but the system message.
    pub fn clear(&mut self) {
        let keep = usize::from(self.system().is_some());
        self.messages.truncate(keep);
    }

    /// Takes the last turn away, from the user's message on. Gives that one's text.
    pub fn undo(&mut self) -> Option<String> {
        let at = self.messages.iter().rposition(|m| m.role == "user")?;
        let text = self.messages[at].content.clone();
        self.messages.truncate(at);
        Some(text)
    }

    /// Takes the last answer away, so that another can be given. False if there is none.
    pub fn retry(&mut self) -> bool {
        let answered = self.messages.last().is_some_and(|m| m.role == "assistant");
        self.messages.truncate(self.messages.len() - usize::from(answered));
        answered
    }

    /// Takes the oldest turn away, unless it is the only one.
    pub fn drop_oldest(&mut self) -> bool {
        let first = usize::from(self.system().is_some());
        let next = self.messages.iter().skip(first + 1).position(|m| m.role == "user");
        let Some(next) = next else { return false };
        self.messages.drain(first..=first + next);
        true
    }

    /// Turns that there are.
    pub fn turns(&self) -> usize {
        self.messages.iter().filter(|m| m.role == "user").count()
    }

    /// The first call of the last answer that has no result yet.
    pub fn open_call(&self) -> Option<&ToolCall> {
        let at = self.messages.iter().rposition(|m| m.role != "tool")?;
        let results = self.messages.len() - at - 1;
        self.messages[at].tool_calls.get(results)
    }

    /// Gives that call its result. False if there is none.
    pub fn answer_call(&mut self, text: &str) -> bool {
        let Some(call) = self.open_call().cloned() else { return false };
        let (id, name) = (Some(call.id), Some(call.function.name));
        self.messages.push(Message { tool_call_id: id, name, ..Message::new("tool", text) });
        true
    }
}

/// Function definitions of a file: a list, or an object with one under `tools`; bare functions are put into the API's shape.
///
/// # Errors
/// What is no JSON, is nested too deeply, or has no name.
pub fn functions(text: &str) -> Result<Json> {
    let bad = |what: &str| Error::Request(what.to_string());
    let json = Json::parse(text).map_err(|e| Error::Request(e.to_string()))?;
    let list = json.get("tools").unwrap_or(&json).as_array();
    let list = list.ok_or_else(|| bad("expected a list of functions, or an object with one under \"tools\""))?;
    let shaped = |(i, tool): (usize, &Json)| {
        let function = tool.get("function").unwrap_or(tool);
        match function.get("name").and_then(Json::as_str).filter(|name| !name.is_empty()) {
            None => Err(bad(&format!("function {i}: expected a name, found none"))),
            Some(_) if tool.get("function").is_some() => Ok(tool.clone()),
            Some(_) => Ok(Json::Object(vec![
                ("type".to_string(), Json::Str("function".to_string())),
                ("function".to_string(), tool.clone()),
            ])),
        }
    };
    Ok(Json::Array(list.iter().enumerate().map(shaped).collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(roles: &str) -> Talk {
        let name = |c| match c {
            's' => "system",
            'u' => "user",
            'a' => "assistant",
            _ => "tool",
        };
        Talk::of(roles.chars().enumerate().map(|(i, c)| Message::new(name(c), i.to_string())).collect()).unwrap()
    }

    fn shape(talk: &Talk) -> String {
        talk.messages().iter().map(|m| format!("{}{}", &m.role[..1], m.content)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn turns_go_from_either_end_and_the_system_message_stays() {
        let mut t = talk("suaua");
        assert_eq!((t.undo().as_deref(), shape(&t).as_str()), (Some("3"), "s0 u1 a2"));
        assert!(t.retry() && !t.retry());
        assert_eq!(shape(&t), "s0 u1");
        assert!(!t.drop_oldest(), "the only turn stays");
        let mut t = talk("suatauau");
        assert!(t.drop_oldest());
        assert_eq!((shape(&t).as_str(), t.turns()), ("s0 u5 a6 u7", 2));
        t.set_system("x");
        assert_eq!(t.system(), Some("x"));
        t.set_system("");
        assert_eq!((t.system(), shape(&t).as_str()), (None, "u5 a6 u7"));
        t.clear();
        assert_eq!((t.undo(), t.turns()), (None, 0));
    }

    #[test]
    fn calls_get_their_results_in_order() {
        let call = |id: &str| ToolCall {
            id: id.to_string(),
            kind: "function".to_string(),
            function: Function { name: "f".to_string(), arguments: "{}".to_string() },
        };
        let mut t = talk("u");
        assert!(!t.answer_call("no"));
        t.push(Message { tool_calls: vec![call("1"), call("2")], ..Message::new("assistant", "") });
        assert!(t.answer_call("a"));
        assert_eq!(t.open_call().map(|c| c.id.as_str()), Some("2"));
        assert!(t.answer_call("b") && !t.answer_call("c"));
        assert_eq!(t.messages().last().unwrap().tool_call_id.as_deref(), Some("2"));
    }

    #[test]
    fn a_list_that_no_conversation_has_is_refused() {
        for bad in [vec!["assistant"], vec!["user", "system"], vec!["wizard"], vec!["system", "tool"]] {
            let error = Talk::of(bad.iter().map(|r| Message::new(r, "")).collect()).unwrap_err();
            assert!(error.to_string().contains("expected system"), "{error}");
        }
    }

    #[test]
    fn definitions_of_functions_are_brought_into_one_shape() {
        let shaped = r#"[{"type": "function", "function": {"name": "f"}}]"#;
        for given in [r#"[{"name": "f"}]"#, r#"{"tools": [{"name": "f"}]}"#, shaped] {
            assert_eq!(functions(given).unwrap(), Json::parse(shaped).unwrap());
        }
        assert!(functions("[{}]").unwrap_err().to_string().contains("function 0"));
        assert!(functions(&"[".repeat(1 << 20)).unwrap_err().to_string().starts_with("JSON"));
    }
}
