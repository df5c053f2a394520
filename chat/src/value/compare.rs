//! Python's `==`, `<` and `in`.

use std::cmp::Ordering;

use crate::budget::RenderBudget;
use crate::error::{Error, Result};
use crate::value::Value;

/// Python's `a == b`.
pub(crate) fn equal(budget: &RenderBudget, a: &Value, b: &Value) -> Result<bool> {
    let _level = budget.deeper()?;
    budget.work(1)?;
    Ok(match (a, b) {
        (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
        (Value::Str(a), Value::Str(b)) => {
            budget.scan(a.len().min(b.len()))?;
            a.as_str() == b.as_str()
        }
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            let (a, b) = (a.0.borrow(), b.0.borrow());
            a.len() == b.len() && all(a.iter().zip(b.iter()), |(a, b)| equal(budget, a, b))?
        }
        (Value::Dict(a), Value::Dict(b)) => {
            let (a, b) = (a.0.borrow(), b.0.borrow());
            let same = |(key, value): &(Value, Value)| match b.get(key)? {
                Some(other) => equal(budget, value, other),
                None => Ok(false),
            };
            a.len() == b.len() && all(a.entries().iter(), same)?
        }
        (Value::Iter(a), Value::Iter(b)) => std::rc::Rc::ptr_eq(a, b),
        (Value::Namespace(a), Value::Namespace(b)) => std::rc::Rc::ptr_eq(a, b),
        (Value::Func(a), Value::Func(b)) => std::rc::Rc::ptr_eq(a, b),
        (Value::Loop(a), Value::Loop(b)) => std::rc::Rc::ptr_eq(a, b),
        (a, b) => numbers(a, b).is_some_and(|order| order == Some(Ordering::Equal)),
    })
}

fn all<T>(mut items: impl Iterator<Item = T>, mut test: impl FnMut(T) -> Result<bool>) -> Result<bool> {
    items.try_fold(true, |so_far, item| Ok(so_far && test(item)?))
}

/// How two numbers compare: none, if one is not a number; inside none with a NaN.
fn numbers(a: &Value, b: &Value) -> Option<Option<Ordering>> {
    let whole = |v: &Value| match v {
        Value::Int(i) => Some(*i),
        Value::Bool(b) => Some(i128::from(*b)),
        _ => None,
    };
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        return Some(Some(a.cmp(&b)));
    }
    Some(float(a)?.partial_cmp(&float(b)?))
}

/// A number as a float.
pub(crate) fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(i) => Some(*i as f64),
        Value::Bool(b) => Some(f64::from(u8::from(*b))),
        Value::Float(f) => Some(*f),
        _ => None,
    }
}

/// Python's order of two values; none, if a NaN is among them. `sign` is for the message.
pub(crate) fn order(budget: &RenderBudget, a: &Value, b: &Value, sign: &str) -> Result<Option<Ordering>> {
    let _level = budget.deeper()?;
    budget.work(1)?;
    if let Some(order) = numbers(a, b) {
        return Ok(order);
    }
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => {
            budget.scan(a.len().min(b.len()))?;
            Ok(Some(a.as_str().cmp(b.as_str())))
        }
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            let (a, b) = (a.0.borrow(), b.0.borrow());
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(budget, a, b)? {
                    return order(budget, a, b, sign);
                }
            }
            Ok(Some(a.len().cmp(&b.len())))
        }
        (a, b) => Err(Error::template(format!(
            "'{sign}' not supported between instances of '{}' and '{}'",
            a.require_defined()?.type_name(),
            b.require_defined()?.type_name()
        ))),
    }
}

/// Python's `needle in hay`.
pub(crate) fn contains(budget: &RenderBudget, hay: &Value, needle: &Value) -> Result<bool> {
    match hay {
        Value::Str(hay) => match needle {
            Value::Str(needle) => {
                budget.scan(hay.len())?;
                Ok(hay.as_str().contains(needle.as_str()))
            }
            other => Err(Error::template(format!(
                "'in <string>' requires string as left operand, not {}",
                other.type_name()
            ))),
        },
        Value::List(list) | Value::Tuple(list) | Value::Iter(list) => {
            let items = list.0.borrow();
            for item in items.iter() {
                if equal(budget, item, needle)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Dict(map) => Ok(map.0.borrow().get(needle)?.is_some()),
        Value::Undefined(_) => Ok(false),
        other => Err(Error::template(format!("argument of type '{}' is not iterable", other.type_name()))),
    }
}

/// Sorts by keys that belong to the items: a stable merge sort, as the order of what cannot be compared is an error, and of NaNs none.
pub(crate) fn sort(budget: &RenderBudget, items: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<Value>> {
    let before = |a: usize, b: usize| -> Result<bool> {
        // Equal ones keep their order in both directions, as with Python's `reverse`.
        let (a, b) = if reverse { (&items[b].0, &items[a].0) } else { (&items[a].0, &items[b].0) };
        Ok(order(budget, a, b, "<")? == Some(Ordering::Less))
    };
    let mut sorted: Vec<usize> = (0..items.len()).collect();
    let mut width = 1;
    while width < sorted.len() {
        let mut merged = Vec::with_capacity(sorted.len());
        for pair in sorted.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some((&l, left_rest)), Some((&r, right_rest))) = (left.split_first(), right.split_first()) {
                if before(r, l)? {
                    merged.push(r);
                    right = right_rest;
                } else {
                    merged.push(l);
                    left = left_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        sorted = merged;
        width *= 2;
    }
    Ok(sorted.into_iter().map(|i| items[i].1.clone()).collect())
}
