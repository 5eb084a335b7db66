//! Compares native code with the interpreter on tables of a few entries. Native code looks small
//! tables up where they are applied; for larger ones it collects packets for a batch lookup.
//! Independent lookups are paired. Programs have several of them in a row, and their entries come
//! and go.

use entries::{StateUpdate, UpdateKind, WriteBatch, parse_entry};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fmt::Write;
use testkit::differ::env_number;
use testkit::differ::pair::{EnginePair, assert_vector_path_used, pna};

/// Number of tables of a program.
const TABLES: usize = 6;
/// Fields of the header, with their widths.
const FIELDS: [(&str, u32); 5] = [("a", 8), ("b", 16), ("c", 3), ("d", 48), ("e", 5)];
/// Bound of keys, or, with paired lookups, [`EACH`]. It is low, so that most of a dozen entries are
/// hit.
const KEYS: u8 = 16;
const EACH: u8 = 4;

/// Returns the keys of a table: one field or several, mostly a word together.
fn keys(rng: &mut Rng) -> Vec<(&'static str, String)> {
    let mut keys = vec![("seen", String::from("meta.seen"))];
    match rng.u8(..6) {
        0 => keys.push(("same", String::from("(bit<1>) (meta.other == 7)"))),
        1 => keys.push(("sum", String::from("(hdr.h.e + 1)[2:0]"))),
        _ => {}
    }
    for (field, _) in FIELDS {
        if rng.u8(..3) == 0 {
            keys.push((field, format!("hdr.h.{field}")));
        }
    }
    if rng.u8(..4) > 0 && keys.len() > 1 {
        keys.remove(0);
    }
    keys
}

fn change(rng: &mut Rng) -> String {
    let (field, width) = FIELDS[rng.usize(..FIELDS.len())];
    match rng.u8(..7) {
        6 => String::from("hdr.h = hdr.spare;"),
        0 => format!("hdr.h.{field} = hdr.h.{field} ^ {};", rng.u8(..4)),
        1 => format!("hdr.h.{field} = (bit<{width}>) meta.seen;"),
        2 => String::from("hdr.extra.setValid(); hdr.extra.value = meta.seen;"),
        3 => String::from("meta.other = meta.other + 1;"),
        4 => format!("meta.seen = meta.seen ^ (bit<4>) hdr.h.{field};"),
        _ => String::from("meta.seen = meta.seen + (bit<4>) meta.other;"),
    }
}

fn table(rng: &mut Rng, number: usize, keys: &[(&str, String)]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "    action first_{number}(bit<4> by) {{ meta.seen = meta.seen ^ by; {} }}", change(rng));
    let _ = writeln!(
        text,
        "    action second_{number}(bit<16> by, bit<8> to) {{ meta.other = by; hdr.h.a = to; {} }}",
        change(rng)
    );
    let keys: String = keys.iter().map(|(name, key)| format!("{key}: exact @name(\"{name}\"); ")).collect();
    let size = rng.choice(["", "size = 64;", "size = 100000;", "size = 100000;"]).unwrap_or_default();
    let default = rng
        .choice(["leave()", "first_0(1)", "first_0(2)", "nothing()", "nothing()"])
        .unwrap_or_default()
        .replace('0', &number.to_string());
    let _ = writeln!(
        text,
        "    table t{number} {{ key = {{ {keys} }} actions = {{ first_{number}; second_{number}; nothing; leave; }} \
         default_action = {default}; {size} }}"
    );
    text
}

/// Returns the application of a table.
fn apply(rng: &mut Rng, number: usize) -> String {
    match rng.u8(..5) {
        0 => format!("if (t{number}.apply().hit) {{ {} }} else {{ {} }}", change(rng), change(rng)),
        1 => format!(
            "switch (t{number}.apply().action_run) {{ first_{number}: {{ {} }} default: {{ {} }} }}",
            change(rng),
            change(rng)
        ),
        2 => format!("if (meta.seen[0:0] == 0) {{ t{number}.apply(); }} {}", change(rng)),
        _ => format!("t{number}.apply(); {}", change(rng)),
    }
}

fn program(rng: &mut Rng, keys: &[Vec<(&'static str, String)>]) -> String {
    let fields: String = FIELDS.iter().map(|(field, width)| format!("bit<{width}> {field}; ")).collect();
    let types = format!(
        "header part_h {{ {fields} }} header extra_h {{ bit<4> pad; bit<4> value; }}
         struct headers_t {{ part_h h; part_h spare; extra_h extra; }} struct metadata_t {{ bit<4> seen; bit<16> other; }}"
    );
    let mut control = String::from("    action nothing() { }\n    action leave() { meta.other = 7; exit; }\n");
    keys.iter().enumerate().for_each(|(at, keys)| control.push_str(&table(rng, at, keys)));
    control.push_str("    apply {\n        send_to_port((PortId_t) 2);\n");
    (0..TABLES).for_each(|at| {
        let _ = writeln!(control, "        {}", apply(rng, at));
    });
    control.push_str("        hdr.h.b = meta.other;\n    }");
    pna(
        &types,
        "state start { packet.extract(hdr.h); packet.extract(hdr.spare); transition accept; }",
        &control,
        "packet.emit(hdr.extra); packet.emit(hdr.h); packet.emit(hdr.spare);",
    )
}

/// Formats an entry's key.
fn key(rng: &mut Rng, keys: &[(&str, String)]) -> String {
    let width = |name: &str| match name {
        "same" => 1,
        "sum" => 3,
        name => FIELDS.iter().find(|(field, _)| *field == name).map_or(4, |(_, width)| *width),
    };
    let most = if keys.len() > 1 { EACH } else { KEYS };
    let value = |(name, _): &(&str, String)| format!("{name}={}", rng.u8(..most.min(1 << width(name).min(7))));
    keys.iter().map(value).collect::<Vec<_>>().join(", ")
}

/// Entries of each table: action by key.
type Entries = [BTreeMap<String, String>; TABLES];

/// Returns updates: tables grow to `most` or shrink.
fn updates(
    rng: &mut Rng,
    both: &EnginePair,
    keys: &[Vec<(&'static str, String)>],
    entries: &mut Entries,
    most: usize,
) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for _ in 0..rng.usize(1..most * 2) {
        let table = rng.usize(..TABLES);
        let there = &mut entries[table];
        let known = rng.choice(there.keys().cloned().collect::<Vec<_>>());
        let key =
            known.filter(|_| rng.u8(..most as u8) < 4 || there.len() >= most).unwrap_or_else(|| key(rng, &keys[table]));
        let action = match rng.bool() {
            true => format!("first_{table}(by={})", rng.u8(..16)),
            false => format!("second_{table}(by={}, to={})", rng.u16(..), rng.u8(..)),
        };
        let kind = match there.contains_key(&key) {
            false => UpdateKind::Insert,
            true if rng.u8(..3) == 0 => UpdateKind::Modify,
            true => UpdateKind::Delete,
        };
        let text = format!("t{table}: {key} -> {action}");
        let entry = parse_entry(both.oracle.pipeline(), &text).unwrap_or_else(|error| panic!("{error}"));
        batch.updates.push(StateUpdate::Entry(kind, entry));
        match kind {
            UpdateKind::Delete => there.remove(&key),
            _ => there.insert(key, action),
        };
    }
    batch
}

fn packet(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; 20 + rng.usize(..20)];
    rng.fill(&mut bytes);
    // Mostly small values in the key fields: a, b, c and e, d.
    let most = if rng.bool() { EACH } else { KEYS };
    for (at, byte) in bytes.iter_mut().enumerate().take(20) {
        *byte = match at % 10 {
            _ if rng.u8(..40) == 0 => *byte,
            0 | 2 => *byte % most,
            // The last three bits of `d`, and `e`; `c`, and the first bits of `d`.
            9 => (rng.u8(..most.min(8)) << 5) | (*byte % most),
            3 => (*byte % EACH) << 5,
            _ => 0,
        };
    }
    bytes.truncate(if rng.u8(..16) == 0 { rng.usize(..bytes.len()) } else { bytes.len() });
    bytes
}

#[test]
fn entries_that_come_and_go_are_looked_up() {
    let (seed, rounds) = (env_number("SEED", fastrand::u64(..1 << 32)), env_number("ROUNDS", 120));
    println!("SEED={seed} ROUNDS={rounds}");
    let mut rng = Rng::with_seed(seed);
    let (mut in_place, mut together, mut few, mut many, mut hits) = (0, 0, 0, 0, 0);
    let mut eights = [0; 2];
    for round in 0..rounds {
        let keys: Vec<_> = (0..TABLES).map(|_| keys(&mut rng)).collect();
        let text = program(&mut rng, &keys);
        let mut both = EnginePair::new(&format!("SEED={seed}, round {round}"), &text, round % 2 == 0);
        in_place += both.native.in_place_lookup_count();
        together += both.native.paired_lookup_count();
        let mut entries = Entries::default();
        for step in 0..10 {
            // At first all tables are small; then some grow, and shrink again.
            let most = if step < 5 { 8 } else { 40 };
            let batch = updates(&mut rng, &both, &keys, &mut entries, most);
            both.write(&batch);
            few += entries.iter().filter(|there| !there.is_empty() && there.len() <= 8).count();
            many += entries.iter().filter(|there| there.len() > 8).count();
            let packets: Vec<Vec<u8>> = (0..150).map(|_| packet(&mut rng)).collect();
            both.assert_same_packets(&packets);
        }
        both.add_vector_counts(&mut eights);
        let tallies = both.native.stats();
        hits += tallies.tables.iter().flat_map(|table| &table.actions).map(|action| action.hits.packets).sum::<u64>();
    }
    let rounds = rounds as usize;
    assert!(in_place > rounds, "only {in_place} lookups of {rounds} programs are in place");
    assert!(together > rounds / 10, "only {together} lookups of {rounds} programs are made together with others");
    assert!(few > rounds * 10 && many > rounds, "{few} times a table had a few entries, and {many} times more");
    assert!(hits > rounds as u64 * 500, "only {hits} hits");
    assert_vector_path_used(eights, rounds as u64 * 500);
    println!(
        "{in_place} lookups in place, {together} together with others; tables of a few entries {few} times, of more {many} times; {hits} hits"
    );
}
