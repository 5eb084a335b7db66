//! Expressions: prefix and infix operators, and what stands alone.

use super::cursor::{Parse, Parser};
use crate::ast::{BinaryOp, Expr, ExprKind, Ident, NamedExpr, Type, TypeKind, UnaryOp};
use crate::diag::Diagnostic;
use crate::lex::{Tok, parse_integer};
use crate::span::Span;

impl Parser<'_> {
    /// An expression.
    pub fn expr(&mut self) -> Parse<Expr> {
        self.nested(|p| {
            let first = p.unary()?;
            p.expr_from(first)
        })
    }

    /// The expression that goes on after `first`.
    pub fn expr_from(&mut self, first: Expr) -> Parse<Expr> {
        let condition = self.infix_from(first, 0)?;
        if !self.is(Tok::Question) {
            return Ok(condition);
        }
        let mut height = self.height;
        self.bump();
        let yes = Box::new(self.expr()?);
        height = height.max(self.height);
        self.expect(Tok::Colon)?;
        let no = Box::new(self.expr()?);
        height = height.max(self.height);
        let span = condition.span.to(no.span);
        self.grow(height, span)?;
        Ok(Expr { kind: ExprKind::Mux { condition: Box::new(condition), yes, no }, span })
    }

    /// Infix operators that bind at least as tight as `min`, with `left` as the first operand; all are left-associative.
    fn infix_from(&mut self, mut left: Expr, min: u8) -> Parse<Expr> {
        while let Some((op, level, width)) = self.infix_operator().filter(|(_, level, _)| *level >= min) {
            let left_height = self.height;
            let mut op_span = self.bump();
            for _ in 1..width {
                op_span = op_span.to(self.bump());
            }
            let right = self.nested(|p| {
                let operand = p.unary()?;
                p.infix_from(operand, level + 1)
            })?;
            let span = left.span.to(right.span);
            self.grow(left_height.max(self.height), span)?;
            let kind = ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) };
            left = Expr { kind, span };
        }
        Ok(left)
    }

    /// The infix operator here, how tight it binds, and how many tokens it is. `&&&` and `..` are not among them: they
    /// are of key sets.
    fn infix_operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let op = match self.kind() {
            Tok::BarBar => (BinaryOp::Or, 1),
            Tok::AmpAmp => (BinaryOp::And, 2),
            Tok::EqEq => (BinaryOp::Eq, 3),
            Tok::Ne => (BinaryOp::Ne, 3),
            Tok::Lt => (BinaryOp::Lt, 4),
            Tok::Le => (BinaryOp::Le, 4),
            Tok::Ge => (BinaryOp::Ge, 4),
            Tok::Gt if self.gt_closes => return None,
            Tok::Gt if self.kind_at(1) == Tok::Gt && !self.peek_at(1).spaced => return Some((BinaryOp::Shr, 8, 2)),
            // `>>=` is an assignment.
            Tok::Gt if self.kind_at(1) == Tok::Ge && !self.peek_at(1).spaced => return None,
            Tok::Gt => (BinaryOp::Gt, 4),
            Tok::Bar => (BinaryOp::BitOr, 5),
            Tok::Caret => (BinaryOp::BitXor, 6),
            Tok::Amp => (BinaryOp::BitAnd, 7),
            Tok::Shl => (BinaryOp::Shl, 8),
            Tok::PlusPlus => (BinaryOp::Concat, 9),
            Tok::Plus => (BinaryOp::Add, 9),
            Tok::Minus => (BinaryOp::Sub, 9),
            Tok::PlusSat => (BinaryOp::AddSat, 9),
            Tok::MinusSat => (BinaryOp::SubSat, 9),
            Tok::Star => (BinaryOp::Mul, 10),
            Tok::Slash => (BinaryOp::Div, 10),
            Tok::Percent => (BinaryOp::Mod, 10),
            _ => return None,
        };
        Some((op.0, op.1, 1))
    }

    /// An operand with its prefix operators and suffixes.
    pub fn unary(&mut self) -> Parse<Expr> {
        let op = match self.kind() {
            Tok::Not => UnaryOp::Not,
            Tok::Tilde => UnaryOp::BitNot,
            Tok::Minus => UnaryOp::Neg,
            Tok::Plus => UnaryOp::Plus,
            _ => {
                let first = self.primary()?;
                return self.postfix(first, false);
            }
        };
        let start = self.bump();
        let operand = self.nested(Self::unary)?;
        let span = start.to(operand.span);
        self.grow(self.height, span)?;
        Ok(Expr { kind: ExprKind::Unary { op, operand: Box::new(operand) }, span })
    }

    /// What an expression can begin with, without suffixes. A cast is one, with its operand.
    pub fn primary(&mut self) -> Parse<Expr> {
        self.height = 1;
        let span = self.span();
        let simple = |p: &mut Self, kind| {
            p.bump();
            Ok(Expr { kind, span })
        };
        match self.kind() {
            Tok::Int => self.integer(),
            Tok::Str => {
                let text = self.token().text.clone();
                let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(&text);
                let kind = ExprKind::Str(inner.into());
                simple(self, kind)
            }
            Tok::True => simple(self, ExprKind::Bool(true)),
            Tok::False => simple(self, ExprKind::Bool(false)),
            Tok::This => simple(self, ExprKind::This),
            Tok::Dots => simple(self, ExprKind::Dots),
            Tok::InvalidHeader => simple(self, ExprKind::InvalidHeader),
            Tok::LBrace => self.initializer_list(),
            Tok::LParen => self.parenthesised(),
            _ if self.at_type() => {
                let ty = self.ty()?;
                self.type_in_expr(ty)
            }
            Tok::Dot => self.name_expr(),
            _ if self.is_name_at(0) && !self.is(Tok::List) => self.name_expr(),
            Tok::Underscore => {
                let diagnostic = Diagnostic::error("syntax", span, "`_` stands for no value here");
                self.fail_with(diagnostic.help("it is only an argument for an `out` parameter, or a key set"))
            }
            _ => self.fail_expected("an expression"),
        }
    }

    fn name_expr(&mut self) -> Parse<Expr> {
        let path = self.path()?;
        let span = path.span;
        Ok(Expr { kind: ExprKind::Name(path), span })
    }

    fn integer(&mut self) -> Parse<Expr> {
        let span = self.span();
        match parse_integer(&self.token().text) {
            Ok(literal) => {
                self.bump();
                Ok(Expr { kind: ExprKind::Int(literal), span })
            }
            Err(error) => {
                let message = format!("`{}` is no integer: {error}", shortened(&self.token().text));
                let help = "integers are written 42, 0x2A, 0b10, 0o7, 8w42 (bit<8>), 8s42 (int<8>)";
                self.report(Diagnostic::error("bad-integer", span, message).help(help));
                self.bump();
                Ok(Expr { kind: ExprKind::Error, span })
            }
        }
    }

    /// `(expr)` or `(type) operand`.
    fn parenthesised(&mut self) -> Parse<Expr> {
        let start = self.expect(Tok::LParen)?;
        let outer = std::mem::replace(&mut self.gt_closes, false);
        let inner = self.nested(|p| {
            if !p.at_type() && !p.at_cast_to_unknown() {
                return p.expr().map(Ok);
            }
            let ty = p.ty()?;
            if p.is(Tok::RParen) {
                return Ok(Err(ty));
            }
            p.expr_from_type(ty).map(Ok)
        });
        self.gt_closes = outer;
        let inner = inner?;
        self.expect(Tok::RParen)?;
        match inner {
            Ok(expr) => Ok(Expr { kind: expr.kind, span: self.since(start) }),
            Err(ty) => self.cast_operand(start, ty),
        }
    }

    /// Whether `T) value` is here, with an unknown `T`: nothing else than a cast can be meant.
    fn at_cast_to_unknown(&self) -> bool {
        self.is(Tok::Ident)
            && self.scopes.lookup(&self.token().text, false).is_none()
            && self.kind_at(1) == Tok::RParen
            && matches!(self.kind_at(2), Tok::Ident | Tok::Int | Tok::True | Tok::False)
    }

    /// The operand of a cast to `ty`, whose parenthesis opened at `start` and has been closed.
    pub fn cast_operand(&mut self, start: Span, ty: Type) -> Parse<Expr> {
        let height = self.height;
        let operand = self.nested(Self::unary)?;
        let span = start.to(operand.span);
        self.grow(height.max(self.height), span)?;
        Ok(Expr { kind: ExprKind::Cast { ty: Box::new(ty), operand: Box::new(operand) }, span })
    }

    /// The expression that begins with the type `ty`.
    pub fn expr_from_type(&mut self, ty: Type) -> Parse<Expr> {
        let first = self.type_in_expr(ty)?;
        let first = self.postfix(first, false)?;
        self.expr_from(first)
    }

    /// `T.member` (of which the suffixes are parsed later) or `T(args)`, of which `T` has been parsed.
    pub fn type_in_expr(&mut self, ty: Type) -> Parse<Expr> {
        let span = ty.span;
        match self.kind() {
            Tok::Dot => Ok(Expr { kind: ExprKind::Type(Box::new(ty)), span }),
            Tok::LParen if matches!(ty.kind, TypeKind::Name(_) | TypeKind::Specialized { .. }) => {
                let height = self.height;
                let args = self.args()?;
                let span = self.since(span);
                self.grow(height.max(self.height), span)?;
                Ok(Expr { kind: ExprKind::Construct { ty: Box::new(ty), args }, span })
            }
            _ => {
                let text = self.map.text(span).to_owned();
                let message =
                    format!("expected a value, but `{text}` is a type; found {} after it", self.token().describe());
                self.fail_with(
                    Diagnostic::error("syntax", self.span(), message)
                        .label(span, "a type")
                        .help(format!("a cast is written `({text}) value`")),
                )
            }
        }
    }

    /// `{a, b}`, `{x = a, y = b}`, `{...}`
    fn initializer_list(&mut self) -> Parse<Expr> {
        self.nested(|p| {
            let start = p.expect(Tok::LBrace)?;
            let outer = std::mem::replace(&mut p.gt_closes, false);
            let named = p.is_name_at(0) && p.kind_at(1) == Tok::Assign;
            let kind = if named { p.struct_fields()? } else { p.list_elements()? };
            p.gt_closes = outer;
            let span = p.since(start);
            p.grow(p.height, span)?;
            Ok(Expr { kind, span })
        })
    }

    fn list_elements(&mut self) -> Parse<ExprKind> {
        let mut height = 0;
        let elements = self.comma_list(Tok::RBrace, true, |p| {
            let element = p.expr()?;
            height = height.max(p.height);
            Ok(element)
        })?;
        self.height = height;
        Ok(ExprKind::List(elements))
    }

    fn struct_fields(&mut self) -> Parse<ExprKind> {
        let mut height = 0;
        let mut rest = None;
        let fields = self.comma_list(Tok::RBrace, true, |p| {
            if let Some(dots) = rest {
                return p.fail_with(Diagnostic::error("syntax", dots, "`...` must come last"));
            }
            if p.is(Tok::Dots) {
                rest = Some(p.bump());
                return Ok(None);
            }
            let field = p.named_expr()?;
            height = height.max(p.height);
            Ok(Some(field))
        })?;
        self.height = height;
        Ok(ExprKind::Struct { fields: fields.into_iter().flatten().collect(), rest })
    }

    /// `name = expr`
    pub fn named_expr(&mut self) -> Parse<NamedExpr> {
        let name: Ident = self.name()?;
        self.expect(Tok::Assign)?;
        let value = self.expr()?;
        let span = name.span.to(value.span);
        Ok(NamedExpr { name, value, span })
    }
}

/// The start of a text that may be long.
fn shortened(text: &str) -> String {
    if text.len() <= 40 { text.to_owned() } else { format!("{}...", &text[..40]) }
}
