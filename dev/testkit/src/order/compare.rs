//! A program on an engine, beside its evaluation.

use super::evaluate::{Wrong, evaluate};
use super::print::print;
use super::tree::{BYTES, Program};
use crate::differ::case::PacketIn;
use crate::differ::compile::compile;
use crate::differ::subject::Build;
use crate::differ::subjects;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Packets of a program.
pub const PACKETS: usize = 12;

/// Packets that native code gave to the interpreter, by reason.
pub type Handed = BTreeMap<String, u64>;

/// What was compared.
#[derive(Default, Debug)]
pub struct Tally {
    /// Programs.
    pub programs: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that native code gave to the interpreter, by reason.
    pub handed: Handed,
    /// Packets that a wrong reading would have shown, and programs with such packets, by reading.
    pub decided: BTreeMap<String, [u64; 2]>,
}

/// The packets of a seed.
pub fn packets(seed: u64) -> Vec<[u8; BYTES]> {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    // Small numbers are equal, and in range, more often.
    let byte = |rng: &mut Rng| if rng.bool() { rng.u8(..4) } else { rng.u8(..) };
    (0..PACKETS).map(|_| std::array::from_fn(|_| byte(&mut rng))).collect()
}

/// What an engine sends for the packets, in order.
///
/// # Errors
/// The program is refused, or a packet does not leave by itself.
pub fn on_engine(program: &Program, packets: &[[u8; BYTES]], engine: &str) -> Result<(Vec<Vec<u8>>, Handed), String> {
    let text = print(program);
    let pipeline = Arc::new(compile(&text, true).map_err(|error| format!("refused:\n{error}"))?);
    let setup = interp::Config::default();
    let build = Build { text: Some(&text), pipeline: &pipeline, setup: &setup };
    let mut subject = subjects::factory(engine)?(&build)?;
    let packet = |bytes: &[u8; BYTES]| PacketIn { port: 0, at: 0, bytes: bytes.to_vec() };
    let answer = subject.process(&packets.iter().map(packet).collect::<Vec<_>>());
    if let Some(fault) = answer.faults.first() {
        return Err(fault.clone());
    }
    Ok((answer.emitted.into_iter().map(|one| one.bytes).collect(), subject.handed()))
}

/// Compares; what differs, with the first packet that shows it.
///
/// # Errors
/// The difference.
pub fn compare(
    program: &Program,
    packets: &[[u8; BYTES]],
    engine: &str,
    wrong: Option<Wrong>,
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

impl Tally {
    /// Counts a program that was compared.
    pub fn add(&mut self, program: &Program, packets: &[[u8; BYTES]], handed: Handed) {
        self.programs += 1;
        self.packets += packets.len() as u64;
        for (reason, count) in handed {
            *self.handed.entry(reason).or_default() += count;
        }
        let right = evaluate(program, packets, None);
        for wrong in Wrong::ALL {
            let other = evaluate(program, packets, Some(wrong));
            let decided = right.iter().zip(&other).filter(|(right, other)| right != other).count() as u64;
            let counts = self.decided.entry(format!("{wrong:?}")).or_default();
            counts[0] += decided;
            counts[1] += u64::from(decided > 0);
        }
    }
}
