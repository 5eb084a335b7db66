//! Implied cut points: program points that must be cut points because others are.

use super::reachability::{ProgramPoint, Reachability};
use super::restart::{packet_refusal, repeated_effect};
use super::tables::table_arg;
use super::{CutPoint, PartitionError, PointInBlock, Resumption};
use ir::{
    Block, Body, ControlId, ControlKind, ExternArg, ExternFn, ExternId, Inst, Pipeline, SourceLoc, TableId, Terminator,
};
use std::collections::{BTreeMap, BTreeSet};

/// Cut point, requested or implied.
pub struct ImpliedCutPoint {
    /// The cut point.
    pub point: CutPoint,
    /// Whether it was requested.
    pub is_requested: bool,
}

impl ImpliedCutPoint {
    /// Returns whether packets restart below.
    fn restarts(&self) -> bool {
        self.point.resumption == Resumption::Restart
    }
}

/// State that must be on one side of the partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OneSidedState {
    /// An extern object with state.
    Object(ExternId),
    /// A checksum unit. Its state belongs to one packet and matters only if it is built before a
    /// cut point and used after it.
    Sum(ExternId),
    /// A table that packets write to: by adding entries, by hits (idle timeout) or by a direct
    /// meter.
    Table(TableId),
    /// A sequence: random numbers and flow ids.
    Sequence(ExternFn),
}

/// State access of a program point.
struct PointAccess {
    place: ProgramPoint,
    state: Option<OneSidedState>,
    /// Whether it has an effect that cannot be carried, such as mirroring.
    is_uncarriable: bool,
    /// Table for which the point works on the last found entry.
    entry_of: Option<TableId>,
    /// Table that is applied at the point.
    table: Option<TableId>,
    name: String,
}

impl PointAccess {
    /// Leaves the entries of tables to both halves: the upper one only reads them.
    fn leave_entries_of(&mut self, tables: &BTreeSet<TableId>) {
        if self.table.or(self.entry_of).is_some_and(|table| tables.contains(&table)) {
            (self.state, self.entry_of) = (None, None);
        }
    }
}

/// Adds the implied cut points to the requested ones, until no further one follows.
/// Returns those that a packet can reach in the upper half.
///
/// # Errors
/// [`PartitionError::SecondPass`]: code behind a cut point sends a packet through the upper tier
/// again.
pub fn add_implied_cut_points(
    pipeline: &Pipeline,
    control: ControlId,
    requested: Vec<CutPoint>,
) -> Result<Vec<ImpliedCutPoint>, PartitionError> {
    let body = &pipeline.controls[control].body;
    let mut accesses = collect_accesses(pipeline, body);
    let reach = Reachability::new(body);
    let mut cut_points: BTreeMap<ProgramPoint, ImpliedCutPoint> = BTreeMap::new();
    if let (Some(name), Some(first)) = (state_after_control(pipeline), body.entry) {
        // Both halves run the code after the partitioned control. State there must be on one side,
        // so all packets go to the lower half.
        let at = if body.blocks[first].insts.is_empty() { PointInBlock::Term } else { PointInBlock::Inst(0) };
        let reason = format!("{name} is used after the partitioned control, and must be on one side");
        cut_points.insert(
            (first, at),
            ImpliedCutPoint { point: continuing_cut_point(control, (first, at), reason), is_requested: false },
        );
        accesses.clear();
    }
    for cut_point in requested {
        let existing = cut_points
            .entry((cut_point.block, cut_point.at))
            .or_insert(ImpliedCutPoint { point: cut_point.clone(), is_requested: true });
        existing.point.is_hot_miss &= cut_point.is_hot_miss;
    }
    extend_hot_tables(pipeline, control, &mut cut_points);
    let cached = settle_restarts(pipeline, body, &mut cut_points, &reach);
    accesses.iter_mut().for_each(|access| access.leave_entries_of(&cached));
    loop {
        let mut added: Vec<(ProgramPoint, String)> = Vec::new();
        let is_run_below = |point: ProgramPoint| cut_points.iter().any(|cut| runs_below(cut, point, &reach));
        let split_sums = split_checksums(body, &cut_points, &accesses, &reach);
        for access in &accesses {
            let is_whole = matches!(access.state, Some(OneSidedState::Sum(object)) if !split_sums.contains(&object));
            // The point is unreachable in the upper half if all packets leave at an earlier cut
            // point of its block.
            let mut earlier_cuts = cut_points.range((access.place.0, PointInBlock::Inst(0))..=access.place);
            if is_whole || earlier_cuts.any(|(point, cut)| *point == access.place || !cut.point.is_hot_miss) {
                continue;
            }
            if access.is_uncarriable && cut_points.keys().any(|cut| reach.reaches(access.place, *cut)) {
                added.push((access.place, format!("{} cannot be carried to the cut point after it", access.name)));
            } else if let Some(state) = access.state {
                let is_later = |later: &PointAccess| later.state == Some(state) && is_run_below(later.place);
                if accesses.iter().any(is_later) {
                    added.push((
                        access.place,
                        format!("{} is also used after a cut point, and must be on one side", access.name),
                    ));
                }
            }
        }
        added.extend(lookups_apart_from_users(pipeline, body, &cut_points, &accesses, &reach));
        let has_changed = stop_all_where_one_sided(&mut cut_points, &accesses, &reach);
        if added.is_empty() && !has_changed {
            break;
        }
        for ((block, at), reason) in added {
            let point = continuing_cut_point(control, (block, at), reason);
            cut_points.entry((block, at)).or_insert(ImpliedCutPoint { point, is_requested: false });
        }
    }
    if !cut_points.is_empty() {
        reject_second_pass(pipeline, body, |point| cut_points.iter().any(|cut| runs_below(cut, point, &reach)))?;
    }
    let reached = reachable_cut_points(pipeline, body, &cut_points);
    cut_points.retain(|point, _| reached.contains(point));
    Ok(cut_points.into_values().collect())
}

/// Returns the lookups in the upper half of entries that code behind a cut point works on, with
/// reasons: both must be on the same side. A packet that restarts looks the entry up again.
fn lookups_apart_from_users(
    pipeline: &Pipeline,
    body: &Body,
    cut_points: &BTreeMap<ProgramPoint, ImpliedCutPoint>,
    accesses: &[PointAccess],
    reach: &Reachability,
) -> Vec<(ProgramPoint, String)> {
    let mut lookups = Vec::new();
    let continues_to = |point: ProgramPoint| {
        let continuing = cut_points.iter().filter(|(_, cut)| !cut.restarts());
        continuing.map(|(cut, _)| *cut).any(|cut| cut == point || reach.reaches(cut, point))
    };
    for user in accesses.iter().filter(|access| continues_to(access.place)) {
        let Some(table) = user.entry_of else { continue };
        for found in applications(body, table).filter(|point| !cut_points.contains_key(point)) {
            if reach.reaches(found, user.place) {
                let name = &pipeline.tables[table].preamble.name;
                lookups.push((found, format!("`{name}`: code that works on the entry it finds follows a cut point")));
            }
        }
    }
    lookups
}

/// Returns a cut point at which packets continue.
fn continuing_cut_point(control: ControlId, (block, at): ProgramPoint, reason: String) -> CutPoint {
    CutPoint { control, block, at, is_hot_miss: false, resumption: Resumption::Continue, reason }
}

/// Returns whether the lower half can run a point with a packet that left at a cut point: those
/// behind it, and where the packet restarts, also those before it.
fn runs_below((at, cut): (&ProgramPoint, &ImpliedCutPoint), point: ProgramPoint, reach: &Reachability) -> bool {
    let is_before = || cut.restarts() && reach.reaches(point, *at);
    *at == point || reach.reaches(*at, point) || is_before()
}

/// Makes packets continue at cut points at which they cannot restart. Returns the tables that packets
/// write to and of which the upper half has some entries: their cut points can all restart.
fn settle_restarts(
    pipeline: &Pipeline,
    body: &Body,
    cut_points: &mut BTreeMap<ProgramPoint, ImpliedCutPoint>,
    reach: &Reachability,
) -> BTreeSet<TableId> {
    let packet_refusal =
        if cut_points.values().any(ImpliedCutPoint::restarts) { packet_refusal(pipeline) } else { None };
    let mut refusals: BTreeMap<ProgramPoint, String> = BTreeMap::new();
    for (point, _) in cut_points.iter().filter(|(_, cut)| cut.restarts()) {
        let refusal = packet_refusal.clone().or_else(|| repeated_effect(pipeline, body, reach, *point));
        refusals.extend(refusal.map(|refusal| (*point, refusal)));
    }
    let written_table = |point: &ProgramPoint| written_table_at(pipeline, body, *point);
    let restarting = cut_points.iter().filter(|(_, cut)| cut.restarts());
    let mut cached: BTreeSet<TableId> = restarting.filter_map(|(point, _)| written_table(point)).collect();
    let mut refused: BTreeMap<TableId, String> = BTreeMap::new();
    for (point, refusal) in &refusals {
        if let Some(table) = written_table(point).filter(|table| cached.remove(table)) {
            refused.insert(table, refusal.clone());
        }
    }
    // Without restarts, all accesses to the table are below.
    cut_points.retain(|point, _| {
        let is_lookup = point.1 == PointInBlock::Term;
        is_lookup || !written_table(point).is_some_and(|table| refused.contains_key(&table))
    });
    for (point, cut) in cut_points.iter_mut().filter(|(_, cut)| cut.restarts()) {
        let of_table = written_table(point).and_then(|table| refused.get(&table));
        if let Some(refusal) = of_table.or(refusals.get(point)) {
            cut.point.resumption = Resumption::Continue;
            cut.point.is_hot_miss &= written_table(point).is_none();
            cut.point.reason = format!("{}; packets cannot restart below, because {refusal}", cut.point.reason);
        }
    }
    cached
}

/// Returns the table to which packets add entries, if a point applies one, or changes the expire time
/// of an entry that it has found there.
fn written_table_at(pipeline: &Pipeline, body: &Body, (block, at): ProgramPoint) -> Option<TableId> {
    let data = body.blocks.get(block)?;
    let table = match at {
        PointInBlock::Term => data.applied_table()?,
        PointInBlock::Inst(n) => match &data.insts.get(n)?.inst {
            Inst::Extern { func: ExternFn::SetEntryExpireTime, args, .. } => table_arg(args)?,
            _ => return None,
        },
    };
    pipeline.tables[table].add_on_miss.then_some(table)
}

/// Returns the cut points that packets can reach in the upper half: not those that follow others on
/// all paths.
fn reachable_cut_points(
    pipeline: &Pipeline,
    body: &Body,
    cut_points: &BTreeMap<ProgramPoint, ImpliedCutPoint>,
) -> BTreeSet<ProgramPoint> {
    let (mut reached, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut waiting: Vec<Block> = body.entry.into_iter().collect();
    while let Some(block) = waiting.pop() {
        if !seen.insert(block) {
            continue;
        }
        let (mut all_leave, mut misses_leave) = (false, false);
        for (point, cut) in cut_points.range((block, PointInBlock::Inst(0))..=(block, PointInBlock::Term)) {
            reached.insert(*point);
            (all_leave, misses_leave) = (!cut.point.is_hot_miss, cut.point.is_hot_miss);
            if all_leave {
                break;
            }
        }
        match body.blocks[block].term.as_ref().map(|term| &term.term) {
            _ if all_leave => {}
            Some(Terminator::Apply { table, arms, .. }) if misses_leave => {
                let can_hit = |action| pipeline.tables[*table].known_hit(action) != Some(false);
                waiting.extend(arms.iter().filter(|arm| can_hit(arm.action)).map(|arm| arm.block));
            }
            _ => waiting.extend(body.blocks[block].successors()),
        }
    }
    reached
}

/// Returns checksum units that are used before a cut point, and after it before they are cleared.
fn split_checksums(
    body: &Body,
    stops: &BTreeMap<ProgramPoint, ImpliedCutPoint>,
    notes: &[PointAccess],
    reach: &Reachability,
) -> BTreeSet<ExternId> {
    let uses = notes.iter().filter_map(|note| match note.state {
        Some(OneSidedState::Sum(object)) => Some((object, note.place)),
        _ => None,
    });
    let uses: Vec<(ExternId, ProgramPoint)> = uses.collect();
    let objects: BTreeSet<ExternId> = uses.iter().map(|(object, _)| *object).collect();
    let parts = |object: ExternId, stop: ProgramPoint| {
        let in_front = uses.iter().any(|(of, place)| *of == object && reach.reaches(*place, stop));
        in_front && reads_before_clearing(body, object, stop)
    };
    // A packet that restarts builds its checksums again.
    let continuing = |stop: &(&ProgramPoint, &ImpliedCutPoint)| !stop.1.restarts();
    let is_split = |object: &ExternId| stops.iter().filter(continuing).any(|(stop, _)| parts(*object, *stop));
    objects.into_iter().filter(is_split).collect()
}

/// Returns whether a packet that continues at a point can use a checksum unit before clearing it.
fn reads_before_clearing(body: &Body, object: ExternId, from: ProgramPoint) -> bool {
    let first = match from.1 {
        PointInBlock::Inst(n) => n,
        PointInBlock::Term => body.blocks[from.0].insts.len(),
    };
    let (mut waiting, mut seen) = (vec![(from.0, first)], BTreeSet::new());
    while let Some((block, first)) = waiting.pop() {
        let data = &body.blocks[block];
        let used_func = |inst: &Inst| match inst {
            Inst::Extern { object: Some(used), func, .. } if *used == object => Some(*func),
            _ => None,
        };
        match data.insts.iter().skip(first).find_map(|data| used_func(&data.inst)) {
            Some(ExternFn::ChecksumClear | ExternFn::InternetChecksumClear | ExternFn::InternetChecksumSetState) => {}
            Some(_) => return true,
            None => {
                let next = data.successors();
                waiting.extend(next.into_iter().filter(|block| seen.insert(*block)).map(|block| (block, 0)));
            }
        }
    }
    false
}

/// Extends each hot table to all of its applications. A table with constant entries cannot be hot,
/// because its entries cannot be chosen.
fn extend_hot_tables(
    pipeline: &Pipeline,
    control: ControlId,
    cut_points: &mut BTreeMap<ProgramPoint, ImpliedCutPoint>,
) {
    let body = &pipeline.controls[control].body;
    let table_at =
        |point: ProgramPoint| body.blocks.get(point.0)?.applied_table().filter(|_| point.1 == PointInBlock::Term);
    let hot: Vec<(TableId, Resumption, String)> = cut_points
        .iter()
        .filter(|(_, cut)| cut.point.is_hot_miss)
        .filter_map(|(point, cut)| Some((table_at(*point)?, cut.point.resumption, cut.point.reason.clone())))
        .collect();
    for (table, resumption, reason) in hot {
        let is_choosable = !pipeline.tables[table].const_entries;
        for (block, at) in applications(body, table) {
            let cut_point = CutPoint {
                is_hot_miss: true,
                resumption,
                ..continuing_cut_point(control, (block, at), reason.clone())
            };
            cut_points
                .entry((block, at))
                .or_insert(ImpliedCutPoint { point: cut_point, is_requested: false })
                .point
                .is_hot_miss &= is_choosable;
        }
    }
}

/// Turns hot cut points into plain ones if their table must be on one side: packets write to it, or
/// code that works on the found entry follows another cut point. Returns whether there were any.
fn stop_all_where_one_sided(
    cut_points: &mut BTreeMap<ProgramPoint, ImpliedCutPoint>,
    accesses: &[PointAccess],
    reach: &Reachability,
) -> bool {
    let hot: Vec<ProgramPoint> =
        cut_points.iter().filter(|(_, cut)| cut.point.is_hot_miss).map(|(point, _)| *point).collect();
    let has_one_sided_state =
        |point: ProgramPoint| accesses.iter().any(|access| access.place == point && access.state.is_some());
    let has_cut_before_user = |point: ProgramPoint| {
        let table = accesses.iter().find(|access| access.place == point).and_then(|access| access.table);
        let mut users = accesses.iter().filter(|access| access.entry_of.is_some() && access.entry_of == table);
        users.any(|user| {
            let is_between = |other: ProgramPoint| {
                reach.reaches(point, other) && (other == user.place || reach.reaches(other, user.place))
            };
            cut_points.iter().any(|(other, cut)| !cut.restarts() && is_between(*other))
        })
    };
    let one_sided: Vec<ProgramPoint> =
        hot.into_iter().filter(|point| has_one_sided_state(*point) || has_cut_before_user(*point)).collect();
    for point in &one_sided {
        if let Some(cut) = cut_points.get_mut(point) {
            cut.point.is_hot_miss = false;
        }
    }
    !one_sided.is_empty()
}

/// Returns the name of state in a control after the partitioned one: v1model's egress.
fn state_after_control(pipeline: &Pipeline) -> Option<String> {
    let behind = pipeline.controls.values().filter(|control| control.kind == ControlKind::Egress);
    let mut all = behind.flat_map(|control| collect_accesses(pipeline, &control.body));
    all.find(|note| note.state.is_some_and(|keeper| !matches!(keeper, OneSidedState::Sum(_)))).map(|note| note.name)
}

/// Rejects functions that would send a packet through the upper tier a second time, after a cut
/// point or in v1model's egress.
fn reject_second_pass(
    pipeline: &Pipeline,
    body: &Body,
    is_behind_cut: impl Fn(ProgramPoint) -> bool,
) -> Result<(), PartitionError> {
    let egress = pipeline.controls.values().filter(|control| control.kind == ControlKind::Egress);
    for inst in egress.flat_map(|control| control.body.insts()) {
        if let Inst::Extern { func: func @ ExternFn::Recirculate, .. } = &inst.inst {
            return Err(PartitionError::SecondPass(func.name()));
        }
    }
    for (block, data) in body.blocks.iter() {
        for (n, inst) in data.insts.iter().enumerate() {
            let Inst::Extern { func, .. } = &inst.inst else { continue };
            let may_return = matches!(
                func,
                ExternFn::Clone
                    | ExternFn::Resubmit
                    | ExternFn::Recirculate
                    | ExternFn::PnaRecirculate
                    | ExternFn::MirrorPacket
            );
            if may_return && is_behind_cut((block, PointInBlock::Inst(n))) {
                return Err(PartitionError::SecondPass(func.name()));
            }
        }
    }
    Ok(())
}

fn applications(body: &Body, table: TableId) -> impl Iterator<Item = ProgramPoint> + '_ {
    let applies = body.blocks.iter().filter(move |(_, data)| data.applied_table() == Some(table));
    applies.map(|(block, _)| (block, PointInBlock::Term))
}

/// Returns the accesses of a body to state that must be on one side of the cut, and its table
/// applications.
fn collect_accesses(pipeline: &Pipeline, body: &Body) -> Vec<PointAccess> {
    let mut accesses = Vec::new();
    for (block, data) in body.blocks.iter() {
        for (n, inst) in data.insts.iter().enumerate() {
            if let Inst::Extern { object, func, args } = &inst.inst {
                accesses.push(access_of(pipeline, (block, PointInBlock::Inst(n)), *object, *func, args));
            }
        }
        if let Some(table) = data.applied_table() {
            let declared = &pipeline.tables[table];
            let is_changed_by_packets =
                declared.add_on_miss || declared.idle_timeout || declared.direct_meter.is_some();
            let state = is_changed_by_packets.then_some(OneSidedState::Table(table));
            let name = format!("`{}`", declared.preamble.name);
            accesses.push(PointAccess {
                place: (block, PointInBlock::Term),
                state,
                is_uncarriable: false,
                entry_of: None,
                table: Some(table),
                name,
            });
        }
    }
    accesses
}

/// Returns the access of one extern call.
fn access_of(
    pipeline: &Pipeline,
    point: ProgramPoint,
    object: Option<ExternId>,
    func: ExternFn,
    args: &[ExternArg],
) -> PointAccess {
    use ExternFn::*;
    let table = table_arg(args);
    let object_name = object.and_then(|id| pipeline.externs.get(id)).map(|inst| inst.preamble.name.clone());
    let name = match object_name {
        Some(object) => format!("`{object}`"),
        None => format!("`{}`", func.name()),
    };
    // A taken port or share of a quota goes to the entry that the same packet adds, below the cut.
    let has_packet_effect = matches!(
        func,
        MirrorPacket | PnaRecirculate | Clone | Resubmit | Recirculate | Truncate | PortPoolTake | EntryQuotaTake
    );
    let state = match func {
        // All random numbers form one sequence.
        _ if is_random(func, args) => Some(OneSidedState::Sequence(Random)),
        // Counts add up; hashes have no state. Digests have no state either, but an order.
        CounterCount | DirectCounterCount | HashGet | Checksum16Get => None,
        AllocateFlowId => Some(OneSidedState::Sequence(func)),
        AddEntry | SetEntryExpireTime | RestartExpireTimer | DirectMeterExecute => table.map(OneSidedState::Table),
        func if func.is_packet_scoped() => object.map(OneSidedState::Sum),
        _ => object.map(OneSidedState::Object),
    };
    let entry_of = match func {
        DirectCounterCount | DirectMeterExecute | AddEntry | SetEntryExpireTime | RestartExpireTimer => table,
        _ => None,
    };
    PointAccess { place: point, state, is_uncarriable: has_packet_effect, entry_of, table: None, name }
}

/// Returns whether a call returns a random number, including v1model's hash with the algorithm
/// `random`.
fn is_random(func: ExternFn, args: &[ExternArg]) -> bool {
    let hashed = args.iter().any(|arg| matches!(arg, ExternArg::Str(name) if name == "random"));
    hashed || matches!(func, ExternFn::Random | ExternFn::RandomRead)
}

/// Returns the source location of a point in a body.
pub fn point_location(body: &Body, block: Block, at: PointInBlock) -> SourceLoc {
    let data = &body.blocks[block];
    match at {
        PointInBlock::Inst(n) => data.insts.get(n).map(|inst| inst.loc),
        PointInBlock::Term => data.term.as_ref().map(|term| term.loc),
    }
    .unwrap_or_default()
}
