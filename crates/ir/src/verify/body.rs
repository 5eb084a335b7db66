//! Bodies: blocks, terminators, and that each use comes after its definition.

use super::{Fault, Problem, Verifier};
use crate::body::*;
use crate::cfg::Cfg;
use crate::declared::Loc;
use crate::entity::*;
use crate::pipeline::{Arch, Control, ControlKind};
use crate::types::Type;
use std::collections::HashSet;

/// What a kind of control is, as far as instructions care.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Parser,
    Deparser,
    Other,
}

/// A control while it is checked.
pub(super) struct Place<'p> {
    pub control: &'p Control,
    pub role: Role,
    pub block: Option<Block>,
    pub inst: Option<usize>,
    pub loc: Loc,
}

/// Where a value is defined: its block, and after how many instructions there it can be used.
#[derive(Clone, Copy)]
struct Definition {
    block: Block,
    after: usize,
}

fn role(kind: ControlKind) -> Role {
    match kind {
        ControlKind::Parser | ControlKind::MainParser => Role::Parser,
        ControlKind::Deparser | ControlKind::MainDeparser => Role::Deparser,
        _ => Role::Other,
    }
}

/// The controls of an architecture, in the order in which a packet meets them.
fn controls_of(arch: Arch) -> &'static [ControlKind] {
    use ControlKind::*;
    match arch {
        Arch::V1Model => &[Parser, VerifyChecksum, Ingress, Egress, ComputeChecksum, Deparser],
        Arch::Pna => &[MainParser, PreControl, MainControl, MainDeparser],
    }
}

impl Verifier<'_> {
    pub(super) fn at(&mut self, place: &Place<'_>, problem: Problem) {
        self.push(Fault {
            declaration: None,
            control: Some(place.control.name.clone()),
            block: place.block,
            inst: place.inst,
            loc: place.loc,
            problem,
        });
    }

    pub(super) fn controls(&mut self) {
        let p = self.p;
        let order = controls_of(p.arch);
        let mut last = None;
        for control in p.controls.values() {
            let role = role(control.kind);
            let mut place = Place { control, role, block: None, inst: None, loc: Loc::default() };
            let position = order.iter().position(|k| *k == control.kind);
            match position {
                None => self.at(&place, Problem::WrongArch),
                Some(_) if last.is_some() && position <= last => self.at(&place, Problem::ControlOrder),
                Some(_) => last = position,
            }
            self.body(&mut place);
        }
    }

    fn body(&mut self, place: &mut Place<'_>) {
        let body = &place.control.body;
        match body.entry {
            None if !body.blocks.is_empty() => self.at(place, Problem::NoEntry),
            Some(entry) => match body.blocks.get(entry) {
                None => self.at(place, Problem::NoSuch(entry.to_string())),
                Some(data) if !data.params.is_empty() => self.at(place, Problem::EntryParams),
                Some(_) => {}
            },
            None => {}
        }
        self.states(place);
        for ty in body.values.values() {
            if let Some(problem) = self.type_problem(*ty) {
                self.at(place, problem);
            }
        }
        let definitions = self.definitions(place);
        let cfg = Cfg::new(body);
        for (block, data) in body.blocks.iter() {
            place.block = Some(block);
            for (n, inst) in data.insts.iter().enumerate() {
                (place.inst, place.loc) = (Some(n), inst.loc);
                inst.inst.for_each_use(|v| self.value_use(place, &cfg, &definitions, v, n));
                self.inst(place, inst);
            }
            place.inst = None;
            match &data.term {
                None => {
                    place.loc = Loc::default();
                    self.at(place, Problem::NoTerminator);
                }
                Some(term) => {
                    place.loc = term.loc;
                    term.term.for_each_use(|v| self.value_use(place, &cfg, &definitions, v, data.insts.len()));
                    self.term(place, &term.term);
                }
            }
        }
        place.block = None;
    }

    fn states(&mut self, place: &Place<'_>) {
        let body = &place.control.body;
        if place.role != Role::Parser && !body.states.is_empty() {
            self.at(place, Problem::WrongPlace { what: "a state".into(), place: "parsers" });
        }
        for state in &body.states {
            if body.blocks.get(state.block).is_none() {
                self.at(place, Problem::NoSuch(state.block.to_string()));
            }
        }
    }

    fn definitions(&mut self, place: &mut Place<'_>) -> Vec<Option<Definition>> {
        let body = &place.control.body;
        let mut definitions: Vec<Option<Definition>> = vec![None; body.values.len()];
        for (block, data) in body.blocks.iter() {
            let params = data.params.iter().map(|v| (v, 0));
            let results = data.insts.iter().enumerate().flat_map(|(n, i)| i.results.iter().map(move |v| (v, n + 1)));
            for (value, after) in params.chain(results) {
                place.block = Some(block);
                match definitions.get_mut(value.index()) {
                    None => self.at(place, Problem::NoSuch(value.to_string())),
                    Some(Some(_)) => self.at(place, Problem::DefinedTwice(value.to_string())),
                    Some(slot) => *slot = Some(Definition { block, after }),
                }
            }
        }
        place.block = None;
        definitions
    }

    /// `position` is how many instructions of the block come before the use.
    fn value_use(
        &mut self,
        place: &Place<'_>,
        cfg: &Cfg,
        definitions: &[Option<Definition>],
        value: Value,
        position: usize,
    ) {
        let Some(block) = place.block else { return };
        match definitions.get(value.index()) {
            None => self.at(place, Problem::NoSuch(value.to_string())),
            Some(None) => self.at(place, Problem::NeverDefined(value.to_string())),
            Some(Some(def)) => {
                let before = if def.block == block { def.after <= position } else { cfg.dominates(def.block, block) };
                // Code that can't be reached has no order.
                if !before && cfg.is_reachable(block) {
                    self.at(place, Problem::NotDominated(value.to_string()));
                }
            }
        }
    }

    fn call(&mut self, place: &Place<'_>, call: &BlockCall) {
        let body = &place.control.body;
        let Some(target) = body.blocks.get(call.block) else {
            self.at(place, Problem::NoSuch(call.block.to_string()));
            return;
        };
        if target.params.len() != call.args.len() {
            let what = format!("arguments for {}", call.block);
            self.at(place, Problem::Count { what, expected: target.params.len(), found: call.args.len() });
        }
        for (param, arg) in target.params.iter().zip(&call.args) {
            self.expect_type(place, *arg, body.value_type(*param));
        }
    }

    pub(super) fn expect_type(&mut self, place: &Place<'_>, value: Value, expected: Type) {
        // A value that does not exist is named where its use is looked at.
        let found = place.control.body.values.get(value).copied().unwrap_or(expected);
        if found != expected {
            self.at(place, Problem::Type { what: value.to_string(), expected, found });
        }
    }

    fn term(&mut self, place: &Place<'_>, term: &Term) {
        term.for_each_call(|call| self.call(place, call));
        match term {
            Term::Branch { cond, .. } => self.expect_type(place, *cond, Type::Bool),
            Term::Switch { value, cases, .. } => {
                let ty = place.control.body.value_type(*value);
                let mut seen = HashSet::new();
                for (constant, _) in cases {
                    if let Some(problem) = self.const_problem(constant) {
                        self.at(place, problem);
                    }
                    if constant.ty != ty {
                        let what = "a case".to_string();
                        self.at(place, Problem::Type { what, expected: ty, found: constant.ty });
                    }
                    if !seen.insert(&constant.bits) {
                        self.at(place, Problem::DuplicateCase(constant.bits.to_string()));
                    }
                }
            }
            Term::Apply { table, keys, arms } => self.apply(place, *table, keys, arms),
            Term::Exit if place.role == Role::Parser => {
                self.at(place, Problem::WrongPlace { what: "exit".into(), place: "controls" });
            }
            Term::Reject if place.role != Role::Parser => {
                self.at(place, Problem::WrongPlace { what: "reject".into(), place: "parsers" });
            }
            Term::Jump(_) | Term::Return | Term::Exit | Term::Reject => {}
        }
    }

    fn apply(&mut self, place: &Place<'_>, table: TableId, keys: &[Value], arms: &[Arm]) {
        if place.role == Role::Parser {
            self.at(place, Problem::WrongPlace { what: "a table application".into(), place: "controls" });
        }
        let Some(data) = self.p.tables.get(table) else {
            self.at(place, Problem::NoSuch(table.to_string()));
            return;
        };
        if data.keys.len() != keys.len() {
            let what = "keys".to_string();
            self.at(place, Problem::Count { what, expected: data.keys.len(), found: keys.len() });
        }
        for (key, value) in data.keys.iter().zip(keys) {
            self.expect_type(place, *value, key.ty);
        }
        let mut seen = HashSet::new();
        for arm in arms {
            if !seen.insert(arm.action) {
                self.at(place, Problem::Twice(format!("the arm of {}", arm.action)));
            }
            if data.actions.iter().any(|a| a.action == arm.action) {
                self.arm(place, arm);
            } else {
                self.at(place, Problem::NotAnAction(arm.action.to_string()));
            }
        }
        for action in data.actions.iter().filter(|a| !seen.contains(&a.action)) {
            let name = self.p.actions.get(action.action).map_or("", |a| &a.preamble.name);
            self.at(place, Problem::MissingArm(format!("{} {name}", action.action)));
        }
    }

    fn arm(&mut self, place: &Place<'_>, arm: &Arm) {
        let body = &place.control.body;
        let Some(target) = body.blocks.get(arm.block) else {
            self.at(place, Problem::NoSuch(arm.block.to_string()));
            return;
        };
        let params = self.p.actions.get(arm.action).map(|a| a.params.as_slice()).unwrap_or_default();
        if target.params.len() != params.len() + 1 {
            let what = format!("parameters of {}, which is the arm of {}", arm.block, arm.action);
            self.at(place, Problem::Count { what, expected: params.len() + 1, found: target.params.len() });
        }
        let types = std::iter::once(Type::Bool).chain(params.iter().map(|p| p.ty));
        for (param, ty) in target.params.iter().zip(types) {
            self.expect_type(place, *param, ty);
        }
    }
}
