//! Functions that answers may call, and which of them they may or must.

use crate::engine::ToolChoice;
use crate::errors::Result;
use crate::fields::Fields;
use serde_json::Value;

/// Functions that an answer may call.
pub(super) fn tools(fields: &Fields) -> Result<Vec<Value>> {
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
    if function.require_text("name")?.is_empty() {
        return Err(function.refuse("name", "expected a name, found none"));
    }
    function.text("description")?;
    function.object("parameters")?;
    Ok(())
}

/// `tool_choice`: a word, a function, or some of the functions with a word, whose names come second.
pub(crate) fn tool_choice(fields: &Fields, tools: &[Value]) -> Result<(ToolChoice, Option<Vec<String>>)> {
    const NAME: &str = "tool_choice";
    let choice = match fields.value(NAME) {
        None => return Ok((ToolChoice::Auto, None)),
        Some(Value::Object(_)) => {
            let choice = fields.object(NAME)?.unwrap_or_else(|| fields.clone());
            match choice.text("type")?.unwrap_or("function") {
                "allowed_tools" => return parse_allowed_tools(&choice, tools),
                // Responses' shape has the name beside the type.
                "function" | "custom" | "tool" => {
                    let holder = choice.object("function")?.or(choice.object("custom")?);
                    let holder = holder.unwrap_or_else(|| choice.clone());
                    ToolChoice::Function(holder.require_text("name")?.to_string())
                }
                other => {
                    let text =
                        format!("expected function or allowed_tools, found {other:?}: this server runs no tools");
                    return Err(choice.refuse("type", text));
                }
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
    Ok((choice, None))
}

/// Functions of which answers may, or must, call some: chat's shape has the list an object deeper.
fn parse_allowed_tools(choice: &Fields, tools: &[Value]) -> Result<(ToolChoice, Option<Vec<String>>)> {
    let inner = choice.object("allowed_tools")?;
    let holder = inner.as_ref().unwrap_or(choice);
    let modes = [("auto", false), ("required", true)];
    let must = holder.choice("mode", &modes)?.unwrap_or(false);
    let mut names = Vec::new();
    for tool in holder.objects("tools")? {
        let function = tool.object("function")?;
        let named = function.as_ref().unwrap_or(&tool);
        let name = named.require_text("name")?;
        if !tools.iter().any(|t| t["function"]["name"] == name) {
            return Err(named.refuse("name", format!("the function {name:?} is not among the tools")));
        }
        names.push(name.to_string());
    }
    match (must, names.is_empty()) {
        (true, true) => Err(holder.refuse("tools", "a call is required, but no tools are allowed")),
        (false, true) => Ok((ToolChoice::None, None)),
        (must, false) => Ok((if must { ToolChoice::Required } else { ToolChoice::Auto }, Some(names))),
    }
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
