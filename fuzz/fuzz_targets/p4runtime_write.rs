//! Fuzzes P4Runtime requests: writes, reads, pipelines and messages of a stream, each in a frame (a
//! byte for its type, two of length), for a program with one of every feature. The invariants are
//! in `held.rs`, which a test of the crate `p4runtime` uses, too.
#![no_main]

#[path = "../../crates/p4runtime/tests/write_path/device.rs"]
mod device;
#[path = "../../crates/p4runtime/tests/write_path/held.rs"]
#[allow(dead_code)]
mod held;

use prost::Message;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

thread_local! {
    static BENCH: RefCell<held::Bench> = RefCell::new(start());
}

fn start() -> held::Bench {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let options = p4::compile::CompileOptions { include_dirs: vec![root.join("programs/include")], ..Default::default() };
    let file = root.join("crates/terraced/tests/programs/everything.p4");
    let pipeline = p4::compile::compile(&p4::preprocess::DiskLoader, &file, &options).pipeline;
    let pipeline = Arc::new(pipeline.expect("it compiles"));
    let p4info = p4runtime::p4info::to_message(&ir::p4info::generate(&pipeline)).encode_to_vec().into();
    let device_config = ir::text::print(&pipeline).into_bytes().into();
    held::Bench::new(p4runtime::PipelineConfig { pipeline, p4info, device_config, cookie: None })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    BENCH.with_borrow_mut(|bench| bench.run(data));
});
