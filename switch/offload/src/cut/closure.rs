//! Which places must be stops because others are.

use super::{At, CutError, Stop};
use ir::{
    Arg, Block, Body, ControlId, ControlKind, Entity, ExternFn, ExternId, Inst, Loc, Pipeline, TableId,
    reverse_postorder,
};
use std::collections::{BTreeMap, BTreeSet};

/// A stop, and whether it was asked for.
pub struct Closed {
    /// The stop.
    pub stop: Stop,
    /// Whether it was asked for.
    pub asked: bool,
}

/// What must be on one side of the cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keeper {
    /// An extern object with state.
    Object(ExternId),
    /// A checksum unit: its state is one packet's, and matters where it is built in front of a stop and used behind it.
    Sum(ExternId),
    /// A table that packets write to: by adding entries, by hitting them (idle times), or by a direct meter.
    Table(TableId),
    /// Random numbers and flow ids are sequences.
    Sequence(ExternFn),
}

/// A place in a body.
type Place = (Block, At);

/// What a place has to do with state.
struct Note {
    place: Place,
    keeper: Option<Keeper>,
    /// Mirroring and the like: it cannot be carried on.
    effect: bool,
    /// The entry that the last application of this table found.
    entry_of: Option<TableId>,
    /// The table that is applied here.
    table: Option<TableId>,
    name: String,
}

/// Adds the stops that follow.
pub fn close(pipeline: &Pipeline, control: ControlId, asked: Vec<Stop>) -> Result<Vec<Closed>, CutError> {
    let body = &pipeline.controls[control].body;
    let mut notes = notes(pipeline, body);
    let reach = Reach::new(body);
    let mut stops: BTreeMap<Place, Closed> = BTreeMap::new();
    if let (Some(name), Some(first)) = (state_behind(pipeline), body.entry) {
        // Behind the control that is cut, both halves run the same code: what keeps state there is below for all packets.
        let at = if body.blocks[first].insts.is_empty() { At::Term } else { At::Inst(0) };
        let why = format!("{name} is behind the control that is cut, and has one place");
        stops.insert((first, at), Closed { stop: Stop { control, block: first, at, hot: false, why }, asked: false });
        notes.clear();
    }
    for stop in asked {
        let here = stops.entry((stop.block, stop.at)).or_insert(Closed { stop: stop.clone(), asked: true });
        here.stop.hot &= stop.hot;
    }
    hot_everywhere(pipeline, control, &mut stops);
    loop {
        let mut new: Vec<(Place, String)> = Vec::new();
        let behind = |place: Place| stops.keys().any(|stop| *stop == place || reach.leads(*stop, place));
        let parted = parted_sums(body, &stops, &notes, &reach);
        for note in &notes {
            let whole = matches!(note.keeper, Some(Keeper::Sum(object)) if !parted.contains(&object));
            // No packet comes to it above, if all stop in front of it in its block.
            let mut in_front = stops.range((note.place.0, At::Inst(0))..=note.place);
            if whole || in_front.any(|(place, closed)| *place == note.place || !closed.stop.hot) {
                continue;
            }
            if note.effect && stops.keys().any(|stop| reach.leads(note.place, *stop)) {
                new.push((note.place, format!("{} cannot be carried on to the stop behind it", note.name)));
            } else if let Some(keeper) = note.keeper {
                let other = notes.iter().find(|other| other.keeper == Some(keeper) && behind(other.place));
                if other.is_some() {
                    new.push((note.place, format!("{} is used behind a stop, too, and has one place", note.name)));
                }
            }
        }
        // Who works on the entry that was found must be where it was found.
        for user in notes.iter().filter(|note| behind(note.place)) {
            let Some(table) = user.entry_of else { continue };
            for found in applications(body, table).filter(|place| !stops.contains_key(place)) {
                if reach.leads(found, user.place) {
                    let name = &pipeline.tables[table].preamble.name;
                    new.push((found, format!("`{name}`: what works on the entry it finds is behind a stop")));
                }
            }
        }
        let cooled = cool(&mut stops, &notes, &reach);
        if new.is_empty() && !cooled {
            break;
        }
        for ((block, at), why) in new {
            let stop = Stop { control, block, at, hot: false, why };
            stops.entry((block, at)).or_insert(Closed { stop, asked: false });
        }
    }
    if !stops.is_empty() {
        again(pipeline, body, |place| stops.keys().any(|stop| *stop == place || reach.leads(*stop, place)))?;
    }
    let met = met(body, &stops);
    stops.retain(|place, _| met.contains(place));
    Ok(stops.into_values().collect())
}

/// The stops that a packet can come to above: not those that are behind others on all ways.
fn met(body: &Body, stops: &BTreeMap<Place, Closed>) -> BTreeSet<Place> {
    let (mut met, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut waiting: Vec<Block> = body.entry.into_iter().collect();
    while let Some(block) = waiting.pop() {
        if !seen.insert(block) {
            continue;
        }
        let mut ends = false;
        for (place, closed) in stops.range((block, At::Inst(0))..=(block, At::Term)) {
            met.insert(*place);
            ends = !closed.stop.hot;
            if ends {
                break;
            }
        }
        if !ends {
            waiting.extend(body.blocks[block].successors());
        }
    }
    met
}

/// Checksum units that are used in front of a stop, and behind it before they are cleared.
fn parted_sums(body: &Body, stops: &BTreeMap<Place, Closed>, notes: &[Note], reach: &Reach) -> BTreeSet<ExternId> {
    let uses = notes.iter().filter_map(|note| match note.keeper {
        Some(Keeper::Sum(object)) => Some((object, note.place)),
        _ => None,
    });
    let uses: Vec<(ExternId, Place)> = uses.collect();
    let objects: BTreeSet<ExternId> = uses.iter().map(|(object, _)| *object).collect();
    let parts = |object: ExternId, stop: Place| {
        let in_front = uses.iter().any(|(of, place)| *of == object && reach.leads(*place, stop));
        in_front && reads_before_clearing(body, object, stop)
    };
    objects.into_iter().filter(|object| stops.keys().any(|stop| parts(*object, *stop))).collect()
}

/// Whether a packet that goes on at a place may use a checksum unit before it clears it.
fn reads_before_clearing(body: &Body, object: ExternId, from: Place) -> bool {
    let first = match from.1 {
        At::Inst(n) => n,
        At::Term => body.blocks[from.0].insts.len(),
    };
    let (mut open, mut seen) = (vec![(from.0, first)], BTreeSet::new());
    while let Some((block, first)) = open.pop() {
        let data = &body.blocks[block];
        let of = |inst: &Inst| match inst {
            Inst::Extern { object: Some(used), func, .. } if *used == object => Some(*func),
            _ => None,
        };
        match data.insts.iter().skip(first).find_map(|data| of(&data.inst)) {
            Some(ExternFn::ChecksumClear | ExternFn::InternetChecksumClear | ExternFn::InternetChecksumSetState) => {}
            Some(_) => return true,
            None => {
                let next = data.successors();
                open.extend(next.into_iter().filter(|block| seen.insert(*block)).map(|block| (block, 0)));
            }
        }
    }
    false
}

/// A table of which the upper tier has a few entries has them wherever it is applied. One whose entries nobody can choose, as they are constant, is no such
/// table.
fn hot_everywhere(pipeline: &Pipeline, control: ControlId, stops: &mut BTreeMap<Place, Closed>) {
    let body = &pipeline.controls[control].body;
    let table_at = |place: Place| body.blocks.get(place.0)?.applied().filter(|_| place.1 == At::Term);
    let hot: Vec<(TableId, String)> = stops
        .iter()
        .filter(|(_, closed)| closed.stop.hot)
        .filter_map(|(place, closed)| Some((table_at(*place)?, closed.stop.why.clone())))
        .collect();
    for (table, why) in hot {
        let choosable = !pipeline.tables[table].const_entries;
        for (block, at) in applications(body, table) {
            let stop = Stop { control, block, at, hot: true, why: why.clone() };
            stops.entry((block, at)).or_insert(Closed { stop, asked: false }).stop.hot &= choosable;
        }
    }
}

/// Makes plain stops of hot ones whose table must be in one place: packets write to it; or what works on the entry that was found is behind another stop.
/// Whether there were any.
fn cool(stops: &mut BTreeMap<Place, Closed>, notes: &[Note], reach: &Reach) -> bool {
    let hot: Vec<Place> = stops.iter().filter(|(_, closed)| closed.stop.hot).map(|(place, _)| *place).collect();
    let kept = |place: Place| notes.iter().any(|note| note.place == place && note.keeper.is_some());
    let parted = |place: Place| {
        let table = notes.iter().find(|note| note.place == place).and_then(|note| note.table);
        let mut users = notes.iter().filter(|note| note.entry_of.is_some() && note.entry_of == table);
        users.any(|user| {
            let between =
                |stop: Place| reach.leads(place, stop) && (stop == user.place || reach.leads(stop, user.place));
            stops.keys().any(|stop| between(*stop))
        })
    };
    let cold: Vec<Place> = hot.into_iter().filter(|place| kept(*place) || parted(*place)).collect();
    for place in &cold {
        if let Some(closed) = stops.get_mut(place) {
            closed.stop.hot = false;
        }
    }
    !cold.is_empty()
}

/// State in a control behind the one that is cut: v1model's egress.
fn state_behind(pipeline: &Pipeline) -> Option<String> {
    let behind = pipeline.controls.values().filter(|control| control.kind == ControlKind::Egress);
    let mut all = behind.flat_map(|control| notes(pipeline, &control.body));
    all.find(|note| note.keeper.is_some_and(|keeper| !matches!(keeper, Keeper::Sum(_)))).map(|note| note.name)
}

/// Refuses what would send a packet through the upper tier once more: behind a stop, or in v1model's egress, which is behind all of them.
fn again(pipeline: &Pipeline, body: &Body, behind: impl Fn(Place) -> bool) -> Result<(), CutError> {
    let egress = pipeline.controls.values().filter(|control| control.kind == ControlKind::Egress);
    for inst in egress.flat_map(|control| control.body.insts()) {
        if let Inst::Extern { func: func @ ExternFn::Recirculate, .. } = &inst.inst {
            return Err(CutError::Again(func.name()));
        }
    }
    for (block, data) in body.blocks.iter() {
        for (n, inst) in data.insts.iter().enumerate() {
            let Inst::Extern { func, .. } = &inst.inst else { continue };
            let comes_back = matches!(
                func,
                ExternFn::Clone
                    | ExternFn::Resubmit
                    | ExternFn::Recirculate
                    | ExternFn::PnaRecirculate
                    | ExternFn::MirrorPacket
            );
            if comes_back && behind((block, At::Inst(n))) {
                return Err(CutError::Again(func.name()));
            }
        }
    }
    Ok(())
}

fn applications(body: &Body, table: TableId) -> impl Iterator<Item = Place> + '_ {
    let applies = body.blocks.iter().filter(move |(_, data)| data.applied() == Some(table));
    applies.map(|(block, _)| (block, At::Term))
}

fn notes(pipeline: &Pipeline, body: &Body) -> Vec<Note> {
    let mut notes = Vec::new();
    for (block, data) in body.blocks.iter() {
        for (n, inst) in data.insts.iter().enumerate() {
            if let Inst::Extern { object, func, args } = &inst.inst {
                notes.push(note(pipeline, (block, At::Inst(n)), *object, *func, args));
            }
        }
        if let Some(table) = data.applied() {
            let declared = &pipeline.tables[table];
            let written = declared.add_on_miss || declared.idle_timeout || declared.direct_meter.is_some();
            let keeper = written.then_some(Keeper::Table(table));
            let name = format!("`{}`", declared.preamble.name);
            notes.push(Note {
                place: (block, At::Term),
                keeper,
                effect: false,
                entry_of: None,
                table: Some(table),
                name,
            });
        }
    }
    notes
}

fn note(pipeline: &Pipeline, place: Place, object: Option<ExternId>, func: ExternFn, args: &[Arg]) -> Note {
    use ExternFn::*;
    let table = args.iter().find_map(|arg| if let Arg::Table(table) = arg { Some(*table) } else { None });
    let object_name = object.and_then(|id| pipeline.externs.get(id)).map(|inst| inst.preamble.name.clone());
    let name = match object_name {
        Some(object) => format!("`{object}`"),
        None => format!("`{}`", func.name()),
    };
    let effect = matches!(func, MirrorPacket | PnaRecirculate | Clone | Resubmit | Recirculate | Truncate);
    let keeper = match func {
        // Random numbers are one sequence, whoever asks for them.
        _ if is_random(func, args) => Some(Keeper::Sequence(Random)),
        // Counts add up; hashes have no state. Digests have none either, but an order.
        CounterCount | DirectCounterCount | HashGet | Checksum16Get => None,
        AllocateFlowId => Some(Keeper::Sequence(func)),
        AddEntry | SetEntryExpireTime | RestartExpireTimer | DirectMeterExecute => table.map(Keeper::Table),
        func if func.keeps_for_packet() => object.map(Keeper::Sum),
        _ => object.map(Keeper::Object),
    };
    let entry_of = match func {
        DirectCounterCount | DirectMeterExecute | AddEntry | SetEntryExpireTime | RestartExpireTimer => table,
        _ => None,
    };
    Note { place, keeper, effect, entry_of, table: None, name }
}

/// Whether a call gives a random number: also v1model's hash by the algorithm of that name.
fn is_random(func: ExternFn, args: &[Arg]) -> bool {
    let hashed = args.iter().any(|arg| matches!(arg, Arg::Str(name) if name == "random"));
    hashed || matches!(func, ExternFn::Random | ExternFn::RandomRead)
}

/// Which block leads to which.
struct Reach {
    /// For each block the blocks behind it, as bits.
    rows: Vec<Vec<u64>>,
}

impl Reach {
    fn new(body: &Body) -> Reach {
        let count = body.blocks.len();
        let mut rows = vec![vec![0u64; count.div_ceil(64)]; count];
        let order = reverse_postorder(body);
        let mut changed = true;
        while changed {
            changed = false;
            for block in order.iter().rev() {
                let Some(term) = body.blocks[*block].term.as_ref() else { continue };
                for next in term.term.successors() {
                    let mut more = rows[next.index()].clone();
                    more[next.index() / 64] |= 1 << (next.index() % 64);
                    for (word, more) in rows[block.index()].iter_mut().zip(more) {
                        changed |= more & !*word != 0;
                        *word |= more;
                    }
                }
            }
        }
        Reach { rows }
    }

    /// Whether a packet can come from a place to another one behind it.
    fn leads(&self, from: Place, to: Place) -> bool {
        let row = &self.rows[from.0.index()];
        let far = row[to.0.index() / 64] >> (to.0.index() % 64) & 1 == 1;
        far || from.0 == to.0 && from.1 < to.1
    }
}

/// Where something in a body comes from.
pub fn loc_of(body: &Body, block: Block, at: At) -> Loc {
    let data = &body.blocks[block];
    match at {
        At::Inst(n) => data.insts.get(n).map(|inst| inst.loc),
        At::Term => data.term.as_ref().map(|term| term.loc),
    }
    .unwrap_or_default()
}
