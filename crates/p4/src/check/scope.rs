//! What names mean: the stack of scopes.

use crate::ast::{Ident, Path};
use crate::diag::Diagnostic;
use crate::hir::{
    ActionId, Expr, ExternFnId, ExternId, FunctionId, InstanceId, LocalId, StructId, TableId, Ty, TypeDeclId,
    ValueSetId,
};
use crate::span::Span;
use std::collections::HashMap;
use std::sync::Arc;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Entity {
    /// A type that takes no arguments: typedef, `type`, enum, type parameter.
    Type(Ty),
    /// A struct, header or union, perhaps generic.
    Struct(StructId),
    /// An extern object type.
    Extern(ExternId),
    /// A parser, control or package, or a type of one.
    Object(TypeDeclId),
    /// A constant: its value.
    Const(Box<Expr>),
    Local(LocalId),
    Instance(InstanceId),
    /// Overloads.
    Functions(Vec<Func>),
    Action(ActionId),
    Table(TableId),
    ValueSet(ValueSetId),
    /// Something that exists but was refused.
    Unknown,
    /// What is being declared at the moment and may not use itself.
    Unfinished(&'static str),
}

/// A function of a set of overloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Func {
    Own(FunctionId),
    Extern(ExternFnId),
}

impl Entity {
    /// What it is, for messages.
    pub fn what(&self) -> &'static str {
        match self {
            Entity::Type(_) | Entity::Struct(_) | Entity::Extern(_) => "a type",
            Entity::Object(_) => "a parser, control or package",
            Entity::Const(_) => "a constant",
            Entity::Local(_) => "a variable or parameter",
            Entity::Instance(_) => "an instance",
            Entity::Functions(_) => "a function",
            Entity::Action(_) => "an action",
            Entity::Table(_) => "a table",
            Entity::ValueSet(_) => "a value set",
            Entity::Unknown | Entity::Unfinished(_) => "something",
        }
    }

    fn is_type(&self) -> bool {
        matches!(self, Entity::Type(_) | Entity::Struct(_) | Entity::Extern(_) | Entity::Object(_))
    }
}

#[derive(Clone, Debug)]
struct Named {
    entity: Entity,
    span: Span,
}

type Scope = HashMap<Arc<str>, Named>;

/// The scopes from the top level to the innermost block.
pub(super) struct Scopes {
    stack: Vec<Scope>,
}

impl Scopes {
    pub fn new() -> Self {
        Scopes { stack: vec![Scope::new()] }
    }

    pub fn push(&mut self) {
        self.stack.push(Scope::new());
    }

    pub fn pop(&mut self) {
        self.stack.pop();
    }

    fn find(&self, path: &Path) -> Option<&Named> {
        let depth = if path.absolute { 1 } else { self.stack.len() };
        let mut found = self.stack[..depth].iter().rev().filter_map(|scope| scope.get(&path.name.name));
        let first = found.next()?;
        // What is still being declared hides nothing yet.
        match first.entity {
            Entity::Unfinished("action" | "function") => found.next().or(Some(first)),
            _ => Some(first),
        }
    }

    /// The entity that a name stands for, from the innermost scope outwards.
    pub fn lookup(&self, path: &Path) -> Option<&Entity> {
        self.find(path).map(|named| &named.entity)
    }

    /// Where the name was declared.
    pub fn declared_at(&self, path: &Path) -> Option<Span> {
        self.find(path).map(|named| named.span)
    }

    /// The entity of the top-level scope.
    pub fn global(&self, name: &str) -> Option<&Entity> {
        self.stack[0].get(name).map(|named| &named.entity)
    }

    /// All names that can be seen, for suggestions; of types alone if asked for.
    pub fn visible(&self, types_only: bool) -> impl Iterator<Item = &str> {
        let all = self.stack.iter().flat_map(|scope| scope.iter());
        all.filter(move |(_, named)| !types_only || named.entity.is_type()).map(|(name, _)| &**name)
    }

    /// Declares a name in the innermost scope, in place of what it meant there before.
    pub fn set(&mut self, name: &Ident, entity: Entity) {
        if let Some(scope) = self.stack.last_mut() {
            scope.insert(name.name.clone(), Named { entity, span: name.span });
        }
    }

    /// Declares a name in the innermost scope. Two overloads of a function share a name; any other name is
    /// refused if the scope has it already.
    pub fn declare(&mut self, name: &Ident, entity: Entity) -> Result<(), Box<Diagnostic>> {
        let Some(scope) = self.stack.last_mut() else { return Ok(()) };
        match (scope.get_mut(&name.name), entity) {
            (Some(Named { entity: Entity::Functions(old), .. }), Entity::Functions(new)) => {
                old.extend(new);
                Ok(())
            }
            (Some(old), _) => Err(Box::new(duplicate(name, old.span))),
            (None, entity) => {
                scope.insert(name.name.clone(), Named { entity, span: name.span });
                Ok(())
            }
        }
    }
}

/// The diagnostic for a name that is declared twice.
pub(super) fn duplicate(name: &Ident, first: Span) -> Diagnostic {
    Diagnostic::error("duplicate", name.span, format!("`{name}` is declared twice"))
        .label(name.span, "declared again here")
        .label(first, "first declared here")
        .help("rename or remove one of the two")
}
