//! Compares the gateway program with its naive model on random regions and packets.
//!
//! One comparison checks the program, the front end, the passes, the region's entries and the
//! interpreter. The seed is printed; `SEED=n` repeats a run, `ROUNDS=n` makes it longer.

use fastrand::Rng;
use testkit::differ::env_number;
use testkit::generate::OutcomeCounts;
use testkit::model::{Model, ModelVerdict};
use testkit::{gateway, generate};

fn compare(pipeline: &std::sync::Arc<ir::Pipeline>, rng: &mut Rng, packets: usize, seen: &mut OutcomeCounts) {
    let text = generate::random_region(rng);
    let region = region::parse("made.yaml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let model = Model::new(&region);
    let mut engine = gateway::gateway_engine(pipeline.clone(), &region).expect("entries are taken");
    // A second apart, so that no limit of ICMP errors is reached.
    for now in (0..packets as u64).map(|second| second * 1_000_000_000) {
        let packet = generate::random_packet(rng, &region, 1);
        let expected = model.process(&packet, 1);
        let outputs = engine.process(&packet, 1, now);
        let found = gateway::model_verdict(&engine, &outputs);
        let agree = found.as_ref().is_ok_and(|found| *found == expected);
        if !agree {
            let (_, trace) = engine.trace(&packet, 1, now);
            panic!("model: {expected:02x?}\nprogram: {found:02x?}\npacket: {packet:02x?}\n{trace}\n{text}");
        }
        let kind = match expected {
            ModelVerdict::Drop(reason) => reason.into_owned(),
            ModelVerdict::Tell { reason, error } => {
                if matches!(*error, ModelVerdict::Send { .. }) {
                    *seen.entry(format!("told: {reason}")).or_default() += 1;
                }
                reason.into_owned()
            }
            ModelVerdict::Cpu => "cpu".to_owned(),
            ModelVerdict::Send { .. } => "sent".to_owned(),
        };
        *seen.entry(kind).or_default() += 1;
    }
}

#[test]
fn the_program_does_what_the_model_does() {
    let seed = env_number("SEED", rand_seed());
    let rounds = env_number("ROUNDS", 40);
    println!("SEED={seed} ROUNDS={rounds}");
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let mut rng = Rng::with_seed(seed);
    let (mut seen, round) = generate::compare_in_rounds(rounds, |_, seen| compare(&pipeline, &mut rng, 500, seen));
    let told = ["inner_ttl_expired", "exceeds_mtu", "no_route", "unknown_vm", "acl_rejected_out", "acl_rejected_in"];
    for reason in told {
        let errors = seen.remove(&format!("told: {reason}")).unwrap_or_default();
        assert!(errors > 0, "no ICMP error about {reason} was compared: {seen:?}");
    }
    seen.retain(|outcome, _| !outcome.starts_with("told: "));
    let total: usize = seen.values().sum();
    assert_eq!(total as u64, round * 500);
    assert!(seen.get("sent").copied().unwrap_or_default() > total / 10, "too few packets were forwarded: {seen:?}");
    assert!(seen.len() >= 20, "only these outcomes were compared: {seen:?}");
}

/// Returns another seed each time.
fn rand_seed() -> u64 {
    fastrand::u64(..1 << 32)
}

#[test]
fn truncated_packets_are_never_forwarded() {
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let region =
        region::parse("lab.yaml", include_str!("../../../../tests/regions/plain.yaml")).expect("the example is right");
    let mut engine = gateway::gateway_engine(pipeline, &region).expect("entries are taken");
    let ip = |s: &str| s.parse().expect("an address");
    let inner =
        testkit::frame::IpPacket::new(ip("10.0.0.11"), ip("10.0.0.12"), 17, testkit::frame::segment(1000, 53, 40));
    let mut whole = testkit::frame::VxlanFrame::new((ip("192.0.2.11"), ip("192.0.2.1")), 100, inner);
    whole.mac = region.file.uplinks[0].mac.value.0;
    let whole = whole.bytes();
    assert_eq!(engine.process(&whole, 1, 0).sent().count(), 1, "the whole packet passes");
    for length in 0..whole.len() {
        let outputs = engine.process(&whole[..length], 1, 0);
        assert_eq!(outputs.sent().count(), 0, "{length} bytes of {} were forwarded", whole.len());
        assert_eq!(outputs.drops().count(), 1, "{length} bytes were not dropped with a reason");
    }
}
