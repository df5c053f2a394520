//! Runs statements.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use crate::budget::RenderBudget;
use crate::clock::DateTime;
use crate::error::{Error, Result};
use crate::template::args::CallArgs;
use crate::template::ast::{AssignTarget, For, MacroDef, StatementBody, StatementKind, Stmt};
use crate::text::{Builder, Text};
use crate::value::{show, Func, List, Value};

/// Names and their values; those not found are looked for in the scope around.
pub(crate) struct Scope {
    names: RefCell<HashMap<Arc<str>, Value>>,
    around: Option<Rc<Scope>>,
}

impl Scope {
    pub fn root() -> Rc<Scope> {
        Rc::new(Scope { names: RefCell::default(), around: None })
    }

    pub fn inner(around: &Rc<Scope>) -> Rc<Scope> {
        Rc::new(Scope { names: RefCell::default(), around: Some(Rc::clone(around)) })
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        let mut scope = self;
        loop {
            if let Some(value) = scope.names.borrow().get(name) {
                return Some(value.clone());
            }
            scope = scope.around.as_deref()?;
        }
    }

    pub fn set(&self, name: &Arc<str>, value: Value) {
        self.names.borrow_mut().insert(Arc::clone(name), value);
    }
}

/// A loop that runs: what a template sees as `loop`.
pub(crate) struct LoopState {
    items: Vec<Value>,
    at: Cell<usize>,
    depth: usize,
    changed: RefCell<Option<Vec<Value>>>,
    /// What a recursive loop calls itself with: its statement, and the scope around it.
    again: Option<(Arc<For>, Weak<Scope>)>,
}

impl LoopState {
    pub fn index0(&self) -> usize {
        self.at.get()
    }

    pub fn length(&self) -> usize {
        self.items.len()
    }

    /// The items that are still to come.
    pub fn rest(&self) -> Vec<Value> {
        self.items[(self.at.get() + 1).min(self.items.len())..].to_vec()
    }

    /// An attribute of `loop`.
    pub fn attr(self: &Rc<Self>, name: &str) -> Option<Value> {
        let at = self.at.get();
        let int = |i: usize| Value::Int(i as i128);
        let item = |at: Option<usize>, what: &str| {
            let there = at.and_then(|at| self.items.get(at)).cloned();
            there.unwrap_or_else(|| Value::undefined(format!("there is no {what} item")))
        };
        Some(match name {
            "index" => int(at + 1),
            "index0" => int(at),
            "revindex" => int(self.items.len() - at),
            "revindex0" => int(self.items.len() - at - 1),
            "first" => Value::Bool(at == 0),
            "last" => Value::Bool(at + 1 == self.items.len()),
            "length" => int(self.items.len()),
            "depth" => int(self.depth + 1),
            "depth0" => int(self.depth),
            "previtem" => item(at.checked_sub(1), "previous"),
            "nextitem" => item(Some(at + 1), "next"),
            "cycle" | "changed" => Value::Func(Rc::new(Func::Method(Value::Loop(Rc::clone(self)), name.into()))),
            _ => return None,
        })
    }

    /// `loop.changed(values)`: whether they are others than at the last call.
    pub fn update_changed(&self, budget: &RenderBudget, values: Vec<Value>) -> Result<bool> {
        let mut last = self.changed.borrow_mut();
        let mut same = last.as_ref().is_some_and(|last| last.len() == values.len());
        for (a, b) in last.iter().flatten().zip(&values) {
            same = same && crate::value::compare::equal(budget, a, b)?;
        }
        *last = Some(values);
        Ok(!same)
    }
}

/// A macro and where it was defined.
pub(crate) struct Macro {
    def: Arc<MacroDef>,
    scope: Weak<Scope>,
}

impl Macro {
    /// What a template may ask about it.
    pub fn attr(&self, name: &str) -> Option<Value> {
        let def = &self.def;
        Some(match name {
            "name" => Value::str(&def.name),
            "arguments" => {
                let names: Vec<Value> = def.params.iter().map(|(name, _)| Value::str(name)).collect();
                Value::Tuple(Rc::new(List(names.into())))
            }
            "catch_kwargs" => Value::Bool(def.kwargs),
            "catch_varargs" => Value::Bool(def.varargs),
            "caller" => Value::Bool(def.caller),
            _ => return None,
        })
    }

    pub fn name(&self) -> &str {
        &self.def.name
    }
}

/// How a body ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Break,
    Continue,
}

/// What a rendering runs on.
pub(crate) struct Machine<'b> {
    pub budget: &'b RenderBudget,
    pub root: Rc<Scope>,
    pub now: DateTime,
}

impl<'b> Machine<'b> {
    /// Runs a body.
    pub fn run(&self, body: &[Stmt], scope: &Rc<Scope>, out: &mut Builder<'b>) -> Result<Flow> {
        let _level = self.budget.deeper()?;
        for stmt in body {
            self.budget.work(1)?;
            let flow = self.statement(stmt, scope, out).map_err(|e| e.at(stmt.line))?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&self, stmt: &Stmt, scope: &Rc<Scope>, out: &mut Builder<'b>) -> Result<Flow> {
        match &stmt.kind {
            StatementKind::Text(text) => out.push_str(text, false)?,
            StatementKind::Print(expr) => {
                let value = self.eval(expr, scope)?;
                show::write(out, self.budget, &value)?;
            }
            StatementKind::For(node) => {
                let items = self.eval(&node.iter, scope)?.iterate(self.budget)?;
                self.for_loop(node, scope, items, 0, out)?;
            }
            StatementKind::If(branches, otherwise) => {
                for (test, body) in branches {
                    if self.eval(test, scope)?.truth() {
                        return self.run(body, scope, out);
                    }
                }
                return self.run(otherwise, scope, out);
            }
            StatementKind::Set(target, expr) => self.assign(target, self.eval(expr, scope)?, scope)?,
            StatementKind::SetBlock(target, filter, body) => {
                let (text, flow) = self.capture(body, &Scope::inner(scope))?;
                let value = match filter {
                    Some(filter) => self.eval_on(filter, Value::Str(text), scope)?,
                    None => Value::Str(text),
                };
                self.assign(target, value, scope)?;
                return Ok(flow);
            }
            StatementKind::Macro(def) => scope.set(&def.name, self.macro_value(def, scope)),
            StatementKind::CallBlock(def, call) => {
                let caller = self.macro_value(def, scope);
                let value = self.eval_call(call, scope, Some(caller))?;
                show::write(out, self.budget, &value)?;
            }
            StatementKind::FilterBlock(filter, body) => {
                let (text, flow) = self.capture(body, &Scope::inner(scope))?;
                let value = self.eval_on(filter, Value::Str(text), scope)?;
                show::write(out, self.budget, &value)?;
                return Ok(flow);
            }
            StatementKind::With(values, body) => {
                let inner = Scope::inner(scope);
                for (target, expr) in values {
                    self.assign(target, self.eval(expr, scope)?, &inner)?;
                }
                return self.run(body, &inner, out);
            }
            StatementKind::Scope(body) => return self.run(body, &Scope::inner(scope), out),
            StatementKind::Block(body) => return self.run(body, &Scope::inner(&self.root), out),
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn macro_value(&self, def: &Arc<MacroDef>, scope: &Rc<Scope>) -> Value {
        // A macro that kept its scope would be kept by it.
        Value::Func(Rc::new(Func::Macro(Macro { def: Arc::clone(def), scope: Rc::downgrade(scope) })))
    }

    /// What a body writes.
    fn capture(&self, body: &StatementBody, scope: &Rc<Scope>) -> Result<(Text, Flow)> {
        let mut out = Builder::new(self.budget);
        let flow = self.run(body, scope, &mut out)?;
        Ok((out.finish(), flow))
    }

    fn for_loop(
        &self,
        node: &Arc<For>,
        scope: &Rc<Scope>,
        items: Vec<Value>,
        depth: usize,
        out: &mut Builder<'b>,
    ) -> Result<()> {
        let _level = self.budget.deeper()?;
        let mut items = items;
        if let Some(test) = &node.test {
            let mut kept = Vec::new();
            for item in items {
                self.budget.work(1)?;
                let inner = Scope::inner(scope);
                self.assign(&node.target, item.clone(), &inner)?;
                if self.eval(test, &inner)?.truth() {
                    kept.push(item);
                }
            }
            items = kept;
        }
        if items.is_empty() {
            self.run(&node.otherwise, &Scope::inner(scope), out)?;
            return Ok(());
        }
        let again = node.recursive.then(|| (Arc::clone(node), Rc::downgrade(scope)));
        let state = LoopState { items, at: Cell::new(0), depth, changed: RefCell::default(), again };
        let state = Rc::new(state);
        let name: Arc<str> = "loop".into();
        // As in Jinja, `else` is also for loops none of whose rounds came to its end.
        let mut ended = false;
        for (at, item) in state.items.iter().enumerate() {
            self.budget.work(1)?;
            state.at.set(at);
            let inner = Scope::inner(scope);
            inner.set(&name, Value::Loop(Rc::clone(&state)));
            self.assign(&node.target, item.clone(), &inner)?;
            match self.run(&node.body, &inner, out)? {
                Flow::Break => break,
                Flow::Continue => (),
                Flow::Next => ended = true,
            }
        }
        if !ended {
            self.run(&node.otherwise, &Scope::inner(scope), out)?;
        }
        Ok(())
    }

    /// `loop(items)` in a recursive loop.
    pub fn loop_again(&self, state: &LoopState, mut args: CallArgs) -> Result<Value> {
        let Some((node, scope)) = &state.again else {
            return Err(Error::template("The loop must have the 'recursive' marker to be called recursively."));
        };
        let [items] = args.bind("loop", ["iterable"])?;
        let items = items.unwrap_or(Value::None).iterate(self.budget)?;
        let scope = scope.upgrade().unwrap_or_else(|| Rc::clone(&self.root));
        let mut out = Builder::new(self.budget);
        self.for_loop(node, &scope, items, state.depth + 1, &mut out)?;
        Ok(Value::Str(out.finish()))
    }

    /// Sets what is assigned to.
    fn assign(&self, target: &AssignTarget, value: Value, scope: &Rc<Scope>) -> Result<()> {
        match target {
            AssignTarget::Name(name) => {
                self.budget.take(32)?;
                scope.set(name, value);
            }
            AssignTarget::Attr(name, attr) => match scope.get(name) {
                Some(Value::Namespace(map)) => {
                    self.budget.elements(1)?;
                    map.0.borrow_mut().insert(Value::Str(Text::plain(Arc::clone(attr))), value)?;
                }
                _ => return Err(Error::template("cannot assign attribute on non-namespace object")),
            },
            AssignTarget::Tuple(targets) => {
                let items = value.iterate(self.budget)?;
                if items.len() != targets.len() {
                    let many = if items.len() > targets.len() { "too many" } else { "not enough" };
                    let message = format!("{many} values to unpack (expected {}, got {})", targets.len(), items.len());
                    return Err(Error::template(message));
                }
                for (target, item) in targets.iter().zip(items) {
                    self.assign(target, item, scope)?;
                }
            }
        }
        Ok(())
    }

    /// Calls a macro.
    pub fn call_macro(&self, called: &Macro, args: CallArgs) -> Result<Value> {
        let def = &called.def;
        let around = called.scope.upgrade().unwrap_or_else(|| Rc::clone(&self.root));
        let scope = Scope::inner(&around);
        let CallArgs { positional, named } = args;
        let mut positional = positional.into_iter();
        let mut named = named;
        for (name, default) in &def.params {
            let at = named.iter().position(|(n, _)| n == name);
            let value = match (positional.next(), at) {
                (Some(_), Some(_)) => {
                    let message = format!("macro '{}' got multiple values for argument '{name}'", def.name);
                    return Err(Error::template(message));
                }
                (Some(value), None) => value,
                (None, Some(at)) => named.remove(at).1,
                (None, None) => match default {
                    Some(default) => self.eval(default, &scope)?,
                    None => Value::undefined(format!("parameter '{name}' was not provided")),
                },
            };
            scope.set(name, value);
        }
        let caller = named.iter().position(|(n, _)| &**n == "caller").map(|at| named.remove(at).1);
        if def.caller {
            let none = || Value::undefined("No caller defined");
            scope.set(&"caller".into(), caller.unwrap_or_else(none));
        }
        let rest: Vec<Value> = positional.collect();
        if def.varargs {
            scope.set(&"varargs".into(), Value::tuple(self.budget, rest)?);
        } else if !rest.is_empty() {
            let message = format!("macro '{}' takes not more than {} argument(s)", def.name, def.params.len());
            return Err(Error::template(message));
        }
        if def.kwargs {
            let entries = named.into_iter().map(|(n, v)| (Value::Str(Text::from_outside(n)), v));
            scope.set(&"kwargs".into(), Value::dict(self.budget, entries)?);
        } else if let Some((name, _)) = named.first() {
            let message = format!("macro '{}' takes no keyword argument '{name}'", def.name);
            return Err(Error::template(message));
        }
        Ok(Value::Str(self.capture(&def.body, &scope)?.0))
    }
}
