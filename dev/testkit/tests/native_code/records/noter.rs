//! Records the interpreter's processing of a packet step by step: every decision, table application
//! and count.

use entries::KeyLayout;
use interp::block_hook::{
    BlockCode, BlockExit, BlockHook, BlockStepper, CallArg, DecodedCall, InstIndex, Op, StepResult, WordIndex,
};
use ir::{ControlKind, ExternFn, Pipeline};

/// Table application: the table, the entry that it hit, and its key.
pub type Application = (usize, Option<u32>, Vec<u64>);

/// Record of a packet.
#[derive(Default)]
pub struct Noted {
    pub decisions: Vec<u32>,
    /// Number of decisions before PNA's deparser.
    pub deparser: Option<usize>,
    pub applications: Vec<Application>,
    pub indices: Vec<u64>,
    /// Whether the main parser ran.
    pub is_parsed: bool,
    /// Whether it has a second pass, as itself or as another packet that the engine made of it.
    pub recirculates: bool,
}

/// Runs all blocks, and records their steps.
pub struct Noter {
    layouts: Vec<KeyLayout>,
    pub noted: Noted,
}

/// Returns a number that distinguishes the reasons for which an instruction ends a parser.
fn why(op: Option<&Op>, walker: &BlockStepper<'_>) -> u32 {
    let at = |slot: WordIndex| walker.reg_words()[slot as usize];
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

/// Follows jumps to the next instruction with an effect.
fn end_of(code: &BlockCode, mut pc: InstIndex) -> InstIndex {
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

    fn call(&mut self, call: &DecodedCall, walker: &BlockStepper<'_>) {
        use ExternFn::{
            CounterCount, UpdateChecksum, UpdateChecksumWithPayload, VerifyChecksum, VerifyChecksumWithPayload,
        };
        let Some(CallArg::Value(reg)) = call.args.first() else { return };
        let words = &walker.reg_words()[reg.first_word as usize..(reg.first_word + reg.words) as usize];
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

    /// Records a table application. Returns where execution continues.
    fn apply(&mut self, walker: &mut BlockStepper<'_>, code: &BlockCode, index: u32, pc: InstIndex) -> StepResult {
        let site = &code.applies[index as usize];
        let found = walker.lookup(site);
        let mut key = Vec::new();
        for field in &self.layouts[site.table].fields {
            let slot = site.keys[field.position].first_word as usize;
            key.extend_from_slice(&walker.reg_words()[slot..slot + field.words]);
        }
        self.noted.applications.push((site.table, found, key));
        let step = walker.apply(site, found, pc);
        if let StepResult::Next(to) = step {
            self.decide(to << 1 | u32::from(found.is_some()));
            // An entry with an empty group is not a hit.
            let hit = site.arms.iter().find(|arm| arm.pc == to).map_or(0, |arm| walker.reg_words()[arm.hit as usize]);
            self.decide(hit as u32);
        }
        step
    }
}

impl BlockHook for Noter {
    fn handles_block(&self, _: ControlKind) -> bool {
        true
    }

    fn run(&mut self, walker: &mut BlockStepper<'_>) -> BlockExit {
        let code = walker.code();
        if code.kind == ControlKind::MainParser {
            self.noted.recirculates |= std::mem::replace(&mut self.noted.is_parsed, true);
        }
        if code.kind == ControlKind::MainDeparser {
            self.noted.deparser = Some(self.noted.decisions.len());
        }
        let mut pc = 0;
        loop {
            let op = code.ops.get(pc as usize);
            let at = |walker: &BlockStepper<'_>, slot: WordIndex| u32::from(walker.reg_words()[slot as usize] != 0);
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
                (_, StepResult::End(outcome)) => {
                    // Records where and why it ended, because a parser may fail at any instruction.
                    self.noted.decisions.extend([u32::MAX, pc, reason]);
                    return outcome;
                }
                (Some(Op::Branch { .. } | Op::Switch { .. }), StepResult::Next(to)) => self.decide(end_of(code, to)),
                (Some(Op::InValueSet { index }), _) => self.decide(at(walker, code.value_sets[*index as usize].0)),
                _ => {}
            }
            if let StepResult::Next(to) = step {
                pc = to;
            }
        }
    }
}
