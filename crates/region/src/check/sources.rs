//! Checks further sources of VXLAN.

use super::usable;
use crate::addresses::enclosing_unusable_range;
use crate::model::RegionFile;
use crate::problem::ProblemCollector;
use crate::spanned::WithPos;
use crate::values::Prefix;
use ipnet::IpNet;
use std::collections::HashMap;

pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile) {
    let mut lines: HashMap<IpNet, u32> = HashMap::new();
    let of_remotes = file.remotes.iter().flat_map(|remote| &remote.sources);
    for source in file.gateway.sources.iter().chain(of_remotes) {
        check_source(report, file, source);
        if let Some(line) = lines.insert(source.network(), source.at.line) {
            let message = format!("source {} is given twice, first in line {line}", source.value);
            report.add(source.at, message, "keep one: a source belongs to one remote, or counts as a server");
        }
    }
}

fn check_source(report: &mut ProblemCollector, file: &RegionFile, source: &WithPos<Prefix>) {
    usable::check_network(report, source);
    let prefix = source.network();
    if let Some(range) = enclosing_unusable_range(prefix) {
        let message = format!("no packet comes from {}: {} is {}", source.value, range.prefix, range.what);
        report.add(source.at, message, "use unicast addresses of the underlay");
    }
    if !file.gateway.vteps.iter().any(|vtep| vtep.is_ipv4() == prefix.addr().is_ipv4()) {
        let kind = if prefix.addr().is_ipv4() { "IPv4" } else { "IPv6" };
        let message = format!("nothing comes from {}: the gateway has no {kind} tunnel address", source.value);
        report.add(source.at, message, format!("add an {kind} address to `gateway.vteps`, or remove the source"));
    }
}
