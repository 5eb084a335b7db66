//! Tests the P4Runtime translation for random programs, the corpus and the gateway: writes survive
//! encoding and decoding, and read state, written to an empty device, is equal.

#[path = "../../../crates/p4runtime/tests/translate/device.rs"]
mod device;

use device::Kept;
use entries::{ActionSpec, ControlState, Counter, StateUpdate, TableEntry, UpdateKind, WriteBatch};
use ir::ActionCall;
use p4runtime::proto::v1::{self, entity::Entity as E, update::Type};
use p4runtime::{Code, Oneshots, Schema};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use testkit::differ::case::{TestCase, TestEvent};
use testkit::differ::config::Config;
use testkit::differ::plan;

/// Amounts compared, by type.
#[derive(Default, Debug)]
struct Tally {
    updates: BTreeMap<&'static str, usize>,
    entries: usize,
    /// Damaged updates that still decode.
    damaged: usize,
    /// Tables with entries that were read.
    tables: usize,
}

/// Reduces an update to its expressible content: of a deletion only the identity; counts up to 2^63
/// - 1; copies without repetition.
fn sayable(update: &StateUpdate) -> StateUpdate {
    let count = |data: &Counter| {
        let most = |value: u64| value.min(i64::MAX as u64);
        Counter { packets: most(data.packets), bytes: most(data.bytes) }
    };
    let no_call = || ActionCall { action: ir::ActionId(0), args: Vec::new() };
    let mut update = update.clone();
    match &mut update {
        StateUpdate::Entry(UpdateKind::Delete, entry) => {
            let bare = TableEntry::new(entry.table, entry.keys.clone(), ActionSpec::Member(0));
            *entry = bare.with_priority(entry.priority);
        }
        StateUpdate::Entry(_, entry) => {
            entry.counter = entry.counter.as_ref().map(count);
            entry.provenance = None;
        }
        StateUpdate::Member(UpdateKind::Delete, member) => member.action = no_call(),
        StateUpdate::Group(UpdateKind::Delete, group) => group.members.clear(),
        StateUpdate::Counter(_, _, data) | StateUpdate::DirectCounter(_, data) => *data = count(data),
        StateUpdate::Multicast(kind, group) => {
            group.replicas = if *kind == UpdateKind::Delete { vec![] } else { distinct(&group.replicas) };
        }
        StateUpdate::Clone(kind, session) => {
            session.replicas = distinct(&session.replicas);
            session.multicast_group = None;
            if *kind == UpdateKind::Delete {
                *session = entries::CloneSession { id: session.id, ..Default::default() };
            }
        }
        StateUpdate::ValueSet(_, members) => {
            let mut seen = BTreeSet::new();
            members.retain(|member| seen.insert(member.clone()));
        }
        _ => {}
    }
    update
}

fn distinct(replicas: &[entries::Replica]) -> Vec<entries::Replica> {
    let mut seen = BTreeSet::new();
    replicas.iter().filter(|replica| seen.insert(**replica)).copied().collect()
}

fn name(update: &StateUpdate) -> &'static str {
    match update {
        StateUpdate::Entry(UpdateKind::Insert, _) => "insert",
        StateUpdate::Entry(UpdateKind::Modify, _) => "modify",
        StateUpdate::Entry(UpdateKind::Delete, _) => "delete",
        StateUpdate::DefaultAction(..) => "default",
        StateUpdate::Member(..) => "member",
        StateUpdate::Group(..) => "group",
        StateUpdate::ValueSet(..) => "value set",
        StateUpdate::Meter(..) => "meter",
        StateUpdate::DirectMeter(..) => "direct meter",
        StateUpdate::Counter(..) => "counter",
        StateUpdate::DirectCounter(..) => "direct counter",
        StateUpdate::Register(..) => "register",
        StateUpdate::Multicast(..) => "multicast",
        StateUpdate::Clone(..) => "clone",
        _ => "other",
    }
}

/// Returns whether the state accepts the update and P4Runtime rejects it: entries without keys, a
/// reset of a const default action, and members that watch ports which the device does not have.
fn unsaid(schema: &Schema, state: &ControlState, update: &StateUpdate) -> bool {
    let is_missing = |port: u32| state.ports().is_some_and(|ports| !ports.contains_key(&port));
    match update {
        StateUpdate::Group(_, group) => group.members.iter().filter_map(|member| member.watch).any(is_missing),
        StateUpdate::Entry(_, entry) => entry.keys.is_empty(),
        StateUpdate::DefaultAction(table, _) => schema.pipeline().tables[*table].const_default,
        _ => false,
    }
}

/// Sends a batch through messages and compares the result.
fn through_messages(schema: &Schema, state: &mut ControlState, batch: &WriteBatch, tally: &mut Tally) {
    // Messages may reject the same updates with other texts.
    let mut trial = state.clone();
    for update in &batch.updates {
        let update = sayable(update);
        let mut next = trial.clone();
        if next.apply(&WriteBatch { updates: vec![update.clone()] }).is_err() {
            continue;
        }
        if unsaid(schema, &trial, &update) {
            continue;
        }
        let message = match schema.encode_update(&update) {
            Ok(message) => message,
            Err(refusal) => {
                assert_eq!(refusal.code, Code::Unimplemented, "{update:?}: {refusal}");
                trial = next;
                continue;
            }
        };
        // As bytes on the wire.
        let bytes = message.encode_to_vec();
        damaged(schema, &trial, &bytes, tally);
        let message = v1::Update::decode(&bytes[..]).expect("it was encoded a moment ago");
        let mut oneshots = Oneshots::new(schema, trial.clone(), std::slice::from_ref(&message));
        let back = schema.translate_update(&mut oneshots, &message);
        assert_eq!(back.as_ref(), Ok(&vec![update.clone()]), "{message:#?}");
        *tally.updates.entry(name(&update)).or_default() += 1;
        trial = next;
    }
    *state = trial;
}

/// Updates with damaged bytes are rejected or have another meaning that the state can process;
/// nothing panics.
fn damaged(schema: &Schema, state: &ControlState, bytes: &[u8], tally: &mut Tally) {
    let mut rng = fastrand::Rng::with_seed(bytes.len() as u64);
    for _ in 0..4 {
        let mut bytes = bytes.to_vec();
        for _ in 0..rng.usize(1..3) {
            let at = rng.usize(..bytes.len());
            bytes[at] = [bytes[at] ^ 1 << rng.u8(..8), 0, 0xff, rng.u8(..)][rng.usize(..4)];
        }
        let Ok(update) = v1::Update::decode(&bytes[..]) else { continue };
        if schema.digest_write(&update).ok() != Some(None) {
            continue;
        }
        let mut oneshots = Oneshots::new(schema, state.clone(), std::slice::from_ref(&update));
        match schema.translate_update(&mut oneshots, &update) {
            Ok(updates) => drop(state.check(&WriteBatch { updates })),
            Err(refusal) => {
                assert_ne!(refusal.code, Code::Internal, "{refusal}: {update:?}");
                assert!(refusal.message.len() > 10, "{refusal:?}");
            }
        }
        tally.damaged += 1;
        if let Some(wanted) = update.entity {
            let device = Kept::new(schema.pipeline().clone());
            drop(schema.read(&device, state, &wanted, &mut |_| ControlFlow::Continue(())));
        }
    }
}

fn read(schema: &Schema, device: &Kept, state: &ControlState, wanted: E) -> Vec<E> {
    let mut found = Vec::new();
    let wanted = v1::Entity { entity: Some(wanted) };
    let done = schema.read(device, state, &wanted, &mut |entity| {
        let bytes = entity.encode_to_vec();
        found.extend(v1::Entity::decode(&bytes[..]).expect("it was encoded a moment ago").entity);
        ControlFlow::Continue(())
    });
    done.unwrap_or_else(|refusal| panic!("{refusal}"));
    found
}

/// Returns all readable state; entries as a set.
fn everything(schema: &Schema, device: &Kept, state: &ControlState) -> BTreeMap<&'static str, Vec<String>> {
    let with_meters = v1::TableEntry { meter_config: Some(Default::default()), ..Default::default() };
    let mut all = BTreeMap::new();
    let kinds = [
        ("entries", E::TableEntry(with_meters)),
        ("members", E::ActionProfileMember(Default::default())),
        ("groups", E::ActionProfileGroup(Default::default())),
        ("meters", E::MeterEntry(Default::default())),
        ("direct meters", E::DirectMeterEntry(Default::default())),
        ("value sets", E::ValueSetEntry(Default::default())),
        ("replication", E::PacketReplicationEngineEntry(Default::default())),
    ];
    for (name, wanted) in kinds {
        let mut found: Vec<String> = read(schema, device, state, wanted).iter().map(|e| format!("{e:?}")).collect();
        found.sort();
        all.insert(name, found);
    }
    let default = |table_id| v1::TableEntry { table_id, is_default_action: true, ..Default::default() };
    let tables = schema.info().tables.iter();
    let defaults = tables.flat_map(|table| read(schema, device, state, E::TableEntry(default(table.preamble.id))));
    all.insert("defaults", defaults.map(|entry| format!("{entry:?}")).collect());
    all
}

/// Reads a state, writes it to a new one, and compares both.
fn through_reading(schema: &Schema, state: &ControlState, tally: &mut Tally) {
    let pipeline = schema.pipeline();
    let device = Kept::new(pipeline.clone());
    let mut copy = ControlState::new(pipeline.clone()).expect("the pipeline is consistent");
    // Members before groups before entries. The program's own entries exist already, or were
    // deleted.
    let wanted = [
        E::ActionProfileMember(Default::default()),
        E::ActionProfileGroup(Default::default()),
        E::TableEntry(v1::TableEntry { meter_config: Some(Default::default()), ..Default::default() }),
        E::MeterEntry(Default::default()),
        E::ValueSetEntry(Default::default()),
        E::PacketReplicationEngineEntry(Default::default()),
    ];
    let mut updates: Vec<(Type, E)> = Vec::new();
    for entry in read(schema, &device, &copy, E::TableEntry(Default::default())) {
        if matches!(&entry, E::TableEntry(entry) if !entry.is_const) {
            updates.push((Type::Delete, entry));
        }
    }
    for entity in wanted.into_iter().flat_map(|wanted| read(schema, &device, state, wanted)) {
        match &entity {
            E::TableEntry(entry) if entry.is_const => {
                let meter = v1::DirectMeterEntry {
                    table_entry: Some(v1::TableEntry { meter_config: None, ..entry.clone() }),
                    config: entry.meter_config,
                    counter_data: None,
                };
                if entry.meter_config.is_some() {
                    updates.push((Type::Modify, E::DirectMeterEntry(meter)));
                }
            }
            E::MeterEntry(_) | E::ValueSetEntry(_) => updates.push((Type::Modify, entity)),
            _ => updates.push((Type::Insert, entity)),
        }
        tally.entries += 1;
    }
    for table in &schema.info().tables {
        let wanted = v1::TableEntry { table_id: table.preamble.id, is_default_action: true, ..Default::default() };
        for default in read(schema, &device, state, E::TableEntry(wanted)) {
            if matches!(&default, E::TableEntry(entry) if !entry.is_const) {
                updates.push((Type::Modify, default));
            }
        }
    }
    for (kind, entity) in updates {
        let update = v1::Update { r#type: kind.into(), entity: Some(v1::Entity { entity: Some(entity) }) };
        let mut oneshots = Oneshots::new(schema, copy.clone(), std::slice::from_ref(&update));
        let updates = schema.translate_update(&mut oneshots, &update);
        let updates = updates.unwrap_or_else(|refusal| panic!("what was read is refused: {refusal}\n{update:#?}"));
        copy.apply(&WriteBatch { updates }).unwrap_or_else(|refused| panic!("{refused}\n{update:#?}"));
    }
    assert_eq!(everything(schema, &device, &copy), everything(schema, &device, state));
    // The shown entries are the stored ones.
    for (table, declared) in pipeline.tables.iter().filter(|(_, table)| !table.preamble.hidden) {
        let entries = |state: &ControlState| {
            let one = |entry: &entries::StoredEntry| {
                let entry = entry.to_table_entry(pipeline, table);
                format!("{:?}", TableEntry { provenance: None, ..entry })
            };
            state.entries(table).map(one).collect::<BTreeSet<_>>()
        };
        assert_eq!(entries(&copy), entries(state), "{}", declared.preamble.name);
        tally.tables += usize::from(state.entry_count(table) > 0);
    }
}

fn case(case: &TestCase, tally: &mut Tally) {
    let schema = Schema::new(case.pipeline.clone());
    let mut state = ControlState::new(case.pipeline.clone()).expect("the pipeline is consistent");
    for step in &case.steps {
        if let TestEvent::Write(batch) = step {
            through_messages(&schema, &mut state, batch, tally);
        }
    }
    through_reading(&schema, &state, tally);
}

#[test]
fn made_programs() {
    let mut tally = Tally::default();
    // More tables and table objects than packets.
    let config = Config { packets: 0, writes: 6..12, profiles: 40, entries: 40, idle: 40, ..Config::small() };
    let mut compiled = 0;
    for seed in 0..150 {
        match plan::generate_case(seed, &config) {
            Ok(made) => self::case(&made, &mut tally),
            Err(refused) => panic!("seed {seed}: {}", refused.diagnostics),
        }
        compiled += 1;
    }
    // The random programs must have all of these, because otherwise nothing would have been
    // compared.
    let least = [
        ("insert", 1000),
        ("modify", 100),
        ("delete", 100),
        ("default", 50),
        ("member", 100),
        ("group", 50),
        ("value set", 10),
        ("meter", 20),
        ("direct meter", 5),
        ("counter", 20),
        ("direct counter", 5),
        ("register", 20),
        ("multicast", 50),
        ("clone", 50),
    ];
    for (name, least) in least {
        let got = tally.updates.get(name).copied().unwrap_or(0);
        assert!(got >= least, "only {got} updates of kind {name} were compared: {tally:?}");
    }
    assert!(compiled == 150 && tally.damaged > 5000 && tally.entries > 2000 && tally.tables > 150, "{tally:?}");
}

#[test]
fn the_gateway() {
    let mut tally = Tally::default();
    for seed in 0..8 {
        case(&plan::gateway_case(seed, 0).expect("the made region is valid"), &mut tally);
    }
    let inserts = tally.updates.get("insert").copied().unwrap_or(0);
    assert!(inserts > 500 && tally.entries > 500 && tally.tables > 40, "{tally:?}");
}

/// Programs of the corpus, with random writes.
#[test]
fn the_corpus() {
    let mut tally = Tally::default();
    let root = testkit::gateway::root().join("tests/corpus");
    let mut programs: Vec<PathBuf> = Vec::new();
    for folder in ["tables", "parsers", "v1model", "pna", "language", "overlay"] {
        let files = std::fs::read_dir(root.join(folder)).expect("the corpus is there");
        programs.extend(files.flatten().map(|f| f.path()).filter(|f| f.extension().is_some_and(|e| e == "p4")));
    }
    programs.sort();
    let pool: Vec<u128> = (0..24).map(|n| 0x0123_4567_89ab_cdef_u128 << n | n).collect();
    for (seed, path) in programs.iter().enumerate() {
        let Ok(pipeline) = testkit::gateway::compile(path) else { continue };
        let pipeline = Arc::new(pipeline);
        let schema = Schema::new(pipeline.clone());
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let mut writer =
            testkit::differ::writes::WriteGenerator::new(&mut rng, &pool, pipeline.clone()).expect("consistent");
        let mut state = ControlState::new(pipeline.clone()).expect("consistent");
        through_messages(&schema, &mut state, &writer.initial_writes(1..12), &mut tally);
        for _ in 0..12 {
            through_messages(&schema, &mut state, &writer.next_writes(), &mut tally);
        }
        through_reading(&schema, &state, &mut tally);
    }
    let total: usize = tally.updates.values().sum();
    assert!(programs.len() > 30 && total > 1500 && tally.entries > 500, "{} programs, {tally:?}", programs.len());
}
