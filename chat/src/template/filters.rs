//! Jinja's filters.

mod numbers;
mod sequences;
mod texts;
mod wrap;

use crate::error::{Error, Result};
use crate::template::args::CallArgs;
use crate::template::run::Machine;
use crate::value::Value;

/// Every filter there is.
pub(crate) const NAMES: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "random",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

/// `value|name(args)`.
pub(crate) fn filter(machine: &Machine, name: &str, value: Value, args: CallArgs) -> Result<Value> {
    machine.budget.work(2)?;
    match name {
        "abs" | "float" | "int" | "round" | "sum" | "filesizeformat" => numbers::filter(machine, name, value, args),
        "batch" | "count" | "dictsort" | "first" | "groupby" | "items" | "join" | "last" | "length" | "list"
        | "map" | "max" | "min" | "random" | "reject" | "rejectattr" | "reverse" | "select" | "selectattr"
        | "slice" | "sort" | "unique" => sequences::filter(machine, name, value, args),
        _ if NAMES.contains(&name) => texts::filter(machine, name, value, args),
        _ => Err(Error::template(format!("No filter named '{name}'."))),
    }
}
