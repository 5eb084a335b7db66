//! Parses key sets of select cases and table entries.

use super::cursor::{P4Parser, ParseResult};
use crate::ast::{BinaryOp, Expr, ExprKind, Keyset};
use crate::lex::Tok;

impl P4Parser<'_> {
    /// Parses a key set: one element, or a tuple in parentheses. A single value in parentheses is
    /// an element.
    pub fn parse_keyset(&mut self) -> ParseResult<Keyset> {
        let start = self.span();
        if !self.is(Tok::LParen) {
            let element = self.parse_keyset_element()?;
            return Ok(Keyset { elements: vec![element], is_tuple: false, span: self.span_since(start) });
        }
        self.bump();
        // `(` can start a tuple, a cast, or an expression in parentheses.
        let first = if self.at_type() {
            let ty = self.parse_type()?;
            if self.eat(Tok::RParen) {
                let cast = self.parse_cast_operand(start, ty)?;
                return self.parse_keyset_after(cast);
            }
            let value = self.parse_nested(|p| p.parse_expr_after_type(ty))?;
            self.parse_mask_or_range_after(value)?
        } else {
            self.parse_keyset_element()?
        };
        if self.is(Tok::RParen) && is_plain_value(&first) {
            self.bump();
            let parenthesized = Expr { kind: first.kind, span: self.span_since(start) };
            let parenthesized = self.parse_suffixes(parenthesized, false)?;
            return self.parse_keyset_after(parenthesized);
        }
        let mut elements = vec![first];
        while self.eat(Tok::Comma) {
            elements.push(self.parse_keyset_element()?);
        }
        self.expect(Tok::RParen)?;
        Ok(Keyset { elements, is_tuple: true, span: self.span_since(start) })
    }

    /// Parses the remaining key set of one element after its operand `first`.
    fn parse_keyset_after(&mut self, first: Expr) -> ParseResult<Keyset> {
        let start = first.span;
        let value = self.parse_nested(|p| p.parse_expr_after(first))?;
        let element = self.parse_mask_or_range_after(value)?;
        Ok(Keyset { elements: vec![element], is_tuple: false, span: self.span_since(start) })
    }

    fn parse_keyset_element(&mut self) -> ParseResult<Expr> {
        match self.kind() {
            Tok::Default => Ok(Expr { kind: ExprKind::Default, span: self.bump() }),
            Tok::Underscore => Ok(Expr { kind: ExprKind::DontCare, span: self.bump() }),
            _ => {
                let value = self.parse_expr()?;
                self.parse_mask_or_range_after(value)
            }
        }
    }

    /// Parses `left`, `left &&& mask` or `left .. end` after `left`.
    pub fn parse_mask_or_range_after(&mut self, left: Expr) -> ParseResult<Expr> {
        let op = match self.kind() {
            Tok::Mask => BinaryOp::Mask,
            Tok::DotDot => BinaryOp::Range,
            _ => return Ok(left),
        };
        let height = self.height;
        let op_span = self.bump();
        let right = self.parse_expr()?;
        let span = left.span.to(right.span);
        self.set_height_above(height.max(self.height), span)?;
        Ok(Expr { kind: ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) }, span })
    }
}

/// Returns whether the element is a plain value. Parentheses around a plain value do not make it a
/// tuple.
fn is_plain_value(element: &Expr) -> bool {
    !matches!(
        element.kind,
        ExprKind::Default | ExprKind::DontCare | ExprKind::Binary { op: BinaryOp::Mask | BinaryOp::Range, .. }
    )
}
