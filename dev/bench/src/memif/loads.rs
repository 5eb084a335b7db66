//! [`Load`]: what both processes found in all windows of one load, and what is said of it.

use super::times::Summary;
use super::{Done, Found, GROUP, both};
use crate::report::Report;
use crate::run::Entry;
use anyhow::ensure;
use std::path::Path;

/// One measurement, by both processes.
pub(super) type Window = (Found, Done);

/// One load, in all its windows.
pub(super) struct Load {
    name: &'static str,
    pub windows: Vec<Window>,
}

impl Load {
    pub fn new(name: &'static str) -> Load {
        Load { name, windows: Vec::new() }
    }

    /// Measures once more; the rate at which packets came back.
    pub fn run(&mut self, programs: &Path, core: usize, rate: f64, seconds: f64) -> anyhow::Result<f64> {
        let (found, done) = both(programs, core, rate, seconds)?;
        check(self.name, &found, &done)?;
        let rate = found.rate;
        self.windows.push((found, done));
        Ok(rate)
    }

    /// Says a figure of the windows: the median, the least and the most.
    pub fn say(&self, name: &str, unit: &str, report: &mut Report, figure: impl Fn(&Window) -> f64) {
        let name = if name.is_empty() { self.name.to_owned() } else { format!("{}, {name}", self.name) };
        let all = Entry { name, windows: self.windows.iter().map(figure).collect() };
        report.fact(GROUP, &all.name, all.median(), unit);
        report.fact(GROUP, &format!("{} (least)", all.name), all.min(), unit);
        report.fact(GROUP, &format!("{} (most)", all.name), all.max(), unit);
    }

    /// Says what all windows have together.
    fn sum(&self, name: &str, unit: &str, report: &mut Report, figure: impl Fn(&Window) -> f64) {
        report.fact(GROUP, &format!("{}, {name}", self.name), self.windows.iter().map(figure).sum(), unit);
    }
}

/// How long packets took, and what of that may be the harness's or the machine's. A packet that was under way while the generator was stopped may have
/// waited for the generator; it counts among all packets alone.
pub(super) fn latencies(half: &Load, report: &mut Report) {
    type Which = fn(&Window) -> &Summary;
    let all: [(&str, Which); 3] = [
        ("in the gateway", |(_, done)| &done.inside),
        ("there and back", |(found, _)| &found.timed),
        ("all packets, there and back", |(found, _)| &found.all),
    ];
    for (which, times) in all {
        for (index, name) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
            half.say(&format!("{which}, {name}"), "us", report, |window| times(window).percentiles[index] / 1e3);
        }
        half.say(&format!("{which}, the longest"), "us", report, |window| times(window).longest / 1e3);
        half.sum(&format!("{which}, packets timed"), "packets", report, |window| times(window).samples as f64);
    }
    half.sum("pauses of the generator of 20 us or more", "pauses", report, |(found, _)| found.pauses as f64);
    half.sum("pauses of the generator, all together", "ms", report, |(found, _)| found.paused * 1e3);
    half.say("pauses of the generator, the longest", "us", report, |(found, _)| found.longest_pause * 1e6);
    half.sum("other processes on the generator's core", "ms", report, |(found, _)| found.kept_waiting * 1e3);
    half.sum("other processes on the gateway's core", "ms", report, |(_, done)| done.kept_waiting * 1e3);
    if half.windows.iter().any(|(found, _)| !found.never_stopped) {
        report.note("memif: no real-time priority (not root?): times contain those of other processes");
    }
}

/// Says where all packets of a load are, in all windows together.
pub(super) fn account(load: &Load, report: &mut Report) {
    load.sum("packets sent", "packets", report, |(found, _)| found.sent as f64);
    load.sum("packets back", "packets", report, |(found, _)| found.back as f64);
    load.sum("packets that found no room in the ring", "packets", report, |(found, _)| found.not_sent as f64);
    load.sum("packets lost, with reason", "packets", report, |(found, done)| lost(found, done) as f64);
    load.sum("packets not accounted for", "packets", report, |(found, done)| (done.sent - found.back) as f64);
}

/// Packets that did not get through, and why is known.
fn lost(found: &Found, done: &Done) -> u64 {
    done.dropped + done.lost_at_port + (found.sent - found.sent.min(done.received))
}

/// Sent is what came back and what is known to be lost, and nothing came back wrong.
fn check(load: &str, found: &Found, done: &Done) -> anyhow::Result<()> {
    ensure!(found.wrong == 0, "memif, {load}: {} packets came back wrong", found.wrong);
    ensure!(done.received <= found.sent, "memif, {load}: {done:?} received more than {found:?} sent");
    ensure!(
        done.received == done.sent + done.dropped + done.lost_at_port,
        "memif, {load}: not accounted for: {done:?}"
    );
    ensure!(found.back <= done.sent, "memif, {load}: more came back than left: {found:?}, {done:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_sent_has_to_be_somewhere() {
        let found = Found { sent: 100, back: 90, ..Found::default() };
        let done = Done { received: 95, sent: 90, dropped: 5, ..Done::default() };
        check("full load", &found, &done).expect("5 never arrived, 5 were dropped, 90 came back");
        assert_eq!(lost(&found, &done), 10);
        assert!(check("full load", &found, &Done { received: 96, ..done.clone() }).is_err());
        assert!(check("full load", &Found { wrong: 1, ..found }, &done).is_err());
    }
}
