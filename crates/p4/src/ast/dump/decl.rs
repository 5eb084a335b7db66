//! S-expressions of declarations.

use super::expr::{annotations, arg, expr, keyset, ty};
use super::node::SExpr;
use super::stmt::{block, function, instance, stmt};
use super::variable::{const_decl, head, param, params, var, word};
use crate::ast::{
    ActionDecl, ActionRef, Decl, Entry, EnumDecl, Local, MembersDecl, MethodDecl, ParserState, PropertyValue,
    StructDecl, TableDecl, TableProperty, TransitionKind, TypedefDecl, TypedefTarget,
};

/// Returns a declaration as an S-expression: its keyword and name first, then its parts.
pub(super) fn decl(d: &Decl) -> SExpr {
    match d {
        Decl::Const(d) => const_decl(d),
        Decl::Instance(d) => instance(d),
        Decl::Action(d) => action(d),
        Decl::Function(d) => function(d),
        Decl::Extern(d) => {
            let node = head("extern", &d.name, &d.annotations);
            node.with_group("types", d.type_params.iter().map(word)).with_all(d.methods.iter().map(method))
        }
        Decl::ExternFunction(d) => SExpr::list("extern").with(method(d)),
        Decl::Parser(d) => {
            let node = head("parser", &d.name, &d.annotations);
            let node = node.with_group("types", d.type_params.iter().map(word)).with(params(&d.params));
            match &d.body {
                None => node,
                Some(body) => node
                    .with_group("constructor", body.constructor_params.iter().map(param))
                    .with_all(body.locals.iter().map(local))
                    .with_all(body.states.iter().map(state)),
            }
        }
        Decl::Control(d) => {
            let node = head("control", &d.name, &d.annotations);
            let node = node.with_group("types", d.type_params.iter().map(word)).with(params(&d.params));
            match &d.body {
                None => node,
                Some(body) => node
                    .with_group("constructor", body.constructor_params.iter().map(param))
                    .with_all(body.locals.iter().map(local))
                    .with(SExpr::list("apply").with(block(&body.apply))),
            }
        }
        Decl::Package(d) => {
            let node = head("package", &d.name, &d.annotations);
            node.with_group("types", d.type_params.iter().map(word)).with(params(&d.params))
        }
        Decl::Struct(d) => structure(d),
        Decl::Enum(d) => enumeration(d),
        Decl::Error(d) => members("error", d),
        Decl::MatchKind(d) => members("match_kind", d),
        Decl::Typedef(d) => typedef(d),
    }
}

fn action(d: &ActionDecl) -> SExpr {
    head("action", &d.name, &d.annotations).with(params(&d.params)).with(block(&d.body))
}

fn method(d: &MethodDecl) -> SExpr {
    let what = match (&d.result, d.is_abstract) {
        (None, _) => "constructor",
        (Some(_), true) => "abstract-method",
        (Some(_), false) => "method",
    };
    let node = head(what, &d.name, &d.annotations).with_group("types", d.type_params.iter().map(word));
    node.with(params(&d.params)).with_all(d.result.iter().map(ty))
}

fn structure(d: &StructDecl) -> SExpr {
    let node = head(d.kind.as_str(), &d.name, &d.annotations).with_group("types", d.type_params.iter().map(word));
    node.with_all(d.fields.iter().map(|field| {
        let node = SExpr::List(vec![ty(&field.ty), word(&field.name)]);
        node.with_all(annotations(&field.annotations))
    }))
}

fn enumeration(d: &EnumDecl) -> SExpr {
    let node = head("enum", &d.name, &d.annotations).with_all(d.underlying.iter().map(ty));
    node.with_all(d.members.iter().map(|member| match &member.value {
        Some(value) => SExpr::list("=").with(word(&member.name)).with(expr(value)),
        None => word(&member.name),
    }))
}

fn members(what: &str, d: &MembersDecl) -> SExpr {
    SExpr::list(what).with_all(d.members.iter().map(word))
}

fn typedef(d: &TypedefDecl) -> SExpr {
    let what = if d.is_new { "type" } else { "typedef" };
    head(what, &d.name, &d.annotations).with(match &d.ty {
        TypedefTarget::Type(t) => ty(t),
        TypedefTarget::Struct(s) => structure(s),
        TypedefTarget::Enum(e) => enumeration(e),
    })
}

fn local(l: &Local) -> SExpr {
    match l {
        Local::Const(d) => const_decl(d),
        Local::Var(d) => var(d),
        Local::Instance(d) => instance(d),
        Local::ValueSet(d) => head("value_set", &d.name, &d.annotations).with_all([ty(&d.ty), expr(&d.size)]),
        Local::Action(d) => action(d),
        Local::Table(d) => table(d),
    }
}

fn state(s: &ParserState) -> SExpr {
    let node = head("state", &s.name, &s.annotations).with_all(s.stmts.iter().map(stmt));
    let Some(transition) = &s.transition else { return node };
    node.with(match &transition.kind {
        TransitionKind::State(name) => SExpr::list("transition").with(word(name)),
        TransitionKind::Select { exprs, cases } => {
            let subject = SExpr::list("select").with_all(exprs.iter().map(expr));
            let cases = cases.iter().map(|c| SExpr::list("case").with(keyset(&c.keyset)).with(word(&c.state)));
            SExpr::list("transition").with(subject).with_all(cases)
        }
    })
}

fn table(d: &TableDecl) -> SExpr {
    head("table", &d.name, &d.annotations).with_all(d.properties.iter().map(property))
}

fn property(p: &TableProperty) -> SExpr {
    let what = if p.is_const { format!("const {}", p.name) } else { p.name.to_string() };
    let node = SExpr::list(what).with_all(annotations(&p.annotations));
    match &p.value {
        PropertyValue::Key(elements) => node.with_all(elements.iter().map(|element| {
            let node = SExpr::List(vec![expr(&element.expr), word(&element.match_kind)]);
            node.with_all(annotations(&element.annotations))
        })),
        PropertyValue::Actions(actions) => node.with_all(actions.iter().map(action_ref)),
        PropertyValue::Entries(entries) => node.with_all(entries.iter().map(entry)),
        PropertyValue::Expr(value) => node.with(expr(value)),
    }
}

fn action_ref(a: &ActionRef) -> SExpr {
    let name = SExpr::word(a.name.to_string());
    if a.args.is_none() && a.annotations.is_empty() {
        return name;
    }
    SExpr::List(vec![name]).with_all(a.args.iter().flatten().map(arg)).with_all(annotations(&a.annotations))
}

fn entry(e: &Entry) -> SExpr {
    let node = SExpr::list(if e.is_const { "const entry" } else { "entry" });
    let node = node.with_group("priority", e.priority.iter().map(expr));
    node.with_all([keyset(&e.keyset), action_ref(&e.action)]).with_all(annotations(&e.annotations))
}
