//! Observable packet order: state that one packet leaves in a register or meter for the next.
//!
//! The interpreter runs each packet through the whole program, native code a batch through each
//! stage. The results are equal if each stateful object is accessed in only one stage, and that
//! stage processes packets in order, because each object then sees the same sequence of calls. If
//! an object is accessed in two stages, packets pass both together if only those reach the second that
//! miss a lookup before the first ([`crate::analysis::miss_regions`]), and run one by one otherwise.

use crate::analysis::held_ports::{ports_stay_in_stage, takes_lease};
use crate::analysis::miss_regions::{MissPaths, MissRegion, SharedState, choose_regions};
use ir::{Entity, ExternArg, ExternFn, ExternId, ExternKind, Inst, Pipeline, TableId, Type};
use ir::{added_table, packet_written_tables};
use std::collections::{BTreeMap, BTreeSet};

/// A call that the interpreter's code executes.
#[derive(Clone, Debug)]
pub struct CallSite {
    /// Stage that makes the call.
    pub stage: usize,
    /// Control that contains the call.
    pub control: usize,
    /// The instruction.
    pub inst: Inst,
    /// Types of its results.
    pub results: Vec<Type>,
}

/// State by which packets can observe their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum OrderedState {
    /// A register or meter.
    Object(ExternId),
    /// The direct meters and idle timeouts of a table.
    Entries(TableId),
    /// Which entries a table has, if packets add some.
    Members(TableId),
    /// The sequence of random numbers.
    Random,
    /// Ports that a packet has taken and that no entry holds yet.
    TakenPorts,
    /// The sequence of flow ids.
    FlowId,
    /// The queue of digests.
    Digests,
}

/// Stages in which packet order is observable.
#[derive(Clone, Debug)]
pub struct OrderConstraints {
    /// Whether packets run one by one.
    pub is_serial: bool,
    /// For each stage, whether it must process packets in order.
    pub ordered_stages: Vec<bool>,
    /// Stages that share state and that packets pass together.
    pub regions: Vec<MissRegion>,
    /// Whether the state depends on time: packets with different times do not run together.
    pub depends_on_time: bool,
}

impl OrderConstraints {
    /// Collects the calls with ordered state. `stages` is the number of stages, `hit_reports` lists
    /// the stages that report hits to the host, with the table, `written_lookups` those behind a
    /// lookup in a table that packets write, `miss_paths` the stages behind their misses.
    pub fn new(
        pipeline: &Pipeline,
        stages: usize,
        sites: &[CallSite],
        hit_reports: &[(usize, TableId)],
        written_lookups: &[(usize, TableId)],
        miss_paths: &MissPaths,
    ) -> OrderConstraints {
        let mut users: BTreeMap<OrderedState, BTreeSet<usize>> = BTreeMap::new();
        let mut depends_on_time = false;
        let moves_ports = moves_ports(pipeline);
        for site in sites {
            for state in call_states(&site.inst, moves_ports) {
                users.entry(state).or_default().insert(site.stage);
            }
            depends_on_time |= executes_meter(&site.inst) || takes_lease(&site.inst);
        }
        for (stage, table) in hit_reports {
            if pipeline.tables[*table].direct_meter.is_some() {
                users.entry(OrderedState::Entries(*table)).or_default().insert(*stage);
                depends_on_time = true;
            }
        }
        for (stage, table) in written_lookups {
            users.entry(OrderedState::Members(*table)).or_default().insert(*stage);
        }
        let shared = users.iter().filter(|(_, stages)| stages.len() > 1);
        let shared: Vec<SharedState<'_>> =
            shared.map(|(state, users)| SharedState { users, entries_of: entries_of(pipeline, *state) }).collect();
        let regions = choose_regions(&shared, miss_paths);
        let is_serial = regions.is_none();
        let regions = regions.unwrap_or_default();
        let mut ordered_stages = vec![false; stages];
        let of_regions = regions.iter().flat_map(|region| &region.stages);
        users.values().flatten().chain(of_regions).for_each(|stage| ordered_stages[*stage] = true);
        OrderConstraints { is_serial, ordered_stages, regions, depends_on_time }
    }

    /// Returns the region that packets enter from a stage.
    pub fn region_at(&self, stage: usize) -> Option<&MissRegion> {
        self.regions.iter().find(|region| region.entry == stage)
    }
}

/// Returns the table whose entries a state is, if each entry is used only by packets with its key: no
/// packet adds a second entry with another key.
fn entries_of(pipeline: &Pipeline, state: OrderedState) -> Option<TableId> {
    let (OrderedState::Entries(table) | OrderedState::Members(table)) = state else { return None };
    let is_pair = |inst: &Inst| {
        added_table(inst) == Some(table) && matches!(inst, Inst::Extern { args, .. } if args.len() > ExternFn::TWIN_KEY)
    };
    (!pipeline.insts().any(|data| is_pair(&data.inst))).then_some(table)
}

/// Returns whether the next packet can observe an effect of an instruction.
pub fn touches_ordered_state(inst: &Inst) -> bool {
    matches!(inst, Inst::Extern { func, .. } if func.is_stateful()) && ordered_state(inst).is_some()
}

/// Returns whether two programs access a common object through which packets observe their order.
pub fn share_ordered_state(first: &Pipeline, second: &Pipeline) -> bool {
    let written = [first, second].map(packet_written_tables);
    let written: Vec<bool> = written[0].iter().zip(&written[1]).map(|(first, second)| *first || *second).collect();
    let [first, second] = [first, second].map(|pipeline| ordered_states(pipeline, &written));
    !first.is_disjoint(&second)
}

/// Returns the ordered states of a program. `written`: for each table, whether packets add entries
/// to it.
fn ordered_states(pipeline: &Pipeline, written: &[bool]) -> BTreeSet<OrderedState> {
    let moves_ports = moves_ports(pipeline);
    let insts = pipeline.controls.values().flat_map(|control| control.body.insts());
    let mut states: BTreeSet<OrderedState> = insts
        .filter(|data| matches!(data.inst, Inst::Extern { func, .. } if func.is_stateful()))
        .flat_map(|data| call_states(&data.inst, moves_ports))
        .collect();
    let blocks = pipeline.controls.values().flat_map(|control| control.body.blocks.values());
    let metered = |table: &TableId| pipeline.tables[*table].direct_meter.is_some();
    let applied: BTreeSet<TableId> = blocks.filter_map(ir::BlockData::applied_table).collect();
    states.extend(applied.iter().copied().filter(metered).map(OrderedState::Entries));
    states.extend(applied.iter().copied().filter(|table| written[table.index()]).map(OrderedState::Members));
    states
}

/// Returns whether a packet can take a port in one stage and add its entry in another.
fn moves_ports(pipeline: &Pipeline) -> bool {
    let has_pool = pipeline
        .externs
        .values()
        .any(|object| matches!(object.kind, ExternKind::PortPool { .. } | ExternKind::EntryQuota { .. }));
    has_pool && !ports_stay_in_stage(pipeline)
}

/// Returns the ordered states that a call accesses. `moves_ports`: a port that is taken in one stage or
/// pass can be used in another, and must not meet other packets there.
fn call_states(inst: &Inst, moves_ports: bool) -> impl Iterator<Item = OrderedState> {
    let moves_ports = moves_ports && (takes_lease(inst) || added_table(inst).is_some());
    ordered_state(inst).into_iter().chain(moves_ports.then_some(OrderedState::TakenPorts))
}

fn executes_meter(inst: &Inst) -> bool {
    matches!(inst, Inst::Extern { func: ExternFn::MeterExecute | ExternFn::DirectMeterExecute, .. })
}

/// Returns the state that a call accesses, besides the ports of its packet.
fn ordered_state(inst: &Inst) -> Option<OrderedState> {
    use ExternFn::*;
    let Inst::Extern { object, func, args } = inst else { return None };
    match func {
        // Additions commute, and state of one packet does not affect others.
        // The latest of several restarts of a timer counts, in whatever order they come.
        CounterCount | DirectCounterCount | RestartExpireTimer | ChecksumClear | ChecksumUpdate | ChecksumGet
        | IsHostPort | IsNetPort => None,
        AddEntry => added_table(inst).map(OrderedState::Members),
        DirectMeterExecute | SetEntryExpireTime => args.iter().find_map(|arg| match arg {
            ExternArg::Table(table) => Some(OrderedState::Entries(*table)),
            _ => None,
        }),
        Random | RandomRead => Some(OrderedState::Random),
        AllocateFlowId => Some(OrderedState::FlowId),
        DigestPack => Some(OrderedState::Digests),
        _ => object.map(OrderedState::Object).or(Some(OrderedState::Random)),
    }
}
