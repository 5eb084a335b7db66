//! Checks the notation of numbers: decimal digits without quotes.
//!
//! YAML allows more notations, and its versions read them differently: `010` is 8 in YAML 1.1 and
//! 10 in 1.2, `1_000` is 1000 or a text, `1:40` is 100 or a text. The model only has the numbers,
//! so the check looks up their digits in the text.

use crate::model::{RegionFile, Route, Vpc};
use crate::problem::ProblemCollector;
use crate::spanned::{NumberWithPos, SourcePos, WithPos};
use crate::values::{decimal, quoted};

/// Reports each number of `file` that is not written in plain decimal digits.
pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile, text: &str) {
    check_notation(report, numbers(file), text);
}

/// Reports each number of `vpcs` that is not written in plain decimal digits.
pub(crate) fn check_vpcs(report: &mut ProblemCollector, vpcs: &[Vpc], text: &str) {
    check_notation(report, numbers_of(vpcs), text);
}

fn check_notation(report: &mut ProblemCollector, mut numbers: Vec<(SourcePos, u32)>, text: &str) {
    numbers.sort_unstable();
    // Aliases and merges share the digits of another number, which are reported once.
    numbers.dedup();
    let mut places = numbers.into_iter().peekable();
    let text = text.trim_start_matches('\u{feff}');
    for (line, content) in (1..).zip(text.split('\n')) {
        let mut characters = (1..).zip(content.char_indices());
        while let Some((at, value)) = places.next_if(|(at, _)| at.line == line) {
            let Some((_, (start, _))) = characters.by_ref().find(|(column, _)| *column == at.column) else { continue };
            check_digits(report, &content[start..], at, value);
        }
        if places.peek().is_none() {
            return;
        }
    }
}

/// Checks the number at the start of `written`.
fn check_digits(report: &mut ProblemCollector, written: &str, at: SourcePos, value: u32) {
    let end = written.find([' ', '\t', '\r', ',', ']', '}']).unwrap_or(written.len());
    if decimal::<u32>(&written[..end]) != Some(value) {
        let message = format!("the number {} is not in plain decimal digits", quoted(&written[..end]));
        report.add(at, message, format!("write {value}"));
    }
}

/// Returns all plain integers of the file with the positions of their digits.
fn numbers(file: &RegionFile) -> Vec<(SourcePos, u32)> {
    let of = |number: &NumberWithPos<u32>| (number.digits, number.value);
    let mut all = Vec::new();
    for uplink in &file.uplinks {
        all.push(of(&uplink.port));
        all.extend(uplink.mtu.iter().chain(&uplink.vlan).map(|number| (number.digits, u32::from(number.value))));
    }
    let gateway = &file.gateway;
    all.extend(
        gateway
            .table
            .iter()
            .chain(&gateway.max_routes)
            .chain(&gateway.min_path_mtu)
            .chain(&gateway.flow_secret)
            .map(of),
    );
    all.extend(file.gateway.punt_rates.iter().flat_map(|rates| rates.written()).map(|(_, rate)| of(rate)));
    if let Some(limits) = &file.gateway.icmp_limits {
        let rates = [&limits.too_big, &limits.other, &limits.reply].into_iter().chain(&limits.neighbours);
        all.extend(rates.flat_map(|rates| [of(&rates.vm), of(&rates.vpc)]));
    }
    let internet = file.internet.iter();
    let forwards = internet.clone().flat_map(|internet| &internet.forwards);
    let ports = forwards.flat_map(|forward| std::iter::once(&forward.port).chain(&forward.vm_port));
    all.extend(ports.map(|number| (number.digits, u32::from(number.value))));
    all.extend(
        internet.clone().flat_map(|internet| &internet.nats).filter_map(|nat| nat.ports_per_vm.as_ref()).map(of),
    );
    all.extend(
        internet.flat_map(|internet| &internet.timeouts).flat_map(|times| times.written()).map(|(_, time)| of(time)),
    );
    all.extend(file.remotes.iter().filter_map(|remote| remote.vni.as_ref()).map(of));
    all.extend(numbers_of(&file.vpcs));
    all
}

fn numbers_of(vpcs: &[Vpc]) -> Vec<(SourcePos, u32)> {
    let of = |number: &NumberWithPos<u32>| (number.digits, number.value);
    let mut all = Vec::new();
    for vpc in vpcs {
        all.push(of(&vpc.vni));
        all.extend(vpc.max_flows.iter().chain(&vpc.max_connections).chain(&vpc.max_datagrams).map(of));
        all.extend(vpc.acl.iter().map(|rule| of(&rule.priority)));
        let icmp = vpc.acl.iter().flat_map(|rule| rule.icmp_type.iter().chain(&rule.icmp_code));
        all.extend(icmp.map(|number| (number.digits, u32::from(number.value))));
        let rules = vpc.security_groups.iter().flat_map(|group| &group.rules);
        let icmp = rules.flat_map(|rule| rule.icmp_type.iter().chain(&rule.icmp_code));
        all.extend(icmp.map(|number| (number.digits, u32::from(number.value))));
        for service in &vpc.services {
            let numbers = std::iter::once(&service.port).chain(&service.max_backends);
            let of_backends = service.backends.iter().flat_map(|backend| backend.port.iter().chain(&backend.weight));
            all.extend(numbers.chain(of_backends).map(|number| (number.digits, u32::from(number.value))));
        }
        all.extend(routes(vpc).filter_map(|route| route.vni.as_ref()).map(of));
    }
    all
}

fn routes(vpc: &Vpc) -> impl Iterator<Item = &WithPos<Route>> {
    vpc.routes.iter().chain(vpc.route_tables.iter().flat_map(|table| &table.routes))
}
