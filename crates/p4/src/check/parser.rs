//! Checks parsers: declarations and states.

use super::scope::{ScopeEntity, duplicate_error};
use super::unify::ObjectFamily;
use super::{BodyContext, CheckContext, Checker};
use crate::ast::{self, Ident, Local};
use crate::diag::Diagnostic;
use crate::hir::{
    Callee, Expr, ExprKind, KeysetItem, LocalDecl, ObjectKind, ParserBody, SelectCase, State, StateRef, Transition,
    TransitionKind, TyKind, Types, ValueSet, ValueSetId, walk_expr, walk_stmts,
};
use crate::span::Span;
use std::collections::HashMap;
use std::sync::Arc;

/// Parser states by name: index and span.
pub(super) type StateIndices = HashMap<Arc<str>, (usize, Span)>;

impl Checker<'_> {
    /// Checks a parser with its body, or a parser type, and declares it. Its parameters are in a
    /// scope outside of that of its locals.
    pub(super) fn parser_decl(&mut self, decl: &ast::ParserDecl) {
        self.declare_unfinished(&decl.name, "parser");
        let Some(body) = &decl.body else {
            let id = self.add_object(&decl.name, &decl.annotations, ObjectKind::ParserType);
            let signature = self.in_new_scope(|c| {
                c.declare_container_params(ObjectFamily::Parser, &decl.type_params, &decl.params, &[])
            });
            self.set_container_params(id, signature);
            self.scopes.set(&decl.name, ScopeEntity::Object(id));
            return;
        };
        let id = self.add_object(&decl.name, &decl.annotations, ObjectKind::Parser(ParserBody::default()));
        let checked = self.in_new_scope(|c| {
            let signature = c.declare_container_params(
                ObjectFamily::Parser,
                &decl.type_params,
                &decl.params,
                &body.constructor_params,
            );
            c.set_container_params(id, signature);
            let body_context = BodyContext {
                context: CheckContext::ParserLocals,
                object: Some(id),
                result: Types::VOID,
                loops: 0,
                this: None,
            };
            c.in_new_scope(|c| c.with_body(body_context, |c| c.parser_body(decl, body)))
        });
        self.prog.objects[id.index()].kind = ObjectKind::Parser(checked);
        self.scopes.set(&decl.name, ScopeEntity::Object(id));
    }

    fn parser_body(&mut self, decl: &ast::ParserDecl, body: &ast::ParserBody) -> ParserBody {
        let locals = body.locals.iter().filter_map(|l| self.parser_local(l)).collect();
        let states = self.collect_states(&body.states);
        let start = states.get("start").map(|(at, _)| *at);
        if start.is_none() {
            self.error(
                Diagnostic::error("no-start", decl.name.span, format!("parser `{}` has no state `start`", decl.name))
                    .help("a parser begins in the state `start`: declare it, or rename the first state"),
            );
        }
        let mut checked = Vec::new();
        for state in &body.states {
            checked.push(self.in_context(CheckContext::ParserState, |c| c.check_state(state, &states)));
        }
        self.check_reaches_end(decl, &checked, start);
        ParserBody { locals, states: checked, start: start.unwrap_or(0) }
    }

    fn parser_local(&mut self, local: &Local) -> Option<LocalDecl> {
        match local {
            Local::ValueSet(d) => self.check_value_set(d).map(LocalDecl::ValueSet),
            // The parser already rejected these.
            Local::Action(_) | Local::Table(_) => None,
            other => self.local_value(other),
        }
    }

    /// Checks and declares a value set. An element type that cannot be selected on becomes unknown,
    /// so that its uses cause no further errors.
    fn check_value_set(&mut self, decl: &ast::ValueSetDecl) -> Option<ValueSetId> {
        let annotations = self.check_annotations(&decl.annotations);
        let mut ty = self.resolve_type(&decl.ty);
        if !matches!(self.type_kind(ty), TyKind::Struct(..) | TyKind::Tuple(_)) && !self.selectable(ty) {
            let type_text = self.type_text(ty);
            self.fail("value-set", decl.ty.span, format!("a value set cannot hold elements of type `{type_text}`"));
            ty = Types::UNKNOWN;
        }
        let size = self.check_expr(&decl.size, Some(Types::INT));
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
        self.declare(&decl.name, ScopeEntity::ValueSet(id));
        Some(id)
    }

    /// Returns the index and the span of each state by name. Reports a state named `accept` or
    /// `reject` and a repeated name; the first state of a name counts.
    fn collect_states(&mut self, states: &[ast::ParserState]) -> StateIndices {
        let mut names = StateIndices::new();
        for (state_index, state) in states.iter().enumerate() {
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
                self.error(duplicate_error(name, *first));
                continue;
            }
            names.insert(name.name.clone(), (state_index, name.span));
        }
        names
    }

    fn check_state(&mut self, state: &ast::ParserState, states: &StateIndices) -> State {
        self.check_annotations(&state.annotations);
        self.in_new_scope(|c| {
            let body = state.stmts.iter().filter_map(|s| c.check_stmt(s)).collect();
            let transition = match &state.transition {
                None => Transition { kind: TransitionKind::State(StateRef::Reject), span: state.name.span },
                Some(t) => Transition { kind: c.check_transition(&t.kind, states), span: t.span },
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

    fn check_transition(&mut self, transition: &ast::TransitionKind, states: &StateIndices) -> TransitionKind {
        match transition {
            ast::TransitionKind::State(name) => TransitionKind::State(self.resolve_target(name, states)),
            ast::TransitionKind::Select { exprs, cases } => self.check_select(exprs, cases, states),
        }
    }

    /// Returns the state with that name; `reject` after an error.
    pub(super) fn resolve_target(&mut self, name: &Ident, states: &StateIndices) -> StateRef {
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
        if let Some(near) = crate::suggest::closest_name(name.as_str(), known) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        self.error(diagnostic);
        StateRef::Reject
    }

    /// Checks that `accept` or `reject` is reachable from the start state. Otherwise only an error
    /// can end the parser, such as the end of the packet or of a stack; without a possible error it
    /// never ends. Warns about unreachable states, because they are probably mistakes.
    fn check_reaches_end(&mut self, decl: &ast::ParserDecl, states: &[State], start: Option<usize>) {
        let Some(start) = start else { return };
        let (mut seen, mut pending, mut reaches_end, mut has_failure) =
            (vec![false; states.len()], vec![start], false, false);
        while let Some(current) = pending.pop() {
            if std::mem::replace(&mut seen[current], true) {
                continue;
            }
            has_failure = has_failure || self.can_fail(&states[current]);
            let targets: Vec<StateRef> = match &states[current].transition.kind {
                TransitionKind::State(target) => vec![*target],
                TransitionKind::Select { cases, .. } => cases.iter().map(|c| c.target).collect(),
            };
            for target in targets {
                match target {
                    StateRef::State(next) => pending.push(next),
                    StateRef::Accept | StateRef::Reject => reaches_end = true,
                }
            }
        }
        if !reaches_end {
            let mut message = format!("parser `{}` never reaches `accept` or `reject`", decl.name);
            let help = "let one of its states end with `transition accept;`";
            let diagnostic = if has_failure {
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

    /// Returns whether a state can fail: it reads the packet or a stack, calls `verify` or another
    /// parser, or has a select without a default.
    fn can_fail(&self, state: &State) -> bool {
        let call_can_fail = |callee: &Callee| match callee {
            Callee::Method(_, id, method_index) => {
                let decl = &self.prog.externs[id.index()];
                &*decl.name == "packet_in" && &*decl.methods[*method_index].name != "length"
            }
            Callee::ExternFunction(id) => &*self.prog.extern_functions[id.index()].name == "verify",
            Callee::Apply(_) => true,
            _ => false,
        };
        let expr_can_fail = |e: &Expr| match &e.kind {
            ExprKind::StackNext(_) | ExprKind::StackLast(_) => true,
            ExprKind::Call(call) => call_can_fail(&call.callee),
            _ => false,
        };
        let (mut has_failing_expr, mut has_failing_call) = (false, false);
        walk_stmts(&state.body, &mut |e| has_failing_expr |= expr_can_fail(e), &mut |call| {
            has_failing_call |= call_can_fail(&call.callee)
        });
        if let TransitionKind::Select { exprs, cases } = &state.transition.kind {
            exprs.iter().for_each(|e| walk_expr(e, &mut |e| has_failing_expr |= expr_can_fail(e)));
            let is_default = |case: &SelectCase| case.keyset.iter().all(|item| matches!(item, KeysetItem::Any));
            has_failing_expr |= !cases.iter().any(is_default);
        }
        has_failing_expr || has_failing_call
    }

    /// Returns whether a select can match on values of that type.
    pub(super) fn selectable(&self, ty: crate::hir::Ty) -> bool {
        matches!(
            self.type_kind(ty),
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
