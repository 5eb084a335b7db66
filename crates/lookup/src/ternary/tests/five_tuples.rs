//! Synthetic rule sets of firewalls and clouds in the style of ClassBench: few networks, many pairs
//! of them, typical ports.

use super::Random;
use crate::LookupKeyField;
use crate::ternary::TernaryTable;
use crate::ternary::classifier::ROOT_NODE;
use ir::MatchKind;

/// Rule with network number (exact), source and destination (prefixes), ports (ranges) and protocol
/// (ternary).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FiveTupleRule {
    network: u32,
    source: (u32, u32),
    destination: (u32, u32),
    source_ports: (u16, u16),
    destination_ports: (u16, u16),
    protocol: (u8, u8),
}

#[derive(Clone, Copy, Debug)]
struct FiveTuple {
    network: u32,
    source: u32,
    destination: u32,
    source_port: u16,
    destination_port: u16,
    protocol: u8,
}

fn prefix_mask(len: u32) -> u32 {
    u32::MAX.checked_shl(32 - len).unwrap_or(0)
}

impl FiveTupleRule {
    fn random(random: &mut Random, networks: usize) -> FiveTupleRule {
        let ports = |random: &mut Random| {
            let port = *random.pick(&[53, 80, 123, 443, 1521, 6000, 8080, 31_000]);
            *random.pick(&[(0, 65_535), (0, 65_535), (port, port), (port, port), (1024, 65_535), (port, port + 7)])
        };
        let prefix = |random: &mut Random| {
            let site = (random.below(40) as u32 * 0x0605_0403).rotate_left(9);
            let len = *random.pick(&[0, 1, 16, 22, 24, 28, 31, 32, 32]);
            let address = site ^ (random.word() as u32 & 0xfff);
            (address & prefix_mask(len), len)
        };
        FiveTupleRule {
            network: random.below(networks) as u32 * 977,
            source: prefix(random),
            destination: prefix(random),
            source_ports: ports(random),
            destination_ports: ports(random),
            protocol: *random.pick(&[(6, 0xff), (6, 0xff), (17, 0xff), (1, 0xff), (0, 0)]),
        }
    }

    fn packed(&self) -> Vec<u64> {
        let (source, destination) = (self.source, self.destination);
        let ports = [self.source_ports.0, self.source_ports.1, self.destination_ports.0, self.destination_ports.1];
        let mut key =
            vec![self.network.into(), source.0.into(), source.1.into(), destination.0.into(), destination.1.into()];
        key.extend(ports.map(u64::from));
        key.extend([u64::from(self.protocol.0), u64::from(self.protocol.1)]);
        key
    }

    fn matches(&self, header: &FiveTuple) -> bool {
        let inside = |port: u16, ports: (u16, u16)| ports.0 <= port && port <= ports.1;
        self.network == header.network
            && (self.source.0 ^ header.source) & prefix_mask(self.source.1) == 0
            && (self.destination.0 ^ header.destination) & prefix_mask(self.destination.1) == 0
            && inside(header.source_port, self.source_ports)
            && inside(header.destination_port, self.destination_ports)
            && (self.protocol.0 ^ header.protocol) & self.protocol.1 == 0
    }

    /// Returns a header at the bounds of the rule.
    fn header(&self, random: &mut Random) -> FiveTuple {
        let address = |random: &mut Random, (value, len)| value | (random.word() as u32 & !prefix_mask(len));
        FiveTuple {
            network: self.network,
            source: address(random, self.source),
            destination: address(random, self.destination),
            source_port: *random.pick(&[self.source_ports.0, self.source_ports.1]),
            destination_port: *random.pick(&[self.destination_ports.0, self.destination_ports.1]),
            protocol: self.protocol.0 | (random.word() as u8 & !self.protocol.1),
        }
    }
}

impl FiveTuple {
    fn random(random: &mut Random) -> FiveTuple {
        FiveTuple {
            network: random.below(5) as u32 * 977,
            source: random.word() as u32,
            destination: random.word() as u32,
            source_port: random.word() as u16,
            destination_port: random.word() as u16,
            protocol: random.word() as u8,
        }
    }

    fn key(&self) -> [u64; 3] {
        [
            u64::from(self.network) | u64::from(self.source) << 32,
            u64::from(self.destination) | u64::from(self.source_port) << 32 | u64::from(self.destination_port) << 48,
            u64::from(self.protocol),
        ]
    }
}

fn table() -> TernaryTable {
    let place = |position, kind, width, bit| LookupKeyField {
        position,
        kind,
        width_bits: width,
        bit_offset: bit,
        signed: false,
    };
    let places = [
        place(0, MatchKind::Exact, 32, 0),
        place(1, MatchKind::Lpm, 32, 32),
        place(2, MatchKind::Lpm, 32, 64),
        place(3, MatchKind::Range, 16, 96),
        place(4, MatchKind::Range, 16, 112),
        place(5, MatchKind::Ternary, 8, 128),
    ];
    TernaryTable::new(&places, 3, 4)
}

/// Table and its rules with priority and sequence number, which is also the value.
struct ModeledRules {
    table: TernaryTable,
    rules: Vec<(FiveTupleRule, i32, u64)>,
    known: std::collections::HashSet<(FiveTupleRule, i32)>,
    next: u64,
}

impl ModeledRules {
    fn new() -> ModeledRules {
        ModeledRules { table: table(), rules: Vec::new(), known: std::collections::HashSet::new(), next: 0 }
    }

    fn add(&mut self, rule: FiveTupleRule, priority: i32) {
        self.next += 1;
        if self.known.insert((rule, priority)) {
            assert!(!self.table.insert(&rule.packed(), priority, self.next, &(self.next as u32).to_le_bytes()));
            self.rules.push((rule, priority, self.next));
        }
    }

    fn remove(&mut self, at: usize) {
        let (rule, priority, _) = self.rules.swap_remove(at);
        self.known.remove(&(rule, priority));
        assert!(self.table.remove(&rule.packed(), priority));
        assert!(!self.table.remove(&rule.packed(), priority), "it was removed");
    }

    fn check(&self, random: &mut Random, count: usize) {
        let header = |random: &mut Random| match self.rules.is_empty() || random.once_in(6) {
            true => FiveTuple::random(random),
            false => random.pick(&self.rules).0.header(random),
        };
        let headers: Vec<FiveTuple> = (0..count).map(|_| header(random)).collect();
        let keys: Vec<u64> = headers.iter().flat_map(FiveTuple::key).collect();
        let mut out = vec![std::ptr::null(); count];
        self.table.lookup_batch(&keys, &mut out);
        for (header, out) in headers.iter().zip(out) {
            let matching = self.rules.iter().filter(|(rule, ..)| rule.matches(header));
            let order = |(rule, priority, sequence): &&(FiveTupleRule, i32, u64)| {
                (*priority, rule.source.1 + rule.destination.1, std::cmp::Reverse(*sequence))
            };
            let want = matching.max_by_key(order).map(|(_, _, sequence)| *sequence);
            #[allow(unsafe_code)]
            // SAFETY: not null, so it points to a value, of which 8 bytes may be read; the table
            // still exists.
            let got = (!out.is_null()).then(|| u64::from(unsafe { out.cast::<u32>().read() }));
            assert_eq!(got, want, "{header:?} among {} rules", self.rules.len());
        }
        assert_eq!(self.table.len(), self.rules.len());
    }
}

/// From an empty table to 20,000 rules and back, with lookups all along.
#[test]
fn grows_and_shrinks() {
    let mut random = Random(21);
    let mut pair = ModeledRules::new();
    while pair.rules.len() < 20_000 {
        let priority = random.below(5_000) as i32;
        pair.add(FiveTupleRule::random(&mut random, 3), priority);
        if pair.rules.len().is_power_of_two() || pair.rules.len().is_multiple_of(2_500) {
            pair.check(&mut random, 64);
        }
    }
    pair.check(&mut random, 256);
    let full = pair.table.memory_bytes();
    assert!(full < 20_000 * 700, "{full} bytes for 20,000 rules");
    while !pair.rules.is_empty() {
        pair.remove(random.below(pair.rules.len()));
        if pair.rules.len().is_power_of_two() || pair.rules.len().is_multiple_of(2_500) {
            pair.check(&mut random, 64);
        }
    }
    while pair.table.maintain() {}
    pair.check(&mut random, 8);
    assert!(pair.table.classifier.nodes[ROOT_NODE as usize].subtables.is_empty(), "all subtables are removed");
    // Freed memory is reused.
    for _ in 0..20_000 {
        let priority = random.below(5_000) as i32;
        pair.add(FiveTupleRule::random(&mut random, 3), priority);
    }
    pair.check(&mut random, 64);
    let again = pair.table.memory_bytes();
    assert!(again < full + full / 3, "{again} bytes after {full}");
}

/// A cloud's rules: networks of twenty rules each. Each lookup must search only the rules of its
/// network.
#[test]
fn a_cloud_is_hashed_by_network() {
    let mut random = Random(22);
    let mut pair = ModeledRules::new();
    for _ in 0..20_000 {
        let priority = random.below(100) as i32;
        pair.add(FiveTupleRule::random(&mut random, 1000), priority);
    }
    while pair.table.maintain() {}
    pair.check(&mut random, 300);
    let root = &pair.table.classifier.nodes[ROOT_NODE as usize];
    assert!(root.subtables.len() <= 3, "{} tables", root.subtables.len());
    assert!(root.subtables.iter().all(|table| table.data[0] as u32 == u32::MAX), "all by network");
}

/// Rules change constantly while their number stays the same.
#[test]
fn churns() {
    let mut random = Random(23);
    let mut pair = ModeledRules::new();
    for _ in 0..3_000 {
        let priority = random.below(10) as i32;
        pair.add(FiveTupleRule::random(&mut random, 1), priority);
    }
    for step in 0..10_000 {
        pair.remove(random.below(pair.rules.len()));
        let priority = random.below(10) as i32;
        pair.add(FiveTupleRule::random(&mut random, 1), priority);
        if step % 500 == 0 {
            pair.check(&mut random, 64);
        }
    }
}
