//! Subjects with a known fault: the harness must see each of them.

use super::case::PacketIn;
use super::subject::{Answer, Build, Idle, InBatches, Subject};
use entries::{Counter, EntryId, State, WriteBatch};
use ir::{BinaryOp, ExternId, Inst, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{DropReason, EngineReason, Verdict};
use std::sync::Arc;

/// What is wrong with a subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Each `a + b` is computed as `a - b`.
    Operator,
    /// Comparisons with sign are without.
    Sign,
    /// One bit of every 50th packet that leaves is wrong.
    Bit,
    /// Of a batch's packets on one port, the last two change places.
    Order,
    /// The last packet of a batch of more than 16 is forgotten.
    Forgotten,
    /// Drops have another reason.
    Reason,
    /// Counters show one packet less.
    Counter,
    /// Direct counters are read as 0.
    DirectCounter,
    /// Hits are counted as misses.
    Applied,
    /// Bit 0 of registers is always 0.
    Register,
    /// Every third digest message is lost.
    Digest,
    /// The last update of a write is left out.
    LostWrite,
    /// Writes take effect one batch of packets late.
    LateWrite,
    /// Idle entries are not reported.
    Idle,
    /// Panics at packets of 13 bytes.
    Panic,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 15] = [
        Fault::Operator,
        Fault::Sign,
        Fault::Bit,
        Fault::Order,
        Fault::Forgotten,
        Fault::Reason,
        Fault::Counter,
        Fault::DirectCounter,
        Fault::Applied,
        Fault::Register,
        Fault::Digest,
        Fault::LostWrite,
        Fault::LateWrite,
        Fault::Idle,
        Fault::Panic,
    ];
}

/// The interpreter in batches, with a fault.
pub struct Broken {
    inner: InBatches,
    fault: Fault,
    counted: u64,
    late: Vec<WriteBatch>,
}

impl Broken {
    /// The interpreter with a fault.
    ///
    /// # Errors
    /// If the interpreter refuses the program.
    pub fn new(build: &Build<'_>, fault: Fault) -> Result<Broken, String> {
        let pipeline = match fault {
            Fault::Operator | Fault::Sign => Arc::new(miscompiled(build.pipeline, fault)),
            _ => build.pipeline.clone(),
        };
        Ok(Broken { inner: InBatches::with(pipeline, build.setup)?, fault, counted: 0, late: Vec::new() })
    }
}

/// The pipeline with wrong operators.
fn miscompiled(pipeline: &Pipeline, fault: Fault) -> Pipeline {
    let mut pipeline = pipeline.clone();
    for control in pipeline.controls.values_mut() {
        let types = control.body.values.clone();
        let insts = control.body.blocks.values_mut().flat_map(|block| &mut block.insts);
        for inst in insts {
            let Inst::Binary(op, left, _) = &mut inst.inst else { continue };
            let signed = types.get(*left).is_some_and(|ty| ty.is_signed());
            match (fault, *op) {
                (Fault::Operator, BinaryOp::Add) => *op = BinaryOp::Sub,
                (Fault::Sign, BinaryOp::Lt) if signed => *op = BinaryOp::Ge,
                (Fault::Sign, BinaryOp::Gt) if signed => *op = BinaryOp::Le,
                _ => {}
            }
        }
    }
    pipeline
}

impl Subject for Broken {
    fn name(&self) -> String {
        format!("interp with fault {:?}", self.fault)
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        match self.fault {
            Fault::LostWrite => {
                let mut batch = batch.clone();
                batch.updates.pop();
                self.inner.write(&batch)
            }
            Fault::LateWrite => {
                // What is refused is refused at once.
                let mut model = self.inner.state();
                let late = self.late.iter().chain([batch]);
                let outcome = late.map(|batch| model.apply(batch).map_err(|error| error.to_string()).map(drop)).last();
                if outcome == Some(Ok(())) {
                    self.late.push(batch.clone());
                }
                outcome.unwrap_or(Ok(()))
            }
            _ => self.inner.write(batch),
        }
    }

    fn process(&mut self, packets: &[PacketIn]) -> Answer {
        if self.fault == Fault::Panic && packets.iter().any(|packet| packet.bytes.len() == 13) {
            panic!("a packet of 13 bytes");
        }
        let mut answer = self.inner.process(packets);
        for batch in std::mem::take(&mut self.late) {
            let _ = self.inner.write(&batch);
        }
        match self.fault {
            Fault::Bit => {
                for one in &mut answer.emitted {
                    self.counted += 1;
                    if let (0, Some(byte)) = (self.counted % 50, one.bytes.last_mut()) {
                        *byte ^= 1;
                    }
                }
            }
            Fault::Order => {
                if let Some(last) = answer.emitted.pop() {
                    let at = answer.emitted.iter().rposition(|one| one.verdict == last.verdict);
                    answer.emitted.insert(at.unwrap_or(answer.emitted.len()), last);
                }
            }
            Fault::Forgotten if packets.len() > 16 => {
                answer.emitted.retain(|one| one.input != Some(packets.len() - 1));
            }
            Fault::Reason => {
                for one in &mut answer.emitted {
                    if one.verdict == Verdict::Drop(DropReason::Engine(EngineReason::ProgramDrop)) {
                        one.verdict = Verdict::Drop(DropReason::Engine(EngineReason::NoDestination));
                    }
                }
            }
            _ => {}
        }
        answer
    }

    fn tick(&mut self, now: u64) -> Vec<Idle> {
        let idle = self.inner.tick(now);
        if self.fault == Fault::Idle { Vec::new() } else { idle }
    }

    fn state(&self) -> State {
        self.inner.state()
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        let mut data = self.inner.counter(counter, index)?;
        if self.fault == Fault::Counter {
            data.packets = data.packets.saturating_sub(1);
        }
        Some(data)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        let mut leaves = self.inner.register(register, index)?;
        if self.fault == Fault::Register {
            leaves.iter_mut().for_each(|leaf| leaf.set_bit(0, false));
        }
        Some(leaves)
    }

    fn direct_counter(&self, entry: &EntryId) -> Option<Counter> {
        match self.fault {
            Fault::DirectCounter => Some(Counter::default()),
            _ => self.inner.direct_counter(entry),
        }
    }

    fn applied(&self, table: TableId) -> Option<Vec<[Counter; 2]>> {
        let mut applied = self.inner.applied(table)?;
        if self.fault == Fault::Applied {
            applied.iter_mut().for_each(|counts| counts.reverse());
        }
        Some(applied)
    }

    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)> {
        let mut messages = self.inner.take_digests();
        if self.fault == Fault::Digest {
            messages.retain(|_| {
                self.counted += 1;
                !self.counted.is_multiple_of(3)
            });
        }
        messages
    }
}
