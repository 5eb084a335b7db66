//! Tests a v1model router with checksums, a tunnel, direct counters and idle times, the program of
//! flowcache's own test, in the kernel.

use crate::lab::{HOOKS, Lab, Oracle};
use cache_engines::HookChoice;
use entries::{ActionSpec, StateUpdate, TableEntry, UpdateKind, WriteBatch};
use std::sync::Arc;
use std::time::Duration;
use testkit::differ::compile::compile;

/// Longer than the test, in nanoseconds.
const IDLE: u64 = 3_600_000_000_000;

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Builds a UDP packet in IPv4 to 10.1.N.1 with `payload` bytes.
fn packet(network: u8, payload: usize, identification: u16) -> Vec<u8> {
    let length = (28 + payload) as u16;
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend(identification.to_be_bytes());
    bytes.extend([0, 0, 60, 17, 0, 0, 192, 0, 2, 7, 10, 1, network, 1]);
    let checksum = !sum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend([0x10, 0, 0x20, 0]);
    bytes.extend((length - 20).to_be_bytes());
    bytes.extend((0..2 + payload).map(|at| (at as u8).wrapping_mul(37)));
    bytes
}

fn routes(pipeline: &ir::Pipeline) -> WriteBatch {
    let table = pipeline.tables.keys().next().expect("a table");
    let entry = |network: u32, name: &str, args: &[u64]| {
        let (action, _) =
            pipeline.actions.iter().find(|(_, action)| action.preamble.name.ends_with(name)).expect("an action");
        let call = ir::ActionCall { action, args: args.iter().map(|arg| (*arg).into()).collect() };
        let key = ir::KeyMatch::Lpm { value: (0x0a01_0000 | network << 8).into(), prefix_len: 24 };
        let entry = TableEntry::new(table, vec![key], ActionSpec::Call(call));
        StateUpdate::Entry(UpdateKind::Insert, TableEntry { idle_timeout_ns: IDLE, ..entry })
    };
    let mac = 0x0200_0000_00aa;
    [entry(1, "forward", &[1, mac]), entry(2, "encapsulate", &[0, mac, 0xc633_6401]), entry(3, "drop_it", &[])]
        .into_iter()
        .collect()
}

#[test]
fn a_flow_has_packets_of_all_lengths_and_keeps_its_entry_young() {
    HOOKS.into_iter().for_each(carry_all_lengths);
}

fn carry_all_lengths(hook: HookChoice) {
    let program = include_str!("../../../../caches/flowcache/tests/rewrites/router.p4");
    let pipeline = Arc::new(compile(program, true).unwrap_or_else(|errors| panic!("{errors}")));
    let Some(mut lab) = Lab::new(hook, 2, 256, &pipeline) else { return };
    let mut oracle = Oracle::new(&pipeline);
    oracle.interp.write(&routes(&pipeline)).expect("good entries");
    lab.engine.write(&routes(&pipeline)).expect("good entries");

    let began = io::now();
    for network in 1..=3 {
        assert!(!oracle.compare(&mut lab, 0, &packet(network, 300, 1)).in_kernel);
    }
    // The kernel's clock has ticked since.
    std::thread::sleep(Duration::from_millis(50));
    for number in 0..300 {
        let network = 1 + (number % 3) as u8;
        let bytes = packet(network, 20 + usize::from(number), 77 + number);
        assert!(oracle.compare(&mut lab, 0, &bytes).in_kernel, "{} bytes to network {network}", bytes.len());
        if number % 10 == 0 {
            let mut wrong = bytes;
            wrong[22] ^= 4;
            assert!(!oracle.compare(&mut lab, 0, &wrong).in_kernel, "a wrong checksum is no flow's");
        }
    }
    crate::same_counts(&lab, &oracle, &pipeline);
    let table = pipeline.tables.keys().next().expect("a table");
    let entries: Vec<entries::StoredEntry> = oracle.interp.state().entries(table).cloned().collect();
    assert_eq!(entries.len(), 3);
    for entry in &entries {
        let counted = lab.engine.entry_counter(table, entry);
        assert_eq!(counted, oracle.interp.entry_counter(table, entry));
        assert_eq!(counted.expect("it is there").packets, 101);
    }
    // By the packets that reached this process alone, the entries would be idle.
    assert!(lab.engine.advance_time(began + IDLE + 40_000_000).is_empty());
    assert_eq!(lab.engine.advance_time(io::now() + IDLE + 1_000_000_000).len(), 3);
}
