//! Programs: lists of top-level declarations.

use super::{
    ActionDecl, ConstDecl, ControlDecl, EnumDecl, ExternDecl, FunctionDecl, Ident, InstanceDecl, MembersDecl,
    MethodDecl, PackageDecl, ParserDecl, Span, StructDecl, TypedefDecl,
};

/// A whole program: the declarations of the main file and its includes, in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    /// The top-level declarations.
    pub decls: Vec<Decl>,
}

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
    /// Returns the span of the whole declaration.
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

    /// Returns the declared name; `None` for `error` and `match_kind`, because they only declare
    /// members.
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
