//! Lowers parsers: states become blocks, sub-parsers are inlined state by state.

use super::const_value::ObjectInstanceId;
use super::lowering::{LowerResult, Lowering};
use super::used::reached_states;
use crate::hir::{ParserBody, StateRef, Transition, TransitionKind};
use crate::span::Span;
use ir::Block;

/// Blocks of the states of a parser.
#[derive(Debug)]
pub(super) struct StateBlocks {
    blocks: Vec<Block>,
    /// Block after accept: the continuation in the calling parser, or the end.
    accept: Block,
    /// Block for reject; created on demand.
    reject: Option<Block>,
}

impl Lowering<'_> {
    /// Lowers the states of parser instance `id` to one block each and continues in the block of
    /// `accept`. All states are lowered even after an error, so that all errors are reported.
    pub(super) fn lower_states(&mut self, id: ObjectInstanceId, body: &ParserBody) -> LowerResult<()> {
        let mut states = StateBlocks {
            blocks: body.states.iter().map(|_| self.builder.create_block()).collect(),
            accept: self.builder.create_block(),
            reject: None,
        };
        // States of the programmable block itself have no prefix.
        let prefix = if self.frames.len() > 1 {
            let object = &self.objects[id.index()];
            let top_len = object.scope.split('.').next().unwrap_or("").len();
            format!("{}.", object.scope.get(top_len + 1..).unwrap_or(&object.scope))
        } else {
            String::new()
        };
        for (state, block) in body.states.iter().zip(&states.blocks) {
            let loc = self.source_loc(state.span);
            self.builder.add_state(format!("{prefix}{}", state.name), *block, loc);
        }
        let Some(start) = states.blocks.get(body.start) else { return Ok(()) };
        self.builder.jump(*start);
        let mut outcome = Ok(());
        let reached = reached_states(body);
        for (index, state) in body.states.iter().enumerate() {
            self.builder.switch_to(states.blocks[index]);
            if !reached.contains(&index) {
                // As in p4c, declarations used only in unreachable states count as unused. The
                // passes remove the block.
                self.builder.reject();
                continue;
            }
            let lowered = self.lower_stmts(&state.body);
            outcome = outcome.and(lowered);
            if !self.builder.is_terminated() {
                let lowered = self.lower_transition(&state.transition, &mut states);
                outcome = outcome.and(lowered);
            }
        }
        if let Some(reject) = states.reject {
            self.builder.switch_to(reject);
            self.builder.reject();
        }
        self.builder.switch_to(states.accept);
        outcome
    }

    fn lower_transition(&mut self, transition: &Transition, states: &mut StateBlocks) -> LowerResult<()> {
        self.set_location(transition.span);
        match &transition.kind {
            TransitionKind::State(target) => {
                let block = self.state_block(*target, states, transition.span)?;
                self.builder.jump(block);
                Ok(())
            }
            TransitionKind::Select { exprs, cases } => self.lower_select(exprs, cases, states, transition.span),
        }
    }

    /// Returns the block of a state.
    pub(super) fn state_block(&mut self, target: StateRef, states: &mut StateBlocks, span: Span) -> LowerResult<Block> {
        match target {
            StateRef::State(n) => match states.blocks.get(n) {
                Some(block) => Ok(*block),
                None => self.unsupported(span, "a transition to this"),
            },
            StateRef::Accept => Ok(states.accept),
            StateRef::Reject => Ok(*states.reject.get_or_insert_with(|| self.builder.create_block())),
        }
    }
}
