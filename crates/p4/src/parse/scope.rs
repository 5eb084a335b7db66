//! Scopes of names: which names are types.

use std::collections::HashMap;
use std::sync::Arc;

/// Syntactic category of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NameKind {
    /// A type or type parameter.
    Type,
    /// A value, function, action, table, ...
    Value,
    /// A function with type parameters: `<` after it begins type arguments.
    GenericFunction,
}

/// The open scopes, starting with the top level.
#[derive(Debug)]
pub(super) struct TypeNameScopes {
    open: Vec<HashMap<Arc<str>, NameKind>>,
}

impl TypeNameScopes {
    pub fn new() -> Self {
        TypeNameScopes { open: vec![HashMap::new()] }
    }

    pub fn push(&mut self) {
        self.open.push(HashMap::new());
    }

    /// Closes scopes until `depth` are open. Error recovery can leave several scopes at once.
    pub fn truncate(&mut self, depth: usize) {
        self.open.truncate(depth.max(1));
    }

    pub fn depth(&self) -> usize {
        self.open.len()
    }

    pub fn declare(&mut self, name: &Arc<str>, kind: NameKind) {
        if let Some(scope) = self.open.last_mut() {
            scope.insert(name.clone(), kind);
        }
    }

    /// Returns the category of `name` in the open scopes, or at the top level for `.name`.
    pub fn lookup(&self, name: &str, absolute: bool) -> Option<NameKind> {
        let scopes = if absolute { &self.open[..1] } else { &self.open[..] };
        scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    /// Iterates over all visible type names.
    pub fn visible_types(&self) -> impl Iterator<Item = &str> {
        let all = self.open.iter().flatten();
        all.filter(|(_, kind)| **kind == NameKind::Type).map(|(name, _)| &**name)
    }
}
