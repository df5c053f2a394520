//! `functions` and `function_call`, OpenAI's older words for tools, which older clients still send: they become tools, and answers
//! take the older shape again.

use super::tools::{check_choice, check_function};
use super::usage::reason;
use crate::engine::{FinishReason, ToolChoice};
use crate::errors::Result;
use crate::fields::Fields;
use serde_json::{json, Map, Value};

/// Whether a body has functions in the older shape.
pub(super) fn are_given(fields: &Fields) -> bool {
    ["functions", "function_call"].iter().any(|name| fields.value(name).is_some())
}

/// The functions as tools.
pub(super) fn tools(fields: &Fields) -> Result<Vec<Value>> {
    for name in ["tools", "tool_choice"] {
        if fields.value(name).is_some() {
            return Err(fields.refuse("functions", format!("either functions or {name} may be given, not both")));
        }
    }
    let mut tools = Vec::new();
    for function in fields.objects("functions")? {
        check_function(&function)?;
        tools.push(json!({"type": "function", "function": function.map()}));
    }
    Ok(tools)
}

/// `function_call`: a word, or a function.
pub(super) fn choice(fields: &Fields, tools: &[Value]) -> Result<ToolChoice> {
    const NAME: &str = "function_call";
    let choice = match fields.value(NAME) {
        None => ToolChoice::Auto,
        Some(Value::String(word)) if word == "auto" => ToolChoice::Auto,
        Some(Value::String(word)) if word == "none" => ToolChoice::None,
        Some(Value::Object(_)) => {
            let named = fields.object(NAME)?.unwrap_or_else(|| fields.clone());
            ToolChoice::Function(named.require_text("name")?.to_string())
        }
        Some(other) => return Err(fields.wrong(NAME, "auto, none or an object with a name", other)),
    };
    check_choice(fields, &choice, tools)?;
    Ok(choice)
}

/// A call, and a result, of a message in the older shape.
pub(super) fn renew(fields: &Fields, message: &mut Map<String, Value>) -> Result<()> {
    if let Some(call) = fields.object("function_call")? {
        let name = call.require_text("name")?;
        let arguments = call.text("arguments")?.unwrap_or("{}");
        let function = json!({"name": name, "arguments": arguments});
        message.shift_remove("function_call");
        message.insert("tool_calls".into(), json!([{"id": id(name), "type": "function", "function": function}]));
    }
    if fields.text("role")? == Some("function") {
        message.insert("role".into(), "tool".into());
        message.insert("tool_call_id".into(), id(fields.require_text("name")?).into());
    }
    Ok(())
}

/// Calls of the older shape have no names: a result is that of its function's last call.
fn id(function: &str) -> String {
    format!("call_{function}")
}

/// `finish_reason`, in the older shape of functions or not.
pub(super) fn reason_of(finish: &FinishReason, old: bool) -> &'static str {
    match finish {
        FinishReason::ToolCalls if old => "function_call",
        other => reason(other),
    }
}

/// An answer's message, or a piece of one, in the older shape.
pub(super) fn to_legacy_function_call(message: &mut Value) {
    let Some(call) = message.get("tool_calls").and_then(|calls| calls.get(0)) else { return };
    let call = call["function"].clone();
    if let Value::Object(message) = message {
        message.shift_remove("tool_calls");
        message.insert("function_call".into(), call);
    }
}
