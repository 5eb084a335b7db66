//! [`EngineControl`]: the control side of an engine.

use crate::explain::{ExplainTarget, ProgramState, TraceRecord};
use ::interp::{
    DigestMessage, EntryRuntimeState, IdleEntry, MeterFill, PoolControl, Registers, RestingPort, SessionState,
};
use ::jit::{EngineStats, FlowTables};
use entries::{ControlState, Counter, EntryError, StoredEntry, UpdateError, WriteBatch, WriteError};
use ir::{ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{Engine, EngineCounters};
use std::sync::Arc;
use thiserror::Error;

/// Control side of an engine: writes tables, reads counters, and creates the workers' engines.
/// Processes no packets.
pub trait EngineControl: Send {
    /// Returns the name of the engine that really runs the program, as in metrics and traces.
    fn name(&self) -> &'static str;

    /// Returns the program as the control plane knows it.
    fn pipeline(&self) -> &Arc<Pipeline>;

    /// Creates an engine for another thread, with the same tables and externs.
    fn new_worker(&self) -> Box<dyn Engine>;

    /// Calls `at` with the control-plane state, which includes entries added by packets.
    fn visit_state(&self, at: &mut dyn FnMut(&ControlState));

    /// Calls `at` once with the control-plane state without the entries of packets that
    /// [`EngineControl::flow_tables`] has. It is cheap, however many there are.
    fn visit_written_state(&self, at: &mut dyn FnMut(&ControlState)) {
        self.visit_state(at);
    }

    /// Applies a batch atomically. All workers use the new version from their next batch of packets
    /// on.
    ///
    /// # Errors
    /// An update is invalid, or capacity is exhausted; nothing has changed.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError>;

    /// Applies batches in order, each atomically or not at all.
    fn write_many(&mut self, batches: &[WriteBatch]) -> Vec<Result<(), WriteError>> {
        batches.iter().map(|batch| self.write(batch)).collect()
    }

    /// Applies the valid updates of many batches to an engine without workers. Invalid updates are
    /// skipped, because packets can have changed the entries that they refer to.
    ///
    /// # Errors
    /// The capacity is exhausted; earlier updates are applied.
    fn load(&mut self, batches: &mut dyn Iterator<Item = WriteBatch>) -> Result<(), CapacityError> {
        load_batch_by_batch(batches, &mut |batch| self.write(batch))
    }

    /// Returns an element of an indexed counter, summed over all workers. Counts packets and bytes,
    /// whatever the counter's unit.
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter>;

    /// Returns index and value of the non-zero elements of an indexed counter, below index `end`.
    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)>;

    /// Returns the number of elements of a counter, meter or register.
    fn array_len(&self, object: ExternId) -> Option<u64>;

    /// Returns the leaf values of a register's element.
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>>;

    /// Returns the registers for an explainer, which reads their current values on demand.
    fn registers(&self) -> Registers;

    /// Returns the program, or its parts that run in this process, with tables and registers, for
    /// explanations.
    fn explain_target(&self) -> Box<dyn ExplainTarget> {
        Box::new(program_state(self))
    }

    /// Returns the trace records of packets with this trace id, the oldest first
    /// ([`crate::explain`]).
    fn trace_records(&self, trace_id: u16) -> Vec<Arc<TraceRecord>> {
        let _ = trace_id;
        Vec::new()
    }

    /// Returns the direct counter of an entry of the table.
    fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter>;

    /// Returns the nanoseconds since a packet hit an entry of the table, or since its insertion.
    fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64>;

    /// Takes the pending digest messages.
    fn take_digests(&mut self) -> Vec<DigestMessage>;

    /// Advances the clock to `now` (ns), and returns the entries whose idle timeout has expired,
    /// including those found by workers.
    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry>;

    /// Does a bounded piece of reorganisation of the tables, between writes.
    fn maintain_tables(&mut self) {}

    /// Suspends or resumes idle timeouts, for the transfer of entries between engines.
    fn hold_idle(&self, hold: bool);

    /// Returns the elements of an indexed meter whose buckets are not full, by index.
    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)>;

    /// Sets the fill level of an element of an indexed meter. An unconfigured element stays
    /// unconfigured.
    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterFill);

    /// Returns the dynamic state of an entry of the table: the fill of its direct meter, and the
    /// time of its last hit. `None` if entries of this table have none.
    fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState>;

    /// Sets the dynamic state of an entry. Ignores entries that are not in the table.
    fn set_entry_level(&self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState);

    /// Returns twin and ports of an entry of the table; `None` if it has neither.
    fn entry_session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState>;

    /// Gives an entry its twin and its ports, before packets use the table. Returns false if one of
    /// them is not to be had: then the entry is removed.
    fn restore_session(&self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool;

    /// Returns the resting ports of all pools.
    fn resting_ports(&self) -> Vec<RestingPort>;

    /// Lets a free port of a pool rest. Ignores one that is not free.
    fn restore_resting_port(&self, resting: &RestingPort);

    /// Calls `ask` with a pool of ports; not if the engine has no such pool. Packets that take ports wait
    /// meanwhile.
    fn with_port_pool(&self, pool: ExternId, ask: &mut dyn FnMut(&mut dyn PoolControl)) {
        let _ = (pool, ask);
    }

    /// Returns the last flow id that was allocated (PNA `allocate_flow_id`).
    fn flow_id(&self) -> u32;

    /// Sets the flow id after which the next one is allocated.
    fn set_flow_id(&self, id: u32);

    /// Returns the statistics of each stage, table and action, over all workers.
    fn tallies(&self) -> EngineStats;

    /// Returns, for each worker in creation order, the table version of its last batch; `None`
    /// while it is idle. Empty: workers always use the newest version.
    fn worker_versions(&self) -> Vec<Option<u64>> {
        Vec::new()
    }

    /// Returns the approximate memory of a table in bytes.
    fn table_memory(&self, table: TableId) -> usize {
        with_state(self, |state| state.table_memory_bytes(table))
    }

    /// Returns the tables to which packets add entries, if native code holds them; otherwise their
    /// entries are in the control-plane state only.
    fn flow_tables(&self) -> Option<FlowTables> {
        None
    }

    /// Returns the size of the native code in bytes; 0 without native code.
    fn code_bytes(&self) -> usize {
        0
    }

    /// Returns why there is no native code; `None` if there is.
    fn fallback_reason(&self) -> Option<String>;

    /// Returns the number of packets that each tier completed: `switch`, `kernel` (its flow cache),
    /// `dpu` (a flow cache in this process) and `cpu`. Empty: a single tier handles all packets.
    fn packets_by_tier(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Ends work outside of this process, after which the counters are final. Called when no worker
    /// runs the engine any longer.
    fn retire(&mut self) {}

    /// Returns the counters of packets that bypassed the workers, because the kernel handled them.
    /// The program's counters include these packets.
    fn bypass_counters(&self) -> EngineCounters {
        EngineCounters::default()
    }

    /// Returns notes for the operator about how the engine runs the program: table placement,
    /// missing counts.
    fn status_notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The engine's capacity is too small for the entries of another engine, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the engine cannot hold all entries: {0}; increase its capacity, or run the engine that held them")]
pub struct CapacityError(pub String);

/// Returns whether a valid write was refused for lack of capacity.
fn is_capacity_error(error: &UpdateError) -> bool {
    matches!(error, UpdateError::Entry(error) if matches!(**error, EntryError::ChipFull { .. } | EntryError::ChipRejected { .. }))
}

/// Implements [`EngineControl::load`] for engines that are written one batch at a time.
pub(super) fn load_batch_by_batch(
    batches: &mut dyn Iterator<Item = WriteBatch>,
    write: &mut dyn FnMut(&WriteBatch) -> Result<(), WriteError>,
) -> Result<(), CapacityError> {
    for batch in batches {
        match write(&batch) {
            Ok(()) => {}
            Err(refused) if is_capacity_error(&refused.error) => return Err(CapacityError(refused.error.to_string())),
            Err(_) => {
                let left = batch.apply_accepted(|batch| write(batch));
                if let Some((_, error)) = left.iter().find(|(_, error)| is_capacity_error(error)) {
                    return Err(CapacityError(error.to_string()));
                }
            }
        }
    }
    Ok(())
}

/// Returns the non-zero elements below `end`, for engines that read one element at a time.
pub fn scan_nonzero_elements(end: u64, counter: impl Fn(u64) -> Option<Counter>) -> Vec<(u64, Counter)> {
    (0..end).filter_map(|index| Some((index, counter(index).filter(|value| value.packets != 0)?))).collect()
}

impl dyn EngineControl + '_ {
    /// Calls `f` with the control-plane state.
    pub fn with_state<R>(&self, f: impl FnOnce(&ControlState) -> R) -> R {
        with_state(self, f)
    }

    /// Calls `f` with the control-plane state without the entries of packets that
    /// [`EngineControl::flow_tables`] has.
    pub fn with_written_state<R>(&self, f: impl FnOnce(&ControlState) -> R) -> R {
        let (mut f, mut out) = (Some(f), None);
        self.visit_written_state(&mut |state| out = f.take().map(|f| f(state)));
        // `visit_written_state` calls its closure exactly once.
        out.unwrap_or_else(|| unreachable!("an engine has a state"))
    }

    /// Returns a snapshot of the program's current state.
    pub fn program_state(&self) -> ProgramState {
        program_state(self)
    }

    /// Returns the number of writes to the tables: the version that packets use from their next
    /// batch on.
    pub fn tables_version(&self) -> u64 {
        self.with_written_state(ControlState::version)
    }
}

fn program_state<E: EngineControl + ?Sized>(engine: &E) -> ProgramState {
    let state = with_state(engine, ControlState::clone);
    ProgramState { pipeline: state.pipeline().clone(), state, registers: engine.registers() }
}

fn with_state<R, E: EngineControl + ?Sized>(engine: &E, f: impl FnOnce(&ControlState) -> R) -> R {
    let (mut f, mut out) = (Some(f), None);
    engine.visit_state(&mut |state| out = f.take().map(|f| f(state)));
    // `visit_state` calls its closure exactly once.
    out.unwrap_or_else(|| unreachable!("an engine has a state"))
}
