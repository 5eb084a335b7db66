//! Mutation testing of the harness: engines with injected faults, each of which the harness must
//! detect.

use super::case::PacketIn;
use super::subject::{BatchResult, EngineInputs, EngineUnderTest, IdleReport, InBatches};
use entries::{ControlState, Counter, EntryId, WriteBatch};
use ir::{BinaryOp, ExternId, Inst, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{DropReason, EngineReason, Verdict};
use std::sync::Arc;

/// Injected fault of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InjectedFault {
    /// Computes each `a + b` as `a - b`.
    Operator,
    /// Inverts signed comparisons.
    Sign,
    /// Flips one bit of every 50th sent packet.
    Bit,
    /// Swaps the last two packets of a batch on one port.
    Order,
    /// Loses the last packet of a batch of more than 16.
    Forgotten,
    /// Reports another reason for drops.
    Reason,
    /// Counters show one packet less.
    Counter,
    /// Direct counters read as 0.
    DirectCounter,
    /// Counts hits as misses.
    Applied,
    /// Bit 0 of registers always reads as 0.
    Register,
    /// Loses every third digest message.
    Digest,
    /// Skips the last update of a write.
    LostWrite,
    /// Applies writes one batch of packets late.
    LateWrite,
    /// Reports no idle entries.
    Idle,
    /// Panics at packets of 13 bytes.
    Panic,
}

impl InjectedFault {
    /// All faults.
    pub const ALL: [InjectedFault; 15] = [
        InjectedFault::Operator,
        InjectedFault::Sign,
        InjectedFault::Bit,
        InjectedFault::Order,
        InjectedFault::Forgotten,
        InjectedFault::Reason,
        InjectedFault::Counter,
        InjectedFault::DirectCounter,
        InjectedFault::Applied,
        InjectedFault::Register,
        InjectedFault::Digest,
        InjectedFault::LostWrite,
        InjectedFault::LateWrite,
        InjectedFault::Idle,
        InjectedFault::Panic,
    ];
}

/// The interpreter in batches, with an injected fault.
pub struct FaultyEngine {
    inner: InBatches,
    fault: InjectedFault,
    counted: u64,
    late: Vec<WriteBatch>,
}

impl FaultyEngine {
    /// Creates the interpreter with a fault.
    ///
    /// # Errors
    /// If the interpreter refuses the program.
    pub fn new(build: &EngineInputs<'_>, fault: InjectedFault) -> Result<FaultyEngine, String> {
        let pipeline = match fault {
            InjectedFault::Operator | InjectedFault::Sign => Arc::new(miscompiled(build.pipeline, fault)),
            _ => build.pipeline.clone(),
        };
        Ok(FaultyEngine { inner: InBatches::with(pipeline, build.setup)?, fault, counted: 0, late: Vec::new() })
    }
}

/// Returns the pipeline with wrong operators.
fn miscompiled(pipeline: &Pipeline, fault: InjectedFault) -> Pipeline {
    let mut pipeline = pipeline.clone();
    for control in pipeline.controls.values_mut() {
        let types = control.body.values.clone();
        let insts = control.body.blocks.values_mut().flat_map(|block| &mut block.insts);
        for inst in insts {
            let Inst::Binary(op, left, _) = &mut inst.inst else { continue };
            let signed = types.get(*left).is_some_and(|ty| ty.is_signed());
            match (fault, *op) {
                (InjectedFault::Operator, BinaryOp::Add) => *op = BinaryOp::Sub,
                (InjectedFault::Sign, BinaryOp::Lt) if signed => *op = BinaryOp::Ge,
                (InjectedFault::Sign, BinaryOp::Gt) if signed => *op = BinaryOp::Le,
                _ => {}
            }
        }
    }
    pipeline
}

impl EngineUnderTest for FaultyEngine {
    fn name(&self) -> String {
        format!("interp with fault {:?}", self.fault)
    }

    /// Writes a batch with the fault: lost in part, or only applied with the next packets.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        match self.fault {
            InjectedFault::LostWrite => {
                let mut batch = batch.clone();
                batch.updates.pop();
                self.inner.write(&batch)
            }
            InjectedFault::LateWrite => {
                // An invalid write is refused at once.
                let mut model = self.inner.state();
                let all_writes = self.late.iter().chain([batch]);
                let outcome =
                    all_writes.map(|batch| model.apply(batch).map_err(|error| error.to_string()).map(drop)).last();
                if outcome == Some(Ok(())) {
                    self.late.push(batch.clone());
                }
                outcome.unwrap_or(Ok(()))
            }
            _ => self.inner.write(batch),
        }
    }

    /// Processes packets and falsifies the result as the fault demands: a bit, the order of
    /// packets, a packet without a verdict, or a wrong drop reason.
    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        if self.fault == InjectedFault::Panic && packets.iter().any(|packet| packet.bytes.len() == 13) {
            panic!("a packet of 13 bytes");
        }
        let mut result = self.inner.process(packets);
        for batch in std::mem::take(&mut self.late) {
            let _ = self.inner.write(&batch);
        }
        match self.fault {
            InjectedFault::Bit => {
                for emitted in &mut result.emitted {
                    self.counted += 1;
                    if let (0, Some(byte)) = (self.counted % 50, emitted.bytes.last_mut()) {
                        *byte ^= 1;
                    }
                }
            }
            InjectedFault::Order => {
                if let Some(last) = result.emitted.pop() {
                    let position = result.emitted.iter().rposition(|other| other.verdict == last.verdict);
                    result.emitted.insert(position.unwrap_or(result.emitted.len()), last);
                }
            }
            InjectedFault::Forgotten if packets.len() > 16 => {
                result.emitted.retain(|emitted| emitted.input != Some(packets.len() - 1));
            }
            InjectedFault::Reason => {
                for emitted in &mut result.emitted {
                    if emitted.verdict == Verdict::Drop(DropReason::Engine(EngineReason::ProgramDrop)) {
                        emitted.verdict = Verdict::Drop(DropReason::Engine(EngineReason::NoDestination));
                    }
                }
            }
            _ => {}
        }
        result
    }

    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
        let idle = self.inner.tick(now);
        if self.fault == InjectedFault::Idle { Vec::new() } else { idle }
    }

    fn state(&self) -> ControlState {
        self.inner.state()
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        let mut data = self.inner.counter(counter, index)?;
        if self.fault == InjectedFault::Counter {
            data.packets = data.packets.saturating_sub(1);
        }
        Some(data)
    }

    fn port_usage(&self, pool: ExternId) -> Option<interp::PortUsage> {
        self.inner.port_usage(pool)
    }

    fn quota_entries(&self, quota: ExternId, owner: u32) -> Option<u32> {
        self.inner.quota_entries(quota, owner)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        let mut leaves = self.inner.register(register, index)?;
        if self.fault == InjectedFault::Register {
            leaves.iter_mut().for_each(|leaf| leaf.set_bit(0, false));
        }
        Some(leaves)
    }

    fn direct_counter(&self, entry: &EntryId) -> Option<Counter> {
        match self.fault {
            InjectedFault::DirectCounter => Some(Counter::default()),
            _ => self.inner.direct_counter(entry),
        }
    }

    fn applied(&self, table: TableId) -> Option<Vec<[Counter; 2]>> {
        let mut applied = self.inner.applied(table)?;
        if self.fault == InjectedFault::Applied {
            applied.iter_mut().for_each(|counts| counts.reverse());
        }
        Some(applied)
    }

    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)> {
        let mut messages = self.inner.take_digests();
        if self.fault == InjectedFault::Digest {
            messages.retain(|_| {
                self.counted += 1;
                !self.counted.is_multiple_of(3)
            });
        }
        messages
    }
}
