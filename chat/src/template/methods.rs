//! Methods of strings, lists and dicts.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::template::args::{require_argument, CallArgs};
use crate::template::run::Machine;
use crate::template::{percent, strings, subscript};
use crate::text::Text;
use crate::value::{compare, show, Func, Value};

const STR: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
];
const LIST: &[&str] =
    &["append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"];
const DICT: &[&str] = &["clear", "copy", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];

/// Whether a value has a method.
pub(crate) fn has(of: &Value, name: &str) -> bool {
    match of {
        Value::Str(_) => STR.contains(&name),
        Value::List(_) => LIST.contains(&name),
        Value::Tuple(_) => ["count", "index"].contains(&name),
        Value::Dict(_) => DICT.contains(&name),
        Value::Float(_) | Value::Int(_) => name == "is_integer",
        _ => false,
    }
}

/// Calls a method.
pub(crate) fn call(machine: &Machine, of: &Value, name: &Arc<str>, mut args: CallArgs) -> Result<Value> {
    match of {
        Value::Str(text) => string(machine, text, name, args),
        Value::List(_) | Value::Tuple(_) => list(machine, of, name, args),
        Value::Dict(_) => dict(machine, of, name, args),
        Value::Loop(state) => match &**name {
            "changed" => Ok(Value::Bool(state.update_changed(machine.budget, args.positional)?)),
            _ if args.positional.is_empty() => Err(Error::template("no items for cycling given")),
            _ => Ok(args.positional.swap_remove(state.index0() % args.positional.len())),
        },
        Value::Func(func) => match (&**func, &**name) {
            (Func::Cycler(_, at), "reset") => {
                at.set(0);
                Ok(Value::None)
            }
            _ => machine.call(of, args),
        },
        Value::Float(f) => Ok(Value::Bool(f.fract() == 0.0)),
        _ => Ok(Value::Bool(true)),
    }
}

fn text_arg(value: Option<Value>, what: &str, name: &str) -> Result<Text> {
    match require_argument(value, what, name)? {
        Value::Str(text) => Ok(text),
        other => {
            Err(Error::template(format!("{what}: {name} must be str, not {}", other.require_defined()?.type_name())))
        }
    }
}

/// An optional string: `None` stands for none.
fn optional_text(value: Option<Value>, what: &str, name: &str) -> Result<Option<Text>> {
    match value {
        None | Some(Value::None) => Ok(None),
        value => text_arg(value, what, name).map(Some),
    }
}

fn number(value: Option<Value>, missing: i128) -> Result<i128> {
    value.map_or(Ok(missing), |v| v.index())
}

/// A limit of a count, where a negative one means none.
fn limit(value: Option<Value>) -> Result<Option<usize>> {
    Ok(usize::try_from(number(value, -1)?).ok())
}

fn texts(machine: &Machine, parts: Vec<Text>) -> Result<Value> {
    Value::list(machine.budget, parts.into_iter().map(Value::Str).collect())
}

fn string(machine: &Machine, text: &Text, name: &str, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    let s = text.as_str();
    budget.scan(s.len())?;
    let ok = |text: Text| Ok(Value::Str(text));
    let cased = |c: char| c.is_lowercase() || c.is_uppercase();
    let every = |test: &dyn Fn(char) -> bool| Ok(Value::Bool(!s.is_empty() && s.chars().all(test)));
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.bind(name, ["chars"])?;
            let chars = optional_text(chars, name, "chars")?;
            let set = chars.as_ref().map(Text::as_str);
            ok(strings::strip(budget, text, set, name != "rstrip", name != "lstrip")?)
        }
        "split" | "rsplit" => {
            let [sep, most] = args.bind(name, ["sep", "maxsplit"])?;
            let sep = optional_text(sep, name, "sep")?;
            texts(
                machine,
                strings::split(budget, text, sep.as_ref().map(Text::as_str), limit(most)?, name == "rsplit")?,
            )
        }
        "splitlines" => {
            let [keep] = args.bind(name, ["keepends"])?;
            texts(machine, strings::lines(budget, text, keep.is_some_and(|k| k.truth()))?)
        }
        "startswith" | "endswith" => {
            let [what, start, end] = args.bind(name, ["prefix", "start", "end"])?;
            let part = part(machine, text, start, end)?;
            let is = |v: &Value| match v {
                Value::Str(t) if name == "startswith" => Ok(part.as_str().starts_with(t.as_str())),
                Value::Str(t) => Ok(part.as_str().ends_with(t.as_str())),
                other => Err(Error::template(format!(
                    "{name} first arg must be str or a tuple of str, not {}",
                    other.type_name()
                ))),
            };
            match require_argument(what, name, "prefix")? {
                Value::Tuple(all) => {
                    let any = all.0.borrow().iter().try_fold(false, |any, v| Ok::<bool, Error>(any | is(v)?))?;
                    Ok(Value::Bool(any))
                }
                one => is(&one).map(Value::Bool),
            }
        }
        "find" | "rfind" | "index" | "rindex" | "count" => {
            let [sub, start, end] = args.bind(name, ["sub", "start", "end"])?;
            let sub = text_arg(sub, name, "sub")?;
            let before = part(machine, text, None, start.clone())?;
            let skipped = if start.is_some() { before.as_str().chars().count() } else { 0 };
            let part = part(machine, text, start, end)?;
            let hay = part.as_str();
            if name == "count" {
                let count = if sub.is_empty() { hay.chars().count() + 1 } else { hay.matches(sub.as_str()).count() };
                return Ok(Value::Int(count as i128));
            }
            let found = if name.starts_with('r') { hay.rfind(sub.as_str()) } else { hay.find(sub.as_str()) };
            match found {
                Some(at) => Ok(Value::Int((skipped + hay[..at].chars().count()) as i128)),
                None if name.ends_with("index") => Err(Error::template("substring not found")),
                None => Ok(Value::Int(-1)),
            }
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"])?;
            let (old, new) = (text_arg(old, name, "old")?, text_arg(new, name, "new")?);
            ok(strings::replace(budget, text, old.as_str(), &new, limit(count)?)?)
        }
        "removeprefix" | "removesuffix" => {
            let [what] = args.bind(name, ["prefix"])?;
            let what = text_arg(what, name, "prefix")?;
            let range = match name {
                "removeprefix" => s.len() - s.strip_prefix(what.as_str()).unwrap_or(s).len()..s.len(),
                _ => 0..s.strip_suffix(what.as_str()).unwrap_or(s).len(),
            };
            ok(text.slice(budget, range)?)
        }
        "partition" | "rpartition" => {
            let [sep] = args.bind(name, ["sep"])?;
            let sep = text_arg(sep, name, "sep")?;
            if sep.is_empty() {
                return Err(Error::template("empty separator"));
            }
            let found = if name == "partition" { s.find(sep.as_str()) } else { s.rfind(sep.as_str()) };
            let cuts = match found {
                Some(at) => [0, at, at + sep.len(), s.len()],
                None if name == "partition" => [0, s.len(), s.len(), s.len()],
                None => [0, 0, 0, s.len()],
            };
            let parts = cuts.windows(2).map(|c| text.slice(budget, c[0]..c[1]).map(Value::Str));
            Value::tuple(budget, parts.collect::<Result<_>>()?)
        }
        "join" => {
            let [items] = args.bind(name, ["iterable"])?;
            let items = require_argument(items, name, "iterable")?.iterate(budget)?;
            let part = |(i, v): (usize, Value)| match v {
                Value::Str(t) => Ok(t),
                other => Err(Error::template(format!(
                    "sequence item {i}: expected str instance, {} found",
                    other.type_name()
                ))),
            };
            let parts = items.into_iter().enumerate().map(part).collect::<Result<Vec<_>>>()?;
            ok(strings::join(budget, text, &parts)?.with_safe(text.safe))
        }
        "format" => ok(percent::braces(budget, text, &args)?),
        "upper" => ok(strings::upper(budget, text)?),
        "lower" => ok(strings::lower(budget, text)?),
        "casefold" => ok(strings::map(budget, text, |c, out| match c {
            'ı' => out.push(c),
            _ => out.extend(c.to_uppercase().flat_map(char::to_lowercase)),
        })?),
        "capitalize" => ok(strings::capitalize(budget, text)?),
        "title" => ok(strings::title(budget, text, |c| c.is_alphabetic())?),
        "swapcase" => ok(strings::map(budget, text, |c, out| {
            if c.is_uppercase() {
                out.extend(c.to_lowercase())
            } else {
                out.extend(c.to_uppercase())
            }
        })?),
        "expandtabs" => {
            let [size] = args.bind(name, ["tabsize"])?;
            let size = usize::try_from(number(size, 8)?).unwrap_or(0).min(1000);
            let mut column = 0;
            ok(strings::map(budget, text, |c, out| match c {
                '\t' if size > 0 => {
                    out.push_str(&" ".repeat(size - column % size));
                    column += size - column % size;
                }
                '\t' => (),
                c => {
                    column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
                    out.push(c);
                }
            })?)
        }
        "center" | "ljust" | "rjust" => {
            let [width, with] = args.bind(name, ["width", "fillchar"])?;
            let width = require_argument(width, name, "width")?.index()?;
            let with = optional_text(with, name, "fillchar")?;
            let with = with.as_ref().and_then(|w| w.as_str().chars().next()).unwrap_or(' ');
            ok(strings::fill(budget, text, width, with, name != "ljust", name != "rjust")?)
        }
        "zfill" => {
            let [width] = args.bind(name, ["width"])?;
            let width = require_argument(width, name, "width")?.index()?;
            let signed = s.starts_with(['-', '+']);
            let digits = text.slice(budget, usize::from(signed)..s.len())?;
            let filled = strings::fill(budget, &digits, width - i128::from(signed), '0', true, false)?;
            let sign = text.slice(budget, 0..usize::from(signed))?;
            ok(strings::join(budget, &Text::plain(""), &[sign, filled])?)
        }
        "isdigit" | "isdecimal" | "isnumeric" => {
            every(&|c| c.is_numeric() && (name == "isnumeric" || c.is_ascii_digit() || c as u32 > 0x7f))
        }
        "isalpha" => every(&|c| c.is_alphabetic()),
        "isalnum" => every(&|c| c.is_alphanumeric()),
        "isspace" => every(&strings::space),
        "isascii" => Ok(Value::Bool(s.is_ascii())),
        "isprintable" => Ok(Value::Bool(s.chars().all(|c| !c.is_control()))),
        "isidentifier" => {
            let first = s.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
            Ok(Value::Bool(first && s.chars().all(|c| c.is_alphanumeric() || c == '_')))
        }
        "islower" => Ok(Value::Bool(s.chars().any(cased) && !s.chars().any(char::is_uppercase))),
        "isupper" => Ok(Value::Bool(s.chars().any(cased) && !s.chars().any(char::is_lowercase))),
        "istitle" => {
            let titled = strings::title(budget, text, |c| c.is_alphabetic())?;
            Ok(Value::Bool(s.chars().any(cased) && titled.as_str() == s))
        }
        _ => Err(Error::template(format!("'str object' has no attribute '{name}'"))),
    }
}

/// The part of a string that `find(sub, start, end)` and its kin look at.
fn part(machine: &Machine, text: &Text, start: Option<Value>, end: Option<Value>) -> Result<Text> {
    if start.is_none() && end.is_none() {
        return Ok(text.clone());
    }
    let bounds = [start.unwrap_or(Value::None), end.unwrap_or(Value::None), Value::None];
    match subscript::slice(machine.budget, &Value::Str(text.clone()), bounds)? {
        Value::Str(part) => Ok(part),
        _ => Ok(text.clone()),
    }
}

fn list(machine: &Machine, of: &Value, name: &str, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    let (Value::List(items) | Value::Tuple(items)) = of else { return Ok(Value::None) };
    let position = |what: &Value| -> Result<Option<usize>> {
        let all = items.0.borrow();
        for (i, item) in all.iter().enumerate() {
            if compare::equal(budget, item, what)? {
                return Ok(Some(i));
            }
        }
        Ok(None)
    };
    match name {
        "append" => {
            let [item] = args.bind(name, ["object"])?;
            budget.elements(1)?;
            items.0.borrow_mut().push(require_argument(item, name, "object")?);
        }
        "extend" => {
            let [more] = args.bind(name, ["iterable"])?;
            let more = require_argument(more, name, "iterable")?.iterate(budget)?;
            items.0.borrow_mut().extend(more);
        }
        "insert" => {
            let [at, item] = args.bind(name, ["index", "object"])?;
            budget.elements(1)?;
            let len = items.0.borrow().len();
            budget.work(len / 64)?;
            let at = require_argument(at, name, "index")?.index()?;
            let at = if at < 0 { at.saturating_add(len as i128).max(0) } else { at.min(len as i128) };
            items.0.borrow_mut().insert(at as usize, require_argument(item, name, "object")?);
        }
        "pop" => {
            let [at] = args.bind(name, ["index"])?;
            let mut items = items.0.borrow_mut();
            let len = items.len() as i128;
            budget.work(items.len() / 64)?;
            let at = number(at, -1)?;
            let at = usize::try_from(if at < 0 { at.saturating_add(len) } else { at }).ok();
            return match at.filter(|at| *at < items.len()) {
                Some(at) => Ok(items.remove(at)),
                None if items.is_empty() => Err(Error::template("pop from empty list")),
                None => Err(Error::template("pop index out of range")),
            };
        }
        "remove" => {
            let [what] = args.bind(name, ["value"])?;
            match position(&require_argument(what, name, "value")?)? {
                Some(at) => items.0.borrow_mut().remove(at),
                None => return Err(Error::template("list.remove(x): x not in list")),
            };
        }
        "index" => {
            let [what] = args.bind(name, ["value"])?;
            return match position(&require_argument(what, name, "value")?)? {
                Some(at) => Ok(Value::Int(at as i128)),
                None => Err(Error::template("x not in list")),
            };
        }
        "count" => {
            let [what] = args.bind(name, ["value"])?;
            let what = require_argument(what, name, "value")?;
            let mut count = 0;
            for item in items.0.borrow().iter() {
                count += i128::from(compare::equal(budget, item, &what)?);
            }
            return Ok(Value::Int(count));
        }
        "clear" => items.0.borrow_mut().clear(),
        "copy" => return Value::list(budget, items.0.borrow().clone()),
        "reverse" => items.0.borrow_mut().reverse(),
        "sort" => {
            let [_, reverse] = args.bind(name, ["key", "reverse"])?;
            let keyed = items.0.borrow().iter().map(|i| (i.clone(), i.clone())).collect();
            let sorted = compare::sort(budget, keyed, reverse.is_some_and(|r| r.truth()))?;
            *items.0.borrow_mut() = sorted;
        }
        _ => return Err(Error::template(format!("'list object' has no attribute '{name}'"))),
    }
    Ok(Value::None)
}

fn dict(machine: &Machine, of: &Value, name: &str, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    let Value::Dict(map) = of else { return Ok(Value::None) };
    let missing = |key: &Value| {
        let key = show::repr_text(budget, key)?;
        Err(Error::template(format!("KeyError: {}", key.as_str())))
    };
    match name {
        "items" | "keys" | "values" => {
            budget.elements(map.0.borrow().len())?;
            let entries = map.0.borrow().entries().to_vec();
            let each = entries.into_iter().map(|(k, v)| match name {
                "items" => Value::tuple(budget, vec![k, v]),
                "keys" => Ok(k),
                _ => Ok(v),
            });
            Value::list(budget, each.collect::<Result<_>>()?)
        }
        "get" | "pop" | "setdefault" => {
            let [key, default] = args.bind(name, ["key", "default"])?;
            let key = require_argument(key, name, "key")?;
            let found = match name {
                "pop" => {
                    budget.work(map.0.borrow().len() / 4)?;
                    map.0.borrow_mut().remove(&key)?
                }
                _ => map.0.borrow().get(&key)?.cloned(),
            };
            match (found, default) {
                (Some(value), _) => Ok(value),
                (None, default) if name == "setdefault" => {
                    let default = default.unwrap_or(Value::None);
                    budget.elements(2)?;
                    map.0.borrow_mut().insert(key, default.clone())?;
                    Ok(default)
                }
                (None, Some(default)) => Ok(default),
                (None, None) if name == "get" => Ok(Value::None),
                (None, None) => missing(&key),
            }
        }
        "popitem" => {
            let last = map.0.borrow().entries().last().cloned();
            let Some((key, value)) = last else { return Err(Error::template("popitem(): dictionary is empty")) };
            budget.work(map.0.borrow().len() / 4)?;
            map.0.borrow_mut().remove(&key)?;
            Value::tuple(budget, vec![key, value])
        }
        "update" => {
            let from = args.positional.pop();
            let mut entries = match &from {
                Some(Value::Dict(other)) => other.0.borrow().entries().to_vec(),
                Some(other) => {
                    let pair = |v: Value| match v.iterate(budget)?.as_slice() {
                        [key, value] => Ok((key.clone(), value.clone())),
                        _ => Err(Error::template("dictionary update sequence element has not length 2")),
                    };
                    other.iterate(budget)?.into_iter().map(pair).collect::<Result<Vec<_>>>()?
                }
                None => Vec::new(),
            };
            // A name may have come by `**` from outside.
            entries.extend(args.named.into_iter().map(|(n, v)| (Value::Str(Text::from_outside(n)), v)));
            budget.elements(2 * entries.len())?;
            let mut map = map.0.borrow_mut();
            entries.into_iter().try_for_each(|(k, v)| map.insert(k, v))?;
            Ok(Value::None)
        }
        "copy" => Value::dict(budget, map.0.borrow().entries().to_vec()),
        "clear" => {
            *map.0.borrow_mut() = Default::default();
            Ok(Value::None)
        }
        _ => Err(Error::template(format!("'dict object' has no attribute '{name}'"))),
    }
}
