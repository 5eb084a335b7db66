//! Application of tables: one terminator, with the code of each action inlined behind it.

use super::call::Code;
use super::lowering::{Lower, Res, TableContext};
use super::params::Arg;
use super::value::Val;
use crate::ast::Direction;
use crate::hir;
use crate::span::Span;
use ir::{Type, Value};

impl Lower<'_> {
    /// `t.apply();`
    pub(super) fn apply_statement(&mut self, table: hir::TableId, span: Span) -> Res<()> {
        let mut join = None;
        let done = self.apply_with(table, span, |lower, _, _| lower.join_at(&mut join));
        self.resume(join);
        done
    }

    /// `t.apply().hit`
    pub(super) fn apply_hit(&mut self, table: hir::TableId, span: Span) -> Res<Value> {
        let join = self.b.create_block();
        let result = self.b.append_param(join, Type::Bool);
        let done = self.apply_with(table, span, |lower, _, hit| lower.b.jump_with(join, vec![hit]));
        self.b.switch_to(join);
        done.map(|()| result)
    }

    /// Applies a table. `after` ends the block that follows an action's code; it gets the action's number in the table and
    /// whether the lookup hit.
    pub(super) fn apply_with(
        &mut self,
        id: hir::TableId,
        span: Span,
        mut after: impl FnMut(&mut Self, usize, Value),
    ) -> Res<()> {
        let loc = self.b.loc();
        self.at(span);
        let table = self.declare_table(id)?;
        let decl = &self.hir.tables[id.index()];
        let mut keys = Vec::with_capacity(decl.keys.len());
        for key in &decl.keys {
            keys.push(self.eval_scalar(&key.expr)?);
        }
        self.before_apply(table);
        let arms = self.b.apply(&self.p, table, keys);
        let outer = self.table.replace(TableContext { ir: table, hir: id });
        let mut done = Ok(());
        for (n, (arm, action)) in arms.into_iter().zip(&decl.actions).enumerate() {
            self.b.switch_to(arm.block);
            let lowered = self.run_action(action, arm.params, span);
            done = done.and(lowered);
            if !self.b.is_terminated() {
                after(self, n, arm.hit);
            }
        }
        self.table = outer;
        self.b.set_loc(loc);
        done
    }

    /// The code of an action that a table runs with that data.
    fn run_action(&mut self, action: &hir::TableAction, data: Vec<Value>, span: Span) -> Res<()> {
        let decl = &self.hir.actions[action.action.index()];
        let mut given = action.args.iter();
        let mut data = data.into_iter();
        let mut args = Vec::with_capacity(decl.params.len());
        for param in &decl.params {
            let arg = if self.direction(*param) == Direction::None {
                data.next().map(|value| Arg::Data(Val::Scalar(value)))
            } else {
                given.next().map(Arg::Call)
            };
            match arg {
                Some(arg) => args.push(arg),
                None => return self.error("missing-argument", action.span, "this action lacks an argument"),
            }
        }
        // Parameters with a direction come first, and data have been evaluated already.
        let mut order = action.order.positions(action.args.len());
        order.extend(order.len()..args.len());
        self.inline_with(Code::Action(action.action), &[], &args, &order, span).map(|_| ())
    }
}
