//! Python's arithmetic and comparisons.

use std::cmp::Ordering;

use crate::budget::RenderBudget;
use crate::error::{Error, Result};
use crate::template::ast::{Cmp, Op};
use crate::template::{percent, strings};
use crate::text::{Builder, Text};
use crate::value::{compare as order, Value};

/// `a cmp b`.
pub(crate) fn compare(budget: &RenderBudget, cmp: Cmp, a: &Value, b: &Value) -> Result<bool> {
    Ok(match cmp {
        Cmp::Eq => order::equal(budget, a, b)?,
        Cmp::Ne => !order::equal(budget, a, b)?,
        Cmp::Lt => order::order(budget, a, b, "<")? == Some(Ordering::Less),
        Cmp::Le => order::order(budget, a, b, "<=")?.is_some_and(Ordering::is_le),
        Cmp::Gt => order::order(budget, a, b, ">")? == Some(Ordering::Greater),
        Cmp::Ge => order::order(budget, a, b, ">=")?.is_some_and(Ordering::is_ge),
        Cmp::In => order::contains(budget, b, a)?,
        Cmp::NotIn => !order::contains(budget, b, a)?,
    })
}

/// `-a` and `+a`.
pub(crate) fn unary(sign: char, of: &Value) -> Result<Value> {
    match (sign, of.require_defined()?) {
        ('-', Value::Float(f)) => Ok(Value::Float(-f)),
        ('-', Value::Int(_) | Value::Bool(_)) => of.index()?.checked_neg().map(Value::Int).ok_or_else(too_large),
        ('+', Value::Float(_) | Value::Int(_) | Value::Bool(_)) => Ok(of.clone()),
        (sign, other) => Err(Error::template(format!("bad operand type for unary {sign}: '{}'", other.type_name()))),
    }
}

fn too_large() -> Error {
    Error::template("an integer of over 128 bits")
}

/// `a op b`.
pub(crate) fn binary(budget: &RenderBudget, op: Op, a: &Value, b: &Value) -> Result<Value> {
    match (op, a.require_defined()?, b) {
        (Op::Mod, Value::Str(format), _) => return Ok(Value::Str(percent::format(budget, format, b)?)),
        (_, _, Value::Undefined(_)) => {
            b.require_defined()?;
        }
        (Op::Add, Value::Str(a), Value::Str(b)) => return Ok(Value::Str(concat(budget, a, b)?)),
        (Op::Add, Value::List(x), Value::List(y)) => {
            return Value::list(budget, [&x.0.borrow()[..], &y.0.borrow()[..]].concat())
        }
        (Op::Add, Value::Tuple(x), Value::Tuple(y)) => {
            return Value::tuple(budget, [&x.0.borrow()[..], &y.0.borrow()[..]].concat())
        }
        (Op::Mul, Value::Str(_) | Value::List(_) | Value::Tuple(_), Value::Int(_) | Value::Bool(_)) => {
            return repeat(budget, a, b.index()?)
        }
        (Op::Mul, Value::Int(_) | Value::Bool(_), Value::Str(_) | Value::List(_) | Value::Tuple(_)) => {
            return repeat(budget, b, a.index()?)
        }
        _ => (),
    }
    if let (Ok(a), Ok(b)) = (a.index(), b.index()) {
        return integers(op, a, b);
    }
    if let (Some(a), Some(b)) = (order::float(a), order::float(b)) {
        return floats(op, a, b).map(Value::Float);
    }
    let sign = match op {
        Op::Add => "+",
        Op::Sub => "-",
        Op::Mul => "*",
        Op::Div => "/",
        Op::FloorDiv => "//",
        Op::Mod => "%",
        Op::Pow => "** or pow()",
    };
    if let (Op::Add, Value::Str(_)) = (op, a) {
        return Err(Error::template(format!("can only concatenate str (not \"{}\") to str", b.type_name())));
    }
    let (a, b) = (a.type_name(), b.type_name());
    Err(Error::template(format!("unsupported operand type(s) for {sign}: '{a}' and '{b}'")))
}

/// `a + b`: if one of them is safe, the other is escaped for HTML.
fn concat(budget: &RenderBudget, a: &Text, b: &Text) -> Result<Text> {
    let safe = a.safe || b.safe;
    let mut out = Builder::new(budget);
    for part in [a, b] {
        match safe && !part.safe {
            true => out.push(&strings::escape(budget, part)?)?,
            false => out.push(part)?,
        }
    }
    Ok(out.finish().with_safe(safe))
}

fn repeat(budget: &RenderBudget, what: &Value, times: i128) -> Result<Value> {
    let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
    match what {
        Value::Str(text) => {
            budget.string(text.len().saturating_mul(times))?;
            let mut out = Builder::new(budget);
            if !text.is_empty() {
                (0..times).try_for_each(|_| out.push(text))?;
            }
            Ok(Value::Str(out.finish().with_safe(text.safe)))
        }
        Value::List(items) | Value::Tuple(items) => {
            let items = items.0.borrow();
            budget.elements(items.len().saturating_mul(times))?;
            let all = if items.is_empty() {
                Vec::new()
            } else {
                std::iter::repeat_n(&items[..], times).flatten().cloned().collect()
            };
            if matches!(what, Value::List(_)) {
                Value::list(budget, all)
            } else {
                Value::tuple(budget, all)
            }
        }
        _ => Ok(Value::None),
    }
}

fn integers(op: Op, a: i128, b: i128) -> Result<Value> {
    let zero = |what: &str| Err(Error::template(what));
    let whole = match op {
        Op::Add => a.checked_add(b),
        Op::Sub => a.checked_sub(b),
        Op::Mul => a.checked_mul(b),
        Op::Div if b == 0 => return zero("division by zero"),
        Op::Div => return Ok(Value::Float(a as f64 / b as f64)),
        Op::FloorDiv | Op::Mod if b == 0 => return zero("integer division or modulo by zero"),
        Op::FloorDiv => a.checked_div_euclid(b).and_then(|q| match b < 0 && a.rem_euclid(b) != 0 {
            true => q.checked_sub(1),
            false => Some(q),
        }),
        Op::Mod => a.checked_rem_euclid(b).map(|r| if b < 0 && r != 0 { r + b } else { r }),
        Op::Pow if b < 0 => return floats(op, a as f64, b as f64).map(Value::Float),
        Op::Pow => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)).or(match a {
            0 | 1 => Some(a),
            _ => None,
        }),
    };
    whole.map(Value::Int).ok_or_else(too_large)
}

fn floats(op: Op, a: f64, b: f64) -> Result<f64> {
    Ok(match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div | Op::FloorDiv | Op::Mod if b == 0.0 => return Err(Error::template("float division by zero")),
        Op::Div => a / b,
        Op::FloorDiv => (a / b).floor(),
        Op::Mod => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
                rest + b
            } else {
                rest
            }
        }
        Op::Pow => a.powf(b),
    })
}
