//! Measures TCP and small packets between two kernels with VXLAN, through Linux's own VXLAN and
//! routing, raw sockets, and the flow cache at tc and at XDP, in one run.
//!
//! ```sh
//! cargo build --release -p terraced
//! cargo run --release -p terraced --example tunnelled_tcp -- [ROUNDS] [SECONDS] [BEFORE]   # as root; needs iperf3
//! ```
//!
//! Each system has three network namespaces: a sender, the gateway, a receiver, on veth pairs. In
//! each round, all systems are measured one after the other, so that other work on the machine
//! meets all of them. Offloads are as they come, except for XDP: its senders have them off, as it
//! needs, and a second line has them on.
//!
//! BEFORE is the binary `terraced` of another build, whose raw sockets are measured in the same
//! rounds; its senders have no offloads.
//!
//! Retransmissions alone are no measure, because backlogs of several processors reorder packets:
//! those that the receiver reports as duplicates (DSACK) were sent for nothing, and only the others
//! were losses.

mod world;

use std::path::PathBuf;
use std::time::Duration;
use world::{System, World};

/// Results of one system.
#[derive(Default)]
struct Samples {
    gigabits: Vec<f64>,
    /// Retransmissions without the ones for nothing.
    lost: Vec<f64>,
    resent: Vec<f64>,
    /// Segments with a wrong checksum at the receiver.
    wrong: f64,
    /// Thousand small packets a second.
    small: Vec<f64>,
}

/// Median, least and most.
fn spread(samples: &[f64]) -> (f64, f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    (at(sorted.len() / 2), at(0), at(sorted.len().saturating_sub(1)))
}

/// Starts all systems, measures them in each round, and prints their results and ratios.
fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().and_then(|argument| argument.parse().ok()).unwrap_or(5);
    let seconds: u64 = arguments.next().and_then(|argument| argument.parse().ok()).unwrap_or(3);
    let previous_build = arguments.next().map(PathBuf::from);
    let terraced = std::env::current_exe()?.with_file_name("../terraced");
    let binary = |system: System| if system == System::RawBefore { previous_build.as_ref() } else { Some(&terraced) };
    let systems = System::ALL.into_iter().filter_map(|system| Some(World::new(system, binary(system)?)));
    let worlds = systems.collect::<anyhow::Result<Vec<World>>>()?;
    let mut samples: Vec<Samples> = worlds.iter().map(|_| Samples::default()).collect();
    for round in 0..rounds {
        for (world, samples) in worlds.iter().zip(&mut samples) {
            match world.tcp(seconds) {
                Ok(result) => {
                    samples.gigabits.push(result.gigabits);
                    samples.resent.push(result.resent as f64);
                    samples.wrong += result.wrong as f64;
                    samples.lost.push(result.resent.saturating_sub(result.for_nothing) as f64);
                }
                Err(error) => {
                    eprintln!("round {round}, {}: {error}", world.system.name());
                    samples.gigabits.push(0.0);
                }
            }
            samples.small.push(world.small_packets(Duration::from_secs(seconds.div_ceil(2)))? / 1e3);
        }
    }
    println!("{rounds} rounds of {seconds} s; median (least to most)");
    println!(
        "{:<28} {:>24} {:>20} {:>8} {:>8} {:>26}",
        "system", "TCP, Gbit/s", "resent", "lost", "bad sums", "104 bytes, kpps"
    );
    for (world, samples) in worlds.iter().zip(&samples) {
        let summary = |values: &[f64], digits: usize| {
            let (median, least, most) = spread(values);
            format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
        };
        println!(
            "{:<28} {:>24} {:>20} {:>8.0} {:>8.0} {:>26}",
            world.system.name(),
            summary(&samples.gigabits, 2),
            summary(&samples.resent, 0),
            samples.lost.iter().fold(0.0, |sum, lost| sum + lost),
            samples.wrong,
            summary(&samples.small, 0),
        );
    }
    // By round, because other work on the machine differs between rounds.
    let ratio = |of: fn(&Samples) -> &[f64], above: System, below: System| {
        let [above, below] = [above, below].map(|system| of(&samples[system as usize]));
        let ratios: Vec<f64> = above.iter().zip(below).map(|(above, below)| above / below).collect();
        let (median, least, most) = spread(&ratios);
        format!("{median:.2} ({least:.2} to {most:.2})")
    };
    println!("TCP, tc to Linux, by round: {}", ratio(|of| &of.gigabits, System::Tc, System::Linux));
    println!("TCP, raw to Linux, by round: {}", ratio(|of| &of.gigabits, System::Raw, System::Linux));
    println!("small packets, tc to XDP, by round: {}", ratio(|of| &of.small, System::Tc, System::Xdp));
    if previous_build.is_some() {
        println!("TCP, raw to before, by round: {}", ratio(|of| &of.gigabits, System::Raw, System::RawBefore));
        println!("small packets, raw to before, by round: {}", ratio(|of| &of.small, System::Raw, System::RawBefore));
    }
    worlds.iter().for_each(World::print_notes);
    Ok(())
}
