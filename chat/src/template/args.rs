//! Arguments of a call, and which parameter each is for.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::value::Value;

/// Evaluated arguments.
#[derive(Default)]
pub(crate) struct CallArgs {
    pub positional: Vec<Value>,
    pub named: Vec<(Arc<str>, Value)>,
}

impl CallArgs {
    /// Values of the parameters, as far as they are given; others are an error.
    pub fn bind<const N: usize>(&mut self, what: &str, names: [&str; N]) -> Result<[Option<Value>; N]> {
        let count = self.positional.len();
        if count > N {
            return Err(Error::template(format!("{what}() takes at most {N} arguments ({count} given)")));
        }
        let mut bound: [Option<Value>; N] = [const { None }; N];
        for (at, value) in std::mem::take(&mut self.positional).into_iter().enumerate() {
            bound[at] = Some(value);
        }
        for (name, value) in std::mem::take(&mut self.named) {
            match names.iter().position(|n| **n == *name) {
                Some(at) if bound[at].is_none() => bound[at] = Some(value),
                Some(_) => return Err(Error::template(format!("{what}() got multiple values for argument '{name}'"))),
                None => return Err(Error::template(format!("{what}() got an unexpected keyword argument '{name}'"))),
            }
        }
        Ok(bound)
    }
}

/// An argument that must be there.
pub(crate) fn require_argument(value: Option<Value>, what: &str, name: &str) -> Result<Value> {
    value.ok_or_else(|| Error::template(format!("{what}() missing required argument: '{name}'")))
}
