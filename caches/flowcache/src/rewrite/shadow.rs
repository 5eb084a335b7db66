//! [`Shadow`]: goes beside the interpreter through all blocks of one packet, and knows where each value's bits come from.

use super::Unrewritable;
use super::form::Check;
use super::noted::Noted;
use super::sym::{Bits, FIXED, Given, Length, Pins, Sym, Words, of_bits};
use super::template::{Bytes, Counted};
use super::tenants::Place;
use crate::effects::{Effects, Slots, Span, effects, spread};
use crate::witness::Witness;
use interp::walk::{Code, Detour, Op, Outcome, Pc, Program, Reg, Slot, Step, Walker};
use ir::{Arch, ControlKind, Pipeline, TableId};
use std::collections::HashMap;
use std::sync::Arc;

/// What a shadow knows of a program.
#[derive(Debug)]
pub struct Known {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) slots: Slots,
    /// By block and instruction.
    effects: Vec<Vec<Effects>>,
    pub(super) witnesses: Vec<Witness>,
    /// By slot: whether the program says what is in it.
    literal: Vec<bool>,
    /// Variables of one word, by name.
    variables: HashMap<String, Slot>,
}

impl Known {
    /// Of a program.
    pub fn new(pipeline: &Arc<Pipeline>, program: &Program) -> Known {
        let slots = Slots::new(program);
        let of = |code: &Code| code.ops.iter().map(|op| effects(&slots, program, code, op)).collect();
        let effects: Vec<Vec<Effects>> = program.codes.iter().map(of).collect();
        // What is no variable, and what no instruction puts anything into.
        let mut literal: Vec<bool> = (0..slots.end).map(|slot| slot >= slots.values).collect();
        let sites = program.codes.iter().flat_map(|code| &code.applies);
        let arms = sites.flat_map(|site| site.arms.iter().enumerate().map(move |arm| (site.table, arm)));
        let given =
            arms.flat_map(|(table, (place, arm))| [(arm.hit, 1), (arm.params, program.arm_words[table][place])]);
        let defs = effects.iter().flatten().flat_map(|effects| effects.defs.iter().copied());
        for slot in spread(&given.chain(defs).collect::<Vec<Span>>()).filter(|slot| *slot < slots.end) {
            literal[slot as usize] = false;
        }
        let variables =
            program.var_names.iter().zip(&program.var_regs).filter(|(_, reg)| reg.words == 1 && !reg.varbit);
        let variables = variables.map(|(name, reg)| (name.to_string(), reg.slot));
        Known {
            pipeline: pipeline.clone(),
            slots,
            effects,
            literal,
            variables: variables.collect(),
            witnesses: pipeline.tables.values().map(|table| Witness::new(&table.keys)).collect(),
        }
    }

    /// Where a variable of at most 64 bits lies.
    pub fn variable(&self, name: &str) -> Option<Slot> {
        self.variables.get(name).copied()
    }
}

/// What the deparser emitted.
#[derive(Default)]
pub(super) struct Emitted {
    /// Bit by bit: the packet's bit that it is, or a constant.
    pub bits: Vec<u16>,
    /// Bits at which 16-bit fields begin that are the packet's length and something.
    pub lengths: Vec<(usize, Length)>,
    /// Bits at which sums begin.
    pub sums: Vec<(usize, Words, bool)>,
}

/// See the module. Made anew for each packet.
pub(super) struct Shadow {
    pub known: Arc<Known>,
    pub pins: Pins,
    pub syms: Vec<Sym>,
    /// The fields that were extracted: first bit and width.
    pub fields: Vec<(u32, u32)>,
    /// What of its way is noted of any packet.
    pub noted: Noted,
    pub credits: Vec<(Counted, Bytes)>,
    pub checks: Vec<(Words, Check)>,
    /// Of `InternetChecksum` objects.
    pub sums: HashMap<usize, Words>,
    pub emitted: Emitted,
    /// Bits that the parser took.
    pub parsed: usize,
    blocks: usize,
    /// The variable that says whose packet it is, and where its bits are.
    tenant: Option<Slot>,
    pub place: Option<Place>,
}

impl Shadow {
    /// `tenant`: the variable that says whose packet it is.
    pub fn new(known: &Arc<Known>, bytes: &[u8], tenant: Option<Slot>) -> Shadow {
        Shadow {
            syms: known.literal.iter().map(|literal| if *literal { Sym::Fixed } else { Sym::Const }).collect(),
            known: known.clone(),
            pins: Pins::new(bytes),
            fields: Vec::new(),
            noted: Noted::default(),
            credits: Vec::new(),
            checks: Vec::new(),
            sums: HashMap::new(),
            emitted: Emitted::default(),
            parsed: 0,
            blocks: 0,
            tenant,
            place: None,
        }
    }

    /// Where a slot's bits come from.
    pub fn sym(&self, slot: Slot) -> Sym {
        self.pins.settled(self.raw(slot))
    }

    /// The same, also of bits that are all constants by now.
    pub fn raw(&self, slot: Slot) -> Sym {
        if slot < self.known.slots.first || slot >= self.known.slots.end {
            return Sym::Const;
        }
        self.syms[slot as usize].clone()
    }

    pub fn set(&mut self, slot: Slot, sym: Sym) {
        if (self.known.slots.first..self.known.slots.end).contains(&slot) {
            self.syms[slot as usize] = sym;
        }
    }

    pub fn set_bits(&mut self, slot: Slot, bits: Bits) {
        self.set(slot, of_bits(bits));
    }

    fn constant(&mut self, (first, count): Span) {
        (first..first + count).for_each(|slot| self.set(slot, Sym::Const));
    }

    /// Somebody looked at these bits of a slot.
    pub fn pin(&mut self, slot: Slot, mask: u64) {
        let sym = self.sym(slot);
        self.pins.pin(&sym, mask);
    }

    pub fn pin_reg(&mut self, reg: Reg) {
        (reg.slot..reg.slot + reg.words).for_each(|slot| self.pin(slot, u64::MAX));
    }

    /// What the architecture puts in place before a block.
    fn begin(&mut self, walker: &Walker<'_>, kind: ControlKind) {
        self.sums.clear();
        let known = &walker.program().well_known;
        let first = self.blocks == 0;
        self.blocks += 1;
        let mut place = |reg: Option<Reg>, sym: Sym| {
            if let Some(reg) = reg {
                self.syms[reg.slot as usize] = sym;
            }
        };
        let length = self.pins.length as i64;
        let now = |reg: Option<Reg>| reg.map_or(0, |reg: Reg| walker.slots()[reg.slot as usize] as i64);
        match self.known.pipeline.arch {
            Arch::Pna => {
                let block = match kind {
                    ControlKind::PreControl => 0,
                    ControlKind::MainParser => 1,
                    ControlKind::MainControl => 2,
                    _ => return,
                };
                let input = &known.pna[block];
                for reg in [input.input_port, input.parser_error, input.direction, input.pass] {
                    place(reg, Sym::Const);
                }
                place(input.timestamp, Sym::Live(Unrewritable::Time));
            }
            Arch::V1Model => match kind {
                ControlKind::Parser if first => {
                    place(known.packet_length, Sym::Length(Length::of_packet(0)));
                    place(known.ingress_global_timestamp, Sym::Live(Unrewritable::Time));
                }
                ControlKind::VerifyChecksum => place(known.parser_error, Sym::Const),
                ControlKind::Ingress => {
                    place(known.parser_error, Sym::Const);
                    place(known.checksum_error, Sym::Const);
                }
                ControlKind::Egress => {
                    for reg in [known.egress_port, known.egress_spec, known.instance_type] {
                        place(reg, Sym::Const);
                    }
                    let live = Sym::Live(Unrewritable::Time);
                    place(known.enq_timestamp, live.clone());
                    place(known.egress_global_timestamp, live);
                    let more = now(known.packet_length) - length;
                    place(known.packet_length, Sym::Length(Length::of_packet(more)));
                    self.pins.bound(-more, i64::MAX);
                }
                _ => {}
            },
        }
    }

    /// What the architecture looks at behind a block.
    fn end(&mut self, walker: &Walker<'_>, kind: ControlKind) {
        let known = walker.program().well_known;
        let looked: &[Option<Reg>] = match kind {
            ControlKind::Ingress => &[known.egress_spec, known.mcast_grp],
            ControlKind::Egress => &[known.egress_spec],
            _ => &[],
        };
        looked.iter().flatten().for_each(|reg| self.pin_reg(*reg));
        if kind == ControlKind::Ingress && known.mcast_grp.is_some_and(|reg| walker.slots()[reg.slot as usize] != 0) {
            self.pins.by_value = true;
            self.pins.fail(Unrewritable::Copies);
        }
        // Why it is dropped, if it is.
        if matches!(kind, ControlKind::Ingress | ControlKind::Egress | ControlKind::MainControl) {
            known.drop_reason.iter().for_each(|reg| self.pin_reg(*reg));
        }
        if kind.is_parser() {
            self.parsed = walker.cursor();
            self.sees_tenant(walker);
        }
    }

    fn step(&mut self, walker: &mut Walker<'_>, block: usize, pc: Pc) -> Step {
        let code = walker.code();
        let op = code.ops[pc as usize];
        self.noted.looked_at(op, code, walker.slots());
        match op {
            Op::Goto { .. } | Op::Back { .. } | Op::Return | Op::Exit | Op::Reject | Op::State { .. } => {
                walker.step(pc)
            }
            Op::Branch { c, .. } => {
                self.pin(c, u64::MAX);
                self.decided(walker.step(pc))
            }
            Op::Switch { index } => {
                self.pin_reg(code.switches[index as usize].value);
                self.decided(walker.step(pc))
            }
            Op::Verify { c, e } => {
                self.pin(c, u64::MAX);
                self.pin(e, u64::MAX);
                walker.step(pc)
            }
            Op::Apply { index } => self.apply(walker, pc, index),
            Op::Call { index } => self.call(walker, pc, &code.calls[index as usize]),
            Op::SetValid { .. } | Op::SetInvalid { .. } | Op::Copy { .. } => self.header(walker, pc, op),
            Op::Extract { h } => self.extract(walker, pc, h, None),
            Op::ExtractVarbit { h, a } => {
                self.depends_on(a);
                self.extract(walker, pc, h, Some(walker.slots()[a as usize]))
            }
            Op::Advance { a } => {
                self.depends_on(a);
                let bits = walker.slots()[a as usize];
                self.needs(walker.cursor() as u64 + bits.min(1 << 20));
                walker.step(pc)
            }
            Op::Lookahead { index } => {
                let (reg, at) = (code.lookaheads[index as usize], walker.cursor());
                let there = self.needs(at as u64 + u64::from(reg.width));
                let step = walker.step(pc);
                if there {
                    self.read_packet(reg, at);
                }
                step
            }
            Op::InValueSet { index } => {
                let (d, _, keys) = &code.value_sets[index as usize];
                keys.iter().for_each(|key| self.pin_reg(*key));
                let step = walker.step(pc);
                self.set(*d, Sym::Const);
                step
            }
            Op::PacketLength { d } => {
                let step = walker.step(pc);
                self.set(d, Sym::Length(Length::of_packet(0)));
                step
            }
            Op::Emit { h } => {
                if walker.valid()[h as usize] {
                    self.emit(walker, h);
                }
                walker.step(pc)
            }
            _ => self.compute(walker, block, pc, op),
        }
    }

    /// Whether the packet has so many bits; packets that don't go another way.
    fn needs(&mut self, bits: u64) -> bool {
        let there = bits <= self.pins.length as u64 * 8;
        match there {
            true => self.pins.bound(bits.div_ceil(8) as i64, i64::MAX),
            false => self.pins.bound(0, (bits as i64 - 1) / 8),
        }
        there
    }

    /// A register gets the packet's bits from there on.
    fn read_packet(&mut self, reg: Reg, at: usize) {
        // Bits are numbered with 16 bits.
        if at + reg.width as usize >= usize::from(FIXED) {
            return self.pins.fail(Unrewritable::TooDeep);
        }
        for word in 0..reg.words {
            let mut bits = [FIXED; 64];
            for (bit, from) in bits.iter_mut().enumerate() {
                let place = word * 64 + bit as u32;
                if place < reg.width {
                    *from = (at + (reg.width - 1 - place) as usize) as u16;
                }
            }
            self.set_bits(reg.slot + word, bits);
        }
    }

    fn extract(&mut self, walker: &mut Walker<'_>, pc: Pc, h: u32, varbit: Option<u64>) -> Step {
        let program = walker.program();
        let header = &program.headers[h as usize];
        let most = header.varbit.map_or(0, |index| u64::from(header.fields[index].reg.width));
        let extra = varbit.unwrap_or(0).min(most);
        let mut at = walker.cursor();
        let before = walker.valid().to_vec();
        self.needs((at + header.bits as usize) as u64 + extra);
        let step = walker.step(pc);
        if walker.cursor() == at {
            return step;
        }
        for field in &header.fields {
            let mut reg = field.reg;
            if reg.varbit {
                self.set(reg.slot, Sym::Const);
                self.constant((reg.slot + 1, reg.words - 1));
                reg = Reg { slot: reg.slot + 1, words: (extra as u32).div_ceil(64), width: extra as u32, ..reg };
            }
            self.fields.push((at as u32, reg.width));
            self.read_packet(reg, at);
            at += reg.width as usize;
        }
        self.gone(walker, &before);
        if self.tenant.is_some_and(|slot| header.fields.iter().any(|field| field.reg.slot == slot)) {
            self.sees_tenant(walker);
        }
        step
    }

    /// Where the tenant's number is, if it is there by now.
    fn sees_tenant(&mut self, walker: &Walker<'_>) {
        if let (Some(slot), None) = (self.tenant, &self.place) {
            self.place = Place::new(&self.pins, &self.raw(slot), walker.slots()[slot as usize]);
        }
    }

    /// Fields of headers that are no more valid are 0.
    fn gone(&mut self, walker: &Walker<'_>, before: &[bool]) {
        for (h, header) in walker.program().headers.iter().enumerate() {
            if before[h] && !walker.valid()[h] {
                let (first, count) = header.slots;
                (first..first + count).for_each(|slot| self.set(slot, Sym::Fixed));
            }
        }
    }

    fn header(&mut self, walker: &mut Walker<'_>, pc: Pc, op: Op) -> Step {
        let before = walker.valid().to_vec();
        let mut copied = None;
        if let Op::Copy { dst, src } = op
            && before[src as usize]
        {
            let headers = &walker.program().headers;
            let ((to, count), (from, _)) = (headers[dst as usize].slots, headers[src as usize].slots);
            let syms: Vec<Sym> = (from..from + count).map(|slot| self.raw(slot)).collect();
            copied = Some((to, syms));
        }
        let step = walker.step(pc);
        self.gone(walker, &before);
        if let Some((to, syms)) = copied {
            syms.into_iter().enumerate().for_each(|(at, sym)| self.set(to + at as Slot, sym));
        }
        step
    }

    fn apply(&mut self, walker: &mut Walker<'_>, pc: Pc, index: u32) -> Step {
        let site = &walker.code().applies[index as usize];
        let known = self.known.clone();
        let table = &known.pipeline.tables[TableId(site.table as u32)];
        site.keys.iter().for_each(|key| self.pin_reg(*key));
        if table.implementation.is_some() {
            self.pins.fail(Unrewritable::Group);
        }
        let direct = table.direct_meter.is_some() && known.pipeline.arch == Arch::V1Model;
        if direct || table.meter_result.is_some() {
            self.pins.fail(Unrewritable::Meter);
        }
        let found = walker.lookup(site);
        if found.is_none() && table.add_on_miss {
            self.pins.fail(Unrewritable::AddEntry);
        }
        let application = self.noted.applications();
        self.noted.applied(&known.witnesses[site.table], site, walker.slots(), found);
        let step = walker.apply(site, found, pc);
        let Step::Next(to) = step else { return step };
        self.noted.decided(to);
        let place = site.arms.iter().position(|arm| arm.pc == to).unwrap_or(0);
        let arm = &site.arms[place];
        self.constant((arm.hit, 1));
        for word in 0..walker.program().arm_words[site.table][place] {
            self.set(arm.params + word, Sym::Given(Given { application: application as u32, word }));
        }
        let arm = (TableId(site.table as u32), place as u32, found.is_some());
        self.credits.push((Counted::Applied(arm.0, arm.1, arm.2), Bytes::LENGTH));
        if found.is_some() {
            self.credits.push((Counted::Hit(application), Bytes::LENGTH));
        }
        step
    }

    /// Instructions without a rule of their own: what they read is pinned.
    pub fn opaque(&mut self, block: usize, pc: Pc) {
        let known = self.known.clone();
        let effects = &known.effects[block][pc as usize];
        for slot in spread(&effects.uses).filter(|slot| *slot < known.slots.end) {
            self.pin(slot, u64::MAX);
        }
        for slot in spread(&effects.defs) {
            self.set(slot, Sym::Const);
        }
    }

    fn decided(&mut self, step: Step) -> Step {
        if let Step::Next(to) = step {
            self.noted.decided(to);
        }
        step
    }

    /// Runs on without looking.
    fn plain(walker: &mut Walker<'_>, mut pc: Pc) -> Outcome {
        loop {
            match walker.step(pc) {
                Step::Next(next) => pc = next,
                Step::End(outcome) => return outcome,
            }
        }
    }
}

impl Detour for Shadow {
    fn takes(&self, _: ControlKind) -> bool {
        true
    }

    fn run(&mut self, walker: &mut Walker<'_>) -> Outcome {
        let kind = walker.code().kind;
        let program = walker.program();
        let Some(block) = program.code(kind) else { return Self::plain(walker, 0) };
        if self.pins.failed.is_none() {
            self.begin(walker, kind);
        }
        let mut pc = 0;
        loop {
            if self.pins.failed.is_some() {
                return Self::plain(walker, pc);
            }
            match self.step(walker, block, pc) {
                Step::Next(next) => pc = next,
                Step::End(outcome) => {
                    if matches!(outcome, Outcome::Abort(_)) {
                        self.pins.fail(Unrewritable::Aborted);
                    }
                    self.noted.ended(outcome);
                    self.end(walker, kind);
                    return outcome;
                }
            }
        }
    }
}
