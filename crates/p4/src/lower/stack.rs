//! Validity of headers, and operations on stacks (specification, sections "Operations on headers" and "Operations on header stacks").

use super::lowering::{Lower, Res};
use super::place::Place;
use super::value::{Access, Val};
use crate::hir::Expr;
use ir::{BinaryOp, Value};
use std::rc::Rc;

impl Lower<'_> {
    /// `h.isValid()`
    pub(super) fn is_valid(&mut self, header: &Expr) -> Res<Value> {
        match self.access(header)? {
            Access::Place(place) => Ok(self.validity(&Val::Ref(place))),
            Access::Val(val) => Ok(self.validity(&val)),
            Access::Dynamic { candidates, index, .. } => {
                let mut result = self.b.bool(false);
                let ty = self.b.value_type(index);
                for (n, candidate) in candidates.iter().enumerate() {
                    if ty.width() < usize::BITS && n >> ty.width() != 0 {
                        break;
                    }
                    let n = self.b.constant(ir::Const::new(ty, n));
                    let here = self.b.eq(index, n);
                    let valid = self.validity(&Val::Ref(candidate.clone()));
                    result = self.b.select(here, valid, result);
                }
                Ok(result)
            }
            _ => self.unsupported(header.span, "the validity of this"),
        }
    }

    /// `h.setValid()`, `h.setInvalid()`
    pub(super) fn set_validity(&mut self, header: &Expr, valid: bool) -> Res<Val> {
        match self.access(header)? {
            Access::Place(place) => self.set_place_validity(&place, valid),
            Access::Dynamic { candidates, index, .. } => {
                self.choose(index, candidates.len(), |lower, n| {
                    if let Some(n) = n {
                        lower.set_place_validity(&candidates[n], valid);
                    }
                    Ok(())
                })?;
            }
            _ => return self.unsupported(header.span, "the validity of this"),
        }
        Ok(Val::Void)
    }

    fn set_place_validity(&mut self, place: &Place, valid: bool) {
        match (place, valid) {
            (Place::Header { id, .. }, true) => self.b.set_valid(*id),
            (place, false) => self.invalidate(place),
            _ => {}
        }
    }

    /// `s.push_front(count)`
    pub(super) fn push_front(&mut self, stack: &Expr, count: u32) -> Res<Val> {
        let (elems, next) = self.stack_of(stack)?;
        let count = count as usize;
        for n in (0..elems.len()).rev() {
            match n.checked_sub(count) {
                Some(from) => self.move_element(&elems, n, from, stack)?,
                None => self.invalidate(&elems[n]),
            }
        }
        // The next index is at most the size, so the sum can't wrap.
        let old = self.b.load(&self.p, next);
        let by = self.b.bits(32, count.min(elems.len()));
        let sum = self.b.add(old, by);
        let size = self.b.bits(32, elems.len());
        let over = self.b.binary(BinaryOp::Gt, sum, size);
        let new = self.b.select(over, size, sum);
        self.b.store(next, new);
        Ok(Val::Void)
    }

    /// `s.pop_front(count)`
    pub(super) fn pop_front(&mut self, stack: &Expr, count: u32) -> Res<Val> {
        let (elems, next) = self.stack_of(stack)?;
        let count = count as usize;
        for n in 0..elems.len() {
            match n.checked_add(count).filter(|from| *from < elems.len()) {
                Some(from) => self.move_element(&elems, n, from, stack)?,
                None => self.invalidate(&elems[n]),
            }
        }
        let old = self.b.load(&self.p, next);
        let by = self.b.bits(32, count.min(elems.len()));
        let new = self.b.binary(BinaryOp::SubSat, old, by);
        self.b.store(next, new);
        Ok(Val::Void)
    }

    fn move_element(&mut self, elems: &Rc<[Place]>, to: usize, from: usize, stack: &Expr) -> Res<()> {
        if to == from {
            return Ok(());
        }
        let val = self.read(&elems[from]);
        self.store(&elems[to], &val, stack.span)
    }
}
