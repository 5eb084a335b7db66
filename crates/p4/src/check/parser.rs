//! Parsers: declarations and states.

use super::scope::{Entity, duplicate};
use super::unify::Family;
use super::{Body, Checker, Place};
use crate::ast::{self, Ident, Local};
use crate::diag::Diagnostic;
use crate::hir::{
    Callee, Expr, ExprKind, KeysetItem, LocalDecl, ObjectKind, ParserBody, SelectCase, State, StateRef, Transition,
    TransitionKind, TyKind, Types, ValueSet, ValueSetId, walk_expr, walk_stmts,
};
use crate::span::Span;
use std::collections::HashMap;
use std::sync::Arc;

/// The states of a parser by name.
pub(super) type States = HashMap<Arc<str>, (usize, Span)>;

impl Checker<'_> {
    /// A parser, or a parser's type.
    pub(super) fn parser_decl(&mut self, decl: &ast::ParserDecl) {
        self.begin(&decl.name, "parser");
        let Some(body) = &decl.body else {
            let id = self.new_object(&decl.name, &decl.annotations, ObjectKind::ParserType);
            let head = self.scoped(|c| c.head(Family::Parser, &decl.type_params, &decl.params, &[]));
            self.set_head(id, head);
            self.scopes.set(&decl.name, Entity::Object(id));
            return;
        };
        let id = self.new_object(&decl.name, &decl.annotations, ObjectKind::Parser(ParserBody::default()));
        let checked = self.scoped(|c| {
            let head = c.head(Family::Parser, &decl.type_params, &decl.params, &body.constructor_params);
            c.set_head(id, head);
            let place =
                Body { place: Place::ParserLocals, object: Some(id), result: Types::VOID, loops: 0, this: None };
            c.scoped(|c| c.in_body(place, |c| c.parser_body(decl, body)))
        });
        self.prog.objects[id.index()].kind = ObjectKind::Parser(checked);
        self.scopes.set(&decl.name, Entity::Object(id));
    }

    fn parser_body(&mut self, decl: &ast::ParserDecl, body: &ast::ParserBody) -> ParserBody {
        let locals = body.locals.iter().filter_map(|l| self.parser_local(l)).collect();
        let states = self.state_names(&body.states);
        let start = states.get("start").map(|(at, _)| *at);
        if start.is_none() {
            self.error(
                Diagnostic::error("no-start", decl.name.span, format!("parser `{}` has no state `start`", decl.name))
                    .help("a parser begins in the state `start`: declare it, or rename the first state"),
            );
        }
        let mut checked = Vec::new();
        for state in &body.states {
            checked.push(self.at_place(Place::ParserState, |c| c.state(state, &states)));
        }
        self.reaches_end(decl, &checked, start);
        ParserBody { locals, states: checked, start: start.unwrap_or(0) }
    }

    fn parser_local(&mut self, local: &Local) -> Option<LocalDecl> {
        match local {
            Local::ValueSet(d) => self.value_set(d).map(LocalDecl::ValueSet),
            // The parser has refused these already.
            Local::Action(_) | Local::Table(_) => None,
            other => self.local_value(other),
        }
    }

    fn value_set(&mut self, decl: &ast::ValueSetDecl) -> Option<ValueSetId> {
        let annotations = self.annotations(&decl.annotations);
        let mut ty = self.ty(&decl.ty);
        if !matches!(self.kind(ty), TyKind::Struct(..) | TyKind::Tuple(_)) && !self.selectable(ty) {
            let shown = self.show(ty);
            self.fail("value-set", decl.ty.span, format!("a value set cannot hold elements of type `{shown}`"));
            ty = Types::UNKNOWN;
        }
        let size = self.expr(&decl.size, Some(Types::INT));
        if size.ty != Types::UNKNOWN && (!self.is_known(&size) || !self.is_numeric(size.ty)) {
            self.fail("not-constant", decl.size.span, "the size of a value set must be a constant integer");
        }
        self.prog.value_sets.push(ValueSet {
            name: decl.name.name.clone(),
            annotations,
            ty,
            size,
            span: decl.name.span,
        });
        let id = ValueSetId(self.prog.value_sets.len() as u32 - 1);
        self.declare(&decl.name, Entity::ValueSet(id));
        Some(id)
    }

    fn state_names(&mut self, states: &[ast::ParserState]) -> States {
        let mut names = States::new();
        for (at, state) in states.iter().enumerate() {
            let name = &state.name;
            if matches!(name.as_str(), "accept" | "reject") {
                self.error(
                    Diagnostic::error(
                        "reserved-state",
                        name.span,
                        format!("`{name}` is built in and cannot be declared"),
                    )
                    .help("give the state another name"),
                );
                continue;
            }
            if let Some((_, first)) = names.get(&name.name) {
                self.error(duplicate(name, *first));
                continue;
            }
            names.insert(name.name.clone(), (at, name.span));
        }
        names
    }

    fn state(&mut self, state: &ast::ParserState, states: &States) -> State {
        self.annotations(&state.annotations);
        self.scoped(|c| {
            let body = state.stmts.iter().filter_map(|s| c.stmt(s)).collect();
            let transition = match &state.transition {
                None => Transition { kind: TransitionKind::State(StateRef::Reject), span: state.name.span },
                Some(t) => Transition { kind: c.transition(&t.kind, states), span: t.span },
            };
            State {
                name: state.name.name.clone(),
                annotations: state.annotations.clone(),
                body,
                transition,
                span: state.name.span,
            }
        })
    }

    fn transition(&mut self, transition: &ast::TransitionKind, states: &States) -> TransitionKind {
        match transition {
            ast::TransitionKind::State(name) => TransitionKind::State(self.target(name, states)),
            ast::TransitionKind::Select { exprs, cases } => self.select(exprs, cases, states),
        }
    }

    /// The state that a name stands for; `reject` after a diagnostic.
    pub(super) fn target(&mut self, name: &Ident, states: &States) -> StateRef {
        match name.as_str() {
            "accept" => return StateRef::Accept,
            "reject" => return StateRef::Reject,
            _ => {}
        }
        if let Some((at, _)) = states.get(&name.name) {
            return StateRef::State(*at);
        }
        let mut diagnostic =
            Diagnostic::error("unknown-state", name.span, format!("no state `{name}` is declared here"));
        let known = states.keys().map(|k| &**k).chain(["accept", "reject"]);
        if let Some(near) = crate::suggest::closest(name.as_str(), known) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        self.error(diagnostic);
        StateRef::Reject
    }

    /// A parser from whose start neither `accept` nor `reject` can be reached ends by an error
    /// alone, such as the end of the packet or of a stack, and goes round for ever if nothing in it
    /// can be an error; a state that cannot be reached at all is likely a mistake.
    fn reaches_end(&mut self, decl: &ast::ParserDecl, states: &[State], start: Option<usize>) {
        let Some(start) = start else { return };
        let (mut seen, mut todo, mut ends, mut fails) = (vec![false; states.len()], vec![start], false, false);
        while let Some(at) = todo.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            fails = fails || self.may_fail(&states[at]);
            let targets: Vec<StateRef> = match &states[at].transition.kind {
                TransitionKind::State(target) => vec![*target],
                TransitionKind::Select { cases, .. } => cases.iter().map(|c| c.target).collect(),
            };
            for target in targets {
                match target {
                    StateRef::State(next) => todo.push(next),
                    StateRef::Accept | StateRef::Reject => ends = true,
                }
            }
        }
        if !ends {
            let mut message = format!("parser `{}` never reaches `accept` or `reject`", decl.name);
            let help = "let one of its states end with `transition accept;`";
            let diagnostic = if fails {
                message.push_str(": it ends by an error alone");
                Diagnostic::warning("endless-parser", decl.name.span, message)
            } else {
                Diagnostic::error("endless-parser", decl.name.span, message)
            };
            self.report(diagnostic.help(help));
        }
        for (state, _) in states.iter().zip(seen).filter(|(_, seen)| !seen) {
            let message = format!("no transition leads to state `{}`", state.name);
            self.report(Diagnostic::warning("unreachable-state", state.span, message));
        }
    }

    /// Whether something in a state can be an error: reading the packet, the elements of a stack,
    /// `verify`, another parser, a select that matches nothing.
    fn may_fail(&self, state: &State) -> bool {
        let of_packet = |callee: &Callee| match callee {
            Callee::Method(_, id, at) => {
                let decl = &self.prog.externs[id.index()];
                &*decl.name == "packet_in" && &*decl.methods[*at].name != "length"
            }
            Callee::ExternFunction(id) => &*self.prog.extern_functions[id.index()].name == "verify",
            Callee::Apply(_) => true,
            _ => false,
        };
        let in_expr = |e: &Expr| match &e.kind {
            ExprKind::StackNext(_) | ExprKind::StackLast(_) => true,
            ExprKind::Call(call) => of_packet(&call.callee),
            _ => false,
        };
        let (mut in_exprs, mut in_calls) = (false, false);
        walk_stmts(&state.body, &mut |e| in_exprs |= in_expr(e), &mut |call| in_calls |= of_packet(&call.callee));
        if let TransitionKind::Select { exprs, cases } = &state.transition.kind {
            exprs.iter().for_each(|e| walk_expr(e, &mut |e| in_exprs |= in_expr(e)));
            let all = |case: &SelectCase| case.keyset.iter().all(|item| matches!(item, KeysetItem::Any));
            in_exprs |= !cases.iter().any(all);
        }
        in_exprs || in_calls
    }

    /// Whether a select can match on values of that type.
    pub(super) fn selectable(&self, ty: crate::hir::Ty) -> bool {
        matches!(
            self.kind(ty),
            TyKind::Bit(_)
                | TyKind::Int(_)
                | TyKind::Bool
                | TyKind::Enum(_)
                | TyKind::Error
                | TyKind::NewType(_)
                | TyKind::Unknown
                | TyKind::Param(_)
        )
    }
}
