//! Finds the declarations that a parser or control uses. P4Info and the pipeline contain no others.
//!
//! The rules follow p4c's front end, which removes unused declarations before it writes P4Info, so
//! that both show the same objects:
//!
//! - A table is used if remaining code applies it, a value set if a reachable state selects by it,
//!   a parser or control if it is applied or passed to a constructor. Extern objects are always
//!   used.
//! - Code remains unless a compile-time known condition excludes it, or it follows a `return` that
//!   is always taken. Code after an `exit` remains, except in a control that also has a `return`.
//! - An action is used if a used table lists it or the control's own code calls it.

use super::const_value::ConstValue;
use super::effects::is_pure;
use super::lowering::Lowering;
use super::names;
use crate::ast::{BinaryOp, UnaryOp};
use crate::diag::Diagnostic;
use crate::hir::*;
use std::collections::HashSet;

/// Declarations that code uses.
#[derive(Debug, Default)]
pub(super) struct UsedDecls {
    pub(super) tables: HashSet<TableId>,
    /// Actions that the code calls by name, in the order of the calls.
    pub(super) called_actions: Vec<ActionId>,
    pub(super) instances: HashSet<InstanceId>,
    pub(super) value_sets: HashSet<ValueSetId>,
}

/// Whether code ends by `return` or `exit`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Termination {
    Never,
    Sometimes,
    Always,
}

impl Termination {
    /// Combines two alternative branches.
    fn or_else_branch(self, other: Termination) -> Termination {
        if self == other { self } else { Termination::Sometimes }
    }

    /// Weakens the result for code that can be skipped.
    fn if_skippable(self) -> Termination {
        self.min(Termination::Sometimes)
    }
}

impl<'a> Lowering<'a> {
    /// Returns the declarations used by the current object, which is declared by `decl`.
    pub(super) fn used_by(&mut self, decl: TypeDeclId) -> UsedDecls {
        let mut walk = UsageWalk { lower: self, used: UsedDecls::default(), has_return: false };
        match &walk.lower.hir.objects[decl.index()].kind {
            ObjectKind::Control(body) => {
                walk.visit_vars(&body.locals);
                walk.has_return = body.apply.iter().any(contains_return);
                walk.visit_stmts(&body.apply);
            }
            ObjectKind::Parser(body) => {
                walk.visit_vars(&body.locals);
                walk.visit_states(body);
            }
            _ => {}
        }
        walk.visit_used_decls();
        walk.used
    }

    /// Returns the value of a condition if it is known at compile time. Short-circuit evaluation
    /// counts: `false && f()` is known.
    pub(super) fn known_condition(&mut self, cond: &Expr) -> Option<bool> {
        match &cond.kind {
            ExprKind::Unary(UnaryOp::Not, operand) => self.known_condition(operand).map(|known| !known),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                // The value of one side that determines the result.
                let decides = *op == BinaryOp::Or;
                match self.known_condition(left) {
                    Some(known) if known == decides => Some(decides),
                    Some(_) => self.known_condition(right),
                    None => self.known_condition(right).filter(|known| *known == decides && is_pure(left)),
                }
            }
            _ => match self.try_eval_const(cond) {
                Some(ConstValue::Bool(known)) => Some(known),
                _ => None,
            },
        }
    }

    /// Returns the case of a `switch` that a known value selects. `None`: the value is not known.
    /// `Some(None)`: no case matches.
    pub(super) fn known_case<'c>(
        &mut self,
        on: &Expr,
        cases: &'c [SwitchValueCase],
    ) -> Option<Option<&'c SwitchValueCase>> {
        let value = self.try_eval_int(on)?;
        for case in cases {
            for label in &case.values {
                if self.try_eval_int(label)? == value {
                    return Some(Some(case));
                }
            }
        }
        Some(cases.iter().find(|case| case.default))
    }

    /// Declares the actions that controls call by name and no table lists. They have no parameters,
    /// because the call contains their data.
    pub(super) fn declare_called_actions(&mut self) {
        for (owner, id) in std::mem::take(&mut self.called_actions) {
            let decl = &self.hir.actions[id.index()];
            let object = &self.objects[owner.index()];
            let declared = if decl.owner.is_some() { &object.actions } else { &self.global_actions };
            if declared.contains_key(&id) {
                continue;
            }
            let path = if decl.owner.is_some() { object.path.as_str() } else { "" };
            let name = names::control_plane_name(path, &decl.name, &decl.annotations);
            let preamble = names::build_preamble(name, &decl.annotations);
            if self.take_identity("action", &preamble, decl.span).is_err() {
                continue;
            }
            let loc = self.source_loc(decl.span);
            let action = self.pipeline.actions.push(ir::Action { preamble, params: Vec::new(), loc });
            let declared = match decl.owner {
                Some(_) => &mut self.objects[owner.index()].actions,
                None => &mut self.global_actions,
            };
            declared.insert(id, action);
        }
    }

    /// Warns about tables that no instance of their control applies, because the pipeline omits
    /// them.
    pub(super) fn warn_of_unused_tables(&mut self) {
        let used: HashSet<TableId> = self.objects.iter().flat_map(|o| o.tables.keys().copied()).collect();
        let controls: HashSet<TypeDeclId> = self.objects.iter().filter_map(|o| o.decl).collect();
        for (n, table) in self.hir.tables.iter().enumerate() {
            if controls.contains(&table.owner) && !used.contains(&TableId(n as u32)) {
                let message = format!("table `{}` is never applied", table.name);
                let warning = Diagnostic::warning("unused-table", table.span, message);
                self.diagnostics.push(warning.help("apply it or remove it; neither the pipeline nor P4Info has it"));
            }
        }
    }
}

struct UsageWalk<'w, 'a> {
    lower: &'w mut Lowering<'a>,
    used: UsedDecls,
    /// Whether the control has a `return`. Code after a `return` or `exit` is then dropped.
    has_return: bool,
}

impl<'a> UsageWalk<'_, 'a> {
    fn visit_vars(&mut self, locals: &'a [LocalDecl]) {
        for local in locals {
            if let LocalDecl::Var(_, Some(init)) = local {
                self.visit_expr(init);
            }
        }
    }

    fn visit_states(&mut self, body: &'a ParserBody) {
        let reached = reached_states(body);
        for (_, state) in body.states.iter().enumerate().filter(|(n, _)| reached.contains(n)) {
            self.visit_stmts(&state.body);
            if let TransitionKind::Select { exprs, cases } = &state.transition.kind {
                exprs.iter().for_each(|e| self.visit_expr(e));
                self.used.value_sets.extend(cases.iter().flat_map(|case| &case.keyset).filter_map(|item| match item {
                    KeysetItem::ValueSet(id) => Some(*id),
                    _ => None,
                }));
            }
        }
    }

    /// Visits the used declarations themselves: arguments of constructors, tables applied in keys.
    fn visit_used_decls(&mut self) {
        let hir = self.lower.hir;
        let (mut instances, mut tables) = (HashSet::new(), HashSet::new());
        loop {
            let new_instances: Vec<InstanceId> = self.used.instances.difference(&instances).copied().collect();
            let new_tables: Vec<TableId> = self.used.tables.difference(&tables).copied().collect();
            if new_instances.is_empty() && new_tables.is_empty() {
                return;
            }
            for id in new_instances {
                instances.insert(id);
                hir.instances[id.index()].construct.args.iter().flatten().for_each(|arg| self.visit_expr(arg));
            }
            for id in new_tables {
                tables.insert(id);
                hir.tables[id.index()].keys.iter().for_each(|key| self.visit_expr(&key.expr));
            }
        }
    }

    fn visit_stmts(&mut self, stmts: &'a [Stmt]) -> Termination {
        let mut leaves = Termination::Never;
        for stmt in stmts {
            leaves = leaves.max(self.visit_stmt(stmt));
            if leaves == Termination::Always && self.has_return {
                break;
            }
        }
        leaves
    }

    /// Adds the declarations that a statement uses; branches that are known not to run use nothing.
    /// Returns whether `return` or `exit` ends the statement, so that the following code is
    /// unreachable.
    fn visit_stmt(&mut self, stmt: &'a Stmt) -> Termination {
        match &stmt.kind {
            StmtKind::Block(stmts) => return self.visit_stmts(stmts),
            StmtKind::Var(_, init) => init.iter().for_each(|e| self.visit_expr(e)),
            StmtKind::Assign { left, right, .. } => [left, right].into_iter().for_each(|e| self.visit_expr(e)),
            StmtKind::Call(call) => self.visit_call(call),
            StmtKind::If(cond, then, els) => return self.visit_if(cond, then, els.as_deref()),
            StmtKind::SwitchAction { table, cases } => {
                self.used.tables.insert(*table);
                return self.visit_switch_bodies(cases.iter().filter_map(|case| case.body.as_ref()));
            }
            StmtKind::SwitchValue { on, cases } => {
                if let Some(case) = self.lower.known_case(on, cases) {
                    return case
                        .and_then(|case| case.body.as_ref())
                        .map_or(Termination::Never, |body| self.visit_stmt(body));
                }
                self.visit_expr(on);
                return self.visit_switch_bodies(cases.iter().filter_map(|case| case.body.as_ref()));
            }
            StmtKind::For { init, cond, update, body } => {
                self.visit_stmts(init);
                self.visit_expr(cond);
                self.visit_stmts(update);
                return self.visit_stmt(body).if_skippable();
            }
            StmtKind::ForIn { over, body, .. } => {
                match over {
                    ForRange::Range(first, last) => [first, last].into_iter().for_each(|e| self.visit_expr(e)),
                    ForRange::Elements(of) => self.visit_expr(of),
                }
                return self.visit_stmt(body).if_skippable();
            }
            StmtKind::Return(value) => {
                value.iter().for_each(|e| self.visit_expr(e));
                return Termination::Always;
            }
            StmtKind::Exit => return Termination::Always,
            StmtKind::Instance(_) | StmtKind::Break | StmtKind::Continue => {}
        }
        Termination::Never
    }

    fn visit_if(&mut self, cond: &'a Expr, then: &'a Stmt, els: Option<&'a Stmt>) -> Termination {
        match self.lower.known_condition(cond) {
            Some(true) => self.visit_stmt(then),
            Some(false) => els.map_or(Termination::Never, |els| self.visit_stmt(els)),
            None => {
                self.visit_expr(cond);
                let then = self.visit_stmt(then);
                then.or_else_branch(els.map_or(Termination::Never, |els| self.visit_stmt(els)))
            }
        }
    }

    /// Combines the bodies of a `switch`. As in p4c, cases that cover all values do not count as
    /// exhaustive.
    fn visit_switch_bodies(&mut self, bodies: impl Iterator<Item = &'a Stmt>) -> Termination {
        bodies.fold(Termination::Never, |all, body| all.max(self.visit_stmt(body).if_skippable()))
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::ApplyHit(table) | ExprKind::ApplyMiss(table) => _ = self.used.tables.insert(*table),
            ExprKind::Instance(id) => _ = self.used.instances.insert(*id),
            ExprKind::Call(call) => self.visit_call(call),
            ExprKind::Mux(cond, yes, no) => match self.lower.known_condition(cond) {
                Some(known) => self.visit_expr(if known { yes } else { no }),
                None => for_children(expr, &mut |e| self.visit_expr(e)),
            },
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, ..) if self.lower.known_condition(expr).is_some() => {}
            _ => for_children(expr, &mut |e| self.visit_expr(e)),
        }
    }

    /// Adds the declarations that a call uses: its table, action or instance, and those in its
    /// arguments.
    fn visit_call(&mut self, call: &'a Call) {
        match &call.callee {
            Callee::ApplyTable(table) => _ = self.used.tables.insert(*table),
            Callee::Action(id) => self.used.called_actions.push(*id),
            Callee::Apply(ObjectRef::Instance(id)) | Callee::Method(ObjectRef::Instance(id), ..) => {
                self.used.instances.insert(*id);
            }
            Callee::Apply(ObjectRef::Construct(construct)) => {
                construct.args.iter().flatten().for_each(|arg| self.visit_expr(arg));
            }
            Callee::IsValid(e)
            | Callee::SetValid(e)
            | Callee::SetInvalid(e)
            | Callee::PushFront(e, _)
            | Callee::PopFront(e, _) => self.visit_expr(e),
            _ => {}
        }
        for arg in &call.args {
            if let CallArg::Expr(arg) = arg {
                self.visit_expr(arg);
            }
        }
    }
}

/// Returns whether the statement contains a `return`.
fn contains_return(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Return(_) => true,
        StmtKind::Block(stmts) => stmts.iter().any(contains_return),
        StmtKind::If(_, then, els) => contains_return(then) || els.as_ref().is_some_and(|els| contains_return(els)),
        StmtKind::SwitchAction { cases, .. } => cases.iter().filter_map(|case| case.body.as_ref()).any(contains_return),
        StmtKind::SwitchValue { cases, .. } => cases.iter().filter_map(|case| case.body.as_ref()).any(contains_return),
        StmtKind::For { body, .. } | StmtKind::ForIn { body, .. } => contains_return(body),
        _ => false,
    }
}

/// Returns the states that are reachable from `start`.
pub(super) fn reached_states(body: &ParserBody) -> HashSet<usize> {
    let mut reached = HashSet::from([body.start]);
    let mut todo = vec![body.start];
    while let Some(state) = todo.pop().and_then(|n| body.states.get(n)) {
        let targets: Vec<StateRef> = match &state.transition.kind {
            TransitionKind::State(target) => vec![*target],
            TransitionKind::Select { cases, .. } => cases.iter().map(|case| case.target).collect(),
        };
        for target in targets {
            if let StateRef::State(n) = target
                && reached.insert(n)
            {
                todo.push(n);
            }
        }
    }
    reached
}
