//! [`EnginePair`]: one program on the interpreter and as native code, for tests with handwritten
//! programs.

use crate::differ::compile::compile;
use crate::differ::sent_packets;
use entries::{Counter, WriteBatch};
use interp::{Config, Interp};
use ir::{ActionId, TableId};
use jit::Jit;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the text of a PNA program. `types` are its headers (a struct `headers_t`) and metadata
/// (`metadata_t`), `states` the parser's states, `control` the contents of the main control,
/// `emits` the statements of the deparser's `apply`. Its other blocks are empty.
pub fn pna(types: &str, states: &str, control: &str, emits: &str) -> String {
    format!(
        "#include <core.p4>\n#include <pna.p4>\n{types}\n\
         parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {{\n{states}\n}}\n\
         control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,\n            \
         inout pna_pre_output_metadata_t ostd) {{ apply {{ }} }}\n\
         control main_control(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,\n                     \
         inout pna_main_output_metadata_t ostd) {{\n{control}\n}}\n\
         control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {{\n    \
         apply {{ {emits} }}\n}}\n\
         PNA_NIC(parse(), pre(), main_control(), deparse()) main;\n"
    )
}

/// A program on both engines.
pub struct EnginePair {
    /// The interpreter.
    pub oracle: Interp,
    /// The JIT.
    pub native: Jit,
    /// Name and text of the program, shown on a mismatch.
    shown: String,
    /// Number of packets given to the engines.
    packets: u64,
    /// Number of batches given to the engines.
    batches: u64,
}

impl EnginePair {
    /// Loads the text of a program. `passes`: whether to run the compiler's passes. `name`
    /// identifies the program within its test.
    ///
    /// # Panics
    /// If the program does not compile, or the JIT falls back to the interpreter.
    pub fn new(name: &str, text: &str, passes: bool) -> EnginePair {
        let shown = format!("{name}\n{text}");
        let pipeline = Arc::new(compile(text, passes).unwrap_or_else(|errors| panic!("{shown}\n{errors}")));
        let oracle = Interp::new(pipeline.clone(), Config::default()).expect("the interpreter loads it");
        let native = Jit::new(pipeline, Config::default()).expect("native code is made");
        assert_eq!(native.fallback_reason(), None, "nothing is handed to the interpreter");
        EnginePair { oracle, native, shown, packets: 0, batches: 0 }
    }

    /// Writes entries to both engines.
    ///
    /// # Panics
    /// If an engine refuses them.
    pub fn write(&mut self, batch: &WriteBatch) {
        self.oracle.write(batch).unwrap_or_else(|error| panic!("{error} in {}", self.shown));
        self.native.write(batch).unwrap_or_else(|error| panic!("{error} in {}", self.shown));
    }

    /// Runs packets as one batch on both engines. Returns the sent packets, one for each.
    ///
    /// # Panics
    /// If the engines differ, or do not send one packet for each, or as [`sent_packets`].
    pub fn assert_same_packets(&mut self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.packets += packets.len() as u64;
        self.batches += 1;
        // Alternates between the vector path for batches of any size and the scalar path.
        self.native.set_min_vector_batch(if self.batches.is_multiple_of(2) { 1 } else { usize::MAX });
        let (expected, found) = (sent_packets(&mut self.oracle, packets), sent_packets(&mut self.native, packets));
        assert_eq!(expected.len(), packets.len(), "{}", self.shown);
        for ((expected, found), packet) in expected.iter().zip(&found).zip(packets) {
            assert_eq!(expected, found, "packet {packet:02x?} of {}", self.shown);
        }
        assert_eq!(expected.len(), found.len(), "{}", self.shown);
        self.assert_same_counts();
        expected
    }

    /// Returns the number of packets that the vector path processed, and the number that diverged
    /// to scalar code.
    pub fn vector_packet_counts(&self) -> [u64; 2] {
        let [came, left] = self.native.vector_packet_counts();
        [came - left, left]
    }

    /// Adds [`EnginePair::vector_packet_counts`] to `sums`.
    pub fn add_vector_counts(&self, sums: &mut [u64; 2]) {
        sums.iter_mut().zip(self.vector_packet_counts()).for_each(|(sum, count)| *sum += count);
    }

    /// Checks that both engines have the same action counts for each table, and that each packet
    /// started once.
    fn assert_same_counts(&self) {
        let tallies = self.native.stats();
        let mut found: BTreeMap<(TableId, ActionId), [Counter; 2]> = BTreeMap::new();
        for table in &tallies.tables {
            for action in &table.actions {
                let [misses, hits] = found.entry((table.table, action.action)).or_default();
                *misses += action.misses;
                *hits += action.hits;
            }
        }
        for ((table, action), found) in found {
            let expected = self.oracle.action_counters(table).find(|(of, _)| *of == action).map(|(_, counted)| counted);
            assert_eq!(expected, Some(found), "{table:?}, {action:?} of {}", self.shown);
        }
        let begun: u64 = tallies.stages.iter().filter(|stage| stage.is_entry).map(|stage| stage.packets).sum();
        assert_eq!(begun, self.packets, "packets that began, of {}", self.shown);
    }
}

/// Checks that the vector path processed at least `least` packets, and that some diverged to scalar
/// code. Checks nothing on machines without the vector path.
///
/// # Panics
/// If there were fewer.
pub fn assert_vector_path_used([through, left]: [u64; 2], least: u64) {
    println!("{through} packets took the vector path, {left} diverged to scalar code");
    let enough = through >= least && left > 0;
    assert!(enough || !jit::supports_vector_path(), "only {through} packets took the vector path");
}
