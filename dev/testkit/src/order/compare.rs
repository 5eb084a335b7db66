//! Compares a program on an engine with its evaluation.

use super::evaluate::{WrongReading, evaluate};
use super::print::print_program;
use super::tree::{BYTES, Program};
use crate::differ::case::PacketIn;
use crate::differ::compile::compile;
use crate::differ::subject::EngineInputs;
use crate::differ::subjects;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of packets for a program.
pub const PACKETS: usize = 12;

/// Packets that fell back to the interpreter, by reason.
pub type Handed = BTreeMap<String, u64>;

/// Coverage of the comparison.
#[derive(Default, Debug)]
pub struct OrderCoverage {
    /// Number of programs.
    pub programs: u64,
    /// Number of packets.
    pub packets: u64,
    /// Packets that fell back to the interpreter, by reason.
    pub handed: Handed,
    /// For each wrong reading, the number of packets that would have revealed it, and the number of
    /// programs with such packets.
    pub decided: BTreeMap<String, [u64; 2]>,
}

/// Returns the packets of a seed.
pub fn packets(seed: u64) -> Vec<[u8; BYTES]> {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    // Small numbers are equal, and in range, more often.
    let byte = |rng: &mut Rng| if rng.bool() { rng.u8(..4) } else { rng.u8(..) };
    (0..PACKETS).map(|_| std::array::from_fn(|_| byte(&mut rng))).collect()
}

/// Runs the packets on an engine. Returns the sent packets in order.
///
/// # Errors
/// If the program is refused, or a packet is not sent exactly once.
pub fn on_engine(program: &Program, packets: &[[u8; BYTES]], engine: &str) -> Result<(Vec<Vec<u8>>, Handed), String> {
    let text = print_program(program);
    let pipeline = Arc::new(compile(&text, true).map_err(|error| format!("refused:\n{error}"))?);
    let setup = interp::Config::default();
    let build = EngineInputs { text: Some(&text), pipeline: &pipeline, setup: &setup };
    let mut subject = subjects::factory(engine)?(&build)?;
    let packet = |bytes: &[u8; BYTES]| PacketIn { port: 0, at: 0, bytes: bytes.to_vec() };
    let answer = subject.process(&packets.iter().map(packet).collect::<Vec<_>>());
    if let Some(fault) = answer.faults.first() {
        return Err(fault.clone());
    }
    Ok((answer.emitted.into_iter().map(|one| one.bytes).collect(), subject.handed()))
}

/// Compares a program on an engine with its evaluation.
///
/// # Errors
/// The difference, with the first packet that shows it.
pub fn compare(
    program: &Program,
    packets: &[[u8; BYTES]],
    engine: &str,
    wrong: Option<WrongReading>,
) -> Result<Handed, String> {
    let expected = evaluate(program, packets, wrong);
    let (found, handed) = on_engine(program, packets, engine)?;
    if found.len() != expected.len() {
        return Err(format!("{} packets came out of {}", found.len(), expected.len()));
    }
    for (n, (expected, found)) in expected.iter().zip(&found).enumerate() {
        if expected != found {
            return Err(format!("packet {n}, {:02x?}:\nexpected {expected:02x?}\nfound    {found:02x?}", packets[n]));
        }
    }
    Ok(handed)
}

impl OrderCoverage {
    /// Counts a compared program.
    pub fn add(&mut self, program: &Program, packets: &[[u8; BYTES]], handed: Handed) {
        self.programs += 1;
        self.packets += packets.len() as u64;
        for (reason, count) in handed {
            *self.handed.entry(reason).or_default() += count;
        }
        let right = evaluate(program, packets, None);
        for wrong in WrongReading::ALL {
            let other = evaluate(program, packets, Some(wrong));
            let decided = right.iter().zip(&other).filter(|(right, other)| right != other).count() as u64;
            let counts = self.decided.entry(format!("{wrong:?}")).or_default();
            counts[0] += decided;
            counts[1] += u64::from(decided > 0);
        }
    }
}
