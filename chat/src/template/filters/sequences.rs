//! Filters over lists, dicts and the characters of strings.

use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::template::args::{require_argument, CallArgs};
use crate::template::run::Machine;
use crate::template::{filters, strings, subscript, tests};
use crate::text::{Builder, Text};
use crate::value::{compare, show, Value};

/// What an attribute filter reads of an item: names or numbers with dots between them.
pub(super) fn attribute(machine: &Machine, item: &Value, name: &Value) -> Result<Value> {
    let Value::Str(name) = name else { return subscript::item(machine.budget, item, name) };
    let mut value = item.clone();
    for part in name.as_str().split('.') {
        let part = part.parse().map(Value::Int).unwrap_or_else(|_| Value::str(part));
        value = subscript::item(machine.budget, &value, &part)?;
    }
    Ok(value)
}

/// What items are compared by: an attribute, or themselves; strings without case unless told.
struct SortKeys {
    attribute: Option<Value>,
    default: Option<Value>,
    case: bool,
}

impl SortKeys {
    fn of(&self, machine: &Machine, item: &Value) -> Result<Value> {
        let value = match &self.attribute {
            None | Some(Value::None) => item.clone(),
            Some(attr) => attribute(machine, item, attr)?,
        };
        let value = match (value, &self.default) {
            (Value::Undefined(_), Some(default)) => default.clone(),
            (value, _) => value,
        };
        match value {
            Value::Str(text) if !self.case => Ok(Value::Str(strings::lower(machine.budget, &text)?)),
            value => Ok(value),
        }
    }

    fn compute_keys(&self, machine: &Machine, items: Vec<Value>) -> Result<Vec<(Value, Value)>> {
        items.into_iter().map(|item| Ok((self.of(machine, &item)?, item))).collect()
    }
}

fn truth(value: Option<Value>) -> bool {
    value.is_some_and(|v| v.truth())
}

pub(super) fn filter(machine: &Machine, name: &str, value: Value, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    match name {
        "length" | "count" => {
            if let Value::Str(text) = &value {
                budget.scan(text.len())?;
            }
            Ok(Value::Int(value.length()? as i128))
        }
        "list" => Value::list(budget, value.iterate(budget)?),
        "first" => Ok(first(&value.iterate(budget)?)),
        "random" => Ok(first(&value.iterate(budget)?)),
        "last" => {
            let items = value.iterate(budget)?;
            Ok(items.last().cloned().unwrap_or_else(|| Value::undefined("No last item, sequence was empty.")))
        }
        "reverse" => {
            let mut items = value.iterate(budget)?;
            items.reverse();
            match &value {
                Value::Str(text) => {
                    let mut out = Builder::new(budget);
                    items.iter().filter_map(Value::text).try_for_each(|t| out.push(t))?;
                    Ok(Value::Str(out.finish().with_safe(text.safe)))
                }
                _ => Value::iter(budget, items),
            }
        }
        "join" => {
            let [sep, attr] = args.bind(name, ["d", "attribute"])?;
            let sep = sep.map_or(Ok(Text::plain("")), |s| show::text(budget, &s))?;
            let part = |item: Value| match &attr {
                Some(attr) if !matches!(attr, Value::None) => show::text(budget, &attribute(machine, &item, attr)?),
                _ => show::text(budget, &item),
            };
            let parts = value.iterate(budget)?.into_iter().map(part).collect::<Result<Vec<_>>>()?;
            Ok(Value::Str(strings::join(budget, &sep, &parts)?))
        }
        "items" => match &value {
            Value::Undefined(_) => Value::iter(budget, Vec::new()),
            Value::Dict(map) => pairs(machine, map.0.borrow().entries().to_vec()),
            _ => Err(Error::template("Can only get item pairs from a mapping.")),
        },
        "dictsort" => {
            let [case, by, reverse] = args.bind(name, ["case_sensitive", "by", "reverse"])?;
            let keys = SortKeys { attribute: None, default: None, case: truth(case) };
            let by_value = match by.as_ref().and_then(Value::text).map_or("key", |t| t.as_str()) {
                "key" => false,
                "value" => true,
                _ => return Err(Error::template("You can only sort by either \"key\" or \"value\"")),
            };
            let Value::Dict(map) = value.require_defined()? else {
                return Err(Error::template(format!("'{} object' has no attribute 'items'", value.type_name())));
            };
            let entries = map.0.borrow();
            let keyed = entries.entries().iter().map(|(k, v)| {
                let key = keys.of(machine, if by_value { v } else { k })?;
                Ok((key, Value::tuple(budget, vec![k.clone(), v.clone()])?))
            });
            let keyed = keyed.collect::<Result<Vec<_>>>()?;
            Value::list(budget, compare::sort(budget, keyed, truth(reverse))?)
        }
        "sort" => {
            let [reverse, case, attribute] = args.bind(name, ["reverse", "case_sensitive", "attribute"])?;
            let several = attribute.as_ref().and_then(Value::text).map(|t| t.as_str().to_string());
            let items = value.iterate(budget)?;
            let case = truth(case);
            let attributes = match several.as_deref() {
                None => vec![attribute],
                Some(names) => names.split(',').map(|name| Some(Value::str(name))).collect(),
            };
            let keys: Vec<SortKeys> =
                attributes.into_iter().map(|attribute| SortKeys { attribute, default: None, case }).collect();
            // A tuple even of one: what is equal in it need not have an order.
            let of = |item: &Value| {
                Value::tuple(budget, keys.iter().map(|key| key.of(machine, item)).collect::<Result<_>>()?)
            };
            let keyed = items.into_iter().map(|item| Ok((of(&item)?, item))).collect::<Result<Vec<_>>>()?;
            Value::list(budget, compare::sort(budget, keyed, truth(reverse))?)
        }
        "unique" => {
            let [case, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
            let keys = SortKeys { attribute, default: None, case: truth(case) };
            let keyed = keys.compute_keys(machine, value.iterate(budget)?)?;
            let mut seen = crate::value::Dict::default();
            let mut kept = Vec::new();
            for (key, item) in keyed {
                if seen.get(&key)?.is_none() {
                    seen.insert(key, Value::None)?;
                    kept.push(item);
                }
            }
            Value::iter(budget, kept)
        }
        "min" | "max" => {
            let [case, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
            let keys = SortKeys { attribute, default: None, case: truth(case) };
            let mut best: Option<(Value, Value)> = None;
            for (key, item) in keys.compute_keys(machine, value.iterate(budget)?)? {
                let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
                let better = match &best {
                    Some((so_far, _)) => compare::order(budget, &key, so_far, "<")? == Some(wanted),
                    None => true,
                };
                if better {
                    best = Some((key, item));
                }
            }
            Ok(best.map_or_else(|| Value::undefined("No aggregated item, sequence was empty."), |(_, item)| item))
        }
        "groupby" => {
            let [attribute, default, case] = args.bind(name, ["attribute", "default", "case_sensitive"])?;
            let keys = SortKeys {
                attribute: Some(require_argument(attribute, name, "attribute")?),
                default,
                case: truth(case),
            };
            let keyed = keys.compute_keys(machine, value.iterate(budget)?)?;
            let with_key = keyed.into_iter().map(|(k, v)| Ok((k.clone(), Value::tuple(budget, vec![k, v])?)));
            let sorted = compare::sort(budget, with_key.collect::<Result<_>>()?, false)?;
            let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
            for pair in sorted {
                let pair = pair.iterate(budget)?;
                match groups.last_mut() {
                    Some((key, group)) if compare::equal(budget, key, &pair[0])? => group.push(pair[1].clone()),
                    _ => groups.push((pair[0].clone(), vec![pair[1].clone()])),
                }
            }
            let named = SortKeys { case: true, ..keys };
            let group = |(_, group): (Value, Vec<Value>)| {
                // The name is the first item's, with its case.
                let key = named.of(machine, &group[0])?;
                Value::tuple(budget, vec![key, Value::list(budget, group)?])
            };
            Value::list(budget, groups.into_iter().map(group).collect::<Result<_>>()?)
        }
        "batch" => {
            let [count, fill] = args.bind(name, ["linecount", "fill_with"])?;
            let count = usize::try_from(require_argument(count, name, "linecount")?.index()?).unwrap_or(0).max(1);
            let items = value.iterate(budget)?;
            let row = |row: &[Value]| {
                let mut row = row.to_vec();
                if let Some(fill) = fill.as_ref().filter(|f| !matches!(f, Value::None)) {
                    budget.elements(count - row.len())?;
                    row.resize(count, fill.clone());
                }
                Value::list(budget, row)
            };
            Value::iter(budget, items.chunks(count).map(row).collect::<Result<_>>()?)
        }
        "slice" => {
            let [slices, fill] = args.bind(name, ["slices", "fill_with"])?;
            let slices = usize::try_from(require_argument(slices, name, "slices")?.index()?).unwrap_or(0);
            if slices == 0 {
                return Err(Error::template("integer division or modulo by zero"));
            }
            budget.elements(slices)?;
            let items = value.iterate(budget)?;
            let (each, longer) = (items.len() / slices, items.len() % slices);
            let mut at = 0;
            let mut rows = Vec::new();
            for i in 0..slices {
                let len = each + usize::from(i < longer);
                let mut row = items[at..at + len].to_vec();
                at += len;
                if let (Some(fill), true) = (fill.as_ref().filter(|f| !matches!(f, Value::None)), i >= longer) {
                    row.push(fill.clone());
                }
                rows.push(Value::list(budget, row)?);
            }
            Value::iter(budget, rows)
        }
        "map" => map(machine, value, args),
        _ => select(machine, name, value, args),
    }
}

fn first(items: &[Value]) -> Value {
    items.first().cloned().unwrap_or_else(|| Value::undefined("No first item, sequence was empty."))
}

fn pairs(machine: &Machine, entries: Vec<(Value, Value)>) -> Result<Value> {
    let each = entries.into_iter().map(|(k, v)| Value::tuple(machine.budget, vec![k, v]));
    Value::iter(machine.budget, each.collect::<Result<_>>()?)
}

/// The items of a value, none if it is not true: these filters look no further.
fn some(machine: &Machine, value: &Value) -> Result<Vec<Value>> {
    if value.truth() {
        value.iterate(machine.budget)
    } else {
        Ok(Vec::new())
    }
}

/// `map(attribute=…, default=…)` or `map(filter, args…)`.
fn map(machine: &Machine, value: Value, mut args: CallArgs) -> Result<Value> {
    let items = some(machine, &value)?;
    if args.positional.is_empty() {
        let [attr, default] = args.bind("map", ["attribute", "default"])?;
        let keys = SortKeys { attribute: Some(require_argument(attr, "map", "attribute")?), default, case: true };
        let mapped = items.iter().map(|item| keys.of(machine, item));
        return Value::iter(machine.budget, mapped.collect::<Result<_>>()?);
    }
    let name = args.positional.remove(0);
    let Value::Str(name) = &name else { return Err(Error::template("map requires a filter's name")) };
    let mapped = items.into_iter().map(|item| filters::filter(machine, name.as_str(), item, copy_args(&args)));
    Value::iter(machine.budget, mapped.collect::<Result<_>>()?)
}

fn copy_args(args: &CallArgs) -> CallArgs {
    CallArgs { positional: args.positional.clone(), named: args.named.clone() }
}

/// `select`, `reject`, `selectattr` and `rejectattr`.
fn select(machine: &Machine, name: &str, value: Value, mut args: CallArgs) -> Result<Value> {
    let wanted = name.starts_with("select");
    let attr = match name.ends_with("attr") {
        true if args.positional.is_empty() => return Err(Error::template("Missing parameter for attribute name")),
        true => Some(args.positional.remove(0)),
        false => None,
    };
    let test = if args.positional.is_empty() { None } else { Some(args.positional.remove(0)) };
    let mut kept = Vec::new();
    for item in some(machine, &value)? {
        let looked_at = match &attr {
            Some(attr) => attribute(machine, &item, attr)?,
            None => item.clone(),
        };
        let holds = match &test {
            None => looked_at.truth(),
            Some(Value::Str(test)) => tests::test(machine.budget, test.as_str(), &looked_at, copy_args(&args))?,
            Some(_) => return Err(Error::template("a test's name must be a string")),
        };
        if holds == wanted {
            kept.push(item);
        }
    }
    Value::iter(machine.budget, kept)
}
