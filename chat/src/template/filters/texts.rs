//! Filters that give strings, and a few that give what they were given.

use std::rc::Rc;

use crate::error::{Error, Result};
use crate::template::args::{require_argument, CallArgs};
use crate::template::run::Machine;
use crate::template::{percent, strings, subscript};
use crate::text::{Builder, Text};
use crate::value::{dump, show, List, Value};

pub(super) fn filter(machine: &Machine, name: &str, value: Value, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    let ok = |text: Text| Ok(Value::Str(text));
    match name {
        "default" | "d" => {
            let [default, falsy] = args.bind(name, ["default_value", "boolean"])?;
            let missing = matches!(value, Value::Undefined(_)) || (falsy.is_some_and(|f| f.truth()) && !value.truth());
            return Ok(if missing { default.unwrap_or_else(|| Value::str("")) } else { value });
        }
        "attr" => {
            let [attr] = args.bind(name, ["name"])?;
            let attr = show::text(budget, &require_argument(attr, name, "name")?)?.to_shared();
            let none = || Value::undefined(format!("'{} object' has no attribute '{attr}'", value.type_name()));
            return Ok(subscript::own_attr(value.require_defined()?, &attr).unwrap_or_else(none));
        }
        "tojson" => return tojson(machine, &value, args),
        "pprint" => return ok(show::repr_text(budget, &value)?),
        "urlencode" => return ok(url(machine, &value)?),
        "xmlattr" => return xml(machine, &value, args),
        _ => (),
    }
    let text = show::text(budget, &value)?;
    match name {
        "string" => ok(text),
        "safe" => ok(text.with_safe(true)),
        "e" | "escape" if text.safe => ok(text),
        "e" | "escape" | "forceescape" => ok(strings::escape(budget, &text)?),
        "upper" => ok(strings::upper(budget, &text)?),
        "lower" => ok(strings::lower(budget, &text)?),
        "capitalize" => ok(strings::capitalize(budget, &text)?),
        "title" => ok(strings::title(budget, &text, |c| !(strings::space(c) || "-({[<".contains(c)))?),
        "trim" => {
            let [chars] = args.bind(name, ["chars"])?;
            let chars = chars.as_ref().and_then(Value::text).map(|t| t.as_str().to_string());
            ok(strings::strip(budget, &text, chars.as_deref(), true, true)?)
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"])?;
            let old = show::text(budget, &require_argument(old, name, "old")?)?;
            let new = show::text(budget, &require_argument(new, name, "new")?)?;
            let count = match count {
                None | Some(Value::None) => None,
                Some(count) => usize::try_from(count.index()?).ok(),
            };
            ok(strings::replace(budget, &text.with_safe(false), old.as_str(), &new, count)?)
        }
        "center" => {
            let [width] = args.bind(name, ["width"])?;
            let width = width.map_or(Ok(80), |w| w.index())?;
            ok(strings::fill(budget, &text, width, ' ', true, true)?)
        }
        "format" => {
            let values = match args.named.is_empty() {
                true => Value::Tuple(Rc::new(List(args.positional.into()))),
                false if !args.positional.is_empty() => {
                    return Err(Error::template("can't handle positional and keyword arguments at the same time"))
                }
                false => {
                    Value::dict(budget, args.named.into_iter().map(|(n, v)| (Value::Str(Text::from_outside(n)), v)))?
                }
            };
            ok(percent::format(budget, &text, &values)?)
        }
        "indent" => indent(machine, &text, args),
        "wordcount" => {
            let words = text.as_str().split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty());
            Ok(Value::Int(words.count() as i128))
        }
        "truncate" => truncate(machine, &text, args),
        "wordwrap" => super::wrap::wrap(machine, &text, args),
        "striptags" => {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some(open) = rest.find('<') {
                let Some(close) = rest[open..].find('>') else { break };
                out.push_str(&rest[..open]);
                rest = &rest[open + close + 1..];
            }
            out.push_str(rest);
            let words: Vec<&str> = out.split_whitespace().collect();
            ok(Text::derive(words.join(" "), &[&text]))
        }
        // Links are for pages; a prompt has none.
        "urlize" => ok(text),
        _ => Err(Error::template(format!("No filter named '{name}'."))),
    }
}

/// `tojson` with transformers' parameters.
fn tojson(machine: &Machine, value: &Value, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    let [ascii, indent, separators, sort] =
        args.bind("tojson", ["ensure_ascii", "indent", "separators", "sort_keys"])?;
    let indent = match indent {
        None | Some(Value::None) => None,
        Some(Value::Str(text)) => Some(text.as_str().to_string()),
        Some(count) => {
            let count = usize::try_from(count.index()?).unwrap_or(0);
            budget.string(count)?;
            Some(" ".repeat(count))
        }
    };
    let (item, key) = match separators {
        None | Some(Value::None) => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
        Some(pair) => match pair.iterate(budget)?.as_slice() {
            [Value::Str(item), Value::Str(key)] => (item.as_str().to_string(), key.as_str().to_string()),
            _ => return Err(Error::template("separators must be two strings")),
        },
    };
    let truth = |v: Option<Value>| v.is_some_and(|v| v.truth());
    let style = dump::JsonStyle { ascii: truth(ascii), indent, item, key, sort: truth(sort) };
    Ok(Value::Str(dump::dump(budget, value, &style)?))
}

fn indent(machine: &Machine, text: &Text, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"])?;
    let by = match width {
        None => Text::plain("    "),
        Some(Value::Str(text)) => text,
        Some(count) => strings::fill(budget, &Text::plain(""), count.index()?, ' ', true, false)?,
    };
    let (first, blank) = (first.is_some_and(|f| f.truth()), blank.is_some_and(|b| b.truth()));
    // With a line end behind it, a last empty line counts as one.
    let ended = strings::join(budget, &Text::plain(""), &[text.clone(), Text::plain("\n")])?;
    let mut out = Builder::new(budget);
    for (i, line) in strings::lines(budget, &ended, false)?.iter().enumerate() {
        if i > 0 {
            out.push_str("\n", false)?;
        }
        if (i == 0 && first) || (i > 0 && (blank || !line.is_empty())) {
            out.push(&by)?;
        }
        out.push(line)?;
    }
    Ok(Value::Str(out.finish().with_safe(text.safe)))
}

fn truncate(machine: &Machine, text: &Text, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    let [length, kill, end, leeway] = args.bind("truncate", ["length", "killwords", "end", "leeway"])?;
    let number = |v: Option<Value>, missing: i128| v.map_or(Ok(missing), |v| v.index());
    let (length, leeway) = (number(length, 255)?.max(0), number(leeway, 5)?.max(0));
    let end = end.map_or(Ok(Text::plain("...")), |e| show::text(budget, &e))?;
    let chars = text.as_str().chars().count() as i128;
    if chars <= length.saturating_add(leeway) {
        return Ok(Value::Str(text.clone()));
    }
    let room = length - end.as_str().chars().count() as i128;
    if room < 0 {
        return Err(Error::template(format!("expected length >= {}, got {length}", length - room)));
    }
    let cut = text.as_str().char_indices().nth(room as usize).map_or(text.len(), |(at, _)| at);
    let cut = match kill.is_some_and(|k| k.truth()) {
        true => cut,
        false => text.as_str()[..cut].rfind(' ').unwrap_or(cut),
    };
    let part = text.slice(budget, 0..cut)?;
    Ok(Value::Str(strings::join(budget, &Text::plain(""), &[part, end])?))
}

fn quote_url(s: &str, keep: &str) -> String {
    let mut out = String::new();
    for byte in s.bytes() {
        match byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) || keep.as_bytes().contains(&byte) {
            true => out.push(byte as char),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn url(machine: &Machine, value: &Value) -> Result<Text> {
    let budget = machine.budget;
    let Value::Dict(map) = value else {
        let text = show::text(budget, value)?;
        budget.take(3 * text.len())?;
        return Ok(Text::derive(quote_url(text.as_str(), "/"), &[&text]));
    };
    let mut out = Builder::new(budget);
    for (i, (key, value)) in map.0.borrow().entries().iter().enumerate() {
        let (key, value) = (show::text(budget, key)?, show::text(budget, value)?);
        let pair = format!("{}={}", quote_url(key.as_str(), ""), quote_url(value.as_str(), "")).replace("%20", "+");
        out.push_str(if i > 0 { "&" } else { "" }, false)?;
        out.push(&Text::derive(pair, &[&key, &value]))?;
    }
    Ok(out.finish())
}

fn xml(machine: &Machine, value: &Value, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    let [space] = args.bind("xmlattr", ["autospace"])?;
    let Value::Dict(map) = value.require_defined()? else { return Err(Error::template("xmlattr needs a mapping")) };
    let mut out = Builder::new(budget);
    for (key, value) in map.0.borrow().entries() {
        if matches!(value, Value::None | Value::Undefined(_)) {
            continue;
        }
        if out.len() > 0 || space.as_ref().is_none_or(Value::truth) {
            out.push_str(" ", false)?;
        }
        out.push(&strings::escape(budget, &show::text(budget, key)?)?)?;
        out.push_str("=\"", false)?;
        out.push(&strings::escape(budget, &show::text(budget, value)?)?)?;
        out.push_str("\"", false)?;
    }
    Ok(Value::Str(out.finish()))
}
