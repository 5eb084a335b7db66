//! Compares the preprocessor with the machine's cpp on generated inputs: the text including blanks,
//! and the findings by severity and order.
//!
//! `TERRACE_CPP_INPUTS=1000000` sets the number of inputs, `TERRACE_CPP_SEED=7` the first seed; use
//! `--release` for many.

mod cases;
mod generate;
mod reference;
mod shrink;

use p4::preprocess::PreprocessCounts;
use reference::{Outcome, cpp, ours};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of inputs per cpp process.
const BATCH: usize = 400;

fn number_from(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn generated_inputs_come_out_as_from_cpp() {
    let inputs = number_from("TERRACE_CPP_INPUTS", 10_000);
    let first_seed = number_from("TERRACE_CPP_SEED", 1);
    let next = AtomicUsize::new(0);
    let total = Mutex::new((PreprocessCounts::default(), Outcome::default()));
    let batches = inputs.div_ceil(BATCH);
    let dir = std::env::temp_dir().join(format!("terrace-cpp-{}", std::process::id()));
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let dir = dir.join(worker.to_string());
            let (next, total) = (&next, &total);
            scope.spawn(move || {
                loop {
                    let batch = next.fetch_add(1, Ordering::Relaxed);
                    if batch >= batches {
                        break;
                    }
                    let seed = first_seed + batch * BATCH;
                    let count = BATCH.min(inputs - batch * BATCH);
                    let inputs: Vec<String> = (seed..seed + count).map(|seed| generate::input(seed as u64)).collect();
                    let (counts, outcome) = compare(&dir, &inputs, seed);
                    let mut total = total.lock().expect("no thread panics with it");
                    add(&mut total.0, counts);
                    total.1.lines += outcome.lines;
                    total.1.errors += outcome.errors;
                    total.1.warnings += outcome.warnings;
                    if batch % 250 == 249 {
                        eprintln!("{} of {batches} batches", batch + 1);
                    }
                }
            });
        }
    });
    let _ = std::fs::remove_dir_all(&dir);
    let (counts, outcome) = total.into_inner().expect("no thread panicked");
    eprintln!("{inputs} inputs from seed {first_seed}: {counts:?} {outcome:?}");
    // Each comparison must have covered something.
    let each = [
        (counts.expansions, 6),
        (counts.pastes * 10, 1),
        (counts.failed_pastes * 10, 1),
        (counts.strings * 10, 1),
        (counts.branches, 1),
        (counts.splices, 1),
        (outcome.lines, 5),
    ];
    for (at, (count, least)) in each.iter().enumerate() {
        assert!(*count >= inputs * least / 2, "count {at} is {count} for {inputs} inputs");
    }
    assert!(counts.includes >= inputs && outcome.errors >= inputs / 20 && outcome.warnings >= inputs / 20);
}

fn add(total: &mut PreprocessCounts, more: PreprocessCounts) {
    total.expansions += more.expansions;
    total.pastes += more.pastes;
    total.failed_pastes += more.failed_pastes;
    total.strings += more.strings;
    total.branches += more.branches;
    total.splices += more.splices;
    total.includes += more.includes;
}

/// Compares a batch. If it differs, compares its halves down to one input, and shows that input's
/// smallest part that differs. If a batch differs but none of its inputs does, cpp is inconsistent:
/// its output for a macro's name at the end of a line sometimes depends on what it read before.
fn compare(dir: &Path, inputs: &[String], seed: usize) -> (PreprocessCounts, Outcome) {
    let differs = |inputs: &[String]| {
        let (made, theirs) = (ours(inputs), cpp(dir, inputs));
        if theirs.fatal { made.outcome().errors == 0 } else { !made.agrees_with(&theirs) }
    };
    let (made, theirs) = (ours(inputs), cpp(dir, inputs));
    let agrees = !theirs.fatal && made.agrees_with(&theirs);
    if !agrees && inputs.len() > 1 {
        return compare_halves(dir, inputs, seed);
    }
    if !agrees && (0..3).all(|_| differs(inputs)) {
        let small = shrink::shrink(inputs, &differs);
        let (theirs, ours) = (cpp(dir, &small), ours(&small));
        let shown = format!("seed {seed}:\n{}\n=== cpp\n{theirs}\n=== ours\n{ours}\n", small.concat());
        assert!(std::env::var_os("TERRACE_CPP_ALL").is_some(), "{shown}");
        // Continues, to show more than the first.
        eprintln!("{shown}");
    }
    (made.counts, theirs.outcome())
}

/// Compares the halves of a batch, because cpp ends at a missing file, or because one of them
/// differs.
fn compare_halves(dir: &Path, inputs: &[String], seed: usize) -> (PreprocessCounts, Outcome) {
    let (left, right) = inputs.split_at(inputs.len() / 2);
    let (mut counts, mut outcome) = compare(dir, left, seed);
    let (more, what) = compare(dir, right, seed + left.len());
    add(&mut counts, more);
    outcome.lines += what.lines;
    outcome.errors += what.errors;
    outcome.warnings += what.warnings;
    (counts, outcome)
}

/// Creates a folder for one test's files.
fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("terrace-cpp-{}-{name}", std::process::id()))
}

/// Generated inputs with bytes replaced, removed and duplicated: tokens have locations, and nothing
/// panics.
#[test]
fn mutated_inputs_never_panic() {
    let inputs = number_from("TERRACE_CPP_MUTATIONS", 3000);
    let mut random = random_below(42);
    for seed in 0..inputs {
        let mut bytes = generate::input(seed as u64).into_bytes();
        for _ in 0..1 + random(6) {
            if bytes.is_empty() {
                break;
            }
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] = random(256) as u8,
                1 => drop(bytes.drain(at..(at + random(9)).min(bytes.len()))),
                2 => bytes.insert(at, b"#\\\n\"'()/*,@\r"[random(12)]),
                _ => bytes.extend_from_within(at..(at + random(40)).min(bytes.len())),
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let loader = p4::preprocess::MemoryLoader::new().with("h0", "h A\n").with("main", text.as_str());
        let out = p4::preprocess::preprocess(&loader, "main".as_ref(), &p4::preprocess::PreprocessOptions::default());
        for token in &out.tokens {
            assert!(out.source_map.location(token.span).is_some(), "seed {seed}: {token:?} is nowhere in\n{text}");
        }
        for diagnostic in &out.diagnostics {
            assert!(!diagnostic.render(&out.source_map, false).is_empty());
        }
    }
}

/// Returns a generator of random numbers below a bound (xorshift).
fn random_below(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |bound| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    }
}
