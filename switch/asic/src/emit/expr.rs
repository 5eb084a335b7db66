//! Expressions: constants, operators and conversions as P4 text.

use ir::{BinaryOp, Const, HeaderId, Pipeline, Type, UnaryOp, VarId};
use num_bigint::BigUint;

/// Something whose change gives an expression another value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum State {
    /// A variable.
    Var(VarId),
    /// A header's validity, and so what its fields read as.
    Header(HeaderId),
    /// How far the parser is in the packet.
    Packet,
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    /// Its text. A constant has the form that is typed by what is beside it.
    pub(super) text: String,
    /// The text with its type, if that is another one.
    pub(super) typed: Option<String>,
    /// The same value in the program's own type (`PortId_t`): the type's name, and the text.
    pub(super) named: Option<(String, String)>,
    /// How it binds.
    pub(super) form: Form,
    /// What it reads.
    pub(super) reads: Vec<State>,
    /// Whether it mentions names that are declared in the middle of the code.
    pub(super) inner: bool,
}

/// How an expression binds, as far as parentheses need to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// A constant.
    Const,
    /// A name, a call, something in parentheses.
    Primary,
    /// `!x`, `~x`, a cast.
    Prefix,
    /// A comparison.
    Compare,
    /// `&&`, `||`, `++` and others that go on with themselves.
    Chain(&'static str),
    /// All else.
    Other,
}

impl Expr {
    /// A name or call that reads these.
    pub(super) fn primary(text: impl Into<String>, reads: Vec<State>) -> Expr {
        Expr { text: text.into(), typed: None, named: None, form: Form::Primary, reads, inner: false }
    }

    fn made(text: String, form: Form, of: &[&Expr]) -> Expr {
        let mut reads: Vec<State> = of.iter().flat_map(|e| e.reads.iter().copied()).collect();
        reads.sort();
        reads.dedup();
        Expr { text, typed: None, named: None, form, reads, inner: of.iter().any(|e| e.inner) }
    }

    /// The text where nothing beside it gives the type.
    pub(super) fn typed(&self) -> &str {
        self.typed.as_deref().unwrap_or(&self.text)
    }

    /// The text in parentheses unless it is a primary or a constant.
    fn operand(&self) -> String {
        match self.form {
            Form::Const | Form::Primary => self.text.clone(),
            Form::Prefix => self.text.clone(),
            _ => format!("({})", self.text),
        }
    }

    fn typed_operand(&self) -> String {
        if self.form == Form::Const { self.typed().to_owned() } else { self.operand() }
    }

    /// The text as something that `.x`, `[...]` or a cast can go with.
    fn base(&self) -> String {
        match self.form {
            Form::Primary => self.text.clone(),
            _ => format!("({})", self.typed()),
        }
    }

    /// Whether it is as cheap as a name.
    pub(super) fn is_simple(&self) -> bool {
        matches!(self.form, Form::Const | Form::Primary) && self.text.len() <= 60
    }
}

/// A type as P4 text.
pub(super) fn type_text(p: &Pipeline, ty: Type) -> String {
    match ty {
        Type::Bool => "bool".into(),
        Type::Bit(w) => format!("bit<{w}>"),
        Type::Int(w) => format!("int<{w}>"),
        Type::Varbit(w) => format!("varbit<{w}>"),
        Type::Error => "error".into(),
        Type::Enum(id) => p.enums[id].name.clone(),
    }
}

/// A number: small ones in decimal.
pub(super) fn number(bits: &BigUint) -> String {
    if *bits < BigUint::from(1024u32) { bits.to_string() } else { format!("0x{bits:x}") }
}

/// A constant; `None` if the language has no text for it.
pub(super) fn constant(p: &Pipeline, value: &Const) -> Option<Expr> {
    let index = usize::try_from(&value.bits).ok();
    let (text, typed) = match value.ty {
        Type::Bool => ((value.bits != BigUint::ZERO).to_string(), None),
        Type::Bit(0) => ("0w0".into(), None),
        Type::Bit(w) => (number(&value.bits), Some(format!("{w}w{}", number(&value.bits)))),
        Type::Int(w) => (format!("((int<{w}>) {w}w{})", number(&value.bits)), None),
        Type::Error => (format!("error.{}", p.errors.get(index?)?), None),
        Type::Enum(id) => (format!("{}.{}", p.enums[id].name, p.enums[id].members.get(index?)?), None),
        Type::Varbit(_) => return None,
    };
    Some(Expr { text, typed, named: None, form: Form::Const, reads: Vec::new(), inner: false })
}

/// A unary operator.
pub(super) fn unary(op: UnaryOp, a: &Expr) -> Expr {
    let sign = match op {
        UnaryOp::Neg => "-",
        UnaryOp::Not => "~",
        UnaryOp::LogicalNot => "!",
    };
    let operand = if a.form == Form::Prefix { format!("({})", a.text) } else { a.typed_operand() };
    Expr::made(format!("{sign}{operand}"), Form::Prefix, &[a])
}

/// A binary operator on operands of that type.
pub(super) fn binary(op: BinaryOp, ty: Type, a: &Expr, b: &Expr) -> Expr {
    use BinaryOp::*;
    let sign = match (op, ty) {
        (And, Type::Bool) => "&&",
        (Or, Type::Bool) => "||",
        (Xor, Type::Bool) => "!=",
        (Add, _) => "+",
        (Sub, _) => "-",
        (Mul, _) => "*",
        (Div, _) => "/",
        (Mod, _) => "%",
        (AddSat, _) => "|+|",
        (SubSat, _) => "|-|",
        (And, _) => "&",
        (Or, _) => "|",
        (Xor, _) => "^",
        (Shl, _) => "<<",
        (Shr, _) => ">>",
        (Eq, _) => "==",
        (Ne, _) => "!=",
        (Lt, _) => "<",
        (Le, _) => "<=",
        (Gt, _) => ">",
        (Ge, _) => ">=",
    };
    let form = match sign {
        "&&" | "||" => Form::Chain(sign),
        _ if op.is_comparison() || ty == Type::Bool => Form::Compare,
        "&" | "|" | "^" => Form::Chain(sign),
        _ => Form::Other,
    };
    let both = a.form == Form::Const && b.form == Form::Const;
    let side = |e: &Expr, typed: bool| match (form, e.form) {
        (Form::Chain(x), Form::Chain(y)) if x == y => e.text.clone(),
        (Form::Chain("&&" | "||"), Form::Compare) => e.text.clone(),
        _ if typed => e.typed_operand(),
        _ => e.operand(),
    };
    let left = side(a, both || matches!(op, Shl | Shr));
    let right = match (form, b.form) {
        // These associate to the left: a chain on the right keeps its parentheses.
        (Form::Chain(_), Form::Chain(_)) => format!("({})", b.text),
        _ => side(b, both && !matches!(op, Shl | Shr)),
    };
    Expr::made(format!("{left} {sign} {right}"), form, &[a, b])
}

/// A conversion, with the IR's meaning (see `ir::Inst::Cast`); `None` if the language has none.
pub(super) fn cast(p: &Pipeline, to: Type, from: Type, a: &Expr) -> Option<Expr> {
    let base = if a.form == Form::Prefix { a.text.clone() } else { a.base() };
    let to_text = type_text(p, to);
    let text = match (from, to) {
        _ if from == to => return Some(a.clone()),
        (Type::Bit(v), Type::Int(w)) | (Type::Int(v), Type::Bit(w)) if v != w => {
            let middle = if matches!(from, Type::Bit(_)) { format!("bit<{w}>") } else { format!("int<{w}>") };
            format!("({to_text}) ({middle}) {base}")
        }
        (Type::Bit(_) | Type::Int(_), Type::Bit(_) | Type::Int(_)) | (Type::Bit(1), Type::Bool) => {
            format!("({to_text}) {base}")
        }
        (Type::Bool, Type::Bit(1)) => format!("({to_text}) {base}"),
        (Type::Bool, Type::Bit(_)) => format!("({to_text}) (bit<1>) {base}"),
        (Type::Bool, Type::Int(w)) => format!("({to_text}) (bit<{w}>) (bit<1>) {base}"),
        (Type::Bit(0) | Type::Int(0), Type::Bool) => return None,
        (Type::Bit(_) | Type::Int(_), Type::Bool) => format!("(bool) ({})[0:0]", a.typed()),
        _ => return None,
    };
    Some(Expr::made(text, Form::Prefix, &[a]))
}

/// Bits of a value.
pub(super) fn slice(a: &Expr, hi: u32, lo: u32) -> Expr {
    Expr::made(format!("{}[{hi}:{lo}]", a.base()), Form::Primary, &[a])
}

/// Two values one after the other.
pub(super) fn concat(a: &Expr, b: &Expr) -> Expr {
    let left = if a.form == Form::Chain("++") { a.text.clone() } else { a.typed_operand() };
    Expr::made(format!("{left} ++ {}", b.typed_operand()), Form::Chain("++"), &[a, b])
}

/// One of two values.
pub(super) fn select(cond: &Expr, then: &Expr, els: &Expr) -> Expr {
    let text = format!("({} ? {} : {})", cond.operand(), then.typed_operand(), els.typed_operand());
    Expr::made(text, Form::Primary, &[cond, then, els])
}

/// Values in braces.
pub(super) fn list(items: &[&Expr]) -> String {
    let items: Vec<&str> = items.iter().map(|e| e.typed()).collect();
    format!("{{ {} }}", items.join(", "))
}
