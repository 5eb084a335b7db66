//! One meaning: engines are compared with the interpreter on random programs, entries and packets.
//!
//! This module answers one question: *does this engine do what the interpreter does?* A [`case::Case`] is made from a seed
//! ([`plan::case`]): a program from the generator ([`make`]), writes that are valid for it ([`writes`]), packets that go deep into its
//! parser ([`packets`]). [`run::run`] gives all of it to the oracle (the interpreter, one packet at a time) and to a
//! [`subject::Subject`] (any engine, in batches), and compares each packet that leaves, each drop, and the state that is left behind.
//! A difference is made small ([`shrink`]) and written down ([`report`]); [`agree`] does all of it.
//!
//! What was compared is counted ([`tally`]), so that a harness that has gone blind is noticed; [`broken`] has subjects with known
//! faults, which it must find.

pub mod agree;
pub mod broken;
pub mod case;
pub mod compare;
pub mod compile;
pub mod config;
pub mod edits;
pub mod make;
pub mod native;
pub mod packets;
pub mod pair;
pub mod plan;
pub mod print;
pub mod report;
pub mod run;
pub mod shrink;
pub mod subject;
pub mod subjects;
pub mod tally;
pub mod tree;
pub mod writes;

use packet::{Batch, Engine, Output, PortId};

/// A number that the environment gives, or the default: seeds, and how many cases.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What leaves when these packets come in together on port 1: the bytes of each, in order.
///
/// # Panics
/// There are more packets than a batch holds, or one is too long.
pub fn what_leaves(engine: &mut dyn Engine, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut batch = Batch::new();
    for bytes in packets {
        batch.push_bytes(bytes, PortId(1), 0).expect("a batch has room, and a packet is short enough");
    }
    let mut out = Output::new();
    engine.process(&mut batch, &mut out);
    out.iter(&batch).map(|(_, packet)| packet.bytes().to_vec()).collect()
}
