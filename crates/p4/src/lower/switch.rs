//! Lowers `switch` over the action of a table and over values.

use super::lowering::{LowerResult, Lowering};
use crate::hir::{self, Expr, Stmt, SwitchActionCase, SwitchValueCase};
use crate::span::Span;
use ir::{Block, Const};
use std::collections::HashSet;

impl Lowering<'_> {
    /// Lowers `switch (t.apply().action_run) { cases }`: the table application ends with one path
    /// for each action, which jumps to the body of its case. Actions without a case share the
    /// default case.
    pub(super) fn switch_action(
        &mut self,
        table: hir::TableId,
        cases: &[SwitchActionCase],
        span: Span,
    ) -> LowerResult<()> {
        let mut blocks: Vec<Option<Block>> = vec![None; cases.len()];
        let mut join = None;
        let applied = self.apply_with(table, span, |lower, action, _hit| {
            let case = cases.iter().position(|c| c.actions.contains(&action));
            let case = case.or_else(|| cases.iter().position(|c| c.default));
            match case.filter(|case_index| cases[*case_index].body.is_some()) {
                Some(case_index) => {
                    let block = *blocks[case_index].get_or_insert_with(|| lower.builder.create_block());
                    lower.builder.jump(block);
                }
                None => lower.join_at(&mut join),
            }
        });
        let bodies = blocks.iter().zip(cases).filter_map(|(block, case)| Some(((*block)?, case.body.as_ref()?)));
        let outcome = self.case_bodies(bodies.collect(), &mut join);
        self.continue_at(join);
        applied.and(outcome)
    }

    fn case_bodies(&mut self, bodies: Vec<(Block, &Stmt)>, join: &mut Option<Block>) -> LowerResult<()> {
        let mut done = Ok(());
        for (block, body) in bodies {
            self.builder.switch_to(block);
            done = done.and(self.lower_stmts(std::slice::from_ref(body)));
            self.join_at(join);
        }
        done
    }

    /// Lowers `switch (value) { cases }`. A value that is known at compile time leaves one case.
    /// Without default case, other values continue after the statement.
    pub(super) fn switch_value(&mut self, subject: &Expr, cases: &[SwitchValueCase]) -> LowerResult<()> {
        if let Some(case) = self.known_case(subject, cases) {
            let body = case.and_then(|case| case.body.as_ref());
            return body.map_or(Ok(()), |body| self.lower_stmts(std::slice::from_ref(body)));
        }
        let value = self.eval_scalar(subject)?;
        let ty = self.builder.value_type(value);
        let mut seen = HashSet::new();
        let (mut consts, mut bodies) = (Vec::new(), Vec::new());
        let mut default = None;
        for case in cases {
            let block = self.builder.create_block();
            for label in &case.values {
                let bits = self.eval_bits(label, ty)?;
                // The first of two equal labels wins.
                if seen.insert(bits.clone()) {
                    consts.push((Const::new(ty, bits), block));
                }
            }
            if case.default {
                default = Some(block);
            }
            bodies.push((block, case.body.as_ref()));
        }
        let mut join = None;
        let default = default.unwrap_or_else(|| *join.insert(self.builder.create_block()));
        self.builder.switch(value, consts, default);
        let mut outcome = Ok(());
        for (block, body) in bodies {
            self.builder.switch_to(block);
            if let Some(body) = body {
                outcome = outcome.and(self.lower_stmts(std::slice::from_ref(body)));
            }
            self.join_at(&mut join);
        }
        self.continue_at(join);
        outcome
    }
}
