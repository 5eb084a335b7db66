//! S-expressions of expressions, types and annotations.

use super::node::SExpr;
use crate::ast::{
    Annotation, AnnotationBody, Arg, Expr, ExprKind, IntLiteral, Keyset, NamedExpr, Type, TypeKind, UnaryOp,
};

/// Returns an expression as an S-expression: the operator or kind first, then the operands.
pub(super) fn expr(e: &Expr) -> SExpr {
    match &e.kind {
        ExprKind::Int(literal) => int(literal),
        ExprKind::Bool(value) => SExpr::word(value.to_string()),
        ExprKind::Str(text) => SExpr::word(format!("\"{text}\"")),
        ExprKind::Dots => SExpr::word("..."),
        ExprKind::DontCare => SExpr::word("_"),
        ExprKind::Default => SExpr::word("default"),
        ExprKind::This => SExpr::word("this"),
        ExprKind::InvalidHeader => SExpr::word("{#}"),
        ExprKind::Error => SExpr::word("<error>"),
        ExprKind::Name(path) => SExpr::word(path.to_string()),
        ExprKind::Type(t) => SExpr::list("type").with(ty(t)),
        ExprKind::Member { base, member } => SExpr::list(".").with(expr(base)).with(SExpr::word(&*member.name)),
        ExprKind::Index { base, index } => SExpr::list("[]").with_all([expr(base), expr(index)]),
        ExprKind::Slice { base, hi, lo } => SExpr::list("[:]").with_all([expr(base), expr(hi), expr(lo)]),
        ExprKind::PlusSlice { base, lo, width } => SExpr::list("[+:]").with_all([expr(base), expr(lo), expr(width)]),
        ExprKind::Unary { op: UnaryOp::Neg, operand } => SExpr::list("neg").with(expr(operand)),
        ExprKind::Unary { op, operand } => SExpr::list(op.as_str()).with(expr(operand)),
        ExprKind::Binary { op, left, right, .. } => SExpr::list(op.as_str()).with_all([expr(left), expr(right)]),
        ExprKind::Mux { condition, yes, no } => SExpr::list("?:").with_all([expr(condition), expr(yes), expr(no)]),
        ExprKind::Cast { ty: target, operand } => SExpr::list("cast").with_all([ty(target), expr(operand)]),
        ExprKind::Call { callee, type_args, args } => {
            let call = SExpr::list("call").with(expr(callee));
            call.with_group("types", type_args.iter().map(ty)).with_all(args.iter().map(arg))
        }
        ExprKind::Construct { ty: t, args } => SExpr::list("new").with(ty(t)).with_all(args.iter().map(arg)),
        ExprKind::List(elements) => SExpr::list("list").with_all(elements.iter().map(expr)),
        ExprKind::Struct { fields, rest } => {
            let fields = fields.iter().map(named);
            SExpr::list("fields").with_all(fields).with_all(rest.map(|_| SExpr::word("...")))
        }
    }
}

fn int(literal: &IntLiteral) -> SExpr {
    let digits = literal.value.to_str_radix(literal.base);
    let prefix = match literal.base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let width =
        literal.width.map_or_else(String::new, |w| format!("{}{}", w.bits, if w.is_signed { 's' } else { 'w' }));
    SExpr::word(format!("{width}{prefix}{digits}"))
}

pub(super) fn arg(a: &Arg) -> SExpr {
    match &a.name {
        Some(name) => SExpr::list("=").with(SExpr::word(&*name.name)).with(expr(&a.value)),
        None => expr(&a.value),
    }
}

pub(super) fn named(pair: &NamedExpr) -> SExpr {
    SExpr::list("=").with(SExpr::word(&*pair.name.name)).with(expr(&pair.value))
}

pub(super) fn keyset(keys: &Keyset) -> SExpr {
    let elements: Vec<SExpr> = keys.elements.iter().map(expr).collect();
    match (keys.is_tuple, elements.len()) {
        (false, 1) => elements.into_iter().next().unwrap_or_else(|| SExpr::word("_")),
        _ => SExpr::list("tuple").with_all(elements),
    }
}

/// Returns a written type as an S-expression; a type without parts is a single word.
pub(super) fn ty(t: &Type) -> SExpr {
    match &t.kind {
        TypeKind::Bool => SExpr::word("bool"),
        TypeKind::Error => SExpr::word("error"),
        TypeKind::MatchKind => SExpr::word("match_kind"),
        TypeKind::String => SExpr::word("string"),
        TypeKind::Void => SExpr::word("void"),
        TypeKind::DontCare => SExpr::word("_"),
        TypeKind::InfInt => SExpr::word("int"),
        TypeKind::Bit(None) => SExpr::word("bit"),
        TypeKind::Bit(Some(width)) => sized("bit", width),
        TypeKind::Int(width) => sized("int", width),
        TypeKind::Varbit(width) => sized("varbit", width),
        TypeKind::Name(path) => SExpr::word(path.to_string()),
        TypeKind::Specialized { base, args } => {
            SExpr::list("<>").with(SExpr::word(base.to_string())).with_all(args.iter().map(ty))
        }
        TypeKind::Stack { element, size } => SExpr::list("stack").with(ty(element)).with(expr(size)),
        TypeKind::Tuple(args) => SExpr::list("tuple").with_all(args.iter().map(ty)),
        TypeKind::List(element) => SExpr::list("list").with(ty(element)),
    }
}

/// Returns `bit<8>` as a word, or a list if the width is an expression.
fn sized(name: &str, width: &Expr) -> SExpr {
    match expr(width) {
        SExpr::Word(width) => SExpr::word(format!("{name}<{width}>")),
        list => SExpr::list(name).with(list),
    }
}

pub(super) fn annotations(all: &[Annotation]) -> impl Iterator<Item = SExpr> {
    all.iter().map(annotation)
}

fn annotation(a: &Annotation) -> SExpr {
    let node = SExpr::list(format!("@{}", a.name));
    match &a.body {
        AnnotationBody::None => node,
        AnnotationBody::Unstructured(body) => match (&body.exprs, &body.key_values) {
            (Some(exprs), _) => node.with_all(exprs.iter().map(expr)),
            (None, Some(pairs)) => node.with_all(pairs.iter().map(named)),
            (None, None) => node.with(SExpr::list("tokens").with(SExpr::word(&*body.text))),
        },
        AnnotationBody::List(exprs) => node.with_group("list", exprs.iter().map(expr)),
        AnnotationBody::KeyValues(pairs) => node.with_group("pairs", pairs.iter().map(named)),
    }
}
