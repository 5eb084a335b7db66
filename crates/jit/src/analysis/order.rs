//! Where the order of packets shows: what one packet leaves in a register or a meter, the next one finds.
//!
//! The interpreter takes one packet after the other through the whole program, native code a batch through each stage. Both come to
//! the same if each object with such a memory is looked at in one stage only, and that stage takes its packets in their order:
//! then each object sees the same calls in the same order. If some object is looked at in two stages, packets run one by one.

use ir::{Arg, ExternFn, ExternId, Inst, Pipeline, TableId, Type};
use std::collections::{BTreeMap, BTreeSet};

/// A call that the interpreter's code carries out.
#[derive(Clone, Debug)]
pub struct CallSite {
    /// The stage whose code makes it.
    pub stage: usize,
    /// The control in which it stands.
    pub control: usize,
    /// The instruction.
    pub inst: Inst,
    /// Types of its results.
    pub results: Vec<Type>,
}

/// Something that packets leave a mark on for the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Memory {
    /// A register or meter.
    Object(ExternId),
    /// The direct meters of a table.
    Entries(TableId),
    /// Random numbers come in one sequence.
    Random,
    /// So do flow numbers.
    FlowId,
    /// All digests wait in one line.
    Digests,
}

/// Where the order of packets shows.
#[derive(Clone, Debug)]
pub struct Order {
    /// Packets run one after the other.
    pub serial: bool,
    /// For each stage, whether it must take packets in their order.
    pub stages: Vec<bool>,
    /// Whether what is kept changes with time: packets of different times don't run together.
    pub timed: bool,
}

impl Order {
    /// Looks through the calls that keep something. `told`: the stages that tell of hits in a table.
    pub fn new(pipeline: &Pipeline, stages: usize, sites: &[CallSite], told: &[(usize, TableId)]) -> Order {
        let mut users: BTreeMap<Memory, BTreeSet<usize>> = BTreeMap::new();
        let mut timed = false;
        for site in sites {
            let Some(memory) = memory(&site.inst) else { continue };
            users.entry(memory).or_default().insert(site.stage);
            timed |= meters(&site.inst);
        }
        for (stage, table) in told {
            if pipeline.tables[*table].direct_meter.is_some() {
                users.entry(Memory::Entries(*table)).or_default().insert(*stage);
                timed = true;
            }
        }
        let mut ordered = vec![false; stages];
        users.values().flatten().for_each(|stage| ordered[*stage] = true);
        Order { serial: users.values().any(|stages| stages.len() > 1), stages: ordered, timed }
    }
}

/// Whether the next packet may find a mark of an instruction.
pub fn remembers(inst: &Inst) -> bool {
    matches!(inst, Inst::Extern { func, .. } if func.outlives_packet()) && memory(inst).is_some()
}

fn meters(inst: &Inst) -> bool {
    matches!(inst, Inst::Extern { func: ExternFn::MeterExecute | ExternFn::DirectMeterExecute, .. })
}

/// What a call leaves a mark on.
fn memory(inst: &Inst) -> Option<Memory> {
    use ExternFn::*;
    let Inst::Extern { object, func, args } = inst else { return None };
    match func {
        // Additions commute, and what is kept for one packet alone concerns no other.
        CounterCount | DirectCounterCount | ChecksumClear | ChecksumUpdate | ChecksumGet | IsHostPort | IsNetPort => {
            None
        }
        DirectMeterExecute => args.iter().find_map(|arg| match arg {
            Arg::Table(table) => Some(Memory::Entries(*table)),
            _ => None,
        }),
        Random | RandomRead => Some(Memory::Random),
        AllocateFlowId => Some(Memory::FlowId),
        DigestPack => Some(Memory::Digests),
        _ => object.map(Memory::Object).or(Some(Memory::Random)),
    }
}
