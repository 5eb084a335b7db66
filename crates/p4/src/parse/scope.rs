//! Which names are types, scope by scope.

use std::collections::HashMap;
use std::sync::Arc;

/// What the grammar must know of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NameKind {
    /// A type or type parameter.
    Type,
    /// A value, function, action, table, ...
    Value,
    /// A function with type parameters: `<` after it begins type arguments.
    GenericFunction,
}

/// The scopes that are open, the top level first.
#[derive(Debug)]
pub(super) struct Scopes {
    open: Vec<HashMap<Arc<str>, NameKind>>,
}

impl Scopes {
    pub fn new() -> Self {
        Scopes { open: vec![HashMap::new()] }
    }

    pub fn push(&mut self) {
        self.open.push(HashMap::new());
    }

    /// Closes scopes until `depth` are open. Error recovery leaves more than one at a time.
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

    /// What `name` is here, or at the top level for `.name`.
    pub fn lookup(&self, name: &str, absolute: bool) -> Option<NameKind> {
        let scopes = if absolute { &self.open[..1] } else { &self.open[..] };
        scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    /// All type names that can be seen.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        let all = self.open.iter().flatten();
        all.filter(|(_, kind)| **kind == NameKind::Type).map(|(name, _)| &**name)
    }
}
