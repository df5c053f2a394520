//! Functions that every template can call.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::error::{Error, Result};
use crate::template::args::{require_argument, CallArgs};
use crate::template::run::Machine;
use crate::text::Text;
use crate::value::{show, DictEntries, Func, Value};

const NAMES: &[&str] = &["range", "dict", "namespace", "cycler", "joiner", "lipsum", "raise_exception", "strftime_now"];

/// The most numbers that `range()` gives, which is the limit of jinja2's sandbox.
const LONGEST_RANGE: usize = 100_000;

/// The global function of a name.
pub(crate) fn find(name: &str) -> Option<Value> {
    let name = NAMES.iter().find(|n| **n == name)?;
    Some(Value::Func(Rc::new(Func::Global(name))))
}

/// Calls one.
pub(crate) fn call(machine: &Machine, name: &str, mut args: CallArgs) -> Result<Value> {
    let budget = machine.budget;
    match name {
        "range" => {
            let bounds = args.positional.iter().map(Value::index).collect::<Result<Vec<_>>>()?;
            let (start, stop, step) = match bounds[..] {
                [stop] => (0, stop, 1),
                [start, stop] => (start, stop, 1),
                [start, stop, step] if step != 0 => (start, stop, step),
                [_, _, _] => return Err(Error::template("range() arg 3 must not be zero")),
                _ => return Err(Error::template("range expected 1 to 3 arguments")),
            };
            let mut items = Vec::new();
            let mut at = start;
            while (step > 0 && at < stop) || (step < 0 && at > stop) {
                if items.len() == LONGEST_RANGE {
                    let message = "Range too big. The sandbox blocks ranges larger than MAX_RANGE";
                    return Err(Error::template(format!("{message} ({LONGEST_RANGE}).")));
                }
                items.push(Value::Int(at));
                at = at.saturating_add(step);
            }
            Value::list(budget, items)
        }
        "dict" | "namespace" => {
            let made = Value::dict(budget, [])?;
            let update = Func::Method(made.clone(), "update".into());
            machine.call(&Value::Func(Rc::new(update)), args)?;
            match made {
                Value::Dict(map) if name == "namespace" => {
                    let entries = map.0.take();
                    Ok(Value::Namespace(budget.register_holder(DictEntries(RefCell::new(entries)))))
                }
                made => Ok(made),
            }
        }
        "cycler" if args.positional.is_empty() => Err(Error::template("at least one item has to be provided")),
        "cycler" => Ok(Value::Func(Rc::new(Func::Cycler(args.positional, Cell::new(0))))),
        "joiner" => {
            let [sep] = args.bind(name, ["sep"])?;
            let sep = sep.map_or(Ok(Text::plain(", ")), |s| show::text(budget, &s))?;
            Ok(Value::Func(Rc::new(Func::Joiner(sep, Cell::new(false)))))
        }
        "raise_exception" => {
            let [message] = args.bind(name, ["message"])?;
            Err(Error::Refused(show::text(budget, &require_argument(message, name, "message")?)?.as_str().to_string()))
        }
        "strftime_now" => {
            let [format] = args.bind(name, ["format"])?;
            let format = show::text(budget, &require_argument(format, name, "format")?)?;
            budget.take(format.len())?;
            Ok(Value::Str(Text::derive(machine.now.format(format.as_str()), &[&format])))
        }
        _ => Err(Error::template(format!("'{name}' is not supported"))),
    }
}
