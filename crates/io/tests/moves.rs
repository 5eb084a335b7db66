//! Tests ports that are attached to and detached from a runner: their counters, and their packets.

#[allow(dead_code)]
mod support;

use io::memory::{MemoryPort, pair};
use io::{AttachedPort, RunError, RunStats, Runner};
use packet::{EngineReason, PortId};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use support::Wire;

/// Creates both ends of a wire.
fn wire() -> (MemoryPort, MemoryPort) {
    pair("inner", "outer", 64).expect("a pair")
}

fn send(port: &mut MemoryPort, count: usize) {
    (0..count).for_each(|_| assert!(port.send_bytes(&[0; 60]).expect("short")));
}

/// Runs until the first tick.
fn run(runner: &mut Runner) {
    let mut ends = |_: &mut Wire, _: &RunStats| ControlFlow::Break(());
    runner.run(&mut Wire, &AtomicBool::new(false), &mut ends).expect("it runs");
}

fn received(runner: &Runner, id: u32) -> u64 {
    runner.report().ports[&PortId(id)].1.received.packets
}

#[test]
fn a_port_counts_on_wherever_it_goes_and_one_in_its_place_does_too() {
    let new = || Runner::new(Vec::new()).expect("no ports").with_tick(Duration::from_millis(1)).staying();
    let (mut first, mut second) = (new(), new());
    let (inner, mut outer) = wire();
    first.attach(AttachedPort::new(1, inner)).map_err(|refused| refused.1).expect("there is none");
    send(&mut outer, 3);
    run(&mut first);
    assert_eq!(received(&first, 1), 3);
    // Detached and reattached: nothing is counted twice.
    let port = first.detach(PortId(1)).expect("it is there");
    assert!(first.detach(PortId(1)).is_none());
    send(&mut outer, 2);
    run(&mut first);
    assert_eq!(received(&first, 1), 3, "nobody has the port");
    first.attach(port).map_err(|refused| refused.1).expect("there is none");
    run(&mut first);
    assert_eq!(received(&first, 1), 5, "what waited was received");
    // Moved to another runner: the sum over both runners is complete.
    let port = first.detach(PortId(1)).expect("it is there");
    second.attach(port).map_err(|refused| refused.1).expect("there is none");
    send(&mut outer, 4);
    run(&mut second);
    run(&mut first);
    assert_eq!((received(&first, 1), received(&second, 1)), (5, 4));
    // A new port with the same number continues the previous counts.
    drop(second.detach(PortId(1)));
    let (inner, mut outer) = wire();
    first.attach(AttachedPort::new(1, inner)).map_err(|refused| refused.1).expect("there is none");
    send(&mut outer, 10);
    run(&mut first);
    assert_eq!(received(&first, 1), 15);
}

#[test]
fn what_is_for_a_port_that_has_left_is_counted_and_a_number_is_had_once() {
    let ((one, mut first), (two, mut second)) = (wire(), wire());
    let ports = vec![AttachedPort::new(1, one), AttachedPort::new(2, two)];
    let mut runner = Runner::new(ports).expect("two ports").with_tick(Duration::from_millis(1));
    send(&mut first, 1);
    run(&mut runner);
    assert!(second.take().is_some());
    let refused = runner.attach(AttachedPort::new(2, wire().0)).expect_err("there is a port 2");
    assert!(matches!(refused.1, RunError::DuplicatePort { .. }));
    let two = runner.detach(PortId(2)).expect("it is there");
    send(&mut first, 1);
    run(&mut runner);
    assert_eq!(runner.report().tx_dropped.get(EngineReason::UnknownPort).packets, 1);
    runner.attach(two).map_err(|refused| refused.1).expect("there is none");
    send(&mut first, 1);
    run(&mut runner);
    assert!(second.take().is_some() && second.take().is_none());
    assert_eq!(runner.ports().map(|port| port.id.0).collect::<Vec<_>>(), [1, 2]);
}
