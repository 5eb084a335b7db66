//! [`Pair`]: one program on the interpreter and as native code, for tests that write their programs themselves.

use crate::differ::compile::compile;
use crate::differ::what_leaves;
use entries::{Counter, WriteBatch};
use interp::{Config, Interp};
use ir::{ActionId, TableId};
use jit::Jit;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The text of a PNA program whose other blocks do nothing: `types` are its headers (a struct `headers_t`) and metadata (`metadata_t`), `states` its parser's, `control` what
/// stands in its main control, `emits` in its deparser's `apply`.
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
pub struct Pair {
    /// The interpreter.
    pub oracle: Interp,
    /// Native code.
    pub native: Jit,
    /// What is shown when they differ: which program it is, and its text.
    shown: String,
    /// How many packets came in so far.
    packets: u64,
    /// How often.
    batches: u64,
}

impl Pair {
    /// Loads a program's text; `passes`: through all passes of the compiler. `name` tells it from others of a test.
    ///
    /// # Panics
    /// It does not compile, or native code hands it to the interpreter.
    pub fn new(name: &str, text: &str, passes: bool) -> Pair {
        let shown = format!("{name}\n{text}");
        let pipeline = Arc::new(compile(text, passes).unwrap_or_else(|errors| panic!("{shown}\n{errors}")));
        let oracle = Interp::new(pipeline.clone(), Config::default()).expect("the interpreter loads it");
        let native = Jit::new(pipeline, Config::default()).expect("native code is made");
        assert_eq!(native.unsupported(), None, "nothing is handed to the interpreter");
        Pair { oracle, native, shown, packets: 0, batches: 0 }
    }

    /// Writes entries to both.
    ///
    /// # Panics
    /// One of them refuses.
    pub fn write(&mut self, batch: &WriteBatch) {
        self.oracle.write(batch).unwrap_or_else(|error| panic!("{error} in {}", self.shown));
        self.native.write(batch).unwrap_or_else(|error| panic!("{error} in {}", self.shown));
    }

    /// What leaves of both when these packets come in together, one for each.
    ///
    /// # Panics
    /// They differ, or there is not one for each; also as [`what_leaves`].
    pub fn alike(&mut self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.packets += packets.len() as u64;
        self.batches += 1;
        // One by one and, however few they are, eight at a time.
        self.native.eights_from(if self.batches.is_multiple_of(2) { 1 } else { usize::MAX });
        let (expected, found) = (what_leaves(&mut self.oracle, packets), what_leaves(&mut self.native, packets));
        assert_eq!(expected.len(), packets.len(), "{}", self.shown);
        for ((expected, found), packet) in expected.iter().zip(&found).zip(packets) {
            assert_eq!(expected, found, "packet {packet:02x?} of {}", self.shown);
        }
        assert_eq!(expected.len(), found.len(), "{}", self.shown);
        self.counted_alike();
        expected
    }

    /// How many packets came through stages eight at a time, and how many were left to code for one.
    pub fn in_eights(&self) -> [u64; 2] {
        let [came, left] = self.native.in_eights();
        [came - left, left]
    }

    /// Adds them.
    pub fn add_eights(&self, sums: &mut [u64; 2]) {
        sums.iter_mut().zip(self.in_eights()).for_each(|(sum, count)| *sum += count);
    }

    /// Both say the same of what each table's actions did, wherever native code applies it, and that each packet began once.
    fn counted_alike(&self) {
        let tallies = self.native.tallies();
        let mut found: BTreeMap<(TableId, ActionId), [Counter; 2]> = BTreeMap::new();
        for table in &tallies.tables {
            for action in &table.actions {
                let [misses, hits] = found.entry((table.table, action.action)).or_default();
                *misses += action.misses;
                *hits += action.hits;
            }
        }
        for ((table, action), found) in found {
            let expected = self.oracle.applied(table).find(|(of, _)| *of == action).map(|(_, counted)| counted);
            assert_eq!(expected, Some(found), "{table:?}, {action:?} of {}", self.shown);
        }
        let begun: u64 = tallies.stages.iter().filter(|stage| stage.begins).map(|stage| stage.packets).sum();
        assert_eq!(begun, self.packets, "packets that began, of {}", self.shown);
    }
}

/// Packets have come through stages eight at a time, at least so many, and others were left to code for one; if this machine takes them so.
///
/// # Panics
/// Fewer have.
pub fn assert_eights([through, left]: [u64; 2], least: u64) {
    println!("{through} packets came through stages eight at a time, {left} were left to code for one");
    let enough = through >= least && left > 0;
    assert!(enough || !jit::takes_eights(), "only {through} packets came through stages eight at a time");
}
