//! Nobody is fast and wrong: what a system sends is compared with what the interpreter sends, byte by byte, before it is timed.

use crate::engines;
use crate::program::Program;
use crate::ring::{IN_PORT, Template};
use crate::world::{Flow, Flows, World};
use anyhow::{bail, ensure};
use packet::{Batch, Engine, Output, PortId, Verdict};

/// Packets that are compared.
pub const SAMPLES: usize = 512;

/// The right answer to a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whose packet it is.
    pub flow: Flow,
    /// As it comes in.
    pub packet: Vec<u8>,
    /// The port that it leaves on, and its bytes then.
    pub sent: (u32, Vec<u8>),
}

/// The interpreter's answers to the first packets of `flows`.
///
/// # Errors
/// A packet is dropped: entries and packets of the world do not fit each other.
pub fn answers(program: &Program, world: World, flows: &Flows, template: &Template) -> anyhow::Result<Vec<Answer>> {
    let samples = SAMPLES.min(flows.all().len());
    let mut judge = engines::judge(program, world, &flows.numbers()[..samples])?;
    let mut answers = Vec::new();
    for flow in &flows.all()[..samples] {
        let packet = template.packet(*flow);
        let outputs = judge.process(&packet, IN_PORT, 0);
        let [out] = outputs.packets() else { bail!("{} packets of one", outputs.packets().len()) };
        let Verdict::Forward { port } = out.verdict else {
            bail!("{}: {flow:?} is not forwarded: {:?}", program.kind.name(), out.verdict)
        };
        answers.push(Answer { flow: *flow, packet, sent: (port.0, out.bytes.clone()) });
    }
    Ok(answers)
}

/// Whether an engine gives these answers, to batches of `batch` packets.
///
/// # Errors
/// The first difference.
pub fn engine(engine: &mut (impl Engine + ?Sized), answers: &[Answer], batch: usize) -> anyhow::Result<()> {
    let mut output = Output::new();
    let mut packets = Batch::with_capacity(batch);
    let mut compared = 0;
    for chunk in answers.chunks(batch.max(1)) {
        packets.clear();
        output.clear();
        for answer in chunk {
            packets.push_bytes(&answer.packet, PortId(IN_PORT), 0)?;
        }
        engine.process(&mut packets, &mut output);
        for (emission, packet) in output.iter(&packets) {
            let packet::PacketRef::Input(index) = emission.packet else { bail!("{} made a packet", engine.name()) };
            let answer = &chunk[usize::from(index)];
            let Verdict::Forward { port } = emission.verdict else {
                bail!("{}: {:?}: {:?} instead of port {}", engine.name(), answer.flow, emission.verdict, answer.sent.0)
            };
            ensure!(
                port.0 == answer.sent.0,
                "{}: {:?}: {port} instead of {}",
                engine.name(),
                answer.flow,
                answer.sent.0
            );
            same(engine.name(), answer, packet.bytes(), &[])?;
            compared += 1;
        }
    }
    ensure!(compared == answers.len(), "{}: {compared} of {} packets came out", engine.name(), answers.len());
    Ok(())
}

/// Whether `sent` is the answer but for the bytes in `ignored` (first, behind the last).
///
/// # Errors
/// The first byte that differs.
pub fn same(system: &str, answer: &Answer, sent: &[u8], ignored: &[(usize, usize)]) -> anyhow::Result<()> {
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
        let answer = Answer { flow, packet: vec![], sent: (2, vec![1, 2, 3, 4]) };
        assert!(same("a", &answer, &[1, 2, 3, 4], &[]).is_ok());
        assert!(same("a", &answer, &[1, 2, 9, 4], &[(2, 3)]).is_ok());
        let error = same("a", &answer, &[1, 2, 9, 5], &[(3, 4)]).expect_err("byte 2 differs");
        assert!(error.to_string().contains("byte 2 is 0x09 instead of 0x03"), "{error}");
        assert!(same("a", &answer, &[1, 2, 3], &[]).is_err());
    }
}
