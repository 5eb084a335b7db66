//! Packets are any bytes: the gateway gives each a verdict of its own, never a panic, never an engine's fault, and what it
//! forwards agrees with the naive model to the byte.
#![no_main]

use std::cell::RefCell;
use testkit::gateway;
use testkit::model::{Model, Outcome};

thread_local! {
    static GATEWAY: RefCell<(interp::Interp, &'static region::Region)> = RefCell::new(start());
}

fn start() -> (interp::Interp, &'static region::Region) {
    let region = region::parse("lab.yaml", include_str!("../../examples/lab.yaml")).expect("the example is right");
    let engine = gateway::serve(gateway::pipeline().expect("the gateway compiles"), &region).expect("entries are taken");
    (engine, Box::leak(Box::new(region)))
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    GATEWAY.with_borrow_mut(|(engine, region)| {
        let outputs = engine.process(data, 1, 0);
        let expected = Model::new(region).process(data, 1);
        let (found, reason) = gateway::outcome(engine, &outputs).expect("a verdict of the gateway's own");
        match (&expected, reason) {
            (Outcome::Drop(expected), Some(found)) => assert_eq!(*expected, found),
            (expected, None) => assert_eq!(*expected, found),
            (expected, Some(found)) => panic!("model: {expected:?}, program: dropped as {found}"),
        }
    });
});
