//! [`Noted`]: the least that is noted of any packet on its way through all blocks: its decisions, what tables were asked and what they found, and which elements of
//! counters it counts in. The decisions are its *way*; of a way whose [`super::template`] is known, this and the packet as it leaves make a rewrite.

use crate::record::MAX_STEPS;
use crate::witness::Witness;
use interp::walk::{ApplySite, CallArg, Code, Detour, Op, Outcome, Pc, Slot, Step, Walker};
use ir::{ControlKind, Entity, ExternFn};

/// A table application.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    pub table: usize,
    /// The number of the entry.
    pub found: Option<u32>,
    /// The first of its keys' words.
    first: usize,
}

/// See the module. Its buffers are used again.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    decisions: Vec<u32>,
    applications: Vec<Application>,
    keys: Vec<u64>,
    indices: Vec<u64>,
    /// The table that was asked just now found something.
    found: bool,
    /// There were more decisions than are noted; tables and counters are, all of them.
    pub too_long: bool,
}

impl Noted {
    /// Behind a table application: it found an entry.
    const FOUND: u32 = 1 << 31;

    pub fn clear(&mut self) {
        self.decisions.clear();
        self.applications.clear();
        self.keys.clear();
        self.indices.clear();
        (self.found, self.too_long) = (false, false);
    }

    /// What native code has noted.
    pub fn take(&mut self, record: &jit::Record<'_>) {
        self.clear();
        self.decisions.extend_from_slice(record.decisions);
        for application in record.applications {
            let (table, found) = (application.table.index(), application.found);
            self.applications.push(Application { table, found, first: self.keys.len() });
            self.keys.extend_from_slice(record.key(application));
        }
        self.indices.extend_from_slice(record.indices);
        self.too_long = !record.complete;
    }

    /// The packet's way.
    pub fn decisions(&self) -> &[u32] {
        &self.decisions
    }

    /// Whether this is what another one, of the same packet, has, as far as that goes; `whole`: and no more. `decisions`: they are said in the same words.
    pub fn is_begun_by(&self, other: &Noted, whole: bool, decisions: bool) -> bool {
        let tables = self.tables().zip(other.tables()).all(|(one, other)| one == other);
        let found = self
            .applications
            .iter()
            .zip(&other.applications)
            .all(|(one, other)| one.found.is_some() == other.found.is_some());
        let counts = self.indices.starts_with(&other.indices);
        let more = self.applications.len() >= other.applications.len();
        let all = self.applications.len() == other.applications.len() && self.indices.len() == other.indices.len();
        let decided =
            self.decisions.starts_with(&other.decisions) && (!whole || self.decisions.len() == other.decisions.len());
        tables && found && more && counts && (!whole || all) && (!decisions || decided)
    }

    fn decide(&mut self, what: u32) {
        match self.decisions.len() < MAX_STEPS {
            true => self.decisions.push(what),
            false => self.too_long = true,
        }
    }

    /// It went on there.
    pub fn decided(&mut self, to: Pc) {
        let found = if std::mem::take(&mut self.found) { Noted::FOUND } else { 0 };
        self.decide(to | found);
    }

    /// A block ended.
    pub fn ended(&mut self, outcome: Outcome) {
        self.decide(match outcome {
            Outcome::Return => 0,
            Outcome::Exit => 1,
            Outcome::Reject => 2,
            Outcome::Abort(_) => 3,
        });
    }

    /// How many tables were applied.
    pub fn applications(&self) -> usize {
        self.applications.len()
    }

    /// How many counts there were.
    pub fn indices(&self) -> usize {
        self.indices.len()
    }

    /// The element of the counter that was counted in then.
    pub fn index(&self, count: usize) -> Option<u64> {
        self.indices.get(count).copied()
    }

    /// The table application of that number.
    pub fn application(&self, number: usize) -> Option<Application> {
        self.applications.get(number).copied()
    }

    /// The last application of the table that found that entry.
    pub fn found_in(&self, table: usize, number: u32) -> Option<usize> {
        self.applications.iter().rposition(|it| it.table == table && it.found == Some(number))
    }

    /// The tables that were asked, and the words of their keys, all of whose bits decide.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &[u64])> + '_ {
        let ends = self.applications.iter().skip(1).map(|next| next.first).chain([self.keys.len()]);
        self.applications.iter().zip(ends).map(|(it, end)| (it.table, &self.keys[it.first..end]))
    }

    /// A table is applied.
    pub fn applied(&mut self, witness: &Witness, site: &ApplySite, slots: &[u64], found: Option<u32>) {
        self.applications.push(Application { table: site.table, found, first: self.keys.len() });
        witness.push_key(site, slots, &mut self.keys);
        self.found = found.is_some();
    }

    /// An instruction is about to be carried out that is no jump: what it chooses by a value is a decision, too.
    #[inline]
    pub fn looked_at(&mut self, op: Op, code: &Code, slots: &[u64]) {
        let is_set = |slot: Slot| u32::from(slots[slot as usize] != 0);
        match op {
            Op::Select1 { c, .. } | Op::SelectN { c, .. } | Op::Verify { c, .. } => self.decide(is_set(c)),
            Op::Call { index } => {
                use ExternFn::{CounterCount, UpdateChecksum, VerifyChecksum};
                let call = &code.calls[index as usize];
                let (Some(CallArg::Value(reg)), CounterCount | UpdateChecksum | VerifyChecksum) =
                    (call.args.first(), call.func)
                else {
                    return;
                };
                if call.func != CounterCount {
                    return self.decide(is_set(reg.slot));
                }
                let high = (1..reg.words).any(|word| slots[(reg.slot + word) as usize] != 0);
                self.indices.push(if high { u64::MAX } else { slots[reg.slot as usize] });
            }
            _ => {}
        }
    }
}

/// Runs all blocks of a packet, and notes it.
pub struct Notes {
    pub known: std::sync::Arc<super::Known>,
    pub noted: Noted,
}

impl Detour for Notes {
    fn takes(&self, _: ControlKind) -> bool {
        true
    }

    fn run(&mut self, walker: &mut Walker<'_>) -> Outcome {
        let (code, mut pc) = (walker.code(), 0);
        loop {
            let op = code.ops.get(pc as usize).copied();
            let step = match op {
                Some(Op::Apply { index }) => {
                    let site = &code.applies[index as usize];
                    let found = walker.lookup(site);
                    self.noted.applied(&self.known.witnesses[site.table], site, walker.slots(), found);
                    walker.apply(site, found, pc)
                }
                op => {
                    op.into_iter().for_each(|op| self.noted.looked_at(op, code, walker.slots()));
                    walker.step(pc)
                }
            };
            match step {
                Step::Next(to) => pc = to,
                Step::End(outcome) => {
                    self.noted.ended(outcome);
                    return outcome;
                }
            }
            if let Some(Op::Apply { .. } | Op::Branch { .. } | Op::Switch { .. }) = op {
                self.noted.decided(pc);
            }
        }
    }
}
