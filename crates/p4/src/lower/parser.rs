//! Parsers: states become blocks, sub-parsers are inlined state by state.

use super::known::ObjectId;
use super::lowering::{Lower, Res};
use super::used::reached_states;
use crate::hir::{ParserBody, StateRef, Transition, TransitionKind};
use crate::span::Span;
use ir::Block;

/// Where the states of a parser are.
#[derive(Debug)]
pub(super) struct States {
    blocks: Vec<Block>,
    /// Where accept goes: on in the parser that calls this one, or out.
    accept: Block,
    /// Where reject goes, made when first needed.
    reject: Option<Block>,
}

impl Lower<'_> {
    /// Lowers the states of a parser; goes on where it accepts.
    pub(super) fn states(&mut self, id: ObjectId, body: &ParserBody) -> Res<()> {
        let mut states = States {
            blocks: body.states.iter().map(|_| self.b.create_block()).collect(),
            accept: self.b.create_block(),
            reject: None,
        };
        // The programmable block's own states have no prefix.
        let prefix = if self.frames.len() > 1 {
            let object = &self.objects[id.index()];
            let top = object.scope.split('.').next().unwrap_or("").len();
            format!("{}.", object.scope.get(top + 1..).unwrap_or(&object.scope))
        } else {
            String::new()
        };
        for (state, block) in body.states.iter().zip(&states.blocks) {
            let loc = self.loc(state.span);
            self.b.add_state(format!("{prefix}{}", state.name), *block, loc);
        }
        let Some(start) = states.blocks.get(body.start) else { return Ok(()) };
        self.b.jump(*start);
        let mut done = Ok(());
        let reached = reached_states(body);
        for (n, state) in body.states.iter().enumerate() {
            self.b.switch_to(states.blocks[n]);
            if !reached.contains(&n) {
                // As in p4c, a state that nothing leads to uses nothing; its block goes with the passes.
                self.b.reject();
                continue;
            }
            let lowered = self.stmts(&state.body);
            done = done.and(lowered);
            if !self.b.is_terminated() {
                let lowered = self.transition(&state.transition, &mut states);
                done = done.and(lowered);
            }
        }
        if let Some(reject) = states.reject {
            self.b.switch_to(reject);
            self.b.reject();
        }
        self.b.switch_to(states.accept);
        done
    }

    fn transition(&mut self, transition: &Transition, states: &mut States) -> Res<()> {
        self.at(transition.span);
        match &transition.kind {
            TransitionKind::State(target) => {
                let block = self.state_block(*target, states, transition.span)?;
                self.b.jump(block);
                Ok(())
            }
            TransitionKind::Select { exprs, cases } => self.select(exprs, cases, states, transition.span),
        }
    }

    /// The block of a state.
    pub(super) fn state_block(&mut self, target: StateRef, states: &mut States, span: Span) -> Res<Block> {
        match target {
            StateRef::State(n) => match states.blocks.get(n) {
                Some(block) => Ok(*block),
                None => self.unsupported(span, "a transition to this"),
            },
            StateRef::Accept => Ok(states.accept),
            StateRef::Reject => Ok(*states.reject.get_or_insert_with(|| self.b.create_block())),
        }
    }
}
