//! Random expressions of a wanted type.

use super::super::tree::*;
use super::{Maker, Scope};

const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const ARITHMETIC: [&str; 10] = ["+", "-", "*", "&", "|", "^", "|+|", "|-|", "+", "^"];

impl Maker<'_> {
    /// An expression of a type.
    pub(super) fn expr(&mut self, ty: Ty, depth: u32, scope: &Scope) -> Expr {
        if depth == 0 || self.chance(25) {
            return self.leaf(ty, scope);
        }
        match ty {
            Ty::Bool => self.bool_expr(depth - 1, scope),
            Ty::Bit(_) => self.bit_expr(ty, depth - 1, scope),
            Ty::Int(_) => self.int_expr(ty, depth - 1, scope),
        }
    }

    /// A place or a literal.
    pub(super) fn leaf(&mut self, ty: Ty, scope: &Scope) -> Expr {
        if self.chance(25) {
            let value = self.constant();
            return Expr::lit(ty, value);
        }
        self.reading(ty, scope)
    }

    /// Something that is read, cast to the type.
    pub(super) fn reading(&mut self, ty: Ty, scope: &Scope) -> Expr {
        let same: Vec<&(String, Ty)> = scope.reads.iter().filter(|(_, found)| *found == ty).collect();
        let found = match same.is_empty() || self.chance(25) {
            true => self.one(&scope.reads).cloned(),
            false => self.one(&same).map(|found| (*found).clone()),
        };
        match found {
            Some((place, found)) => Expr::place(found, place).to(ty),
            None => Expr::lit(ty, self.rng.u128(..)),
        }
    }

    /// A type to compute with on the way.
    fn other(&mut self, scope: &Scope) -> Ty {
        match self.one(&scope.reads) {
            Some((_, ty)) if *ty != Ty::Bool => *ty,
            _ => Ty::Bit(self.width()),
        }
    }

    fn bool_expr(&mut self, depth: u32, scope: &Scope) -> Expr {
        match self.rng.u8(..20) {
            0..10 => {
                let ty = self.other(scope);
                let (left, right) = (self.reading_or(ty, depth, scope), self.expr(ty, depth, scope));
                let op = COMPARISONS[self.rng.usize(..6)];
                binary(Ty::Bool, op, left, right)
            }
            10..13 => {
                let op = ["&&", "||"][self.rng.usize(..2)];
                let (left, right) = (self.expr(Ty::Bool, depth, scope), self.expr(Ty::Bool, depth, scope));
                binary(Ty::Bool, op, left, right)
            }
            13 => unary(Ty::Bool, "!", self.expr(Ty::Bool, depth, scope)),
            14..17 => {
                let places = self.places();
                match self.one(&places) {
                    Some((place, _)) => Expr::place(Ty::Bool, format!("{place}.isValid()")),
                    None => self.leaf(Ty::Bool, scope),
                }
            }
            17 => {
                let op = ["==", "!="][self.rng.usize(..2)];
                let (left, right) = (self.expr(Ty::Bool, depth, scope), self.expr(Ty::Bool, depth, scope));
                binary(Ty::Bool, op, left, right)
            }
            18 => self.expr(Ty::Bit(1), depth, scope).cast(Ty::Bool),
            _ => self.choose(Ty::Bool, depth, scope),
        }
    }

    /// Rather something of the packet than a constant, so that comparisons are not decided beforehand.
    fn reading_or(&mut self, ty: Ty, depth: u32, scope: &Scope) -> Expr {
        if self.chance(60) { self.reading(ty, scope) } else { self.expr(ty, depth, scope) }
    }

    fn bit_expr(&mut self, ty: Ty, depth: u32, scope: &Scope) -> Expr {
        let width = ty.width();
        match self.rng.u8(..24) {
            0..10 => self.arithmetic(ty, depth, scope),
            10..12 => self.shift(ty, depth, scope),
            12..15 => self.slice(width, depth, scope),
            15..17 if width > 1 => {
                let low = self.rng.u32(1..width);
                let right = self.expr(Ty::Bit(low), depth, scope);
                let left = self.expr(Ty::Bit(width - low), depth, scope);
                binary(ty, "++", left, right)
            }
            17 => self.choose(ty, depth, scope),
            18 => {
                let op = ["~", "-"][self.rng.usize(..2)];
                unary(ty, op, self.expr(ty, depth, scope))
            }
            19 => {
                let op = ["/", "%"][self.rng.usize(..2)];
                let left = self.expr(ty, depth, scope);
                // Not a constant: the front-end refuses a division by one that is zero.
                let right = self.reading(ty, scope);
                binary(ty, op, left, right)
            }
            _ => {
                let from = self.other(scope);
                self.expr(from, depth, scope).to(ty)
            }
        }
    }

    fn int_expr(&mut self, ty: Ty, depth: u32, scope: &Scope) -> Expr {
        let width = ty.width();
        match self.rng.u8(..20) {
            0..10 => self.arithmetic(ty, depth, scope),
            10..13 => self.shift(ty, depth, scope),
            13 => self.choose(ty, depth, scope),
            14 => {
                let op = ["~", "-"][self.rng.usize(..2)];
                unary(ty, op, self.expr(ty, depth, scope))
            }
            15 if width > 1 => {
                let low = self.rng.u32(1..width);
                let right = self.expr(Ty::Bit(low), depth, scope);
                let left = self.expr(Ty::Int(width - low), depth, scope);
                binary(ty, "++", left, right)
            }
            _ => {
                let from = self.other(scope);
                self.expr(from, depth, scope).to(ty)
            }
        }
    }

    fn arithmetic(&mut self, ty: Ty, depth: u32, scope: &Scope) -> Expr {
        let op = ARITHMETIC[self.rng.usize(..ARITHMETIC.len())];
        let (left, right) = (self.reading_or(ty, depth, scope), self.expr(ty, depth, scope));
        binary(ty, op, left, right)
    }

    fn shift(&mut self, ty: Ty, depth: u32, scope: &Scope) -> Expr {
        let left = self.reading_or(ty, depth, scope);
        let op = ["<<", ">>"][self.rng.usize(..2)];
        let by = match self.rng.u8(..4) {
            0 => Expr::lit(Ty::Bit(8), self.rng.u128(..u128::from(ty.width()) + 2).min(255)),
            1 => {
                // Within the width, mostly.
                let amount = self.reading(Ty::Bit(8), scope);
                binary(Ty::Bit(8), "&", amount, Expr::lit(Ty::Bit(8), [7, 15, 31, 63, 127][self.rng.usize(..5)]))
            }
            _ => {
                let by = Ty::Bit([3, 8, 16, 32, 64, 80][self.rng.usize(..6)]);
                self.expr(by, depth, scope)
            }
        };
        binary(ty, op, left, by)
    }

    fn slice(&mut self, width: u32, depth: u32, scope: &Scope) -> Expr {
        let wide = scope.reads.iter().filter(|(_, ty)| *ty != Ty::Bool && ty.width() >= width);
        let wide: Vec<(String, Ty)> = wide.cloned().collect();
        let from = match self.one(&wide) {
            Some((place, ty)) if self.chance(70) => Expr::place(*ty, place.clone()),
            _ => {
                let ty = Ty::Bit(width + self.rng.u32(..40));
                self.expr(ty, depth, scope)
            }
        };
        let low = self.rng.u32(..=from.ty.width() - width);
        Expr { ty: Ty::Bit(width), kind: ExprKind::Slice(Box::new(from), low + width - 1, low) }
    }

    fn choose(&mut self, ty: Ty, depth: u32, scope: &Scope) -> Expr {
        let cond = self.expr(Ty::Bool, depth, scope);
        let (yes, no) = (self.expr(ty, depth, scope), self.expr(ty, depth, scope));
        Expr { ty, kind: ExprKind::Choose(Box::new(cond), Box::new(yes), Box::new(no)) }
    }
}

/// An operator in front of something of its own type.
pub(super) fn unary(ty: Ty, op: &'static str, a: Expr) -> Expr {
    Expr { ty, kind: ExprKind::Unary(op, Box::new(a)) }
}

/// An operator between two.
pub(super) fn binary(ty: Ty, op: &'static str, a: Expr, b: Expr) -> Expr {
    Expr { ty, kind: ExprKind::Binary(op, Box::new(a), Box::new(b)) }
}
