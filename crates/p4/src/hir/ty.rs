//! Interned types: equal types have equal [`Ty`]s.

use super::{EnumId, ExternId, NewTypeId, StructId, TableId, TypeDeclId, TypeParamId};
use std::collections::HashMap;

/// An interned type of a [`Types`] table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ty(pub u32);

/// Structure of a type. `typedef`s are resolved; `type`s are not.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TyKind {
    /// The type of a rejected construct. Errors about it are suppressed.
    Unknown,
    /// No result.
    Void,
    /// `bool`
    Bool,
    /// `string`
    Str,
    /// `int`: arbitrary precision, compile time only.
    InfInt,
    /// `bit<W>`
    Bit(u32),
    /// `int<W>`
    Int(u32),
    /// `varbit<W>`
    Varbit(u32),
    /// `error`
    Error,
    /// `match_kind`
    MatchKind,
    /// An enumeration, with or without underlying type.
    Enum(EnumId),
    /// A struct, header or header union, with type arguments if it is generic.
    Struct(StructId, Vec<Ty>),
    /// `type T X;`
    NewType(NewTypeId),
    /// `T[n]` of headers or unions.
    Stack(Ty, u32),
    /// `tuple<...>`; also the type of list expressions.
    Tuple(Vec<Ty>),
    /// `list<T>`
    List(Ty),
    /// An extern object.
    Extern(ExternId, Vec<Ty>),
    /// A parser, control or package type, or a parser or control with a body.
    Object(TypeDeclId, Vec<Ty>),
    /// A type parameter of the enclosing generic declaration.
    Param(TypeParamId),
    /// A set of values of a type (key sets).
    Set(Ty),
    /// Result of `table.apply()`.
    ApplyResult(TableId),
    /// Type of `table.apply().action_run`.
    ActionRun(TableId),
    /// `{#}` before its type is known.
    InvalidHeader,
    /// An inference variable. After checking, it only occurs in types of constructor parameters,
    /// where it is a written `_` (any type).
    Infer(u32),
}

/// The type interner.
#[derive(Clone, Debug)]
pub struct Types {
    kinds: Vec<TyKind>,
    index: HashMap<TyKind, Ty>,
}

impl Types {
    /// Type of rejected constructs; always interned first.
    pub const UNKNOWN: Ty = Ty(0);
    /// `void`
    pub const VOID: Ty = Ty(1);
    /// `bool`
    pub const BOOL: Ty = Ty(2);
    /// `string`
    pub const STR: Ty = Ty(3);
    /// `int`
    pub const INT: Ty = Ty(4);
    /// `error`
    pub const ERROR: Ty = Ty(5);
    /// `match_kind`
    pub const MATCH_KIND: Ty = Ty(6);
    /// `bit<32>`
    pub const BIT32: Ty = Ty(7);

    /// Creates an interner with the types that have constants.
    pub fn new() -> Self {
        let mut types = Types { kinds: Vec::new(), index: HashMap::new() };
        use TyKind::*;
        for kind in [Unknown, Void, Bool, Str, InfInt, Error, MatchKind, Bit(32)] {
            types.intern(kind);
        }
        types
    }
    /// Returns the type of the given structure.
    pub fn intern(&mut self, kind: TyKind) -> Ty {
        if let Some(ty) = self.index.get(&kind) {
            return *ty;
        }
        let ty = Ty(self.kinds.len() as u32);
        self.kinds.push(kind.clone());
        self.index.insert(kind, ty);
        ty
    }
    /// Returns the structure of the type.
    pub fn kind(&self, ty: Ty) -> &TyKind {
        &self.kinds[ty.0 as usize]
    }
    /// Looks up a type without interning it.
    pub fn find(&self, kind: &TyKind) -> Option<Ty> {
        self.index.get(kind).copied()
    }
}

impl Default for Types {
    fn default() -> Self {
        Self::new()
    }
}
