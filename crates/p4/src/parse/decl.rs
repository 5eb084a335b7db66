//! Parses top-level declarations.

use super::cursor::{P4Parser, ParseResult, SyntaxErrorReported};
use super::scope::NameKind;
use crate::ast::{
    ActionDecl, Annotations, Decl, Direction, EnumDecl, EnumMember, ExternDecl, FieldDecl, FunctionDecl, Ident,
    InstanceDecl, MembersDecl, MethodDecl, ObjMember, PackageDecl, Param, Program, StructDecl, StructKind, Type,
    TypedefDecl, TypedefTarget,
};
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::span::Span;

impl P4Parser<'_> {
    /// Parses all declarations up to the end.
    pub fn parse_declarations(&mut self) -> Program {
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
                _ => decls.extend(self.parse_or_recover(Self::parse_decl).flatten()),
            }
        }
        Program { decls }
    }

    /// Parses a declaration with its annotations; `None` for a forward declaration of an extern
    /// (`extern T;`), which adds nothing to the program.
    fn parse_decl(&mut self) -> ParseResult<Option<Decl>> {
        let start = self.span();
        let annotations = self.parse_annotations()?;
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
                let diagnostic = Diagnostic::error("syntax", self.span(), "a table is not allowed at the top level");
                return self.fail_with(diagnostic.help("declare it in a control"));
            }
            _ => self.function_or_instance(annotations, start)?,
        }))
    }

    /// Parses `T f(params) { ... }` or `T(args) name;`, which begin with the same tokens. `start`
    /// is the first token of the annotations.
    fn function_or_instance(&mut self, annotations: Annotations, start: Span) -> ParseResult<Decl> {
        let type_start = self.at;
        if !self.at_type() && !self.is_name_at(0) && !self.is(Tok::Dot) {
            let message = format!("expected a declaration, found {}", self.token().describe());
            return self.fail(message);
        }
        // Unknown type names are reported after the declaration, because type parameters of the
        // function follow their first use: `T f<T>(...)`.
        let unknown_before = self.unknown_types.len();
        let ty = self.parse_result_type()?;
        if let [name] = &self.unknown_types[unknown_before..]
            && self.is_name_at(0)
            && self.is_misspelled_keyword(&name.name)
        {
            self.report_unknown_types(unknown_before, &[]);
            return Err(SyntaxErrorReported);
        }
        if self.is(Tok::LParen) && self.at > type_start {
            self.report_unknown_types(unknown_before, &[]);
            return Ok(Decl::Instance(self.instance_decl(annotations, ty, start)?));
        }
        if self.is_name_at(0) && matches!(self.kind_at(1), Tok::Semi | Tok::Assign | Tok::LBracket) {
            self.report_unknown_types(unknown_before, &[]);
            let name = self.parse_name()?;
            let message = format!("expected `(`, found {}", self.token().describe());
            let diagnostic = Diagnostic::error("syntax", self.span(), message)
                .label(name.span, "a variable is not allowed at the top level");
            return self.fail_with(diagnostic.help("make it a `const`, or declare it in a parser, control or action"));
        }
        Ok(Decl::Function(self.parse_function_after_type(annotations, ty, unknown_before, start)?))
    }

    /// Parses a function after its result type. Unknown types of the latter start at `mark`.
    fn parse_function_after_type(
        &mut self,
        annotations: Annotations,
        result: Type,
        mark: usize,
        start: Span,
    ) -> ParseResult<FunctionDecl> {
        let scope = self.scopes.depth();
        let (name, type_params, params) = self.parse_prototype_after_type(mark)?;
        let body = self.parse_block(Vec::new());
        self.scopes.truncate(scope);
        let body = body?;
        Ok(FunctionDecl { annotations, result, name, type_params, params, body, span: self.span_since(start) })
    }

    /// Parses name, type parameters and parameters of a prototype. Opens the scope of its body; the
    /// caller closes it.
    fn parse_prototype_after_type(&mut self, mark: usize) -> ParseResult<(Ident, Vec<Ident>, Vec<Param>)> {
        if !self.is_name_at(0) && self.unknown_types.len() > mark {
            // The presumed type starts no declaration. Report only the unknown type, because a
            // second error would add nothing.
            self.report_unknown_types(mark, &[]);
            return Err(SyntaxErrorReported);
        }
        let name = self.parse_name()?;
        let kind = if self.is(Tok::Lt) { NameKind::GenericFunction } else { NameKind::Value };
        self.scopes.declare(&name.name, kind);
        self.scopes.push();
        let type_params = self.parse_type_params()?;
        self.report_unknown_types(mark, &type_params);
        let params = self.parse_params()?;
        Ok((name, type_params, params))
    }

    /// Parses `(params)` and declares them in the open scope.
    pub fn parse_params(&mut self) -> ParseResult<Vec<Param>> {
        self.expect(Tok::LParen)?;
        let params = self.parse_comma_list(Tok::RParen, false, Self::parse_param)?;
        for param in &params {
            self.scopes.declare(&param.name.name, NameKind::Value);
        }
        Ok(params)
    }

    fn parse_param(&mut self) -> ParseResult<Param> {
        let start = self.span();
        let annotations = self.parse_annotations()?;
        let direction = match self.kind() {
            Tok::In => Direction::In,
            Tok::Out => Direction::Out,
            Tok::InOut => Direction::InOut,
            _ => Direction::None,
        };
        if direction != Direction::None {
            self.bump();
        }
        let ty = self.parse_type()?;
        let (ty, name) = self.parse_declarator(ty)?;
        let default = if self.eat(Tok::Assign) { Some(self.parse_expr()?) } else { None };
        Ok(Param { annotations, direction, ty, name, default, span: self.span_since(start) })
    }

    /// Parses `T(args) name;` or `T(args) name = { ... };` after the type.
    pub fn instance_decl(&mut self, annotations: Annotations, ty: Type, start: Span) -> ParseResult<InstanceDecl> {
        let args = self.parse_args()?;
        if !self.is_name_at(0) {
            let message = format!("expected the instance's name, found {}", self.token().describe());
            let mut diagnostic = Diagnostic::error("syntax", self.span(), message);
            if self.is(Tok::Semi) {
                let shown = self.map.text(ty.span);
                diagnostic = diagnostic.help(format!("name it: `{shown}(...) name;`"));
            }
            return self.fail_with(diagnostic);
        }
        let (ty, name) = self.parse_declarator(ty)?;
        let initializer = if self.eat(Tok::Assign) {
            let outer_depth = self.scopes.depth();
            self.scopes.push();
            let members = self.parse_nested(|p| p.parse_braced(Self::parse_object_member));
            self.scopes.truncate(outer_depth);
            Some(members?)
        } else {
            None
        };
        self.expect(Tok::Semi)?;
        self.scopes.declare(&name.name, NameKind::Value);
        Ok(InstanceDecl { annotations, ty, args, name, initializer, span: self.span_since(start) })
    }

    fn parse_object_member(&mut self) -> ParseResult<ObjMember> {
        let start = self.span();
        let annotations = self.parse_annotations()?;
        let mark = self.unknown_types.len();
        let ty = self.parse_result_type()?;
        if self.is(Tok::LParen) {
            self.report_unknown_types(mark, &[]);
            return Ok(ObjMember::Instance(self.instance_decl(annotations, ty, start)?));
        }
        Ok(ObjMember::Function(self.parse_function_after_type(annotations, ty, mark, start)?))
    }

    /// Parses `action a(params) { ... }`.
    pub fn action_decl(&mut self, annotations: Annotations, start: Span) -> ParseResult<ActionDecl> {
        self.expect(Tok::Action)?;
        let name = self.parse_name()?;
        self.scopes.declare(&name.name, NameKind::Value);
        let scope = self.scopes.depth();
        self.scopes.push();
        let params = self.parse_params();
        let params = params?;
        let body = self.parse_block(Vec::new());
        self.scopes.truncate(scope);
        let body = body?;
        Ok(ActionDecl { annotations, name, params, body, span: self.span_since(start) })
    }

    /// Parses `extern T f(params);`, `extern T { ... }` or `extern T;`; `None` for the last, a
    /// forward declaration.
    fn extern_decl(&mut self, annotations: Annotations, start: Span) -> ParseResult<Option<Decl>> {
        self.expect(Tok::Extern)?;
        let is_object = self.is_name_at(0) && matches!(self.kind_at(1), Tok::LBrace | Tok::Lt | Tok::Semi);
        // `extern Name<` can begin an object with type parameters, or a function with a result of a
        // generic type. Only an object has a `{` after the `>`.
        if !is_object || (self.is_type_name_at(0) && self.kind_at(1) == Tok::Lt && !self.opens_brace_after_angle()) {
            let method = self.parse_method(annotations, start, None)?;
            return Ok(Some(Decl::ExternFunction(method)));
        }
        let name = self.parse_name()?;
        self.scopes.declare(&name.name, NameKind::Type);
        if self.eat(Tok::Semi) {
            return Ok(None);
        }
        let outer_depth = self.scopes.depth();
        self.scopes.push();
        let type_params = self.parse_type_params()?;
        let methods = self.parse_braced(|p| {
            let start = p.span();
            let annotations = p.parse_annotations()?;
            p.parse_method(annotations, start, Some(&name))
        });
        self.scopes.truncate(outer_depth);
        let methods = methods?;
        Ok(Some(Decl::Extern(ExternDecl { annotations, name, type_params, methods, span: self.span_since(start) })))
    }

    /// Returns whether `{` follows `name<...>` here: an object declaration, not a function with a
    /// generic result.
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

    /// Parses the prototype of a function or method including its `;`. In the extern object
    /// `object` it can be a constructor, which has the object's name and no result type.
    fn parse_method(
        &mut self,
        annotations: Annotations,
        start: Span,
        object: Option<&Ident>,
    ) -> ParseResult<MethodDecl> {
        let is_abstract = self.eat(Tok::Abstract);
        let outer_depth = self.scopes.depth();
        let is_constructor = self.is_name_at(0) && self.kind_at(1) == Tok::LParen;
        let unknown_before = self.unknown_types.len();
        let (result, name, type_params, params) = if is_constructor {
            let name = self.parse_name()?;
            if object.is_none_or(|object| object.name != name.name) {
                return self.fail_missing_result_type(&name, object);
            }
            self.scopes.push();
            (None, name, Vec::new(), self.parse_params()?)
        } else {
            let result = self.parse_result_type()?;
            let (name, type_params, params) = self.parse_prototype_after_type(unknown_before)?;
            (Some(result), name, type_params, params)
        };
        self.scopes.truncate(outer_depth);
        self.expect(Tok::Semi)?;
        Ok(MethodDecl { annotations, is_abstract, result, name, type_params, params, span: self.span_since(start) })
    }

    fn fail_missing_result_type<T>(&mut self, name: &Ident, object: Option<&Ident>) -> ParseResult<T> {
        let message = format!("the result type of `{name}` is missing");
        let help = match object {
            Some(object) => format!("write `void {name}(...)`; a constructor is named `{object}`"),
            None => format!("write `void {name}(...)`"),
        };
        self.fail_with(Diagnostic::error("syntax", name.span, message).help(help))
    }

    fn package_decl(&mut self, annotations: Annotations, start: Span) -> ParseResult<PackageDecl> {
        self.expect(Tok::Package)?;
        let name = self.parse_name()?;
        self.scopes.declare(&name.name, NameKind::Type);
        let scope = self.scopes.depth();
        self.scopes.push();
        let type_params = self.parse_type_params()?;
        let params = self.parse_params()?;
        self.scopes.truncate(scope);
        self.expect(Tok::Semi)?;
        Ok(PackageDecl { annotations, name, type_params, params, span: self.span_since(start) })
    }

    fn struct_decl(&mut self, annotations: Annotations, start: Span) -> ParseResult<StructDecl> {
        let kind = match self.kind() {
            Tok::Header => StructKind::Header,
            Tok::HeaderUnion => StructKind::HeaderUnion,
            _ => StructKind::Struct,
        };
        self.bump();
        let name = self.parse_name()?;
        self.scopes.declare(&name.name, NameKind::Type);
        let scope = self.scopes.depth();
        self.scopes.push();
        let type_params = self.parse_type_params()?;
        let fields = self.parse_braced(Self::parse_field);
        self.scopes.truncate(scope);
        let fields = fields?;
        Ok(StructDecl { annotations, kind, name, type_params, fields, span: self.span_since(start) })
    }

    fn parse_field(&mut self) -> ParseResult<FieldDecl> {
        let start = self.span();
        let annotations = self.parse_annotations()?;
        let ty = self.parse_type()?;
        let (ty, name) = self.parse_declarator(ty)?;
        self.expect(Tok::Semi)?;
        Ok(FieldDecl { annotations, ty, name, span: self.span_since(start) })
    }

    fn enum_decl(&mut self, annotations: Annotations, start: Span) -> ParseResult<EnumDecl> {
        self.expect(Tok::Enum)?;
        let plain = self.is_name_at(0) && self.kind_at(1) == Tok::LBrace;
        let underlying = if plain { None } else { Some(self.parse_type()?) };
        let name = self.parse_name()?;
        self.scopes.declare(&name.name, NameKind::Type);
        self.expect(Tok::LBrace)?;
        let members = self.parse_comma_list(Tok::RBrace, true, |p| p.enum_member(underlying.is_some()))?;
        if members.is_empty() {
            let diagnostic = Diagnostic::error("syntax", self.last_span(), format!("enum `{name}` has no members"));
            return self.fail_with(diagnostic.help("give it at least one"));
        }
        Ok(EnumDecl { annotations, underlying, name, members, span: self.span_since(start) })
    }

    fn enum_member(&mut self, with_value: bool) -> ParseResult<EnumMember> {
        let name = self.parse_name()?;
        let value = match (with_value, self.is(Tok::Assign)) {
            (true, _) => {
                self.expect(Tok::Assign)?;
                Some(self.parse_expr()?)
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

    /// Parses `error { ... }` or `match_kind { ... }`.
    fn members_decl(&mut self, start: Span, trailing: bool) -> ParseResult<MembersDecl> {
        self.bump();
        self.expect(Tok::LBrace)?;
        if self.is(Tok::RBrace) {
            return self.fail_expected("a name");
        }
        let members = self.parse_comma_list(Tok::RBrace, trailing, Self::parse_name)?;
        Ok(MembersDecl { members, span: self.span_since(start) })
    }

    /// Parses `typedef T X;` or `type T X;`. `typedef` can also declare the struct, header or enum
    /// that it names.
    fn typedef_decl(&mut self, annotations: Annotations, start: Span) -> ParseResult<TypedefDecl> {
        let is_new = self.is(Tok::Type);
        self.bump();
        let inner_start = self.span();
        let inner_annotations = if is_new { Vec::new() } else { self.parse_annotations()? };
        let (ty, name) = match self.kind() {
            Tok::Struct | Tok::Header | Tok::HeaderUnion if !is_new => {
                let declared = self.struct_decl(inner_annotations, inner_start)?;
                (TypedefTarget::Struct(Box::new(declared)), self.parse_name()?)
            }
            Tok::Enum if !is_new => {
                let declared = self.enum_decl(inner_annotations, inner_start)?;
                (TypedefTarget::Enum(Box::new(declared)), self.parse_name()?)
            }
            _ => {
                let ty = self.parse_type()?;
                let (ty, name) = self.parse_declarator(ty)?;
                (TypedefTarget::Type(ty), name)
            }
        };
        self.expect(Tok::Semi)?;
        self.scopes.declare(&name.name, NameKind::Type);
        Ok(TypedefDecl { annotations, is_new, ty, name, span: self.span_since(start) })
    }
}
