//! Types.

use super::cursor::{Parse, Parser};
use super::scope::NameKind;
use crate::ast::{Expr, Ident, Path, Type, TypeKind, TypeParam};
use crate::diag::Diagnostic;
use crate::lex::Tok;

impl Parser<'_> {
    /// A type; names that are no types are reported.
    pub fn ty(&mut self) -> Parse<Type> {
        let mark = self.unknown_types.len();
        let ty = self.ty_deferred();
        self.settle_unknown_types(mark, &[]);
        ty
    }

    /// A type or `void`, as the result of a function; unknown names are collected, since the type parameters that
    /// declare them follow.
    pub fn result_type(&mut self) -> Parse<Type> {
        if self.is(Tok::Void) {
            return Ok(Type { kind: TypeKind::Void, span: self.bump() });
        }
        self.ty_deferred()
    }

    fn ty_deferred(&mut self) -> Parse<Type> {
        self.nested(|p| {
            let start = p.span();
            let mut ty = p.base_type()?;
            while p.is(Tok::LBracket) {
                let element = p.height;
                p.bump();
                let size = Box::new(p.expr()?);
                p.expect(Tok::RBracket)?;
                let span = p.since(start);
                p.grow(element.max(p.height), span)?;
                ty = Type { kind: TypeKind::Stack { element: Box::new(ty), size }, span };
            }
            Ok(ty)
        })
    }

    /// The rest of `T name[size]`, which C programmers write for `T[size] name`.
    pub fn declarator(&mut self, mut ty: Type) -> Parse<(Type, Ident)> {
        let name = self.name()?;
        let mut height = self.height;
        while self.is(Tok::LBracket) {
            self.bump();
            let size = Box::new(self.expr()?);
            self.expect(Tok::RBracket)?;
            let span = self.since(ty.span);
            height = height.max(self.height);
            self.grow(height, span)?;
            height = self.height;
            ty = Type { kind: TypeKind::Stack { element: Box::new(ty), size }, span };
        }
        Ok((ty, name))
    }

    fn base_type(&mut self) -> Parse<Type> {
        self.height = 1;
        let start = self.span();
        let simple = |p: &mut Self, kind| {
            p.bump();
            Ok(Type { kind, span: start })
        };
        match self.kind() {
            Tok::Bool => simple(self, TypeKind::Bool),
            Tok::Error => simple(self, TypeKind::Error),
            Tok::MatchKind => simple(self, TypeKind::MatchKind),
            Tok::String => simple(self, TypeKind::String),
            Tok::Bit | Tok::IntType | Tok::Varbit => self.sized_type(),
            Tok::Tuple => {
                self.bump();
                if !self.is(Tok::Lt) {
                    return self.fail_expected("`<`");
                }
                let args = self.type_args()?;
                Ok(Type { kind: TypeKind::Tuple(args), span: self.since(start) })
            }
            Tok::List if self.kind_at(1) == Tok::Lt => {
                self.bump();
                let mut args = self.type_args()?;
                let span = self.since(start);
                match (args.pop(), args.is_empty()) {
                    (Some(element), true) => Ok(Type { kind: TypeKind::List(Box::new(element)), span }),
                    _ => self.fail_with(Diagnostic::error("syntax", span, "`list` takes one type argument")),
                }
            }
            Tok::Dot => self.named_type(),
            _ if self.is_name_at(0) => self.named_type(),
            Tok::Void => {
                let diagnostic = Diagnostic::error("syntax", start, "`void` is no type of a value");
                self.fail_with(diagnostic.help("it is only the result type of a function or method"))
            }
            _ => self.fail_expected("a type"),
        }
    }

    /// `bit<W>`, `int<W>`, `varbit<W>`, `bit`, `int`.
    fn sized_type(&mut self) -> Parse<Type> {
        let start = self.span();
        let keyword = self.kind();
        self.bump();
        let width = if self.is(Tok::Lt) { Some(Box::new(self.width()?)) } else { None };
        let kind = match (keyword, width) {
            (Tok::Bit, width) => TypeKind::Bit(width),
            (Tok::IntType, Some(width)) => TypeKind::Int(width),
            (Tok::IntType, None) => TypeKind::InfInt,
            (_, Some(width)) => TypeKind::Varbit(width),
            (_, None) => return self.fail_expected("`<` and the greatest width"),
        };
        Ok(Type { kind, span: self.since(start) })
    }

    /// `<W>` or `<(W)>`.
    fn width(&mut self) -> Parse<Expr> {
        self.expect(Tok::Lt)?;
        let outer = std::mem::replace(&mut self.gt_closes, true);
        let width = self.expr();
        self.gt_closes = outer;
        let width = width?;
        self.expect(Tok::Gt)?;
        self.grow(self.height, width.span)?;
        Ok(width)
    }

    fn named_type(&mut self) -> Parse<Type> {
        let path = self.path()?;
        if self.scopes.lookup(path.as_str(), path.absolute) != Some(NameKind::Type) {
            self.unknown_types.push(path.name.clone());
        }
        let span = path.span;
        if !self.is(Tok::Lt) {
            return Ok(Type { kind: TypeKind::Name(path), span });
        }
        let args = self.type_args()?;
        Ok(Type { kind: TypeKind::Specialized { base: path, args }, span: self.since(span) })
    }

    /// `name` or `.name`.
    pub fn path(&mut self) -> Parse<Path> {
        let start = self.span();
        let absolute = self.eat(Tok::Dot);
        let name = self.name()?;
        Ok(Path { absolute, name, span: self.since(start) })
    }

    /// `<A, B>`; sets the height.
    pub fn type_args(&mut self) -> Parse<Vec<Type>> {
        let start = self.expect(Tok::Lt)?;
        let outer = std::mem::replace(&mut self.gt_closes, false);
        let mut height = 0;
        let args = self.comma_list(Tok::Gt, false, |p| {
            let arg = p.type_arg()?;
            height = height.max(p.height);
            Ok(arg)
        })?;
        self.gt_closes = outer;
        let span = self.since(start);
        self.grow(height, span)?;
        Ok(args)
    }

    fn type_arg(&mut self) -> Parse<Type> {
        self.height = 1;
        match self.kind() {
            Tok::Void => Ok(Type { kind: TypeKind::Void, span: self.bump() }),
            Tok::Underscore => Ok(Type { kind: TypeKind::DontCare, span: self.bump() }),
            _ => self.ty_deferred(),
        }
    }

    /// `<A, B>` after the name of a generic declaration, if it is there; declares the names in the open scope.
    pub fn type_params(&mut self) -> Parse<Vec<TypeParam>> {
        if !self.is(Tok::Lt) {
            return Ok(Vec::new());
        }
        let start = self.bump();
        let params = self.comma_list(Tok::Gt, false, Self::name)?;
        if params.is_empty() {
            let span = self.since(start);
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

    /// Whether the token `ahead` tokens from here is a name that is a type here.
    pub fn is_type_name_at(&self, ahead: usize) -> bool {
        if self.kind_at(ahead) == Tok::Dot {
            return self.is_name_at(ahead + 1)
                && self.scopes.lookup(&self.peek_at(ahead + 1).text, true) == Some(NameKind::Type);
        }
        self.is_name_at(ahead) && self.scopes.lookup(&self.peek_at(ahead).text, false) == Some(NameKind::Type)
    }

    /// Whether a type begins here, as opposed to a value.
    pub fn at_type(&self) -> bool {
        match self.kind() {
            Tok::Bool | Tok::Error | Tok::MatchKind | Tok::String | Tok::Bit | Tok::IntType | Tok::Varbit => true,
            Tok::Tuple | Tok::Void => true,
            Tok::List => self.kind_at(1) == Tok::Lt,
            _ => self.is_type_name_at(0),
        }
    }
}
