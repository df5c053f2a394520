//! Filters that give numbers.

use crate::error::{Error, Result};
use crate::template::args::CallArgs;
use crate::template::ast::Op;
use crate::template::filters::sequences;
use crate::template::operators;
use crate::template::run::Machine;
use crate::value::{compare, Value};

pub(super) fn filter(machine: &Machine, name: &str, value: Value, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    match name {
        "abs" => match value.require_defined()? {
            Value::Float(f) => Ok(Value::Float(f.abs())),
            other => Ok(Value::Int(other.index()?.checked_abs().unwrap_or(i128::MAX))),
        },
        "float" => {
            let [default] = args.bind(name, ["default"])?;
            let parsed = match value.require_defined()? {
                Value::Str(t) => float(t.as_str()),
                other => compare::float(other),
            };
            Ok(parsed.map(Value::Float).or(default).unwrap_or(Value::Float(0.0)))
        }
        "int" => {
            let [default, base] = args.bind(name, ["default", "base"])?;
            let base = base.map_or(Ok(10), |b| b.index())?;
            let parsed = match value.require_defined()? {
                Value::Str(t) => int(t.as_str(), base).or_else(|| float(t.as_str()).and_then(truncate_to_integer)),
                Value::Float(f) => truncate_to_integer(*f),
                Value::Int(_) | Value::Bool(_) => Some(value.index()?),
                _ => None,
            };
            Ok(parsed.map(Value::Int).or(default).unwrap_or(Value::Int(0)))
        }
        "round" => {
            let [precision, method] = args.bind(name, ["precision", "method"])?;
            let precision = precision.map_or(Ok(0), |p| p.index())?.clamp(-300, 300) as i32;
            let method = method.as_ref().and_then(Value::text).map_or("common", |t| t.as_str());
            let number = compare::float(value.require_defined()?);
            let number =
                number.ok_or_else(|| Error::template(format!("type {} cannot be rounded", value.type_name())))?;
            let scale = 10f64.powi(precision);
            match (method, &value) {
                ("common", Value::Int(_) | Value::Bool(_)) if precision >= 0 => Ok(Value::Int(value.index()?)),
                ("common", _) if precision >= 0 => {
                    // The digits decide exactly, as in Python; ties go to even ones.
                    let digits = format!("{number:.*}", precision as usize);
                    Ok(Value::Float(digits.parse().unwrap_or(number)))
                }
                ("common", Value::Int(_)) => Ok(Value::Int(((number * scale).round_ties_even() / scale) as i128)),
                ("common", _) => Ok(Value::Float((number * scale).round_ties_even() / scale)),
                ("ceil", _) => Ok(Value::Float((number * scale).ceil() / scale)),
                ("floor", _) => Ok(Value::Float((number * scale).floor() / scale)),
                _ => Err(Error::template("method must be common, ceil or floor")),
            }
        }
        "sum" => {
            let [attribute, start] = args.bind(name, ["attribute", "start"])?;
            let mut total = start.unwrap_or(Value::Int(0));
            for item in value.iterate(budget)? {
                let item = match &attribute {
                    Some(attribute) => sequences::attribute(machine, &item, attribute)?,
                    None => item,
                };
                total = operators::binary(budget, Op::Add, &total, &item)?;
            }
            Ok(total)
        }
        _ => {
            let [binary] = args.bind(name, ["binary"])?;
            let binary = binary.is_some_and(|b| b.truth());
            let bytes = match &value {
                Value::Str(t) => float(t.as_str()),
                other => compare::float(other),
            };
            Ok(Value::str(&file_size(bytes.unwrap_or(0.0), binary)))
        }
    }
}

fn truncate_to_integer(f: f64) -> Option<i128> {
    (f.is_finite() && f.abs() < 1e38).then_some(f as i128)
}

/// Python's `float(text)`.
fn float(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-._eE".contains(&b));
    let named = ["inf", "nan", "infinity"].contains(&text.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str());
    if !(plain || named) || text.is_empty() {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// Python's `int(text, base)`.
fn int(text: &str, base: i128) -> Option<i128> {
    let text = text.trim().replace('_', "");
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(&text)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefix = [(16, "0x"), (8, "0o"), (2, "0b")].into_iter().find(|(_, p)| lower.starts_with(p));
    let (base, digits) = match prefix {
        Some((of, _)) if base == 0 || base == of => (of, &lower[2..]),
        _ => (if base == 0 { 10 } else { base }, &lower[..]),
    };
    let base = u32::try_from(base).ok().filter(|b| (2..=36).contains(b))?;
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = i128::from_str_radix(digits, base).ok()?;
    Some(if negative { -value } else { value })
}

fn file_size(bytes: f64, binary: bool) -> String {
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if bytes as i128 == 1 {
        return "1 Byte".to_string();
    }
    if bytes < base {
        return format!("{} Bytes", bytes as i128);
    }
    let names = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
    let power = (1..=names.len()).find(|p| bytes < base.powi(*p as i32 + 1)).unwrap_or(names.len());
    let name = names[power - 1].to_uppercase();
    let unit = if binary { format!("{name}iB") } else { format!("{}B", names[power - 1]) };
    format!("{:.1} {unit}", bytes / base.powi(power as i32))
}
