//! Generates random expressions of a given type.

use super::super::tree::*;
use super::{ProgramGenerator, ScopeNames};

const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const ARITHMETIC: [&str; 10] = ["+", "-", "*", "&", "|", "^", "|+|", "|-|", "+", "^"];

impl ProgramGenerator<'_> {
    /// Generates an expression of a type.
    pub(super) fn random_expr(&mut self, ty: Ty, depth: u32, scope: &ScopeNames) -> Expr {
        if depth == 0 || self.true_with_percent(25) {
            return self.random_leaf(ty, scope);
        }
        match ty {
            Ty::Bool => self.bool_expr(depth - 1, scope),
            Ty::Bit(_) => self.bit_expr(ty, depth - 1, scope),
            Ty::Int(_) => self.int_expr(ty, depth - 1, scope),
        }
    }

    /// Generates a variable or a literal.
    pub(super) fn random_leaf(&mut self, ty: Ty, scope: &ScopeNames) -> Expr {
        if self.true_with_percent(25) {
            let value = self.random_constant();
            return Expr::lit(ty, value);
        }
        self.random_read(ty, scope)
    }

    /// Generates a read of a variable, cast to the type.
    pub(super) fn random_read(&mut self, ty: Ty, scope: &ScopeNames) -> Expr {
        let same: Vec<&(String, Ty)> = scope.reads.iter().filter(|(_, found)| *found == ty).collect();
        let found = match same.is_empty() || self.true_with_percent(25) {
            true => self.random_element(&scope.reads).cloned(),
            false => self.random_element(&same).map(|found| (*found).clone()),
        };
        match found {
            Some((place, found)) => Expr::place(found, place).to(ty),
            None => Expr::lit(ty, self.rng.u128(..)),
        }
    }

    /// Chooses a type for an intermediate value.
    fn intermediate_type(&mut self, scope: &ScopeNames) -> Ty {
        match self.random_element(&scope.reads) {
            Some((_, ty)) if *ty != Ty::Bool => *ty,
            _ => Ty::Bit(self.width()),
        }
    }

    /// Generates a Boolean expression; `depth` bounds its operands.
    fn bool_expr(&mut self, depth: u32, scope: &ScopeNames) -> Expr {
        match self.rng.u8(..20) {
            0..10 => {
                let ty = self.intermediate_type(scope);
                let (left, right) = (self.reading_or(ty, depth, scope), self.random_expr(ty, depth, scope));
                let op = COMPARISONS[self.rng.usize(..6)];
                binary(Ty::Bool, op, left, right)
            }
            10..13 => {
                let op = ["&&", "||"][self.rng.usize(..2)];
                let (left, right) =
                    (self.random_expr(Ty::Bool, depth, scope), self.random_expr(Ty::Bool, depth, scope));
                binary(Ty::Bool, op, left, right)
            }
            13 => unary(Ty::Bool, "!", self.random_expr(Ty::Bool, depth, scope)),
            14..17 => {
                let places = self.header_places();
                match self.random_element(&places) {
                    Some((place, _)) => Expr::place(Ty::Bool, format!("{place}.isValid()")),
                    None => self.random_leaf(Ty::Bool, scope),
                }
            }
            17 => {
                let op = ["==", "!="][self.rng.usize(..2)];
                let (left, right) =
                    (self.random_expr(Ty::Bool, depth, scope), self.random_expr(Ty::Bool, depth, scope));
                binary(Ty::Bool, op, left, right)
            }
            18 => self.random_expr(Ty::Bit(1), depth, scope).cast(Ty::Bool),
            _ => self.choose_expr(Ty::Bool, depth, scope),
        }
    }

    /// Generates a read of a packet's value more often than a constant, so that comparisons are not
    /// decided at compile time.
    fn reading_or(&mut self, ty: Ty, depth: u32, scope: &ScopeNames) -> Expr {
        if self.true_with_percent(60) { self.random_read(ty, scope) } else { self.random_expr(ty, depth, scope) }
    }

    /// Generates an expression of an unsigned type, by its width a concatenation of two parts.
    fn bit_expr(&mut self, ty: Ty, depth: u32, scope: &ScopeNames) -> Expr {
        let width = ty.width();
        match self.rng.u8(..24) {
            0..10 => self.arithmetic(ty, depth, scope),
            10..12 => self.shift_expr(ty, depth, scope),
            12..15 => self.slice_expr(width, depth, scope),
            15..17 if width > 1 => {
                let low = self.rng.u32(1..width);
                let right = self.random_expr(Ty::Bit(low), depth, scope);
                let left = self.random_expr(Ty::Bit(width - low), depth, scope);
                binary(ty, "++", left, right)
            }
            17 => self.choose_expr(ty, depth, scope),
            18 => {
                let op = ["~", "-"][self.rng.usize(..2)];
                unary(ty, op, self.random_expr(ty, depth, scope))
            }
            19 => {
                let op = ["/", "%"][self.rng.usize(..2)];
                let left = self.random_expr(ty, depth, scope);
                // Not a constant, because the front-end refuses a division by constant zero.
                let right = self.random_read(ty, scope);
                binary(ty, op, left, right)
            }
            _ => {
                let from = self.intermediate_type(scope);
                self.random_expr(from, depth, scope).to(ty)
            }
        }
    }

    /// Generates an expression of a signed type. Fewer forms are possible than for unsigned types.
    fn int_expr(&mut self, ty: Ty, depth: u32, scope: &ScopeNames) -> Expr {
        let width = ty.width();
        match self.rng.u8(..20) {
            0..10 => self.arithmetic(ty, depth, scope),
            10..13 => self.shift_expr(ty, depth, scope),
            13 => self.choose_expr(ty, depth, scope),
            14 => {
                let op = ["~", "-"][self.rng.usize(..2)];
                unary(ty, op, self.random_expr(ty, depth, scope))
            }
            15 if width > 1 => {
                let low = self.rng.u32(1..width);
                let right = self.random_expr(Ty::Bit(low), depth, scope);
                let left = self.random_expr(Ty::Int(width - low), depth, scope);
                binary(ty, "++", left, right)
            }
            _ => {
                let from = self.intermediate_type(scope);
                self.random_expr(from, depth, scope).to(ty)
            }
        }
    }

    fn arithmetic(&mut self, ty: Ty, depth: u32, scope: &ScopeNames) -> Expr {
        let op = ARITHMETIC[self.rng.usize(..ARITHMETIC.len())];
        let (left, right) = (self.reading_or(ty, depth, scope), self.random_expr(ty, depth, scope));
        binary(ty, op, left, right)
    }

    fn shift_expr(&mut self, ty: Ty, depth: u32, scope: &ScopeNames) -> Expr {
        let left = self.reading_or(ty, depth, scope);
        let op = ["<<", ">>"][self.rng.usize(..2)];
        let by = match self.rng.u8(..4) {
            0 => Expr::lit(Ty::Bit(8), self.rng.u128(..u128::from(ty.width()) + 2).min(255)),
            1 => {
                // Mostly less than the width.
                let amount = self.random_read(Ty::Bit(8), scope);
                binary(Ty::Bit(8), "&", amount, Expr::lit(Ty::Bit(8), [7, 15, 31, 63, 127][self.rng.usize(..5)]))
            }
            _ => {
                let by = Ty::Bit([3, 8, 16, 32, 64, 80][self.rng.usize(..6)]);
                self.random_expr(by, depth, scope)
            }
        };
        binary(ty, op, left, by)
    }

    fn slice_expr(&mut self, width: u32, depth: u32, scope: &ScopeNames) -> Expr {
        let wide = scope.reads.iter().filter(|(_, ty)| *ty != Ty::Bool && ty.width() >= width);
        let wide: Vec<(String, Ty)> = wide.cloned().collect();
        let from = match self.random_element(&wide) {
            Some((place, ty)) if self.true_with_percent(70) => Expr::place(*ty, place.clone()),
            _ => {
                let ty = Ty::Bit(width + self.rng.u32(..40));
                self.random_expr(ty, depth, scope)
            }
        };
        let low = self.rng.u32(..=from.ty.width() - width);
        Expr { ty: Ty::Bit(width), kind: ExprKind::Slice(Box::new(from), low + width - 1, low) }
    }

    fn choose_expr(&mut self, ty: Ty, depth: u32, scope: &ScopeNames) -> Expr {
        let cond = self.random_expr(Ty::Bool, depth, scope);
        let (yes, no) = (self.random_expr(ty, depth, scope), self.random_expr(ty, depth, scope));
        Expr { ty, kind: ExprKind::Choose(Box::new(cond), Box::new(yes), Box::new(no)) }
    }
}

/// Builds a unary expression with an operand of the same type.
pub(super) fn unary(ty: Ty, op: &'static str, a: Expr) -> Expr {
    Expr { ty, kind: ExprKind::Unary(op, Box::new(a)) }
}

/// Builds a binary expression.
pub(super) fn binary(ty: Ty, op: &'static str, a: Expr, b: Expr) -> Expr {
    Expr { ty, kind: ExprKind::Binary(op, Box::new(a), Box::new(b)) }
}
