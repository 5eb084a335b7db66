//! [`TiersEngine`]: two halves as one engine for control-plane writes and reads.

use super::cached_entries::{CachedEntries, CachedEntryCounts};
use super::hot_set_scheduler::HotSetScheduler;
use super::links::{LinkState, TierLinks};
use super::packet_explanation::{LinkChooser, TiersExplainer};
use super::plan::{TiersPlan, with_inner_port};
use super::reports::{HitReports, ReportOutbox};
use super::state_affinity::{self, StateAffinity};
use super::tier_stats::TierStats;
use super::worker::{SharedTierState, TiersWorker};
use entries::{ControlState, Counter, StateChange, StoredEntry, WriteBatch, WriteError};
use interp::{
    Config, DigestMessage, EntryRuntimeState, IdleEntry, MeterFill, PoolControl, Registers, RestingPort, SessionState,
};
use ir::{ExternId, Pipeline, TableId};
use jit::{ActionStats, EngineStats, TableStats};
use node::engine::{EngineControl, SharedEngineFactory};
use node::explain::{ExplainTarget, TraceRecord, TraceRecords};
use num_bigint::BigUint;
use offload::hot_set::{EntryIdentity, entry_identity};
use offload::partition::{PipelinePartition, Resumption};
use offload::upper_tier_filter::{UpperTierFilter, objects_above};
use p4runtime::{Code, P4RuntimeError};
use packet::{Engine, ReasonTable};
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Engine of a partitioned program.
pub struct TiersEngine {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) above: Option<Box<dyn EngineControl>>,
    pub(super) below: Option<Box<dyn EngineControl>>,
    /// State of all tables, if the lower half is in another process.
    own_state: Option<ControlState>,
    /// Counts of entries that left the upper half or were written with a count, if the lower half
    /// is in another process.
    pub(super) carried_counts: HashMap<(TableId, EntryIdentity), Counter>,
    pub(super) filter: UpperTierFilter,
    pub(super) wiring: Arc<SharedTierState>,
    pub(super) chooser: HotSetScheduler,
    pub(super) cached: CachedEntries,
    /// Objects with state in the upper half.
    pub(super) objects_above: HashSet<ExternId>,
    partition: PipelinePartition,
    reasons: ReasonTable,
    /// Notes on tables that became hot because the chip cannot hold them entirely.
    made_hot: Vec<String>,
    /// Whether idle timeouts are suspended.
    is_idle_held: AtomicBool,
    /// Idle entries that were found outside of `advance_time`.
    pub(super) pending_idle: Vec<IdleEntry>,
}

impl TiersEngine {
    /// Partitions the program and loads its halves. While the upper tier has no room, the largest
    /// table becomes hot, or its hot set shrinks.
    pub fn new(plan: &TiersPlan, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<TiersEngine, P4RuntimeError> {
        let inner_settings = with_inner_port(settings, plan.lower_port);
        let load_half = |factory: &Option<SharedEngineFactory>, half: &Pipeline, settings: &Config| match factory {
            Some(factory) => factory.load(&Arc::new(half.clone()), settings).map(Some),
            None => Ok(None),
        };
        let mut plan = plan.clone();
        let mut hot_notes = plan.notes_on_kept_below(pipeline);
        let (cut, above) = loop {
            let cut = plan.partition(pipeline)?;
            match load_half(&plan.upper_factory(pipeline), &cut.upper, &inner_settings) {
                Ok(above) => break (cut, above),
                Err(full_error) if full_error.code == Code::ResourceExhausted => {
                    match plan.shrink_largest_table(pipeline, &cut) {
                        Some(note) => hot_notes.push(note),
                        None => return Err(full_error),
                    }
                }
                Err(refused) => return Err(refused),
            }
        };
        let hot_capacities = plan.hot_capacities(pipeline);
        let affinity = plan.affinity_object.as_ref().filter(|_| plan.above.is_some());
        let affinity =
            affinity.map(|name| StateAffinity::new(&cut, name)).transpose().map_err(P4RuntimeError::unimplemented)?;
        let below = load_half(&plan.below, &cut.lower, settings)?;
        let own_state = match below {
            Some(_) => None,
            None => Some(
                ControlState::new(pipeline.clone())
                    .map_err(|error| P4RuntimeError::unimplemented(error.to_string()))?,
            ),
        };
        let wiring = SharedTierState {
            write_gate: RwLock::new(()),
            key: plan.key,
            lower_port: plan.lower_port,
            bridge_bytes: cut.bridge_bits() as usize / 8,
            links: TierLinks::new(&plan.down, plan.link_timeout, io::now(), affinity.is_none()),
            spread: affinity,
            up: plan.up.clone(),
            stats: TierStats::default(),
            followed: TraceRecords::default(),
            reports: HitReports::new(plan.key),
            outbox: ReportOutbox::new(&plan.up),
            clock: AtomicU64::new(0),
            restarts: cut.restart_points(),
            lease_deadline_ns: AtomicU64::new(u64::MAX),
        };
        let reasons =
            above.as_ref().or(below.as_ref()).map(|half| half.new_worker().reasons().clone()).unwrap_or_default();
        Ok(TiersEngine {
            filter: UpperTierFilter::new(pipeline, &cut, |table| hot_capacities.get(&table).copied().unwrap_or(0)),
            objects_above: objects_above(&cut),
            pipeline: pipeline.clone(),
            above,
            below,
            own_state,
            carried_counts: HashMap::new(),
            wiring: Arc::new(wiring),
            chooser: HotSetScheduler::new(plan.reselect_interval),
            cached: CachedEntries::new(
                cut.hot_tables.iter().copied().filter(|table| pipeline.tables[*table].add_on_miss),
                u64::try_from(plan.reselect_interval.as_nanos()).unwrap_or(u64::MAX),
            ),
            partition: cut,
            reasons,
            made_hot: hot_notes,
            is_idle_held: AtomicBool::new(false),
            pending_idle: Vec::new(),
        })
    }

    /// Calls `f` with the state of the whole program.
    pub(super) fn with_full_state<R>(&self, f: impl FnOnce(&ControlState) -> R) -> R {
        match (&self.below, &self.own_state) {
            // The lower half has all tables, as checked during partitioning.
            (Some(below), _) => below.with_state(|half| f(&half.with_pipeline(&self.pipeline))),
            (None, Some(state)) => f(state),
            // One of them always exists.
            (None, None) => unreachable!("a process has the lower half, or its tables"),
        }
    }

    /// Returns the half that holds an object's state.
    fn half_with_object(&self, object: ExternId) -> Option<&dyn EngineControl> {
        let halves = match self.objects_above.contains(&object) {
            true => [&self.above, &self.below],
            false => [&self.below, &self.above],
        };
        halves.into_iter().flatten().next().map(|half| &**half)
    }

    /// Returns an entry in the upper half, where it has another sequence number.
    pub(super) fn entry_above(&self, table: TableId, entry: &StoredEntry) -> Option<(&dyn EngineControl, StoredEntry)> {
        let above = self.above.as_ref().filter(|_| self.filter.applies(table))?;
        let entry = above.with_state(|state| state.get_entry(table, entry.key(), entry.priority()).cloned())?;
        Some((&**above, entry))
    }

    /// Returns the half that holds an entry's runtime state, and the entry there.
    fn half_of_entry(&self, table: TableId, entry: &StoredEntry) -> Option<(&dyn EngineControl, StoredEntry)> {
        let is_above = self.filter.applies(table) && !self.partition.hot_tables.contains(&table);
        match &self.below {
            Some(below) if !is_above || self.above.is_none() => Some((&**below, entry.clone())),
            _ => self.entry_above(table, entry),
        }
    }

    /// Advances the clocks of both halves, because a half without recent packets would give new
    /// entries an old time. Suspends idle timeouts meanwhile.
    fn advance_half_clocks(&mut self) {
        let (now, held) = (self.wiring.clock.load(Relaxed), self.is_idle_held.load(Relaxed));
        for half in [&mut self.above, &mut self.below].into_iter().flatten() {
            half.hold_idle(true);
            self.pending_idle.extend(half.advance_time(now));
            half.hold_idle(held);
        }
    }

    /// Applies a batch to the lower half, or makes `new_state`, the state after the batch, this
    /// process's own state.
    fn write_below(
        &mut self,
        batch: &WriteBatch,
        new_state: ControlState,
        changes: &[StateChange],
    ) -> Result<(), WriteError> {
        match &mut self.below {
            Some(below) => below.write(batch),
            None => {
                for change in changes {
                    let counter_change = match change {
                        StateChange::Deleted(table, entry) => Some((*table, entry, Counter::default())),
                        _ => None,
                    };
                    let Some((table, entry, count)) = counter_change.or_else(|| counter_set_by(change)) else {
                        continue;
                    };
                    let entry_key = (table, entry_identity(entry));
                    match count == Counter::default() {
                        true => self.carried_counts.remove(&entry_key),
                        false => self.carried_counts.insert(entry_key, count),
                    };
                }
                self.own_state = Some(new_state);
                Ok(())
            }
        }
    }

    /// Returns a closure that chooses the link of a packet.
    fn link_chooser(&self) -> LinkChooser {
        let wiring = self.wiring.clone();
        Box::new(move |packet, frame| {
            let flow = wiring.flow_by_index(frame).unwrap_or_else(|| wiring.flow_by_headers(packet));
            wiring.links.link_for_flow(flow, io::now())
        })
    }

    fn halves(&self) -> impl Iterator<Item = &dyn EngineControl> {
        [&self.above, &self.below].into_iter().flatten().map(|half| &**half)
    }
}

/// Returns the entry that a change inserts or sets the counter of, with the count.
fn counter_set_by(change: &StateChange) -> Option<(TableId, &StoredEntry, Counter)> {
    match change {
        StateChange::Inserted(table, entry, counted)
        | StateChange::Modified(table, _, entry, Some(counted))
        | StateChange::DirectCounter(table, entry, counted) => Some((*table, entry, *counted)),
        _ => None,
    }
}

impl EngineControl for TiersEngine {
    fn name(&self) -> &'static str {
        "tiers"
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    fn new_worker(&self) -> Box<dyn Engine> {
        let worker = |half: &Option<Box<dyn EngineControl>>| half.as_ref().map(|half| half.new_worker());
        let (above, below) = (worker(&self.above), worker(&self.below));
        Box::new(TiersWorker::new(self.wiring.clone(), above, below, self.reasons.clone()))
    }

    fn visit_state(&self, at: &mut dyn FnMut(&ControlState)) {
        self.with_full_state(|state| at(state));
    }

    /// Writes a batch to both halves: first to the upper one, because it can refuse. The counts of
    /// entries that leave the upper half are carried down.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let wiring = self.wiring.clone();
        let _gate = wiring.write_gate.write();
        self.advance_half_clocks();
        let mut new_state = self.with_full_state(ControlState::clone);
        let changes = new_state.apply(batch)?;
        if self.above.is_some() {
            self.remove_copies_that_end(batch, &changes);
            let upper_batch = self.filter.filter_batch(batch, &changes);
            // Entries that the batch inserts or sets do not inherit the earlier count.
            let evicted = self.filter.evicted_entries();
            let set_counters: HashSet<(TableId, EntryIdentity)> = match evicted {
                [] => HashSet::new(),
                _ => changes
                    .iter()
                    .filter_map(counter_set_by)
                    .map(|(table, entry, _)| (table, entry_identity(entry)))
                    .collect(),
            };
            let keeping_count =
                evicted.iter().filter(|(table, entry)| !set_counters.contains(&(*table, entry_identity(entry))));
            let counts = keeping_count.map(|(table, entry)| (*table, entry.clone(), self.counted_above(*table, entry)));
            let counts: Vec<_> = counts.collect();
            if let Some(Err(refused)) = self.above.as_mut().map(|above| above.write(&upper_batch)) {
                self.filter.rollback();
                // The batch of the half has other indices than the given one.
                let index = batch.updates.len().saturating_sub(1).min(refused.index);
                return Err(WriteError { index, ..refused });
            }
            self.write_below(batch, new_state, &changes)?;
            counts.into_iter().for_each(|(table, entry, count)| self.carry_count_down(table, &entry, count));
            return Ok(());
        }
        self.write_below(batch, new_state, &changes)
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.halves().filter_map(|half| half.counter(counter, index)).reduce(Counter::plus)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        let mut all: BTreeMap<u64, Counter> = BTreeMap::new();
        for (index, more) in self.halves().flat_map(|half| half.counted(counter, end)) {
            let so_far = all.entry(index).or_default();
            *so_far += more;
        }
        all.into_iter().collect()
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.half_with_object(object)?.array_len(object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.half_with_object(register)?.register(register, index)
    }

    fn registers(&self) -> Registers {
        let all = |half: &Option<Box<dyn EngineControl>>| half.as_ref().map(|half| half.registers());
        let (above, below) = (all(&self.above), all(&self.below));
        let kept_above = self.objects_above.clone();
        // Pools are below: a switch gives out no ports.
        let pools = below.clone();
        Registers::new(move |register, index| {
            let halves = if kept_above.contains(&register) { [&above, &below] } else { [&below, &above] };
            halves.into_iter().flatten().next()?.get(register, index)
        })
        .with_ports(move |pool, request, now| pools.as_ref()?.preview_port(pool, request, now))
    }

    fn explain_target(&self) -> Box<dyn ExplainTarget> {
        let part = |half: &Option<Box<dyn EngineControl>>| half.as_ref().map(|half| half.program_state());
        Box::new(TiersExplainer {
            above: part(&self.above),
            below: part(&self.below),
            key: self.wiring.key,
            lower_port: self.wiring.lower_port,
            bridge_bytes: self.wiring.bridge_bytes,
            down: self.wiring.links.probed_ports().collect(),
            up: self.wiring.up.clone(),
            link: self.link_chooser(),
            stops: self.partition.cut_points.iter().map(|point| point.reason.clone()).collect(),
            restarts: self.wiring.restarts.clone(),
        })
    }

    fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        self.pipeline.tables[table].direct_counter?;
        let below = self.below.as_ref().and_then(|half| half.entry_counter(table, entry));
        let above = self.entry_above(table, entry).and_then(|(half, entry)| half.entry_counter(table, &entry));
        let carried = self.carried_counts.get(&(table, entry_identity(entry))).copied();
        below.into_iter().chain(above).chain(carried).reduce(Counter::plus)
    }

    fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
        let (half, entry) = self.half_of_entry(table, entry)?;
        half.entry_idle_for(table, &entry)
    }

    fn trace_records(&self, mark: u16) -> Vec<Arc<TraceRecord>> {
        self.wiring.followed.records_of(mark, io::now())
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        [&mut self.above, &mut self.below].into_iter().flatten().flat_map(|half| half.take_digests()).collect()
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        self.reselect_if_due(now);
        self.refresh_cached_entries(now);
        self.collect_idle(now)
    }

    fn hold_idle(&self, hold: bool) {
        self.is_idle_held.store(hold, Relaxed);
        self.halves().for_each(|half| half.hold_idle(hold));
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        self.half_with_object(meter).map(|half| half.meter_levels(meter)).unwrap_or_default()
    }

    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterFill) {
        if let Some(half) = self.half_with_object(meter) {
            half.set_meter_level(meter, index, level);
        }
    }

    fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        let (half, entry) = self.half_of_entry(table, entry)?;
        half.entry_level(table, &entry)
    }

    fn set_entry_level(&self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        if let Some((half, entry)) = self.half_of_entry(table, entry) {
            half.set_entry_level(table, &entry, level);
        }
    }

    fn entry_session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState> {
        let (half, entry) = self.half_of_entry(table, entry)?;
        half.entry_session(table, &entry)
    }

    fn restore_session(&self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool {
        let found = self.half_of_entry(table, entry);
        found.is_some_and(|(half, entry)| half.restore_session(table, &entry, session))
    }

    fn resting_ports(&self) -> Vec<RestingPort> {
        self.halves().flat_map(|half| half.resting_ports()).collect()
    }

    fn restore_resting_port(&self, resting: &RestingPort) {
        if let Some(half) = self.half_with_object(resting.port.pool) {
            half.restore_resting_port(resting);
        }
    }

    fn with_port_pool(&self, pool: ExternId, ask: &mut dyn FnMut(&mut dyn PoolControl)) {
        if let Some(half) = self.half_with_object(pool) {
            half.with_port_pool(pool, ask);
        }
    }

    fn flow_id(&self) -> u32 {
        self.halves().map(|half| half.flow_id()).max().unwrap_or(0)
    }

    fn set_flow_id(&self, id: u32) {
        self.halves().for_each(|half| half.set_flow_id(id));
    }

    /// Adds the hits and misses of both halves by table and action.
    fn tallies(&self) -> EngineStats {
        let mut tables: BTreeMap<TableId, Vec<ActionStats>> = BTreeMap::new();
        let mut add = |half: &dyn EngineControl, is_above: bool| {
            for tally in half.tallies().tables {
                // A miss in a hot set is not a miss of the table, because the lower half continues
                // the lookup.
                let misses_count = !(is_above && self.partition.hot_tables.contains(&tally.table));
                let actions = tables.entry(tally.table).or_default();
                for mut action in tally.actions {
                    if !misses_count {
                        action.misses = Counter::default();
                    }
                    match actions.iter_mut().find(|sum| sum.action == action.action) {
                        Some(sum) => {
                            sum.hits += action.hits;
                            sum.misses += action.misses;
                        }
                        None => actions.push(action),
                    }
                }
            }
        };
        if let Some(above) = &self.above {
            add(&**above, true);
        }
        if let Some(below) = &self.below {
            add(&**below, false);
        }
        let tables = tables.into_iter().map(|(table, actions)| TableStats { table, actions });
        EngineStats { stages: Vec::new(), tables: tables.collect() }
    }

    fn fallback_reason(&self) -> Option<String> {
        Some("the program is divided among tiers".to_owned())
    }

    fn packets_by_tier(&self) -> Vec<(&'static str, u64)> {
        let TierStats { served_above: above, entered_below: below, .. } = &self.wiring.stats;
        let switch = self.above.iter().map(|_| ("switch", above.load(Relaxed)));
        let below = self.below.iter().flat_map(|half| match half.packets_by_tier() {
            one if one.is_empty() => vec![("cpu", below.load(Relaxed))],
            several => several,
        });
        switch.chain(below).collect()
    }

    /// Returns the lines of status: shares of the tiers, cut points, hot sets, links, and the notes
    /// of the halves.
    fn status_notes(&self) -> Vec<String> {
        let value = |count: &AtomicU64| count.load(Relaxed);
        let TierStats { served_above: served_count, sent_down: down_count, returned: returned_count, .. } =
            &self.wiring.stats;
        let (served_count, down_count, returned_count) =
            (value(served_count), value(down_count), value(returned_count));
        let share = 100.0 * served_count as f64 / (served_count + down_count).max(1) as f64;
        let mut notes = vec![format!(
            "tiers: {share:.2} % of packets served by the switch, {served_count}; {down_count} went down in a bridge header of {} bytes, {returned_count} came back",
            self.wiring.bridge_bytes
        )];
        notes.extend(self.made_hot.iter().cloned());
        for point in &self.partition.cut_points {
            let kind = if point.is_hot_miss { "hot" } else { "stop" };
            let carried = match point.resumption {
                Resumption::Continue => format!("{} bits carried", point.carried_bits),
                Resumption::Restart => "packets restart below".to_owned(),
            };
            notes.push(format!("tiers: {kind}: {} ({carried})", point.reason));
        }
        let bypassed = value(&self.wiring.stats.bypassed);
        if bypassed > 0 {
            notes.push(format!(
                "tiers: {bypassed} packets passed the switch by, because leases of its entries were not checked in time: the process has too little processor time"
            ));
        }
        for (table, hot) in self.filter.hot_sets() {
            let name = &self.pipeline.tables[table].preamble.name;
            if let Some(counts) = self.cached.counts(table) {
                let CachedEntryCounts { added, removed, renewed, without_room } = counts;
                notes.push(format!(
                    "tiers: {name}: {} of {} entries of packets are above; {added} added, {removed} removed, {renewed} leases renewed, {without_room} without room",
                    hot.len(),
                    hot.capacity()
                ));
                continue;
            }
            let HotSetScheduler { added: came, removed: went, refused, .. } = &self.chooser;
            notes.push(format!(
                "tiers: {name}: {} of {} hot entries; {came} added, {went} removed, {refused} selections exceeded the capacity",
                hot.len(),
                hot.capacity()
            ));
        }
        for LinkState { port, alive, packets, losses } in self.wiring.links.link_states(io::now()) {
            let liveness = if alive { "answers" } else { "does not answer" };
            notes.push(format!(
                "tiers: the tier behind port {port} {liveness}; {packets} packets sent, lost {losses} times"
            ));
        }
        let (remembered, lost) = self.wiring.followed.count();
        if lost > 0 {
            notes.push(format!(
                "tiers: {remembered} traced packets are remembered; {lost} were not, because the list was being read"
            ));
        }
        if self.above.is_some() && self.wiring.links.probed_ports().count() > 1 {
            notes.extend(state_affinity::affinity_notes(&self.partition, self.wiring.spread.as_ref()));
        }
        for (name, half) in [("above", &self.above), ("below", &self.below)] {
            let Some(half) = half else { continue };
            notes.extend(half.status_notes().into_iter().map(|note| format!("{name}, {}: {note}", half.name())));
        }
        notes
    }
}
