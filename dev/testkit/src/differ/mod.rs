//! Differential testing: compares engines with the interpreter on random programs, entries and
//! packets.
//!
//! This module answers one question: *does this engine do the same as the interpreter?* A
//! [`case::TestCase`] is generated from a seed ([`plan::generate_case`]): a program from the
//! generator ([`make`]), valid writes for it ([`writes`]), and packets that go deep into its parser
//! ([`packets`]). [`run::run_case`] gives all of it to the oracle (the interpreter, one packet at a
//! time) and to a [`subject::EngineUnderTest`] (any engine, in batches). It compares each sent
//! packet, each drop, and the final state. A case with a mismatch is shrunk ([`shrink`]) and
//! reported ([`report`]); [`agree`] combines these steps.
//!
//! The coverage of the comparison is counted ([`coverage`]), so that a harness that compares too
//! little is noticed. [`injected_faults`] has engines with injected faults, which the harness must
//! detect.

pub mod agree;
pub mod case;
pub mod compare;
pub mod compile;
pub mod config;
pub mod coverage;
pub mod injected_faults;
pub mod make;
pub mod native;
pub mod packets;
pub mod pair;
pub mod plan;
pub mod print;
pub mod reductions;
pub mod report;
pub mod run;
pub mod shrink;
pub mod subject;
pub mod subjects;
pub mod tree;
pub mod writes;

use packet::{Batch, BatchOutput, Engine, PortId};

/// Returns a number from the environment, or the default: a seed, or the number of cases.
pub fn env_number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns the bytes of the packets that the engine sends, in order, when these packets arrive
/// together on port 1.
///
/// # Panics
/// If there are more packets than a batch holds, or one is too long.
pub fn sent_packets(engine: &mut dyn Engine, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut batch = Batch::new();
    for bytes in packets {
        batch.push_bytes(bytes, PortId(1), 0).expect("a batch has room, and a packet is short enough");
    }
    let mut out = BatchOutput::new();
    engine.process(&mut batch, &mut out);
    out.iter(&batch).map(|(_, packet)| packet.bytes().to_vec()).collect()
}
