//! Lowers table applications to one terminator, with the inlined code of each action after it.

use super::call::InlinedCode;
use super::lowering::{LowerResult, Lowering, TableContext};
use super::params::InlineArg;
use super::value::RValue;
use crate::ast::Direction;
use crate::hir;
use crate::span::Span;
use ir::{Type, Value};

impl Lowering<'_> {
    /// Lowers `t.apply();`.
    pub(super) fn apply_statement(&mut self, table: hir::TableId, span: Span) -> LowerResult<()> {
        let mut join = None;
        let done = self.apply_with(table, span, |lower, _, _| lower.join_at(&mut join));
        self.continue_at(join);
        done
    }

    /// Lowers `t.apply().hit`.
    pub(super) fn apply_hit(&mut self, table: hir::TableId, span: Span) -> LowerResult<Value> {
        let join = self.builder.create_block();
        let result = self.builder.append_param(join, Type::Bool);
        let done = self.apply_with(table, span, |lower, _, hit| lower.builder.jump_with(join, vec![hit]));
        self.builder.switch_to(join);
        done.map(|()| result)
    }

    /// Applies a table: evaluates its keys, looks them up, and inlines each of its actions as an
    /// arm. `after` ends the block after the code of an action. Its arguments are the index of the
    /// action in the table and the run-time bool whether the lookup hit.
    pub(super) fn apply_with(
        &mut self,
        id: hir::TableId,
        span: Span,
        mut after: impl FnMut(&mut Self, usize, Value),
    ) -> LowerResult<()> {
        let loc = self.builder.loc();
        self.set_location(span);
        let table = self.declare_table(id)?;
        let decl = &self.hir.tables[id.index()];
        let mut keys = Vec::with_capacity(decl.keys.len());
        for key in &decl.keys {
            keys.push(self.eval_scalar(&key.expr)?);
        }
        self.before_apply(table);
        let arms = self.builder.apply_table(&self.pipeline, table, keys);
        let outer_table = self.table.replace(TableContext { ir: table, hir: id });
        let mut outcome = Ok(());
        for (action_index, (arm, action)) in arms.into_iter().zip(&decl.actions).enumerate() {
            self.builder.switch_to(arm.block);
            let lowered = self.run_action(action, arm.params, span);
            outcome = outcome.and(lowered);
            if !self.builder.is_terminated() {
                after(self, action_index, arm.hit);
            }
        }
        self.table = outer_table;
        self.builder.set_loc(loc);
        outcome
    }

    /// Lowers the code of an action that a table runs. Parameters with a direction get the
    /// arguments of the table's action list, the others the action data `data`.
    fn run_action(&mut self, action: &hir::TableAction, data: Vec<Value>, span: Span) -> LowerResult<()> {
        let decl = &self.hir.actions[action.action.index()];
        let mut listed_args = action.args.iter();
        let mut data = data.into_iter();
        let mut args = Vec::with_capacity(decl.params.len());
        for param in &decl.params {
            let arg = if self.direction(*param) == Direction::None {
                data.next().map(|value| InlineArg::Data(RValue::Scalar(value)))
            } else {
                listed_args.next().map(InlineArg::Call)
            };
            match arg {
                Some(arg) => args.push(arg),
                None => return self.error("missing-argument", action.span, "this action lacks an argument"),
            }
        }
        // Evaluate the listed arguments in their order; action data are already values.
        let mut order = action.order.positions(action.args.len());
        order.extend(order.len()..args.len());
        self.inline_code(InlinedCode::Action(action.action), &[], &args, &order, span).map(|_| ())
    }
}
