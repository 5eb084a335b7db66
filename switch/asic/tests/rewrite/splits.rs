//! Tests splitting: the pipe that a packet is sent to handles it as a pipe with all entries would.

use crate::pair::{Packet, Pair, program, sizes};
use asic::transform::TransformedPipeline;
use asic::transform::split::{PipeSplit, SplitError, SplitFunction};
use entries::{StateUpdate, UpdateKind, WriteBatch};
use interp::{Config, Interp};
use std::collections::BTreeMap;

fn split(how: SplitFunction, pipes: u32) -> PipeSplit {
    let keys = ["ingress.route_v4", "ingress.route_v6", "ingress.acl"].map(|table| (table.to_owned(), vec![0]));
    PipeSplit { pipes, function: how, fields: vec![24], keys: BTreeMap::from(keys) }
}

#[test]
fn a_packets_pipe_has_what_it_needs() {
    for (seed, split) in [
        (51, split(SplitFunction::Bits(0), 4)),
        (52, split(SplitFunction::Parity, 2)),
        (53, split(SplitFunction::Hash(99), 4)),
    ] {
        println!("seed {seed}");
        let first = program();
        split.check(&first).expect("it goes with the program");
        let unchanged = TransformedPipeline::unchanged(first.clone(), sizes(&first));
        let mut pair = Pair::new(&first, unchanged, seed, &["route_v4", "route_v6", "vm_v4", "host_v6", "acl"]);
        for _ in 0..60 {
            pair.write(40, true);
        }
        let all = pair.present.values().flatten().cloned().map(|entry| StateUpdate::Entry(UpdateKind::Insert, entry));
        let all: WriteBatch = all.collect();
        let parts = split.divide_batch(&first, &all);
        let mut pipes = Vec::new();
        for part in &parts {
            let mut pipe = Interp::new(first.clone(), Config::default()).expect("it is verified");
            pipe.write(part).expect("it is a part of what is valid");
            pipes.push(pipe);
        }
        let copied: usize = parts.iter().map(|part| part.updates.len()).sum();
        assert!(copied < all.updates.len() * split.pipes as usize * 3 / 4, "hardly anything was split");
        let (mut compared, mut sent, mut elsewhere) = (0, 0, 0);
        let mut traffic = Vec::new();
        for _ in 0..6000 {
            let packet: Packet = pair.packet();
            let pipe = split.pipe_of(&[packet.vni.into()]) as usize;
            let expected = pair.first.process(&packet.bytes(), 1, 0);
            assert_eq!(pipes[pipe].process(&packet.bytes(), 1, 0), expected, "{packet:?} in pipe {pipe}");
            // Another pipe would not, so the comparison can fail.
            let other = (pipe + 1) % pipes.len();
            elsewhere += u32::from(pipes[other].process(&packet.bytes(), 1, 0) != expected);
            traffic.push([u128::from(packet.vni)]);
            compared += 1;
            sent += expected.sent().count();
        }
        assert!(
            compared == 6000 && sent > 1500 && elsewhere > 1000,
            "compared too little: {sent} sent, {elsewhere} elsewhere"
        );
        let balance = split.traffic_balance(traffic.iter().map(|values| (values.as_slice(), 1.0)));
        println!("{:?}: {balance:?}, worst {:.2}", split.function, balance.imbalance());
        assert_eq!(balance.pipes.iter().sum::<f64>(), 6000.0);
        assert!(balance.imbalance() >= 1.0 && balance.imbalance() <= f64::from(split.pipes));
    }
}

#[test]
fn splits_that_cannot_be() {
    let first = program();
    let said = |split: PipeSplit| split.check(&first).expect_err("refused");
    assert_eq!(said(split(SplitFunction::Parity, 4)), SplitError::Parity(4));
    assert_eq!(said(split(SplitFunction::Hash(1), 3)), SplitError::Pipes(3));
    assert!(matches!(said(split(SplitFunction::Bits(23), 4)), SplitError::Bits { .. }));
    let wrong = PipeSplit { fields: vec![32], ..split(SplitFunction::Parity, 2) };
    assert!(matches!(said(wrong), SplitError::Key { key: 0, width: 32, .. }));
}
