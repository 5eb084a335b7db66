//! The bars: what the project wants to reach, as ratios within one run, and whether this run reached it.

use super::Report;
use crate::lookups::{lpm, ternary};
use crate::world::{Choice, Layout};
use crate::{compile, forward, memif, switches, updates, workers};
use serde::{Deserialize, Serialize};

/// Whether a bar was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Found is at least (for times: at most) what was wanted.
    Reached,
    /// It is not.
    Missed,
    /// The run did not measure all of it.
    NotMeasured,
}

/// A bar, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// What is compared with what.
    pub what: String,
    /// The ratio or figure that is wanted.
    pub wanted: f64,
    /// What was found.
    pub found: Option<f64>,
    /// Reached or not.
    pub verdict: Verdict,
}

impl Bar {
    /// At least `wanted`.
    pub fn at_least(what: &str, wanted: f64, found: Option<f64>) -> Bar {
        Bar::judge(what, wanted, found, |found| found >= wanted)
    }

    /// At most `wanted`.
    pub fn at_most(what: &str, wanted: f64, found: Option<f64>) -> Bar {
        Bar::judge(what, wanted, found, |found| found <= wanted)
    }

    fn judge(what: &str, wanted: f64, found: Option<f64>, good: impl Fn(f64) -> bool) -> Bar {
        let found = found.filter(|found| found.is_finite());
        let verdict = match found {
            Some(found) if good(found) => Verdict::Reached,
            Some(_) => Verdict::Missed,
            None => Verdict::NotMeasured,
        };
        Bar { what: what.to_owned(), wanted, found, verdict }
    }
}

/// All bars, judged on a run.
pub fn bars(report: &Report) -> Vec<Bar> {
    let mut bars = lookups(report);
    bars.extend(many_tenants(report));
    bars.extend(one_tenant(report));
    bars.extend(gateway(report));
    bars.push({
        let rate = |entrant| report.median(workers::CHART, "100k", entrant);
        Bar::at_least("two workers / one", 1.8, ratio(rate("two workers"), rate("one worker")))
    });
    let p999 = report.value(memif::GROUP, "half load, in the gateway, p99.9");
    bars.push(Bar::at_most("memif, half load: p99.9 in the gateway, us", 50.0, p999));
    let median = report.value(compile::GROUP, compile::MEDIAN);
    bars.push(Bar::at_most("terrace compile, gateway.p4, from start to end, ms", 50.0, median));
    let median = report.value(compile::NATIVE, compile::MEDIAN);
    bars.push(Bar::at_most("native code, gateway.p4, ms", 50.0, median));
    bars
}

fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b?)
}

/// Ours against DPDK's, in the charts of `lookups`.
fn lookups(report: &Report) -> Vec<Bar> {
    let against = |chart: &str, x: &str, peer: &str, wanted: f64| {
        let found = ratio(ours(report, chart, x), report.median(chart, x, peer));
        Bar::at_least(&format!("{chart}, {x}: terrace / {peer}"), wanted, found)
    };
    let mut bars = Vec::new();
    for chart in ["exact, 8-byte keys", "exact, 20-byte keys"] {
        for x in ["1M", "16M"] {
            bars.push(against(chart, x, "rte_hash", 1.3));
        }
    }
    // The point of a chart of routes is how many the data set has.
    for (chart, peer, wanted) in [(lpm::IPV4, "rte_fib", 0.9), (lpm::IPV6, "rte_fib6", 1.5)] {
        let x = report.outcomes.iter().find(|o| o.chart == chart).map_or("all routes", |o| &o.x);
        bars.push(against(chart, x, peer, wanted));
    }
    for set in ternary::SETS {
        for trace in ternary::TRACES {
            bars.push(against(&ternary::chart(trace), set, "rte_acl", 0.8));
        }
        let p99 = |change| report.value(ternary::CHANGES, &ternary::change(set, change, "p99"));
        let slower = p99("insert").zip(p99("delete")).map(|(insert, delete)| insert.max(delete));
        bars.push(Bar::at_most(&format!("ternary, {set}: p99 of a change, us"), 50.0, slower));
    }
    let bulk = ours(report, "exact, 8-byte keys, inserts in bulk", "1M");
    bars.push(Bar::at_least("exact table alone, 1M: inserts in bulk, M/s", 2.0, bulk));
    let single = ours(report, "exact, 8-byte keys, one insert and one delete", "1M");
    bars.push(Bar::at_least("exact table alone, 1M: inserts and deletes one at a time, M/s", 0.3, single));
    bars.extend(updates(report));
    bars
}

/// How fast entries come and go while another core looks up.
fn updates(report: &Report) -> Vec<Bar> {
    let group = updates::group(updates::JUDGED);
    let wanted = [2.0, 2.0, 0.3, 0.3];
    let bar = |(name, wanted): (&&str, f64)| {
        Bar::at_least(&format!("{group}: {name}, M/s"), wanted, report.value(&group, name))
    };
    updates::RATES.iter().zip(wanted).map(bar).collect()
}

/// The best of our entrants at a point of a chart: `terrace`, with or without more words.
fn ours(report: &Report, chart: &str, x: &str) -> Option<f64> {
    let at = report.outcomes.iter().filter(|o| o.chart == chart && o.x == x).flat_map(|o| &o.entries);
    at.filter(|entry| entry.name.starts_with("terrace")).map(|entry| entry.median()).reduce(f64::max)
}

/// The chart that the bars are about: VMs are hit uniformly at random.
fn uniform(layout: Layout) -> String {
    forward::chart(layout, Choice::Uniform)
}

fn many_tenants(report: &Report) -> Vec<Bar> {
    let chart = uniform(Layout::ManyTenants);
    let rate = |x: &str, entrant: &str| report.median(&chart, x, entrant);
    let limit = forward::limit_name(2);
    vec![
        Bar::at_least(
            "overlay, many tenants, 1M VMs / limit of the same two lines",
            0.6,
            ratio(rate("1M", "overlay"), rate("1M", &limit)),
        ),
        Bar::at_least(
            "overlay, many tenants, 1M VMs / XDP",
            8.0,
            ratio(rate("1M", "overlay"), rate("1M", forward::XDP)),
        ),
        Bar::at_least(
            "overlay, many tenants, 16M VMs / 1M",
            0.75,
            ratio(rate("16M", "overlay"), rate("1M", "overlay")),
        ),
    ]
}

fn one_tenant(report: &Report) -> Vec<Bar> {
    let chart = uniform(Layout::OneTenant);
    let rate = |x: &str| report.median(&chart, x, "overlay");
    let ovs = |x: &str, entrant: &str| report.median(switches::CHART, x, entrant);
    let against = |x: &str| ratio(ovs(x, "overlay"), ovs(x, "OVS-DPDK"));
    vec![
        Bar::at_least("overlay, one large tenant, 1M VMs, Mpps", 30.0, rate("1M")),
        Bar::at_least("overlay, one large tenant / OVS-DPDK, 100k flows", 12.0, against("100k")),
        Bar::at_least("overlay, one large tenant / OVS-DPDK, 1M flows", 100.0, against("1M")),
        Bar::at_least("overlay, 1k VMs, Mpps", 40.0, rate("1k")),
        Bar::at_least("overlay, 1k VMs / OVS-DPDK with one flow", 3.5, ratio(rate("1k"), ovs("1", "OVS-DPDK"))),
        Bar::at_least("overlay, one large tenant, 16M VMs / 1M", 0.75, ratio(rate("16M"), rate("1M"))),
    ]
}

fn gateway(report: &Report) -> Vec<Bar> {
    let chart = uniform(Layout::ManyTenants);
    let rate = |x: &str, entrant: &str| report.median(&chart, x, entrant);
    let limit = forward::limit_name(5);
    vec![
        Bar::at_least(
            "gateway, many tenants, 1M VMs / limit of the same five lines",
            0.35,
            ratio(rate("1M", "gateway"), rate("1M", &limit)),
        ),
        Bar::at_least("gateway, many tenants, 16M VMs / 1M", 0.7, ratio(rate("16M", "gateway"), rate("1M", "gateway"))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_neither_reached_nor_missed() {
        assert_eq!(Bar::at_least("a", 1.3, Some(1.31)).verdict, Verdict::Reached);
        assert_eq!(Bar::at_least("a", 1.3, Some(1.29)).verdict, Verdict::Missed);
        assert_eq!(Bar::at_most("a", 50.0, Some(49.0)).verdict, Verdict::Reached);
        assert_eq!(Bar::at_least("a", 1.3, ratio(Some(1.0), None)).verdict, Verdict::NotMeasured);
        assert_eq!(Bar::at_least("a", 1.3, ratio(Some(1.0), Some(0.0))).verdict, Verdict::NotMeasured);
        assert!(bars(&Report::default()).iter().all(|bar| bar.verdict == Verdict::NotMeasured));
    }
}
