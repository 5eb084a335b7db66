//! Suffixes of expressions: members, indices, slices, calls; and the arguments of calls.

use super::cursor::{Parse, Parser};
use super::scope::NameKind;
use crate::ast::{Arg, Expr, ExprKind, Type};
use crate::lex::Tok;

impl Parser<'_> {
    /// `expr` with all its suffixes. In front of a statement (`in_statement`) nothing is compared, so that `<` always
    /// begins type arguments.
    pub fn postfix(&mut self, mut expr: Expr, in_statement: bool) -> Parse<Expr> {
        loop {
            let height = self.height;
            let start = expr.span;
            let kind = match self.kind() {
                Tok::Dot => {
                    self.bump();
                    let member = self.name()?;
                    self.height = 0;
                    ExprKind::Member { base: Box::new(expr), member }
                }
                Tok::LBracket => self.subscript(expr)?,
                Tok::LParen => {
                    let args = self.args()?;
                    ExprKind::Call { callee: Box::new(expr), type_args: Vec::new(), args }
                }
                Tok::Lt if in_statement || self.angle_begins_type_args(&expr) => {
                    let type_args = self.call_type_args(&expr)?;
                    let types_height = self.height;
                    let args = self.args()?;
                    self.height = self.height.max(types_height);
                    ExprKind::Call { callee: Box::new(expr), type_args, args }
                }
                _ => return Ok(expr),
            };
            let span = self.since(start);
            self.grow(height.max(self.height), span)?;
            expr = Expr { kind, span };
        }
    }

    /// `[index]`, `[hi:lo]` or `[lo+:width]`; sets the height to that of what is in the brackets.
    fn subscript(&mut self, base: Expr) -> Parse<ExprKind> {
        let base = Box::new(base);
        self.expect(Tok::LBracket)?;
        let outer = std::mem::replace(&mut self.gt_closes, false);
        let first = Box::new(self.expr()?);
        let height = self.height;
        let kind = match self.kind() {
            Tok::Colon => {
                self.bump();
                let lo = Box::new(self.expr()?);
                ExprKind::Slice { base, hi: first, lo }
            }
            Tok::PlusColon => {
                self.bump();
                let width = Box::new(self.expr()?);
                ExprKind::PlusSlice { base, lo: first, width }
            }
            _ => ExprKind::Index { base, index: first },
        };
        self.gt_closes = outer;
        self.height = self.height.max(height);
        self.expect(Tok::RBracket)?;
        Ok(kind)
    }

    /// Whether `<` after `callee` begins type arguments, rather than being less-than. A type after it does, unless the
    /// type begins a value itself (`a < E.x`).
    fn angle_begins_type_args(&self, callee: &Expr) -> bool {
        let generic = match &callee.kind {
            ExprKind::Name(path) => self.scopes.lookup(path.as_str(), path.absolute) == Some(NameKind::GenericFunction),
            ExprKind::Member { .. } => false,
            _ => return false,
        };
        if generic {
            return true;
        }
        match self.kind_at(1) {
            Tok::Bit | Tok::IntType | Tok::Varbit | Tok::Bool | Tok::String | Tok::Tuple | Tok::Void => true,
            Tok::List => self.kind_at(2) == Tok::Lt,
            Tok::MatchKind | Tok::Underscore => true,
            Tok::Error => self.kind_at(2) != Tok::Dot,
            Tok::Dot => self.is_type_name_at(1) && !matches!(self.kind_at(3), Tok::Dot | Tok::LParen),
            _ if self.is_type_name_at(1) => !matches!(self.kind_at(2), Tok::Dot | Tok::LParen),
            // `f<T>(x)` with an unknown type `T`: a comparison of comparisons would be wrong as well.
            Tok::Ident => {
                let unknown = self.scopes.lookup(&self.peek_at(1).text, false).is_none();
                unknown && self.kind_at(2) == Tok::Gt && self.kind_at(3) == Tok::LParen && !self.peek_at(3).spaced
            }
            _ => false,
        }
    }

    /// `<A, B>` in front of a call's arguments.
    fn call_type_args(&mut self, callee: &Expr) -> Parse<Vec<Type>> {
        let mark = self.unknown_types.len();
        let args = self.type_args();
        // `Foo<bit<8>> x;` with an unknown type `Foo` looks like a call until here.
        if let ExprKind::Name(path) = &callee.kind
            && args.is_ok()
            && self.is_name_at(0)
        {
            self.unknown_types.truncate(mark);
            return self.fail_unknown_type(&path.name);
        }
        self.settle_unknown_types(mark, &[]);
        args
    }

    /// `(a, name = b, _)`; sets the height.
    pub fn args(&mut self) -> Parse<Vec<Arg>> {
        self.nested(|p| {
            p.expect(Tok::LParen)?;
            let outer = std::mem::replace(&mut p.gt_closes, false);
            let mut height = 0;
            let args = p.comma_list(Tok::RParen, false, |p| {
                let arg = p.arg()?;
                height = height.max(p.height);
                Ok(arg)
            })?;
            p.gt_closes = outer;
            p.height = height;
            Ok(args)
        })
    }

    fn arg(&mut self) -> Parse<Arg> {
        let start = self.span();
        let named = self.is_name_at(0) && self.kind_at(1) == Tok::Assign;
        let name = if named {
            let name = self.name()?;
            self.bump();
            Some(name)
        } else {
            None
        };
        let value = if self.is(Tok::Underscore) {
            self.height = 1;
            Expr { kind: ExprKind::DontCare, span: self.bump() }
        } else {
            self.expr()?
        };
        Ok(Arg { name, value, span: self.since(start) })
    }
}
