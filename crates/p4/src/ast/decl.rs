//! Declarations.

use super::{Annotations, Arg, Block, ControlDecl, Expr, Ident, ParserDecl, Span, Type, TypeParam};

/// A top-level declaration.
#[derive(Clone, PartialEq, Debug)]
pub enum Decl {
    /// `const T x = e;`
    Const(ConstDecl),
    /// `T(args) x;`
    Instance(InstanceDecl),
    /// `action`
    Action(ActionDecl),
    /// A function with a body.
    Function(FunctionDecl),
    /// `extern E { ... }`
    Extern(ExternDecl),
    /// `extern T f(...);`
    ExternFunction(MethodDecl),
    /// `parser P(...);` or `parser P(...) { ... }`
    Parser(ParserDecl),
    /// `control C(...);` or `control C(...) { ... }`
    Control(ControlDecl),
    /// `package`
    Package(PackageDecl),
    /// `struct`, `header`, `header_union`
    Struct(StructDecl),
    /// `enum E { a, b }` and `enum bit<8> E { a = 1 }`
    Enum(EnumDecl),
    /// `error { A, B }`
    Error(MembersDecl),
    /// `match_kind { a, b }`
    MatchKind(MembersDecl),
    /// `typedef` and `type`
    Typedef(TypedefDecl),
}

impl Decl {
    /// The whole declaration.
    pub fn span(&self) -> Span {
        match self {
            Decl::Const(d) => d.span,
            Decl::Instance(d) => d.span,
            Decl::Action(d) => d.span,
            Decl::Function(d) => d.span,
            Decl::Extern(d) => d.span,
            Decl::ExternFunction(d) => d.span,
            Decl::Parser(d) => d.span,
            Decl::Control(d) => d.span,
            Decl::Package(d) => d.span,
            Decl::Struct(d) => d.span,
            Decl::Enum(d) => d.span,
            Decl::Error(d) | Decl::MatchKind(d) => d.span,
            Decl::Typedef(d) => d.span,
        }
    }

    /// The name that is declared; `None` for `error` and `match_kind`, which declare members alone.
    pub fn name(&self) -> Option<&Ident> {
        Some(match self {
            Decl::Const(d) => &d.name,
            Decl::Instance(d) => &d.name,
            Decl::Action(d) => &d.name,
            Decl::Function(d) => &d.name,
            Decl::Extern(d) => &d.name,
            Decl::ExternFunction(d) => &d.name,
            Decl::Parser(d) => &d.name,
            Decl::Control(d) => &d.name,
            Decl::Package(d) => &d.name,
            Decl::Struct(d) => &d.name,
            Decl::Enum(d) => &d.name,
            Decl::Error(_) | Decl::MatchKind(_) => return None,
            Decl::Typedef(d) => &d.name,
        })
    }
}

/// Direction of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Direction {
    /// None written: a compile-time value, or an action's control-plane data.
    #[default]
    None,
    /// `in`
    In,
    /// `out`
    Out,
    /// `inout`
    InOut,
}

impl Direction {
    /// As written; empty for [`Direction::None`].
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::None => "",
            Direction::In => "in",
            Direction::Out => "out",
            Direction::InOut => "inout",
        }
    }
}

/// A parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Annotations, such as `@optional`.
    pub annotations: Annotations,
    /// The direction.
    pub direction: Direction,
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
    /// The default value of `T x = e`.
    pub default: Option<Expr>,
    /// The whole parameter.
    pub span: Span,
}

/// `const T x = e;`
#[derive(Clone, PartialEq, Debug)]
pub struct ConstDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
    /// The value.
    pub value: Expr,
    /// The whole declaration.
    pub span: Span,
}

/// `T x;` or `T x = e;`
#[derive(Clone, PartialEq, Debug)]
pub struct VarDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
    /// The initial value.
    pub init: Option<Expr>,
    /// The whole declaration.
    pub span: Span,
}

/// `T(args) x;` or `T(args) x = { ... };`
#[derive(Clone, PartialEq, Debug)]
pub struct InstanceDecl {
    /// Annotations, such as `@name`.
    pub annotations: Annotations,
    /// The type that is instantiated.
    pub ty: Type,
    /// Constructor arguments.
    pub args: Vec<Arg>,
    /// The instance's name.
    pub name: Ident,
    /// The block that implements abstract methods, if any was written.
    pub initializer: Option<Vec<ObjMember>>,
    /// The whole declaration.
    pub span: Span,
}

/// A member of an instance's initialiser block.
#[derive(Clone, PartialEq, Debug)]
pub enum ObjMember {
    /// An implementation of an abstract method.
    Function(FunctionDecl),
    /// An instance that the methods use.
    Instance(InstanceDecl),
}

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

/// `T f<X>(params) { ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// Type of the result.
    pub result: Type,
    /// The name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
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
    /// The name; for a constructor, the extern object's.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
    /// Parameters.
    pub params: Vec<Param>,
    /// The whole prototype.
    pub span: Span,
}

impl MethodDecl {
    /// Whether this is a constructor.
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

/// What a [`StructDecl`] declares.
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
    /// The keyword.
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
    /// Which of the three.
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
    /// The names that are added.
    pub members: Vec<Ident>,
    /// The whole declaration.
    pub span: Span,
}

/// `typedef T x;` or `type T x;`
#[derive(Clone, PartialEq, Debug)]
pub struct TypedefDecl {
    /// Annotations, such as `@p4runtime_translation`.
    pub annotations: Annotations,
    /// `type` (a new type) rather than `typedef` (another name).
    pub is_new: bool,
    /// The old type.
    pub ty: TypedefTarget,
    /// The new name.
    pub name: Ident,
    /// The whole declaration.
    pub span: Span,
}

/// What a typedef names.
#[derive(Clone, PartialEq, Debug)]
pub enum TypedefTarget {
    /// A type.
    Type(Type),
    /// A struct, header or union declared in place (`typedef struct S { ... } T;`), which `S` names as well.
    Struct(Box<StructDecl>),
    /// An enum declared in place.
    Enum(Box<EnumDecl>),
}
