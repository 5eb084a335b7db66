//! Performance targets of the project, as ratios within one run, and their verdicts for this run.

use super::Report;
use crate::lookups::{lpm, ternary};
use crate::services::{self, Service};
use crate::workload::{FlowDistribution, TenantLayout};
use crate::{compile, forward, memif, state, switches, updates, workers};
use serde::{Deserialize, Serialize};

/// Verdict on a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The found value is at least (for times: at most) the target.
    Reached,
    /// The target was missed.
    Missed,
    /// The run did not measure all values of the target.
    NotMeasured,
}

/// A performance target with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PerfTarget {
    /// Description of the comparison.
    pub what: String,
    /// Target ratio or figure.
    pub wanted: f64,
    /// Measured value.
    pub found: Option<f64>,
    /// Verdict.
    pub verdict: Verdict,
}

impl PerfTarget {
    /// Creates a target of at least `wanted`.
    pub fn at_least(what: &str, wanted: f64, found: Option<f64>) -> PerfTarget {
        PerfTarget::with_verdict(what, wanted, found, |found| found >= wanted)
    }

    /// Creates a target of at most `wanted`.
    pub fn at_most(what: &str, wanted: f64, found: Option<f64>) -> PerfTarget {
        PerfTarget::with_verdict(what, wanted, found, |found| found <= wanted)
    }

    fn with_verdict(what: &str, wanted: f64, found: Option<f64>, good: impl Fn(f64) -> bool) -> PerfTarget {
        let found = found.filter(|found| found.is_finite());
        let verdict = match found {
            Some(found) if good(found) => Verdict::Reached,
            Some(_) => Verdict::Missed,
            None => Verdict::NotMeasured,
        };
        PerfTarget { what: what.to_owned(), wanted, found, verdict }
    }
}

/// Judges all targets for a run.
pub fn judge_targets(report: &Report) -> Vec<PerfTarget> {
    let mut bars = lookup_targets(report);
    bars.extend(many_tenant_targets(report));
    bars.extend(one_tenant_targets(report));
    bars.extend(gateway_targets(report));
    bars.push({
        let rate = |entrant| report.median(workers::CHART, "100k", entrant);
        PerfTarget::at_least("two workers / one", 1.8, ratio(rate("two workers"), rate("one worker")))
    });
    bars.extend(state_targets(report));
    bars.extend(service_targets(report));
    let p999 = report.value(memif::GROUP, "half load, in the gateway, p99.9");
    bars.push(PerfTarget::at_most("memif, half load: p99.9 in the gateway, us", 50.0, p999));
    let median = report.value(compile::GROUP, compile::MEDIAN);
    bars.push(PerfTarget::at_most("terrace compile, gateway.p4, from start to end, ms", 50.0, median));
    let median = report.value(compile::NATIVE, compile::MEDIAN);
    bars.push(PerfTarget::at_most("native code, gateway.p4, ms", 50.0, median));
    bars
}

/// Judges source NAT against VPP, between sizes, and with two workers.
fn state_targets(report: &Report) -> Vec<PerfTarget> {
    let established = |x: &str, entrant: &str| report.median(state::CHART, x, entrant);
    let against = |x: &str| ratio(established(x, "terrace"), established(x, state::VPP));
    let figure = |what: &str| report.value(state::GROUP, &state::figure(1_000_000, what));
    let new = ratio(figure("new sessions"), figure(&format!("{}, new sessions", state::VPP)));
    // VPP reserves much at the start, so what a session takes is the difference of two sizes.
    let vpp_bytes = |sessions: usize| {
        let name = state::figure(sessions, &format!("{}, resident memory", state::VPP));
        report.value(state::GROUP, &name)
    };
    let vpp_session = vpp_bytes(1_000_000).zip(vpp_bytes(100_000)).map(|(more, less)| (more - less) * 1e6 / 900_000.0);
    let memory = ratio(vpp_session, figure("memory of a session"));
    let workers = |entrant: &str| report.median(state::WORKERS_CHART, "100k", entrant);
    vec![
        PerfTarget::at_least("source NAT, 1k sessions / VPP", 1.2, against("1k")),
        PerfTarget::at_least("source NAT, 100k sessions / VPP", 2.0, against("100k")),
        PerfTarget::at_least("source NAT, 1M sessions / VPP", 3.0, against("1M")),
        PerfTarget::at_least(
            "source NAT, 1M sessions / nftables",
            30.0,
            ratio(established("1M", "terrace"), established("1M", state::KERNEL)),
        ),
        PerfTarget::at_least(
            "source NAT, 10M sessions / 1M",
            0.7,
            ratio(established("10M", "terrace"), established("1M", "terrace")),
        ),
        PerfTarget::at_least("source NAT, new sessions to 1M / VPP", 3.0, new),
        PerfTarget::at_least("source NAT: memory of a session, VPP / terrace", 10.0, memory),
        PerfTarget::at_least(
            "source NAT, both directions: two workers / one",
            1.8,
            ratio(workers("two workers"), workers("one worker")),
        ),
    ]
}

/// Judges the gateway's services against VPP and against packets that are only routed.
fn service_targets(report: &Report) -> Vec<PerfTarget> {
    let rate = |entrant: &str| report.median(services::CHART, "1M", entrant);
    let against = |service: Service, other: &str| ratio(rate(service.name()), rate(other));
    vec![
        PerfTarget::at_least(
            "gateway, source NAT, 1M sessions / VPP with VXLAN and NAT44-ED",
            3.0,
            against(Service::SourceNat, services::VPP_NAT),
        ),
        PerfTarget::at_least(
            "gateway, load balancer, 1M connections / VPP lb",
            2.0,
            against(Service::LoadBalancer, services::VPP_BALANCER),
        ),
        PerfTarget::at_least(
            "gateway, security groups, 1M flows / routed",
            0.7,
            against(Service::SecurityGroups, Service::Routed.name()),
        ),
    ]
}

fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b?)
}

/// Judges our lookups against DPDK's, in the charts of `lookups`.
fn lookup_targets(report: &Report) -> Vec<PerfTarget> {
    let lookup_target = |chart: &str, x: &str, peer: &str, wanted: f64| {
        let measured = ratio(best_of_ours(report, chart, x), report.median(chart, x, peer));
        PerfTarget::at_least(&format!("{chart}, {x}: terrace / {peer}"), wanted, measured)
    };
    let mut targets = Vec::new();
    for chart in ["exact, 8-byte keys", "exact, 20-byte keys"] {
        for x in ["1M", "16M"] {
            targets.push(lookup_target(chart, x, "rte_hash", 1.3));
        }
    }
    // The x value in a chart of routes is the number of routes in the data set.
    for (chart, peer, wanted) in [(lpm::IPV4, "rte_fib", 0.9), (lpm::IPV6, "rte_fib6", 1.5)] {
        let x = report.outcomes.iter().find(|o| o.chart == chart).map_or("all routes", |o| &o.x);
        targets.push(lookup_target(chart, x, peer, wanted));
    }
    for set in ternary::SETS {
        for trace in ternary::TRACES {
            targets.push(lookup_target(&ternary::chart(trace), set, "rte_acl", 0.8));
        }
        let p99 = |change| report.value(ternary::CHANGES, &ternary::change(set, change, "p99"));
        let slower = p99("insert").zip(p99("delete")).map(|(insert, delete)| insert.max(delete));
        targets.push(PerfTarget::at_most(&format!("ternary, {set}: p99 of a change, us"), 50.0, slower));
    }
    let bulk = best_of_ours(report, "exact, 8-byte keys, inserts in bulk", "1M");
    targets.push(PerfTarget::at_least("exact table alone, 1M: inserts in bulk, M/s", 2.0, bulk));
    let single = best_of_ours(report, "exact, 8-byte keys, one insert and one delete", "1M");
    targets.push(PerfTarget::at_least("exact table alone, 1M: inserts and deletes one at a time, M/s", 0.3, single));
    targets.extend(update_targets(report));
    targets
}

/// Judges the rates of insertions and deletions while another core looks up.
fn update_targets(report: &Report) -> Vec<PerfTarget> {
    let group = updates::group(updates::JUDGED);
    let wanted = [2.0, 2.0, 0.3, 0.3];
    let bar = |(name, wanted): (&&str, f64)| {
        PerfTarget::at_least(&format!("{group}: {name}, M/s"), wanted, report.value(&group, name))
    };
    updates::RATES.iter().zip(wanted).map(bar).collect()
}

/// Returns the best of our entrants at a point of a chart: those with the name `terrace`,
/// optionally with more words.
fn best_of_ours(report: &Report, chart: &str, x: &str) -> Option<f64> {
    let at = report.outcomes.iter().filter(|o| o.chart == chart && o.x == x).flat_map(|o| &o.entries);
    at.filter(|entry| entry.name.starts_with("terrace")).map(|entry| entry.median()).reduce(f64::max)
}

/// Returns the chart that the targets refer to: VMs are hit uniformly at random.
fn uniform_chart(layout: TenantLayout) -> String {
    forward::chart(layout, FlowDistribution::Uniform)
}

/// Judges the overlay with many tenants against the machine's limit, XDP, and a smaller workload.
fn many_tenant_targets(report: &Report) -> Vec<PerfTarget> {
    let chart = uniform_chart(TenantLayout::ManyTenants);
    let rate = |x: &str, entrant: &str| report.median(&chart, x, entrant);
    let limit = forward::limit_name(2);
    vec![
        PerfTarget::at_least(
            "overlay, many tenants, 1M VMs / limit of the same two lines",
            0.6,
            ratio(rate("1M", "overlay"), rate("1M", &limit)),
        ),
        PerfTarget::at_least(
            "overlay, many tenants, 1M VMs / XDP",
            8.0,
            ratio(rate("1M", "overlay"), rate("1M", forward::XDP)),
        ),
        PerfTarget::at_least(
            "overlay, many tenants, 16M VMs / 1M",
            0.75,
            ratio(rate("16M", "overlay"), rate("1M", "overlay")),
        ),
    ]
}

fn one_tenant_targets(report: &Report) -> Vec<PerfTarget> {
    let chart = uniform_chart(TenantLayout::OneTenant);
    let rate = |x: &str| report.median(&chart, x, "overlay");
    let ovs = |x: &str, entrant: &str| report.median(switches::CHART, x, entrant);
    let against = |x: &str| ratio(ovs(x, "overlay"), ovs(x, "OVS-DPDK"));
    vec![
        PerfTarget::at_least("overlay, one large tenant, 1M VMs, Mpps", 30.0, rate("1M")),
        PerfTarget::at_least("overlay, one large tenant / OVS-DPDK, 100k flows", 12.0, against("100k")),
        PerfTarget::at_least("overlay, one large tenant / OVS-DPDK, 1M flows", 100.0, against("1M")),
        PerfTarget::at_least("overlay, 1k VMs, Mpps", 40.0, rate("1k")),
        PerfTarget::at_least("overlay, 1k VMs / OVS-DPDK with one flow", 3.5, ratio(rate("1k"), ovs("1", "OVS-DPDK"))),
        PerfTarget::at_least("overlay, one large tenant, 16M VMs / 1M", 0.75, ratio(rate("16M"), rate("1M"))),
    ]
}

fn gateway_targets(report: &Report) -> Vec<PerfTarget> {
    let chart = uniform_chart(TenantLayout::ManyTenants);
    let rate = |x: &str, entrant: &str| report.median(&chart, x, entrant);
    let limit = forward::limit_name(5);
    vec![
        PerfTarget::at_least(
            "gateway, many tenants, 1M VMs / limit of the same five lines",
            0.35,
            ratio(rate("1M", "gateway"), rate("1M", &limit)),
        ),
        PerfTarget::at_least(
            "gateway, many tenants, 16M VMs / 1M",
            0.7,
            ratio(rate("16M", "gateway"), rate("1M", "gateway")),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_neither_reached_nor_missed() {
        assert_eq!(PerfTarget::at_least("a", 1.3, Some(1.31)).verdict, Verdict::Reached);
        assert_eq!(PerfTarget::at_least("a", 1.3, Some(1.29)).verdict, Verdict::Missed);
        assert_eq!(PerfTarget::at_most("a", 50.0, Some(49.0)).verdict, Verdict::Reached);
        assert_eq!(PerfTarget::at_least("a", 1.3, ratio(Some(1.0), None)).verdict, Verdict::NotMeasured);
        assert_eq!(PerfTarget::at_least("a", 1.3, ratio(Some(1.0), Some(0.0))).verdict, Verdict::NotMeasured);
        assert!(judge_targets(&Report::default()).iter().all(|bar| bar.verdict == Verdict::NotMeasured));
    }
}
