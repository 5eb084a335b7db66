//! Checks tables.

use super::scope::ScopeEntity;
use super::{CheckContext, Checker};
use crate::ast::{self, Direction, KeyElement, PropertyValue, TableProperty};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, Key, LocalKind, Property, Table, TableId, TyKind, Types};
use crate::span::Span;
use num_traits::Signed;

impl Checker<'_> {
    /// Checks `table t { ... }`.
    pub(super) fn table_decl(&mut self, decl: &ast::TableDecl) -> Option<TableId> {
        let annotations = self.check_annotations(&decl.annotations);
        self.declare_unfinished(&decl.name, "table");
        self.check_distinct_names(decl.properties.iter().map(|p| &p.name));
        let table = self.in_context(CheckContext::Table, |c| c.check_table(decl, annotations));
        let Some(table) = table else {
            self.scopes.set(&decl.name, ScopeEntity::Unknown);
            return None;
        };
        self.prog.tables.push(table);
        let id = TableId(self.prog.tables.len() as u32 - 1);
        self.scopes.set(&decl.name, ScopeEntity::Table(id));
        Some(id)
    }

    /// Checks a table and its properties in the order of the source. Returns `None` without a list
    /// of actions, or outside of a control.
    fn check_table(&mut self, decl: &ast::TableDecl, annotations: ast::Annotations) -> Option<Table> {
        let mut table = Table {
            name: decl.name.name.clone(),
            annotations,
            owner: self.body.object?,
            keys: Vec::new(),
            actions: Vec::new(),
            default_action: (0, Vec::new()),
            const_default: false,
            entries: Vec::new(),
            const_entries: false,
            size: None,
            properties: Vec::new(),
            span: decl.name.span,
        };
        let mut actions_span = None;
        let mut default_span = None;
        for property in &decl.properties {
            self.check_annotations(&property.annotations);
            match (&property.value, property.name.as_str()) {
                (PropertyValue::Key(keys), _) => {
                    table.keys = keys.iter().filter_map(|k| self.check_key(k)).collect();
                }
                (PropertyValue::Actions(refs), _) => {
                    actions_span = Some(property.span);
                    table.actions = self.table_actions(refs);
                }
                (PropertyValue::Entries(entries), _) => {
                    table.const_entries = property.is_const;
                    self.check_entries(&mut table, entries, property, decl);
                }
                (PropertyValue::Expr(value), "default_action") => {
                    table.const_default = property.is_const;
                    default_span = Some(property.span);
                    if actions_span.is_none() {
                        self.error(
                            Diagnostic::error(
                                "default-action",
                                property.span,
                                "`default_action` must follow the list of actions",
                            )
                            .help("move it after `actions = { ... }`"),
                        );
                        continue;
                    }
                    if let Some(default_action) = self.check_default_action(&table, value) {
                        table.default_action = default_action;
                    }
                }
                (PropertyValue::Expr(value), "size") => table.size = self.table_size(value),
                (PropertyValue::Expr(value), _) => table.properties.push(self.check_property(property, value)),
            }
        }
        if actions_span.is_none() {
            self.error(
                Diagnostic::error("no-actions", decl.name.span, format!("table `{}` has no `actions`", decl.name))
                    .help("add `actions = { ... }`; `NoAction` does nothing"),
            );
            return None;
        }
        if default_span.is_none() {
            self.set_implied_default(&mut table, decl.name.span);
        }
        Some(table)
    }

    /// Checks a key element; returns `None` after an error. A key is a scalar, because entries
    /// compare bits.
    fn check_key(&mut self, key: &KeyElement) -> Option<Key> {
        let annotations = self.check_annotations(&key.annotations);
        // A key is evaluated in the `apply` block, so it can apply other tables.
        let expr = self.in_context(CheckContext::ControlApply, |c| c.check_expr(&key.expr, None));
        let match_kind = self.match_kind(&key.match_kind);
        if expr.ty == Types::UNKNOWN {
            return None;
        }
        let is_scalar = matches!(
            self.type_kind(expr.ty),
            TyKind::Bit(_)
                | TyKind::Int(_)
                | TyKind::Varbit(_)
                | TyKind::Bool
                | TyKind::Enum(_)
                | TyKind::Error
                | TyKind::NewType(_)
        );
        if !is_scalar {
            let type_text = self.type_text(expr.ty);
            self.error(
                Diagnostic::error("key-type", key.expr.span, format!("a value of type `{type_text}` cannot be a key"))
                    .help("keys are bits, integers with a width, enums, errors and bools"),
            );
            return None;
        }
        Some(Key { expr, match_kind: match_kind?, annotations, span: key.span })
    }

    /// Returns the index of the match kind `name` in the program; reports an unknown one.
    fn match_kind(&mut self, name: &ast::Ident) -> Option<usize> {
        let declared = self.prog.match_kinds.iter().position(|k| **k == *name.name);
        if declared.is_some() {
            return declared;
        }
        // The name can be a constant of type match_kind.
        let path = ast::Path { is_absolute: false, name: name.clone(), span: name.span };
        if let Some(ScopeEntity::Const(value)) = self.scopes.lookup(&path) {
            if let ExprKind::MatchKind(kind) = value.kind {
                return Some(kind);
            }
            self.fail("match-kind", name.span, format!("`{name}` is not a match kind"));
            return None;
        }
        let all_kinds = self.prog.match_kinds.clone();
        let all_kinds: Vec<&str> = all_kinds.iter().map(|k| &**k).collect();
        let help = match crate::suggest::closest_name(name.as_str(), all_kinds.iter().copied()) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("there are {}", super::names::join_names(&all_kinds)),
        };
        self.error(Diagnostic::error("match-kind", name.span, format!("there is no match kind `{name}`")).help(help));
        None
    }

    /// Checks the property `size`: a constant integer that is not negative, or a constructor
    /// parameter. Returns `None` after an error.
    fn table_size(&mut self, value: &ast::Expr) -> Option<Expr> {
        let size = self.check_expr(value, Some(Types::INT));
        if size.ty == Types::UNKNOWN {
            return None;
        }
        let is_constructor_param = matches!(&size.kind, ExprKind::Local(id) if matches!(self.local_decl(*id).kind, LocalKind::ConstructorParam(..)));
        if !self.is_numeric(size.ty) || (!self.is_known(&size)) || (self.is_local(&size) && !is_constructor_param) {
            self.fail("table-size", value.span, "the size of a table must be a constant integer");
            return None;
        }
        if let ExprKind::Int(n) = &size.kind
            && n.is_negative()
        {
            let message = format!("a table of {n} entries is not possible");
            self.error(
                Diagnostic::error("table-size", value.span, message)
                    .help("remove `size`, or write 0, to guarantee no number of entries"),
            );
            return None;
        }
        Some(size)
    }

    fn is_local(&self, expr: &Expr) -> bool {
        matches!(expr.kind, ExprKind::Local(_))
    }

    /// Checks a property that the language does not define.
    fn check_property(&mut self, property: &TableProperty, value: &ast::Expr) -> Property {
        let checked = match &value.kind {
            ast::ExprKind::Name(path) if matches!(self.scopes.lookup(path), Some(ScopeEntity::Action(_))) => None,
            ast::ExprKind::Call { callee, .. } if self.is_action(callee) => None,
            _ => Some(self.check_expr(value, None)),
        };
        let known = checked.filter(|v| v.ty != Types::UNKNOWN);
        if let Some(value) = &known {
            self.check_known_property(property, value);
        }
        Property {
            name: property.name.name.clone(),
            annotations: property.annotations.clone(),
            is_const: property.is_const,
            value: known,
            span: property.span,
        }
    }

    fn is_action(&self, callee: &ast::Expr) -> bool {
        matches!(&callee.kind, ast::ExprKind::Name(path)
            if matches!(self.scopes.lookup(path), Some(ScopeEntity::Action(_))))
    }

    fn check_known_property(&mut self, property: &TableProperty, value: &Expr) {
        let problem = match (property.name.as_str(), &value.kind) {
            ("largest_priority_wins", ExprKind::Bool(_)) => return,
            ("largest_priority_wins", _) => "must be `true` or `false`",
            ("priority_delta", ExprKind::Int(v)) if *v > 0.into() => return,
            ("priority_delta", _) => "must be a positive constant",
            (name, _) => return self.warn_unknown_property(name, property.name.span),
        };
        self.fail("table-property", property.span, format!("`{}` {problem}", property.name));
    }

    /// Sets the default action of a table without `default_action` to `NoAction`. Appends
    /// `NoAction` to the actions if it is not among them, marked `@defaultonly`, so that entries
    /// cannot use it.
    fn set_implied_default(&mut self, table: &mut Table, span: Span) {
        let Some(ScopeEntity::Action(no_action)) = self.scopes.global("NoAction") else {
            let message = format!("table `{}` has no default action, and `NoAction` is not declared", table.name);
            self.error(
                Diagnostic::error("default-action", span, message)
                    .help("include core.p4, or write `default_action = ...`"),
            );
            return;
        };
        let no_action = *no_action;
        let decl = &self.prog.actions[no_action.index()];
        if !decl.params.is_empty() {
            let message = "`NoAction`, the default of tables that name none, has parameters";
            let decl_span = decl.span;
            self.error(
                Diagnostic::error("default-action", decl_span, message).label(span, "a table without a default action"),
            );
            return;
        }
        if let Some(index) = table.actions.iter().position(|a| a.action == no_action) {
            table.default_action = (index, Vec::new());
            return;
        }
        let name = ast::Ident::new("defaultonly", span);
        table.actions.push(crate::hir::TableAction {
            action: no_action,
            args: Vec::new(),
            order: crate::hir::EvalOrder::default(),
            annotations: vec![ast::Annotation { name, body: ast::AnnotationBody::None, span }],
            span,
        });
        table.default_action = (table.actions.len() - 1, Vec::new());
    }

    /// Returns whether the control plane sets a parameter.
    pub(super) fn is_control_plane(&self, param: crate::hir::LocalId) -> bool {
        self.direction(param) == Direction::None
    }
}
