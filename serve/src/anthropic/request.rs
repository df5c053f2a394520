//! What a request for a message asks for, in the engine's terms.

use super::documents;
use crate::engine::{Chat, Constraint, Generate, Prompt, Reasoning, ToolChoice};
use crate::errors::{RequestFault, Result};
use crate::fields::Fields;
use crate::http::{warn, Caller};
use crate::media::BodyMedia;
use crate::openai::tools::{check_choice, check_function};
use crate::{known_fields, options};
use serde_json::{json, Map, Value};

/// Reads a body, but for its images, which are found.
///
/// # Errors
/// A field of a wrong type, shape or range; documents that are files.
pub(super) fn generate<'a>(fields: &Fields<'a>, caller: &Caller, media: &mut BodyMedia<'a>) -> Result<Generate> {
    let mut request = Generate::new(Prompt::Chat(chat(fields, media)?));
    request.sampling = options::sampling(fields)?;
    request.max_tokens = fields.count("max_tokens", 0..=i32::MAX as usize)?;
    if request.max_tokens.is_none() {
        return Err(fields.refuse("max_tokens", "this field is required"));
    }
    request.stop = options::stop(fields, "stop_sequences")?;
    if let Some((field, schema)) = format(fields)? {
        (request.constraint, request.constraint_field) = (Some(Constraint::Schema(schema)), field);
    }
    request.user =
        match fields.object("metadata")?.map(|m| m.text("user_id").map(|u| u.map(String::from))).transpose()?.flatten()
        {
            Some(user) => Some(caller.key.map_or_else(|| format!("/{user}"), |key| format!("{key}/{user}"))),
            None => caller.key.map(|key| key.to_string()),
        };
    Ok(request)
}

/// The schema that the answer is to be of, and the field that it stands in: `output_config.format`, or what that was called before.
fn format(fields: &Fields) -> Result<Option<(&'static str, Value)>> {
    let config = fields.object("output_config")?;
    let newer = config.map(|c| c.object("format")).transpose()?.flatten();
    let older = fields.object("output_format")?;
    let (name, format) = match (newer, older) {
        (Some(_), Some(_)) => {
            let text = "either output_format or output_config.format may be given, not both";
            return Err(fields.refuse("output_format", text));
        }
        (Some(format), None) => ("output_config/format", format),
        (None, Some(format)) => ("output_format", format),
        (None, None) => return Ok(None),
    };
    match format.require_text("type")? {
        "json_schema" => {
            let schema = options::schema(&format, "schema")?;
            Ok(Some((name, schema.ok_or_else(|| format.refuse("schema", "this field is required"))?)))
        }
        other => Err(format.refuse("type", format!("expected json_schema, found {other:?}"))),
    }
}

/// Refuses conversations that the server would have to hold, by the code at which clients send all of them.
fn no_thread(fields: &Fields) -> Result<()> {
    match fields.value("thread") {
        None => Ok(()),
        Some(_) => {
            let refused = fields.refuse("thread", "is not supported: send all messages of the conversation");
            Err(RequestFault { code: Some("thread_unsupported_request"), ..refused })
        }
    }
}

/// The conversation alone.
pub(super) fn chat<'a>(fields: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<Chat> {
    no_thread(fields)?;
    known_fields::check(fields, &[known_fields::MESSAGES])?;
    fields.require("messages")?;
    let mut messages = Vec::new();
    if let Some(text) = system(fields, media)? {
        messages.push(json!({"role": "system", "content": text}));
    }
    for message in fields.objects("messages")? {
        match message.require_text("role")? {
            "user" => user(&message, &mut messages, media)?,
            "assistant" => messages.push(assistant(&message, media)?),
            "system" => messages.push(json!({"role": "system", "content": text(&message, "content", media)?})),
            other => return Err(message.refuse("role", format!("expected user or assistant, found {other:?}"))),
        }
    }
    let tools = tools(fields)?;
    let (tool_choice, parallel_tool_calls) = tool_choice(fields)?;
    check_choice(fields, &tool_choice, &tools)?;
    let reasoning = thinking(fields)?;
    let mut template_kwargs = Map::new();
    if let Some(enabled) = reasoning.enabled {
        template_kwargs.insert("enable_thinking".into(), enabled.into());
    }
    let config = fields.object("output_config")?;
    if let Some(effort) = config.map(|c| c.text("effort")).transpose()?.flatten() {
        template_kwargs.insert("reasoning_effort".into(), effort.into());
    }
    let continues = messages.last().is_some_and(|m| m["role"] == "assistant" && m.get("tool_calls").is_none());
    Ok(Chat {
        messages,
        media: Vec::new(),
        tools,
        tool_choice,
        allowed_tools: None,
        parallel_tool_calls,
        template_kwargs,
        reasoning,
        add_generation_prompt: !continues,
        continue_final_message: continues,
    })
}

/// `system`: text, or blocks of text.
fn system<'a>(fields: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<Option<String>> {
    match fields.value("system") {
        None => Ok(None),
        Some(_) => text(fields, "system", media).map(Some),
    }
}

/// A string, or blocks of text and images, as one text.
fn text<'a>(fields: &Fields<'a>, name: &str, media: &mut BodyMedia<'a>) -> Result<String> {
    match fields.value(name) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(_)) => {
            let mut texts = Vec::new();
            for block in fields.objects(name)? {
                texts.push(documents::text(&block, media)?);
            }
            Ok(documents::join_texts(&texts))
        }
        Some(other) => Err(fields.wrong(name, "a string or a list of blocks", other)),
    }
}

/// A user's message: results of calls become messages of their own, before the text.
fn user<'a>(message: &Fields<'a>, messages: &mut Vec<Value>, media: &mut BodyMedia<'a>) -> Result<()> {
    let Some(Value::Array(_)) = message.value("content") else {
        messages.push(json!({"role": "user", "content": text(message, "content", media)?}));
        return Ok(());
    };
    let mut parts = Vec::new();
    for block in message.objects("content")? {
        match block.require_text("type")? {
            "tool_result" => {
                let id = block.require_text("tool_use_id")?;
                let content = text(&block, "content", media)?;
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            }
            _ => parts.push(json!({"type": "text", "text": documents::text(&block, media)?})),
        }
    }
    if !parts.is_empty() {
        messages.push(json!({"role": "user", "content": parts}));
    }
    Ok(())
}

/// An assistant's message: thinking, text and calls.
fn assistant<'a>(message: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<Value> {
    let Some(Value::Array(_)) = message.value("content") else {
        return Ok(json!({"role": "assistant", "content": text(message, "content", media)?}));
    };
    let (mut texts, mut thinking, mut calls) = (Vec::<String>::new(), String::new(), Vec::new());
    for block in message.objects("content")? {
        match block.require_text("type")? {
            "thinking" => thinking.push_str(block.require_text("thinking")?),
            "redacted_thinking" => {}
            "tool_use" => {
                let arguments =
                    block.object("input")?.map_or_else(|| "{}".into(), |i| Value::Object(i.map().clone()).to_string());
                let function = json!({"name": block.require_text("name")?, "arguments": arguments});
                calls.push(json!({"id": block.require_text("id")?, "type": "function", "function": function}));
            }
            // Tools that Anthropic's servers ran, in answers of theirs.
            kind @ ("server_tool_use" | "web_search_tool_result") => {
                warn(format!("messages: a block of the type {kind} is left out"));
            }
            _ => texts.push(documents::text(&block, media)?),
        }
    }
    let mut value = json!({"role": "assistant", "content": documents::join_texts(&texts)});
    if !thinking.is_empty() {
        value["reasoning_content"] = thinking.into();
    }
    if !calls.is_empty() {
        value["tool_calls"] = calls.into();
    }
    Ok(value)
}

/// Functions in OpenAI's shape. Tools that Anthropic's own servers run are none of ours, and are left out.
fn tools(fields: &Fields) -> Result<Vec<Value>> {
    let mut tools = Vec::new();
    for tool in fields.objects("tools")? {
        if let Some(kind) = tool.text("type")?.filter(|t| *t != "custom") {
            warn(format!("tools: a tool of the type {kind:?} is left out: this server runs none"));
            continue;
        }
        check_function(&tool)?;
        let mut function = json!({"name": tool.require_text("name")?});
        if let Some(description) = tool.text("description")? {
            function["description"] = description.into();
        }
        if let Some(schema) = tool.object("input_schema")? {
            function["parameters"] = Value::Object(schema.map().clone());
        }
        tools.push(json!({"type": "function", "function": function}));
    }
    Ok(tools)
}

fn tool_choice(fields: &Fields) -> Result<(ToolChoice, Option<bool>)> {
    let Some(choice) = fields.object("tool_choice")? else { return Ok((ToolChoice::Auto, None)) };
    let parallel = choice.boolean("disable_parallel_tool_use")?.map(|d| !d);
    let choice = match choice.require_text("type")? {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Function(choice.require_text("name")?.to_string()),
        other => return Err(choice.refuse("type", format!("expected one of auto, any, none, tool, found {other:?}"))),
    };
    Ok((choice, parallel))
}

/// `thinking`: whether, and how many tokens of it.
fn thinking(fields: &Fields) -> Result<Reasoning> {
    let Some(thinking) = fields.object("thinking")? else { return Ok(Reasoning::default()) };
    let enabled = match thinking.require_text("type")? {
        "enabled" | "adaptive" => true,
        "disabled" => false,
        other => {
            return Err(thinking.refuse("type", format!("expected enabled, adaptive or disabled, found {other:?}")))
        }
    };
    Ok(Reasoning {
        enabled: Some(enabled),
        budget: thinking.count("budget_tokens", 0..=i32::MAX as usize)?,
        inline: Some(false),
    })
}
