//! Lowers header validity and stack operations.
//! See the specification, sections "Operations on headers" and "Operations on header stacks".

use super::lowering::{LowerResult, Lowering};
use super::storage::Storage;
use super::value::{LValue, RValue};
use crate::hir::Expr;
use ir::{BinaryOp, Value};
use std::rc::Rc;

impl Lowering<'_> {
    /// Lowers `h.isValid()`. For a stack element with a run-time index, it selects the validity of
    /// that element; an index out of range gives false.
    pub(super) fn is_valid(&mut self, header: &Expr) -> LowerResult<Value> {
        match self.resolve_lvalue(header)? {
            LValue::Storage(storage) => Ok(self.emit_validity(&RValue::Ref(storage))),
            LValue::Value(val) => Ok(self.emit_validity(&val)),
            LValue::Dynamic { candidates, index, .. } => {
                let mut result = self.builder.bool(false);
                let ty = self.builder.value_type(index);
                for (n, candidate) in candidates.iter().enumerate() {
                    // A narrow index cannot select a later element.
                    if ty.width() < usize::BITS && n >> ty.width() != 0 {
                        break;
                    }
                    let element_index = self.builder.constant(ir::Const::new(ty, n));
                    let is_index = self.builder.eq(index, element_index);
                    let valid = self.emit_validity(&RValue::Ref(candidate.clone()));
                    result = self.builder.select(is_index, valid, result);
                }
                Ok(result)
            }
            _ => self.unsupported(header.span, "the validity of this"),
        }
    }

    /// Lowers `h.setValid()` or `h.setInvalid()`.
    pub(super) fn set_validity(&mut self, header: &Expr, valid: bool) -> LowerResult<RValue> {
        match self.resolve_lvalue(header)? {
            LValue::Storage(place) => self.set_place_validity(&place, valid),
            LValue::Dynamic { candidates, index, .. } => {
                self.emit_index_paths(index, candidates.len(), |lower, n| {
                    if let Some(n) = n {
                        lower.set_place_validity(&candidates[n], valid);
                    }
                    Ok(())
                })?;
            }
            _ => return self.unsupported(header.span, "the validity of this"),
        }
        Ok(RValue::Void)
    }

    fn set_place_validity(&mut self, place: &Storage, valid: bool) {
        match (place, valid) {
            (Storage::Header { id, .. }, true) => self.builder.set_valid(*id),
            (place, false) => self.invalidate(place),
            _ => {}
        }
    }

    /// Lowers `s.push_front(count)`.
    pub(super) fn push_front(&mut self, stack: &Expr, count: u32) -> LowerResult<RValue> {
        let (elems, next) = self.resolve_stack(stack)?;
        let count = count as usize;
        for n in (0..elems.len()).rev() {
            match n.checked_sub(count) {
                Some(from) => self.move_element(&elems, n, from, stack)?,
                None => self.invalidate(&elems[n]),
            }
        }
        // The sum cannot wrap, because the next index is at most the size.
        let old = self.builder.load(&self.pipeline, next);
        let by = self.builder.bits(32, count.min(elems.len()));
        let sum = self.builder.add(old, by);
        let size = self.builder.bits(32, elems.len());
        let over = self.builder.binary(BinaryOp::Gt, sum, size);
        let new = self.builder.select(over, size, sum);
        self.builder.store(next, new);
        Ok(RValue::Void)
    }

    /// Lowers `s.pop_front(count)`.
    pub(super) fn pop_front(&mut self, stack: &Expr, count: u32) -> LowerResult<RValue> {
        let (elems, next) = self.resolve_stack(stack)?;
        let count = count as usize;
        for n in 0..elems.len() {
            match n.checked_add(count).filter(|from| *from < elems.len()) {
                Some(from) => self.move_element(&elems, n, from, stack)?,
                None => self.invalidate(&elems[n]),
            }
        }
        let old = self.builder.load(&self.pipeline, next);
        let by = self.builder.bits(32, count.min(elems.len()));
        let new = self.builder.binary(BinaryOp::SubSat, old, by);
        self.builder.store(next, new);
        Ok(RValue::Void)
    }

    fn move_element(&mut self, elems: &Rc<[Storage]>, to: usize, from: usize, stack: &Expr) -> LowerResult<()> {
        if to == from {
            return Ok(());
        }
        let val = self.read_storage(&elems[from]);
        self.store_value(&elems[to], &val, stack.span)
    }
}
