//! `a.b`, `a[b]` and `a[b:c]`.

use std::rc::Rc;
use std::sync::Arc;

use crate::budget::RenderBudget;
use crate::error::{Error, Result};
use crate::template::methods;
use crate::text::{Builder, Text};
use crate::value::{Func, Value};

/// Type names as jinja2's messages have them.
fn type_name(of: &Value) -> String {
    match of {
        Value::None => "None".to_string(),
        other => format!("{} object", other.type_name()),
    }
}

/// An attribute: a method first, then an entry of that name.
pub(crate) fn attr(of: &Value, name: &Arc<str>) -> Result<Value> {
    if let Some(value) = own_attr(of.require_defined()?, name) {
        return Ok(value);
    }
    if let Value::Dict(map) = of {
        if let Some(value) = map.0.borrow().get_str(name) {
            return Ok(value.clone());
        }
    }
    Ok(Value::undefined(format!("'{}' has no attribute '{name}'", type_name(of))))
}

/// What the value itself has under a name, entries aside.
pub(crate) fn own_attr(of: &Value, name: &Arc<str>) -> Option<Value> {
    match of {
        Value::Namespace(map) => map.0.borrow().get_str(name).cloned(),
        Value::Loop(state) => state.attr(name),
        // What `groupby` gives are tuples with names.
        Value::Tuple(items) if items.0.borrow().len() == 2 && ["grouper", "list"].contains(&&**name) => {
            items.0.borrow().get(usize::from(&**name == "list")).cloned()
        }
        Value::Func(func) => match (&**func, &**name) {
            (Func::Cycler(..), "next" | "reset") => Some(bound(of, name)),
            (Func::Cycler(items, at), "current") => items.get(at.get()).cloned(),
            (Func::Macro(called), name) => called.attr(name),
            _ => None,
        },
        of => methods::has(of, name).then(|| bound(of, name)),
    }
}

fn bound(of: &Value, name: &Arc<str>) -> Value {
    Value::Func(Rc::new(Func::Method(of.clone(), Arc::clone(name))))
}

/// `of[index]`: an element or entry, then an attribute of that name.
pub(crate) fn item(budget: &RenderBudget, of: &Value, index: &Value) -> Result<Value> {
    budget.work(1)?;
    match (of.require_defined()?, index) {
        (Value::Dict(map), key) => {
            if let Some(value) = map.0.borrow().get(key)? {
                return Ok(value.clone());
            }
        }
        (Value::List(items) | Value::Tuple(items), Value::Int(_) | Value::Bool(_)) => {
            let items = items.0.borrow();
            if let Some(value) = place(index.index()?, items.len()).map(|at| items[at].clone()) {
                return Ok(value);
            }
        }
        (Value::Str(text), Value::Int(_) | Value::Bool(_)) => {
            budget.scan(text.len())?;
            let at = place(index.index()?, of.length()?);
            let found = at.and_then(|at| text.as_str().char_indices().nth(at));
            if let Some((at, c)) = found {
                return Ok(Value::Str(text.slice(budget, at..at + c.len_utf8())?));
            }
        }
        _ => (),
    }
    if let Value::Str(name) = index {
        if let Some(value) = own_attr(of, &name.to_shared()) {
            return Ok(value);
        }
        return Ok(Value::undefined(format!("'{}' has no attribute '{}'", type_name(of), name.as_str())));
    }
    let shown = crate::value::show::repr_text(budget, index)?;
    Ok(Value::undefined(format!("{} has no element {}", type_name(of), shown.as_str())))
}

/// A Python index as a place.
fn place(index: i128, len: usize) -> Option<usize> {
    let at = if index < 0 { index.checked_add(len as i128)? } else { index };
    usize::try_from(at).ok().filter(|at| *at < len)
}

/// `of[start:stop:step]`.
pub(crate) fn slice(budget: &RenderBudget, of: &Value, bounds: [Value; 3]) -> Result<Value> {
    let [start, stop, step] = bounds;
    let len = match of.require_defined()? {
        Value::Str(_) | Value::List(_) | Value::Tuple(_) => of.length()?,
        other => return Ok(Value::undefined(format!("{} cannot be sliced", type_name(other)))),
    };
    let number = |v: &Value| if matches!(v, Value::None) { Ok(None) } else { v.index().map(Some) };
    let places = places(number(&start)?, number(&stop)?, number(&step)?, len)?;
    budget.work(places.len() / 16 + 1)?;
    match of {
        Value::Str(text) => Ok(Value::Str(pick(budget, text, &places)?)),
        Value::List(items) => Value::list(budget, places.iter().map(|&at| items.0.borrow()[at].clone()).collect()),
        Value::Tuple(items) => Value::tuple(budget, places.iter().map(|&at| items.0.borrow()[at].clone()).collect()),
        _ => Ok(Value::None),
    }
}

/// The elements that a slice names, in order.
fn places(start: Option<i128>, stop: Option<i128>, step: Option<i128>, len: usize) -> Result<Vec<usize>> {
    let (step, len) = (step.unwrap_or(1), len as i128);
    if step == 0 {
        return Err(Error::template("slice step cannot be zero"));
    }
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |value: Option<i128>, missing: i128| match value {
        None => missing,
        Some(v) if v < 0 => v.saturating_add(len).max(low),
        Some(v) => v.min(high),
    };
    let (start, stop) =
        if step > 0 { (bound(start, 0), bound(stop, len)) } else { (bound(start, len - 1), bound(stop, -1)) };
    let mut places = Vec::new();
    let mut at = start;
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        places.push(at as usize);
        at = at.saturating_add(step);
    }
    Ok(places)
}

/// The characters at places.
fn pick(budget: &RenderBudget, text: &Text, places: &[usize]) -> Result<Text> {
    budget.scan(text.len())?;
    let s = text.as_str();
    let contiguous = places.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let (Some(&first), true) = (places.first(), contiguous) else {
        let starts: Vec<(usize, char)> = s.char_indices().collect();
        let mut out = Builder::new(budget);
        for &at in places {
            let (start, c) = starts[at];
            out.push_slice(text, start..start + c.len_utf8())?;
        }
        return Ok(out.finish().with_safe(text.safe));
    };
    let mut bytes = s.char_indices().map(|(at, _)| at).chain([s.len()]).skip(first);
    let start = bytes.next().unwrap_or(s.len());
    let end = bytes.nth(places.len() - 1).unwrap_or(s.len());
    text.slice(budget, start..end)
}
