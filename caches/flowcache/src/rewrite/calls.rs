//! Calls of externs: which of them a rewrite can do, and what they add to.

use super::Unrewritable;
use super::shadow::Shadow;
use super::sym::{FIXED, Piece, Sym, Words};
use super::template::{Bytes, Counted};
use interp::walk::{Call, CallArg, Pc, Reg, Step, Walker};
use ir::{Arch, ExternFn, HashAlgorithm};

fn values(call: &Call, index: usize) -> &[Reg] {
    match call.args.get(index) {
        Some(CallArg::Values(regs)) => regs,
        Some(CallArg::Value(reg)) => std::slice::from_ref(reg),
        _ => &[],
    }
}

fn scalar(walker: &Walker<'_>, call: &Call, index: usize) -> u64 {
    match call.args.get(index) {
        Some(CallArg::Value(reg)) => walker.slots()[reg.slot as usize],
        _ => 0,
    }
}

fn table_of(call: &Call) -> usize {
    let table = call.args.iter().find_map(|arg| if let CallArg::Table(table) = arg { Some(*table) } else { None });
    table.unwrap_or(0)
}

impl Shadow {
    fn pin_all(&mut self, call: &Call) {
        for index in 0..call.args.len() {
            values(call, index).iter().for_each(|reg| self.pin_reg(*reg));
        }
    }

    pub fn call(&mut self, walker: &mut Walker<'_>, pc: Pc, call: &Call) -> Step {
        use ExternFn::*;
        let mut result = Sym::Const;
        let csum = call.algorithm.unwrap_or(HashAlgorithm::Csum16) == HashAlgorithm::Csum16;
        match call.func {
            CounterCount => self.count(walker, call),
            DirectCounterCount => self.count_direct(walker, call),
            HashGet | Checksum16Get if call.args.len() == 1 && csum => {
                let words = self.words(walker, values(call, 0));
                result = Sym::Sum(Box::new(words), true);
            }
            HashGet | Hash | Checksum16Get | ChecksumUpdate | IsHostPort | IsNetPort | SendToPort | Assert | Assume => {
                self.pin_all(call);
            }
            // Their data were pinned.
            ChecksumClear | ChecksumGet | LogMsg | DropPacket => {}
            VerifyChecksum => self.verify(walker, call, csum),
            UpdateChecksum => result = self.update(walker, call, csum),
            VerifyChecksumWithPayload | UpdateChecksumWithPayload => self.pins.fail(Unrewritable::Payload),
            InternetChecksumClear
            | InternetChecksumAdd
            | InternetChecksumSubtract
            | InternetChecksumGet
            | InternetChecksumGetState
            | InternetChecksumSetState => result = self.internet(walker, call),
            MarkToDrop => {
                let known = walker.program().well_known;
                for reg in [known.egress_spec, known.mcast_grp].into_iter().flatten() {
                    self.set(reg.slot, Sym::Fixed);
                }
            }
            RestartExpireTimer => {
                let table = table_of(call);
                if let Some(application) = self.hit_in(walker, table) {
                    self.credits.push((Counted::Restart(application), Bytes::LENGTH));
                }
            }
            MeterExecute | DirectMeterExecute => self.pins.fail(Unrewritable::Meter),
            RegisterRead | RegisterWrite => self.pins.fail(Unrewritable::Register),
            RandomRead | Random | AllocateFlowId => self.pins.fail(Unrewritable::Random),
            DigestPack => self.pins.fail(Unrewritable::Digest),
            AddEntry => self.pins.fail(Unrewritable::AddEntry),
            SetEntryExpireTime => self.pins.fail(Unrewritable::Timer),
            Clone | Resubmit | Recirculate | MirrorPacket | PnaRecirculate => self.pins.fail(Unrewritable::Copies),
            Truncate => self.pins.fail(Unrewritable::Truncate),
        }
        let step = walker.step(pc);
        for reg in &call.results {
            for word in 0..reg.words {
                let sym = if word == 0 { result.clone() } else { Sym::Const };
                // A sum that is cut, or that is wider than a slot says, is looked at.
                let whole = !matches!(sym, Sym::Sum(..)) || reg.width >= 16;
                if !whole {
                    self.pins.fail(Unrewritable::Checksum);
                }
                self.set(reg.slot + word, sym);
            }
        }
        step
    }

    /// How many bytes a counter counts: an argument, or the packet's length.
    fn bytes(&mut self, walker: &Walker<'_>, call: &Call, index: usize) -> Bytes {
        let Some(CallArg::Value(reg)) = call.args.get(index) else { return Bytes::LENGTH };
        let value = walker.slots()[reg.slot as usize];
        let sym = self.sym(reg.slot);
        match self.pins.as_length(&sym, value) {
            Some(length) => Bytes::Length(length),
            None => {
                self.depends_on(reg.slot);
                Bytes::These(value)
            }
        }
    }

    fn count(&mut self, walker: &Walker<'_>, call: &Call) {
        let (Some(CallArg::Value(reg)), Some(counter)) = (call.args.first(), call.object) else { return };
        self.pin_reg(*reg);
        let bytes = self.bytes(walker, call, 1);
        self.credits.push((Counted::Counter(counter, self.noted.indices() - 1), bytes));
    }

    fn count_direct(&mut self, walker: &Walker<'_>, call: &Call) {
        if self.known.pipeline.arch != Arch::Pna {
            return;
        }
        let table = table_of(call);
        let bytes = self.bytes(walker, call, 1);
        if let Some(application) = self.hit_in(walker, table) {
            self.credits.push((Counted::Direct(application), bytes));
        }
    }

    /// The application in which the packet last hit an entry of the table.
    fn hit_in(&self, walker: &Walker<'_>, table: usize) -> Option<usize> {
        walker.hit_in(table).and_then(|number| self.noted.found_in(table, number))
    }

    /// What is hashed, as a program lists it.
    fn pieces(&mut self, walker: &Walker<'_>, data: &[Reg]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for reg in data {
            let mut reg = *reg;
            if reg.varbit {
                self.depends_on(reg.slot);
                let width = walker.slots()[reg.slot as usize].min(u64::from(reg.width)) as u32;
                reg = Reg { slot: reg.slot + 1, words: width.div_ceil(64), width, ..reg };
            }
            if let (Sym::Length(length), 16..=64) = (self.sym(reg.slot), reg.width)
                && self.pins.is_short(length)
            {
                pieces.extend((16..reg.width).map(|_| Piece::Bit(FIXED, false)));
                self.pins.within(length, 0xffff);
                pieces.push(Piece::Length(length));
                continue;
            }
            for place in (0..reg.width).rev() {
                let (bit, value) = self.bit(walker, reg.slot, place);
                pieces.push(Piece::Bit(bit, value));
            }
        }
        pieces
    }

    fn words(&mut self, walker: &Walker<'_>, data: &[Reg]) -> Words {
        let pieces = self.pieces(walker, data);
        let mut words = Words::default();
        self.pins.add_words(&mut words, &pieces);
        words
    }

    fn internet(&mut self, walker: &Walker<'_>, call: &Call) -> Sym {
        use ExternFn::*;
        let object = call.object.map_or(0, |id| id.0 as usize);
        let mut words = self.sums.remove(&object).unwrap_or_default();
        let mut result = Sym::Const;
        match call.func {
            InternetChecksumClear => words = Words::default(),
            InternetChecksumAdd => {
                let pieces = self.pieces(walker, values(call, 0));
                self.pins.add_words(&mut words, &pieces);
            }
            InternetChecksumSubtract => {
                // a - b is a + ~b (RFC 1624), of a `b` that is known.
                values(call, 0).iter().for_each(|reg| self.pin_reg(*reg));
                let less = self.words(walker, values(call, 0));
                words.constant += u64::from(!self.pins.value(&less));
                words.open = true;
            }
            InternetChecksumGet => result = Sym::Sum(Box::new(words.clone()), true),
            InternetChecksumGetState => result = Sym::Sum(Box::new(words.clone()), false),
            _ => {
                self.pin_all(call);
                words = Words { constant: scalar(walker, call, 0) & 0xffff, open: true, ..Words::default() };
            }
        }
        self.sums.insert(object, words);
        if matches!(result, Sym::Sum(..)) { self.constant_if_known(result) } else { result }
    }

    /// A sum of constants is one.
    fn constant_if_known(&self, sym: Sym) -> Sym {
        match &sym {
            Sym::Sum(words, _) if self.pins.is_known(words) => Sym::Const,
            _ => sym,
        }
    }

    fn update(&mut self, walker: &Walker<'_>, call: &Call, csum: bool) -> Sym {
        let Some(CallArg::Value(condition)) = call.args.first() else { return Sym::Const };
        self.pin_reg(*condition);
        if walker.slots()[condition.slot as usize] == 0 {
            return match (values(call, 2), &call.results[..]) {
                ([old], [new]) if old.words == 1 && !old.varbit && old.width == new.width => self.raw(old.slot),
                _ => {
                    self.pin_all(call);
                    Sym::Const
                }
            };
        }
        if !csum {
            values(call, 1).iter().for_each(|reg| self.pin_reg(*reg));
            return Sym::Const;
        }
        let words = self.words(walker, values(call, 1));
        self.constant_if_known(Sym::Sum(Box::new(words), true))
    }

    fn verify(&mut self, walker: &Walker<'_>, call: &Call, csum: bool) {
        let Some(CallArg::Value(condition)) = call.args.first() else { return };
        self.pin_reg(*condition);
        if walker.slots()[condition.slot as usize] == 0 {
            return;
        }
        let [field] = values(call, 2) else { return self.pin_all(call) };
        if !csum || field.width != 16 {
            return self.pin_all(call);
        }
        let words = self.words(walker, values(call, 1));
        let found = walker.slots()[field.slot as usize];
        if found != u64::from(!self.pins.value(&words)) {
            return self.pins.fail(Unrewritable::Checksum);
        }
        let sym = self.raw(field.slot);
        match self.pins.field(&sym) {
            Some(at) => self.checked(&words, 0xffff, Some(at)),
            None => {
                self.pins.pin(&sym, u64::MAX);
                self.pins.by_value(&sym);
                self.checked(&words, !(found as u16), None);
            }
        }
    }
}
