//! Tools of a request for a response: functions, tools of free text, and both in namespaces.

use crate::errors::Result;
use crate::fields::Fields;
use crate::http::warn;
use crate::openai::tools::check_function;
use serde_json::{json, Value};
use std::collections::HashMap;

/// What calls of a function are answered as, where they are none of a plain one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CallForm {
    /// Its one argument is a text of a free form.
    pub free: bool,
    /// The namespace that it stands in.
    pub namespace: Option<String>,
}

/// The tools of a request.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// Functions in chat's shape.
    pub functions: Vec<Value>,
    /// By their names.
    forms: HashMap<String, CallForm>,
}

impl Tools {
    /// Reads a body. Tools that OpenAI's own servers run are none of ours, and are left out with a warning.
    ///
    /// # Errors
    /// A tool of a wrong shape.
    pub fn read(fields: &Fields) -> Result<Tools> {
        let mut tools = Tools::default();
        for tool in fields.objects("tools")? {
            tools.take(&tool, None)?;
        }
        Ok(tools)
    }

    fn take(&mut self, tool: &Fields, namespace: Option<&str>) -> Result<()> {
        let kind = tool.require_text("type")?;
        match kind {
            "function" => {
                let nested = tool.object("function")?;
                let function = nested.as_ref().unwrap_or(tool);
                check_function(function)?;
                let mut own = function.map().clone();
                own.shift_remove("type");
                self.functions.push(json!({"type": "function", "function": own}));
                self.note(
                    function.require_text("name")?,
                    CallForm { free: false, namespace: namespace.map(String::from) },
                );
            }
            "custom" => {
                let nested = tool.object("custom")?;
                let own = nested.as_ref().unwrap_or(tool);
                check_function(own)?;
                let name = own.require_text("name")?;
                let mut input = json!({"type": "string", "description": "The whole input, as text"});
                if let Some(pattern) = pattern(own)? {
                    input["pattern"] = pattern.into();
                }
                let properties = json!({ "input": input });
                let parameters = json!({"type": "object", "properties": properties, "required": ["input"]});
                let mut function = json!({"name": name, "parameters": parameters});
                if let Some(description) = own.text("description")? {
                    function["description"] = description.into();
                }
                self.functions.push(json!({"type": "function", "function": function}));
                self.note(name, CallForm { free: true, namespace: namespace.map(String::from) });
            }
            "namespace" if namespace.is_none() => {
                let name = tool.require_text("name")?;
                for inner in tool.objects("tools")? {
                    self.take(&inner, Some(name))?;
                }
            }
            other => warn(format!("tools: a tool of the type {other:?} is left out: this server runs none")),
        }
        Ok(())
    }

    fn note(&mut self, name: &str, form: CallForm) {
        if form != CallForm::default() {
            self.forms.insert(name.to_string(), form);
        }
    }

    /// What calls of a function are answered as.
    pub fn form(&self, name: &str) -> CallForm {
        self.forms.get(name).cloned().unwrap_or_default()
    }
}

/// The expression that the whole text of a tool is of, if its format has one. Other grammars are told of: JSON's strings hold to none.
fn pattern(tool: &Fields) -> Result<Option<String>> {
    let Some(format) = tool.object("format")? else { return Ok(None) };
    // Chat's shape has the grammar an object deeper.
    let nested = format.object("grammar")?;
    let grammar = nested.as_ref().unwrap_or(&format);
    match (format.text("type")?, grammar.text("syntax")?) {
        (None | Some("text"), _) => Ok(None),
        (Some("grammar"), Some("regex")) => Ok(Some(format!("^(?:{})$", grammar.require_text("definition")?))),
        _ => {
            warn(format!("tools: the text of {:?} is not held to its format", tool.require_text("name")?));
            Ok(None)
        }
    }
}

/// The text of a call of free form, of its arguments.
pub(super) fn free_text(arguments: &str) -> String {
    let value: Value = serde_json::from_str(arguments).unwrap_or_default();
    value["input"].as_str().map_or_else(|| arguments.to_string(), String::from)
}
