//! Generates test cases: a program with entries and packets, all from one seed.

use super::case::{PacketIn, ProgramSource, TestCase, TestEvent};
use super::compile::compile;
use super::config::Config;
use super::make::generate_program;
use super::packets::PacketGenerator;
use super::print::print_program;
use super::writes::WriteGenerator;
use crate::gateway;
use fastrand::Rng;
use std::sync::Arc;

/// A generated program that was refused, due to a bug of the generator or of the front-end.
#[derive(Clone, Debug)]
pub struct RefusedProgram {
    /// Text of the program.
    pub text: String,
    /// Diagnostics of the front-end.
    pub diagnostics: String,
}

/// Generates the case of a seed.
///
/// # Errors
/// If the front-end refuses the program.
pub fn generate_case(seed: u64, config: &Config) -> Result<TestCase, Box<RefusedProgram>> {
    // Two of three programs avoid features for which the JIT falls back to the interpreter for the
    // whole program.
    let plain = config.clone().plain();
    let config = if seed.is_multiple_of(3) { config } else { &plain };
    let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let program = generate_program(&mut rng, config);
    let text = print_program(&program);
    let refused = |diagnostics: String| Box::new(RefusedProgram { text: text.clone(), diagnostics });
    let pipeline = Arc::new(compile(&text, true).map_err(&refused)?);
    let setup = engine_settings(&mut rng, seed);
    let mut writes = Vec::new();
    {
        let mut writes_rng = rng.fork();
        let writer = WriteGenerator::new(&mut writes_rng, &program.pool, pipeline.clone());
        let mut writer = writer.map_err(|error| refused(error.to_string()))?;
        writes.push(writer.initial_writes(config.first_entries.clone()));
        for _ in 0..rng.usize(config.writes.clone()) {
            writes.push(writer.next_writes());
        }
    }
    let mut steps = Vec::new();
    let mut packets_rng = rng.fork();
    let mut packets = PacketGenerator::new(&mut packets_rng, &program, setup.start_ns);
    let mut packets_left = config.packets;
    let rounds = writes.len();
    for (round, batch) in writes.into_iter().enumerate() {
        // Sometimes there is no write before the first packets.
        if round > 0 || rng.u8(..10) > 0 {
            steps.push(TestEvent::Write(batch));
        }
        let share = packets_left / (rounds - round);
        packets_left -= share;
        let mut round_packets = share;
        while round_packets > 0 {
            let size = batch_size(&mut rng).min(round_packets);
            round_packets -= size;
            steps.push(TestEvent::Packets((0..size).map(|_| packets.next_packet()).collect()));
            if rng.u8(..5) == 0 {
                packets.now += rng.u64(..2_000_000);
                steps.push(TestEvent::Tick(packets.now));
            }
        }
    }
    steps.push(TestEvent::Tick(packets.now + 100_000_000));
    Ok(TestCase { seed, source: ProgramSource::Made(Box::new(program)), pipeline, setup, steps })
}

/// Generates a case of the gateway program with a random region and packets of its tenants.
///
/// # Errors
/// If the region or program is refused, which is a bug.
pub fn gateway_case(seed: u64, packets: usize) -> anyhow::Result<TestCase> {
    let mut rng = Rng::with_seed(seed);
    let text = crate::generate::random_region(&mut rng);
    let region = region::parse("made.yaml", &text)
        .map_err(|problems| anyhow::anyhow!("the made region is refused: {problems}"))?;
    let pipeline = gateway::pipeline()?;
    let entries = region::entries(&region, "made.yaml", &pipeline, &mut region::IdAssignments::default())?;
    let mut steps = vec![TestEvent::Write(region::diff(region::GatewayEntries::default(), entries))];
    let (mut packets_left, mut time_ns) = (packets, 0);
    while packets_left > 0 {
        let size = batch_size(&mut rng).min(packets_left);
        packets_left -= size;
        time_ns += 1000;
        let mut next_packet = || {
            let port = rng.u32(..4);
            PacketIn { port, at: time_ns, bytes: crate::generate::random_packet(&mut rng, &region, port) }
        };
        steps.push(TestEvent::Packets((0..size).map(|_| next_packet()).collect()));
    }
    let source = ProgramSource::File("programs/gateway/gateway.p4".to_owned());
    Ok(TestCase { seed, source, pipeline, setup: interp::Config::default(), steps })
}

/// Returns the same case for the program that a switch runs, which has no second pass of packets.
///
/// # Errors
/// Those of [`gateway_case`].
pub fn switch_gateway_case(seed: u64, packets: usize) -> anyhow::Result<TestCase> {
    let case = gateway_case(seed, packets)?;
    Ok(TestCase { pipeline: ir::passes::without_recirculation(&case.pipeline), ..case })
}

/// Returns a batch size: one, few, many, or full.
pub fn batch_size(rng: &mut Rng) -> usize {
    match rng.u8(..8) {
        0 => 1,
        1..4 => rng.usize(2..9),
        4..6 => rng.usize(9..65),
        6 => 32,
        _ => rng.usize(65..=packet::MAX_BATCH),
    }
}

/// Generates the settings of the engines: existing ports, ports to hosts, the CPU port, the time.
pub fn engine_settings(rng: &mut Rng, seed: u64) -> interp::Config {
    interp::Config {
        seed,
        ports: (rng.u8(..4) == 0).then(|| (0..6).collect()),
        host_ports: (0..8).filter(|_| rng.u8(..3) == 0).collect(),
        cpu_port: (rng.u8(..3) == 0).then(|| rng.u32(..8)),
        start_ns: if rng.bool() { 0 } else { rng.u64(..1_000_000_000_000) },
        // A low limit, because copies of copies would dominate the test.
        max_copies: rng.u32(4..64),
        ..interp::Config::default()
    }
}
