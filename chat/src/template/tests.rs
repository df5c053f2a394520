//! Jinja's tests: `value is name(args)`.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::budget::RenderBudget;
use crate::error::{Error, Result};
use crate::template::args::{require_argument, CallArgs};
use crate::template::filters;
use crate::value::{compare, show, Value};

const NAMES: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

/// Whether `value is name(args)`.
pub(crate) fn test(budget: &RenderBudget, name: &str, value: &Value, mut args: CallArgs) -> Result<bool> {
    budget.work(1)?;
    if !NAMES.contains(&name) {
        return Err(Error::template(format!("No test named '{name}'.")));
    }
    let takes_one = matches!(
        name,
        "!=" | "<"
            | "<="
            | "=="
            | ">"
            | ">="
            | "divisibleby"
            | "eq"
            | "equalto"
            | "ge"
            | "greaterthan"
            | "gt"
            | "in"
            | "le"
            | "lessthan"
            | "lt"
            | "ne"
            | "sameas"
    );
    let other = match takes_one {
        true => require_argument(args.bind::<1>(name, ["other"])?[0].take(), name, "other")?,
        false => {
            args.bind::<0>(name, [])?;
            Value::None
        }
    };
    let order = |sign| compare::order(budget, value, &other, sign);
    let modulo = |by: i128| -> Result<bool> {
        let whole = match value {
            Value::Float(f) => return Ok(*f % by as f64 == 0.0),
            other => other.index()?,
        };
        whole.checked_rem(by).map(|rest| rest == 0).ok_or_else(|| Error::template("integer division or modulo by zero"))
    };
    Ok(match name {
        "defined" => !matches!(value, Value::Undefined(_)),
        "undefined" => matches!(value, Value::Undefined(_)),
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "number" => matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_)),
        "string" => matches!(value, Value::Str(_)),
        "mapping" => matches!(value, Value::Dict(_)),
        "iterable" => matches!(
            value,
            Value::Str(_)
                | Value::List(_)
                | Value::Tuple(_)
                | Value::Iter(_)
                | Value::Dict(_)
                | Value::Undefined(_)
                | Value::Loop(_)
        ),
        "sequence" => {
            matches!(value, Value::Str(_) | Value::List(_) | Value::Tuple(_) | Value::Dict(_) | Value::Undefined(_))
        }
        "callable" => matches!(value, Value::Func(_) | Value::Loop(_) | Value::Undefined(_)),
        "escaped" => value.text().is_some_and(|t| t.safe),
        "odd" => !modulo(2)?,
        "even" => modulo(2)?,
        "divisibleby" => modulo(other.index()?)?,
        "lower" | "upper" => {
            let text = show::text(budget, value)?;
            let s = text.as_str();
            let wrong = if name == "lower" { char::is_uppercase } else { char::is_lowercase };
            s.chars().any(|c| c.is_lowercase() || c.is_uppercase()) && !s.chars().any(wrong)
        }
        "eq" | "==" | "equalto" => compare::equal(budget, value, &other)?,
        "ne" | "!=" => !compare::equal(budget, value, &other)?,
        "lt" | "<" | "lessthan" => order("<")? == Some(Ordering::Less),
        "le" | "<=" => order("<=")?.is_some_and(Ordering::is_le),
        "gt" | ">" | "greaterthan" => order(">")? == Some(Ordering::Greater),
        "ge" | ">=" => order(">=")?.is_some_and(Ordering::is_ge),
        "in" => compare::contains(budget, &other, value)?,
        "sameas" => same(value, &other),
        "filter" => value.text().is_some_and(|t| filters::NAMES.contains(&t.as_str())),
        _ => value.text().is_some_and(|t| NAMES.contains(&t.as_str())),
    })
}

/// Python's `a is b`, as far as it means anything here.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::None, Value::None) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a.as_str() == b.as_str(),
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => Rc::ptr_eq(a, b),
        (Value::Dict(a), Value::Dict(b)) | (Value::Namespace(a), Value::Namespace(b)) => Rc::ptr_eq(a, b),
        _ => false,
    }
}
