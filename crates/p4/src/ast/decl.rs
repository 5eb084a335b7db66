//! Declarations of actions, externs, packages and types.

use super::{Annotations, Block, Expr, Ident, Param, Span, Type, TypeParam};

/// `action a(params) { ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct ActionDecl {
    /// Annotations, such as `@name`, `@id`, `@noWarn`.
    pub annotations: Annotations,
    /// The name.
    pub name: Ident,
    /// Parameters.
    pub params: Vec<Param>,
    /// The body.
    pub body: Block,
    /// The whole declaration.
    pub span: Span,
}

/// A prototype: an extern function, or a method or constructor of an extern object.
#[derive(Clone, PartialEq, Debug)]
pub struct MethodDecl {
    /// Annotations, such as `@synchronous`, `@pure`, `@deprecated`.
    pub annotations: Annotations,
    /// `abstract`: implemented by the instance's initialiser block.
    pub is_abstract: bool,
    /// Type of the result; `None` for a constructor.
    pub result: Option<Type>,
    /// The name; for a constructor, the name of the extern object.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
    /// Parameters.
    pub params: Vec<Param>,
    /// The whole prototype.
    pub span: Span,
}

impl MethodDecl {
    /// Returns whether this is a constructor.
    pub fn is_constructor(&self) -> bool {
        self.result.is_none()
    }
}

/// `extern E<X> { ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct ExternDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
    /// Methods and constructors.
    pub methods: Vec<MethodDecl>,
    /// The whole declaration.
    pub span: Span,
}

/// `package P<X>(params);`
#[derive(Clone, PartialEq, Debug)]
pub struct PackageDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
    /// Constructor parameters.
    pub params: Vec<Param>,
    /// The whole declaration.
    pub span: Span,
}

/// Kind of a [`StructDecl`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StructKind {
    /// `struct`
    Struct,
    /// `header`
    Header,
    /// `header_union`
    HeaderUnion,
}

impl StructKind {
    /// Returns the keyword.
    pub fn as_str(self) -> &'static str {
        match self {
            StructKind::Struct => "struct",
            StructKind::Header => "header",
            StructKind::HeaderUnion => "header_union",
        }
    }
}

/// `struct`, `header` or `header_union`
#[derive(Clone, PartialEq, Debug)]
pub struct StructDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// Struct, header or union.
    pub kind: StructKind,
    /// The name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
    /// The fields.
    pub fields: Vec<FieldDecl>,
    /// The whole declaration.
    pub span: Span,
}

/// A field of a struct, header or union.
#[derive(Clone, PartialEq, Debug)]
pub struct FieldDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
    /// The whole field.
    pub span: Span,
}

/// `enum E { a, b }` or `enum bit<8> E { a = 1, b = 2 }`
#[derive(Clone, PartialEq, Debug)]
pub struct EnumDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The underlying type of a serialisable enum.
    pub underlying: Option<Type>,
    /// The name.
    pub name: Ident,
    /// The members.
    pub members: Vec<EnumMember>,
    /// The whole declaration.
    pub span: Span,
}

/// A member of an enum.
#[derive(Clone, PartialEq, Debug)]
pub struct EnumMember {
    /// The name.
    pub name: Ident,
    /// The value, in a serialisable enum.
    pub value: Option<Expr>,
}

/// `error { A, B }` or `match_kind { a, b }`
#[derive(Clone, PartialEq, Debug)]
pub struct MembersDecl {
    /// The added names.
    pub members: Vec<Ident>,
    /// The whole declaration.
    pub span: Span,
}

/// `typedef T x;` or `type T x;`
#[derive(Clone, PartialEq, Debug)]
pub struct TypedefDecl {
    /// Annotations, such as `@p4runtime_translation`.
    pub annotations: Annotations,
    /// Whether this is a `type` (a new type) instead of a `typedef` (an alias).
    pub is_new: bool,
    /// The old type.
    pub ty: TypedefTarget,
    /// The new name.
    pub name: Ident,
    /// The whole declaration.
    pub span: Span,
}

/// Original type of a typedef.
#[derive(Clone, PartialEq, Debug)]
pub enum TypedefTarget {
    /// A type.
    Type(Type),
    /// A struct, header or union declared in place (`typedef struct S { ... } T;`). The declaration
    /// also defines `S`.
    Struct(Box<StructDecl>),
    /// An enum declared in place.
    Enum(Box<EnumDecl>),
}
