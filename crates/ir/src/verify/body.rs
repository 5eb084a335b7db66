//! Verification of bodies: blocks, terminators, and that each use comes after its definition.

use super::{PipelineVerifier, VerifierViolation, ViolationKind};
use crate::body::*;
use crate::cfg::Cfg;
use crate::declaration::SourceLoc;
use crate::entity::*;
use crate::pipeline::{Arch, Control, ControlKind};
use crate::types::Type;
use std::collections::HashSet;

/// Class of a control; it decides which instructions are allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlClass {
    Parser,
    Deparser,
    Other,
}

/// The control that is being verified, with the current block and instruction.
pub(super) struct VerifyCursor<'p> {
    pub control: &'p Control,
    pub class: ControlClass,
    pub block: Option<Block>,
    pub inst: Option<usize>,
    pub loc: SourceLoc,
}

/// Definition of a value: its block, and the number of instructions of that block after which the
/// value is available.
#[derive(Clone, Copy)]
struct ValueDefinition {
    block: Block,
    after: usize,
}

fn control_class(kind: ControlKind) -> ControlClass {
    match kind {
        ControlKind::Parser | ControlKind::MainParser => ControlClass::Parser,
        ControlKind::Deparser | ControlKind::MainDeparser => ControlClass::Deparser,
        _ => ControlClass::Other,
    }
}

/// Returns the controls of an architecture, in the order in which a packet passes them.
fn controls_of(arch: Arch) -> &'static [ControlKind] {
    use ControlKind::*;
    match arch {
        Arch::V1Model => &[Parser, VerifyChecksum, Ingress, Egress, ComputeChecksum, Deparser],
        Arch::Pna => &[MainParser, PreControl, MainControl, MainDeparser],
    }
}

impl PipelineVerifier<'_> {
    pub(super) fn report_at(&mut self, cursor: &VerifyCursor<'_>, kind: ViolationKind) {
        self.push_violation(VerifierViolation {
            declaration: None,
            control: Some(cursor.control.name.clone()),
            block: cursor.block,
            inst: cursor.inst,
            loc: cursor.loc,
            kind,
        });
    }

    pub(super) fn verify_controls(&mut self) {
        let p = self.pipeline;
        let order = controls_of(p.arch);
        let mut last = None;
        for control in p.controls.values() {
            let class = control_class(control.kind);
            let mut cursor = VerifyCursor { control, class, block: None, inst: None, loc: SourceLoc::default() };
            let position = order.iter().position(|k| *k == control.kind);
            match position {
                None => self.report_at(&cursor, ViolationKind::WrongArch),
                Some(_) if last.is_some() && position <= last => self.report_at(&cursor, ViolationKind::ControlOrder),
                Some(_) => last = position,
            }
            self.verify_body(&mut cursor);
        }
    }

    /// Verifies the body of the control at `cursor`: entry, parser states, types of values, then
    /// each instruction and terminator, with its uses of values. `cursor` moves along, for
    /// messages.
    fn verify_body(&mut self, cursor: &mut VerifyCursor<'_>) {
        let body = &cursor.control.body;
        match body.entry {
            None if !body.blocks.is_empty() => self.report_at(cursor, ViolationKind::NoEntry),
            Some(entry) => match body.blocks.get(entry) {
                None => self.report_at(cursor, ViolationKind::MissingEntity(entry.to_string())),
                Some(data) if !data.params.is_empty() => self.report_at(cursor, ViolationKind::EntryParams),
                Some(_) => {}
            },
            None => {}
        }
        self.verify_states(cursor);
        for ty in body.values.values() {
            if let Some(kind) = self.type_violation(*ty) {
                self.report_at(cursor, kind);
            }
        }
        let definitions = self.collect_definitions(cursor);
        let cfg = Cfg::new(body);
        for (block, data) in body.blocks.iter() {
            cursor.block = Some(block);
            for (inst_index, inst) in data.insts.iter().enumerate() {
                (cursor.inst, cursor.loc) = (Some(inst_index), inst.loc);
                inst.inst.for_each_use(|v| self.verify_value_use(cursor, &cfg, &definitions, v, inst_index));
                self.verify_inst(cursor, inst);
            }
            cursor.inst = None;
            match &data.term {
                None => {
                    cursor.loc = SourceLoc::default();
                    self.report_at(cursor, ViolationKind::NoTerminator);
                }
                Some(term) => {
                    cursor.loc = term.loc;
                    term.term.for_each_use(|v| self.verify_value_use(cursor, &cfg, &definitions, v, data.insts.len()));
                    self.verify_terminator(cursor, &term.term);
                }
            }
        }
        cursor.block = None;
    }

    fn verify_states(&mut self, cursor: &VerifyCursor<'_>) {
        let body = &cursor.control.body;
        if cursor.class != ControlClass::Parser && !body.states.is_empty() {
            self.report_at(cursor, ViolationKind::WrongPlace { what: "a state".into(), place: "parsers" });
        }
        for state in &body.states {
            if body.blocks.get(state.block).is_none() {
                self.report_at(cursor, ViolationKind::MissingEntity(state.block.to_string()));
            }
        }
    }

    fn collect_definitions(&mut self, cursor: &mut VerifyCursor<'_>) -> Vec<Option<ValueDefinition>> {
        let body = &cursor.control.body;
        let mut definitions: Vec<Option<ValueDefinition>> = vec![None; body.values.len()];
        for (block, data) in body.blocks.iter() {
            let params = data.params.iter().map(|v| (v, 0));
            let results = data.insts.iter().enumerate().flat_map(|(n, i)| i.results.iter().map(move |v| (v, n + 1)));
            for (value, after) in params.chain(results) {
                cursor.block = Some(block);
                match definitions.get_mut(value.index()) {
                    None => self.report_at(cursor, ViolationKind::MissingEntity(value.to_string())),
                    Some(Some(_)) => self.report_at(cursor, ViolationKind::DefinedTwice(value.to_string())),
                    Some(slot) => *slot = Some(ValueDefinition { block, after }),
                }
            }
        }
        cursor.block = None;
        definitions
    }

    /// Checks that a use comes after its definition. `position` is the number of instructions of
    /// the block before the use. `definitions` is indexed by value.
    fn verify_value_use(
        &mut self,
        cursor: &VerifyCursor<'_>,
        cfg: &Cfg,
        definitions: &[Option<ValueDefinition>],
        value: Value,
        position: usize,
    ) {
        let Some(block) = cursor.block else { return };
        match definitions.get(value.index()) {
            None => self.report_at(cursor, ViolationKind::MissingEntity(value.to_string())),
            Some(None) => self.report_at(cursor, ViolationKind::NeverDefined(value.to_string())),
            Some(Some(def)) => {
                let is_defined_before =
                    if def.block == block { def.after <= position } else { cfg.dominates(def.block, block) };
                // Unreachable code has no order.
                if !is_defined_before && cfg.is_reachable(block) {
                    self.report_at(cursor, ViolationKind::NotDominated(value.to_string()));
                }
            }
        }
    }

    fn verify_block_call(&mut self, cursor: &VerifyCursor<'_>, call: &BlockCall) {
        let body = &cursor.control.body;
        let Some(target) = body.blocks.get(call.block) else {
            self.report_at(cursor, ViolationKind::MissingEntity(call.block.to_string()));
            return;
        };
        if target.params.len() != call.args.len() {
            let what = format!("arguments for {}", call.block);
            self.report_at(
                cursor,
                ViolationKind::Count { what, expected: target.params.len(), found: call.args.len() },
            );
        }
        for (param, arg) in target.params.iter().zip(&call.args) {
            self.expect_type(cursor, *arg, body.value_type(*param));
        }
    }

    pub(super) fn expect_type(&mut self, cursor: &VerifyCursor<'_>, value: Value, expected: Type) {
        // A value that does not exist is reported at its use.
        let found = cursor.control.body.values.get(value).copied().unwrap_or(expected);
        if found != expected {
            self.report_at(cursor, ViolationKind::Type { what: value.to_string(), expected, found });
        }
    }

    /// Verifies a terminator: its jumps, the types of its operands, distinct cases of a switch, and
    /// that the control may contain it.
    fn verify_terminator(&mut self, cursor: &VerifyCursor<'_>, term: &Terminator) {
        term.for_each_call(|call| self.verify_block_call(cursor, call));
        match term {
            Terminator::Branch { cond, .. } => self.expect_type(cursor, *cond, Type::Bool),
            Terminator::Switch { value, cases, .. } => {
                let ty = cursor.control.body.value_type(*value);
                let mut seen = HashSet::new();
                for (constant, _) in cases {
                    if let Some(kind) = self.const_violation(constant) {
                        self.report_at(cursor, kind);
                    }
                    if constant.ty != ty {
                        let what = "a case".to_string();
                        self.report_at(cursor, ViolationKind::Type { what, expected: ty, found: constant.ty });
                    }
                    if !seen.insert(&constant.bits) {
                        self.report_at(cursor, ViolationKind::DuplicateCase(constant.bits.to_string()));
                    }
                }
            }
            Terminator::Apply { table, keys, arms } => self.verify_apply(cursor, *table, keys, arms),
            Terminator::Exit if cursor.class == ControlClass::Parser => {
                self.report_at(cursor, ViolationKind::WrongPlace { what: "exit".into(), place: "controls" });
            }
            Terminator::Reject if cursor.class != ControlClass::Parser => {
                self.report_at(cursor, ViolationKind::WrongPlace { what: "reject".into(), place: "parsers" });
            }
            Terminator::Jump(_) | Terminator::Return | Terminator::Exit | Terminator::Reject => {}
        }
    }

    /// Verifies a table application: types of the keys, and exactly one arm for each action of the
    /// table.
    fn verify_apply(&mut self, cursor: &VerifyCursor<'_>, table: TableId, keys: &[Value], arms: &[ActionArm]) {
        if cursor.class == ControlClass::Parser {
            self.report_at(cursor, ViolationKind::WrongPlace { what: "a table application".into(), place: "controls" });
        }
        let Some(table_data) = self.pipeline.tables.get(table) else {
            self.report_at(cursor, ViolationKind::MissingEntity(table.to_string()));
            return;
        };
        if table_data.keys.len() != keys.len() {
            let what = "keys".to_string();
            self.report_at(cursor, ViolationKind::Count { what, expected: table_data.keys.len(), found: keys.len() });
        }
        for (key, value) in table_data.keys.iter().zip(keys) {
            self.expect_type(cursor, *value, key.ty);
        }
        let mut seen = HashSet::new();
        for arm in arms {
            if !seen.insert(arm.action) {
                self.report_at(cursor, ViolationKind::ListedTwice(format!("the arm of {}", arm.action)));
            }
            if table_data.actions.iter().any(|a| a.action == arm.action) {
                self.verify_arm(cursor, arm);
            } else {
                self.report_at(cursor, ViolationKind::NotAnAction(arm.action.to_string()));
            }
        }
        for action in table_data.actions.iter().filter(|a| !seen.contains(&a.action)) {
            let name = self.pipeline.actions.get(action.action).map_or("", |a| &a.preamble.name);
            self.report_at(cursor, ViolationKind::MissingArm(format!("{} {name}", action.action)));
        }
    }

    fn verify_arm(&mut self, cursor: &VerifyCursor<'_>, arm: &ActionArm) {
        let body = &cursor.control.body;
        let Some(target) = body.blocks.get(arm.block) else {
            self.report_at(cursor, ViolationKind::MissingEntity(arm.block.to_string()));
            return;
        };
        let params = self.pipeline.actions.get(arm.action).map(|a| a.params.as_slice()).unwrap_or_default();
        if target.params.len() != params.len() + 1 {
            let what = format!("parameters of {}, which is the arm of {}", arm.block, arm.action);
            self.report_at(
                cursor,
                ViolationKind::Count { what, expected: params.len() + 1, found: target.params.len() },
            );
        }
        let types = std::iter::once(Type::Bool).chain(params.iter().map(|p| p.ty));
        for (param, ty) in target.params.iter().zip(types) {
            self.expect_type(cursor, *param, ty);
        }
    }
}
