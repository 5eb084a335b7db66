//! Measures packets of new flows: a program with one table to which each packet adds an entry, on
//! the interpreter and in native code, and the same program without the additions.
//!
//! ```text
//! cargo run --release -p testkit --example new_flows -- 1000000
//! ```

use interp::Interp;
use jit::Jit;
use packet::{Batch, BatchOutput, Engine, MAX_BATCH, PortId};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::differ::compile::compile;

const PROGRAM: &str = r#"
#include <core.p4>
#include <pna.p4>
header flow_h { bit<32> src; bit<32> dst; bit<16> sport; bit<16> dport; bit<8> proto; bit<24> pad; }
struct headers_t { flow_h flow; }
struct metadata_t { }
parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start { packet.extract(hdr.flow); transition accept; }
}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
            inout pna_pre_output_metadata_t ostd) { apply { } }
control main_control(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                     inout pna_main_output_metadata_t ostd) {
    action known(bit<16> value) { hdr.flow.pad[15:0] = value; }
    action learn() { ADD }
    table flows {
        key = { hdr.flow.src: exact; hdr.flow.dst: exact; hdr.flow.sport: exact; hdr.flow.dport: exact;
                hdr.flow.proto: exact; }
        actions = { @tableonly known; @defaultonly learn; }
        const default_action = learn();
        PROPERTY
        size = 16777216;
    }
    apply { flows.apply(); send_to_port((PortId_t) 2); }
}
control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply { packet.emit(hdr.flow); }
}
PNA_NIC(parse(), pre(), main_control(), deparse()) main;
"#;

fn pipeline(adds: bool) -> Arc<ir::Pipeline> {
    let call = "add_entry(action_name = \"known\", action_params = hdr.flow.sport, expire_time_profile_id = (ExpireTimeProfileId_t) 0);";
    let (call, property) = if adds { (call, "add_on_miss = true;") } else { ("hdr.flow.pad = 1;", "") };
    let text = PROGRAM.replace("ADD", call).replace("PROPERTY", property);
    Arc::new(compile(&text, true).unwrap_or_else(|errors| panic!("{errors}")))
}

/// Sends one packet of each flow, in batches. Returns the time that the engine took.
fn run(engine: &mut dyn Engine, flows: u32) -> Duration {
    let (mut batch, mut out, mut spent) = (Batch::new(), BatchOutput::new(), Duration::ZERO);
    let mut next = 0;
    while next < flows {
        batch.clear();
        out.clear();
        for flow in next..flows.min(next + MAX_BATCH as u32) {
            let mut bytes = [0u8; 64];
            bytes[..4].copy_from_slice(&flow.wrapping_mul(0x9e37_79b9).to_be_bytes());
            bytes[4..8].copy_from_slice(&0x0a00_0001u32.to_be_bytes());
            bytes[8..12].copy_from_slice(&[0x10, 0, 0, 80]);
            bytes[12] = 6;
            batch.push_bytes(&bytes, PortId(1), 1000 + u64::from(flow)).expect("a batch has room");
        }
        next += batch.len() as u32;
        let start = Instant::now();
        engine.process(&mut batch, &mut out);
        spent += start.elapsed();
    }
    spent
}

fn main() {
    let flows = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let config = interp::Config::default;
    let mut oracle = Interp::new(pipeline(true), config()).expect("it loads");
    println!("interpreter, new flows:  {:?}", run(&mut oracle, flows));
    println!("interpreter, known flows: {:?}", run(&mut oracle, flows));
    for adds in [true, false] {
        let mut native = Jit::new(pipeline(adds), config()).expect("it loads");
        assert_eq!(native.fallback_reason(), None);
        println!(
            "native code, {}: {:?}",
            if adds { "new flows" } else { "no table that packets write" },
            run(&mut native, flows)
        );
        if adds {
            println!("native code, known flows: {:?}", run(&mut native, flows));
            let start = Instant::now();
            let entries = native.with_state(|state| state.entry_count(ir::TableId(0)));
            println!("into the control state:  {:?} for {entries} entries", start.elapsed());
            println!("native code, known flows after that: {:?}", run(&mut native, flows));
        }
    }
}
