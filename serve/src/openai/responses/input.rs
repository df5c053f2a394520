//! The conversation of a request for a response, in chat's shape.

use super::tools::Tools;
use crate::engine::{Chat, Reasoning, MEDIA_MARK};
use crate::errors::Result;
use crate::fields::Fields;
use crate::media::{self, BodyMedia};
use crate::openai::messages;
use crate::openai::tools::tool_choice;
use serde_json::{json, Map, Value};

/// Finds items by their ids.
type FindItem<'a> = &'a dyn Fn(&str) -> Option<Value>;

/// Reads a body, but for its media, which are found; `kept` knows items of earlier responses by their ids.
///
/// # Errors
/// Items or functions of a wrong shape; videos and files.
pub(super) fn chat<'a>(fields: &Fields<'a>, kept: FindItem, media: &mut BodyMedia<'a>) -> Result<Chat> {
    let mut list = Vec::new();
    if let Some(instructions) = fields.text("instructions")? {
        list.push(json!({"role": "system", "content": instructions}));
    }
    match fields.require("input")? {
        Value::String(text) => list.push(json!({"role": "user", "content": text})),
        Value::Array(_) => {
            fields.objects("input")?.iter().try_for_each(|item| read_item(item, &mut list, kept, media))?
        }
        other => return Err(fields.wrong("input", "a string or a list of items", other)),
    }
    let Tools { functions: tools, .. } = Tools::read(fields)?;
    let (tool_choice, allowed_tools) = tool_choice(fields, &tools)?;
    let effort = match fields.object("reasoning")? {
        Some(reasoning) => reasoning.text("effort")?,
        None => None,
    };
    let mut template_kwargs = messages::kwargs(fields)?;
    if let Some(effort) = effort {
        template_kwargs.entry("reasoning_effort").or_insert(effort.into());
    }
    let continues = list
        .last()
        .is_some_and(|m| m["role"] == "assistant" && m.get("tool_calls").is_none() && m.get("content").is_some());
    Ok(Chat {
        messages: list,
        media: Vec::new(),
        tools,
        tool_choice,
        allowed_tools,
        parallel_tool_calls: fields.boolean("parallel_tool_calls")?,
        template_kwargs,
        reasoning: Reasoning { enabled: effort.filter(|e| *e == "none").map(|_| false), ..Reasoning::default() },
        add_generation_prompt: !continues,
        continue_final_message: continues,
    })
}

/// An item, or one of an earlier response that is named by its id alone.
fn read_item<'a>(item: &Fields<'a>, list: &mut Vec<Value>, kept: FindItem, media: &mut BodyMedia<'a>) -> Result<()> {
    let alone = item.value("type").is_none() && item.value("role").is_none() && item.value("id").is_some();
    if item.text("type")? != Some("item_reference") && !alone {
        return self::item(item, list, media);
    }
    let id = item.require_text("id")?;
    let found = kept(id).ok_or_else(|| {
        item.refuse("id", format!("expected an item of a response that was kept, found {id:?}: send the item itself"))
    })?;
    // What was answered is text.
    let mut none = BodyMedia::default();
    self::item(&Fields::of(&found)?, list, &mut none)?;
    none.refuse("this server keeps none")
}

/// An item becomes a message, or part of the assistant's last one: reasoning, text and calls of one turn are one message.
fn item<'a>(item: &Fields<'a>, list: &mut Vec<Value>, media: &mut BodyMedia<'a>) -> Result<()> {
    match item.text("type")?.unwrap_or("message") {
        "message" => {
            let role = item.require_text("role")?;
            let content = content(item, media)?;
            match role {
                "assistant" => turn(list).insert("content".into(), content),
                "user" | "system" => {
                    list.push(json!({"role": role, "content": content}));
                    None
                }
                "developer" => {
                    list.push(json!({"role": "system", "content": content}));
                    None
                }
                other => {
                    return Err(
                        item.refuse("role", format!("expected user, assistant, system or developer, found {other:?}"))
                    )
                }
            };
        }
        "reasoning" => {
            let mut texts = Vec::new();
            for name in ["content", "summary"] {
                for part in item.objects(name)? {
                    texts.extend(part.text("text")?);
                }
                if !texts.is_empty() {
                    break;
                }
            }
            if !texts.is_empty() {
                turn(list).insert("reasoning_content".into(), texts.join("\n").into());
            }
        }
        kind @ ("function_call" | "custom_tool_call") => {
            let arguments = match kind {
                "function_call" => item.require_text("arguments")?.to_string(),
                // Text of a free form is the one argument of its function.
                _ => json!({"input": item.require_text("input")?}).to_string(),
            };
            let function = json!({"name": item.require_text("name")?, "arguments": arguments});
            let call = json!({"id": item.require_text("call_id")?, "type": "function", "function": function});
            let turn = turn(list);
            match turn.get_mut("tool_calls") {
                Some(Value::Array(calls)) => calls.push(call),
                _ => drop(turn.insert("tool_calls".into(), json!([call]))),
            }
            turn.entry("content").or_insert("".into());
        }
        "function_call_output" | "custom_tool_call_output" => {
            let output: Value = match item.require("output")? {
                Value::Array(_) => parts(item, "output", media)?,
                Value::String(text) => text.clone().into(),
                other => return Err(item.wrong("output", "a string or a list of parts", other)),
            };
            list.push(json!({"role": "tool", "tool_call_id": item.require_text("call_id")?, "content": output}));
        }
        other => return Err(item.refuse("type", format!("items of the type {other:?} are not supported"))),
    }
    Ok(())
}

/// The assistant's message that is being put together.
fn turn(list: &mut Vec<Value>) -> &mut Map<String, Value> {
    let goes_on = list
        .last()
        .is_some_and(|m| m["role"] == "assistant" && (m.get("content").is_none() || m.get("tool_calls").is_some()));
    if !goes_on {
        list.push(json!({"role": "assistant"}));
    }
    match list.last_mut() {
        Some(Value::Object(message)) => message,
        // Only objects are pushed above.
        _ => unreachable!("messages are objects"),
    }
}

/// A message's text, or its parts where there are media among them.
fn content<'a>(item: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<Value> {
    match item.require("content")? {
        Value::String(text) => Ok(text.clone().into()),
        Value::Array(_) => parts(item, "content", media),
        other => Err(item.wrong("content", "a string or a list of parts", other)),
    }
}

/// Parts: as one text where they are texts, else each as chat has it.
fn parts<'a>(item: &Fields<'a>, name: &str, media: &mut BodyMedia<'a>) -> Result<Value> {
    let before = media.len();
    let mut texts = Vec::new();
    for part in item.objects(name)? {
        match part.require_text("type")? {
            "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
                texts.push(part.require_text("text")?)
            }
            "refusal" => texts.push(part.require_text("refusal")?),
            other => match media::find_medium(&part)? {
                Some(found) => {
                    media.add(found);
                    texts.push(MEDIA_MARK);
                }
                None => return Err(part.refuse("type", format!("parts of the type {other:?} are not supported"))),
            },
        }
    }
    match media.len() > before {
        true => Ok(texts.iter().map(|text| json!({"type": "text", "text": text})).collect()),
        false => Ok(texts.join("\n\n").into()),
    }
}
