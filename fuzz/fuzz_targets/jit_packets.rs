//! Fuzzes native code with batches of packets: the gateway has the same results as on the
//! interpreter.
//!
//! The input is split into packets. Two bytes before each give its length in the lower 14 bits and
//! its port in the upper two.
#![no_main]

use std::cell::RefCell;
use testkit::differ::case::PacketIn;
use testkit::differ::subject::{EngineInputs, Oracle, EngineUnderTest};
use testkit::differ::{compare, subjects};
use testkit::gateway;

thread_local! {
    static ENGINES: RefCell<(Oracle, Box<dyn EngineUnderTest>)> = RefCell::new(start());
}

fn start() -> (Oracle, Box<dyn EngineUnderTest>) {
    let region = region::parse("lab.yaml", include_str!("../../tests/regions/plain.yaml")).expect("the example is right");
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let numbers = &mut region::IdAssignments::default();
    let entries = region::entries(&region, "lab.yaml", &pipeline, numbers).expect("entries are made");
    let write = region::diff(region::GatewayEntries::default(), entries);
    let setup = interp::Config::default();
    let build = EngineInputs { text: None, pipeline: &pipeline, setup: &setup };
    let mut oracle = Oracle::new(&build).expect("the interpreter takes the gateway");
    let mut jit = subjects::factory("jit").expect("it is there")(&build).expect("native code takes the gateway");
    oracle.write(&write).expect("entries are taken");
    jit.write(&write).expect("entries are taken");
    (oracle, jit)
}

fn packets(mut data: &[u8]) -> Vec<PacketIn> {
    let mut all = Vec::new();
    while let ([high, low, rest @ ..], true) = (data, all.len() < packet::MAX_BATCH) {
        let head = u16::from_be_bytes([*high, *low]);
        let (bytes, after) = rest.split_at(usize::from(head & 0x3fff).min(rest.len()));
        all.push(PacketIn { port: u32::from(head >> 14), at: 0, bytes: bytes.to_vec() });
        data = after;
    }
    all
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ENGINES.with_borrow_mut(|(oracle, jit)| {
        let packets = packets(data);
        let difference = compare::compare_results(&oracle.process(&packets), &jit.process(&packets));
        assert!(difference.is_none(), "{}", difference.unwrap_or_default());
    });
});
