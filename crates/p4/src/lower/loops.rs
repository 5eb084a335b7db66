//! Lowers loops: `for` and `for ... in` become cycles of blocks.
//! Loops over the elements of a value are unrolled.

use super::frame::{Binding, LoopTargets};
use super::lowering::{LowerResult, Lowering};
use super::type_layout::TypeLayout;
use super::value::RValue;
use crate::hir::{Expr, ForRange, LocalId, Stmt};
use crate::span::Span;
use ir::{BinaryOp, Block};

impl Lowering<'_> {
    pub(super) fn lower_for(&mut self, init: &[Stmt], cond: &Expr, update: &[Stmt], body: &Stmt) -> LowerResult<()> {
        self.lower_stmts(init)?;
        let [head, inside, next, end] = [(); 4].map(|()| self.builder.create_block());
        self.builder.jump(head);
        self.builder.switch_to(head);
        self.set_location(cond.span);
        let go = self.eval_scalar(cond)?;
        self.builder.branch(go, inside, end);
        self.builder.switch_to(inside);
        self.lower_iteration(body, end, next)?;
        self.builder.switch_to(next);
        self.lower_stmts(update)?;
        self.builder.jump(head);
        self.builder.switch_to(end);
        Ok(())
    }

    /// Lowers one iteration of a loop: the body, then a jump to `on_continue`.
    fn lower_iteration(&mut self, body: &Stmt, on_break: Block, on_continue: Block) -> LowerResult<()> {
        if let Some(frame) = self.frames.last_mut() {
            frame.loops.push(LoopTargets { on_break, on_continue });
        }
        let done = self.lower_stmts(std::slice::from_ref(body));
        if let Some(frame) = self.frames.last_mut() {
            frame.loops.pop();
        }
        if !self.builder.is_terminated() {
            self.builder.jump(on_continue);
        }
        done
    }

    /// Lowers `break` or `continue`.
    pub(super) fn leave_loop(&mut self, is_break: bool, span: Span) -> LowerResult<()> {
        let Some(targets) = self.frames.last().and_then(|f| f.loops.last().copied()) else {
            return self.error("outside-loop", span, "this is not in a loop");
        };
        self.builder.jump(if is_break { targets.on_break } else { targets.on_continue });
        Ok(())
    }

    pub(super) fn lower_for_in(&mut self, var: LocalId, over: &ForRange, body: &Stmt, span: Span) -> LowerResult<()> {
        match over {
            ForRange::Range(lo, hi) => self.for_range(var, lo, hi, body, span),
            ForRange::Elements(elements) => self.for_elements(var, elements, body, span),
        }
    }

    /// Lowers `for (T var in lo..hi) body`, with both ends included, to a cycle of blocks. The head
    /// has the current value as its block parameter.
    ///
    /// ```text
    /// head(current): if current <= last goto inside, else end
    /// inside:        var = current; body; goto next
    /// next:          if current == last goto end, else step
    /// step:          goto head(current + 1)
    /// ```
    fn for_range(&mut self, var: LocalId, lo: &Expr, hi: &Expr, body: &Stmt, span: Span) -> LowerResult<()> {
        let ty = self.substitute_scope_params(self.local_decl(var).ty);
        let scalar = self.scalar_type(ty, span)?;
        let lo_val = self.eval_expr(lo)?;
        let lo_val = self.convert_value(lo_val, lo.ty, ty, lo.span)?;
        let first = self.scalar_value(lo_val, ty, lo.span)?;
        let hi_val = self.eval_expr(hi)?;
        let hi_val = self.convert_value(hi_val, hi.ty, ty, hi.span)?;
        let last = self.scalar_value(hi_val, ty, hi.span)?;
        let [head, inside, next, step, end] = [(); 5].map(|()| self.builder.create_block());
        let current = self.builder.append_param(head, scalar);
        self.builder.jump_with(head, vec![first]);
        self.builder.switch_to(head);
        let is_in_range = self.builder.binary(BinaryOp::Le, current, last);
        self.builder.branch(is_in_range, inside, end);
        self.builder.switch_to(inside);
        self.declare_var(var, None)?;
        if let Some(Binding::Storage(storage)) = self.locals[var.index()].clone() {
            self.store_value(&storage, &RValue::Scalar(current), span)?;
        }
        self.lower_iteration(body, end, next)?;
        self.builder.switch_to(next);
        // The test precedes the increment, because the increment can wrap around.
        let is_last = self.builder.eq(current, last);
        self.builder.branch(is_last, end, step);
        self.builder.switch_to(step);
        let one = self.builder.constant(ir::Const::new(scalar, 1u8));
        let stepped = self.builder.add(current, one);
        self.builder.jump_with(head, vec![stepped]);
        self.builder.switch_to(end);
        Ok(())
    }

    /// Lowers `for (T var in elements) body` over a stack or list. The loop is unrolled, because
    /// the elements are different storage. They are copied first, because the body can change them.
    fn for_elements(&mut self, var: LocalId, elements: &Expr, body: &Stmt, span: Span) -> LowerResult<()> {
        let val = self.eval_expr(elements)?;
        let val = self.snapshot(val, elements.ty, elements.span)?;
        let count = match (&val, self.layout(elements.ty)) {
            (_, TypeLayout::Stack(_, size)) => size as usize,
            (RValue::Struct(parts), _) => parts.len(),
            _ => return self.unsupported(span, "a loop over this"),
        };
        let ty = self.substitute_scope_params(self.local_decl(var).ty);
        let end = self.builder.create_block();
        for index in 0..count {
            self.check_size(span)?;
            let element = self.value_part(&val, index);
            let element_ty = self.member_type(elements.ty, index);
            let element = self.convert_value(element, element_ty, ty, span)?;
            self.declare_var(var, None)?;
            if let Some(Binding::Storage(storage)) = self.locals[var.index()].clone() {
                self.store_value(&storage, &element, span)?;
            }
            let next = self.builder.create_block();
            self.lower_iteration(body, end, next)?;
            self.builder.switch_to(next);
        }
        self.builder.jump(end);
        self.builder.switch_to(end);
        Ok(())
    }
}
