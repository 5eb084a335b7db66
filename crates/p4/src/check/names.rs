//! Declaring names, and saying that a name is unknown.

use super::scope::Entity;
use super::{Checker, Place};
use crate::ast::{Ident, Path};
use crate::diag::Diagnostic;
use crate::hir::LocalKind;
use crate::span::Span;
use crate::suggest::closest as nearest;

impl Checker<'_> {
    /// Declares a name in the innermost scope.
    pub(super) fn declare(&mut self, name: &Ident, entity: Entity) {
        self.shadowed_parameter(name);
        if let Err(diagnostic) = self.scopes.declare(name, entity) {
            self.error(*diagnostic);
        }
    }

    /// A parameter that is hidden by a declaration in the body is more likely forgotten than meant.
    fn shadowed_parameter(&mut self, name: &Ident) {
        let path = Path { absolute: false, name: name.clone(), span: name.span };
        let in_statements = matches!(
            self.body.place,
            Place::ParserState | Place::ControlApply | Place::Action | Place::Function | Place::Method
        );
        let (Some(Entity::Local(id)), true) = (self.scopes.lookup(&path), in_statements) else { return };
        let local = self.local(*id);
        if local.kind == LocalKind::Var {
            return;
        }
        let diagnostic = Diagnostic::error("shadow", name.span, format!("`{name}` hides the parameter of that name"))
            .label(local.span, "the parameter")
            .help("give it another name");
        self.error(diagnostic);
    }

    /// Declares a name that stands for something only when it is finished, and is an error until then.
    pub(super) fn begin(&mut self, name: &Ident, what: &'static str) {
        self.declare(name, Entity::Unfinished(what));
    }

    /// What the name stands for; reports names that are unknown, or used within their own declaration.
    pub(super) fn lookup(&mut self, path: &Path) -> Option<Entity> {
        match self.scopes.lookup(path) {
            Some(Entity::Unknown) => None,
            Some(Entity::Unfinished(what)) => {
                let what = *what;
                let message = format!("{what} `{path}` cannot refer to itself");
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
                self.unknown_name(path, false);
                None
            }
        }
    }

    /// Reports a name that stands for nothing.
    pub(super) fn unknown_name(&mut self, path: &Path, types_only: bool) {
        let what = if types_only { "type" } else { "name" };
        let mut diagnostic =
            Diagnostic::error("unknown-name", path.span, format!("no {what} `{}` is declared here", path.name));
        if let Some(near) = nearest(path.as_str(), self.scopes.visible(types_only)) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        self.error(diagnostic);
    }

    /// Reports that `member` is not one of `known`.
    pub(super) fn unknown_member<'k>(&mut self, what: &str, member: &Ident, known: impl Iterator<Item = &'k str>) {
        let known: Vec<&str> = known.collect();
        let mut diagnostic = Diagnostic::error("unknown-member", member.span, format!("{what} has no `{member}`"));
        if let Some(near) = nearest(member.as_str(), known.iter().copied()) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        } else if !known.is_empty() && known.len() <= 12 {
            diagnostic = diagnostic.help(format!("it has {}", list(&known)));
        }
        self.error(diagnostic);
    }

    /// Reports the second of two equal names of a list.
    pub(super) fn distinct<'n>(&mut self, names: impl Iterator<Item = &'n Ident>) {
        let mut seen: std::collections::HashMap<&str, Span> = Default::default();
        for name in names.filter(|name| name.as_str() != "_") {
            if let Some(first) = seen.get(name.as_str()) {
                self.error(super::scope::duplicate(name, *first));
            } else {
                seen.insert(name.as_str(), name.span);
            }
        }
    }
}

/// `a`, `b` and `c`
pub(super) fn list(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => format!("`{one}`"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(|n| format!("`{n}`")).collect();
            format!("{} and `{last}`", first.join(", "))
        }
    }
}
