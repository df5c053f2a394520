//! The filter `tojson` as transformers has it: Python's `json.dumps`, nothing escaped for HTML.

use crate::budget::RenderBudget;
use crate::error::{Error, Result};
use crate::json;
use crate::text::{Builder, Text};
use crate::value::{compare, Value};

/// How `json.dumps` writes.
pub(crate) struct JsonStyle {
    pub ascii: bool,
    /// What a level is indented by, if each element has a line of its own.
    pub indent: Option<String>,
    pub item: String,
    pub key: String,
    pub sort: bool,
}

/// `json.dumps(value)`.
pub(crate) fn dump(budget: &RenderBudget, value: &Value, style: &JsonStyle) -> Result<Text> {
    let mut out = Builder::new(budget);
    JsonWriter { budget, style }.write(&mut out, value, 0)?;
    // Brackets and commas of what came from outside came with it.
    out.spread();
    Ok(out.finish())
}

struct JsonWriter<'a> {
    budget: &'a RenderBudget,
    style: &'a JsonStyle,
}

impl JsonWriter<'_> {
    fn write(&self, out: &mut Builder, value: &Value, level: usize) -> Result<()> {
        let _level = self.budget.deeper()?;
        self.budget.work(1)?;
        match value {
            Value::None => out.push_str("null", false),
            Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }, false),
            Value::Int(i) => out.push_str(&i.to_string(), false),
            Value::Float(f) => out.push_str(&json::float(*f), false),
            Value::Str(text) => self.string(out, text.as_str(), text.any_marked()),
            Value::List(list) | Value::Tuple(list) | Value::Iter(list) => {
                let items = list.0.borrow();
                self.group(out, ["[", "]"], items.len(), level, &mut |out, i| self.write(out, &items[i], level + 1))
            }
            Value::Dict(map) => self.object(out, map.0.borrow().entries(), level),
            other => Err(Error::template(format!("Object of type {} is not JSON serializable", other.type_name()))),
        }
    }

    fn string(&self, out: &mut Builder, s: &str, marked: bool) -> Result<()> {
        let mut quoted = String::with_capacity(s.len() + 2);
        json::quote(s, self.style.ascii, &mut quoted);
        out.push_str(&quoted, marked)
    }

    fn object(&self, out: &mut Builder, entries: &[(Value, Value)], level: usize) -> Result<()> {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        if self.style.sort {
            let keyed = entries.iter().zip(0i128..).map(|((key, _), i)| (key.clone(), Value::Int(i))).collect();
            let sorted = compare::sort(self.budget, keyed, false)?;
            order = sorted.iter().filter_map(|i| i.index().ok().map(|i| i as usize)).collect();
        }
        self.group(out, ["{", "}"], entries.len(), level, &mut |out, i| {
            let (key, value) = &entries[order[i]];
            match key {
                Value::Str(text) => self.string(out, text.as_str(), text.any_marked())?,
                Value::None => out.push_str("\"null\"", false)?,
                Value::Bool(b) => out.push_str(if *b { "\"true\"" } else { "\"false\"" }, false)?,
                Value::Int(i) => out.push_str(&format!("\"{i}\""), false)?,
                Value::Float(f) => out.push_str(&format!("\"{}\"", json::float(*f)), false)?,
                other => {
                    let message = "keys must be str, int, float, bool or None, not ";
                    return Err(Error::template(format!("{message}{}", other.type_name())));
                }
            }
            out.push_str(&self.style.key, false)?;
            self.write(out, value, level + 1)
        })
    }

    fn group(
        &self,
        out: &mut Builder,
        brackets: [&str; 2],
        count: usize,
        level: usize,
        each: &mut dyn FnMut(&mut Builder, usize) -> Result<()>,
    ) -> Result<()> {
        out.push_str(brackets[0], false)?;
        for i in 0..count {
            out.push_str(if i > 0 { &self.style.item } else { "" }, false)?;
            self.line(out, level + 1)?;
            each(out, i)?;
        }
        if count > 0 {
            self.line(out, level)?;
        }
        out.push_str(brackets[1], false)
    }

    fn line(&self, out: &mut Builder, level: usize) -> Result<()> {
        let Some(indent) = &self.style.indent else { return Ok(()) };
        out.push_str("\n", false)?;
        (0..level).try_for_each(|_| out.push_str(indent, false))
    }
}
