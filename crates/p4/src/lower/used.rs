//! What a parser or control uses of what it declares: P4Info and the pipeline have nothing else.
//!
//! The rules are those by which p4c's front end drops declarations before it writes P4Info, so that both show the same
//! objects:
//!
//! - a table is used if code that is left applies it, a value set if a state that can be reached selects by it, a
//!   parser or control if it is applied or given to a constructor. Extern objects always are.
//! - code is left unless a condition known at compile time rules it out, or it stands behind a `return` that is always
//!   taken. Code behind an `exit` is left, except in a control that also has a `return`.
//! - an action is used if a used table lists it or the control's own code calls it.

use super::known::Known;
use super::lowering::Lower;
use super::names;
use super::walk::is_pure;
use crate::ast::{BinaryOp, UnaryOp};
use crate::diag::Diagnostic;
use crate::hir::*;
use std::collections::HashSet;

/// What code uses.
#[derive(Debug, Default)]
pub(super) struct Used {
    pub(super) tables: HashSet<TableId>,
    /// Actions that the code calls by name, in the order of the calls.
    pub(super) called: Vec<ActionId>,
    pub(super) instances: HashSet<InstanceId>,
    pub(super) value_sets: HashSet<ValueSetId>,
}

/// Whether code ends by `return` or `exit`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Leaves {
    Never,
    Sometimes,
    Always,
}

impl Leaves {
    /// Of one of several pieces of code.
    fn either(self, other: Leaves) -> Leaves {
        if self == other { self } else { Leaves::Sometimes }
    }

    /// Of code that may be skipped.
    fn maybe(self) -> Leaves {
        self.min(Leaves::Sometimes)
    }
}

impl<'a> Lower<'a> {
    /// What the object at hand uses, whose declaration that is.
    pub(super) fn used_by(&mut self, decl: TypeDeclId) -> Used {
        let mut walk = Walk { lower: self, used: Used::default(), has_return: false };
        match &walk.lower.hir.objects[decl.index()].kind {
            ObjectKind::Control(body) => {
                walk.vars(&body.locals);
                walk.has_return = body.apply.iter().any(returns);
                walk.stmts(&body.apply);
            }
            ObjectKind::Parser(body) => {
                walk.vars(&body.locals);
                walk.states(body);
            }
            _ => {}
        }
        walk.declared();
        walk.used
    }

    /// The value of a condition that is known before any packet comes. Short cuts count: `false && f()` is known.
    pub(super) fn known_condition(&mut self, cond: &Expr) -> Option<bool> {
        match &cond.kind {
            ExprKind::Unary(UnaryOp::Not, operand) => self.known_condition(operand).map(|known| !known),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                // What one side has to be to decide alone.
                let decides = *op == BinaryOp::Or;
                match self.known_condition(left) {
                    Some(known) if known == decides => Some(decides),
                    Some(_) => self.known_condition(right),
                    None => self.known_condition(right).filter(|known| *known == decides && is_pure(left)),
                }
            }
            _ => match self.try_known(cond) {
                Some(Known::Bool(known)) => Some(known),
                _ => None,
            },
        }
    }

    /// Of a value that is known, the case of a `switch` that it takes: `None` if the value is not known, `Some(None)` if no
    /// case is for it.
    pub(super) fn known_case<'c>(
        &mut self,
        on: &Expr,
        cases: &'c [SwitchValueCase],
    ) -> Option<Option<&'c SwitchValueCase>> {
        let value = self.known_int(on)?;
        for case in cases {
            for label in &case.values {
                if self.known_int(label)? == value {
                    return Some(Some(case));
                }
            }
        }
        Some(cases.iter().find(|case| case.default))
    }

    /// Declares the actions that controls call by name and that no table lists. Their data is in the call, so they have no
    /// parameters.
    pub(super) fn declare_called_actions(&mut self) {
        for (of, id) in std::mem::take(&mut self.called) {
            let decl = &self.hir.actions[id.index()];
            let object = &self.objects[of.index()];
            let known = if decl.owner.is_some() { &object.actions } else { &self.global_actions };
            if known.contains_key(&id) {
                continue;
            }
            let path = if decl.owner.is_some() { object.path.as_str() } else { "" };
            let name = names::control_plane_name(path, &decl.name, &decl.annotations);
            let preamble = names::preamble(name, &decl.annotations);
            if self.take_identity("action", &preamble, decl.span).is_err() {
                continue;
            }
            let loc = self.loc(decl.span);
            let action = self.p.actions.push(ir::Action { preamble, params: Vec::new(), loc });
            let known = match decl.owner {
                Some(_) => &mut self.objects[of.index()].actions,
                None => &mut self.global_actions,
            };
            known.insert(id, action);
        }
    }

    /// Warns of tables that no instance of their control applies: the pipeline does not have them.
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

struct Walk<'w, 'a> {
    lower: &'w mut Lower<'a>,
    used: Used,
    /// The control has a `return`, so that what stands behind one, or behind an `exit`, is dropped.
    has_return: bool,
}

impl<'a> Walk<'_, 'a> {
    fn vars(&mut self, locals: &'a [LocalDecl]) {
        for local in locals {
            if let LocalDecl::Var(_, Some(init)) = local {
                self.expr(init);
            }
        }
    }

    fn states(&mut self, body: &'a ParserBody) {
        let reached = reached_states(body);
        for (_, state) in body.states.iter().enumerate().filter(|(n, _)| reached.contains(n)) {
            self.stmts(&state.body);
            if let TransitionKind::Select { exprs, cases } = &state.transition.kind {
                exprs.iter().for_each(|e| self.expr(e));
                self.used.value_sets.extend(cases.iter().flat_map(|case| &case.keyset).filter_map(|item| match item {
                    KeysetItem::ValueSet(id) => Some(*id),
                    _ => None,
                }));
            }
        }
    }

    /// What the declarations that are used use themselves: arguments of constructors, tables applied in keys.
    fn declared(&mut self) {
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
                hir.instances[id.index()].construct.args.iter().flatten().for_each(|arg| self.expr(arg));
            }
            for id in new_tables {
                tables.insert(id);
                hir.tables[id.index()].keys.iter().for_each(|key| self.expr(&key.expr));
            }
        }
    }

    fn stmts(&mut self, stmts: &'a [Stmt]) -> Leaves {
        let mut leaves = Leaves::Never;
        for stmt in stmts {
            leaves = leaves.max(self.stmt(stmt));
            if leaves == Leaves::Always && self.has_return {
                break;
            }
        }
        leaves
    }

    fn stmt(&mut self, stmt: &'a Stmt) -> Leaves {
        match &stmt.kind {
            StmtKind::Block(stmts) => return self.stmts(stmts),
            StmtKind::Var(_, init) => init.iter().for_each(|e| self.expr(e)),
            StmtKind::Assign { left, right, .. } => [left, right].into_iter().for_each(|e| self.expr(e)),
            StmtKind::Call(call) => self.call(call),
            StmtKind::If(cond, then, els) => return self.if_stmt(cond, then, els.as_deref()),
            StmtKind::SwitchAction { table, cases } => {
                self.used.tables.insert(*table);
                return self.any_of(cases.iter().filter_map(|case| case.body.as_ref()));
            }
            StmtKind::SwitchValue { on, cases } => {
                if let Some(case) = self.lower.known_case(on, cases) {
                    return case.and_then(|case| case.body.as_ref()).map_or(Leaves::Never, |body| self.stmt(body));
                }
                self.expr(on);
                return self.any_of(cases.iter().filter_map(|case| case.body.as_ref()));
            }
            StmtKind::For { init, cond, update, body } => {
                self.stmts(init);
                self.expr(cond);
                self.stmts(update);
                return self.stmt(body).maybe();
            }
            StmtKind::ForIn { over, body, .. } => {
                match over {
                    ForRange::Range(first, last) => [first, last].into_iter().for_each(|e| self.expr(e)),
                    ForRange::Elements(of) => self.expr(of),
                }
                return self.stmt(body).maybe();
            }
            StmtKind::Return(value) => {
                value.iter().for_each(|e| self.expr(e));
                return Leaves::Always;
            }
            StmtKind::Exit => return Leaves::Always,
            StmtKind::Instance(_) | StmtKind::Break | StmtKind::Continue => {}
        }
        Leaves::Never
    }

    fn if_stmt(&mut self, cond: &'a Expr, then: &'a Stmt, els: Option<&'a Stmt>) -> Leaves {
        match self.lower.known_condition(cond) {
            Some(true) => self.stmt(then),
            Some(false) => els.map_or(Leaves::Never, |els| self.stmt(els)),
            None => {
                self.expr(cond);
                let then = self.stmt(then);
                then.either(els.map_or(Leaves::Never, |els| self.stmt(els)))
            }
        }
    }

    /// Of the bodies of a `switch`. As in p4c, that the cases may cover all values does not count.
    fn any_of(&mut self, bodies: impl Iterator<Item = &'a Stmt>) -> Leaves {
        bodies.fold(Leaves::Never, |all, body| all.max(self.stmt(body).maybe()))
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::ApplyHit(table) | ExprKind::ApplyMiss(table) => _ = self.used.tables.insert(*table),
            ExprKind::Instance(id) => _ = self.used.instances.insert(*id),
            ExprKind::Call(call) => self.call(call),
            ExprKind::Mux(cond, yes, no) => match self.lower.known_condition(cond) {
                Some(known) => self.expr(if known { yes } else { no }),
                None => for_children(expr, &mut |e| self.expr(e)),
            },
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, ..) if self.lower.known_condition(expr).is_some() => {}
            _ => for_children(expr, &mut |e| self.expr(e)),
        }
    }

    fn call(&mut self, call: &'a Call) {
        match &call.callee {
            Callee::ApplyTable(table) => _ = self.used.tables.insert(*table),
            Callee::Action(id) => self.used.called.push(*id),
            Callee::Apply(ObjectRef::Instance(id)) | Callee::Method(ObjectRef::Instance(id), ..) => {
                self.used.instances.insert(*id);
            }
            Callee::Apply(ObjectRef::Construct(construct)) => {
                construct.args.iter().flatten().for_each(|arg| self.expr(arg));
            }
            Callee::IsValid(e)
            | Callee::SetValid(e)
            | Callee::SetInvalid(e)
            | Callee::PushFront(e, _)
            | Callee::PopFront(e, _) => self.expr(e),
            _ => {}
        }
        for arg in &call.args {
            if let CallArg::Expr(arg) = arg {
                self.expr(arg);
            }
        }
    }
}

/// Whether a `return` stands somewhere in the statement.
fn returns(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Return(_) => true,
        StmtKind::Block(stmts) => stmts.iter().any(returns),
        StmtKind::If(_, then, els) => returns(then) || els.as_ref().is_some_and(|els| returns(els)),
        StmtKind::SwitchAction { cases, .. } => cases.iter().filter_map(|case| case.body.as_ref()).any(returns),
        StmtKind::SwitchValue { cases, .. } => cases.iter().filter_map(|case| case.body.as_ref()).any(returns),
        StmtKind::For { body, .. } | StmtKind::ForIn { body, .. } => returns(body),
        _ => false,
    }
}

/// The states that a way from `start` leads to.
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
