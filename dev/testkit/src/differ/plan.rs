//! Makes cases: a program, its entries and packets, all from one seed.

use super::case::{Case, PacketIn, Source, Step};
use super::compile::compile;
use super::config::Config;
use super::make::make;
use super::packets::Packets;
use super::print::print;
use super::writes::Writer;
use crate::gateway;
use fastrand::Rng;
use std::sync::Arc;

/// A made program that was refused: a bug of the generator or of the front-end.
#[derive(Clone, Debug)]
pub struct RefusedProgram {
    /// Its text.
    pub text: String,
    /// Why.
    pub diagnostics: String,
}

/// The case of a seed.
///
/// # Errors
/// If the front-end refuses the program.
pub fn case(seed: u64, config: &Config) -> Result<Case, Box<RefusedProgram>> {
    // Two of three programs without what engines of native code leave to the interpreter as a whole.
    let plain = config.clone().plain();
    let config = if seed.is_multiple_of(3) { config } else { &plain };
    let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let program = make(&mut rng, config);
    let text = print(&program);
    let refused = |diagnostics: String| Box::new(RefusedProgram { text: text.clone(), diagnostics });
    let pipeline = Arc::new(compile(&text, true).map_err(&refused)?);
    let setup = setup(&mut rng, seed);
    let mut writes = Vec::new();
    {
        let mut writes_rng = rng.fork();
        let writer = Writer::new(&mut writes_rng, &program.pool, pipeline.clone());
        let mut writer = writer.map_err(|error| refused(error.to_string()))?;
        writes.push(writer.first(config.first_entries.clone()));
        for _ in 0..rng.usize(config.writes.clone()) {
            writes.push(writer.more());
        }
    }
    let mut steps = Vec::new();
    let mut packets_rng = rng.fork();
    let mut packets = Packets::new(&mut packets_rng, &program, setup.start);
    let mut left = config.packets;
    let rounds = writes.len();
    for (round, batch) in writes.into_iter().enumerate() {
        // Sometimes nobody writes before the first packets.
        if round > 0 || rng.u8(..10) > 0 {
            steps.push(Step::Write(batch));
        }
        let share = left / (rounds - round);
        left -= share;
        let mut now = share;
        while now > 0 {
            let size = batch_size(&mut rng).min(now);
            now -= size;
            steps.push(Step::Packets((0..size).map(|_| packets.next_packet()).collect()));
            if rng.u8(..5) == 0 {
                packets.now += rng.u64(..2_000_000);
                steps.push(Step::Tick(packets.now));
            }
        }
    }
    steps.push(Step::Tick(packets.now + 100_000_000));
    Ok(Case { seed, source: Source::Made(Box::new(program)), pipeline, setup, steps })
}

/// The gateway with a random region and packets of its tenants.
///
/// # Errors
/// A region or program that is refused: a bug.
pub fn gateway(seed: u64, packets: usize) -> anyhow::Result<Case> {
    let mut rng = Rng::with_seed(seed);
    let text = crate::generate::region(&mut rng);
    let region = region::parse("made.yaml", &text)
        .map_err(|problems| anyhow::anyhow!("the made region is refused: {problems}"))?;
    let pipeline = gateway::pipeline()?;
    let entries = region::entries(&region, "made.yaml", &pipeline, &mut region::Numbers::default())?;
    let mut steps = vec![Step::Write(region::diff(region::Entries::default(), entries))];
    let (mut left, mut at) = (packets, 0);
    while left > 0 {
        let size = batch_size(&mut rng).min(left);
        left -= size;
        at += 1000;
        let mut one = || {
            let port = rng.u32(..4);
            PacketIn { port, at, bytes: crate::generate::packet(&mut rng, &region, port) }
        };
        steps.push(Step::Packets((0..size).map(|_| one()).collect()));
    }
    let source = Source::File("programs/gateway/gateway.p4".to_owned());
    Ok(Case { seed, source, pipeline, setup: interp::Config::default(), steps })
}

/// Sizes of batches: one, few, many, full.
pub fn batch_size(rng: &mut Rng) -> usize {
    match rng.u8(..8) {
        0 => 1,
        1..4 => rng.usize(2..9),
        4..6 => rng.usize(9..65),
        6 => 32,
        _ => rng.usize(65..=packet::MAX_BATCH),
    }
}

/// Settings of the engines: ports that exist, ports that lead to hosts, the CPU's port, the time.
pub fn setup(rng: &mut Rng, seed: u64) -> interp::Config {
    interp::Config {
        seed,
        ports: (rng.u8(..4) == 0).then(|| (0..6).collect()),
        host_ports: (0..8).filter(|_| rng.u8(..3) == 0).collect(),
        cpu_port: (rng.u8(..3) == 0).then(|| rng.u32(..8)),
        start: if rng.bool() { 0 } else { rng.u64(..1_000_000_000_000) },
        // Copies of copies would drown everything else.
        max_copies: rng.u32(4..64),
        ..interp::Config::default()
    }
}
