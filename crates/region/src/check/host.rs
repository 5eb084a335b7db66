//! Checks the host sides of uplinks.

use crate::model::{Name, RegionFile};
use crate::problem::ProblemCollector;
use crate::values::quoted;
use std::collections::HashMap;

/// Maximum length of an interface name in bytes (Linux: IFNAMSIZ without the final zero).
const MAX_INTERFACE_NAME: usize = 15;
/// Maximum rate of a kind of packet, in packets a second.
const MAX_PUNT_RATE: u32 = 1_000_000;
/// Names that mean something else in /proc/sys/net/ipv4/conf.
const RESERVED: [&str; 3] = ["all", "default", "lo"];

/// Checks that each host side has one interface of its own, and that rates are in range.
pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile) {
    let mut lines: HashMap<&str, u32> = HashMap::new();
    for uplink in &file.uplinks {
        let Some(host) = &uplink.host else { continue };
        let name = match (&host.tap, &host.interface) {
            (Some(name), None) | (None, Some(name)) => name,
            (None, None) => {
                let message = format!("the host side of uplink {} has no interface", quoted(&uplink.name));
                report.add(uplink.name.at, message, "write `host: {tap: NAME}` or `host: {interface: NAME}`");
                continue;
            }
            (Some(_), Some(second)) => {
                let message = format!("the host side of uplink {} has two interfaces", quoted(&uplink.name));
                report.add(second.at, message, "keep `tap`, or `interface`");
                continue;
            }
        };
        check_interface_name(report, name);
        if let Some(line) = lines.insert(name, name.at.line) {
            let message = format!("the interface {} is used twice, first in line {line}", quoted(name));
            report.add(name.at, message, "give the host side of each uplink an interface of its own");
        }
    }
    if file.gateway.punt_rates.as_ref().is_some_and(|rates| rates.written().next().is_none()) {
        report.add(
            file.gateway.mac.at,
            "`punt_rates` has no rates",
            "leave it out, or write `punt_rates: {icmp: 1000}`",
        );
    }
    for (kind, rate) in file.gateway.punt_rates.iter().flat_map(|rates| rates.written()) {
        if rate.value == 0 || rate.value > MAX_PUNT_RATE {
            let message = format!("the rate {} of `{kind}` is out of range", rate.value);
            report.add(rate.at, message, format!("use 1 to {MAX_PUNT_RATE} packets a second"));
        }
    }
}

fn check_interface_name(report: &mut ProblemCollector, name: &Name) {
    super::names::check_name(report, "host interface", name);
    if name.len() > MAX_INTERFACE_NAME || RESERVED.contains(&&***name) {
        let message = format!("{} cannot name an interface", quoted(name));
        report.add(
            name.at,
            message,
            format!("use at most {MAX_INTERFACE_NAME} characters, and not `all`, `default` or `lo`"),
        );
    }
}
