//! Tokens → expressions, with Jinja's precedences.

use std::sync::Arc;

use crate::error::Result;
use crate::template::ast::{Args, Cmp, Expr, Op};
use crate::template::lexer::Token;
use crate::template::parser::Parser;

/// Operators in one expression that wrap what stands left of them: bounds how deep a tree can get.
const LINKS: usize = 1000;

fn box_expr(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

impl Parser {
    fn link(&mut self) -> Result<()> {
        self.links += 1;
        if self.links > LINKS {
            return self.fail("an expression with too many operators");
        }
        Ok(())
    }

    /// An expression.
    pub fn expression(&mut self) -> Result<Expr> {
        self.parse_nested(|p| p.conditional())
    }

    /// Expressions with commas between them are a tuple; `conditional`: each may have an `if`.
    pub fn tuple(&mut self, conditional: bool) -> Result<Expr> {
        let one = |p: &mut Self| if conditional { p.expression() } else { p.parse_nested(|p| p.or()) };
        let first = one(self)?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.skip_op(",") {
            match self.peek() {
                None | Some(Token::PrintEnd | Token::BlockEnd | Token::Op(")" | "=")) => break,
                Some(Token::Name(name)) if ["in", "recursive", "if"].contains(&&**name) && !conditional => break,
                _ => items.push(one(self)?),
            }
        }
        Ok(Expr::Tuple(items))
    }

    fn conditional(&mut self) -> Result<Expr> {
        let mut expr = self.or()?;
        while self.skip_name("if") {
            self.link()?;
            let test = self.or()?;
            let otherwise = if self.skip_name("else") { Some(box_expr(self.expression()?)) } else { None };
            expr = Expr::Cond(box_expr(test), box_expr(expr), otherwise);
        }
        Ok(expr)
    }

    pub fn or(&mut self) -> Result<Expr> {
        let mut left = self.and()?;
        while self.skip_name("or") {
            self.link()?;
            left = Expr::Or(box_expr(left), box_expr(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr> {
        let mut left = self.not()?;
        while self.skip_name("and") {
            self.link()?;
            left = Expr::And(box_expr(left), box_expr(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr> {
        if self.skip_name("not") {
            return Ok(Expr::Not(box_expr(self.parse_nested(|p| p.not())?)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expr> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let cmp = match self.peek() {
                Some(Token::Op("==")) => Cmp::Eq,
                Some(Token::Op("!=")) => Cmp::Ne,
                Some(Token::Op("<")) => Cmp::Lt,
                Some(Token::Op("<=")) => Cmp::Le,
                Some(Token::Op(">")) => Cmp::Gt,
                Some(Token::Op(">=")) => Cmp::Ge,
                Some(Token::Name(name)) if &**name == "in" => Cmp::In,
                Some(Token::Name(name)) if &**name == "not" => match self.peek_at(1) {
                    Some(Token::Name(name)) if &**name == "in" => {
                        self.next();
                        Cmp::NotIn
                    }
                    _ => break,
                },
                _ => break,
            };
            self.next();
            rest.push((cmp, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(box_expr(first), rest) })
    }

    fn binary(&mut self, ops: &[(&str, Op)], operand: fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let mut left = operand(self)?;
        while let Some((_, op)) = ops.iter().find(|(sign, _)| self.is_op(sign)) {
            self.link()?;
            self.next();
            left = Expr::Binary(*op, box_expr(left), box_expr(operand(self)?));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr> {
        self.binary(&[("+", Op::Add), ("-", Op::Sub)], Self::concat)
    }

    fn concat(&mut self) -> Result<Expr> {
        let first = self.product()?;
        if !self.is_op("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip_op("~") {
            parts.push(self.product()?);
        }
        Ok(Expr::Concat(parts))
    }

    fn product(&mut self) -> Result<Expr> {
        let ops = [("*", Op::Mul), ("/", Op::Div), ("//", Op::FloorDiv), ("%", Op::Mod)];
        self.binary(&ops, |p| p.binary(&[("**", Op::Pow)], |p| p.unary(true)))
    }

    fn unary(&mut self, filters: bool) -> Result<Expr> {
        let sign = match self.peek() {
            Some(Token::Op("-")) => Some('-'),
            Some(Token::Op("+")) => Some('+'),
            _ => None,
        };
        let node = match sign {
            Some(sign) => {
                self.next();
                Expr::Unary(sign, box_expr(self.parse_nested(|p| p.unary(false))?))
            }
            None => self.primary()?,
        };
        let node = self.postfix(node)?;
        if filters {
            self.filters_and_tests(node)
        } else {
            Ok(node)
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        match self.next() {
            Some(Token::Name(name)) => {
                if let Some(reads) = self.macros.last_mut() {
                    reads.varargs |= &*name == "varargs";
                    reads.kwargs |= &*name == "kwargs";
                    reads.caller |= &*name == "caller";
                }
                Ok(match &*name {
                    "true" | "True" => Expr::Bool(true),
                    "false" | "False" => Expr::Bool(false),
                    "none" | "None" => Expr::None,
                    _ => Expr::Name(name),
                })
            }
            Some(Token::Str(first)) => {
                let mut whole = String::from(&*first);
                while let Some(Token::Str(more)) = self.peek() {
                    whole.push_str(more);
                    self.next();
                }
                Ok(Expr::Str(whole.into()))
            }
            Some(Token::Int(i)) => Ok(Expr::Int(i)),
            Some(Token::Float(f)) => Ok(Expr::Float(f)),
            Some(Token::Op("(")) => self.parse_nested(|p| p.parenthesis()),
            Some(Token::Op("[")) => {
                let mut items = Vec::new();
                while !self.skip_op("]") {
                    if !items.is_empty() {
                        self.expect_op(",")?;
                        if self.skip_op("]") {
                            break;
                        }
                    }
                    items.push(self.expression()?);
                }
                Ok(Expr::List(items))
            }
            Some(Token::Op("{")) => {
                let mut entries = Vec::new();
                while !self.skip_op("}") {
                    if !entries.is_empty() {
                        self.expect_op(",")?;
                        if self.skip_op("}") {
                            break;
                        }
                    }
                    let key = self.expression()?;
                    self.expect_op(":")?;
                    entries.push((key, self.expression()?));
                }
                Ok(Expr::Dict(entries))
            }
            _ => {
                self.back();
                self.unexpected("an expression")
            }
        }
    }

    /// Behind `(`: a tuple, or an expression.
    fn parenthesis(&mut self) -> Result<Expr> {
        if self.skip_op(")") {
            return Ok(Expr::Tuple(Vec::new()));
        }
        let inner = self.tuple(true)?;
        self.expect_op(")")?;
        Ok(inner)
    }

    fn postfix(&mut self, mut node: Expr) -> Result<Expr> {
        loop {
            node = match self.peek() {
                Some(Token::Op("." | "[")) => self.subscript(node)?,
                Some(Token::Op("(")) => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    fn filters_and_tests(&mut self, mut node: Expr) -> Result<Expr> {
        loop {
            node = match self.peek() {
                Some(Token::Op("|")) => {
                    self.next();
                    self.filters(Some(node))?
                }
                Some(Token::Name(name)) if &**name == "is" => self.test(node)?,
                Some(Token::Op("(")) => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    fn call(&mut self, node: Expr) -> Result<Expr> {
        self.link()?;
        Ok(Expr::Call(box_expr(node), self.args()?))
    }

    fn parse_dotted_name(&mut self) -> Result<Arc<str>> {
        let mut name = self.expect_name()?;
        while self.skip_op(".") {
            name = format!("{name}.{}", self.expect_name()?).into();
        }
        Ok(name)
    }

    /// Behind `|`: filters, one after another.
    pub fn filters(&mut self, of: Option<Expr>) -> Result<Expr> {
        let mut of = of.map(box_expr);
        loop {
            self.link()?;
            let name = self.parse_dotted_name()?;
            let args = if self.is_op("(") { self.args()? } else { Args::default() };
            let filter = Expr::Filter(of, name, args);
            if !self.skip_op("|") {
                return Ok(filter);
            }
            of = Some(box_expr(filter));
        }
    }

    fn test(&mut self, node: Expr) -> Result<Expr> {
        self.link()?;
        self.next();
        let negated = self.skip_name("not");
        let name = self.parse_dotted_name()?;
        let args = match self.peek() {
            Some(Token::Op("(")) => self.args()?,
            Some(Token::Name(n)) if ["else", "or", "and", "is", "if", "in", "not", "recursive"].contains(&&**n) => {
                Args::default()
            }
            Some(Token::Name(_) | Token::Str(_) | Token::Int(_) | Token::Float(_) | Token::Op("[" | "{")) => {
                let arg = self.primary()?;
                Args { positional: vec![self.postfix(arg)?], ..Args::default() }
            }
            _ => Args::default(),
        };
        let test = Expr::Test(box_expr(node), name, args);
        Ok(if negated { Expr::Not(box_expr(test)) } else { test })
    }

    fn args(&mut self) -> Result<Args> {
        self.parse_nested(|p| {
            p.expect_op("(")?;
            let mut args = Args::default();
            let mut first = true;
            while !p.skip_op(")") {
                if !first {
                    p.expect_op(",")?;
                    if p.skip_op(")") {
                        break;
                    }
                }
                first = false;
                if p.skip_op("*") {
                    args.rest = Some(box_expr(p.expression()?));
                } else if p.skip_op("**") {
                    args.named_rest = Some(box_expr(p.expression()?));
                } else if matches!(p.peek(), Some(Token::Name(_))) && p.peek_at(1) == Some(&Token::Op("=")) {
                    let name = p.expect_name()?;
                    p.next();
                    args.named.push((name, p.expression()?));
                } else if args.named.is_empty() {
                    args.positional.push(p.expression()?);
                } else {
                    return p.fail("a positional argument behind a named one");
                }
            }
            Ok(args)
        })
    }

    fn subscript(&mut self, node: Expr) -> Result<Expr> {
        self.link()?;
        if self.skip_op(".") {
            return match self.next() {
                Some(Token::Name(name)) => Ok(Expr::Attr(box_expr(node), name)),
                Some(Token::Int(i)) => Ok(Expr::Item(box_expr(node), box_expr(Expr::Int(i)))),
                _ => {
                    self.back();
                    self.unexpected("name or number")
                }
            };
        }
        self.expect_op("[")?;
        self.parse_nested(|p| {
            let start = if p.is_op(":") { None } else { Some(box_expr(p.expression()?)) };
            if !p.is_op(":") {
                let first = match start {
                    Some(first) => *first,
                    None => return p.unexpected("an index"),
                };
                if p.skip_op("]") {
                    return Ok(Expr::Item(box_expr(node), box_expr(first)));
                }
                let mut items = vec![first];
                while p.skip_op(",") {
                    items.push(p.expression()?);
                }
                p.expect_op("]")?;
                return Ok(Expr::Item(box_expr(node), box_expr(Expr::Tuple(items))));
            }
            p.next();
            let stop = if p.is_op("]") || p.is_op(":") { None } else { Some(box_expr(p.expression()?)) };
            let step = match p.skip_op(":") && !p.is_op("]") {
                true => Some(box_expr(p.expression()?)),
                false => None,
            };
            p.expect_op("]")?;
            Ok(Expr::Slice(box_expr(node), [start, stop, step]))
        })
    }
}
