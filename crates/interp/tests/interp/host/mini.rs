//! Naive engine on [`ExternHost`]. It has its own parser, tables, arithmetic and deparser, all
//! simple and slow, and takes only the externs from the host. Its results must equal the
//! interpreter's.

use entries::{
    ControlState, Counter, EntryId, KeyLayout, PackedKey, StateChange, StoredAction, StoredActionRef, StoredEntry,
    WriteBatch, words_for,
};
use interp::Config;
use interp::host::{ArchEffect, ExternCallSite, ExternHost, PacketContext, ValueSlot};
use interp::{IdleEntry, MeterColor};
use ir::*;
use num_bigint::BigUint;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Port and bytes, or the name of the drop reason.
pub type Verdict = Result<(u32, Vec<u8>), &'static str>;

/// Identity of a table entry: key and priority.
type Identity = (TableId, PackedKey, i32);

fn identity(table: TableId, entry: &StoredEntry) -> Identity {
    (table, PackedKey::from_slice(entry.key()), entry.priority())
}

pub struct Mini {
    pipeline: Arc<Pipeline>,
    pub host: ExternHost,
    pub state: ControlState,
    numbers: HashMap<Identity, u32>,
    free: VecDeque<u32>,
    next_number: u32,
    sites: HashMap<(ControlId, Block, usize), ExternCallSite>,
    lane: usize,
    /// Functions that were called.
    pub called: HashSet<ExternFn>,
}

/// Packet in flight.
struct Flight {
    vars: Vec<Vec<u64>>,
    valid: Vec<bool>,
    bytes: Vec<u8>,
    /// Number of parsed bits.
    cursor: usize,
    out: Vec<bool>,
    now: u64,
    lane: usize,
    hits: HashMap<TableId, u32>,
    colours: HashMap<TableId, MeterColor>,
    checksum_error: bool,
    truncate: Option<u32>,
    port: Option<u32>,
}

/// Reason of an immediate drop.
type Stop = &'static str;

impl Mini {
    pub fn new(pipeline: Arc<Pipeline>, config: Config) -> Mini {
        let mut host = ExternHost::new(pipeline.clone(), config).expect("the host loads");
        let mut sites = HashMap::new();
        for (control, declared) in pipeline.controls.iter() {
            for (block, data) in declared.body.blocks.iter() {
                for (index, inst) in data.insts.iter().enumerate() {
                    if let Inst::Extern { .. } = inst.inst {
                        let value_type = |value| declared.body.value_type(value);
                        let results: Vec<Type> = inst.results.iter().map(|value| value_type(*value)).collect();
                        let site = host.site(&inst.inst, &value_type, &results).expect("the call has a site");
                        sites.insert((control, block, index), site);
                    }
                }
            }
        }
        let state = ControlState::new(pipeline.clone()).expect("the pipeline has a state");
        let mut mini = Mini {
            pipeline,
            host,
            state,
            numbers: HashMap::new(),
            free: VecDeque::new(),
            // The interpreter counts from 0 and reuses the last freed number. Other numbers must
            // work too.
            next_number: 3,
            sites,
            lane: 0,
            called: HashSet::new(),
        };
        for table in mini.pipeline.clone().tables.keys() {
            let own: Vec<StoredEntry> = mini.state.entries(table).cloned().collect();
            own.iter().for_each(|entry| mini.insert(table, entry, Counter::default()));
        }
        mini
    }

    pub fn write(&mut self, batch: &WriteBatch) -> bool {
        let Ok(changes) = self.state.apply(batch) else { return false };
        self.host.apply_changes(&changes, &self.state);
        for change in changes {
            match change {
                StateChange::Inserted(table, entry, counter) => self.insert(table, &entry, counter),
                StateChange::Modified(table, old, new, counter) => {
                    if let Some(number) = self.number(table, &old) {
                        self.host.entry_modified(table, number, &old, &new, counter);
                    }
                }
                StateChange::Deleted(table, entry) => self.remove(table, &entry),
                StateChange::DirectCounter(table, entry, counter) => {
                    if let Some(number) = self.number(table, &entry) {
                        self.host.set_direct_counter(table, number, counter);
                    }
                }
                _ => {}
            }
        }
        true
    }

    fn insert(&mut self, table: TableId, entry: &StoredEntry, counter: Counter) {
        let number = self.assign_number(table, entry);
        if self.host.tracks_entries(table) {
            self.host.entry_inserted(table, number, entry, counter);
        }
    }

    /// Gives a new entry a number.
    fn assign_number(&mut self, table: TableId, entry: &StoredEntry) -> u32 {
        let number = self.free.pop_front().unwrap_or_else(|| {
            self.next_number += 1;
            self.next_number
        });
        self.numbers.insert(identity(table, entry), number);
        number
    }

    fn remove(&mut self, table: TableId, entry: &StoredEntry) {
        if let Some(number) = self.numbers.remove(&identity(table, entry)) {
            self.host.entry_removed(table, number);
            self.free.push_back(number);
        }
    }

    fn number(&self, table: TableId, entry: &StoredEntry) -> Option<u32> {
        self.numbers.get(&identity(table, entry)).copied()
    }

    /// Returns the number of the entry that the control plane names.
    pub fn number_of(&self, id: &EntryId) -> Option<u32> {
        let layout = KeyLayout::new(&self.pipeline.tables[id.table].keys);
        let mut entries = self.state.entries(id.table);
        let entry = entries.find(|e| e.priority() == id.priority && layout.unpack(e.key()) == id.keys)?;
        self.number(id.table, entry)
    }

    pub fn expire(&mut self, now: u64) -> Vec<IdleEntry> {
        let expired = self.host.expire(now, &mut self.state);
        for (table, number, entry) in expired.deleted {
            // The host needs no notification.
            let known = self.numbers.remove(&identity(table, &entry));
            assert_eq!(known, Some(number));
            self.free.push_back(number);
        }
        expired.idle
    }

    pub fn process(&mut self, bytes: &[u8], now: u64) -> Verdict {
        let pipeline = self.pipeline.clone();
        self.host.advance(now);
        self.lane = (self.lane + 5) % 17;
        let mut flight = Flight {
            vars: pipeline.vars.values().map(|var| vec![0; words(var.ty)]).collect(),
            valid: vec![false; pipeline.headers.len()],
            bytes: bytes.to_vec(),
            cursor: 0,
            out: Vec::new(),
            now,
            lane: self.lane,
            hits: HashMap::new(),
            colours: HashMap::new(),
            checksum_error: false,
            truncate: None,
            port: None,
        };
        use ControlKind::*;
        let first = if pipeline.arch == Arch::Pna {
            [MainParser, MainControl, MainDeparser].as_slice()
        } else {
            &[Parser, VerifyChecksum, Ingress]
        };
        for kind in first {
            self.control(&mut flight, *kind)?;
            if let (VerifyChecksum, true) = (kind, flight.checksum_error) {
                flight.vars[pipeline.intrinsics["standard_metadata.checksum_error"].index()][0] = 1;
            }
        }
        if pipeline.arch == Arch::V1Model {
            let port = flight.vars[pipeline.intrinsics["standard_metadata.egress_spec"].index()][0];
            if port == interp::host::architecture::v1model::DROP_PORT {
                return Err("program_drop");
            }
            flight.port = Some(port as u32);
            flight.hits.clear();
            for kind in [ComputeChecksum, Deparser] {
                self.control(&mut flight, kind)?;
            }
        }
        let mut bytes: Vec<u8> =
            flight.out.chunks(8).map(|bits| bits.iter().fold(0, |b, bit| b << 1 | *bit as u8)).collect();
        bytes.extend_from_slice(&flight.bytes[flight.cursor.div_ceil(8)..]);
        bytes.truncate(flight.truncate.map_or(usize::MAX, |length| length as usize));
        flight.port.map(|port| (port, bytes)).ok_or("program_drop")
    }

    fn control(&mut self, flight: &mut Flight, kind: ControlKind) -> Result<(), Stop> {
        let pipeline = self.pipeline.clone();
        let Some((id, control)) = pipeline.controls.iter().find(|(_, control)| control.kind == kind) else {
            return Ok(());
        };
        self.host.begin_block(flight.lane);
        let body = &control.body;
        let mut values: Vec<Vec<u64>> = vec![Vec::new(); body.values.len()];
        let mut at = body.entry.expect("the body has an entry");
        loop {
            for (index, data) in body.blocks[at].insts.iter().enumerate() {
                let results = match &data.inst {
                    Inst::Extern { .. } => self.call(flight, &values, (id, at, index), &data.inst)?,
                    inst => vec![self.inst(flight, body, &values, inst)],
                };
                for (value, result) in data.results.iter().zip(results) {
                    values[value.index()] = result;
                }
            }
            let jump = match &body.blocks[at].term.as_ref().expect("the block is complete").term {
                Terminator::Return => return Ok(()),
                Terminator::Jump(to) => to,
                Terminator::Branch { cond, then, els } => match values[cond.index()][0] {
                    0 => els,
                    _ => then,
                },
                Terminator::Apply { table, keys, arms } => {
                    let keys: Vec<Vec<u64>> = keys.iter().map(|key| values[key.index()].clone()).collect();
                    let (hit, action, args) = self.apply(flight, *table, &keys);
                    let arm = arms.iter().find(|arm| arm.action == action).expect("there is an arm for each action");
                    let params = &body.blocks[arm.block].params;
                    values[params[0].index()] = vec![u64::from(hit)];
                    let mut args = args.as_slice();
                    for param in &params[1..] {
                        let (own, rest) = args.split_at(words_for(body.value_type(*param).width()));
                        values[param.index()] = own.to_vec();
                        args = rest;
                    }
                    at = arm.block;
                    continue;
                }
                other => panic!("not used in these pipelines: {other:?}"),
            };
            let args: Vec<Vec<u64>> = jump.args.iter().map(|arg| values[arg.index()].clone()).collect();
            for (param, arg) in body.blocks[jump.block].params.iter().zip(args) {
                values[param.index()] = arg;
            }
            at = jump.block;
        }
    }

    /// Returns the result of an instruction that calls no extern; empty if it has none.
    fn inst(&mut self, flight: &mut Flight, body: &Body, values: &[Vec<u64>], inst: &Inst) -> Vec<u64> {
        let pipeline = self.pipeline.clone();
        match inst {
            Inst::Load(var) => return flight.vars[var.index()].clone(),
            Inst::Store(var, value) => flight.vars[var.index()] = values[value.index()].clone(),
            Inst::Extract(header) => self.extract(flight, *header, 0),
            Inst::ExtractVarbit(header, length) => self.extract(flight, *header, values[length.index()][0] as usize),
            Inst::Emit(header) if flight.valid[header.index()] => {
                for var in &pipeline.headers[*header].fields {
                    let (ty, words) = (pipeline.vars[*var].ty, flight.vars[var.index()].as_slice());
                    let (width, words) = match ty {
                        Type::Varbit(_) => (words[0], &words[1..]),
                        _ => (u64::from(ty.width()), words),
                    };
                    let value = entries::big_from_words(words);
                    flight.out.extend((0..width).rev().map(|bit| value.bit(bit)));
                }
            }
            Inst::InValueSet(set, keys) => {
                let places = self.host.value_set_places(*set).to_vec();
                let mut area = Vec::new();
                for (place, key) in places.iter().zip(keys) {
                    fill(&mut area, *place, &values[key.index()]);
                }
                return vec![u64::from(self.host.in_value_set(*set, &area))];
            }
            inst => {
                let constants: HashMap<Value, Const> = body
                    .values
                    .iter()
                    .map(|(value, ty)| (value, Const::new(*ty, entries::big_from_words(&values[value.index()]))))
                    .collect();
                let result = eval::fold(inst, |value| constants.get(&value)).expect("only pure instructions are left");
                return to_words(&result.bits, words(result.ty));
            }
        }
        Vec::new()
    }

    fn extract(&mut self, flight: &mut Flight, header: HeaderId, varbit: usize) {
        for var in &self.pipeline.headers[header].fields {
            let ty = self.pipeline.vars[*var].ty;
            let width = if let Type::Varbit(_) = ty { varbit } else { ty.width() as usize };
            let bit = |at: usize| flight.bytes[at / 8] >> (7 - at % 8) & 1;
            let value = (flight.cursor..flight.cursor + width).fold(BigUint::ZERO, |v, at| (v << 1u8) + bit(at));
            flight.cursor += width;
            flight.vars[var.index()] = match ty {
                Type::Varbit(_) => [vec![width as u64], to_words(&value, words(ty) - 1)].concat(),
                _ => to_words(&value, words(ty)),
            };
        }
        flight.valid[header.index()] = true;
    }

    fn call(
        &mut self,
        flight: &mut Flight,
        values: &[Vec<u64>],
        place: (ControlId, Block, usize),
        inst: &Inst,
    ) -> Result<Vec<Vec<u64>>, Stop> {
        let Inst::Extern { args, .. } = inst else { unreachable!() };
        let site = self.sites[&place].clone();
        self.called.insert(site.func);
        let mut area = Vec::new();
        for (arg, places) in args.iter().zip(&site.args) {
            let given: &[Value] = match arg {
                ExternArg::Value(value) => std::slice::from_ref(value),
                ExternArg::Values(values) => values,
                _ => &[],
            };
            assert_eq!(given.len(), places.len());
            given.iter().zip(places).for_each(|(value, place)| fill(&mut area, *place, &values[value.index()]));
        }
        assert_eq!(area.len(), site.arg_words);
        let payload = flight.bytes[flight.cursor.div_ceil(8)..].to_vec();
        let packet = PacketContext {
            now: flight.now,
            ingress_length: flight.bytes.len() as u32,
            payload: if site.payload { &payload } else { &[] },
            lane: flight.lane,
            hit: site.table.and_then(|table| flight.hits.get(&table).copied()),
            colour: site.table.and_then(|table| flight.colours.get(&table).copied()).unwrap_or(MeterColor::Green),
        };
        // Earlier contents of the area must not matter.
        let mut results = vec![0xdead_beef; site.result_words];
        let effect = self.host.call(site.id, &packet, &area, &mut results);
        match effect {
            ArchEffect::None => {}
            ArchEffect::AssertFailed => return Err("assert_failed"),
            ArchEffect::ChecksumError => flight.checksum_error = true,
            ArchEffect::Truncate(length) => flight.truncate = Some(length),
            ArchEffect::MarkToDrop => {
                let var = self.pipeline.intrinsics["standard_metadata.egress_spec"];
                flight.vars[var.index()] = vec![interp::host::architecture::v1model::DROP_PORT];
            }
            ArchEffect::Drop => flight.port = None,
            ArchEffect::SendToPort(port) => flight.port = Some(port),
            other => panic!("not used in these pipelines: {other:?}"),
        }
        Ok(site
            .results
            .iter()
            .map(|place| results[place.first_word..place.first_word + place.words].to_vec())
            .collect())
    }

    /// Returns whether the lookup hits, the action, and its arguments.
    fn apply(&mut self, flight: &mut Flight, table: TableId, keys: &[Vec<u64>]) -> (bool, ActionId, Vec<u64>) {
        let pipeline = self.pipeline.clone();
        let declared = &pipeline.tables[table];
        let matched: Vec<BigUint> = declared.match_keys().map(|(n, _)| entries::big_from_words(&keys[n])).collect();
        let length = flight.bytes.len() as u32;
        let entry = self.state.lookup(table, &matched);
        let found = entry.and_then(|entry| {
            let (action, args) = match entry.action() {
                StoredActionRef::Call(action, args) => (action, args.to_vec()),
                StoredActionRef::Member(member) => self.member(table, member)?,
                StoredActionRef::Group(group) => {
                    let places = self.host.selector(table).places();
                    let selectors = declared.keys.iter().zip(keys).filter(|(key, _)| key.kind == MatchKind::Selector);
                    let mut area = Vec::new();
                    places.iter().zip(selectors).for_each(|(place, (_, words))| fill(&mut area, *place, words));
                    let hash = self.host.selector_hash(table, &area);
                    let member = self.host.group_member(table, group, hash)?.member;
                    self.member(table, member)?
                }
            };
            Some((self.number(table, &entry)?, action, args))
        });
        flight.colours.insert(table, MeterColor::Green);
        let Some((number, action, args)) = found else {
            flight.hits.remove(&table);
            let StoredAction::Call(action, args) = self.state.default_action(table) else {
                panic!("a default action is a call")
            };
            return (false, *action, args.to_vec());
        };
        flight.hits.insert(table, number);
        if self.host.has_hit_effect(table)
            && let Some(colour) = self.host.hit(table, number, length)
        {
            flight.colours.insert(table, colour);
            if let Some(var) = declared.meter_result {
                flight.vars[var.index()] = vec![colour as u64];
            }
        }
        (true, action, args)
    }

    fn member(&self, table: TableId, member: u32) -> Option<(ActionId, Vec<u64>)> {
        let found = self.host.member(table, member)?;
        Some((self.pipeline.tables[table].actions[found.arm as usize].action, found.args.to_vec()))
    }
}

fn words(ty: Type) -> usize {
    words_for(ty.width()) + usize::from(matches!(ty, Type::Varbit(_)))
}

fn to_words(value: &BigUint, count: usize) -> Vec<u64> {
    let mut out = Vec::new();
    entries::push_words(value, count, &mut out);
    out
}

/// Writes words at the host's offsets, which are in ascending order.
fn fill(area: &mut Vec<u64>, place: ValueSlot, words: &[u64]) {
    assert_eq!((area.len(), words.len()), (place.first_word, place.words));
    area.extend_from_slice(words);
}
