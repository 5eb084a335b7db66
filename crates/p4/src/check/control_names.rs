//! Checks the names visible to the control plane.
//! Tables must have unique names, and so must actions, because the control plane identifies them by
//! name.

use super::Checker;
use crate::ast::Annotations;
use crate::diag::Diagnostic;
use crate::hir::{Constructor, Instance, LocalDecl, ObjectKind, TypeDeclId};
use crate::span::Span;
use std::collections::HashMap;
use std::sync::Arc;

impl Checker<'_> {
    /// Reports tables with the same full name for the control plane, and actions, because P4Runtime
    /// could not tell them apart.
    pub(super) fn check_control_plane_names(&mut self) {
        let mut actions = Vec::new();
        for action in &self.prog.actions {
            actions.push(self.full_control_plane_name(&action.name, &action.annotations, action.owner, action.span));
        }
        let mut tables = Vec::new();
        for object in &self.prog.objects {
            let ObjectKind::Control(body) = &object.kind else { continue };
            for local in &body.locals {
                if let LocalDecl::Table(id) = local {
                    let table = &self.prog.tables[id.index()];
                    tables.push(self.full_control_plane_name(
                        &table.name,
                        &table.annotations,
                        Some(table.owner),
                        table.span,
                    ));
                }
            }
        }
        self.check_unique_names("action", actions);
        self.check_unique_names("table", tables);
        self.check_absolute_tables();
    }

    /// Reports a table with an absolute name in a control that has several instances, because all
    /// of its tables would have that name.
    fn check_absolute_tables(&mut self) {
        let mut ambiguous = Vec::new();
        for table in &self.prog.tables {
            let annotated_name =
                table.annotations.iter().find(|a| a.name.as_str() == "name").and_then(|a| a.single_string());
            let is_absolute = annotated_name.is_some_and(|name| name.starts_with('.'));
            let is_instance = |i: &&Instance| i.construct.what == Constructor::Object(table.owner);
            let mut instances = self.prog.instances.iter().filter(is_instance);
            if let (true, Some(first), Some(second)) = (is_absolute, instances.next(), instances.next()) {
                ambiguous.push((table.span, table.name.clone(), first.span, second.span));
            }
        }
        for (span, name, first, second) in ambiguous {
            let message = format!("table `{name}` has an absolute name, and its control has several instances");
            let diagnostic = Diagnostic::error("control-plane-name", span, message)
                .label(first, "an instance")
                .label(second, "another instance")
                .help("remove the dot before the name");
            self.error(diagnostic);
        }
    }

    /// Returns the full name (with `@name` applied) and its position.
    fn full_control_plane_name(
        &self,
        name: &Arc<str>,
        annotations: &Annotations,
        owner: Option<TypeDeclId>,
        span: Span,
    ) -> (String, Span) {
        let given = annotations.iter().find(|a| a.name.as_str() == "name").and_then(|a| a.single_string());
        let local = given.unwrap_or(name);
        let full = match (local.strip_prefix('.'), owner) {
            (Some(absolute), _) => absolute.to_owned(),
            (None, None) => local.to_owned(),
            (None, Some(owner)) => format!("{}.{local}", self.prog.objects[owner.index()].name),
        };
        (full, span)
    }

    fn check_unique_names(&mut self, what: &str, names: Vec<(String, Span)>) {
        let mut seen: HashMap<String, Span> = HashMap::new();
        for (name, span) in names {
            match seen.get(&name) {
                Some(first) => {
                    let message = format!("the control plane sees two {what}s named `{name}`");
                    let diagnostic = Diagnostic::error("control-plane-name", span, message)
                        .label(*first, "the other one")
                        .help("give one of them another `@name`");
                    self.error(diagnostic);
                }
                None => {
                    seen.insert(name, span);
                }
            }
        }
    }
}
