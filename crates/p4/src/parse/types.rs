//! Parses types.

use super::cursor::{P4Parser, ParseResult};
use super::scope::NameKind;
use crate::ast::{Expr, Ident, Path, Type, TypeKind, TypeParam};
use crate::diag::Diagnostic;
use crate::lex::Tok;

impl P4Parser<'_> {
    /// Parses a type and reports unknown type names.
    pub fn parse_type(&mut self) -> ParseResult<Type> {
        let mark = self.unknown_types.len();
        let ty = self.parse_type_deferred();
        self.report_unknown_types(mark, &[]);
        ty
    }

    /// Parses the result type of a function: a type or `void`. Collects unknown names, because type
    /// parameters that declare them can follow.
    pub fn parse_result_type(&mut self) -> ParseResult<Type> {
        if self.is(Tok::Void) {
            return Ok(Type { kind: TypeKind::Void, span: self.bump() });
        }
        self.parse_type_deferred()
    }

    fn parse_type_deferred(&mut self) -> ParseResult<Type> {
        self.parse_nested(|p| {
            let start = p.span();
            let mut ty = p.parse_base_type()?;
            while p.is(Tok::LBracket) {
                let element = p.height;
                p.bump();
                let size = Box::new(p.parse_expr()?);
                p.expect(Tok::RBracket)?;
                let span = p.span_since(start);
                p.set_height_above(element.max(p.height), span)?;
                ty = Type { kind: TypeKind::Stack { element: Box::new(ty), size }, span };
            }
            Ok(ty)
        })
    }

    /// Parses `name[size]` after `T`, an array notation from C for `T[size] name`.
    pub fn parse_declarator(&mut self, mut ty: Type) -> ParseResult<(Type, Ident)> {
        let name = self.parse_name()?;
        let mut height = self.height;
        while self.is(Tok::LBracket) {
            self.bump();
            let size = Box::new(self.parse_expr()?);
            self.expect(Tok::RBracket)?;
            let span = self.span_since(ty.span);
            height = height.max(self.height);
            self.set_height_above(height, span)?;
            height = self.height;
            ty = Type { kind: TypeKind::Stack { element: Box::new(ty), size }, span };
        }
        Ok((ty, name))
    }

    /// Parses a type without the array suffixes of stacks. `void` is an error, because only results
    /// have that type.
    fn parse_base_type(&mut self) -> ParseResult<Type> {
        self.height = 1;
        let start = self.span();
        let one_token = |p: &mut Self, kind| {
            p.bump();
            Ok(Type { kind, span: start })
        };
        match self.kind() {
            Tok::Bool => one_token(self, TypeKind::Bool),
            Tok::Error => one_token(self, TypeKind::Error),
            Tok::MatchKind => one_token(self, TypeKind::MatchKind),
            Tok::String => one_token(self, TypeKind::String),
            Tok::Bit | Tok::IntType | Tok::Varbit => self.parse_sized_type(),
            Tok::Tuple => {
                self.bump();
                if !self.is(Tok::Lt) {
                    return self.fail_expected("`<`");
                }
                let args = self.parse_type_args()?;
                Ok(Type { kind: TypeKind::Tuple(args), span: self.span_since(start) })
            }
            Tok::List if self.kind_at(1) == Tok::Lt => {
                self.bump();
                let mut args = self.parse_type_args()?;
                let span = self.span_since(start);
                match (args.pop(), args.is_empty()) {
                    (Some(element), true) => Ok(Type { kind: TypeKind::List(Box::new(element)), span }),
                    _ => self.fail_with(Diagnostic::error("syntax", span, "`list` takes one type argument")),
                }
            }
            Tok::Dot => self.parse_named_type(),
            _ if self.is_name_at(0) => self.parse_named_type(),
            Tok::Void => {
                let diagnostic = Diagnostic::error("syntax", start, "`void` is not the type of a value");
                self.fail_with(diagnostic.help("it is only the result type of a function or method"))
            }
            _ => self.fail_expected("a type"),
        }
    }

    /// Parses `bit<W>`, `int<W>`, `varbit<W>`, `bit` or `int`.
    fn parse_sized_type(&mut self) -> ParseResult<Type> {
        let start = self.span();
        let keyword = self.kind();
        self.bump();
        let width = if self.is(Tok::Lt) { Some(Box::new(self.parse_width()?)) } else { None };
        let kind = match (keyword, width) {
            (Tok::Bit, width) => TypeKind::Bit(width),
            (Tok::IntType, Some(width)) => TypeKind::Int(width),
            (Tok::IntType, None) => TypeKind::InfInt,
            (_, Some(width)) => TypeKind::Varbit(width),
            (_, None) => return self.fail_expected("`<` and the greatest width"),
        };
        Ok(Type { kind, span: self.span_since(start) })
    }

    /// Parses `<W>` or `<(W)>`.
    fn parse_width(&mut self) -> ParseResult<Expr> {
        self.expect(Tok::Lt)?;
        let outer = std::mem::replace(&mut self.is_gt_closing, true);
        let width = self.parse_expr();
        self.is_gt_closing = outer;
        let width = width?;
        self.expect(Tok::Gt)?;
        self.set_height_above(self.height, width.span)?;
        Ok(width)
    }

    fn parse_named_type(&mut self) -> ParseResult<Type> {
        let path = self.parse_path()?;
        if self.scopes.lookup(path.as_str(), path.is_absolute) != Some(NameKind::Type) {
            self.unknown_types.push(path.name.clone());
        }
        let span = path.span;
        if !self.is(Tok::Lt) {
            return Ok(Type { kind: TypeKind::Name(path), span });
        }
        let args = self.parse_type_args()?;
        Ok(Type { kind: TypeKind::Specialized { base: path, args }, span: self.span_since(span) })
    }

    /// Parses `name` or `.name`.
    pub fn parse_path(&mut self) -> ParseResult<Path> {
        let start = self.span();
        let absolute = self.eat(Tok::Dot);
        let name = self.parse_name()?;
        Ok(Path { is_absolute: absolute, name, span: self.span_since(start) })
    }

    /// Parses `<A, B>`; sets the height.
    pub fn parse_type_args(&mut self) -> ParseResult<Vec<Type>> {
        let start = self.expect(Tok::Lt)?;
        let outer = std::mem::replace(&mut self.is_gt_closing, false);
        let mut height = 0;
        let args = self.parse_comma_list(Tok::Gt, false, |p| {
            let arg = p.parse_type_arg()?;
            height = height.max(p.height);
            Ok(arg)
        })?;
        self.is_gt_closing = outer;
        let span = self.span_since(start);
        self.set_height_above(height, span)?;
        Ok(args)
    }

    fn parse_type_arg(&mut self) -> ParseResult<Type> {
        self.height = 1;
        match self.kind() {
            Tok::Void => Ok(Type { kind: TypeKind::Void, span: self.bump() }),
            Tok::Underscore => Ok(Type { kind: TypeKind::DontCare, span: self.bump() }),
            _ => self.parse_type_deferred(),
        }
    }

    /// Parses the optional `<A, B>` after the name of a generic declaration and declares the names
    /// in the open scope.
    pub fn parse_type_params(&mut self) -> ParseResult<Vec<TypeParam>> {
        if !self.is(Tok::Lt) {
            return Ok(Vec::new());
        }
        let start = self.bump();
        let params = self.parse_comma_list(Tok::Gt, false, Self::parse_name)?;
        if params.is_empty() {
            let span = self.span_since(start);
            return self.fail_with(Diagnostic::error(
                "syntax",
                span,
                "there are no type parameters between `<` and `>`",
            ));
        }
        for param in &params {
            self.scopes.declare(&param.name, NameKind::Type);
        }
        Ok(params)
    }

    /// Returns whether the token `ahead` tokens after the current one is the name of a type.
    pub fn is_type_name_at(&self, ahead: usize) -> bool {
        if self.kind_at(ahead) == Tok::Dot {
            return self.is_name_at(ahead + 1)
                && self.scopes.lookup(&self.peek_at(ahead + 1).text, true) == Some(NameKind::Type);
        }
        self.is_name_at(ahead) && self.scopes.lookup(&self.peek_at(ahead).text, false) == Some(NameKind::Type)
    }

    /// Returns whether a type begins here, as opposed to a value.
    pub fn at_type(&self) -> bool {
        match self.kind() {
            Tok::Bool | Tok::Error | Tok::MatchKind | Tok::String | Tok::Bit | Tok::IntType | Tok::Varbit => true,
            Tok::Tuple | Tok::Void => true,
            Tok::List => self.kind_at(1) == Tok::Lt,
            _ => self.is_type_name_at(0),
        }
    }
}
