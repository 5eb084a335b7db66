//! Tests tables in memories: the arithmetic of papers, the known results of the chip's compiler,
//! and that the model gives a fitting answer for every size.

use asic::demand::{ActionDemand, AttachedKind, AttachedState, KeyDemand, MemoryMatchKind, TableDemand};
use asic::memory;
use asic::target::{ChipTarget, StageResources};
use proptest::prelude::*;

fn tofino() -> ChipTarget {
    ChipTarget::shipped("tofino1").expect("shipped")
}

fn table(kind: MemoryMatchKind, keys: &[u32], entries: u64, data: &[u32]) -> TableDemand {
    let lpm = !matches!(kind, MemoryMatchKind::Exact);
    let last = keys.len().saturating_sub(1);
    let key = |(i, bits): (usize, &u32)| KeyDemand {
        name: format!("hdr.k.f{i}"),
        bits: *bits,
        exact: !lpm || i != last,
        range: false,
    };
    let action =
        |name: &str, params: &[u32]| ActionDemand { name: name.into(), params: params.to_vec(), default_only: false };
    TableDemand {
        name: "t".into(),
        id: None,
        kind,
        keys: keys.iter().enumerate().map(key).collect(),
        entries,
        actions: vec![action("set", data), action("NoAction", &[])],
        attached: Vec::new(),
    }
}

/// Sailfish, Tables 2 and 3: 1,146,880 VMs and 229,376 routes for each IP family; keys (VNI,
/// address).
#[test]
fn the_arithmetic_of_sailfish() {
    let target = tofino();
    let sram =
        |keys: &[u32], entries| memory::estimate(&target, &table(MemoryMatchKind::Exact, keys, entries, &[])).sram;
    let tcam =
        |keys: &[u32], entries| memory::estimate(&target, &table(MemoryMatchKind::Ternary, keys, entries, &[])).tcam;
    assert_eq!((sram(&[24, 32], 1_146_880), sram(&[24, 128], 1_146_880)), (560.0, 2240.0));
    assert_eq!((tcam(&[24, 32], 229_376), tcam(&[24, 128], 229_376)), (448.0 * 2.0, 448.0 * 4.0));
    // VNI, 8 bits that distinguish the families, and a 32-bit digest: still two entries per word.
    assert_eq!(sram(&[24, 8, 32], 1_146_880), 560.0);
    // 2048 partitions, selected by 4096 pivots, of 29 entries of three words.
    let partitions = table(MemoryMatchKind::Partitioned { partitions: 2048, depth: 29 }, &[24, 128], 57_344, &[]);
    assert_eq!(memory::estimate(&target, &partitions).sram, 29.0 * 2.0 * 3.0);
    assert_eq!(tcam(&[24, 128], 4096), 32.0);
    let percent = |blocks: f64, of: f64| (100.0 * blocks / of).round();
    assert_eq!(percent(sram(&[24, 32], 1_146_880), 960.0), 58.0);
    assert_eq!(percent(tcam(&[24, 128], 229_376), 288.0), 622.0);
}

#[test]
fn data_and_counters_are_counted_when_asked() {
    let target = tofino();
    let mut t = table(MemoryMatchKind::Exact, &[24, 32], 8192, &[32]);
    let match_only = memory::estimate(&target, &t);
    assert_eq!((match_only.sram, match_only.map_ram), (4.0, 0.0));
    t.attached.push(AttachedState { name: "c".into(), kind: AttachedKind::Counter, size: None, bits: 128 });
    let all = memory::estimate_with_data(&target, &t);
    assert_eq!((all.sram, all.map_ram), (4.0 + 2.0 + 8.0, 8.0));
}

/// Two tables of a switch program. 65,536 entries of 32 bits with 57 bits of data (an address and a
/// port) take 48 blocks. 8,192 TCAM entries of 104 bits with a counter take two stages of 4K, each
/// with 24 TCAM blocks, 1 block of indirection, and 5 + 5 blocks of a counter.
#[test]
fn examples_of_the_compiler() {
    let target = tofino();
    let parts = memory::allocate_alone(&target, &table(MemoryMatchKind::Exact, &[32], 65_536, &[48, 9])).expect("fits");
    assert_eq!((parts.len(), parts[0].usage.sram, parts[0].layout.ways.len()), (1, 48, 4));
    let mut t = table(MemoryMatchKind::Ternary, &[32, 32, 8, 16, 16], 8192, &[]);
    t.attached.push(AttachedState { name: "c".into(), kind: AttachedKind::Counter, size: None, bits: 128 });
    let parts = memory::allocate_alone(&target, &t).expect("fits");
    let seen: Vec<_> = parts.iter().map(|p| (p.entries, p.usage.tcam, p.usage.sram, p.usage.map_ram)).collect();
    assert_eq!(seen, [(4096, 24, 6, 5), (4096, 24, 6, 5)]);
}

/// A port table: one action, an entry for each port. With a second action an entry must name its
/// action, and so be compared.
#[test]
fn a_key_that_is_an_address_is_not_compared() {
    let mut t = table(MemoryMatchKind::Exact, &[9], 512, &[32]);
    t.actions.truncate(1);
    let part = memory::fit_in_stage(&tofino(), &t, 512, &tofino().per_stage).expect("fits");
    assert_eq!((part.usage.sram, part.layout.words), (1, 0));
    t.actions.push(ActionDemand { name: "drop".into(), params: Vec::new(), default_only: false });
    let part = memory::fit_in_stage(&tofino(), &t, 512, &tofino().per_stage).expect("fits");
    assert!(part.layout.words > 0, "{}", part.layout.description);
}

/// A range is matched nibble by nibble, and a quarter of the entries take several rows. The number
/// of entries is limited to the number of key values, as the chip's compiler does.
#[test]
fn there_are_no_more_exact_entries_than_keys() {
    let target = tofino();
    for (bits, entries, data, blocks) in [
        (8, 66_642, vec![], 1),
        (8, 1202, vec![128, 64], 3),
        (12, 499_621, vec![16, 32], 5),
        (16, 524_288, vec![32, 32], 46),
    ] {
        let parts = memory::allocate_alone(&target, &table(MemoryMatchKind::Exact, &[bits], entries, &data))
            .expect("it is on the chip");
        let sram: u32 = parts.iter().map(|part| part.usage.sram).sum();
        assert_eq!((parts.len(), sram), (1, blocks), "{bits} bits, {entries} entries");
    }
}

#[test]
fn ranges_take_rows_and_bits() {
    let mut t = table(MemoryMatchKind::Ternary, &[32, 16], 1024, &[]);
    let plain = memory::allocate_alone(&tofino(), &t).expect("fits");
    assert_eq!((plain[0].usage.tcam, plain[0].layout.words), (4, 2));
    t.keys[1].range = true;
    assert_eq!(memory::rows_needed(&t), 768 + 256 * 7);
    let range = memory::allocate_alone(&tofino(), &t).expect("fits");
    assert_eq!((range[0].usage.tcam, range[0].layout.words, range[0].usage.ternary_crossbar), (10, 2, 8));
}

/// State takes blocks with a map RAM each, in six rows of six: at most 36 with the spare one, so 35
/// * 1024 counters of 128 bits in a stage.
#[test]
fn a_stage_has_35_blocks_of_counters() {
    let mut t = table(MemoryMatchKind::Exact, &[32], 1 << 20, &[]);
    t.attached.push(AttachedState { name: "c".into(), kind: AttachedKind::Counter, size: None, bits: 128 });
    let part = memory::fit_in_stage(&tofino(), &t, 1 << 20, &tofino().per_stage).expect("fits");
    assert_eq!((part.entries, part.usage.map_ram), (35 * 1024, 36));
}

/// A register of explicit size is in one place, so its table is not split; without it the table
/// takes two stages.
#[test]
fn a_register_is_in_one_place() {
    let mut t = table(MemoryMatchKind::Exact, &[128], 65_536, &[32, 32]);
    assert!(memory::allocate_alone(&tofino(), &t).expect("fits").len() > 1);
    t.attached.push(AttachedState { name: "r".into(), kind: AttachedKind::Register, size: Some(1024), bits: 32 });
    let split = memory::allocate_alone(&tofino(), &t).expect_err("cannot be split");
    assert!(split.to_string().contains("65536 entries must be in one stage"), "{split}");
    t.entries = 16_384;
    let parts = memory::allocate_alone(&tofino(), &t).expect("fits");
    assert_eq!((parts.len(), parts[0].usage.map_ram, parts[0].usage.meter_alus), (1, 2, 1));
    let mut none = table(MemoryMatchKind::None, &[], 0, &[]);
    none.attached = t.attached.clone();
    none.attached[0].size = Some(1 << 20);
    assert!(
        memory::fit_in_stage(&tofino(), &none, 0, &tofino().per_stage).is_none(),
        "256 blocks do not fit beside map RAMs"
    );
}

#[test]
fn alpm_is_pivots_and_partitions() {
    let target = tofino();
    let t = table(MemoryMatchKind::Alpm { partitions: 1024 }, &[24, 128], 8192, &[32]);
    let (pivots, partitioned) = memory::alpm_tables(&t).expect("two tables");
    assert_eq!((pivots.entries, partitioned.entries), (2048, 8192 + 1024));
    let parts = memory::allocate_alone(&target, &t).expect("fits");
    assert_eq!((parts[0].usage.tcam, parts[1].usage.sram, parts[1].usage.tables), (16, 27, 2));
    assert!(memory::alpm_tables(&partitioned).is_none());
}

#[test]
fn a_table_too_large_for_the_dpu_is_in_dram() {
    let dpu = ChipTarget::shipped("dpu8").expect("shipped");
    let small =
        memory::allocate_alone(&dpu, &table(MemoryMatchKind::Exact, &[24, 32], 16_384, &[32])).expect("on the chip");
    assert_eq!((small.len(), small[0].layout.dram_bytes), (1, 0));
    let large =
        memory::allocate_alone(&dpu, &table(MemoryMatchKind::Exact, &[24, 32], 1_146_880, &[32])).expect("in DRAM");
    assert_eq!(
        (large.len(), large[0].entries, large[0].layout.dram_bytes),
        (1, 1_146_880, 1_146_880u64 * 16 * 4 / 3 + 1)
    );
    assert!(large[0].usage.sram <= 10, "{}", large[0].layout.description);
    let all = memory::allocate_alone(&dpu, &table(MemoryMatchKind::Exact, &[24, 32], 1 << 40, &[32]))
        .expect_err("more than the DRAM");
    assert!(all.to_string().contains("stages"), "{all}");
}

#[test]
fn what_cannot_be_is_an_answer() {
    let target = tofino();
    let wide = memory::allocate_alone(&target, &table(MemoryMatchKind::Exact, &[2048], 16, &[]))
        .expect_err("wider than the crossbar");
    assert!(wide.to_string().contains("2048 bits is wider than the 1024 bits"), "{wide}");
    let wide = memory::allocate_alone(&target, &table(MemoryMatchKind::Ternary, &[600], 16, &[]))
        .expect_err("wider than the crossbar");
    assert!(wide.to_string().contains("digest"), "{wide}");
    let data = memory::allocate_alone(&target, &table(MemoryMatchKind::Exact, &[32], 16, &[1000, 25]))
        .expect_err("more data than action memory has");
    assert!(data.to_string().contains("more data than the 1024 bits"), "{data}");
    let many =
        memory::allocate_alone(&target, &table(MemoryMatchKind::Exact, &[56], u64::MAX, &[])).expect_err("too many");
    assert!(many.to_string().contains("more than 1024 stages"), "{many}");
    let none =
        memory::fit_in_stage(&target, &table(MemoryMatchKind::Exact, &[56], 16, &[]), 16, &StageResources::default());
    assert_eq!(none, None);
}

fn any_table() -> impl Strategy<Value = TableDemand> {
    let kind = prop_oneof![
        Just(MemoryMatchKind::Exact),
        Just(MemoryMatchKind::Ternary),
        (1u64..20_000).prop_map(|partitions| MemoryMatchKind::Partitioned { partitions, depth: 8 }),
    ];
    let keys = prop::collection::vec(1u32..140, 1..5);
    let data = prop::collection::vec(1u32..130, 0..4);
    let state = prop::option::of((prop_oneof![Just(32u32), Just(64), Just(128)], prop::option::of(1u64..100_000)));
    (kind, keys, 1u64..2_000_000, data, state).prop_map(|(kind, keys, entries, data, state)| {
        let mut t = table(kind, &keys, entries, &data);
        let counter = |(bits, size)| AttachedState { name: "c".into(), kind: AttachedKind::Counter, size, bits };
        t.attached.extend(state.map(counter));
        t
    })
}

proptest! {
    /// A part never takes more than the free blocks, and holds no more than its blocks have bits.
    #[test]
    fn a_part_fits(t in any_table(), sram in 0u32..=80, tcam in 0u32..=24, map_ram in 0u32..=48) {
        let target = tofino();
        let free = StageResources { sram, tcam, map_ram, ..target.per_stage };
        let part = memory::fit_in_stage(&target, &t, t.entries, &free);
        if let Some(part) = &part {
            prop_assert!(part.usage.fits(&free), "{part:?}");
            prop_assert!(part.entries > 0);
            prop_assert!(part.usage.sram + part.usage.tcam > 0);
            if t.kind == MemoryMatchKind::Exact {
                let bits = part.entries * u64::from(t.key_bits().saturating_sub(24));
                prop_assert!(bits <= u64::from(part.usage.sram) * 1024 * 128, "{part:?} holds more than its blocks have bits");
            }
        }
        // More free blocks may hold fewer entries, because the compiler drops layouts; but never
        // none.
        let more = memory::fit_in_stage(&target, &t, t.entries, &target.per_stage);
        prop_assert!(more.is_some() >= part.is_some(), "nothing in an empty stage, {part:?} in less");
    }

    /// Alone, a table's parts hold all its entries, or the error gives a reason.
    #[test]
    fn alone_holds_all(t in any_table()) {
        let target = tofino();
        match memory::allocate_alone(&target, &t) {
            Ok(parts) => {
                prop_assert!(parts.iter().map(|p| p.entries).sum::<u64>() >= memory::rows_needed(&t));
                prop_assert!(parts.iter().all(|p| p.usage.fits(&target.per_stage)));
            }
            Err(e) => prop_assert!(!e.help.is_empty() && !e.reason.is_empty()),
        }
    }
}
