//! Declarations of values, and what all declarations begin with.

use super::expr::{annotations, expr, ty};
use super::node::Node;
use crate::ast::{Annotation, ConstDecl, Direction, Ident, Param, VarDecl};

/// `(what name annotations...)`
pub(super) fn head(what: &str, name: &Ident, all: &[Annotation]) -> Node {
    Node::list(what).with(word(name)).with_all(annotations(all))
}

pub(super) fn word(name: &Ident) -> Node {
    Node::word(&*name.name)
}

pub(super) fn params(all: &[Param]) -> Node {
    Node::list("params").with_all(all.iter().map(param))
}

pub(super) fn param(p: &Param) -> Node {
    let node = Node::List(Vec::new());
    let direction = (p.direction != Direction::None).then(|| Node::word(p.direction.as_str()));
    let node = node.with_all(direction).with(ty(&p.ty)).with(word(&p.name));
    node.with_all(annotations(&p.annotations)).with_group("default", p.default.iter().map(expr))
}

pub(super) fn const_decl(d: &ConstDecl) -> Node {
    head("const", &d.name, &d.annotations).with_all([ty(&d.ty), expr(&d.value)])
}

pub(super) fn var(d: &VarDecl) -> Node {
    head("var", &d.name, &d.annotations).with(ty(&d.ty)).with_all(d.init.iter().map(expr))
}
