//! Values of a template's world, with Python's behaviour.

pub(crate) mod compare;
pub(crate) mod dump;
pub(crate) mod show;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::budget::{Holds, RenderBudget};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::template::run::{LoopState, Macro};
use crate::text::Text;

/// A value.
#[derive(Clone)]
pub(crate) enum Value {
    /// Nothing there; the text says what was looked for.
    Undefined(Rc<str>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Text),
    List(Rc<List>),
    Tuple(Rc<List>),
    /// What filters such as `map` give in Python, a generator: true, without a length, and empty when it was gone over once.
    Iter(Rc<List>),
    Dict(Rc<DictEntries>),
    /// The value of `namespace()`: attributes that a loop may set.
    Namespace(Rc<DictEntries>),
    Func(Rc<Func>),
    Loop(Rc<LoopState>),
}

/// What can be called.
pub(crate) enum Func {
    /// By name: `range`, `dict`, `raise_exception` …
    Global(&'static str),
    /// A method, bound to its value.
    Method(Value, Arc<str>),
    Macro(Macro),
    /// Calls go round the values.
    Cycler(Vec<Value>, Cell<usize>),
    /// The first call gives nothing, later ones the separator.
    Joiner(Text, Cell<bool>),
}

/// The elements of a list or tuple.
pub(crate) struct List(pub RefCell<Vec<Value>>);

/// The entries of a dict or namespace.
pub(crate) struct DictEntries(pub RefCell<Dict>);

/// Entries in order, found by key.
#[derive(Default)]
pub(crate) struct Dict {
    entries: Vec<(Value, Value)>,
    places: HashMap<DictKey, usize>,
}

/// What makes two keys equal.
#[derive(Clone, PartialEq, Eq, Hash)]
enum DictKey {
    None,
    Int(i128),
    Float(u64),
    Str(Arc<str>),
    Tuple(Vec<DictKey>),
    Undefined,
}

impl DictKey {
    fn of(value: &Value) -> Result<DictKey> {
        Ok(match value {
            Value::None => DictKey::None,
            Value::Bool(b) => DictKey::Int(i128::from(*b)),
            Value::Int(i) => DictKey::Int(*i),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e30 => DictKey::Int(*f as i128),
            Value::Float(f) => DictKey::Float(f.to_bits()),
            Value::Str(s) => DictKey::Str(s.to_shared()),
            // Tuples are never deep: one is made of values that stand in the template.
            Value::Tuple(items) => {
                DictKey::Tuple(items.0.borrow().iter().map(DictKey::shallow).collect::<Result<_>>()?)
            }
            Value::Undefined(_) => DictKey::Undefined,
            other => return Err(unhashable(other)),
        })
    }

    fn shallow(value: &Value) -> Result<DictKey> {
        match value {
            Value::Tuple(_) => Err(Error::template("tuples in tuples as keys are not supported")),
            other => DictKey::of(other),
        }
    }
}

fn unhashable(value: &Value) -> Error {
    Error::template(format!("unhashable type: '{}'", value.type_name()))
}

impl Dict {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, key: &Value) -> Result<Option<&Value>> {
        Ok(self.places.get(&DictKey::of(key)?).map(|&at| &self.entries[at].1))
    }

    pub fn get_str(&self, key: &str) -> Option<&Value> {
        self.places.get(&DictKey::Str(key.into())).map(|&at| &self.entries[at].1)
    }

    /// Sets a key's value; one that is there keeps its place.
    pub fn insert(&mut self, key: Value, value: Value) -> Result<()> {
        let hashed = DictKey::of(&key)?;
        match self.places.get(&hashed) {
            Some(&at) => self.entries[at].1 = value,
            None => {
                self.places.insert(hashed, self.entries.len());
                self.entries.push((key, value));
            }
        }
        Ok(())
    }

    pub fn remove(&mut self, key: &Value) -> Result<Option<Value>> {
        let Some(at) = self.places.remove(&DictKey::of(key)?) else { return Ok(None) };
        self.places.values_mut().filter(|place| **place > at).for_each(|place| *place -= 1);
        Ok(Some(self.entries.remove(at).1))
    }

    pub fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }
}

impl Value {
    pub fn undefined(message: impl Into<String>) -> Value {
        Value::Undefined(message.into().into())
    }

    /// The template's own text.
    pub fn str(s: &str) -> Value {
        Value::Str(Text::plain(s))
    }

    pub fn list(budget: &RenderBudget, items: Vec<Value>) -> Result<Value> {
        budget.elements(items.len() + 1)?;
        Ok(Value::List(budget.register_holder(List(RefCell::new(items)))))
    }

    pub fn iter(budget: &RenderBudget, items: Vec<Value>) -> Result<Value> {
        budget.elements(items.len() + 1)?;
        Ok(Value::Iter(budget.register_holder(List(RefCell::new(items)))))
    }

    pub fn tuple(budget: &RenderBudget, items: Vec<Value>) -> Result<Value> {
        budget.elements(items.len() + 1)?;
        Ok(Value::Tuple(budget.register_holder(List(RefCell::new(items)))))
    }

    pub fn dict(budget: &RenderBudget, entries: impl IntoIterator<Item = (Value, Value)>) -> Result<Value> {
        let mut dict = Dict::default();
        for (key, value) in entries {
            budget.elements(2)?;
            dict.insert(key, value)?;
        }
        Ok(Value::Dict(budget.register_holder(DictEntries(RefCell::new(dict)))))
    }

    /// A value from outside, all of its strings marked.
    pub fn from_outside(budget: &RenderBudget, json: &Json) -> Result<Value> {
        let _level = budget.deeper()?;
        Ok(match json {
            Json::Null => Value::None,
            Json::Bool(b) => Value::Bool(*b),
            Json::Int(i) => Value::Int(*i),
            Json::Float(f) => Value::Float(*f),
            Json::Str(s) => {
                budget.take(s.len())?;
                Value::Str(Text::from_outside(s.as_str()))
            }
            Json::Array(items) => {
                Value::list(budget, items.iter().map(|i| Value::from_outside(budget, i)).collect::<Result<_>>()?)?
            }
            Json::Object(entries) => {
                let entry = |(key, value): &(String, Json)| {
                    budget.take(key.len())?;
                    Ok((Value::Str(Text::from_outside(key.as_str())), Value::from_outside(budget, value)?))
                };
                Value::dict(budget, entries.iter().map(entry).collect::<Result<Vec<_>>>()?)?
            }
        })
    }

    /// Python's name of the type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Undefined(_) => "Undefined",
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Str(t) if t.safe => "Markup",
            Value::Str(_) => "str",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Iter(_) => "generator",
            Value::Dict(_) => "dict",
            Value::Namespace(_) => "Namespace",
            Value::Func(f) => match &**f {
                Func::Macro(_) => "Macro",
                Func::Method(..) => "builtin_function_or_method",
                _ => "function",
            },
            Value::Loop(_) => "LoopContext",
        }
    }

    /// Python's truth of a value.
    pub fn truth(&self) -> bool {
        match self {
            Value::Undefined(_) | Value::None => false,
            Value::Bool(b) => *b,
            Value::Int(i) => *i != 0,
            Value::Float(f) => *f != 0.0,
            Value::Str(s) => !s.is_empty(),
            Value::List(l) | Value::Tuple(l) => !l.0.borrow().is_empty(),
            Value::Dict(d) => d.0.borrow().len() > 0,
            Value::Iter(_) | Value::Namespace(_) | Value::Func(_) | Value::Loop(_) => true,
        }
    }

    /// An error if the value is undefined: most uses of one are.
    pub fn require_defined(&self) -> Result<&Value> {
        match self {
            Value::Undefined(message) => Err(Error::template(&**message)),
            value => Ok(value),
        }
    }

    /// The values that a loop goes over.
    pub fn iterate(&self, budget: &RenderBudget) -> Result<Vec<Value>> {
        let items = match self {
            Value::Undefined(_) => Vec::new(),
            Value::List(l) | Value::Tuple(l) => {
                budget.elements(l.0.borrow().len())?;
                l.0.borrow().clone()
            }
            Value::Iter(l) => std::mem::take(&mut *l.0.borrow_mut()),
            Value::Dict(d) => {
                budget.elements(d.0.borrow().len())?;
                d.0.borrow().entries().iter().map(|(key, _)| key.clone()).collect()
            }
            Value::Str(s) => {
                budget.elements(s.len())?;
                let each = s.as_str().char_indices().map(|(at, c)| s.slice(budget, at..at + c.len_utf8()));
                each.map(|t| t.map(Value::Str)).collect::<Result<_>>()?
            }
            Value::Loop(state) => state.rest(),
            other => return Err(Error::template(format!("'{}' object is not iterable", other.type_name()))),
        };
        Ok(items)
    }

    /// Python's `len`.
    pub fn length(&self) -> Result<usize> {
        Ok(match self {
            Value::Undefined(_) => 0,
            Value::Str(s) => s.as_str().chars().count(),
            Value::List(l) | Value::Tuple(l) => l.0.borrow().len(),
            Value::Dict(d) => d.0.borrow().len(),
            Value::Loop(state) => state.length(),
            other => return Err(Error::template(format!("object of type '{}' has no len()", other.type_name()))),
        })
    }

    /// The value as a whole number, as an index or count.
    pub fn index(&self) -> Result<i128> {
        match self {
            Value::Int(i) => Ok(*i),
            Value::Bool(b) => Ok(i128::from(*b)),
            other => Err(Error::template(format!(
                "'{}' object cannot be interpreted as an integer",
                other.require_defined()?.type_name()
            ))),
        }
    }

    /// A string's text.
    pub fn text(&self) -> Option<&Text> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }
}

/// Frees nested containers without recursion: a template can nest them deeper than the stack is.
fn free(first: Vec<Value>) {
    let mut rest = first;
    while let Some(value) = rest.pop() {
        match value {
            Value::List(l) | Value::Tuple(l) | Value::Iter(l) => {
                if let Some(mut list) = Rc::into_inner(l) {
                    rest.append(list.0.get_mut());
                }
            }
            Value::Dict(d) | Value::Namespace(d) => {
                if let Some(mut map) = Rc::into_inner(d) {
                    rest.extend(map.take());
                }
            }
            Value::Func(f) => {
                if let Some(Func::Method(value, _)) = Rc::into_inner(f) {
                    rest.push(value);
                }
            }
            _ => (),
        }
    }
}

impl DictEntries {
    fn take(&mut self) -> Vec<Value> {
        let dict = std::mem::take(self.0.get_mut());
        dict.entries.into_iter().flat_map(|(k, v)| [k, v]).collect()
    }
}

impl Holds for List {
    fn clear(&self) {
        // Nobody reads it any more.
        self.0.try_borrow_mut().map(|mut items| std::mem::take(&mut *items)).into_iter().for_each(free);
    }
}

impl Holds for DictEntries {
    fn clear(&self) {
        let dict = self.0.try_borrow_mut().map(|mut dict| std::mem::take(&mut *dict));
        dict.into_iter().for_each(|dict| free(dict.entries.into_iter().flat_map(|(k, v)| [k, v]).collect()));
    }
}

impl Drop for List {
    fn drop(&mut self) {
        free(std::mem::take(self.0.get_mut()));
    }
}

impl Drop for DictEntries {
    fn drop(&mut self) {
        free(self.take());
    }
}
