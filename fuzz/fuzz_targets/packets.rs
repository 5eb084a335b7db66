//! Fuzzes packets: the gateway gives each a verdict without a panic or an engine fault, and its
//! output agrees with the naive model to the byte.
#![no_main]

use std::cell::RefCell;
use testkit::gateway;
use testkit::model::{Model, ModelVerdict};

thread_local! {
    static GATEWAY: RefCell<(interp::Interp, &'static region::ResolvedRegion)> = RefCell::new(start());
}

fn start() -> (interp::Interp, &'static region::ResolvedRegion) {
    let region = region::parse("lab.yaml", include_str!("../../examples/lab.yaml")).expect("the example is right");
    let engine = gateway::gateway_engine(gateway::pipeline().expect("the gateway compiles"), &region).expect("entries are taken");
    (engine, Box::leak(Box::new(region)))
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    GATEWAY.with_borrow_mut(|(engine, region)| {
        let outputs = engine.process(data, 1, 0);
        let expected = Model::new(region).process(data, 1);
        let (found, reason) = gateway::model_verdict(engine, &outputs).expect("a verdict of the gateway's own");
        match (&expected, reason) {
            (ModelVerdict::Drop(expected), Some(found)) => assert_eq!(*expected, found),
            (expected, None) => assert_eq!(*expected, found),
            (expected, Some(found)) => panic!("model: {expected:?}, program: dropped as {found}"),
        }
    });
});
