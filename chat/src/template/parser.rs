//! Tokens → statements. Expressions are in [`super::expression`].

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::template::ast::{AssignTarget, Expr, For, MacroDef, StatementBody, StatementKind, Stmt};
use crate::template::lexer::{tokens, Token};

/// Statements and expressions inside each other in the source.
const NESTING: usize = 150;

/// Parses a template's source.
pub(crate) fn parse(source: &str) -> Result<StatementBody> {
    let mut parser = Parser {
        tokens: tokens(source)?,
        at: 0,
        nesting: 0,
        links: 0,
        loops: 0,
        blocks: Vec::new(),
        macros: Vec::new(),
    };
    let (body, _) = parser.body(&[])?;
    Ok(body)
}

/// Which of the names for further arguments a macro's body reads.
#[derive(Default)]
pub(crate) struct Reads {
    pub varargs: bool,
    pub kwargs: bool,
    pub caller: bool,
}

pub(crate) struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    nesting: usize,
    /// Operators of the present expression that wrap what stands left of them.
    pub links: usize,
    loops: usize,
    /// Names of the blocks so far.
    blocks: Vec<Arc<str>>,
    pub macros: Vec<Reads>,
}

impl Parser {
    pub fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    pub fn peek_at(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead).map(|(token, _)| token)
    }

    pub fn line(&self) -> usize {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |(_, line)| *line)
    }

    pub fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    /// Takes the last token back.
    pub fn back(&mut self) {
        self.at -= 1;
    }

    pub fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Error::Syntax { line: self.line(), message: message.into() })
    }

    /// Fails for the token that is next.
    pub fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        let found = match self.peek() {
            None => "end of template".to_string(),
            Some(Token::Name(name)) => format!("'{name}'"),
            Some(Token::Op(op)) => format!("'{op}'"),
            Some(Token::PrintEnd) => "end of print statement".to_string(),
            Some(Token::BlockEnd) => "end of statement block".to_string(),
            Some(_) => "a value".to_string(),
        };
        self.fail(format!("expected {wanted}, got {found}"))
    }

    pub fn is_op(&self, op: &str) -> bool {
        matches!(self.peek(), Some(Token::Op(o)) if *o == op)
    }

    pub fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(n)) if **n == *name)
    }

    /// Goes over an operator, if it is next.
    pub fn skip_op(&mut self, op: &str) -> bool {
        let is = self.is_op(op);
        self.at += usize::from(is);
        is
    }

    /// Goes over a name, if it is next.
    pub fn skip_name(&mut self, name: &str) -> bool {
        let is = self.is_name(name);
        self.at += usize::from(is);
        is
    }

    pub fn expect_op(&mut self, op: &str) -> Result<()> {
        if !self.skip_op(op) {
            return self.unexpected(&format!("'{op}'"));
        }
        Ok(())
    }

    pub fn expect_name(&mut self) -> Result<Arc<str>> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = Arc::clone(name);
                self.at += 1;
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    /// Parses something that may contain itself.
    pub fn parse_nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.nesting += 1;
        if self.nesting > NESTING {
            return self.fail("nested too deeply");
        }
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    fn end_block(&mut self) -> Result<()> {
        match self.peek() {
            Some(Token::BlockEnd) => {
                self.at += 1;
                Ok(())
            }
            _ => self.unexpected("end of statement block"),
        }
    }

    /// Statements up to a tag with one of the names, which it goes over; the tag's end is left to the caller.
    fn body(&mut self, ends: &[&str]) -> Result<(StatementBody, Arc<str>)> {
        let mut body = StatementBody::new();
        loop {
            let line = self.line();
            self.links = 0;
            let kind = match self.next() {
                None if ends.is_empty() => return Ok((body, "".into())),
                None => return self.fail(format!("the template ends where {} should be", ends.join(" or "))),
                Some(Token::Text(text)) => StatementKind::Text(text),
                Some(Token::PrintBegin) => {
                    let value = self.tuple(true)?;
                    if self.next() != Some(Token::PrintEnd) {
                        self.at -= 1;
                        return self.unexpected("end of print statement");
                    }
                    StatementKind::Print(value)
                }
                Some(Token::BlockBegin) => {
                    let name = self.expect_name()?;
                    if ends.contains(&&*name) {
                        return Ok((body, name));
                    }
                    self.parse_nested(|p| p.statement(&name))?
                }
                Some(_) => {
                    self.at -= 1;
                    return self.unexpected("text");
                }
            };
            body.push(Stmt { line, kind });
        }
    }

    /// A body up to its end tag, and behind that.
    fn parse_through(&mut self, end: &str) -> Result<StatementBody> {
        self.end_block()?;
        let (body, _) = self.body(&[end])?;
        self.end_block()?;
        Ok(body)
    }

    fn statement(&mut self, name: &str) -> Result<StatementKind> {
        match name {
            "for" => self.for_loop(),
            "if" => self.conditions(),
            "set" => self.set(),
            "macro" => {
                let name = self.expect_name()?;
                Ok(StatementKind::Macro(Arc::new(self.macro_def(name, "endmacro")?)))
            }
            "call" => self.call_block(),
            "filter" => {
                let filter = self.filters(None)?;
                Ok(StatementKind::FilterBlock(filter, self.parse_through("endfilter")?))
            }
            "with" => self.with(),
            "generation" => Ok(StatementKind::Scope(self.parse_through("endgeneration")?)),
            "autoescape" => {
                let escapes = self.expression()?;
                if !matches!(escapes, Expr::Bool(false)) {
                    return self.fail("'autoescape' is not supported: prompts are no HTML");
                }
                Ok(StatementKind::Scope(self.parse_through("endautoescape")?))
            }
            "block" => {
                let name = self.expect_name()?;
                if self.blocks.contains(&name) {
                    return self.fail(format!("block '{name}' defined twice"));
                }
                let scoped = self.skip_name("scoped");
                if self.is_name("required") {
                    return self.fail(format!("block '{name}' is required of other templates; there are none"));
                }
                self.blocks.push(name);
                self.end_block()?;
                let (body, _) = self.body(&["endblock"])?;
                if matches!(self.peek(), Some(Token::Name(_))) {
                    self.at += 1;
                }
                self.end_block()?;
                Ok(if scoped { StatementKind::Scope(body) } else { StatementKind::Block(body) })
            }
            "print" => {
                let value = self.tuple(true)?;
                self.end_block()?;
                Ok(StatementKind::Print(value))
            }
            "break" | "continue" => {
                if self.loops == 0 {
                    return self.fail(format!("'{name}' outside of a loop"));
                }
                self.end_block()?;
                Ok(if name == "break" { StatementKind::Break } else { StatementKind::Continue })
            }
            "extends" | "include" | "import" | "from" => {
                self.fail(format!("'{name}' needs other templates; there are none"))
            }
            _ => self.fail(format!("Encountered unknown tag '{name}'.")),
        }
    }

    fn for_loop(&mut self) -> Result<StatementKind> {
        let target = self.target(false)?;
        if !self.skip_name("in") {
            return self.unexpected("'in'");
        }
        let iter = self.tuple(false)?;
        let test = if self.skip_name("if") { Some(self.expression()?) } else { None };
        let recursive = self.skip_name("recursive");
        self.end_block()?;
        self.loops += 1;
        let (body, end) = self.body(&["endfor", "else"])?;
        self.loops -= 1;
        let otherwise = if &*end == "else" { self.parse_through("endfor")? } else { StatementBody::new() };
        if &*end == "endfor" {
            self.end_block()?;
        }
        Ok(StatementKind::For(Arc::new(For { target, iter, test, body, otherwise, recursive })))
    }

    fn conditions(&mut self) -> Result<StatementKind> {
        let mut branches = Vec::new();
        loop {
            self.links = 0;
            let test = self.tuple(false)?;
            self.end_block()?;
            let (body, end) = self.body(&["elif", "else", "endif"])?;
            branches.push((test, body));
            match &*end {
                "elif" => (),
                "else" => return Ok(StatementKind::If(branches, self.parse_through("endif")?)),
                _ => {
                    self.end_block()?;
                    return Ok(StatementKind::If(branches, StatementBody::new()));
                }
            }
        }
    }

    fn set(&mut self) -> Result<StatementKind> {
        let target = self.target(true)?;
        if self.skip_op("=") {
            let value = self.tuple(true)?;
            self.end_block()?;
            return Ok(StatementKind::Set(target, value));
        }
        let filter = match self.is_op("|") {
            true => {
                self.at += 1;
                Some(self.filters(None)?)
            }
            false => None,
        };
        Ok(StatementKind::SetBlock(target, filter, self.parse_through("endset")?))
    }

    fn macro_def(&mut self, name: Arc<str>, end: &str) -> Result<MacroDef> {
        let mut params: Vec<(Arc<str>, Option<Expr>)> = Vec::new();
        let listed = &*name != "caller" || self.is_op("(");
        if listed {
            self.expect_op("(")?;
            while !self.skip_op(")") {
                if !params.is_empty() {
                    self.expect_op(",")?;
                }
                let param = self.expect_name()?;
                let default = if self.skip_op("=") { Some(self.expression()?) } else { None };
                if default.is_none() && params.last().is_some_and(|(_, d)| d.is_some()) {
                    return self.fail("non-default argument follows default argument");
                }
                params.push((param, default));
            }
        }
        // The call of a call block stands between parameters and body: its caller parses the body.
        if &*name == "caller" {
            return Ok(MacroDef {
                name,
                params,
                body: StatementBody::new(),
                varargs: false,
                kwargs: false,
                caller: false,
            });
        }
        let (body, reads) = self.macro_body(end)?;
        Ok(MacroDef { name, params, body, varargs: reads.varargs, kwargs: reads.kwargs, caller: reads.caller })
    }

    fn macro_body(&mut self, end: &str) -> Result<(StatementBody, Reads)> {
        self.macros.push(Reads::default());
        let loops = std::mem::take(&mut self.loops);
        let body = self.parse_through(end)?;
        self.loops = loops;
        Ok((body, self.macros.pop().unwrap_or_default()))
    }

    fn call_block(&mut self) -> Result<StatementKind> {
        let head = self.macro_def("caller".into(), "endcall")?;
        let call = self.expression()?;
        if !matches!(call, Expr::Call(..)) {
            return self.fail("expected call");
        }
        let (body, reads) = self.macro_body("endcall")?;
        let def = MacroDef { body, varargs: reads.varargs, kwargs: reads.kwargs, ..head };
        Ok(StatementKind::CallBlock(Arc::new(def), call))
    }

    fn with(&mut self) -> Result<StatementKind> {
        let mut values = Vec::new();
        while self.peek() != Some(&Token::BlockEnd) {
            if !values.is_empty() {
                self.expect_op(",")?;
            }
            let target = AssignTarget::Name(self.expect_name()?);
            self.expect_op("=")?;
            values.push((target, self.expression()?));
        }
        Ok(StatementKind::With(values, self.parse_through("endwith")?))
    }

    /// What is assigned to: a name, several, or with `dotted` an attribute of a namespace.
    fn target(&mut self, dotted: bool) -> Result<AssignTarget> {
        if dotted && self.peek_at(1) == Some(&Token::Op(".")) {
            let name = self.expect_name()?;
            self.at += 1;
            return Ok(AssignTarget::Attr(name, self.expect_name()?));
        }
        let first = self.one_target()?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut targets = vec![first];
        while self.skip_op(",") {
            match self.peek() {
                Some(Token::Name(name)) if &**name != "in" => targets.push(self.one_target()?),
                Some(Token::Op("(" | "[")) => targets.push(self.one_target()?),
                _ => break,
            }
        }
        Ok(AssignTarget::Tuple(targets))
    }

    fn one_target(&mut self) -> Result<AssignTarget> {
        for (open, close) in [("(", ")"), ("[", "]")] {
            if self.skip_op(open) {
                let inner = self.parse_nested(|p| p.target(false))?;
                self.expect_op(close)?;
                return Ok(match inner {
                    AssignTarget::Name(_) => AssignTarget::Tuple(vec![inner]),
                    inner => inner,
                });
            }
        }
        Ok(AssignTarget::Name(self.expect_name()?))
    }
}
