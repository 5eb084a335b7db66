//! Declares and looks up names, and reports unknown ones.

use super::scope::ScopeEntity;
use super::{CheckContext, Checker};
use crate::ast::{Ident, Path};
use crate::diag::Diagnostic;
use crate::hir::LocalKind;
use crate::span::Span;
use crate::suggest::closest_name as nearest;

impl Checker<'_> {
    /// Declares a name in the innermost scope.
    pub(super) fn declare(&mut self, name: &Ident, entity: ScopeEntity) {
        self.check_parameter_shadowing(name);
        if let Err(diagnostic) = self.scopes.declare(name, entity) {
            self.error(*diagnostic);
        }
    }

    /// Reports a declaration in a body that hides a parameter, because it is probably a mistake.
    fn check_parameter_shadowing(&mut self, name: &Ident) {
        let path = Path { is_absolute: false, name: name.clone(), span: name.span };
        let in_statements = matches!(
            self.body.context,
            CheckContext::ParserState
                | CheckContext::ControlApply
                | CheckContext::Action
                | CheckContext::Function
                | CheckContext::Method
        );
        let (Some(ScopeEntity::Local(id)), true) = (self.scopes.lookup(&path), in_statements) else { return };
        let local = self.local_decl(*id);
        if local.kind == LocalKind::Var {
            return;
        }
        let diagnostic = Diagnostic::error("shadow", name.span, format!("`{name}` hides the parameter of that name"))
            .label(local.span, "the parameter")
            .help("give it another name");
        self.error(diagnostic);
    }

    /// Declares a name as unfinished; its use is an error until its declaration is complete.
    pub(super) fn declare_unfinished(&mut self, name: &Ident, what: &'static str) {
        self.declare(name, ScopeEntity::Unfinished(what));
    }

    /// Returns the entity of a name. Reports unknown names and names used within their own
    /// declaration. Returns `None` in these cases.
    pub(super) fn lookup(&mut self, path: &Path) -> Option<ScopeEntity> {
        match self.scopes.lookup(path) {
            Some(ScopeEntity::Unknown) => None,
            Some(ScopeEntity::Unfinished(kind_text)) => {
                let kind_text = *kind_text;
                let message = format!("{kind_text} `{path}` cannot refer to itself");
                let declared = self.scopes.declared_at(path);
                let mut diagnostic = Diagnostic::error("recursion", path.span, message);
                if let Some(span) = declared {
                    diagnostic = diagnostic.label(span, "its declaration");
                }
                self.error(diagnostic.help("P4 has no recursion: call something that is declared before"));
                None
            }
            Some(entity) => Some(entity.clone()),
            None => {
                self.report_unknown_name(path, false);
                None
            }
        }
    }

    /// Reports an undeclared name.
    pub(super) fn report_unknown_name(&mut self, path: &Path, types_only: bool) {
        let what = if types_only { "type" } else { "name" };
        let mut diagnostic =
            Diagnostic::error("unknown-name", path.span, format!("no {what} `{}` is declared here", path.name));
        if let Some(near) = nearest(path.as_str(), self.scopes.visible(types_only)) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        self.error(diagnostic);
    }

    /// Reports that `member` is not one of `known`.
    pub(super) fn report_unknown_member<'k>(
        &mut self,
        what: &str,
        member: &Ident,
        known: impl Iterator<Item = &'k str>,
    ) {
        let known: Vec<&str> = known.collect();
        let mut diagnostic = Diagnostic::error("unknown-member", member.span, format!("{what} has no `{member}`"));
        if let Some(near) = nearest(member.as_str(), known.iter().copied()) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        } else if !known.is_empty() && known.len() <= 12 {
            diagnostic = diagnostic.help(format!("it has {}", join_names(&known)));
        }
        self.error(diagnostic);
    }

    /// Reports names that occur twice in a list.
    pub(super) fn check_distinct_names<'n>(&mut self, names: impl Iterator<Item = &'n Ident>) {
        let mut seen: std::collections::HashMap<&str, Span> = Default::default();
        for name in names.filter(|name| name.as_str() != "_") {
            if let Some(first) = seen.get(name.as_str()) {
                self.error(super::scope::duplicate_error(name, *first));
            } else {
                seen.insert(name.as_str(), name.span);
            }
        }
    }
}

/// Joins names like "`a`, `b` and `c`".
pub(super) fn join_names(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => format!("`{one}`"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(|n| format!("`{n}`")).collect();
            format!("{} and `{last}`", first.join(", "))
        }
    }
}
