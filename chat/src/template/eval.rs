//! Evaluates expressions.

use std::rc::Rc;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::template::args::CallArgs;
use crate::template::ast::{Args, Cmp, Expr};
use crate::template::run::{Machine, Scope};
use crate::template::{filters, globals, methods, operators, subscript, tests};
use crate::text::{Builder, Text};
use crate::value::{show, Func, Value};

impl Machine<'_> {
    /// An expression's value.
    pub fn eval(&self, expr: &Expr, scope: &Rc<Scope>) -> Result<Value> {
        let _level = self.budget.deeper()?;
        self.budget.work(1)?;
        match expr {
            Expr::None => Ok(Value::None),
            Expr::Bool(b) => Ok(Value::Bool(*b)),
            Expr::Int(i) => Ok(Value::Int(*i)),
            Expr::Float(f) => Ok(Value::Float(*f)),
            Expr::Str(s) => Ok(Value::Str(Text::plain(Arc::clone(s)))),
            Expr::Name(name) => match self.name(name, scope) {
                Value::Undefined(_) if &**name == "self" => Err(Error::template("'self' is not supported")),
                value => Ok(value),
            },
            Expr::List(items) => Value::list(self.budget, self.all(items, scope)?),
            Expr::Tuple(items) => Value::tuple(self.budget, self.all(items, scope)?),
            Expr::Dict(entries) => {
                let entry = |(k, v): &(Expr, Expr)| Ok((self.eval(k, scope)?, self.eval(v, scope)?));
                Value::dict(self.budget, entries.iter().map(entry).collect::<Result<Vec<_>>>()?)
            }
            Expr::Attr(of, name) => subscript::attr(&self.eval(of, scope)?, name),
            Expr::Item(of, index) => {
                let (of, index) = (self.eval(of, scope)?, self.eval(index, scope)?);
                subscript::item(self.budget, &of, &index)
            }
            Expr::Slice(of, bounds) => {
                let of = self.eval(of, scope)?;
                let bound = |b: &Option<Box<Expr>>| b.as_deref().map_or(Ok(Value::None), |b| self.eval(b, scope));
                let [start, stop, step] = bounds;
                subscript::slice(self.budget, &of, [bound(start)?, bound(stop)?, bound(step)?])
            }
            Expr::Call(..) => self.eval_call(expr, scope, None),
            Expr::Filter(Some(of), ..) => {
                let value = self.eval(of, scope)?;
                self.apply(expr, value, scope)
            }
            Expr::Filter(None, ..) => Err(Error::template("a filter without a value")),
            Expr::Test(of, name, args) => {
                let value = self.eval(of, scope)?;
                let args = self.args(args, scope)?;
                Ok(Value::Bool(tests::test(self.budget, name, &value, args)?))
            }
            Expr::Unary(sign, of) => operators::unary(*sign, &self.eval(of, scope)?),
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.eval(a, scope)?, self.eval(b, scope)?);
                operators::binary(self.budget, *op, &a, &b)
            }
            Expr::Not(of) => Ok(Value::Bool(!self.eval(of, scope)?.truth())),
            Expr::And(a, b) => {
                let a = self.eval(a, scope)?;
                if a.truth() {
                    self.eval(b, scope)
                } else {
                    Ok(a)
                }
            }
            Expr::Or(a, b) => {
                let a = self.eval(a, scope)?;
                if a.truth() {
                    Ok(a)
                } else {
                    self.eval(b, scope)
                }
            }
            Expr::Compare(first, rest) => self.compare(first, rest, scope),
            Expr::Concat(parts) => {
                let mut out = Builder::new(self.budget);
                for part in parts {
                    show::write(&mut out, self.budget, &self.eval(part, scope)?)?;
                }
                Ok(Value::Str(out.finish()))
            }
            Expr::Cond(test, then, otherwise) => match (self.eval(test, scope)?.truth(), otherwise) {
                (true, _) => self.eval(then, scope),
                (false, Some(otherwise)) => self.eval(otherwise, scope),
                (false, None) => {
                    Ok(Value::undefined("the inline if-expression evaluated to false and no else section was defined."))
                }
            },
        }
    }

    fn name(&self, name: &str, scope: &Rc<Scope>) -> Value {
        scope
            .get(name)
            .or_else(|| globals::find(name))
            .unwrap_or_else(|| Value::undefined(format!("'{name}' is undefined")))
    }

    fn all(&self, exprs: &[Expr], scope: &Rc<Scope>) -> Result<Vec<Value>> {
        exprs.iter().map(|e| self.eval(e, scope)).collect()
    }

    fn compare(&self, first: &Expr, rest: &[(Cmp, Expr)], scope: &Rc<Scope>) -> Result<Value> {
        let mut left = self.eval(first, scope)?;
        for (cmp, expr) in rest {
            let right = self.eval(expr, scope)?;
            if !operators::compare(self.budget, *cmp, &left, &right)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn args(&self, args: &Args, scope: &Rc<Scope>) -> Result<CallArgs> {
        let mut positional = self.all(&args.positional, scope)?;
        if let Some(rest) = &args.rest {
            positional.extend(self.eval(rest, scope)?.iterate(self.budget)?);
        }
        let named = args.named.iter().map(|(name, e)| Ok((Arc::clone(name), self.eval(e, scope)?)));
        let mut named = named.collect::<Result<Vec<_>>>()?;
        if let Some(rest) = &args.named_rest {
            let Value::Dict(map) = self.eval(rest, scope)? else {
                return Err(Error::template("argument after ** must be a mapping"));
            };
            for (key, value) in map.0.borrow().entries() {
                let Value::Str(key) = key else { return Err(Error::template("keywords must be strings")) };
                named.push((key.to_shared(), value.clone()));
            }
        }
        Ok(CallArgs { positional, named })
    }

    /// A call, with the body of a call block for macros.
    pub fn eval_call(&self, expr: &Expr, scope: &Rc<Scope>, caller: Option<Value>) -> Result<Value> {
        let Expr::Call(called, args) = expr else { return self.eval(expr, scope) };
        let called = self.eval(called, scope)?;
        let mut args = self.args(args, scope)?;
        args.named.extend(caller.map(|c| (Arc::from("caller"), c)));
        self.call(&called, args)
    }

    /// Calls a value.
    pub fn call(&self, called: &Value, args: CallArgs) -> Result<Value> {
        let _level = self.budget.deeper()?;
        self.budget.work(4)?;
        match called {
            Value::Func(func) => match &**func {
                Func::Global(name) => globals::call(self, name, args),
                Func::Method(of, name) => methods::call(self, of, name, args),
                Func::Macro(called) => self.call_macro(called, args),
                Func::Cycler(items, at) => {
                    let value = items.get(at.get()).cloned().unwrap_or(Value::None);
                    at.set((at.get() + 1) % items.len().max(1));
                    Ok(value)
                }
                Func::Joiner(sep, used) => {
                    Ok(if used.replace(true) { Value::Str(sep.clone()) } else { Value::str("") })
                }
            },
            Value::Loop(state) => self.loop_again(state, args),
            other => Err(Error::template(format!("'{}' object is not callable", other.require_defined()?.type_name()))),
        }
    }

    /// A filter expression on the value of its first operand.
    fn apply(&self, expr: &Expr, value: Value, scope: &Rc<Scope>) -> Result<Value> {
        let Expr::Filter(_, name, args) = expr else { return Ok(value) };
        let args = self.args(args, scope)?;
        filters::filter(self, name, value, args)
    }

    /// Filters without an operand of their own, on a value.
    pub fn eval_on(&self, expr: &Expr, value: Value, scope: &Rc<Scope>) -> Result<Value> {
        let value = match expr {
            Expr::Filter(Some(of), ..) => self.eval_on(of, value, scope)?,
            _ => value,
        };
        self.apply(expr, value, scope)
    }
}
