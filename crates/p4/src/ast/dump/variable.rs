//! S-expressions of value declarations, and the common head of all declarations.

use super::expr::{annotations, expr, ty};
use super::node::SExpr;
use crate::ast::{Annotation, ConstDecl, Direction, Ident, Param, VarDecl};

/// Returns `(what name annotations...)`.
pub(super) fn head(what: &str, name: &Ident, all: &[Annotation]) -> SExpr {
    SExpr::list(what).with(word(name)).with_all(annotations(all))
}

pub(super) fn word(name: &Ident) -> SExpr {
    SExpr::word(&*name.name)
}

pub(super) fn params(all: &[Param]) -> SExpr {
    SExpr::list("params").with_all(all.iter().map(param))
}

pub(super) fn param(p: &Param) -> SExpr {
    let node = SExpr::List(Vec::new());
    let direction = (p.direction != Direction::None).then(|| SExpr::word(p.direction.as_str()));
    let node = node.with_all(direction).with(ty(&p.ty)).with(word(&p.name));
    node.with_all(annotations(&p.annotations)).with_group("default", p.default.iter().map(expr))
}

pub(super) fn const_decl(d: &ConstDecl) -> SExpr {
    head("const", &d.name, &d.annotations).with_all([ty(&d.ty), expr(&d.value)])
}

pub(super) fn var(d: &VarDecl) -> SExpr {
    head("var", &d.name, &d.annotations).with(ty(&d.ty)).with_all(d.init.iter().map(expr))
}
