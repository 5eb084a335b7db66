//! A program and its transformed version side by side. Both get the same writes and packets, and
//! any difference is a failure.

use asic::transform::{EntryMap, TableSizes, TransformedPipeline};
use entries::{ActionSpec, StateUpdate, TableEntry, UpdateKind, WriteBatch};
use fastrand::Rng;
use interp::{Config, Interp};
use ir::{ActionCall, KeyMatch, MatchKind, Pipeline, TableId};
use num_bigint::BigUint;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Compiles the program of these tests.
pub fn program() -> Arc<Pipeline> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let options =
        p4::compile::CompileOptions { include_dirs: vec![root.join("programs/include")], ..Default::default() };
    let path = root.join("switch/asic/tests/rewrite/two_families.p4");
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &path, &options);
    let lines: Vec<String> = compiled.diagnostics.iter().map(|d| d.render(&compiled.source_map, false)).collect();
    Arc::new(compiled.pipeline.unwrap_or_else(|| panic!("the program is refused:\n{}", lines.join("\n"))))
}

/// Packet: the fields that the tables match on.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub family: u8,
    pub vni: u32,
    pub v4: u32,
    pub v6: u128,
    pub port: u16,
}

impl Packet {
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![self.family];
        out.extend(&self.vni.to_be_bytes()[1..]);
        out.extend(self.v4.to_be_bytes());
        out.extend(self.v6.to_be_bytes());
        out.extend(self.port.to_be_bytes());
        out.extend([0; 4 + 6]);
        out.extend([1, 2, 3, 4, 0, 0xaa, 0xbb]);
        out
    }
}

/// Returns one of few addresses, so that most are hit, and prefixes nest.
pub fn address(rng: &mut Rng) -> u128 {
    let mut value = 0x2001_0db8_0000_0000_0000_0000_0000_0000u128;
    for _ in 0..rng.u32(1..6) {
        value ^= 1 << rng.u32(0..127);
    }
    if rng.u8(..3) == 0 { value & !0xffff_ffff | u128::from(rng.u8(..4)) } else { value }
}

pub fn address_v4(rng: &mut Rng) -> u32 {
    let mut value = 0x0a00_0001;
    for _ in 0..rng.u32(1..4) {
        value ^= 1 << rng.u32(0..31);
    }
    value
}

/// Amounts compared.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub packets: u64,
    pub sent: u64,
    pub hits: BTreeMap<String, u64>,
    pub writes: u64,
    pub refused: u64,
    /// Rejected by the map alone, with an expected reason.
    pub full: u64,
    /// Differences that the test has excused.
    pub excused: u64,
}

/// Both programs.
pub struct Pair {
    pub first: Interp,
    pub second: Interp,
    pub map: Box<dyn EntryMap>,
    pub rng: Rng,
    pub seen: Seen,
    /// Entries of the original program's tables: to modify, to delete, to hit.
    pub present: BTreeMap<TableId, Vec<TableEntry>>,
    /// Tables that entries are written to.
    pub written: Vec<TableId>,
}

impl Pair {
    pub fn new(first: &Arc<Pipeline>, rewritten: TransformedPipeline, seed: u64, tables: &[&str]) -> Pair {
        let engine =
            |pipeline: &Arc<Pipeline>| Interp::new(pipeline.clone(), Config::default()).expect("it is verified");
        let by_name = |name: &&str| entries::find_table(first, name).expect("the program has it");
        Pair {
            first: engine(first),
            second: engine(&rewritten.pipeline),
            map: rewritten.map,
            rng: Rng::with_seed(seed),
            seen: Seen::default(),
            present: BTreeMap::new(),
            written: tables.iter().map(by_name).collect(),
        }
    }

    /// Makes random writes in a batch; some are rejected.
    pub fn write(&mut self, most: usize, growing: bool) {
        let mut next = self.present.clone();
        let mut batch = WriteBatch::new();
        let twice = self.rng.u8(..12) == 0;
        for _ in 0..self.rng.usize(1..=most) {
            let table = self.written[self.rng.usize(..self.written.len())];
            let entries = next.entry(table).or_default();
            let at = (!entries.is_empty()).then(|| self.rng.usize(..entries.len()));
            match (self.rng.u8(..10), at) {
                (0..2, Some(at)) => {
                    let made = entry(&mut self.rng, self.first.pipeline(), table);
                    entries[at].action = made.action;
                    batch.modify(entries[at].clone());
                }
                (2..6, Some(at)) if !growing || self.rng.u8(..4) == 0 => {
                    batch.delete(entries.swap_remove(at));
                }
                _ => {
                    let made = entry(&mut self.rng, self.first.pipeline(), table);
                    let same = |e: &TableEntry| e.keys == made.keys && e.priority == made.priority;
                    if !entries.iter().any(same) {
                        entries.push(made.clone());
                        batch.insert(made);
                    }
                }
            }
        }
        if twice {
            // One entry is inserted twice: the batch is rejected, and its earlier updates are
            // undone.
            batch.updates.extend(
                next.values().flatten().next().map(|entry| StateUpdate::Entry(UpdateKind::Insert, entry.clone())),
            );
        }
        if self.apply(&batch) {
            self.present = next;
        }
    }

    /// Writes a batch to both sides.
    pub fn apply(&mut self, batch: &WriteBatch) -> bool {
        let checked = self.first.state().check(batch);
        let translated = self.map.translate(batch);
        match (checked, translated) {
            (Ok(()), Ok(translated)) => {
                assert!(self.map.origins().iter().all(|at| *at < batch.updates.len()));
                self.first.write(batch).expect("it was checked");
                let taken = self.second.write(&translated);
                taken.unwrap_or_else(|error| panic!("the rewritten program refuses {translated:?}: {error}"));
                self.seen.writes += batch.updates.len() as u64;
                true
            }
            (Err(_), Err(_)) => {
                self.seen.refused += 1;
                false
            }
            // A map without state leaves the check to the engine.
            (Err(_), Ok(translated)) if self.second.write(&translated).is_err() => {
                self.seen.refused += 1;
                false
            }
            (Ok(()), Err(error)) if error.reason.contains("full") => {
                assert!(error.index < batch.updates.len());
                self.seen.full += 1;
                false
            }
            (checked, translated) => panic!("the program says {checked:?}, the map says {translated:?}"),
        }
    }

    /// Returns a packet that is likely to hit.
    pub fn packet(&mut self) -> Packet {
        let rng = &mut self.rng;
        let family = if rng.bool() { 4 } else { 6 };
        let mut packet =
            Packet { family, vni: rng.u32(0..5), v4: address_v4(rng), v6: address(rng), port: rng.u16(0..64) };
        let table = self.written[rng.usize(..self.written.len())];
        let entries = self.present.get(&table).map(Vec::as_slice).unwrap_or_default();
        if !entries.is_empty() && rng.u8(..4) > 0 {
            let pipeline = self.first.pipeline();
            let entry = &entries[rng.usize(..entries.len())];
            for (key, matched) in pipeline.tables[table].keys.iter().zip(&entry.keys) {
                let width = key.ty.width();
                let value = sample(rng, matched, width);
                match width {
                    24 => packet.vni = value as u32,
                    32 => (packet.v4, packet.family) = (value as u32, 4),
                    128 => (packet.v6, packet.family) = (value, 6),
                    _ => packet.port = value as u16,
                }
            }
        }
        packet
    }

    /// Runs a packet on both. Differences fail unless `excuse` accepts them.
    pub fn compare(&mut self, packet: Packet, excuse: &dyn Fn(&Pair, &Packet) -> bool) {
        let bytes = packet.bytes();
        let (expected, trace) = self.first.trace(&bytes, 1, 0);
        let found = self.second.process(&bytes, 1, 0);
        self.seen.packets += 1;
        self.seen.sent += expected.sent().count() as u64;
        for step in &trace.steps {
            if let interp::TraceEvent::Table { table, hit: Some(_), .. } = &step.event {
                let name = table.clone();
                *self.seen.hits.entry(name).or_default() += 1;
            }
        }
        if expected != found {
            if excuse(self, &packet) {
                self.seen.excused += 1;
            } else {
                panic!("{packet:?}: expected {expected:?}, found {found:?}; {:?}", self.seen);
            }
        }
    }

    /// Runs writes and packets in turn.
    pub fn run(&mut self, rounds: usize, packets: usize, batch: usize, excuse: &dyn Fn(&Pair, &Packet) -> bool) {
        for round in 0..rounds {
            self.write(batch, round * 3 < rounds * 2);
            for _ in 0..packets {
                let packet = self.packet();
                self.compare(packet, excuse);
            }
        }
    }
}

/// Excuses no difference.
pub fn never(_: &Pair, _: &Packet) -> bool {
    false
}

/// Returns a value that the key matches.
fn sample(rng: &mut Rng, matched: &KeyMatch, width: u32) -> u128 {
    let big = |value: &BigUint| value.iter_u64_digits().rev().fold(0u128, |n, digit| n << 64 | u128::from(digit));
    let any = rng.u128(..) >> (128 - width.max(1));
    match matched {
        KeyMatch::Exact(value) => big(value),
        KeyMatch::Lpm { value, prefix_len } => {
            let free = if *prefix_len >= width { 0 } else { u128::MAX >> (128 - (width - prefix_len)) };
            let noise = if rng.bool() { any & free } else { (1u128 << rng.u32(0..width)) & free };
            big(value) | noise
        }
        KeyMatch::Ternary { value, mask } => big(value) | any & !big(mask),
        KeyMatch::Range { lo, hi } => rng.u128(big(lo)..=big(hi)),
        KeyMatch::Optional(value) => value.as_ref().map_or(any, big),
    }
}

/// Returns a random entry.
fn entry(rng: &mut Rng, pipeline: &Pipeline, table: TableId) -> TableEntry {
    let declared = &pipeline.tables[table];
    let key = |rng: &mut Rng, key: &ir::MatchKey| {
        let width = key.ty.width();
        let value = match width {
            24 => u128::from(rng.u32(0..5)),
            32 => u128::from(address_v4(rng)),
            128 => address(rng),
            _ => u128::from(rng.u16(0..64)),
        };
        let top = |bits: u32| if bits == 0 { 0 } else { (u128::MAX << (128 - bits)) >> (128 - width) };
        match key.kind {
            MatchKind::Lpm => {
                let prefix_len = if rng.u8(..12) == 0 { rng.u32(0..4) } else { rng.u32(0..=width) };
                KeyMatch::Lpm { value: (value & top(prefix_len)).into(), prefix_len }
            }
            MatchKind::Ternary => {
                let mask = top(rng.u32(0..=width)) ^ if rng.bool() { 1 } else { 0 };
                KeyMatch::Ternary { value: (value & mask).into(), mask: mask.into() }
            }
            MatchKind::Range => KeyMatch::Range { lo: value.min(40).into(), hi: (value + 20).into() },
            _ => KeyMatch::Exact(value.into()),
        }
    };
    let keys: Vec<KeyMatch> = declared.keys.iter().map(|k| key(rng, k)).collect();
    let listed: Vec<_> = declared.actions.iter().filter(|action| !action.default_only).collect();
    let action = listed[rng.usize(..listed.len())].action;
    let arg = |rng: &mut Rng, width: u32| BigUint::from(rng.u64(..) & (u64::MAX >> (64 - width.min(64))));
    let args =
        pipeline.actions[action].params.iter().map(|p| arg(rng, if p.ty.width() == 24 { 2 } else { p.ty.width() }));
    let spec = ActionSpec::Call(ActionCall { action, args: args.collect() });
    // All priorities differ, because the winner among equal ones is undefined.
    let priority = if declared.has_priority() { rng.i32(1..i32::MAX) } else { 0 };
    TableEntry::new(table, keys, spec).with_priority(priority)
}

/// Returns the sizes that the program declares.
pub fn sizes(pipeline: &Pipeline) -> TableSizes {
    pipeline.tables.values().filter_map(|t| Some((t.preamble.name.clone(), t.size?))).collect()
}

/// Returns a batch with one update, a default action.
pub fn default_action(pipeline: &Pipeline, table: &str, action: &str, args: &[u64]) -> WriteBatch {
    let table = entries::find_table(pipeline, table).expect("the program has it");
    let named = |(_, a): &(ir::ActionId, &ir::Action)| a.preamble.name.ends_with(action);
    let (action, _) = pipeline.actions.iter().find(named).expect("the program has it");
    let call = ActionCall { action, args: args.iter().map(|arg| BigUint::from(*arg)).collect() };
    [StateUpdate::DefaultAction(table, Some(ActionSpec::Call(call)))].into_iter().collect()
}

/// Deletes all entries in one batch.
pub fn clear(pair: &mut Pair) {
    let all = std::mem::take(&mut pair.present);
    let batch = all.into_values().flatten().map(|entry| StateUpdate::Entry(UpdateKind::Delete, entry)).collect();
    assert!(pair.apply(&batch), "all of it can be deleted");
}
