//! The gateway program and its naive model agree on random regions and packets.
//!
//! One comparison checks the program, the front-end, the passes, the region's entries and the interpreter. The seed is printed;
//! `SEED=n` repeats a run, `ROUNDS=n` makes it longer.

use fastrand::Rng;
use testkit::differ::number;
use testkit::generate::Seen;
use testkit::model::{Model, Outcome};
use testkit::{gateway, generate};

fn compare(pipeline: &std::sync::Arc<ir::Pipeline>, rng: &mut Rng, packets: usize, seen: &mut Seen) {
    let text = generate::region(rng);
    let region = region::parse("made.yaml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let model = Model::new(&region);
    let mut engine = gateway::serve(pipeline.clone(), &region).expect("entries are taken");
    for _ in 0..packets {
        let packet = generate::packet(rng, &region, 1);
        let expected = model.process(&packet, 1);
        let outputs = engine.process(&packet, 1, 0);
        let found = gateway::outcome(&engine, &outputs);
        let agree = match (&expected, &found) {
            (Outcome::Drop(reason), Ok((_, Some(name)))) => reason == name,
            (expected, Ok((found, None))) => expected == found,
            _ => false,
        };
        if !agree {
            let (_, trace) = engine.trace(&packet, 1, 0);
            panic!("model: {expected:02x?}\nprogram: {found:02x?}\npacket: {packet:02x?}\n{trace}\n{text}");
        }
        let kind = match expected {
            Outcome::Drop(reason) => reason.to_owned(),
            Outcome::Cpu => "cpu".to_owned(),
            Outcome::Send { .. } => "sent".to_owned(),
        };
        *seen.entry(kind).or_default() += 1;
    }
}

#[test]
fn the_program_does_what_the_model_does() {
    let seed = number("SEED", rand_seed());
    let rounds = number("ROUNDS", 40);
    println!("SEED={seed} ROUNDS={rounds}");
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let mut rng = Rng::with_seed(seed);
    let (seen, round) = generate::rounds(rounds, |_, seen| compare(&pipeline, &mut rng, 500, seen));
    let total: usize = seen.values().sum();
    assert_eq!(total as u64, round * 500);
    assert!(seen.get("sent").copied().unwrap_or_default() > total / 10, "too few packets were forwarded: {seen:?}");
    assert!(seen.len() >= 20, "only these outcomes were compared: {seen:?}");
}

/// Another seed each time.
fn rand_seed() -> u64 {
    fastrand::u64(..1 << 32)
}

#[test]
fn truncated_packets_are_never_forwarded() {
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let region = region::parse("lab.yaml", include_str!("../../../examples/lab.yaml")).expect("the example is right");
    let mut engine = gateway::serve(pipeline, &region).expect("entries are taken");
    let ip = |s: &str| s.parse().expect("an address");
    let inner = testkit::frame::Ip::new(ip("10.0.0.11"), ip("10.0.0.12"), 17, testkit::frame::segment(1000, 53, 40));
    let mut whole = testkit::frame::Tunnelled::new((ip("192.0.2.11"), ip("192.0.2.1")), 100, inner);
    whole.mac = region.file.uplinks[0].mac.value.0;
    let whole = whole.bytes();
    assert_eq!(engine.process(&whole, 1, 0).sent().count(), 1, "the whole packet passes");
    for length in 0..whole.len() {
        let outputs = engine.process(&whole[..length], 1, 0);
        assert_eq!(outputs.sent().count(), 0, "{length} bytes of {} were forwarded", whole.len());
        assert_eq!(outputs.drops().count(), 1, "{length} bytes were not dropped with a reason");
    }
}
