//! Fuzzes packets: the gateway gives each a verdict without a panic or an engine fault, and its
//! output agrees with the naive model to the byte.
#![no_main]

use std::cell::{Cell, RefCell};
use testkit::gateway;
use testkit::model::Model;

thread_local! {
    static GATEWAY: RefCell<(interp::Interp, &'static region::ResolvedRegion)> = RefCell::new(start());
    /// Time of the packet in ns: seconds apart, so that no limit of ICMP errors is reached.
    static NOW: Cell<u64> = const { Cell::new(0) };
}

fn start() -> (interp::Interp, &'static region::ResolvedRegion) {
    let region = region::parse("lab.yaml", include_str!("../../tests/regions/plain.yaml")).expect("the example is right");
    let engine = gateway::gateway_engine(gateway::pipeline().expect("the gateway compiles"), &region).expect("entries are taken");
    (engine, Box::leak(Box::new(region)))
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    GATEWAY.with_borrow_mut(|(engine, region)| {
        NOW.set(NOW.get() + 1_000_000_000);
        let outputs = engine.process(data, 1, NOW.get());
        let expected = Model::new(region).process(data, 1);
        let found = gateway::model_verdict(engine, &outputs).expect("a verdict of the gateway's own");
        assert_eq!(expected, found);
    });
});
