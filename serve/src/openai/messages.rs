//! Conversations in OpenAI's shape: messages, functions, and how they are to be answered.

use super::tools::{tool_choice, tools};
use crate::engine::{Chat, Reasoning};
use crate::errors::Result;
use crate::fields::Fields;
use crate::media::{self, BodyMedia};
use serde_json::{json, Map, Value};

/// What stands between parts of a message that is to be continued.
const BETWEEN: &str = "\n\n";
/// Most tokens of reasoning that may be asked for.
const BUDGET: usize = i32::MAX as usize;

/// The conversation of a request to chat, but for its media, which are found; `prefills`: where it does not say, a last message of
/// the assistant's is continued.
///
/// # Errors
/// Messages or functions of a wrong shape; videos and files.
pub(crate) fn chat<'a>(fields: &Fields<'a>, prefills: bool, media: &mut BodyMedia<'a>) -> Result<Chat> {
    fields.require("messages")?;
    let mut messages = Vec::new();
    for message in fields.objects("messages")? {
        messages.push(self::message(&message, media)?);
    }
    let old = super::functions::are_given(fields);
    let tools = if old { super::functions::tools(fields)? } else { tools(fields)? };
    let (tool_choice, allowed_tools) = match old {
        true => (super::functions::choice(fields, &tools)?, None),
        false => tool_choice(fields, &tools)?,
    };
    let opens = fields.boolean("add_generation_prompt")?;
    let continues = fields.boolean("continue_final_message")?.unwrap_or(false);
    let mut chat = Chat {
        tool_choice,
        allowed_tools,
        tools,
        // An answer in the older shape has room for one.
        parallel_tool_calls: if old { Some(false) } else { fields.boolean("parallel_tool_calls")? },
        template_kwargs: kwargs(fields)?,
        reasoning: reasoning(fields)?,
        add_generation_prompt: opens.unwrap_or(true),
        messages,
        ..Chat::default()
    };
    if opens == Some(true) && continues {
        return Err(fields.refuse("continue_final_message", "cannot be true where add_generation_prompt is"));
    }
    let mine = |m: &Value| m["role"] == "assistant" && m.get("tool_calls").is_none_or(Value::is_null);
    match chat.messages.last().is_some_and(mine) {
        true if (opens.is_none() && prefills) || continues => prefill(fields, &mut chat)?,
        false if continues => {
            return Err(fields.refuse("continue_final_message", "the last message is not the assistant's"))
        }
        _ => {}
    }
    Ok(chat)
}

/// The last message is continued: its text parts become one text.
fn prefill(fields: &Fields, chat: &mut Chat) -> Result<()> {
    let count = chat.messages.len();
    if count > 1 && chat.messages[count - 2]["role"] == "assistant" {
        let text = "at most one message of the assistant's may stand at the end, found two";
        return Err(fields.refuse(&format!("messages/{}", count - 1), text));
    }
    if let Some(Value::Array(parts)) = chat.messages.last().map(|m| &m["content"]) {
        let texts: Vec<&str> = parts.iter().filter_map(|p| p["text"].as_str()).collect();
        let text = texts.join(BETWEEN);
        chat.messages[count - 1]["content"] = text.into();
    }
    (chat.add_generation_prompt, chat.continue_final_message) = (false, true);
    Ok(())
}

/// A message, checked; `developer` is OpenAI's newer word for `system`.
fn message<'a>(fields: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<Value> {
    let role = fields.require_text("role")?;
    let mut marked = None;
    match fields.value("content") {
        None if role != "assistant" && !fields.map().contains_key("content") => {
            return Err(fields.refuse("content", "this field is required"));
        }
        None | Some(Value::String(_)) => {}
        Some(Value::Array(_)) => {
            let parts = fields.objects("content")?;
            marked = Some(parts.iter().map(|p| part(p, media)).collect::<Result<Value>>()?);
        }
        Some(other) => return Err(fields.wrong("content", "a string or a list of parts", other)),
    }
    fields.text("reasoning_content")?;
    for call in fields.objects("tool_calls")? {
        let function = call.object("function")?.ok_or_else(|| call.refuse("function", "this field is required"))?;
        function.require_text("name")?;
        match function.value("arguments") {
            None | Some(Value::String(_) | Value::Object(_)) => {}
            Some(other) => return Err(function.wrong("arguments", "a string", other)),
        }
    }
    // Media may be large: what stands for them is copied instead.
    let own = |(name, value): (&String, &Value)| {
        let parts = if name == "content" { marked.take() } else { None };
        (name.clone(), parts.unwrap_or_else(|| value.clone()))
    };
    let mut message: Map<String, Value> = fields.map().iter().map(own).collect();
    if role == "developer" {
        message.insert("role".into(), "system".into());
    }
    super::functions::renew(fields, &mut message)?;
    Ok(Value::Object(message))
}

/// A part of a message, checked: text, what a model refused, which is what it said, or a medium's mark.
fn part<'a>(fields: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<Value> {
    match fields.require_text("type")? {
        "text" | "input_text" | "output_text" => {
            fields.require_text("text")?;
            Ok(Value::Object(fields.map().clone()))
        }
        "refusal" => Ok(json!({"type": "text", "text": fields.require_text("refusal")?})),
        other => match media::find_medium(fields)? {
            Some(found) => {
                media.add(found);
                Ok(media::mark())
            }
            None => Err(fields.refuse("type", format!("unsupported content[].type {other:?}"))),
        },
    }
}

/// Names for the template.
pub(crate) fn kwargs(fields: &Fields) -> Result<Map<String, Value>> {
    let given = fields.object("chat_template_kwargs")?;
    if let Some(given) = &given {
        given.boolean("enable_thinking")?;
    }
    let mut names = given.map(|k| k.map().clone()).unwrap_or_default();
    for name in ["reasoning_effort", "verbosity"] {
        if let Some(word) = fields.text(name)? {
            names.entry(name).or_insert(json!(word));
        }
    }
    if fields.value("documents").is_some() {
        let documents = fields.objects("documents")?.iter().map(|d| Value::Object(d.map().clone())).collect();
        names.entry("documents").or_insert(documents);
    }
    Ok(names)
}

/// What becomes of reasoning.
fn reasoning(fields: &Fields) -> Result<Reasoning> {
    let formats = [("none", true), ("auto", false), ("deepseek", false), ("deepseek-legacy", true)];
    let inline = fields.choice("reasoning_format", &formats)?;
    let budget = match fields.integer("thinking_budget_tokens", -1..=BUDGET as i64)? {
        Some(n) => Some(n),
        None => fields.integer("reasoning_budget", -1..=BUDGET as i64)?,
    };
    let enabled = fields.text("reasoning_effort")?.filter(|e| *e == "none").map(|_| false);
    Ok(Reasoning { enabled, budget: budget.and_then(|n| usize::try_from(n).ok()), inline })
}
