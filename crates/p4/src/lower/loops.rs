//! Loops: `for` and `for ... in` become cycles of blocks; over the elements of a value they are written out.

use super::frame::{Binding, LoopTargets};
use super::lowering::{Lower, Res};
use super::shape::Shape;
use super::value::Val;
use crate::hir::{Expr, ForRange, LocalId, Stmt};
use crate::span::Span;
use ir::{BinaryOp, Block};

impl Lower<'_> {
    pub(super) fn for_loop(&mut self, init: &[Stmt], cond: &Expr, update: &[Stmt], body: &Stmt) -> Res<()> {
        self.stmts(init)?;
        let [head, inside, next, end] = [(); 4].map(|()| self.b.create_block());
        self.b.jump(head);
        self.b.switch_to(head);
        self.at(cond.span);
        let go = self.eval_scalar(cond)?;
        self.b.branch(go, inside, end);
        self.b.switch_to(inside);
        self.turn(body, end, next)?;
        self.b.switch_to(next);
        self.stmts(update)?;
        self.b.jump(head);
        self.b.switch_to(end);
        Ok(())
    }

    /// One turn of a loop: the body, then on to `next`.
    fn turn(&mut self, body: &Stmt, on_break: Block, on_continue: Block) -> Res<()> {
        if let Some(frame) = self.frames.last_mut() {
            frame.loops.push(LoopTargets { on_break, on_continue });
        }
        let done = self.stmts(std::slice::from_ref(body));
        if let Some(frame) = self.frames.last_mut() {
            frame.loops.pop();
        }
        if !self.b.is_terminated() {
            self.b.jump(on_continue);
        }
        done
    }

    /// `break` or `continue`.
    pub(super) fn leave_loop(&mut self, is_break: bool, span: Span) -> Res<()> {
        let Some(targets) = self.frames.last().and_then(|f| f.loops.last().copied()) else {
            return self.error("outside-loop", span, "this is not in a loop");
        };
        self.b.jump(if is_break { targets.on_break } else { targets.on_continue });
        Ok(())
    }

    pub(super) fn for_in(&mut self, var: LocalId, over: &ForRange, body: &Stmt, span: Span) -> Res<()> {
        match over {
            ForRange::Range(lo, hi) => self.for_range(var, lo, hi, body, span),
            ForRange::Elements(elements) => self.for_elements(var, elements, body, span),
        }
    }

    fn for_range(&mut self, var: LocalId, lo: &Expr, hi: &Expr, body: &Stmt, span: Span) -> Res<()> {
        let ty = self.ty(self.local(var).ty);
        let scalar = self.scalar(ty, span)?;
        let lo_val = self.eval(lo)?;
        let lo_val = self.convert(lo_val, lo.ty, ty, lo.span)?;
        let first = self.scalar_value(lo_val, ty, lo.span)?;
        let hi_val = self.eval(hi)?;
        let hi_val = self.convert(hi_val, hi.ty, ty, hi.span)?;
        let last = self.scalar_value(hi_val, ty, hi.span)?;
        let [head, inside, next, step, end] = [(); 5].map(|()| self.b.create_block());
        let at = self.b.append_param(head, scalar);
        self.b.jump_with(head, vec![first]);
        self.b.switch_to(head);
        let go = self.b.binary(BinaryOp::Le, at, last);
        self.b.branch(go, inside, end);
        self.b.switch_to(inside);
        self.declare_var(var, None)?;
        if let Some(Binding::Place(place)) = self.locals[var.index()].clone() {
            self.store(&place, &Val::Scalar(at), span)?;
        }
        self.turn(body, end, next)?;
        self.b.switch_to(next);
        // The test comes before the step, which might wrap around.
        let done = self.b.eq(at, last);
        self.b.branch(done, end, step);
        self.b.switch_to(step);
        let one = self.b.constant(ir::Const::new(scalar, 1u8));
        let stepped = self.b.add(at, one);
        self.b.jump_with(head, vec![stepped]);
        self.b.switch_to(end);
        Ok(())
    }

    fn for_elements(&mut self, var: LocalId, elements: &Expr, body: &Stmt, span: Span) -> Res<()> {
        let val = self.eval(elements)?;
        let val = self.snapshot(val, elements.ty, elements.span)?;
        let count = match (&val, self.shape(elements.ty)) {
            (_, Shape::Stack(_, size)) => size as usize,
            (Val::Struct(parts), _) => parts.len(),
            _ => return self.unsupported(span, "a loop over this"),
        };
        let ty = self.ty(self.local(var).ty);
        let end = self.b.create_block();
        for n in 0..count {
            self.check_size(span)?;
            let part = self.part(&val, n);
            let from = self.member_type(elements.ty, n);
            let part = self.convert(part, from, ty, span)?;
            self.declare_var(var, None)?;
            if let Some(Binding::Place(place)) = self.locals[var.index()].clone() {
                self.store(&place, &part, span)?;
            }
            let next = self.b.create_block();
            self.turn(body, end, next)?;
            self.b.switch_to(next);
        }
        self.b.jump(end);
        self.b.switch_to(end);
        Ok(())
    }
}
