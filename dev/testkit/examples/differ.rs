//! Long differential run: random programs, entries and packets on an engine and on the interpreter,
//! until the time is over.
//!
//! `cargo run --release -p testkit --example differ -- --minutes 30 [--seed N] [--cases N]
//! [--subject NAME] [--small]`
//!
//! Each case is generated from one seed, counted up from the first. Differences are shrunk and
//! written to `target/differ/NNN.txt`. The run continues after a difference, and ends with an error
//! if there was any.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::differ::config::Config;
use testkit::differ::coverage::TestCoverage;
use testkit::differ::{plan, report, run, shrink, subjects};
use testkit::gateway;

struct Args {
    minutes: f64,
    seed: u64,
    cases: u64,
    subject: String,
    small: bool,
    shrink: u64,
    out: PathBuf,
}

fn args() -> Result<Args, String> {
    let mut args = Args {
        minutes: 1.0,
        seed: fastrand::u64(..1 << 40),
        cases: u64::MAX,
        subject: subjects::DEFAULT.to_owned(),
        small: false,
        shrink: 60,
        out: gateway::root().join("target/differ"),
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        if name == "--small" {
            args.small = true;
            continue;
        }
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"));
        match name.as_str() {
            "--minutes" => args.minutes = value.parse().map_err(|_| format!("--minutes {value}: not a number"))?,
            "--seed" => args.seed = number()?,
            "--cases" => args.cases = number()?,
            "--shrink-seconds" => args.shrink = number()?,
            "--subject" => args.subject = value,
            "--out" => args.out = value.into(),
            _ => {
                return Err(format!(
                    "unknown option {name}; there are --minutes, --seed, --cases, --subject, --small, --shrink-seconds, --out"
                ));
            }
        }
    }
    Ok(args)
}

fn main() -> Result<(), String> {
    let args = args()?;
    std::fs::create_dir_all(&args.out).map_err(|error| format!("{}: {error}", args.out.display()))?;
    let config = if args.small { Config::small() } else { Config::default() };
    let factory = subjects::factory(&args.subject)?;
    println!("subject {}, first seed {}", args.subject, args.seed);
    let end = Instant::now() + Duration::from_secs_f64(args.minutes * 60.0);
    let (mut tally, mut found, mut told) = (TestCoverage::default(), 0, Instant::now());
    let mut causes: BTreeMap<String, u64> = BTreeMap::new();
    let mut seed = args.seed;
    while Instant::now() < end && seed - args.seed < args.cases {
        // If a subject ends the whole process, its seed remains in this file.
        let _ = std::fs::write(args.out.join("running"), format!("seed {seed}\n"));
        match plan::generate_case(seed, &config) {
            Err(refused) => {
                tally.refused += 1;
                println!("seed {seed} is refused:\n{}\n{}", refused.text, refused.diagnostics);
            }
            Ok(case) => {
                if let Err(difference) = run::run_case(&case, &*factory, &mut tally) {
                    found += 1;
                    let cause =
                        format!("{:?}: {}", difference.kind, difference.what.lines().next().unwrap_or_default());
                    *causes.entry(cause.clone()).or_default() += 1;
                    println!("seed {seed}: {cause}");
                    let time = Duration::from_secs(args.shrink);
                    let (case, difference) = shrink::shrink_case(case, difference, &*factory, time);
                    let small = if args.small { " --small" } else { "" };
                    let rerun = format!(
                        "cargo run --release -p testkit --example differ -- --cases 1 --subject {} --seed {seed}{small}",
                        args.subject
                    );
                    let text = report::render_report(&case, &difference, &args.subject, &rerun);
                    let path = args.out.join(format!("{found:03}.txt"));
                    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
                    println!("  {}", path.display());
                }
            }
        }
        seed += 1;
        if told.elapsed() > Duration::from_secs(20) {
            told = Instant::now();
            println!("seed {seed}: {tally}\n{found} differences");
        }
    }
    println!("{tally}");
    for (feature, programs) in &tally.features {
        println!("  {programs:6} {feature}");
    }
    println!("seeds {}..{seed}: {found} differences", args.seed);
    if found > 0 { Err(format!("{found} differences, see {}", args.out.display())) } else { Ok(()) }
}
