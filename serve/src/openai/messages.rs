//! Conversations in OpenAI's shape: messages, functions, and how they are to be answered.

use crate::engine::{Chat, Reasoning, ToolChoice};
use crate::errors::{unsupported, Result};
use crate::fields::Fields;
use serde_json::{json, Map, Value};

/// What stands between parts of a message that is to be continued.
const BETWEEN: &str = "\n\n";
/// Most tokens of reasoning that may be asked for.
const BUDGET: usize = i32::MAX as usize;

/// The conversation of a request to chat.
///
/// # Errors
/// Messages or functions of a wrong shape; media.
pub(crate) fn chat(fields: &Fields) -> Result<Chat> {
    fields.required("messages")?;
    let mut messages = Vec::new();
    for message in fields.objects("messages")? {
        messages.push(self::message(&message)?);
    }
    let tools = tools(fields)?;
    let opens = fields.boolean("add_generation_prompt")?;
    let continues = fields.boolean("continue_final_message")?.unwrap_or(false);
    let mut chat = Chat {
        tool_choice: tool_choice(fields, &tools)?,
        tools,
        parallel_tool_calls: fields.boolean("parallel_tool_calls")?,
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
        true if opens.is_none() || continues => prefill(fields, &mut chat)?,
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
fn message(fields: &Fields) -> Result<Value> {
    let role = fields.required_text("role")?;
    match fields.value("content") {
        None if role != "assistant" && !fields.map().contains_key("content") => {
            return Err(fields.refuse("content", "this field is required"));
        }
        None | Some(Value::String(_)) => {}
        Some(Value::Array(_)) => fields.objects("content")?.iter().try_for_each(part)?,
        Some(other) => return Err(fields.wrong("content", "a string or a list of parts", other)),
    }
    fields.text("reasoning_content")?;
    for call in fields.objects("tool_calls")? {
        let function = call.object("function")?.ok_or_else(|| call.refuse("function", "this field is required"))?;
        function.required_text("name")?;
        match function.value("arguments") {
            None | Some(Value::String(_) | Value::Object(_)) => {}
            Some(other) => return Err(function.wrong("arguments", "a string", other)),
        }
    }
    let mut message = fields.map().clone();
    if role == "developer" {
        message.insert("role".into(), "system".into());
    }
    Ok(Value::Object(message))
}

/// A part of a message: text, or what this engine does not see.
fn part(fields: &Fields) -> Result<()> {
    match fields.required_text("type")? {
        "text" | "refusal" | "input_text" | "output_text" => fields.required_text("text").map(drop),
        "image_url" | "image" | "input_image" => Err(unsupported(format!(
            "/{}: image input is not supported - this model reads text only",
            fields.pointer("type")
        ))),
        "input_audio" | "audio" | "video_url" | "file" | "input_file" => {
            Err(unsupported(format!("/{}: media input is not supported", fields.pointer("type"))))
        }
        other => Err(fields.refuse("type", format!("unsupported content[].type {other:?}"))),
    }
}

/// Functions that an answer may call.
fn tools(fields: &Fields) -> Result<Vec<Value>> {
    let mut tools = Vec::new();
    for tool in fields.objects("tools")? {
        match tool.text("type")?.unwrap_or("function") {
            "function" => {}
            other => return Err(tool.refuse("type", format!("expected \"function\", found {other:?}"))),
        }
        let function = tool.object("function")?.ok_or_else(|| tool.refuse("function", "this field is required"))?;
        check_function(&function)?;
        tools.push(Value::Object(tool.map().clone()));
    }
    Ok(tools)
}

/// A function's name, description and parameters.
pub(crate) fn check_function(function: &Fields) -> Result<()> {
    if function.required_text("name")?.is_empty() {
        return Err(function.refuse("name", "expected a name, found none"));
    }
    function.text("description")?;
    function.object("parameters")?;
    Ok(())
}

/// `tool_choice`: a word, or a function.
pub(crate) fn tool_choice(fields: &Fields, tools: &[Value]) -> Result<ToolChoice> {
    const NAME: &str = "tool_choice";
    let choice = match fields.value(NAME) {
        None => return Ok(ToolChoice::Auto),
        Some(Value::Object(_)) => {
            let choice = fields.object(NAME)?.unwrap_or_else(|| fields.clone());
            match choice.object("function")? {
                Some(function) => ToolChoice::Function(function.required_text("name")?.to_string()),
                // Responses' shape.
                None => ToolChoice::Function(choice.required_text("name")?.to_string()),
            }
        }
        Some(_) => {
            let words = [
                ("auto", ToolChoice::Auto),
                ("none", ToolChoice::None),
                ("required", ToolChoice::Required),
                ("any", ToolChoice::Required),
            ];
            let choices: Vec<(&str, usize)> = words.iter().enumerate().map(|(i, (word, _))| (*word, i)).collect();
            fields.choice(NAME, &choices)?.map_or(ToolChoice::Auto, |i| words[i].1.clone())
        }
    };
    check_choice(fields, &choice, tools)?;
    Ok(choice)
}

/// Refuses a choice of what is not there.
pub(crate) fn check_choice(fields: &Fields, choice: &ToolChoice, tools: &[Value]) -> Result<()> {
    let known = |name: &str| tools.iter().any(|t| t["function"]["name"] == name);
    match choice {
        ToolChoice::Required if tools.is_empty() => {
            Err(fields.refuse("tool_choice", "a call is required, but no tools are given"))
        }
        ToolChoice::Function(name) if !known(name) => {
            Err(fields.refuse("tool_choice", format!("the function {name:?} is not among the tools")))
        }
        _ => Ok(()),
    }
}

/// Names for the template.
pub(crate) fn kwargs(fields: &Fields) -> Result<Map<String, Value>> {
    let given = fields.object("chat_template_kwargs")?;
    if let Some(given) = &given {
        given.boolean("enable_thinking")?;
    }
    let mut names = given.map(|k| k.map().clone()).unwrap_or_default();
    if let Some(effort) = fields.text("reasoning_effort")? {
        names.entry("reasoning_effort").or_insert(json!(effort));
    }
    Ok(names)
}

/// What becomes of reasoning.
fn reasoning(fields: &Fields) -> Result<Reasoning> {
    let formats = [("none", true), ("auto", false), ("deepseek", false), ("deepseek-legacy", true)];
    let inline = fields.choice("reasoning_format", &formats)?.unwrap_or(false);
    let budget = match fields.integer("thinking_budget_tokens", -1..=BUDGET as i64)? {
        Some(n) => Some(n),
        None => fields.integer("reasoning_budget", -1..=BUDGET as i64)?,
    };
    let enabled = fields.text("reasoning_effort")?.filter(|e| *e == "none").map(|_| false);
    Ok(Reasoning { enabled, budget: budget.and_then(|n| usize::try_from(n).ok()), inline })
}
