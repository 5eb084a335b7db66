//! The stack of scopes, which maps names to entities.

use crate::ast::{Ident, Path};
use crate::diag::Diagnostic;
use crate::hir::{
    ActionId, Expr, ExternFnId, ExternId, FunctionId, InstanceId, LocalId, StructId, TableId, Ty, TypeDeclId,
    ValueSetId,
};
use crate::span::Span;
use std::collections::HashMap;
use std::sync::Arc;

/// Entity that a name refers to.
#[derive(Clone, Debug)]
pub(super) enum ScopeEntity {
    /// A type without type arguments: typedef, `type`, enum, type parameter.
    Type(Ty),
    /// A struct, header or union, possibly generic.
    Struct(StructId),
    /// An extern object type.
    Extern(ExternId),
    /// A parser, control or package, or a type of these.
    Object(TypeDeclId),
    /// A constant with its value.
    Const(Box<Expr>),
    Local(LocalId),
    Instance(InstanceId),
    /// Overloaded functions.
    Functions(Vec<OverloadedFunction>),
    Action(ActionId),
    Table(TableId),
    ValueSet(ValueSetId),
    /// An entity with a rejected declaration.
    Unknown,
    /// An entity being declared; it cannot refer to itself.
    Unfinished(&'static str),
}

/// A function of an overload set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OverloadedFunction {
    Own(FunctionId),
    Extern(ExternFnId),
}

impl ScopeEntity {
    /// Describes the entity for messages.
    pub fn what(&self) -> &'static str {
        match self {
            ScopeEntity::Type(_) | ScopeEntity::Struct(_) | ScopeEntity::Extern(_) => "a type",
            ScopeEntity::Object(_) => "a parser, control or package",
            ScopeEntity::Const(_) => "a constant",
            ScopeEntity::Local(_) => "a variable or parameter",
            ScopeEntity::Instance(_) => "an instance",
            ScopeEntity::Functions(_) => "a function",
            ScopeEntity::Action(_) => "an action",
            ScopeEntity::Table(_) => "a table",
            ScopeEntity::ValueSet(_) => "a value set",
            ScopeEntity::Unknown | ScopeEntity::Unfinished(_) => "something",
        }
    }

    fn is_type(&self) -> bool {
        matches!(self, ScopeEntity::Type(_) | ScopeEntity::Struct(_) | ScopeEntity::Extern(_) | ScopeEntity::Object(_))
    }
}

#[derive(Clone, Debug)]
struct ScopedEntity {
    entity: ScopeEntity,
    span: Span,
}

type ScopeEntries = HashMap<Arc<str>, ScopedEntity>;

/// The scopes from the top level to the innermost block.
pub(super) struct EntityScopes {
    stack: Vec<ScopeEntries>,
}

impl EntityScopes {
    pub fn new() -> Self {
        EntityScopes { stack: vec![ScopeEntries::new()] }
    }

    pub fn push(&mut self) {
        self.stack.push(ScopeEntries::new());
    }

    pub fn pop(&mut self) {
        self.stack.pop();
    }

    fn find(&self, path: &Path) -> Option<&ScopedEntity> {
        let depth = if path.is_absolute { 1 } else { self.stack.len() };
        let mut found = self.stack[..depth].iter().rev().filter_map(|scope| scope.get(&path.name.name));
        let first = found.next()?;
        // An action or function being declared does not hide other names yet.
        match first.entity {
            ScopeEntity::Unfinished("action" | "function") => found.next().or(Some(first)),
            _ => Some(first),
        }
    }

    /// Returns the entity of a name, searching from the innermost scope outwards.
    pub fn lookup(&self, path: &Path) -> Option<&ScopeEntity> {
        self.find(path).map(|named| &named.entity)
    }

    /// Returns the span of the declaration of a name.
    pub fn declared_at(&self, path: &Path) -> Option<Span> {
        self.find(path).map(|named| named.span)
    }

    /// Returns the entity of a name in the top-level scope.
    pub fn global(&self, name: &str) -> Option<&ScopeEntity> {
        self.stack[0].get(name).map(|named| &named.entity)
    }

    /// Iterates over all visible names, or only over types, for suggestions.
    pub fn visible(&self, types_only: bool) -> impl Iterator<Item = &str> {
        let all = self.stack.iter().flat_map(|scope| scope.iter());
        all.filter(move |(_, named)| !types_only || named.entity.is_type()).map(|(name, _)| &**name)
    }

    /// Declares a name in the innermost scope, replacing an earlier declaration.
    pub fn set(&mut self, name: &Ident, entity: ScopeEntity) {
        if let Some(scope) = self.stack.last_mut() {
            scope.insert(name.name.clone(), ScopedEntity { entity, span: name.span });
        }
    }

    /// Declares a name in the innermost scope. Overloads of a function share a name; any other
    /// duplicate is an error.
    pub fn declare(&mut self, name: &Ident, entity: ScopeEntity) -> Result<(), Box<Diagnostic>> {
        let Some(scope) = self.stack.last_mut() else { return Ok(()) };
        match (scope.get_mut(&name.name), entity) {
            (Some(ScopedEntity { entity: ScopeEntity::Functions(old), .. }), ScopeEntity::Functions(new)) => {
                old.extend(new);
                Ok(())
            }
            (Some(old), _) => Err(Box::new(duplicate_error(name, old.span))),
            (None, entity) => {
                scope.insert(name.name.clone(), ScopedEntity { entity, span: name.span });
                Ok(())
            }
        }
    }
}

/// Creates the error about a name that is declared twice.
pub(super) fn duplicate_error(name: &Ident, first: Span) -> Diagnostic {
    Diagnostic::error("duplicate", name.span, format!("`{name}` is declared twice"))
        .label(name.span, "declared again here")
        .label(first, "first declared here")
        .help("rename or remove one of the two")
}
