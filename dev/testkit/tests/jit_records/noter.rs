//! What the interpreter does with a packet, noted step by step: every decision, table and count.

use entries::KeyLayout;
use interp::walk::{Call, CallArg, Code, Detour, Op, Outcome, Pc, Slot, Step, Walker};
use ir::{ControlKind, ExternFn, Pipeline};

/// A table application: the table, what it found, and its key.
pub type Application = (usize, Option<u32>, Vec<u64>);

/// What was noted of a packet.
#[derive(Default)]
pub struct Noted {
    pub decisions: Vec<u32>,
    /// How many of them there were in front of PNA's deparser.
    pub deparser: Option<usize>,
    pub applications: Vec<Application>,
    pub indices: Vec<u64>,
}

/// Runs all blocks, and notes what they do.
pub struct Noter {
    layouts: Vec<KeyLayout>,
    pub noted: Noted,
}

/// What is told apart of an instruction that ends a parser: why.
fn why(op: Option<&Op>, walker: &Walker<'_>) -> u32 {
    let at = |slot: Slot| walker.slots()[slot as usize];
    let odd = |bits: u64| if bits.is_multiple_of(8) { 3 } else { 2 };
    match op {
        Some(Op::ExtractVarbit { h, a }) => {
            let header = &walker.program().headers[*h as usize];
            let most = header.varbit.map_or(0, |field| header.fields[field].reg.width);
            if at(*a) > u64::from(most) { 1 } else { odd(at(*a)) }
        }
        Some(Op::Advance { a }) => odd(at(*a)),
        _ => 0,
    }
}

/// Where something is done on the way from there.
fn end_of(code: &Code, mut pc: Pc) -> Pc {
    while let Some(Op::Goto { pc: to }) = code.ops.get(pc as usize) {
        pc = *to;
    }
    pc
}

impl Noter {
    pub fn new(pipeline: &Pipeline) -> Noter {
        let layouts = pipeline.tables.values().map(|table| KeyLayout::new(&table.keys)).collect();
        Noter { layouts, noted: Noted::default() }
    }

    fn decide(&mut self, what: u32) {
        self.noted.decisions.push(what);
    }

    fn call(&mut self, call: &Call, walker: &Walker<'_>) {
        use ExternFn::{
            CounterCount, UpdateChecksum, UpdateChecksumWithPayload, VerifyChecksum, VerifyChecksumWithPayload,
        };
        let Some(CallArg::Value(reg)) = call.args.first() else { return };
        let words = &walker.slots()[reg.slot as usize..(reg.slot + reg.words) as usize];
        match call.func {
            CounterCount => {
                let wide = words[1..].iter().any(|word| *word != 0);
                self.noted.indices.push(if wide { u64::MAX } else { words[0] });
            }
            UpdateChecksum | UpdateChecksumWithPayload | VerifyChecksum | VerifyChecksumWithPayload => {
                self.decide(u32::from(words[0] != 0));
            }
            _ => {}
        }
    }

    /// A table is applied; where it goes on.
    fn apply(&mut self, walker: &mut Walker<'_>, code: &Code, index: u32, pc: Pc) -> Step {
        let site = &code.applies[index as usize];
        let found = walker.lookup(site);
        let mut key = Vec::new();
        for field in &self.layouts[site.table].fields {
            let slot = site.keys[field.position].slot as usize;
            key.extend_from_slice(&walker.slots()[slot..slot + field.words]);
        }
        self.noted.applications.push((site.table, found, key));
        let step = walker.apply(site, found, pc);
        if let Step::Next(to) = step {
            self.decide(to << 1 | u32::from(found.is_some()));
            // An entry whose group has no members is no hit.
            let hit = site.arms.iter().find(|arm| arm.pc == to).map_or(0, |arm| walker.slots()[arm.hit as usize]);
            self.decide(hit as u32);
        }
        step
    }
}

impl Detour for Noter {
    fn takes(&self, _: ControlKind) -> bool {
        true
    }

    fn run(&mut self, walker: &mut Walker<'_>) -> Outcome {
        let code = walker.code();
        if code.kind == ControlKind::MainDeparser {
            self.noted.deparser = Some(self.noted.decisions.len());
        }
        let mut pc = 0;
        loop {
            let op = code.ops.get(pc as usize);
            let at = |walker: &Walker<'_>, slot: Slot| u32::from(walker.slots()[slot as usize] != 0);
            match op {
                Some(Op::Select1 { c, .. } | Op::SelectN { c, .. }) => self.decide(at(walker, *c)),
                Some(Op::Call { index }) => self.call(&code.calls[*index as usize], walker),
                _ => {}
            }
            let reason = why(op, walker);
            let step = match op {
                Some(Op::Apply { index }) => self.apply(walker, code, *index, pc),
                _ => walker.step(pc),
            };
            match (op, step) {
                (_, Step::End(outcome)) => {
                    // Where and why it ended: a parser may give up at any instruction.
                    self.noted.decisions.extend([u32::MAX, pc, reason]);
                    return outcome;
                }
                (Some(Op::Branch { .. } | Op::Switch { .. }), Step::Next(to)) => self.decide(end_of(code, to)),
                (Some(Op::InValueSet { index }), _) => self.decide(at(walker, code.value_sets[*index as usize].0)),
                _ => {}
            }
            if let Step::Next(to) = step {
                pc = to;
            }
        }
    }
}
