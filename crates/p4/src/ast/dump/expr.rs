//! Expressions, types and annotations.

use super::node::Node;
use crate::ast::{
    Annotation, AnnotationBody, Arg, Expr, ExprKind, IntLiteral, Keyset, NamedExpr, Type, TypeKind, UnaryOp,
};

pub(super) fn expr(e: &Expr) -> Node {
    match &e.kind {
        ExprKind::Int(literal) => int(literal),
        ExprKind::Bool(value) => Node::word(value.to_string()),
        ExprKind::Str(text) => Node::word(format!("\"{text}\"")),
        ExprKind::Dots => Node::word("..."),
        ExprKind::DontCare => Node::word("_"),
        ExprKind::Default => Node::word("default"),
        ExprKind::This => Node::word("this"),
        ExprKind::InvalidHeader => Node::word("{#}"),
        ExprKind::Error => Node::word("<error>"),
        ExprKind::Name(path) => Node::word(path.to_string()),
        ExprKind::Type(t) => Node::list("type").with(ty(t)),
        ExprKind::Member { base, member } => Node::list(".").with(expr(base)).with(Node::word(&*member.name)),
        ExprKind::Index { base, index } => Node::list("[]").with_all([expr(base), expr(index)]),
        ExprKind::Slice { base, hi, lo } => Node::list("[:]").with_all([expr(base), expr(hi), expr(lo)]),
        ExprKind::PlusSlice { base, lo, width } => Node::list("[+:]").with_all([expr(base), expr(lo), expr(width)]),
        ExprKind::Unary { op: UnaryOp::Neg, operand } => Node::list("neg").with(expr(operand)),
        ExprKind::Unary { op, operand } => Node::list(op.as_str()).with(expr(operand)),
        ExprKind::Binary { op, left, right, .. } => Node::list(op.as_str()).with_all([expr(left), expr(right)]),
        ExprKind::Mux { condition, yes, no } => Node::list("?:").with_all([expr(condition), expr(yes), expr(no)]),
        ExprKind::Cast { ty: target, operand } => Node::list("cast").with_all([ty(target), expr(operand)]),
        ExprKind::Call { callee, type_args, args } => {
            let call = Node::list("call").with(expr(callee));
            call.with_group("types", type_args.iter().map(ty)).with_all(args.iter().map(arg))
        }
        ExprKind::Construct { ty: t, args } => Node::list("new").with(ty(t)).with_all(args.iter().map(arg)),
        ExprKind::List(elements) => Node::list("list").with_all(elements.iter().map(expr)),
        ExprKind::Struct { fields, rest } => {
            let fields = fields.iter().map(named);
            Node::list("fields").with_all(fields).with_all(rest.map(|_| Node::word("...")))
        }
    }
}

fn int(literal: &IntLiteral) -> Node {
    let digits = literal.value.to_str_radix(literal.base);
    let prefix = match literal.base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let width = literal.width.map_or_else(String::new, |w| format!("{}{}", w.bits, if w.signed { 's' } else { 'w' }));
    Node::word(format!("{width}{prefix}{digits}"))
}

pub(super) fn arg(a: &Arg) -> Node {
    match &a.name {
        Some(name) => Node::list("=").with(Node::word(&*name.name)).with(expr(&a.value)),
        None => expr(&a.value),
    }
}

pub(super) fn named(pair: &NamedExpr) -> Node {
    Node::list("=").with(Node::word(&*pair.name.name)).with(expr(&pair.value))
}

pub(super) fn keyset(keys: &Keyset) -> Node {
    let elements: Vec<Node> = keys.elements.iter().map(expr).collect();
    match (keys.tuple, elements.len()) {
        (false, 1) => elements.into_iter().next().unwrap_or_else(|| Node::word("_")),
        _ => Node::list("tuple").with_all(elements),
    }
}

pub(super) fn ty(t: &Type) -> Node {
    match &t.kind {
        TypeKind::Bool => Node::word("bool"),
        TypeKind::Error => Node::word("error"),
        TypeKind::MatchKind => Node::word("match_kind"),
        TypeKind::String => Node::word("string"),
        TypeKind::Void => Node::word("void"),
        TypeKind::DontCare => Node::word("_"),
        TypeKind::InfInt => Node::word("int"),
        TypeKind::Bit(None) => Node::word("bit"),
        TypeKind::Bit(Some(width)) => sized("bit", width),
        TypeKind::Int(width) => sized("int", width),
        TypeKind::Varbit(width) => sized("varbit", width),
        TypeKind::Name(path) => Node::word(path.to_string()),
        TypeKind::Specialized { base, args } => {
            Node::list("<>").with(Node::word(base.to_string())).with_all(args.iter().map(ty))
        }
        TypeKind::Stack { element, size } => Node::list("stack").with(ty(element)).with(expr(size)),
        TypeKind::Tuple(args) => Node::list("tuple").with_all(args.iter().map(ty)),
        TypeKind::List(element) => Node::list("list").with(ty(element)),
    }
}

/// `bit<8>` as a word; with a longer width, a list.
fn sized(name: &str, width: &Expr) -> Node {
    match expr(width) {
        Node::Word(width) => Node::word(format!("{name}<{width}>")),
        list => Node::list(name).with(list),
    }
}

pub(super) fn annotations(all: &[Annotation]) -> impl Iterator<Item = Node> {
    all.iter().map(annotation)
}

fn annotation(a: &Annotation) -> Node {
    let node = Node::list(format!("@{}", a.name));
    match &a.body {
        AnnotationBody::None => node,
        AnnotationBody::Unstructured(body) => match (&body.exprs, &body.key_values) {
            (Some(exprs), _) => node.with_all(exprs.iter().map(expr)),
            (None, Some(pairs)) => node.with_all(pairs.iter().map(named)),
            (None, None) => node.with(Node::list("tokens").with(Node::word(&*body.text))),
        },
        AnnotationBody::List(exprs) => node.with_group("list", exprs.iter().map(expr)),
        AnnotationBody::KeyValues(pairs) => node.with_group("pairs", pairs.iter().map(named)),
    }
}
