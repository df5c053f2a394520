//! What a template is parsed into.

use std::sync::Arc;

/// An expression.
#[derive(Debug)]
pub(crate) enum Expr {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Arc<str>),
    Name(Arc<str>),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    /// `a.b`
    Attr(Box<Expr>, Arc<str>),
    /// `a[b]`
    Item(Box<Expr>, Box<Expr>),
    /// `a[start:stop:step]`
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(Box<Expr>, Args),
    /// Without an operand, of a block: `{% filter upper %}`.
    Filter(Option<Box<Expr>>, Arc<str>, Args),
    Test(Box<Expr>, Arc<str>, Args),
    Unary(char, Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Compare(Box<Expr>, Vec<(Cmp, Expr)>),
    /// `a ~ b ~ c`
    Concat(Vec<Expr>),
    /// `a if test else b`
    Cond(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
}

/// An operator of arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
}

/// Arguments of a call.
#[derive(Debug, Default)]
pub(crate) struct Args {
    pub positional: Vec<Expr>,
    pub named: Vec<(Arc<str>, Expr)>,
    /// `*rest`
    pub rest: Option<Box<Expr>>,
    /// `**named`
    pub named_rest: Option<Box<Expr>>,
}

/// What is assigned to.
#[derive(Debug)]
pub(crate) enum AssignTarget {
    Name(Arc<str>),
    /// `namespace.attribute`
    Attr(Arc<str>, Arc<str>),
    Tuple(Vec<AssignTarget>),
}

/// A statement and its line.
#[derive(Debug)]
pub(crate) struct Stmt {
    pub line: usize,
    pub kind: StatementKind,
}

/// A body of statements.
pub(crate) type StatementBody = Vec<Stmt>;

/// What a statement does.
#[derive(Debug)]
pub(crate) enum StatementKind {
    Text(Arc<str>),
    Print(Expr),
    For(Arc<For>),
    /// Tests with bodies, then what `else` has.
    If(Vec<(Expr, StatementBody)>, StatementBody),
    Set(AssignTarget, Expr),
    /// `{% set x %}…{% endset %}`, with filters.
    SetBlock(AssignTarget, Option<Expr>, StatementBody),
    Macro(Arc<MacroDef>),
    /// `{% call(args) f() %}…{% endcall %}`; the expression is the call.
    CallBlock(Arc<MacroDef>, Expr),
    FilterBlock(Expr, StatementBody),
    With(Vec<(AssignTarget, Expr)>, StatementBody),
    /// A body in a scope of its own: `generation`, `block … scoped`, `autoescape`.
    Scope(StatementBody),
    /// A `block`, which sees the template's own names only.
    Block(StatementBody),
    Break,
    Continue,
}

/// A loop.
#[derive(Debug)]
pub(crate) struct For {
    pub target: AssignTarget,
    pub iter: Expr,
    pub test: Option<Expr>,
    pub body: StatementBody,
    pub otherwise: StatementBody,
    pub recursive: bool,
}

/// A macro, or the body of a call block.
#[derive(Debug)]
pub(crate) struct MacroDef {
    pub name: Arc<str>,
    pub params: Vec<(Arc<str>, Option<Expr>)>,
    pub body: StatementBody,
    /// Names of further arguments that the body reads.
    pub varargs: bool,
    pub kwargs: bool,
    pub caller: bool,
}
