//! Checks the write path, from bytes to tables, against the invariants in `held.rs`: random
//! requests for a program with one of every feature, some of them invalid.
//!
//! TERRACE_SEED repeats a run; TERRACE_FUZZ_SECONDS makes it longer. `make fuzz` does the same with
//! a fuzzer.

mod device;
mod generate;
mod held;

use generate::Generator;
use held::{Bench, Kind, Tally, frame};
use p4runtime::PipelineConfig;
use prost::Message;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Duration, unless TERRACE_FUZZ_SECONDS sets it.
const SECONDS: u64 = 4;

/// Returns a program with one of every feature.
fn forwarding() -> PipelineConfig {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let options =
        p4::compile::CompileOptions { include_dirs: vec![root.join("programs/include")], ..Default::default() };
    let file = root.join("crates/terraced/tests/programs/everything.p4");
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &file, &options);
    let pipeline = Arc::new(compiled.pipeline.expect("it compiles"));
    let p4info = p4runtime::p4info::to_message(&ir::p4info::generate(&pipeline)).encode_to_vec().into();
    PipelineConfig { device_config: ir::text::print(&pipeline).into_bytes().into(), pipeline, p4info, cookie: None }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns an input of several requests, one in three invalid.
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
    // Until the time is over, and a minimum of inputs on a slow machine.
    while began.elapsed() < time || inputs < 200 {
        let input = input(&mut generator);
        tally.add(bench.run(&input));
        inputs += 1;
    }
    println!("{inputs} inputs in {:?}: {tally:?}", began.elapsed());
    assert!(tally.accepted > inputs / 10 && tally.refused > inputs / 10, "one-sided: {tally:?}");
    assert!(tally.updates > inputs, "too few updates were accepted to mean anything: {tally:?}");
}

/// Writes the fuzzer's initial inputs to a new folder, if TERRACE_FUZZ_SEEDS names one.
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
