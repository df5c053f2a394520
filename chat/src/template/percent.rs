//! `'%s' % values` and `'{}'.format(values)`.

use std::sync::Arc;

use crate::budget::RenderBudget;
use crate::error::{Error, Result};
use crate::json::float_repr;
use crate::template::args::CallArgs;
use crate::template::{strings, subscript};
use crate::text::{Builder, Text};
use crate::value::{compare, show, Value};

/// How a value is laid out.
#[derive(Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    zero: bool,
    grouped: Option<char>,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
}

/// Digits of a precision or width that are taken at all.
const MOST: usize = 10_000;

/// `format % values`.
pub(crate) fn format(budget: &RenderBudget, format: &Text, values: &Value) -> Result<Text> {
    budget.scan(format.len())?;
    let s = format.as_str();
    let list = match values {
        Value::Tuple(items) => items.0.borrow().clone(),
        other => vec![other.clone()],
    };
    let mut next = list.iter();
    let mut used = false;
    let mut out = Builder::new(budget);
    let mut at = 0;
    while let Some(found) = s[at..].find('%').map(|i| at + i) {
        out.push_slice(format, at..found)?;
        let mut chars = s[found + 1..].char_indices().peekable();
        let mut named = None;
        if let Some((_, '(')) = chars.peek() {
            let rest = &s[found + 2..];
            let end = rest.find(')').ok_or_else(|| Error::template("incomplete format key"))?;
            let key = Value::str(&rest[..end]);
            named = Some(subscript::item(budget, values, &key)?.require_defined()?.clone());
            chars = s[found + 1..].char_indices().peekable();
            while chars.next_if(|(i, _)| *i <= end + 1).is_some() {}
        }
        let mut spec = Spec::default();
        while let Some((_, flag)) = chars.next_if(|(_, c)| "-+ 0#".contains(*c)) {
            match flag {
                '-' => spec.align = Some('<'),
                '0' => spec.zero = true,
                '#' => spec.alternate = true,
                sign => spec.sign = Some(if spec.sign == Some('+') { '+' } else { sign }),
            }
        }
        let mut missing = || Error::template("not enough arguments for format string");
        let mut number = |chars: &mut std::iter::Peekable<std::str::CharIndices>| -> Result<usize> {
            if chars.next_if(|(_, c)| *c == '*').is_some() {
                return Ok(next.next().ok_or_else(&mut missing)?.index()?.clamp(0, MOST as i128) as usize);
            }
            let mut value = 0usize;
            while let Some((_, c)) = chars.next_if(|(_, c)| c.is_ascii_digit()) {
                value = (value * 10 + c as usize - '0' as usize).min(MOST);
            }
            Ok(value)
        };
        spec.width = number(&mut chars)?;
        if chars.next_if(|(_, c)| *c == '.').is_some() {
            spec.precision = Some(number(&mut chars)?);
        }
        while chars.next_if(|(_, c)| "hlL".contains(*c)).is_some() {}
        let Some((i, kind)) = chars.next() else { return Err(Error::template("incomplete format")) };
        at = found + 1 + i + kind.len_utf8();
        if kind == '%' {
            out.push_str("%", false)?;
            continue;
        }
        let value = match named {
            Some(value) => value,
            None => next.next().ok_or_else(missing)?.clone(),
        };
        used = true;
        let text = match kind {
            's' => cut(budget, show::text(budget, &value)?, spec.precision)?,
            'r' | 'a' => cut(budget, show::repr_text(budget, &value)?, spec.precision)?,
            'c' => match &value {
                Value::Int(i) => {
                    let c = u32::try_from(*i).ok().and_then(char::from_u32);
                    Text::from_outside(c.ok_or_else(|| Error::template("%c arg not in range(0x110000)"))?.to_string())
                }
                other => show::text(budget, other)?,
            },
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                spec.kind = Some(if matches!(kind, 'i' | 'u') { 'd' } else { kind });
                let value = match (&value, spec.kind) {
                    (Value::Float(f), Some('d')) => Value::Int(*f as i128),
                    _ => value,
                };
                if compare::float(&value).is_none() {
                    let message = format!("%{kind} format: a real number is required, not {}", value.type_name());
                    return Err(Error::template(message));
                }
                Text::plain(numeric(&value, &spec)?)
            }
            other => return Err(Error::template(format!("unsupported format character '{other}'"))),
        };
        let numbers = spec.kind.is_some();
        let spec = Spec { align: spec.align.or(Some('>')), zero: spec.zero && numbers, ..spec };
        out.push(&pad_to_width(budget, text, &spec)?)?;
    }
    out.push_slice(format, at..s.len())?;
    if next.next().is_some() && (used || matches!(values, Value::Tuple(_))) && !matches!(values, Value::Dict(_)) {
        return Err(Error::template("not all arguments converted during string formatting"));
    }
    Ok(out.finish().with_safe(format.safe))
}

fn cut(budget: &RenderBudget, text: Text, chars: Option<usize>) -> Result<Text> {
    let Some(chars) = chars else { return Ok(text) };
    let end = text.as_str().char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    text.slice(budget, 0..end)
}

/// `format.format(values)`.
pub(crate) fn braces(budget: &RenderBudget, format: &Text, args: &CallArgs) -> Result<Text> {
    budget.scan(format.len())?;
    let s = format.as_str();
    let mut out = Builder::new(budget);
    let (mut at, mut auto) = (0, 0);
    while let Some(found) = s[at..].find(['{', '}']).map(|i| at + i) {
        out.push_slice(format, at..found)?;
        let rest = &s[found..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            out.push_slice(format, found..found + 1)?;
            at = found + 2;
            continue;
        }
        let end = rest.find('}').filter(|end| *end > 0);
        let end = end.ok_or_else(|| Error::template("Single '}' encountered in format string"))?;
        // A width that is a field itself: `{:{}}`.
        let end = match rest[..end].matches('{').count() {
            1 => end,
            _ => {
                end + 1
                    + rest[end + 1..].find('}').ok_or_else(|| Error::template("expected '}' before end of string"))?
            }
        };
        at = found + end + 1;
        let field = &rest[1..end];
        let (field, spec) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = field.split_once('!').unwrap_or((field, ""));
        let value = look_up_field(budget, name, args, &mut auto)?;
        let spec = match spec.contains('{') {
            true => braces_in_spec(budget, spec, args, &mut auto)?,
            false => spec.to_string(),
        };
        let value = match conversion {
            "" => value,
            "r" | "a" => Value::Str(show::repr_text(budget, &value)?),
            _ => Value::Str(show::text(budget, &value)?),
        };
        out.push(&format_value(budget, &value, &spec)?)?;
    }
    out.push_slice(format, at..s.len())?;
    if format.any_marked() {
        // It says what fills the gaps, too.
        out.spread();
    }
    Ok(out.finish().with_safe(format.safe))
}

fn braces_in_spec(budget: &RenderBudget, spec: &str, args: &CallArgs, auto: &mut usize) -> Result<String> {
    let (before, rest) = spec.split_once('{').unwrap_or((spec, ""));
    let (name, after) = rest.split_once('}').unwrap_or((rest, ""));
    let value = look_up_field(budget, name, args, auto)?;
    Ok(format!("{before}{}{after}", show::text(budget, &value)?.as_str()))
}

/// The value of a field: `0`, `name`, `name.attr`, `0[key]`.
fn look_up_field(budget: &RenderBudget, field: &str, args: &CallArgs, auto: &mut usize) -> Result<Value> {
    let end = field.find(['.', '[']).unwrap_or(field.len());
    let (name, mut rest) = field.split_at(end);
    let index = match name {
        "" => {
            *auto += 1;
            Some(*auto - 1)
        }
        name => name.parse().ok(),
    };
    let mut value = match index {
        Some(index) => args
            .positional
            .get(index)
            .cloned()
            .ok_or_else(|| Error::template("Replacement index out of range for positional args tuple"))?,
        None => {
            let named = args.named.iter().find(|(n, _)| &**n == name);
            named.map(|(_, v)| v.clone()).ok_or_else(|| Error::template(format!("KeyError: '{name}'")))?
        }
    };
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (key, after) = inner.split_once(']').ok_or_else(|| Error::template("Missing ']' in format string"))?;
            let key = key.parse().map(Value::Int).unwrap_or_else(|_| Value::str(key));
            value = subscript::item(budget, &value, &key)?;
            rest = after;
        } else {
            let inner = rest.trim_start_matches('.');
            let end = inner.find(['.', '[']).unwrap_or(inner.len());
            value = subscript::attr(&value, &Arc::from(&inner[..end]))?;
            rest = &inner[end..];
        }
    }
    Ok(value)
}

/// Python's `format(value, spec)`.
fn format_value(budget: &RenderBudget, value: &Value, spec: &str) -> Result<Text> {
    if spec.is_empty() {
        return show::text(budget, value);
    }
    let mut chars: Vec<char> = spec.chars().collect();
    let mut parsed = Spec::default();
    if chars.len() > 1 && "<>^=".contains(chars[1]) {
        (parsed.fill, parsed.align) = (Some(chars[0]), Some(chars[1]));
        chars.drain(..2);
    } else if "<>^=".contains(chars[0]) {
        parsed.align = Some(chars.remove(0));
    }
    let mut rest = chars.into_iter().peekable();
    parsed.sign = rest.next_if(|c| "+- ".contains(*c));
    parsed.alternate = rest.next_if_eq(&'#').is_some();
    parsed.zero = rest.next_if_eq(&'0').is_some();
    while let Some(c) = rest.next_if(char::is_ascii_digit) {
        parsed.width = (parsed.width * 10 + c as usize - '0' as usize).min(MOST);
    }
    parsed.grouped = rest.next_if(|c| *c == ',' || *c == '_');
    if rest.next_if_eq(&'.').is_some() {
        let mut precision = 0;
        while let Some(c) = rest.next_if(char::is_ascii_digit) {
            precision = (precision * 10 + c as usize - '0' as usize).min(MOST);
        }
        parsed.precision = Some(precision);
    }
    parsed.kind = rest.next();
    let bad =
        || Error::template(format!("Invalid format specifier '{spec}' for object of type '{}'", value.type_name()));
    if rest.next().is_some() {
        return Err(bad());
    }
    match value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) if parsed.kind != Some('s') => {
            parsed.align = parsed.align.or(Some('>'));
            pad_to_width(budget, Text::plain(numeric(value, &parsed)?), &parsed)
        }
        Value::Str(text) if matches!(parsed.kind, None | Some('s')) => {
            parsed.align = parsed.align.or(Some('<'));
            pad_to_width(budget, cut(budget, text.clone(), parsed.precision)?, &parsed)
        }
        _ => Err(bad()),
    }
}

/// A number's digits with its sign.
fn numeric(value: &Value, spec: &Spec) -> Result<String> {
    let wrong = || Error::template("a format that numbers do not have");
    let (negative, digits) = match (spec.kind, value) {
        (None | Some('d' | 'x' | 'X' | 'o' | 'b' | 'c'), Value::Int(_) | Value::Bool(_)) => {
            let whole = value.index()?;
            let size = whole.unsigned_abs();
            let digits = match spec.kind {
                Some('x') if spec.alternate => format!("{size:#x}"),
                Some('x') => format!("{size:x}"),
                Some('X') => format!("{size:X}"),
                Some('o') => format!("{size:o}"),
                Some('b') => format!("{size:b}"),
                _ => size.to_string(),
            };
            (whole < 0, digits)
        }
        (kind, value) => {
            let f = compare::float(value).ok_or_else(wrong)?;
            (
                f.is_sign_negative() && !f.is_nan(),
                floating(f.abs(), kind, spec.precision, spec.alternate).ok_or_else(wrong)?,
            )
        }
    };
    let digits = match spec.grouped {
        Some(mark) => group_digits(&digits, mark),
        None => digits,
    };
    let sign = match (negative, spec.sign) {
        (true, _) => "-",
        (false, Some('+')) => "+",
        (false, Some(' ')) => " ",
        _ => "",
    };
    let body = sign.len() + digits.len();
    let zeros = if spec.zero && spec.align != Some('<') { spec.width.saturating_sub(body) } else { 0 };
    Ok(format!("{sign}{}{digits}", "0".repeat(zeros)))
}

fn floating(f: f64, kind: Option<char>, precision: Option<usize>, alternate: bool) -> Option<String> {
    let exponent = |text: String| match text.split_once('e') {
        Some((digits, e)) => {
            let e: i32 = e.parse().unwrap_or(0);
            format!("{digits}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs())
        }
        None => text,
    };
    let six = precision.unwrap_or(6);
    Some(match kind {
        None if precision.is_none() => float_repr(f),
        Some('f' | 'F') => format!("{f:.six$}"),
        Some('%') => format!("{:.six$}%", f * 100.0),
        Some('e') => exponent(format!("{f:.six$e}")),
        Some('E') => exponent(format!("{f:.six$e}")).to_uppercase(),
        None | Some('g' | 'G') => {
            let digits = six.max(1);
            let e: i32 = format!("{f:.*e}", digits - 1).split_once('e')?.1.parse().ok()?;
            let text = if (-4..digits as i32).contains(&e) {
                format!("{f:.*}", (digits as i32 - 1 - e).max(0) as usize)
            } else {
                format!("{f:.*e}", digits - 1)
            };
            let (digits, e) = text.split_once('e').map_or((text.as_str(), None), |(d, e)| (d, Some(e)));
            let digits = match digits.contains('.') && !alternate {
                true => digits.trim_end_matches('0').trim_end_matches('.'),
                false => digits,
            };
            let text = e.map_or(digits.to_string(), |e| exponent(format!("{digits}e{e}")));
            if kind == Some('G') {
                text.to_uppercase()
            } else {
                text
            }
        }
        _ => return None,
    })
}

fn group_digits(digits: &str, mark: char) -> String {
    let (whole, rest) = digits.split_at(digits.find(['.', 'e', '%']).unwrap_or(digits.len()));
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(mark);
        }
        out.push(c);
    }
    out + rest
}

fn pad_to_width(budget: &RenderBudget, text: Text, spec: &Spec) -> Result<Text> {
    let fill = spec.fill.unwrap_or(' ');
    let (left, right) = match spec.align {
        Some('<') => (false, true),
        Some('^') => (true, true),
        _ => (true, false),
    };
    if left && right {
        // Python's `format` puts the odd one on the right.
        let missing = spec.width.saturating_sub(text.as_str().chars().count());
        let half = (spec.width - missing.div_ceil(2)) as i128;
        let text = strings::fill(budget, &text, half, fill, true, false)?;
        return strings::fill(budget, &text, spec.width as i128, fill, false, true);
    }
    strings::fill(budget, &text, spec.width as i128, fill, left, right)
}
