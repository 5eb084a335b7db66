//! Parses expressions: prefix and infix operators, and primary expressions.

use super::cursor::{P4Parser, ParseResult};
use crate::ast::{BinaryOp, Expr, ExprKind, Ident, NamedExpr, Type, TypeKind, UnaryOp};
use crate::diag::Diagnostic;
use crate::lex::{Tok, parse_integer};
use crate::span::Span;

impl P4Parser<'_> {
    /// Parses an expression.
    pub fn parse_expr(&mut self) -> ParseResult<Expr> {
        self.parse_nested(|p| {
            let first = p.parse_unary()?;
            p.parse_expr_after(first)
        })
    }

    /// Parses the remaining expression after its operand `first`.
    pub fn parse_expr_after(&mut self, first: Expr) -> ParseResult<Expr> {
        let condition = self.parse_infix_after(first, 0)?;
        if !self.is(Tok::Question) {
            return Ok(condition);
        }
        let mut height = self.height;
        self.bump();
        let yes = Box::new(self.parse_expr()?);
        height = height.max(self.height);
        self.expect(Tok::Colon)?;
        let no = Box::new(self.parse_expr()?);
        height = height.max(self.height);
        let span = condition.span.to(no.span);
        self.set_height_above(height, span)?;
        Ok(Expr { kind: ExprKind::Mux { condition: Box::new(condition), yes, no }, span })
    }

    /// Parses infix operators with precedence `min` or higher, with `left` as the first operand.
    /// All are left-associative.
    fn parse_infix_after(&mut self, mut left: Expr, min: u8) -> ParseResult<Expr> {
        while let Some((op, level, width)) = self.infix_operator().filter(|(_, level, _)| *level >= min) {
            let left_height = self.height;
            let mut op_span = self.bump();
            for _ in 1..width {
                op_span = op_span.to(self.bump());
            }
            let right = self.parse_nested(|p| {
                let operand = p.parse_unary()?;
                p.parse_infix_after(operand, level + 1)
            })?;
            let span = left.span.to(right.span);
            self.set_height_above(left_height.max(self.height), span)?;
            let kind = ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) };
            left = Expr { kind, span };
        }
        Ok(left)
    }

    /// Returns the infix operator at the current position, its precedence, and its number of
    /// tokens. Excludes `&&&` and `..`, because they belong to key sets. A larger precedence binds
    /// tighter. `>>` is two tokens, because it can also close two lists of type arguments.
    fn infix_operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let op = match self.kind() {
            Tok::BarBar => (BinaryOp::Or, 1),
            Tok::AmpAmp => (BinaryOp::And, 2),
            Tok::EqEq => (BinaryOp::Eq, 3),
            Tok::Ne => (BinaryOp::Ne, 3),
            Tok::Lt => (BinaryOp::Lt, 4),
            Tok::Le => (BinaryOp::Le, 4),
            Tok::Ge => (BinaryOp::Ge, 4),
            Tok::Gt if self.is_gt_closing => return None,
            Tok::Gt if self.kind_at(1) == Tok::Gt && !self.peek_at(1).has_space_before => {
                return Some((BinaryOp::Shr, 8, 2));
            }
            // `>>=` is an assignment.
            Tok::Gt if self.kind_at(1) == Tok::Ge && !self.peek_at(1).has_space_before => return None,
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

    /// Parses an operand with its prefix operators and suffixes.
    pub fn parse_unary(&mut self) -> ParseResult<Expr> {
        let op = match self.kind() {
            Tok::Not => UnaryOp::Not,
            Tok::Tilde => UnaryOp::BitNot,
            Tok::Minus => UnaryOp::Neg,
            Tok::Plus => UnaryOp::Plus,
            _ => {
                let first = self.parse_primary()?;
                return self.parse_suffixes(first, false);
            }
        };
        let start = self.bump();
        let operand = self.parse_nested(Self::parse_unary)?;
        let span = start.to(operand.span);
        self.set_height_above(self.height, span)?;
        Ok(Expr { kind: ExprKind::Unary { op, operand: Box::new(operand) }, span })
    }

    /// Parses a primary expression without suffixes: a literal, a name, a list, or an expression in
    /// parentheses. A cast with its operand is one.
    pub fn parse_primary(&mut self) -> ParseResult<Expr> {
        self.height = 1;
        let span = self.span();
        let one_token = |p: &mut Self, kind| {
            p.bump();
            Ok(Expr { kind, span })
        };
        match self.kind() {
            Tok::Int => self.parse_integer_literal(),
            Tok::Str => {
                let text = self.token().text.clone();
                let unquoted = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(&text);
                let kind = ExprKind::Str(unquoted.into());
                one_token(self, kind)
            }
            Tok::True => one_token(self, ExprKind::Bool(true)),
            Tok::False => one_token(self, ExprKind::Bool(false)),
            Tok::This => one_token(self, ExprKind::This),
            Tok::Dots => one_token(self, ExprKind::Dots),
            Tok::InvalidHeader => one_token(self, ExprKind::InvalidHeader),
            Tok::LBrace => self.parse_initializer_list(),
            Tok::LParen => self.parse_parenthesised(),
            _ if self.at_type() => {
                let ty = self.parse_type()?;
                self.parse_type_suffix(ty)
            }
            Tok::Dot => self.parse_name_expr(),
            _ if self.is_name_at(0) && !self.is(Tok::List) => self.parse_name_expr(),
            Tok::Underscore => {
                let diagnostic = Diagnostic::error("syntax", span, "`_` is not a value here");
                self.fail_with(diagnostic.help("it is only an argument for an `out` parameter, or a key set"))
            }
            _ => self.fail_expected("an expression"),
        }
    }

    fn parse_name_expr(&mut self) -> ParseResult<Expr> {
        let path = self.parse_path()?;
        let span = path.span;
        Ok(Expr { kind: ExprKind::Name(path), span })
    }

    fn parse_integer_literal(&mut self) -> ParseResult<Expr> {
        let span = self.span();
        match parse_integer(&self.token().text) {
            Ok(literal) => {
                self.bump();
                Ok(Expr { kind: ExprKind::Int(literal), span })
            }
            Err(error) => {
                let message = format!("`{}` is not an integer: {error}", shorten_text(&self.token().text));
                let help = "integers are written 42, 0x2A, 0b10, 0o7, 8w42 (bit<8>), 8s42 (int<8>)";
                self.report(Diagnostic::error("bad-integer", span, message).help(help));
                self.bump();
                Ok(Expr { kind: ExprKind::Error, span })
            }
        }
    }

    /// Parses `(expr)` or `(type) operand`. A type that a member or a call follows begins an
    /// expression: `(E.member)`.
    fn parse_parenthesised(&mut self) -> ParseResult<Expr> {
        let start = self.expect(Tok::LParen)?;
        // Within parentheses, `>` is an operator, even in a list of type arguments.
        let was_gt_closing = std::mem::replace(&mut self.is_gt_closing, false);
        let expr_or_type = self.parse_nested(|p| {
            if !p.at_type() && !p.at_cast_to_unknown() {
                return p.parse_expr().map(Ok);
            }
            let ty = p.parse_type()?;
            if p.is(Tok::RParen) {
                return Ok(Err(ty));
            }
            p.parse_expr_after_type(ty).map(Ok)
        });
        self.is_gt_closing = was_gt_closing;
        let expr_or_type = expr_or_type?;
        self.expect(Tok::RParen)?;
        match expr_or_type {
            Ok(expr) => Ok(Expr { kind: expr.kind, span: self.span_since(start) }),
            Err(ty) => self.parse_cast_operand(start, ty),
        }
    }

    /// Returns whether `T) value` with an unknown `T` follows, which can only be a cast.
    fn at_cast_to_unknown(&self) -> bool {
        self.is(Tok::Ident)
            && self.scopes.lookup(&self.token().text, false).is_none()
            && self.kind_at(1) == Tok::RParen
            && matches!(self.kind_at(2), Tok::Ident | Tok::Int | Tok::True | Tok::False)
    }

    /// Parses the operand of a cast to `ty` after the closing parenthesis. `start` is the opening
    /// one.
    pub fn parse_cast_operand(&mut self, start: Span, ty: Type) -> ParseResult<Expr> {
        let height = self.height;
        let operand = self.parse_nested(Self::parse_unary)?;
        let span = start.to(operand.span);
        self.set_height_above(height.max(self.height), span)?;
        Ok(Expr { kind: ExprKind::Cast { ty: Box::new(ty), operand: Box::new(operand) }, span })
    }

    /// Parses the remaining expression after the type `ty`.
    pub fn parse_expr_after_type(&mut self, ty: Type) -> ParseResult<Expr> {
        let first = self.parse_type_suffix(ty)?;
        let first = self.parse_suffixes(first, false)?;
        self.parse_expr_after(first)
    }

    /// Parses `T.member` (without its suffixes) or `T(args)` after the type `T`. A type alone is no
    /// value and is reported.
    pub fn parse_type_suffix(&mut self, ty: Type) -> ParseResult<Expr> {
        let span = ty.span;
        match self.kind() {
            Tok::Dot => Ok(Expr { kind: ExprKind::Type(Box::new(ty)), span }),
            Tok::LParen if matches!(ty.kind, TypeKind::Name(_) | TypeKind::Specialized { .. }) => {
                let height = self.height;
                let args = self.parse_args()?;
                let span = self.span_since(span);
                self.set_height_above(height.max(self.height), span)?;
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

    /// Parses `{a, b}`, `{x = a, y = b}` or `{...}`.
    fn parse_initializer_list(&mut self) -> ParseResult<Expr> {
        self.parse_nested(|p| {
            let start = p.expect(Tok::LBrace)?;
            let outer = std::mem::replace(&mut p.is_gt_closing, false);
            let named = p.is_name_at(0) && p.kind_at(1) == Tok::Assign;
            let kind = if named { p.struct_fields()? } else { p.list_elements()? };
            p.is_gt_closing = outer;
            let span = p.span_since(start);
            p.set_height_above(p.height, span)?;
            Ok(Expr { kind, span })
        })
    }

    fn list_elements(&mut self) -> ParseResult<ExprKind> {
        let mut height = 0;
        let elements = self.parse_comma_list(Tok::RBrace, true, |p| {
            let element = p.parse_expr()?;
            height = height.max(p.height);
            Ok(element)
        })?;
        self.height = height;
        Ok(ExprKind::List(elements))
    }

    fn struct_fields(&mut self) -> ParseResult<ExprKind> {
        let mut height = 0;
        let mut rest = None;
        let fields = self.parse_comma_list(Tok::RBrace, true, |p| {
            if let Some(dots) = rest {
                return p.fail_with(Diagnostic::error("syntax", dots, "`...` must come last"));
            }
            if p.is(Tok::Dots) {
                rest = Some(p.bump());
                return Ok(None);
            }
            let field = p.parse_named_expr()?;
            height = height.max(p.height);
            Ok(Some(field))
        })?;
        self.height = height;
        Ok(ExprKind::Struct { fields: fields.into_iter().flatten().collect(), rest })
    }

    /// Parses `name = expr`.
    pub fn parse_named_expr(&mut self) -> ParseResult<NamedExpr> {
        let name: Ident = self.parse_name()?;
        self.expect(Tok::Assign)?;
        let value = self.parse_expr()?;
        let span = name.span.to(value.span);
        Ok(NamedExpr { name, value, span })
    }
}

/// Returns the text, shortened to 40 bytes.
fn shorten_text(text: &str) -> String {
    if text.len() <= 40 { text.to_owned() } else { format!("{}...", &text[..40]) }
}
