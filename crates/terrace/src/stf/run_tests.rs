//! Tests how packets are judged, on a device that reflects packets.

use super::device::{Device, ObjectCell, Refusal, Sent};
use super::parse::parse;
use super::report::{Finding, Report};
use super::run::{Options, RunError, run};
use entries::{Counter, EntryId, MeterConfig, WriteBatch};
use ir::{Arch, ExternId, Pipeline, TableId};
use num_bigint::BigUint;

/// Device that sends each packet to the port in its first byte, as often as its second byte
/// specifies.
struct Reflector(Pipeline);

impl Device for Reflector {
    fn pipeline(&self) -> &Pipeline {
        &self.0
    }
    fn write(&mut self, _: WriteBatch) -> Result<(), Refusal> {
        Ok(())
    }
    fn entries(&self, _: TableId) -> Vec<EntryId> {
        Vec::new()
    }
    fn has_group(&self, _: u32, _: bool) -> bool {
        false
    }
    fn counter(&self, _: ExternId, _: &ObjectCell) -> Result<Counter, Refusal> {
        Err("no counters".into())
    }
    fn meter(&self, _: ExternId, _: &ObjectCell) -> Result<Option<MeterConfig>, Refusal> {
        Err("no meters".into())
    }
    fn register(&self, _: ExternId, _: u64) -> Result<Vec<BigUint>, Refusal> {
        Err("no registers".into())
    }
    fn inject(&mut self, _: u32, bytes: &[u8]) -> Result<Vec<Sent>, Refusal> {
        let [port, times, ..] = *bytes else { return Err("too short".into()) };
        Ok(vec![Sent { port: port.into(), bytes: bytes.to_vec() }; times.into()])
    }
    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)> {
        Vec::new()
    }
    fn take_idle(&mut self) -> Vec<EntryId> {
        Vec::new()
    }
    fn advance(&mut self, _: u64) -> Result<Vec<Sent>, Refusal> {
        Ok(Vec::new())
    }
}

fn judge_with(text: &str, options: Options) -> Result<Report, RunError> {
    let mut device = Reflector(Pipeline::new("reflector", Arch::V1Model));
    run(&parse("t.stf", text).unwrap(), &mut device, options)
}

fn judge(text: &str) -> Report {
    judge_with(text, Options::default()).unwrap()
}

fn kinds(report: &Report) -> Vec<&'static str> {
    let kind = |finding: &Finding| match finding {
        Finding::Differs { .. } => "differs",
        Finding::Missing { .. } => "missing",
        Finding::Unexpected { .. } => "unexpected",
        Finding::Check { .. } => "check",
    };
    report.findings.iter().map(kind).collect()
}

#[test]
fn an_expectation_may_stand_before_or_after_its_packet() {
    let report = judge("expect 1 0101aa\npacket 0 0101aa\npacket 0 0101bb\nexpect 1 0101bb\n");
    assert!(report.passed(), "{}", report.render());
    assert_eq!((report.packets_in, report.packets_out, report.checks), (2, 2, 2));
}

#[test]
fn order_counts_within_a_port_and_not_between_ports() {
    assert!(judge("packet 0 0101aa\npacket 0 0201bb\nexpect 2 0201bb\nexpect 1 0101aa\n").passed());
    let swapped = judge("packet 0 0101aa\npacket 0 0101bb\nexpect 1 0101bb\nexpect 1 0101aa\n");
    assert_eq!(kinds(&swapped), ["differs", "differs"]);
}

#[test]
fn stars_are_any_nibble_and_a_longer_packet_matches_unless_dollar_ends_the_pattern() {
    assert!(judge("packet 0 0101abcd\nexpect 1 01*1*b\n").passed());
    assert!(judge("packet 0 0101abcd\nexpect 1 0101abcd$\n").passed());
    assert_eq!(kinds(&judge("packet 0 0101abcd\nexpect 1 0101ab$\n")), ["differs"]);
    assert_eq!(kinds(&judge("packet 0 0101abcd\nexpect 1 0101abcdee\n")), ["differs"]);
    assert_eq!(kinds(&judge("packet 0 0101abcd\nexpect 1 01*1*c\n")), ["differs"]);
    assert_eq!(kinds(&judge("packet 0 0101ab\nexpect 1 0101**\nexpect 1 ********\n")), ["missing"]);
}

#[test]
fn expect_without_bytes_is_exactly_one_packet() {
    assert!(judge("packet 0 0101\nexpect 1\n").passed());
    assert_eq!(kinds(&judge("packet 0 0102\nexpect 1\n")), ["unexpected"]);
    assert_eq!(kinds(&judge("expect 1\n")), ["missing"]);
}

#[test]
fn packets_on_ports_that_the_test_does_not_name_are_only_noted() {
    let text = "packet 0 0701\n";
    let report = judge(text);
    assert!(report.passed() && report.notes[0].contains("1 packets left on port 7"), "{}", report.render());
    let strict = judge_with(text, Options { all_ports: true }).unwrap();
    assert_eq!(kinds(&strict), ["unexpected"]);
    // The port on which packets arrive is a named port too.
    assert_eq!(kinds(&judge("packet 7 0701\n")), ["unexpected"]);
}

#[test]
fn no_packet_is_about_the_last_packet() {
    assert!(judge("packet 0 0101\nexpect 1\npacket 0 0100\nno_packet\n").passed());
    assert_eq!(kinds(&judge("packet 0 0101\nexpect 1\nno_packet\n")), ["check"]);
}

#[test]
fn the_report_shows_both_packets_and_marks_what_differs() {
    let text = judge("packet 0 0101aabbccddeeff00112233445566778899\nexpect 1 0101aabbccddeeff00112233445566770899\n")
        .render();
    assert!(text.contains("t.stf:2: port 1, packet 1: 1 hex digits differ, the first in byte 16"), "{text}");
    assert!(text.contains("    - 0010  0899\n    + 0010  8899\n            ^\n"), "{text}");
    assert!(text.ends_with("FAIL t.stf: 1 not as expected; 1 packets in, 1 out, 1 checks"), "{text}");
}

#[test]
fn a_command_that_cannot_be_carried_out_ends_the_test() {
    let error = judge_with("wait\nadd t k:1 a()\n", Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "t.stf:2: the program has no table `t`; it has none");
    let error = judge_with("packet 0 01\n", Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "t.stf:1: too short");
    let error = judge_with("remove $x\n", Options::default()).unwrap_err();
    assert!(error.to_string().contains("no entry has the handle `x`; write `= x` after"), "{error}");
    let error = judge_with("mc_node_associate 1 0\n", Options::default()).unwrap_err();
    assert!(error.to_string().contains("multicast node 0 does not exist"), "{error}");
}
