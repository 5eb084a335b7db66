//! Checks the actions of a table: the list, the default, and the actions of entries.

use super::Checker;
use super::overload::{CallableKind, CallableSignature};
use super::same_expr::same_expr;
use super::scope::ScopeEntity;
use crate::ast::{self, ActionRef, Arg, Path};
use crate::diag::Diagnostic;
use crate::hir::{ActionId, CallArg, EvalOrder, Expr, LocalId, Table, TableAction, Types};
use crate::span::Span;

impl Checker<'_> {
    /// Checks `actions = { ... }` and returns the actions in order. An action with an error is left
    /// out.
    pub(super) fn table_actions(&mut self, refs: &[ActionRef]) -> Vec<TableAction> {
        let mut actions: Vec<TableAction> = Vec::new();
        for reference in refs {
            let annotations = self.check_annotations(&reference.annotations);
            let Some(action) = self.resolve_action(&reference.name) else { continue };
            if let Some(first) = actions.iter().find(|a| a.action == action) {
                let message = format!("action `{}` is listed twice", reference.name);
                self.error(
                    Diagnostic::error("duplicate", reference.span, message).label(first.span, "first listed here"),
                );
                continue;
            }
            let Some((args, order)) = self.check_listed_args(action, reference) else { continue };
            for param in self.split_params(action).1 {
                self.check_control_plane_param(param);
            }
            actions.push(TableAction { action, args, order, annotations, span: reference.span });
        }
        actions
    }

    fn resolve_action(&mut self, path: &Path) -> Option<ActionId> {
        match self.lookup(path)? {
            ScopeEntity::Action(id) => Some(id),
            other => {
                let message = format!("`{path}` is {}, and an action is needed here", other.what());
                self.fail("not-an-action", path.span, message);
                None
            }
        }
    }

    /// Splits the parameters into those with a direction and those that the control plane sets.
    fn split_params(&self, action: ActionId) -> (Vec<LocalId>, Vec<LocalId>) {
        let params = &self.prog.actions[action.index()].params;
        params.iter().partition(|p| !self.is_control_plane(**p))
    }

    fn action_signature(&self, action: ActionId, params: Vec<LocalId>) -> CallableSignature {
        let decl = &self.prog.actions[action.index()];
        CallableSignature {
            name: decl.name.clone(),
            what: "action",
            type_params: Vec::new(),
            outer: Vec::new(),
            params,
            result: Types::VOID,
            span: decl.span,
            kind: CallableKind::Action,
        }
    }

    /// Checks the arguments of a listed action: exactly those for parameters with a direction.
    /// Returns them with their evaluation order; `None` after an error.
    fn check_listed_args(&mut self, action: ActionId, reference: &ActionRef) -> Option<(Vec<CallArg>, EvalOrder)> {
        let (directed_params, control_plane_params) = self.split_params(action);
        let args = reference.args.as_deref().unwrap_or(&[]);
        if args.len() > directed_params.len()
            && args.iter().all(|a| a.name.is_none())
            && let Some(param) = control_plane_params.get(args.len() - directed_params.len() - 1)
        {
            let name = self.local_decl(*param).name.clone();
            self.error(
                Diagnostic::error(
                    "bound-action",
                    args[directed_params.len()].span,
                    format!("`{name}` is set by the control plane"),
                )
                .help("remove the argument: in the list, only parameters with a direction are bound"),
            );
            return None;
        }
        if args.is_empty() && !directed_params.is_empty() {
            let name = self.local_decl(directed_params[0]).name.clone();
            let message = format!("parameter `{name}` of action `{}` must be bound", reference.name);
            self.error(
                Diagnostic::error("bound-action", reference.span, message)
                    .label(self.local_decl(directed_params[0]).span, "it has a direction")
                    .help(format!("give it a value: `{}(...)`", reference.name)),
            );
            return None;
        }
        let sig = self.action_signature(action, directed_params);
        let (_, arg_of_param) = self.select_signature(std::slice::from_ref(&sig), &[], args, reference.span)?;
        let bound = self.bind_args(&sig, &arg_of_param, &[], args, None, reference.span)?;
        Some((bound.args, EvalOrder::of_places(&arg_of_param)))
    }

    /// Checks `default_action = a(args)`. Returns the index in the list, and the arguments for
    /// control-plane parameters. `None` after an error.
    pub(super) fn check_default_action(&mut self, table: &Table, value: &ast::Expr) -> Option<(usize, Vec<Expr>)> {
        let (path, args): (&Path, &[Arg]) = match &value.kind {
            ast::ExprKind::Name(path) => (path, &[]),
            ast::ExprKind::Call { callee, args, .. } => match &callee.kind {
                ast::ExprKind::Name(path) => (path, args),
                _ => {
                    self.fail("default-action", value.span, "`default_action` must be an action");
                    return None;
                }
            },
            _ => {
                self.fail("default-action", value.span, "`default_action` must be an action");
                return None;
            }
        };
        let action_index = self.listed_index(table, path, value.span)?;
        if has_annotation(&table.actions[action_index], "tableonly") {
            let message = format!("action `{path}` is marked `@tableonly` and cannot be the default");
            let listed_span = table.actions[action_index].span;
            self.error(Diagnostic::error("default-action", value.span, message).label(listed_span, "listed here"));
            return None;
        }
        let args = self.check_full_args(table, action_index, args, value.span)?;
        Some((action_index, args))
    }

    /// Returns the index of an action in the table's list.
    pub(super) fn listed_index(&mut self, table: &Table, path: &Path, span: Span) -> Option<usize> {
        let action = self.resolve_action(path)?;
        let found = table.actions.iter().position(|a| a.action == action);
        if found.is_none() {
            let message = format!("action `{path}` is not in the list of actions of table `{}`", table.name);
            self.error(
                Diagnostic::error("unlisted-action", span, message)
                    .label(table.span, "the table")
                    .help(format!("add `{path};` to `actions`")),
            );
        }
        found
    }

    /// Checks all arguments of the action at index `action_index` of the table's list, for an entry
    /// or the default action. Arguments bound in the list can be omitted; otherwise they must be
    /// equal to those in the list. Returns the arguments for control-plane parameters; `None` after
    /// an error.
    pub(super) fn check_full_args(
        &mut self,
        table: &Table,
        action_index: usize,
        args: &[Arg],
        span: Span,
    ) -> Option<Vec<Expr>> {
        let listed = &table.actions[action_index];
        let (directed_params, control_plane_params) = self.split_params(listed.action);
        let is_named = args.iter().any(|a| a.name.is_some());
        let repeats_bound = !directed_params.is_empty() && (is_named || args.len() > control_plane_params.len());
        let params = if repeats_bound {
            directed_params.iter().chain(&control_plane_params).copied().collect()
        } else {
            control_plane_params.clone()
        };
        if !directed_params.is_empty()
            && !repeats_bound
            && args.len() < directed_params.len() + control_plane_params.len()
        {
            let name = self.local_decl(directed_params[0]).name.clone();
            let message = format!("parameter `{name}` must be given the value that it has in the list of actions");
            self.error(Diagnostic::error("bound-action", span, message).label(listed.span, "listed here"));
            return None;
        }
        let sig = self.action_signature(listed.action, params);
        let (_, arg_of_param) = self.select_signature(std::slice::from_ref(&sig), &[], args, span)?;
        let mut bound = self.bind_args(&sig, &arg_of_param, &[], args, None, span)?.args;
        let control_plane_args =
            if repeats_bound { bound.split_off(directed_params.len()) } else { std::mem::take(&mut bound) };
        let order = EvalOrder::of_places(&arg_of_param[..bound.len()]);
        let has_calls = |arg: &CallArg| matches!(arg, CallArg::Expr(e) if e.has_call());
        if order != listed.order && bound.iter().any(has_calls) {
            let message =
                "the arguments are in another order than in the list of actions, and their evaluation may have effects";
            self.error(Diagnostic::error("bound-action", span, message).label(listed.span, "listed here"));
            return None;
        }
        for (repeated_arg, listed_arg) in bound.iter().zip(&listed.args) {
            if !same_arg(repeated_arg, listed_arg) {
                let arg_span = match repeated_arg {
                    CallArg::Expr(e) => e.span,
                    _ => span,
                };
                self.error(
                    Diagnostic::error(
                        "bound-action",
                        arg_span,
                        "this differs from the argument in the list of actions",
                    )
                    .label(listed.span, "listed here"),
                );
                return None;
            }
        }
        let mut values = Vec::new();
        for arg in control_plane_args {
            let CallArg::Expr(value) = arg else { return None };
            if value.ty != Types::UNKNOWN && !self.is_known(&value) {
                self.fail("not-constant", value.span, "the argument of an action here must be known at compile time");
                return None;
            }
            values.push(value);
        }
        Some(values)
    }
}

/// Returns whether a listed action has the annotation.
pub(super) fn has_annotation(action: &TableAction, annotation: &str) -> bool {
    action.annotations.iter().any(|a| a.name.as_str() == annotation)
}

/// Returns whether two arguments are equal except for their spans.
fn same_arg(a: &CallArg, b: &CallArg) -> bool {
    match (a, b) {
        (CallArg::Expr(a), CallArg::Expr(b)) => same_expr(a, b),
        (CallArg::DontCare, CallArg::DontCare) | (CallArg::Missing, CallArg::Missing) => true,
        _ => false,
    }
}
