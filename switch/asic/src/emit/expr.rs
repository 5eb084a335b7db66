//! Expressions: constants, operators and conversions as P4 text.

use ir::{BinaryOp, Const, HeaderId, Pipeline, Type, UnaryOp, VarId};
use num_bigint::BigUint;

/// State that an expression's value depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum ExprDependency {
    /// A variable.
    Var(VarId),
    /// Validity of a header, which its fields' values depend on.
    Header(HeaderId),
    /// Position of the parser in the packet.
    Packet,
}

/// P4 expression with its dependencies.
#[derive(Clone, Debug)]
pub(super) struct P4Expr {
    /// Text. A constant has no width here, because the other operand gives its type.
    pub(super) text: String,
    /// Text with an explicit type, if different.
    pub(super) typed: Option<String>,
    /// The value in a named type of the program (`PortId_t`): name of the type, and text.
    pub(super) named: Option<(String, String)>,
    /// Precedence.
    pub(super) precedence: ExprPrecedence,
    /// State that the expression reads.
    pub(super) reads: Vec<ExprDependency>,
    /// Whether it uses names that are declared between statements or in an action.
    pub(super) uses_inner_names: bool,
}

/// Precedence class of an expression, for parentheses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExprPrecedence {
    /// A constant.
    Const,
    /// A name, a call or a parenthesised expression.
    Primary,
    /// `!x`, `~x`, a cast.
    Prefix,
    /// A comparison.
    Compare,
    /// Associative operators: `&&`, `||`, `++` and others.
    Chain(&'static str),
    /// All other expressions.
    Other,
}

impl P4Expr {
    /// Returns a name or call that depends on `reads`.
    pub(super) fn primary(text: impl Into<String>, reads: Vec<ExprDependency>) -> P4Expr {
        P4Expr {
            text: text.into(),
            typed: None,
            named: None,
            precedence: ExprPrecedence::Primary,
            reads,
            uses_inner_names: false,
        }
    }

    fn combined(text: String, form: ExprPrecedence, of: &[&P4Expr]) -> P4Expr {
        let mut reads: Vec<ExprDependency> = of.iter().flat_map(|e| e.reads.iter().copied()).collect();
        reads.sort();
        reads.dedup();
        P4Expr {
            text,
            typed: None,
            named: None,
            precedence: form,
            reads,
            uses_inner_names: of.iter().any(|e| e.uses_inner_names),
        }
    }

    /// Returns the text with an explicit type, for contexts that give none.
    pub(super) fn typed_text(&self) -> &str {
        self.typed.as_deref().unwrap_or(&self.text)
    }

    /// Returns the text, in parentheses unless it is a primary, prefix or constant expression.
    fn operand_text(&self) -> String {
        match self.precedence {
            ExprPrecedence::Const | ExprPrecedence::Primary => self.text.clone(),
            ExprPrecedence::Prefix => self.text.clone(),
            _ => format!("({})", self.text),
        }
    }

    fn typed_operand(&self) -> String {
        if self.precedence == ExprPrecedence::Const { self.typed_text().to_owned() } else { self.operand_text() }
    }

    /// Returns the text as a base for `.x`, `[...]` or a cast.
    fn postfix_base(&self) -> String {
        match self.precedence {
            ExprPrecedence::Primary => self.text.clone(),
            _ => format!("({})", self.typed_text()),
        }
    }

    /// Returns whether the expression is as cheap as a name.
    pub(super) fn is_simple(&self) -> bool {
        matches!(self.precedence, ExprPrecedence::Const | ExprPrecedence::Primary) && self.text.len() <= 60
    }
}

/// Returns a type as P4 text.
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

/// Returns a number as text; numbers below 1024 in decimal.
pub(super) fn number_text(bits: &BigUint) -> String {
    if *bits < BigUint::from(1024u32) { bits.to_string() } else { format!("0x{bits:x}") }
}

/// Returns a constant; `None` if P4 has no literal for its type.
pub(super) fn constant(p: &Pipeline, value: &Const) -> Option<P4Expr> {
    let index = usize::try_from(&value.bits).ok();
    let (text, typed) = match value.ty {
        Type::Bool => ((value.bits != BigUint::ZERO).to_string(), None),
        Type::Bit(0) => ("0w0".into(), None),
        Type::Bit(w) => (number_text(&value.bits), Some(format!("{w}w{}", number_text(&value.bits)))),
        Type::Int(w) => (format!("((int<{w}>) {w}w{})", number_text(&value.bits)), None),
        Type::Error => (format!("error.{}", p.errors.get(index?)?), None),
        Type::Enum(id) => (format!("{}.{}", p.enums[id].name, p.enums[id].members.get(index?)?), None),
        Type::Varbit(_) => return None,
    };
    Some(P4Expr {
        text,
        typed,
        named: None,
        precedence: ExprPrecedence::Const,
        reads: Vec::new(),
        uses_inner_names: false,
    })
}

/// Applies a unary operator.
pub(super) fn unary(op: UnaryOp, a: &P4Expr) -> P4Expr {
    let sign = match op {
        UnaryOp::Neg => "-",
        UnaryOp::Not => "~",
        UnaryOp::LogicalNot => "!",
    };
    let operand = if a.precedence == ExprPrecedence::Prefix { format!("({})", a.text) } else { a.typed_operand() };
    P4Expr::combined(format!("{sign}{operand}"), ExprPrecedence::Prefix, &[a])
}

/// Applies a binary operator to operands of type `ty`.
pub(super) fn binary(op: BinaryOp, ty: Type, a: &P4Expr, b: &P4Expr) -> P4Expr {
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
    let precedence = match sign {
        "&&" | "||" => ExprPrecedence::Chain(sign),
        _ if op.is_comparison() || ty == Type::Bool => ExprPrecedence::Compare,
        "&" | "|" | "^" => ExprPrecedence::Chain(sign),
        _ => ExprPrecedence::Other,
    };
    let both_const = a.precedence == ExprPrecedence::Const && b.precedence == ExprPrecedence::Const;
    let operand = |e: &P4Expr, typed: bool| match (precedence, e.precedence) {
        (ExprPrecedence::Chain(x), ExprPrecedence::Chain(y)) if x == y => e.text.clone(),
        (ExprPrecedence::Chain("&&" | "||"), ExprPrecedence::Compare) => e.text.clone(),
        _ if typed => e.typed_operand(),
        _ => e.operand_text(),
    };
    let left = operand(a, both_const || matches!(op, Shl | Shr));
    let right = match (precedence, b.precedence) {
        // The operators associate to the left, so a chain on the right keeps its parentheses.
        (ExprPrecedence::Chain(_), ExprPrecedence::Chain(_)) => format!("({})", b.text),
        _ => operand(b, both_const && !matches!(op, Shl | Shr)),
    };
    P4Expr::combined(format!("{left} {sign} {right}"), precedence, &[a, b])
}

/// Returns a conversion with the semantics of `ir::Inst::Cast`; `None` if P4 has no such cast.
pub(super) fn cast(p: &Pipeline, to: Type, from: Type, a: &P4Expr) -> Option<P4Expr> {
    let base = if a.precedence == ExprPrecedence::Prefix { a.text.clone() } else { a.postfix_base() };
    let to_text = type_text(p, to);
    let text = match (from, to) {
        _ if from == to => return Some(a.clone()),
        // P4 casts change either the sign or the width.
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
        (Type::Bit(_) | Type::Int(_), Type::Bool) => format!("(bool) ({})[0:0]", a.typed_text()),
        _ => return None,
    };
    Some(P4Expr::combined(text, ExprPrecedence::Prefix, &[a]))
}

/// Returns bits `hi` to `lo` of a value.
pub(super) fn slice(a: &P4Expr, hi: u32, lo: u32) -> P4Expr {
    P4Expr::combined(format!("{}[{hi}:{lo}]", a.postfix_base()), ExprPrecedence::Primary, &[a])
}

/// Concatenates two values.
pub(super) fn concat(a: &P4Expr, b: &P4Expr) -> P4Expr {
    let left = if a.precedence == ExprPrecedence::Chain("++") { a.text.clone() } else { a.typed_operand() };
    P4Expr::combined(format!("{left} ++ {}", b.typed_operand()), ExprPrecedence::Chain("++"), &[a, b])
}

/// Returns a conditional expression.
pub(super) fn select(cond: &P4Expr, then: &P4Expr, els: &P4Expr) -> P4Expr {
    let text = format!("({} ? {} : {})", cond.operand_text(), then.typed_operand(), els.typed_operand());
    P4Expr::combined(text, ExprPrecedence::Primary, &[cond, then, els])
}

/// Returns values in braces.
pub(super) fn list(items: &[&P4Expr]) -> String {
    let items: Vec<&str> = items.iter().map(|e| e.typed_text()).collect();
    format!("{{ {} }}", items.join(", "))
}
