//! Correctness check of all measured systems: their packets are compared byte by byte with those of
//! the interpreter before they are timed.

use crate::engines;
use crate::program::Program;
use crate::ring::{IN_PORT, Template};
use crate::workload::{Flow, Flows, Workload};
use anyhow::{bail, ensure};
use packet::{Batch, BatchOutput, Engine, PortId, Verdict};

/// Number of packets to compare.
pub const SAMPLES: usize = 512;

/// A packet with its expected output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedOutput {
    /// Flow of the packet.
    pub flow: Flow,
    /// Bytes of the received packet.
    pub packet: Vec<u8>,
    /// Egress port, and bytes of the sent packet.
    pub sent: (u32, Vec<u8>),
}

/// Returns the interpreter's outputs for the first packets of `flows`.
///
/// # Errors
/// If a packet is dropped, because entries and packets of the workload then do not fit each other.
pub fn expected_outputs(
    program: &Program,
    world: Workload,
    flows: &Flows,
    template: &Template,
) -> anyhow::Result<Vec<ExpectedOutput>> {
    let samples = SAMPLES.min(flows.all().len());
    let mut reference = engines::reference_engine(program, world, &flows.numbers()[..samples])?;
    let mut expected = Vec::new();
    for flow in &flows.all()[..samples] {
        let packet = template.packet(*flow);
        let outputs = reference.process(&packet, IN_PORT, 0);
        let [output] = outputs.packets() else { bail!("{} packets of one", outputs.packets().len()) };
        let Verdict::Forward { port } = output.verdict else {
            bail!("{}: {flow:?} is not forwarded: {:?}", program.kind.name(), output.verdict)
        };
        expected.push(ExpectedOutput { flow: *flow, packet, sent: (port.0, output.bytes.clone()) });
    }
    Ok(expected)
}

/// Checks that an engine sends the expected packets, in batches of `batch` packets.
///
/// # Errors
/// The first difference.
pub fn check_engine(
    engine: &mut (impl Engine + ?Sized),
    expected: &[ExpectedOutput],
    batch: usize,
) -> anyhow::Result<()> {
    let mut output = BatchOutput::new();
    let mut packets = Batch::with_capacity(batch);
    let mut compared = 0;
    for chunk in expected.chunks(batch.max(1)) {
        packets.clear();
        output.clear();
        for sample in chunk {
            packets.push_bytes(&sample.packet, PortId(IN_PORT), 0)?;
        }
        engine.process(&mut packets, &mut output);
        for (emission, packet) in output.iter(&packets) {
            let packet::PacketRef::Input(index) = emission.packet else { bail!("{} made a packet", engine.name()) };
            let sample = &chunk[usize::from(index)];
            let Verdict::Forward { port } = emission.verdict else {
                bail!("{}: {:?}: {:?} instead of port {}", engine.name(), sample.flow, emission.verdict, sample.sent.0)
            };
            ensure!(
                port.0 == sample.sent.0,
                "{}: {:?}: {port} instead of {}",
                engine.name(),
                sample.flow,
                sample.sent.0
            );
            check_packet(engine.name(), sample, packet.bytes(), &[])?;
            compared += 1;
        }
    }
    ensure!(compared == expected.len(), "{}: {compared} of {} packets came out", engine.name(), expected.len());
    Ok(())
}

/// Checks that `sent` is the expected packet, except for the byte ranges in `ignored` (start,
/// exclusive end).
///
/// # Errors
/// The first byte that differs.
pub fn check_packet(
    system: &str,
    answer: &ExpectedOutput,
    sent: &[u8],
    ignored: &[(usize, usize)],
) -> anyhow::Result<()> {
    let right = &answer.sent.1;
    ensure!(sent.len() == right.len(), "{system}: {:?}: {} bytes instead of {}", answer.flow, sent.len(), right.len());
    let counts = |at: &usize| !ignored.iter().any(|(first, end)| (*first..*end).contains(at));
    match (0..right.len()).filter(counts).find(|&at| sent[at] != right[at]) {
        None => Ok(()),
        Some(at) => bail!("{system}: {:?}: byte {at} is {:#04x} instead of {:#04x}", answer.flow, sent[at], right[at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_found_and_what_is_ignored_is_not() {
        let flow = Flow { sender: 6, vni: 1, destination: 2, source: 3, port: 4, identification: 5 };
        let answer = ExpectedOutput { flow, packet: vec![], sent: (2, vec![1, 2, 3, 4]) };
        assert!(check_packet("a", &answer, &[1, 2, 3, 4], &[]).is_ok());
        assert!(check_packet("a", &answer, &[1, 2, 9, 4], &[(2, 3)]).is_ok());
        let error = check_packet("a", &answer, &[1, 2, 9, 5], &[(3, 4)]).expect_err("byte 2 differs");
        assert!(error.to_string().contains("byte 2 is 0x09 instead of 0x03"), "{error}");
        assert!(check_packet("a", &answer, &[1, 2, 3], &[]).is_err());
    }
}
