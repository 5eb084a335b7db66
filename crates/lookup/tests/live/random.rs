//! Random pipelines, writes and packet keys, all determined by one seed.

use crate::pipeline::*;
use entries::{ActionProfileGroup, ActionProfileMember, ActionSpec, DevicePort, GroupMember, MulticastGroup};
use entries::{ControlState, StateUpdate, TableEntry, UpdateKind};
use ir::{
    ActionCall, ActionId, Arch, ConstEntry, ExternId, ExternInst, ExternKind, HashAlgorithm, KeyMatch, MatchKey,
    SourceLoc,
};
use ir::{MatchKind, Pipeline, Table, TableId, Type, ValueSet, ValueSetId};
use num_bigint::BigUint;

/// SplitMix64 generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    pub fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }
    pub fn of_mut<'a, T>(&mut self, items: &'a mut [T]) -> &'a mut T {
        let at = self.below(items.len() as u64) as usize;
        &mut items[at]
    }
    pub fn bits(&mut self, width: u32) -> BigUint {
        let words: Vec<u32> = (0..width.div_ceil(32)).map(|_| self.next() as u32).collect();
        BigUint::new(words) % (big(1) << width)
    }
    /// Returns one of few values, so that packets match entries; sometimes any value.
    pub fn common(&mut self, width: u32) -> BigUint {
        match self.below(8) {
            0 => self.bits(width),
            1 => (big(1) << width) - big(1),
            n => {
                let few = self.below(4);
                let spread: BigUint = (big(1) << (width / 2)) * big(few) + big(n % 2);
                spread % (big(1) << width)
            }
        }
    }
}

const WIDTHS: [u32; 16] = [1, 3, 7, 8, 12, 16, 24, 31, 32, 48, 63, 64, 65, 96, 128, 129];

fn keys(random: &mut Random) -> Vec<MatchKey> {
    use MatchKind::*;
    let kinds: Vec<MatchKind> = match random.below(9) {
        0 => vec![],
        1..=3 => vec![Exact; 1 + random.below(4) as usize],
        4 => vec![Lpm],
        5 => [vec![Exact; random.below(3) as usize], vec![Lpm], vec![Exact; random.below(2) as usize]].concat(),
        6 => vec![Lpm, Exact, Lpm],
        7 => vec![random.of(&[Ternary, Range, Optional])],
        _ => (0..1 + random.below(4)).map(|_| random.of(&[Exact, Ternary, Range, Optional, Lpm])).collect(),
    };
    let mut keys: Vec<MatchKey> = Vec::new();
    for kind in kinds {
        let width = random.of(&WIDTHS);
        let ty = if kind == Range && random.one_in(2) { Type::Int(width) } else { Type::Bit(width) };
        keys.push(key(ty, kind));
        if random.one_in(5) {
            keys.push(key(Type::Bit(random.of(&WIDTHS)), Selector));
        }
    }
    keys
}

/// Creates up to six tables of all kinds, a profile and a selector that some of them use, and value
/// sets.
pub fn pipeline(random: &mut Random) -> Pipeline {
    let mut p = Pipeline::new("random", Arch::V1Model);
    for _ in 0..5 {
        let widths: Vec<u32> = (0..random.below(5)).map(|_| random.of(&WIDTHS)).collect();
        action(&mut p, &widths);
    }
    let actions: Vec<ActionId> = p.actions.keys().collect();
    let object = |name: &str, kind| ExternInst { preamble: named(name), kind, loc: SourceLoc::default() };
    let profile = p.externs.push(object("profile", ExternKind::ActionProfile { size: 20 }));
    let algorithm = HashAlgorithm::Crc32;
    let kind = ExternKind::ActionSelector { algorithm, size: 20, output_width: 16 };
    let selector = p.externs.push(object("selector", kind));
    for _ in 0..1 + random.below(6) {
        let keys = keys(random);
        // All tables of a profile have the same actions, in different orders.
        let mut own = actions.clone();
        own.rotate_left(random.below(5) as usize);
        let id = table(&mut p, keys, &own);
        p.tables[id].implementation = random.of(&[None, None, None, Some(profile), Some(selector)]);
        p.tables[id].direct_counter = None;
        if random.one_in(4) {
            p.tables[id].size = Some(1 + random.below(12));
        }
        // Signed ranges might be reversed, but the pipeline's own entries must be valid.
        let signed = p.tables[id].keys.iter().any(|key| key.ty.is_signed());
        if random.one_in(3) && p.tables[id].implementation.is_none() && !signed {
            let (keys, call) = (matches(random, &p.tables[id]), call(random, &p, &own));
            let priority = i32::from(p.tables[id].has_priority());
            let is_const = random.one_in(2);
            let entry = ConstEntry { keys, priority, action: call, is_const, loc: SourceLoc::default() };
            p.tables[id].entries.push(entry);
        }
    }
    for n in 0..random.below(3) {
        let preamble = named(&format!("set{n}"));
        let keys = keys(random);
        p.value_sets.push(ValueSet { preamble, size: 8, keys, loc: SourceLoc::default() });
    }
    p
}

/// Returns a random match for a key element.
pub fn key_match(random: &mut Random, key: &MatchKey) -> KeyMatch {
    let width = key.ty.width();
    let value = random.common(width);
    match key.kind {
        MatchKind::Exact | MatchKind::Selector => KeyMatch::Exact(value),
        MatchKind::Ternary => {
            let mask = if random.one_in(3) { random.bits(width) } else { random.common(width) };
            KeyMatch::Ternary { value: value & &mask, mask }
        }
        MatchKind::Lpm => {
            let prefix_len = random.below(u64::from(width) + 1) as u32;
            let host = width - prefix_len;
            KeyMatch::Lpm { value: (value >> host) << host, prefix_len }
        }
        // The range can be empty for signed types; the write is then rejected, which is tested too.
        MatchKind::Range => {
            let other = random.common(width);
            let (lo, hi) = if value <= other { (value, other) } else { (other, value) };
            KeyMatch::Range { lo, hi }
        }
        MatchKind::Optional => KeyMatch::Optional((!random.one_in(3)).then_some(value)),
    }
}

pub fn matches(random: &mut Random, table: &Table) -> Vec<KeyMatch> {
    table.match_keys().map(|(_, key)| key_match(random, key)).collect()
}

fn call(random: &mut Random, p: &Pipeline, actions: &[ActionId]) -> ActionCall {
    let action = random.of(actions);
    let args = p.actions[action].params.iter().map(|param| random.bits(param.ty.width())).collect();
    ActionCall { action, args }
}

fn spec(random: &mut Random, p: &Pipeline, table: &Table) -> ActionSpec {
    let listed: Vec<ActionId> = table.actions.iter().map(|a| a.action).collect();
    match table.implementation {
        None => ActionSpec::Call(call(random, p, &listed)),
        Some(ExternId(0)) => ActionSpec::Member(random.below(6) as u32),
        Some(_) if random.one_in(2) => ActionSpec::Member(random.below(6) as u32),
        Some(_) => ActionSpec::Group(random.below(3) as u32),
    }
}

/// Returns an update that is often, but not always, valid.
pub fn update(random: &mut Random, state: &ControlState) -> StateUpdate {
    let p = &**state.pipeline();
    let id = TableId(random.below(p.tables.len() as u64) as u32);
    let table = &p.tables[id];
    let kind = random.of(&[UpdateKind::Insert, UpdateKind::Modify, UpdateKind::Delete]);
    let profile = ExternId(random.below(2) as u32);
    match random.below(20) {
        0 => StateUpdate::DefaultAction(id, (!random.one_in(3)).then(|| spec(random, p, table))),
        1..=3 => {
            let actions: Vec<ActionId> = p.actions.keys().collect();
            let (id, action) = (random.below(6) as u32, call(random, p, &actions));
            let kind = if random.one_in(2) { UpdateKind::Insert } else { kind };
            StateUpdate::Member(kind, ActionProfileMember { profile, id, action })
        }
        4 => {
            let mut members: Vec<u32> = (0..random.below(4)).map(|_| random.below(6) as u32).collect();
            members.sort_unstable();
            members.dedup();
            let mut one = |member| {
                let watch = random.one_in(3).then(|| random.below(4) as u32);
                GroupMember { member, weight: 1 + random.below(3) as u32, watch }
            };
            let members = members.into_iter().map(&mut one).collect();
            let id = random.below(3) as u32;
            let kind = if random.one_in(2) { UpdateKind::Insert } else { kind };
            StateUpdate::Group(kind, ActionProfileGroup { profile: ExternId(1), id, members })
        }
        5 if !p.value_sets.is_empty() => {
            let set = ValueSetId(random.below(p.value_sets.len() as u64) as u32);
            let keys = &p.value_sets[set].keys;
            let mut member = || {
                let matched = keys.iter().filter(|key| key.kind != MatchKind::Selector);
                matched.map(|key| key_match(random, key)).collect::<Vec<_>>()
            };
            let members = (0..7).map(|_| member()).collect::<Vec<_>>();
            StateUpdate::ValueSet(set, members[..random.below(8) as usize].to_vec())
        }
        6 if random.one_in(2) => StateUpdate::Ports((!random.one_in(4)).then(|| {
            (0..3).map(|port| (port, DevicePort { name: String::new(), is_up: !random.one_in(3) })).collect()
        })),
        6 => StateUpdate::Multicast(kind, MulticastGroup { id: 1 + random.below(3) as u32, replicas: vec![] }),
        _ => {
            let existing: Vec<TableEntry> = state.entries(id).map(|e| e.to_table_entry(p, id)).collect();
            let mut entry = TableEntry::new(id, matches(random, table), spec(random, p, table));
            if table.has_priority() {
                entry.priority = 1 + random.below(3) as i32;
            }
            if kind != UpdateKind::Insert && !existing.is_empty() && !random.one_in(10) {
                let chosen = random.of(&existing);
                (entry.keys, entry.priority) = (chosen.keys, chosen.priority);
            }
            let kind = if existing.len() < 6 { random.of(&[kind, UpdateKind::Insert]) } else { kind };
            StateUpdate::Entry(kind, entry)
        }
    }
}
