//! What is done where lanes' ways end: who comes through, who is left, and what of that is seen by others.

use crate::abi::Head;
use crate::lanes::bound::low;
use crate::lanes::convert::{Converting, End, Later, Why, column};
use crate::lanes::ir::{Code, Id, LANES, Op};
use crate::lanes::state::State;
use crate::plan::lanes::AHEAD;
use crate::plan::stages::Start;
use std::collections::BTreeSet;
use std::mem::offset_of;

impl Converting<'_> {
    /// What is done for lanes that come through, and which are left.
    pub(super) fn end(mut self) -> Result<Code, Why> {
        let ends = std::mem::take(&mut self.ends);
        if ends.is_empty() {
            return Err(Why::Nobody);
        }
        let through = self.b.any(&ends.iter().map(|end| end.mask).collect::<Vec<_>>());
        let state = self.written(&ends);
        let index = match self.place.index {
            Some(list) => self.b.plain(Op::Column(list)),
            None => self.b.plain(Op::Position),
        };
        self.tell_verdicts(&ends, index);
        for end in &ends {
            self.leave(end, index);
        }
        self.write(&state, through);
        for later in std::mem::take(&mut self.later) {
            self.carry_out(later, through);
        }
        self.ask_ahead();
        let active = self.b.active();
        let left = self.b.without(active, through);
        if !self.b.is_nobody(left) {
            let position = self.b.plain(Op::Position);
            let (count, list) = self.layout.left;
            self.b.effect(Op::Append { count, mask: left, columns: vec![(list, position)], keys: Vec::new() });
        }
        Ok(self.b.finish())
    }

    /// Asks for what the next packets will want: the lines of theirs that are looked at, and what was found for them.
    fn ask_ahead(&mut self) {
        let lines = self.b.ops().iter().filter_map(|op| match op {
            Op::Rows { pointers, offset, .. } if *pointers == self.packets.pointers => Some(*offset),
            Op::Write { offset, .. } => Some(*offset),
            _ => None,
        });
        let lines: BTreeSet<i32> = lines.collect();
        let by = if self.start == Start::Begin { AHEAD } else { LANES } as u8;
        if !lines.is_empty() {
            self.b.effect(Op::Ahead { list: self.packets.pointers, by, offsets: lines.into_iter().collect() });
        }
        if let Start::Site(..) = self.start {
            self.b.effect(Op::Ahead { list: self.layout.results, by, offsets: vec![0] });
        }
    }

    /// What is written to packets on the ways that end there. Nobody looks at the bytes of a packet that is dropped.
    fn written(&mut self, ends: &[End]) -> State {
        use crate::abi::destination::{AS_IT_LIES, DROP, GAVE_UP};
        let at = offset_of!(Head, destination) as u32;
        let dropped = |end: &&End| {
            let told = end.state.frame.get(&at).and_then(|told| self.b.constant_of(*told));
            end.leave.is_none() && told.is_some_and(|told| [DROP, GAVE_UP].contains(&(told as u32 & !AS_IT_LIES)))
        };
        let kept: Vec<&End> = ends.iter().filter(|end| !dropped(end)).collect();
        let packet = |end: &End| State { packet: end.state.packet.clone(), ..State::default() };
        let Some(first) = kept.first() else { return State::default() };
        let mut state = packet(first);
        for end in &kept[1..] {
            state.meet(&mut self.b, end.mask, &packet(end), self.packets, &mut |_, _| None);
        }
        state
    }

    /// Says where the packets go whose way ends here.
    fn tell_verdicts(&mut self, ends: &[End], index: Id) {
        let told: Vec<&End> = ends.iter().filter(|end| end.leave.is_none()).collect();
        let Some(first) = told.first() else { return };
        let mask = self.b.any(&told.iter().map(|end| end.mask).collect::<Vec<_>>());
        let lists = [
            (offset_of!(Head, destination), self.layout.verdicts),
            (offset_of!(Head, drop_reason), self.layout.drop_reasons),
            (offset_of!(Head, cpu_reason), self.layout.cpu_reasons),
        ];
        let mut destination = None;
        for (at, list) in lists {
            let zero = self.b.constant(0);
            let of = |end: &End| end.state.frame.get(&(at as u32)).copied();
            if told.iter().all(|end| of(end).is_none()) {
                continue;
            }
            let value = told[1..].iter().fold(of(first).unwrap_or(zero), |value, end| {
                let other = of(end).unwrap_or(zero);
                self.b.blend(end.mask, other, value)
            });
            let wanted = match destination {
                None => mask,
                // Most packets go to a port, and nobody asks for a reason.
                Some(destination) => self.asks_why(destination, mask),
            };
            destination = destination.or(Some(value));
            self.b.effect(Op::Scatter { list, index, mask: wanted, value });
        }
    }

    /// The lanes for whose packets somebody may ask for a reason: all but those that go to another port than the CPU's.
    fn asks_why(&mut self, destination: Id, mask: Id) -> Id {
        use crate::abi::destination::{AS_IT_LIES, PORT};
        use crate::lanes::ir::Cond;
        let (low, plain) = (self.b.constant(u64::from(u32::MAX)), self.b.constant(u64::from(PORT | AS_IT_LIES)));
        let (kind, port) = (self.b.and(destination, low), self.b.shr(destination, 32));
        let cpu = self.b.constant(u64::from(self.c.cpu_port));
        let other = self.b.compare(Cond::NotEqual, kind, plain);
        let cpu = self.b.compare(Cond::Equal, port, cpu);
        let either = self.b.either(other, cpu);
        self.b.both(mask, either)
    }

    /// Puts lanes behind those that wait for a stage.
    fn leave(&mut self, end: &End, index: Id) {
        let Some((stage, keys, together)) = end.leave.clone() else { return };
        let layout = self.layout;
        let Some(there) = &layout.stages[stage] else { return };
        let mut columns: Vec<(i32, Id)> = there.index.map(|list| (list, index)).into_iter().collect();
        for carried in &there.columns {
            let value =
                end.state.frame.get(&carried.at).copied().or_else(|| column(&mut self.b, self.place, carried.at));
            // What is made on no way here is used on no way there.
            let value = value.unwrap_or_else(|| self.b.constant(0));
            columns.push((carried.list, value));
        }
        let mut lists = vec![(there.keys.0, keys)];
        if !together.is_empty() {
            lists.push((there.together.0, together));
        }
        self.b.effect(Op::Append { count: there.count, mask: end.mask, columns, keys: lists });
    }

    /// Writes what has changed of packets.
    fn write(&mut self, state: &State, through: Id) {
        use crate::lanes::state::LINE;
        let words = LINE / 8;
        let lines: BTreeSet<u32> = state.packet.keys().map(|word| word / words).collect();
        if lines.is_empty() {
            return;
        }
        // Where there is no packet, the list's addresses are those of memory that stands for one.
        let mut pointers = self.b.plain(Op::Column(self.packets.pointers));
        if through != self.b.active() {
            let nowhere = self.b.plain(Op::ContextWord(self.layout.nowhere));
            pointers = self.b.blend(through, pointers, nowhere);
        }
        for line in lines {
            let mut bytes = 0u64;
            let zero = self.b.constant(0);
            let mut all = vec![zero; words as usize];
            for word in 0..words {
                let number = line * words + word;
                let Some(written) = state.packet.get(&number) else { continue };
                // Bytes that have not changed may be written as well, as far as they are known: whole words are faster than some of their bytes.
                let known = (self.packets.bytes - 8 * number).min(8);
                bytes |= (u64::from(written.bytes) | low(known)) << (word * 8);
                all[word as usize] = self.packets.now(&mut self.b, state, number);
            }
            self.b.effect(Op::Write { pointers, offset: (line * LINE) as i32, bytes, words: all });
        }
    }

    fn carry_out(&mut self, later: Later, through: Id) {
        match later {
            Later::Tally { cell, mask, value } => {
                let mask = self.b.both(mask, through);
                if !self.b.is_nobody(mask) {
                    let at = self.layout.tallies + (cell * crate::abi::LINE) as i32;
                    self.b.effect(Op::Accumulate { at, mask, value });
                }
            }
            Later::Count { mask, counter, bytes } => {
                let mask = self.b.both(mask, through);
                let (count, list) = self.layout.pending;
                let keys = vec![(list, vec![counter, bytes])];
                self.b.effect(Op::Append { count, mask, columns: Vec::new(), keys });
            }
        }
    }
}
