//! S-expressions of statements and the declarations among them.

use super::expr::{annotations, arg, expr, ty};
use super::node::SExpr;
use super::variable::{const_decl, head, params, var, word};
use crate::ast::{Block, FunctionDecl, InstanceDecl, ObjMember, Stmt, StmtKind, SwitchCase};

pub(super) fn block(b: &Block) -> SExpr {
    SExpr::list("block").with_all(annotations(&b.annotations)).with_all(b.stmts.iter().map(stmt))
}

/// Returns a statement as an S-expression: its keyword first, then its parts.
pub(super) fn stmt(s: &Stmt) -> SExpr {
    match &s.kind {
        StmtKind::Assign { target, op, value, .. } => {
            let op = op.map_or("", |op| op.as_str());
            SExpr::list(format!("{op}=")).with_all([expr(target), expr(value)])
        }
        StmtKind::Call(call) => expr(call),
        StmtKind::DirectApply { ty: t, args } => SExpr::list("apply").with(ty(t)).with_all(args.iter().map(arg)),
        StmtKind::Block(b) => block(b),
        StmtKind::If { condition, then_branch, else_branch } => {
            let node = SExpr::list("if").with_all([expr(condition), stmt(then_branch)]);
            node.with_all(else_branch.iter().map(|branch| SExpr::list("else").with(stmt(branch))))
        }
        StmtKind::Switch { subject, cases } => {
            SExpr::list("switch").with(expr(subject)).with_all(cases.iter().map(switch_case))
        }
        StmtKind::For(f) => {
            let node = SExpr::list("for").with_all(annotations(&f.annotations));
            let node = node.with_group("init", f.init.iter().map(stmt)).with(expr(&f.condition));
            node.with_group("update", f.update.iter().map(stmt)).with(stmt(&f.body))
        }
        StmtKind::ForIn(f) => {
            let node = SExpr::list("for-in").with_all(annotations(&f.annotations)).with(ty(&f.ty));
            let node = node.with(SExpr::word(&*f.var.name)).with_all(annotations(&f.var_annotations));
            node.with_all([expr(&f.collection), stmt(&f.body)])
        }
        StmtKind::Break => SExpr::list("break"),
        StmtKind::Continue => SExpr::list("continue"),
        StmtKind::Return(value) => SExpr::list("return").with_all(value.iter().map(expr)),
        StmtKind::Exit => SExpr::list("exit"),
        StmtKind::Empty => SExpr::list("empty"),
        StmtKind::Const(decl) => const_decl(decl),
        StmtKind::Var(decl) => var(decl),
        StmtKind::Instance(decl) => instance(decl),
        StmtKind::Error => SExpr::list("<error>"),
    }
}

fn switch_case(case: &SwitchCase) -> SExpr {
    SExpr::list("case").with(expr(&case.label)).with_all(case.block.iter().map(block))
}

pub(super) fn instance(d: &InstanceDecl) -> SExpr {
    let node = head("instance", &d.name, &d.annotations).with(ty(&d.ty)).with_all(d.args.iter().map(arg));
    let members = d.initializer.iter().flatten().map(|member| match member {
        ObjMember::Function(f) => function(f),
        ObjMember::Instance(i) => instance(i),
    });
    node.with_group("initializer", members)
}

pub(super) fn function(d: &FunctionDecl) -> SExpr {
    let node = head("function", &d.name, &d.annotations).with_group("types", d.type_params.iter().map(word));
    node.with_all([params(&d.params), ty(&d.result), block(&d.body)])
}
