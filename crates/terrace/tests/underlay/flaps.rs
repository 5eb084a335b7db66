//! Neighbours that flap under load: each lost packet is counted, by its reason.

use crate::bench::{Bench, datagram, received_flows, sh, until};
use crate::kernel::{BOTH_PATHS, REGION, routed};
use io::{Port, RawPort};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Number of flaps without `TERRACE_FLAPS`. Each takes a hundredth of a second.
const FLAPS: u32 = 200;

/// Returns how many packets the test's own sockets have lost.
fn own_losses(ports: &mut [&mut RawPort]) -> u64 {
    ports.iter_mut().map(|port| port.counters().drops.iter().map(|(_, lost)| lost.packets).sum::<u64>()).sum()
}

/// Removes the neighbours behind the ports 2 and 3 again and again; the kernel finds them anew. Each
/// fiftieth time both are away for a moment, so that no path is left.
fn flap_neighbours(bench: &Bench, flaps: u32) {
    let neighbours = [("10.2.0.2", "port2"), ("10.3.0.2", "port3")];
    let namespace = bench.namespace(0);
    // A neighbour is not there if it has not been found again.
    let remove = |index: usize| {
        let (address, port) = neighbours[index];
        sh(&format!("ip -n {namespace} neigh del {address} dev {port} 2>/dev/null || true"));
    };
    let set_arp = |switch: &str| {
        for interface in ["u", "w"] {
            bench.ip(2, &format!("link set {interface} arp {switch}"));
        }
    };
    for flap in 1..=flaps {
        if flap % 50 != 0 {
            remove(flap as usize % 2);
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        set_arp("off");
        remove(0);
        remove(1);
        std::thread::sleep(Duration::from_millis(100));
        set_arp("on");
        for (address, port) in neighbours {
            let found = format!("ip -n {namespace} neigh show {address} dev {port} | grep -q lladdr");
            until("the kernel finds the neighbour again", || {
                Command::new("sh").args(["-c", &found]).status().unwrap().success()
            });
        }
    }
}

#[test]
fn packets_lost_while_neighbours_flap_are_counted_to_the_packet() {
    let Some(bench) = routed() else { return };
    let flaps = std::env::var("TERRACE_FLAPS").map_or(FLAPS, |flaps| flaps.parse().expect("a number"));
    bench.ip(0, BOTH_PATHS);
    let mut running = crate::kernel::Running::start(bench, REGION);
    running.until_flows_use("both paths", true, true);
    let (bench, [mut from, mut u, mut w]) = running.into_parts();
    std::thread::sleep(Duration::from_millis(200));
    received_flows(&mut u);
    received_flows(&mut w);
    let dropped = || -> u64 {
        ["neighbour_unresolved", "path_down", "no_underlay_route", "unknown_next_hop", "link_down"]
            .iter()
            .map(|reason| bench.dropped(reason))
            .sum()
    };
    let before = (dropped(), own_losses(&mut [&mut u, &mut w]));
    let (is_over, has_drained, arrived) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) {
                let packets: Vec<_> = (0..10).map(|next| datagram(((sent + next) % 200) as u16)).collect();
                sent += from.send_all(&mut packets.iter()) as u64;
                std::thread::sleep(Duration::from_micros(500));
            }
            sent
        });
        scope.spawn(|| {
            while !has_drained.load(Ordering::Relaxed) {
                let count: usize = [&mut u, &mut w].map(|port| received_flows(port).len()).iter().sum();
                arrived.fetch_add(count as u64, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        flap_neighbours(&bench, flaps);
        is_over.store(true, Ordering::Relaxed);
        let sent = sender.join().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        has_drained.store(true, Ordering::Relaxed);
        sent
    });
    let (arrived, dropped) = (arrived.load(Ordering::Relaxed), dropped() - before.0);
    let own = own_losses(&mut [&mut u, &mut w]) - before.1;
    println!("{flaps} flaps: {sent} packets sent, {arrived} arrived, {dropped} dropped while no path was there");
    assert!(dropped > 0, "no packet met a time without a path");
    assert!(arrived > sent / 4, "{arrived} of {sent} arrived\n{}", bench.log());
    assert_eq!(sent, arrived + dropped + own, "own losses: {own}\n{}", bench.log());
}
