//! Declarations of the top level.

use super::cursor::{Failed, Parse, Parser};
use super::scope::NameKind;
use crate::ast::{
    ActionDecl, Annotations, Decl, Direction, EnumDecl, EnumMember, ExternDecl, FieldDecl, FunctionDecl, Ident,
    InstanceDecl, MembersDecl, MethodDecl, ObjMember, PackageDecl, Param, Program, StructDecl, StructKind, Type,
    TypedefDecl, TypedefTarget,
};
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::span::Span;

impl Parser<'_> {
    /// All declarations up to the end.
    pub fn program(&mut self) -> Program {
        let mut decls = Vec::new();
        while !self.is(Tok::Eof) {
            match self.kind() {
                Tok::Semi => {
                    self.bump();
                }
                Tok::RBrace => {
                    self.report(
                        Diagnostic::error("syntax", self.span(), "this `}` closes nothing")
                            .help("remove it, or look for a `}` too many above"),
                    );
                    self.bump();
                }
                _ => decls.extend(self.recovering(Self::decl).flatten()),
            }
        }
        Program { decls }
    }

    /// A declaration; `None` for one that only says that a name is an extern.
    fn decl(&mut self) -> Parse<Option<Decl>> {
        let start = self.span();
        let annotations = self.annotations()?;
        Ok(Some(match self.kind() {
            Tok::Const => Decl::Const(self.const_decl(annotations, start)?),
            Tok::Action => Decl::Action(self.action_decl(annotations, start)?),
            Tok::Extern => return self.extern_decl(annotations, start),
            Tok::Parser => Decl::Parser(self.parser_decl(annotations, start)?),
            Tok::Control => Decl::Control(self.control_decl(annotations, start)?),
            Tok::Package => Decl::Package(self.package_decl(annotations, start)?),
            Tok::Header | Tok::HeaderUnion | Tok::Struct => Decl::Struct(self.struct_decl(annotations, start)?),
            Tok::Enum => Decl::Enum(self.enum_decl(annotations, start)?),
            Tok::Error if self.kind_at(1) == Tok::LBrace => Decl::Error(self.members_decl(start, false)?),
            Tok::MatchKind if self.kind_at(1) == Tok::LBrace => Decl::MatchKind(self.members_decl(start, true)?),
            Tok::Typedef | Tok::Type => Decl::Typedef(self.typedef_decl(annotations, start)?),
            Tok::Table => {
                let diagnostic = Diagnostic::error("syntax", self.span(), "a table cannot stand at the top level");
                return self.fail_with(diagnostic.help("declare it in a control"));
            }
            _ => self.function_or_instance(annotations, start)?,
        }))
    }

    /// `T f(params) { ... }` or `T(args) name;`
    fn function_or_instance(&mut self, annotations: Annotations, start: Span) -> Parse<Decl> {
        let at = self.at;
        if !self.at_type() && !self.is_name_at(0) && !self.is(Tok::Dot) {
            let message = format!("expected a declaration, found {}", self.token().describe());
            return self.fail(message);
        }
        let mark = self.unknown_types.len();
        let ty = self.result_type()?;
        if let [name] = &self.unknown_types[mark..]
            && self.is_name_at(0)
            && self.is_misspelled_keyword(&name.name)
        {
            self.settle_unknown_types(mark, &[]);
            return Err(Failed);
        }
        if self.is(Tok::LParen) && self.at > at {
            self.settle_unknown_types(mark, &[]);
            return Ok(Decl::Instance(self.instance_decl(annotations, ty, start)?));
        }
        if self.is_name_at(0) && matches!(self.kind_at(1), Tok::Semi | Tok::Assign | Tok::LBracket) {
            self.settle_unknown_types(mark, &[]);
            let name = self.name()?;
            let message = format!("expected `(`, found {}", self.token().describe());
            let diagnostic = Diagnostic::error("syntax", self.span(), message)
                .label(name.span, "a variable cannot stand at the top level");
            return self.fail_with(diagnostic.help("make it a `const`, or declare it in a parser, control or action"));
        }
        Ok(Decl::Function(self.function_rest(annotations, ty, mark, start)?))
    }

    /// A function of which the result type has been parsed, with its unknown types from `mark` on.
    fn function_rest(
        &mut self,
        annotations: Annotations,
        result: Type,
        mark: usize,
        start: Span,
    ) -> Parse<FunctionDecl> {
        let scope = self.scopes.depth();
        let (name, type_params, params) = self.prototype_rest(mark)?;
        let body = self.block(Vec::new());
        self.scopes.truncate(scope);
        let body = body?;
        Ok(FunctionDecl { annotations, result, name, type_params, params, body, span: self.since(start) })
    }

    /// Name, type parameters and parameters of a prototype. Opens the scope of its body, which the caller closes.
    fn prototype_rest(&mut self, mark: usize) -> Parse<(Ident, Vec<Ident>, Vec<Param>)> {
        if !self.is_name_at(0) && self.unknown_types.len() > mark {
            // What looked like a type was no declaration's beginning; one complaint about it is enough.
            self.settle_unknown_types(mark, &[]);
            return Err(Failed);
        }
        let name = self.name()?;
        let kind = if self.is(Tok::Lt) { NameKind::GenericFunction } else { NameKind::Value };
        self.scopes.declare(&name.name, kind);
        self.scopes.push();
        let type_params = self.type_params()?;
        self.settle_unknown_types(mark, &type_params);
        let params = self.params()?;
        Ok((name, type_params, params))
    }

    /// `(params)`; declares them in the open scope.
    pub fn params(&mut self) -> Parse<Vec<Param>> {
        self.expect(Tok::LParen)?;
        let params = self.comma_list(Tok::RParen, false, Self::param)?;
        for param in &params {
            self.scopes.declare(&param.name.name, NameKind::Value);
        }
        Ok(params)
    }

    fn param(&mut self) -> Parse<Param> {
        let start = self.span();
        let annotations = self.annotations()?;
        let direction = match self.kind() {
            Tok::In => Direction::In,
            Tok::Out => Direction::Out,
            Tok::InOut => Direction::InOut,
            _ => Direction::None,
        };
        if direction != Direction::None {
            self.bump();
        }
        let ty = self.ty()?;
        let (ty, name) = self.declarator(ty)?;
        let default = if self.eat(Tok::Assign) { Some(self.expr()?) } else { None };
        Ok(Param { annotations, direction, ty, name, default, span: self.since(start) })
    }

    /// `T(args) name;` or `T(args) name = { ... };`, of which the type has been parsed.
    pub fn instance_decl(&mut self, annotations: Annotations, ty: Type, start: Span) -> Parse<InstanceDecl> {
        let args = self.args()?;
        if !self.is_name_at(0) {
            let message = format!("expected the instance's name, found {}", self.token().describe());
            let mut diagnostic = Diagnostic::error("syntax", self.span(), message);
            if self.is(Tok::Semi) {
                let shown = self.map.text(ty.span);
                diagnostic = diagnostic.help(format!("name it: `{shown}(...) name;`"));
            }
            return self.fail_with(diagnostic);
        }
        let (ty, name) = self.declarator(ty)?;
        let initializer = if self.eat(Tok::Assign) {
            let scope = self.scopes.depth();
            self.scopes.push();
            let members = self.nested(|p| p.braced(Self::obj_member));
            self.scopes.truncate(scope);
            Some(members?)
        } else {
            None
        };
        self.expect(Tok::Semi)?;
        self.scopes.declare(&name.name, NameKind::Value);
        Ok(InstanceDecl { annotations, ty, args, name, initializer, span: self.since(start) })
    }

    fn obj_member(&mut self) -> Parse<ObjMember> {
        let start = self.span();
        let annotations = self.annotations()?;
        let mark = self.unknown_types.len();
        let ty = self.result_type()?;
        if self.is(Tok::LParen) {
            self.settle_unknown_types(mark, &[]);
            return Ok(ObjMember::Instance(self.instance_decl(annotations, ty, start)?));
        }
        Ok(ObjMember::Function(self.function_rest(annotations, ty, mark, start)?))
    }

    /// `action a(params) { ... }`
    pub fn action_decl(&mut self, annotations: Annotations, start: Span) -> Parse<ActionDecl> {
        self.expect(Tok::Action)?;
        let name = self.name()?;
        self.scopes.declare(&name.name, NameKind::Value);
        let scope = self.scopes.depth();
        self.scopes.push();
        let params = self.params();
        let params = params?;
        let body = self.block(Vec::new());
        self.scopes.truncate(scope);
        let body = body?;
        Ok(ActionDecl { annotations, name, params, body, span: self.since(start) })
    }

    fn extern_decl(&mut self, annotations: Annotations, start: Span) -> Parse<Option<Decl>> {
        self.expect(Tok::Extern)?;
        let object = self.is_name_at(0) && matches!(self.kind_at(1), Tok::LBrace | Tok::Lt | Tok::Semi);
        if !object || (self.is_type_name_at(0) && self.kind_at(1) == Tok::Lt && !self.opens_brace_after_angle()) {
            let method = self.method(annotations, start, None)?;
            return Ok(Some(Decl::ExternFunction(method)));
        }
        let name = self.name()?;
        self.scopes.declare(&name.name, NameKind::Type);
        if self.eat(Tok::Semi) {
            return Ok(None);
        }
        let scope = self.scopes.depth();
        self.scopes.push();
        let type_params = self.type_params()?;
        let methods = self.braced(|p| {
            let start = p.span();
            let annotations = p.annotations()?;
            p.method(annotations, start, Some(&name))
        });
        self.scopes.truncate(scope);
        let methods = methods?;
        Ok(Some(Decl::Extern(ExternDecl { annotations, name, type_params, methods, span: self.since(start) })))
    }

    /// Whether `name<...>` here is followed by `{`: an object's declaration rather than a function with a generic result.
    fn opens_brace_after_angle(&self) -> bool {
        let mut depth = 0usize;
        let mut ahead = 1;
        loop {
            match self.kind_at(ahead) {
                Tok::Lt => depth += 1,
                Tok::Gt if depth <= 1 => return self.kind_at(ahead + 1) == Tok::LBrace,
                Tok::Gt => depth -= 1,
                Tok::Eof | Tok::Semi | Tok::LBrace => return false,
                _ => {}
            }
            ahead += 1;
        }
    }

    /// A prototype with its `;`; in the extern object `object`, also a constructor.
    fn method(&mut self, annotations: Annotations, start: Span, object: Option<&Ident>) -> Parse<MethodDecl> {
        let is_abstract = self.eat(Tok::Abstract);
        let scope = self.scopes.depth();
        let constructor = self.is_name_at(0) && self.kind_at(1) == Tok::LParen;
        let mark = self.unknown_types.len();
        let (result, name, type_params, params) = if constructor {
            let name = self.name()?;
            if object.is_none_or(|object| object.name != name.name) {
                return self.no_result_type(&name, object);
            }
            self.scopes.push();
            (None, name, Vec::new(), self.params()?)
        } else {
            let result = self.result_type()?;
            let (name, type_params, params) = self.prototype_rest(mark)?;
            (Some(result), name, type_params, params)
        };
        self.scopes.truncate(scope);
        self.expect(Tok::Semi)?;
        Ok(MethodDecl { annotations, is_abstract, result, name, type_params, params, span: self.since(start) })
    }

    fn no_result_type<T>(&mut self, name: &Ident, object: Option<&Ident>) -> Parse<T> {
        let message = format!("the result type of `{name}` is missing");
        let help = match object {
            Some(object) => format!("write `void {name}(...)`; a constructor is named `{object}`"),
            None => format!("write `void {name}(...)`"),
        };
        self.fail_with(Diagnostic::error("syntax", name.span, message).help(help))
    }

    fn package_decl(&mut self, annotations: Annotations, start: Span) -> Parse<PackageDecl> {
        self.expect(Tok::Package)?;
        let name = self.name()?;
        self.scopes.declare(&name.name, NameKind::Type);
        let scope = self.scopes.depth();
        self.scopes.push();
        let type_params = self.type_params()?;
        let params = self.params()?;
        self.scopes.truncate(scope);
        self.expect(Tok::Semi)?;
        Ok(PackageDecl { annotations, name, type_params, params, span: self.since(start) })
    }

    fn struct_decl(&mut self, annotations: Annotations, start: Span) -> Parse<StructDecl> {
        let kind = match self.kind() {
            Tok::Header => StructKind::Header,
            Tok::HeaderUnion => StructKind::HeaderUnion,
            _ => StructKind::Struct,
        };
        self.bump();
        let name = self.name()?;
        self.scopes.declare(&name.name, NameKind::Type);
        let scope = self.scopes.depth();
        self.scopes.push();
        let type_params = self.type_params()?;
        let fields = self.braced(Self::field);
        self.scopes.truncate(scope);
        let fields = fields?;
        Ok(StructDecl { annotations, kind, name, type_params, fields, span: self.since(start) })
    }

    fn field(&mut self) -> Parse<FieldDecl> {
        let start = self.span();
        let annotations = self.annotations()?;
        let ty = self.ty()?;
        let (ty, name) = self.declarator(ty)?;
        self.expect(Tok::Semi)?;
        Ok(FieldDecl { annotations, ty, name, span: self.since(start) })
    }

    fn enum_decl(&mut self, annotations: Annotations, start: Span) -> Parse<EnumDecl> {
        self.expect(Tok::Enum)?;
        let plain = self.is_name_at(0) && self.kind_at(1) == Tok::LBrace;
        let underlying = if plain { None } else { Some(self.ty()?) };
        let name = self.name()?;
        self.scopes.declare(&name.name, NameKind::Type);
        self.expect(Tok::LBrace)?;
        let members = self.comma_list(Tok::RBrace, true, |p| p.enum_member(underlying.is_some()))?;
        if members.is_empty() {
            let diagnostic = Diagnostic::error("syntax", self.last_span(), format!("enum `{name}` has no members"));
            return self.fail_with(diagnostic.help("give it at least one"));
        }
        Ok(EnumDecl { annotations, underlying, name, members, span: self.since(start) })
    }

    fn enum_member(&mut self, with_value: bool) -> Parse<EnumMember> {
        let name = self.name()?;
        let value = match (with_value, self.is(Tok::Assign)) {
            (true, _) => {
                self.expect(Tok::Assign)?;
                Some(self.expr()?)
            }
            (false, false) => None,
            (false, true) => {
                let message = "members have values only in an enum with an underlying type";
                let diagnostic = Diagnostic::error("syntax", self.span(), message);
                return self.fail_with(diagnostic.help("write `enum bit<8> Name { ... }`"));
            }
        };
        Ok(EnumMember { name, value })
    }

    /// `error { ... }` or `match_kind { ... }`
    fn members_decl(&mut self, start: Span, trailing: bool) -> Parse<MembersDecl> {
        self.bump();
        self.expect(Tok::LBrace)?;
        if self.is(Tok::RBrace) {
            return self.fail_expected("a name");
        }
        let members = self.comma_list(Tok::RBrace, trailing, Self::name)?;
        Ok(MembersDecl { members, span: self.since(start) })
    }

    fn typedef_decl(&mut self, annotations: Annotations, start: Span) -> Parse<TypedefDecl> {
        let is_new = self.is(Tok::Type);
        self.bump();
        let inner = self.span();
        let nested = if is_new { Vec::new() } else { self.annotations()? };
        let (ty, name) = match self.kind() {
            Tok::Struct | Tok::Header | Tok::HeaderUnion if !is_new => {
                let declared = self.struct_decl(nested, inner)?;
                (TypedefTarget::Struct(Box::new(declared)), self.name()?)
            }
            Tok::Enum if !is_new => {
                let declared = self.enum_decl(nested, inner)?;
                (TypedefTarget::Enum(Box::new(declared)), self.name()?)
            }
            _ => {
                let ty = self.ty()?;
                let (ty, name) = self.declarator(ty)?;
                (TypedefTarget::Type(ty), name)
            }
        };
        self.expect(Tok::Semi)?;
        self.scopes.declare(&name.name, NameKind::Type);
        Ok(TypedefDecl { annotations, is_new, ty, name, span: self.since(start) })
    }
}
