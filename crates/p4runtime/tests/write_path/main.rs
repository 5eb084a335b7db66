//! The way of a write, from bytes to tables, held to what must hold whatever a client sends (`held.rs`): random requests for a program with one of
//! everything, some with something wrong in them.
//!
//! TERRACE_SEED repeats a run; TERRACE_FUZZ_SECONDS makes it longer. `make fuzz` does the same with a fuzzer.

mod device;
mod generate;
mod held;

use generate::Generator;
use held::{Bench, Kind, Tally, frame};
use p4runtime::Forwarding;
use prost::Message;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long, unless TERRACE_FUZZ_SECONDS says otherwise.
const SECONDS: u64 = 4;

/// A program with one of everything.
fn forwarding() -> Forwarding {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let options = p4::compile::Options { include_dirs: vec![root.join("programs/include")], ..Default::default() };
    let file = root.join("crates/terraced/tests/programs/everything.p4");
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &file, &options);
    let pipeline = Arc::new(compiled.pipeline.expect("it compiles"));
    let p4info = p4runtime::p4info::to_message(&ir::p4info::generate(&pipeline)).encode_to_vec().into();
    Forwarding { device_config: ir::text::print(&pipeline).into_bytes().into(), pipeline, p4info, cookie: None }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// An input: some requests, one in three with something wrong.
fn input(generator: &mut Generator) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..generator.rng.usize(1..7) {
        let framed = match generator.rng.u8(..10) {
            0 => frame(Kind::Read, &generator.read()),
            1 => frame(Kind::Stream, &generator.message()),
            _ => {
                let mut write = generator.write();
                if generator.rng.u8(..3) == 0 {
                    generator.spoil(&mut write);
                }
                frame(Kind::Write, &write)
            }
        };
        out.extend(framed);
    }
    if generator.rng.u8(..20) == 0 {
        let place = generator.rng.usize(..out.len());
        out[place] = generator.rng.u8(..);
    }
    out
}

#[test]
fn whatever_is_written_is_refused_without_a_trace_or_can_be_read_and_written_again() {
    let seed = variable("TERRACE_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("TERRACE_SEED={seed}");
    let forwarding = forwarding();
    let info = p4runtime::p4info::to_message(&ir::p4info::generate(&forwarding.pipeline));
    let (mut bench, mut generator) = (Bench::new(forwarding), Generator::new(info, seed));
    let (mut tally, mut inputs, began) = (Tally::default(), 0u64, Instant::now());
    let time = Duration::from_secs(variable("TERRACE_FUZZ_SECONDS").unwrap_or(SECONDS));
    // As many as anybody would, and on a slow machine enough to mean something.
    while began.elapsed() < time || inputs < 200 {
        let input = input(&mut generator);
        tally.add(bench.run(&input));
        inputs += 1;
    }
    println!("{inputs} inputs in {:?}: {tally:?}", began.elapsed());
    assert!(tally.accepted > inputs / 10 && tally.refused > inputs / 10, "one-sided: {tally:?}");
    assert!(tally.updates > inputs, "too few updates were accepted to mean anything: {tally:?}");
}

/// What fuzzing starts from, if TERRACE_FUZZ_SEEDS says where it is to be: a folder that is made.
#[test]
fn seeds_for_a_fuzzer_are_right_requests() {
    let forwarding = forwarding();
    let info = p4runtime::p4info::to_message(&ir::p4info::generate(&forwarding.pipeline));
    let (mut bench, mut generator) = (Bench::new(forwarding), Generator::new(info, 1));
    let folder = std::env::var_os("TERRACE_FUZZ_SEEDS");
    let mut tally = Tally::default();
    for number in 0..200 {
        let input = input(&mut generator);
        tally.add(bench.run(&input));
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).expect("the folder can be made");
            std::fs::write(Path::new(folder).join(number.to_string()), input).expect("it can be written");
        }
    }
    assert!(tally.updates > 200, "{tally:?}");
}
