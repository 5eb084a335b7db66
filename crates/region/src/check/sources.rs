//! Further sources of VXLAN.

use super::usable;
use crate::addresses::unusable_whole;
use crate::model::RegionFile;
use crate::position::At;
use crate::problem::Report;
use crate::values::Prefix;
use ipnet::IpNet;
use std::collections::HashMap;

pub(super) fn check(report: &mut Report, file: &RegionFile) {
    let mut lines: HashMap<IpNet, u32> = HashMap::new();
    let of_remotes = file.remotes.iter().flat_map(|remote| &remote.sources);
    for source in file.gateway.sources.iter().chain(of_remotes) {
        one(report, file, source);
        if let Some(line) = lines.insert(source.network(), source.at.line) {
            let message = format!("source {} is given twice, first in line {line}", source.value);
            report.add(source.at, message, "keep one: a source is a remote's, or as good as a server's");
        }
    }
}

fn one(report: &mut Report, file: &RegionFile, source: &At<Prefix>) {
    usable::network(report, source);
    let prefix = source.network();
    if let Some(range) = unusable_whole(prefix) {
        let message = format!("no packet comes from {}: {} is {}", source.value, range.prefix, range.what);
        report.add(source.at, message, "use unicast addresses of the underlay");
    }
    if !file.gateway.vteps.iter().any(|vtep| vtep.is_ipv4() == prefix.addr().is_ipv4()) {
        let kind = if prefix.addr().is_ipv4() { "IPv4" } else { "IPv6" };
        let message = format!("nothing comes from {}: the gateway has no {kind} tunnel address", source.value);
        report.add(source.at, message, format!("add an {kind} address to `gateway.vteps`, or remove the source"));
    }
}
