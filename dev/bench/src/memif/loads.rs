//! [`LoadResults`]: results of both processes in all windows of one load, and their report.

use super::times::LatencySummary;
use super::{GROUP, GatewayResult, GeneratorResult, run_both};
use crate::report::Report;
use crate::run::EntrantResult;
use anyhow::ensure;
use std::path::Path;

/// Results of both processes in one window.
pub(super) type WindowResult = (GeneratorResult, GatewayResult);

/// One load, with all its windows.
pub(super) struct LoadResults {
    name: &'static str,
    pub windows: Vec<WindowResult>,
}

impl LoadResults {
    pub fn new(name: &'static str) -> LoadResults {
        LoadResults { name, windows: Vec::new() }
    }

    /// Measures another window. Returns the rate at which packets came back.
    pub fn run(&mut self, programs: &Path, core: usize, rate: f64, seconds: f64) -> anyhow::Result<f64> {
        let (found, done) = run_both(programs, core, rate, seconds)?;
        check_account(self.name, &found, &done)?;
        let rate = found.rate;
        self.windows.push((found, done));
        Ok(rate)
    }

    /// Reports a figure of the windows: median, minimum and maximum.
    pub fn report_windows(&self, name: &str, unit: &str, report: &mut Report, figure: impl Fn(&WindowResult) -> f64) {
        let name = if name.is_empty() { self.name.to_owned() } else { format!("{}, {name}", self.name) };
        let all = EntrantResult { name, windows: self.windows.iter().map(figure).collect() };
        report.fact(GROUP, &all.name, all.median(), unit);
        report.fact(GROUP, &format!("{} (least)", all.name), all.min(), unit);
        report.fact(GROUP, &format!("{} (most)", all.name), all.max(), unit);
    }

    /// Reports the sum of a figure over all windows.
    fn sum(&self, name: &str, unit: &str, report: &mut Report, figure: impl Fn(&WindowResult) -> f64) {
        report.fact(GROUP, &format!("{}, {name}", self.name), self.windows.iter().map(figure).sum(), unit);
    }
}

/// Reports the latency of packets, and the pauses of the generator and the machine that may have
/// affected it. A packet that was in flight during a pause of the generator may have waited for the
/// generator, so it is included only in "all packets".
pub(super) fn latencies(half: &LoadResults, report: &mut Report) {
    type PickLatency = fn(&WindowResult) -> &LatencySummary;
    let latencies: [(&str, PickLatency); 3] = [
        ("in the gateway", |(_, gateway)| &gateway.inside),
        ("there and back", |(generator, _)| &generator.timed),
        ("all packets, there and back", |(generator, _)| &generator.all),
    ];
    for (name, latency) in latencies {
        for (index, percentile) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
            half.report_windows(&format!("{percentile}, {percentile}"), "us", report, |window| {
                latency(window).percentiles[index] / 1e3
            });
        }
        half.report_windows(&format!("{name}, the longest"), "us", report, |window| latency(window).longest / 1e3);
        half.sum(&format!("{name}, packets timed"), "packets", report, |window| latency(window).samples as f64);
    }
    half.sum("pauses of the generator of 20 us or more", "pauses", report, |(generator, _)| generator.pauses as f64);
    half.sum("pauses of the generator, all together", "ms", report, |(generator, _)| generator.paused * 1e3);
    half.report_windows("pauses of the generator, the longest", "us", report, |(generator, _)| {
        generator.longest_pause * 1e6
    });
    half.sum("other processes on the generator's core", "ms", report, |(generator, _)| generator.kept_waiting * 1e3);
    half.sum("other processes on the gateway's core", "ms", report, |(_, gateway)| gateway.kept_waiting * 1e3);
    if half.windows.iter().any(|(generator, _)| !generator.never_stopped) {
        report.note("memif: no real-time priority (not root?): times contain those of other processes");
    }
}

/// Reports the number of packets of a load by outcome, over all windows.
pub(super) fn report_account(load: &LoadResults, report: &mut Report) {
    load.sum("packets sent", "packets", report, |(found, _)| found.sent as f64);
    load.sum("packets back", "packets", report, |(found, _)| found.back as f64);
    load.sum("packets that found no room in the ring", "packets", report, |(found, _)| found.not_sent as f64);
    load.sum("packets lost, with reason", "packets", report, |(found, done)| lost_packets(found, done) as f64);
    load.sum("packets not accounted for", "packets", report, |(found, done)| (done.sent - found.back) as f64);
}

/// Returns the number of lost packets with a known reason.
fn lost_packets(found: &GeneratorResult, done: &GatewayResult) -> u64 {
    done.dropped + done.lost_at_port + (found.sent - found.sent.min(done.received))
}

/// Checks that all sent packets came back or are known to be lost, and that none came back wrong.
fn check_account(load: &str, found: &GeneratorResult, done: &GatewayResult) -> anyhow::Result<()> {
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
        let found = GeneratorResult { sent: 100, back: 90, ..GeneratorResult::default() };
        let done = GatewayResult { received: 95, sent: 90, dropped: 5, ..GatewayResult::default() };
        check_account("full load", &found, &done).expect("5 never arrived, 5 were dropped, 90 came back");
        assert_eq!(lost_packets(&found, &done), 10);
        assert!(check_account("full load", &found, &GatewayResult { received: 96, ..done.clone() }).is_err());
        assert!(check_account("full load", &GeneratorResult { wrong: 1, ..found }, &done).is_err());
    }
}
