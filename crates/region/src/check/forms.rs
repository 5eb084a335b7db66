//! The form of numbers: decimal digits, without quotes.
//!
//! YAML has more forms, and its versions read them differently: `010` is 8 in YAML 1.1 and 10 in 1.2, `1_000` is 1000 or a text,
//! `1:40` is 100 or a text. The reader has turned all of them into numbers when the model is there, so that they are looked up
//! in the text.

use crate::model::{RegionFile, Route, Vpc};
use crate::position::{At, Number, Position};
use crate::problem::Report;
use crate::values::{decimal, quoted};

/// Complains about each number of `file` that is not written in plain decimal digits.
pub(super) fn check(report: &mut Report, file: &RegionFile, text: &str) {
    look(report, numbers(file), text);
}

/// The same for the numbers of VPCs alone.
pub(crate) fn check_vpcs(report: &mut Report, vpcs: &[Vpc], text: &str) {
    look(report, numbers_of(vpcs), text);
}

fn look(report: &mut Report, mut numbers: Vec<(Position, u32)>, text: &str) {
    numbers.sort_unstable();
    // An alias or a merge has the digits of another number, which are told of once.
    numbers.dedup();
    let mut places = numbers.into_iter().peekable();
    let text = text.trim_start_matches('\u{feff}');
    for (line, content) in (1..).zip(text.split('\n')) {
        let mut characters = (1..).zip(content.char_indices());
        while let Some((at, value)) = places.next_if(|(at, _)| at.line == line) {
            let Some((_, (start, _))) = characters.by_ref().find(|(column, _)| *column == at.column) else { continue };
            form(report, &content[start..], at, value);
        }
        if places.peek().is_none() {
            return;
        }
    }
}

/// The number that begins at `written`.
fn form(report: &mut Report, written: &str, at: Position, value: u32) {
    let end = written.find([' ', '\t', '\r', ',', ']', '}']).unwrap_or(written.len());
    if decimal::<u32>(&written[..end]) != Some(value) {
        let message = format!("the number {} is not in plain decimal digits", quoted(&written[..end]));
        report.add(at, message, format!("write {value}"));
    }
}

/// Every number of the file whose type is a plain integer, with the place of its digits.
fn numbers(file: &RegionFile) -> Vec<(Position, u32)> {
    let of = |number: &Number<u32>| (number.digits, number.value);
    let mut all = Vec::new();
    for uplink in &file.uplinks {
        all.push(of(&uplink.port));
        all.extend(uplink.mtu.iter().map(|mtu| (mtu.digits, u32::from(mtu.value))));
    }
    all.extend(file.remotes.iter().filter_map(|remote| remote.vni.as_ref()).map(of));
    all.extend(numbers_of(&file.vpcs));
    all
}

fn numbers_of(vpcs: &[Vpc]) -> Vec<(Position, u32)> {
    let of = |number: &Number<u32>| (number.digits, number.value);
    let mut all = Vec::new();
    for vpc in vpcs {
        all.push(of(&vpc.vni));
        all.extend(vpc.acl.iter().map(|rule| of(&rule.priority)));
        let icmp = vpc.acl.iter().flat_map(|rule| rule.icmp_type.iter().chain(&rule.icmp_code));
        all.extend(icmp.map(|number| (number.digits, u32::from(number.value))));
        all.extend(routes(vpc).filter_map(|route| route.vni.as_ref()).map(of));
    }
    all
}

fn routes(vpc: &Vpc) -> impl Iterator<Item = &At<Route>> {
    vpc.routes.iter().chain(vpc.route_tables.iter().flat_map(|table| &table.routes))
}
