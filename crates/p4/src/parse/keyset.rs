//! Key sets of select cases and table entries.

use super::cursor::{Parse, Parser};
use crate::ast::{BinaryOp, Expr, ExprKind, Keyset};
use crate::lex::Tok;

impl Parser<'_> {
    /// A key set: one element, or a tuple of them in parentheses.
    pub fn keyset(&mut self) -> Parse<Keyset> {
        let start = self.span();
        if !self.is(Tok::LParen) {
            let element = self.keyset_element()?;
            return Ok(Keyset { elements: vec![element], tuple: false, span: self.since(start) });
        }
        self.bump();
        // `(` may begin a tuple, a cast, or an expression in parentheses.
        let first = if self.at_type() {
            let ty = self.ty()?;
            if self.eat(Tok::RParen) {
                let cast = self.cast_operand(start, ty)?;
                return self.keyset_from(cast);
            }
            let value = self.nested(|p| p.expr_from_type(ty))?;
            self.mask_or_range(value)?
        } else {
            self.keyset_element()?
        };
        if self.is(Tok::RParen) && is_value(&first) {
            self.bump();
            let inner = Expr { kind: first.kind, span: self.since(start) };
            let inner = self.postfix(inner, false)?;
            return self.keyset_from(inner);
        }
        let mut elements = vec![first];
        while self.eat(Tok::Comma) {
            elements.push(self.keyset_element()?);
        }
        self.expect(Tok::RParen)?;
        Ok(Keyset { elements, tuple: true, span: self.since(start) })
    }

    /// A key set of one element that begins with `first`.
    fn keyset_from(&mut self, first: Expr) -> Parse<Keyset> {
        let start = first.span;
        let value = self.nested(|p| p.expr_from(first))?;
        let element = self.mask_or_range(value)?;
        Ok(Keyset { elements: vec![element], tuple: false, span: self.since(start) })
    }

    fn keyset_element(&mut self) -> Parse<Expr> {
        match self.kind() {
            Tok::Default => Ok(Expr { kind: ExprKind::Default, span: self.bump() }),
            Tok::Underscore => Ok(Expr { kind: ExprKind::DontCare, span: self.bump() }),
            _ => {
                let value = self.expr()?;
                self.mask_or_range(value)
            }
        }
    }

    /// `left`, `left &&& mask` or `left .. end`.
    pub fn mask_or_range(&mut self, left: Expr) -> Parse<Expr> {
        let op = match self.kind() {
            Tok::Mask => BinaryOp::Mask,
            Tok::DotDot => BinaryOp::Range,
            _ => return Ok(left),
        };
        let height = self.height;
        let op_span = self.bump();
        let right = self.expr()?;
        let span = left.span.to(right.span);
        self.grow(height.max(self.height), span)?;
        Ok(Expr { kind: ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) }, span })
    }
}

/// Whether the element is a plain value, which parentheses do not make a tuple of.
fn is_value(element: &Expr) -> bool {
    !matches!(
        element.kind,
        ExprKind::Default | ExprKind::DontCare | ExprKind::Binary { op: BinaryOp::Mask | BinaryOp::Range, .. }
    )
}
