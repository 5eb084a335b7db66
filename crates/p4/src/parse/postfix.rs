//! Parses suffixes of expressions (members, indices, slices, calls) and the arguments of calls.

use super::cursor::{P4Parser, ParseResult};
use super::scope::NameKind;
use crate::ast::{Arg, Expr, ExprKind, Type};
use crate::lex::Tok;

impl P4Parser<'_> {
    /// Parses all suffixes of `expr`. At the start of a statement (`in_statement`), `<` always
    /// begins type arguments, because no comparison can occur there. The height of the expression
    /// tree is tracked, because it is limited.
    pub fn parse_suffixes(&mut self, mut expr: Expr, in_statement: bool) -> ParseResult<Expr> {
        loop {
            let height = self.height;
            let start = expr.span;
            let kind = match self.kind() {
                Tok::Dot => {
                    self.bump();
                    let member = self.parse_name()?;
                    self.height = 0;
                    ExprKind::Member { base: Box::new(expr), member }
                }
                Tok::LBracket => self.parse_subscript(expr)?,
                Tok::LParen => {
                    let args = self.parse_args()?;
                    ExprKind::Call { callee: Box::new(expr), type_args: Vec::new(), args }
                }
                Tok::Lt if in_statement || self.angle_begins_type_args(&expr) => {
                    let type_args = self.parse_call_type_args(&expr)?;
                    let types_height = self.height;
                    let args = self.parse_args()?;
                    self.height = self.height.max(types_height);
                    ExprKind::Call { callee: Box::new(expr), type_args, args }
                }
                _ => return Ok(expr),
            };
            let span = self.span_since(start);
            self.set_height_above(height.max(self.height), span)?;
            expr = Expr { kind, span };
        }
    }

    /// Parses `[index]`, `[hi:lo]` or `[lo+:width]` after `base`. Sets the parser's height to that
    /// of the bracketed expressions.
    fn parse_subscript(&mut self, base: Expr) -> ParseResult<ExprKind> {
        let base = Box::new(base);
        self.expect(Tok::LBracket)?;
        // Within brackets, `>` is an operator, even in a list of type arguments.
        let was_gt_closing = std::mem::replace(&mut self.is_gt_closing, false);
        let first = Box::new(self.parse_expr()?);
        let height = self.height;
        let kind = match self.kind() {
            Tok::Colon => {
                self.bump();
                let lo = Box::new(self.parse_expr()?);
                ExprKind::Slice { base, hi: first, lo }
            }
            Tok::PlusColon => {
                self.bump();
                let width = Box::new(self.parse_expr()?);
                ExprKind::PlusSlice { base, lo: first, width }
            }
            _ => ExprKind::Index { base, index: first },
        };
        self.is_gt_closing = was_gt_closing;
        self.height = self.height.max(height);
        self.expect(Tok::RBracket)?;
        Ok(kind)
    }

    /// Returns whether `<` after `callee` begins type arguments, as opposed to a comparison. It
    /// does if a type follows that does not itself begin a value (`a < E.x`).
    fn angle_begins_type_args(&self, callee: &Expr) -> bool {
        let is_generic = match &callee.kind {
            ExprKind::Name(path) => {
                self.scopes.lookup(path.as_str(), path.is_absolute) == Some(NameKind::GenericFunction)
            }
            ExprKind::Member { .. } => false,
            _ => return false,
        };
        if is_generic {
            return true;
        }
        match self.kind_at(1) {
            Tok::Bit | Tok::IntType | Tok::Varbit | Tok::Bool | Tok::String | Tok::Tuple | Tok::Void => true,
            Tok::List => self.kind_at(2) == Tok::Lt,
            Tok::MatchKind | Tok::Underscore => true,
            Tok::Error => self.kind_at(2) != Tok::Dot,
            Tok::Dot => self.is_type_name_at(1) && !matches!(self.kind_at(3), Tok::Dot | Tok::LParen),
            _ if self.is_type_name_at(1) => !matches!(self.kind_at(2), Tok::Dot | Tok::LParen),
            // `f<T>(x)` with an unknown type `T`. The alternative, a comparison of comparisons,
            // would be an error as well.
            Tok::Ident => {
                let is_unknown = self.scopes.lookup(&self.peek_at(1).text, false).is_none();
                is_unknown
                    && self.kind_at(2) == Tok::Gt
                    && self.kind_at(3) == Tok::LParen
                    && !self.peek_at(3).has_space_before
            }
            _ => false,
        }
    }

    /// Parses `<A, B>` before the arguments of a call.
    fn parse_call_type_args(&mut self, callee: &Expr) -> ParseResult<Vec<Type>> {
        let mark = self.unknown_types.len();
        let args = self.parse_type_args();
        // `Foo<bit<8>> x;` with an unknown type `Foo` looks like a call up to this point.
        if let ExprKind::Name(path) = &callee.kind
            && args.is_ok()
            && self.is_name_at(0)
        {
            self.unknown_types.truncate(mark);
            return self.fail_unknown_type(&path.name);
        }
        self.report_unknown_types(mark, &[]);
        args
    }

    /// Parses `(a, name = b, _)`; sets the height.
    pub fn parse_args(&mut self) -> ParseResult<Vec<Arg>> {
        self.parse_nested(|p| {
            p.expect(Tok::LParen)?;
            let outer = std::mem::replace(&mut p.is_gt_closing, false);
            let mut height = 0;
            let args = p.parse_comma_list(Tok::RParen, false, |p| {
                let arg = p.parse_arg()?;
                height = height.max(p.height);
                Ok(arg)
            })?;
            p.is_gt_closing = outer;
            p.height = height;
            Ok(args)
        })
    }

    fn parse_arg(&mut self) -> ParseResult<Arg> {
        let start = self.span();
        let named = self.is_name_at(0) && self.kind_at(1) == Tok::Assign;
        let name = if named {
            let name = self.parse_name()?;
            self.bump();
            Some(name)
        } else {
            None
        };
        let value = if self.is(Tok::Underscore) {
            self.height = 1;
            Expr { kind: ExprKind::DontCare, span: self.bump() }
        } else {
            self.parse_expr()?
        };
        Ok(Arg { name, value, span: self.span_since(start) })
    }
}
