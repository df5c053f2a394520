//! Python's `str` and `repr`.

use crate::budget::RenderBudget;
use crate::error::Result;
use crate::json::float_repr;
use crate::text::{Builder, Text};
use crate::value::{Func, Value};

/// Python's `str(value)`; an undefined value is empty.
pub(crate) fn text(budget: &RenderBudget, value: &Value) -> Result<Text> {
    match value {
        Value::Str(text) => Ok(text.clone()),
        other => {
            let mut out = Builder::new(budget);
            write(&mut out, budget, other)?;
            Ok(out.finish())
        }
    }
}

/// Writes `str(value)`.
pub(crate) fn write(out: &mut Builder, budget: &RenderBudget, value: &Value) -> Result<()> {
    match value {
        Value::Str(text) => out.push(text),
        Value::Undefined(_) => Ok(()),
        Value::Int(i) => out.push_str(&i.to_string(), false),
        Value::List(_) | Value::Tuple(_) | Value::Iter(_) | Value::Dict(_) => {
            // What separates strings from outside came with them.
            let mut inner = Builder::new(budget);
            repr(&mut inner, budget, value)?;
            inner.spread();
            out.push(&inner.finish())
        }
        other => repr(out, budget, other),
    }
}

/// `repr(value)` as a text.
pub(crate) fn repr_text(budget: &RenderBudget, value: &Value) -> Result<Text> {
    let mut out = Builder::new(budget);
    repr(&mut out, budget, value)?;
    out.spread();
    Ok(out.finish())
}

/// Writes `repr(value)`.
fn repr(out: &mut Builder, budget: &RenderBudget, value: &Value) -> Result<()> {
    let _level = budget.deeper()?;
    budget.work(1)?;
    match value {
        Value::Undefined(_) => out.push_str("Undefined", false),
        Value::None => out.push_str("None", false),
        Value::Bool(b) => out.push_str(if *b { "True" } else { "False" }, false),
        Value::Int(i) => out.push_str(&i.to_string(), false),
        Value::Float(f) => out.push_str(&float_repr(*f), false),
        Value::Str(text) if text.safe => {
            out.push_str("Markup(", false)?;
            write_quoted(out, text)?;
            out.push_str(")", false)
        }
        Value::Str(text) => write_quoted(out, text),
        Value::List(list) | Value::Iter(list) => {
            out.push_str("[", false)?;
            elements(out, budget, &list.0.borrow())?;
            out.push_str("]", false)
        }
        Value::Tuple(list) => {
            let items = list.0.borrow();
            out.push_str("(", false)?;
            elements(out, budget, &items)?;
            out.push_str(if items.len() == 1 { ",)" } else { ")" }, false)
        }
        Value::Dict(map) => entries(out, budget, map.0.borrow().entries()),
        Value::Namespace(map) => {
            out.push_str("<Namespace ", false)?;
            entries(out, budget, map.0.borrow().entries())?;
            out.push_str(">", false)
        }
        Value::Func(f) => match &**f {
            Func::Global(name) => out.push_str(&format!("<function {name}>"), false),
            Func::Method(of, name) => out.push_str(&format!("<method {name} of {}>", of.type_name()), false),
            Func::Macro(m) => out.push_str(&format!("<Macro '{}'>", m.name()), false),
            Func::Cycler(..) => out.push_str("<Cycler>", false),
            Func::Joiner(..) => out.push_str("<Joiner>", false),
        },
        Value::Loop(state) => out.push_str(&format!("<LoopContext {}/{}>", state.index0() + 1, state.length()), false),
    }
}

fn elements(out: &mut Builder, budget: &RenderBudget, items: &[Value]) -> Result<()> {
    for (i, item) in items.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" }, false)?;
        repr(out, budget, item)?;
    }
    Ok(())
}

fn entries(out: &mut Builder, budget: &RenderBudget, entries: &[(Value, Value)]) -> Result<()> {
    out.push_str("{", false)?;
    for (i, (key, value)) in entries.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" }, false)?;
        repr(out, budget, key)?;
        out.push_str(": ", false)?;
        repr(out, budget, value)?;
    }
    out.push_str("}", false)
}

/// A string in quotes: single ones, unless only those occur in it.
fn write_quoted(out: &mut Builder, text: &Text) -> Result<()> {
    let s = text.as_str();
    let quote = if s.contains('\'') && !s.contains('"') { '"' } else { '\'' };
    let any = text.any_marked();
    out.push_char(quote, any)?;
    for (c, marked) in text.chars() {
        match c {
            '\n' => out.push_str("\\n", marked)?,
            '\r' => out.push_str("\\r", marked)?,
            '\t' => out.push_str("\\t", marked)?,
            '\\' => out.push_str("\\\\", marked)?,
            c if c == quote => {
                out.push_char('\\', marked)?;
                out.push_char(c, marked)?;
            }
            c if printable(c) => out.push_char(c, marked)?,
            c if (c as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", c as u32), marked)?,
            c if (c as u32) < 0x10000 => out.push_str(&format!("\\u{:04x}", c as u32), marked)?,
            c => out.push_str(&format!("\\U{:08x}", c as u32), marked)?,
        }
    }
    out.push_char(quote, any)
}

/// Python's `isprintable` of a character, code points that are not assigned aside.
fn printable(c: char) -> bool {
    if c == ' ' {
        return true;
    }
    let invisible = matches!(u32::from(c),
        0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2 | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e
        | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xfffe..=0xffff | 0x110bd | 0x110cd
        | 0x13430..=0x1343f | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe00ff | 0xf0000..);
    !c.is_control() && !c.is_whitespace() && !invisible
}
