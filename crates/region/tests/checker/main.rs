//! Accepted and refused region files, with one row for each kind of fault.
//!
//! A row is the region below with an edit. A problem must have the line of the edit, a message, and
//! a fix.

mod addresses;
mod any_text;
mod host;
mod names;
mod numbers;
mod peers;
mod security_groups;
mod underlay;
mod yaml;

use region::Problem;

/// The region that the rows edit: a server and a remote, two peered VPCs, and machines.
const REGION: &str = "\
region: shop
gateway:
  mac: 02:00:5e:00:00:01
  vteps: [192.0.2.1, \"2001:db8::1\"]
uplinks:
  - {name: left, port: 1, mac: 02:00:00:00:01:01, peer_mac: 02:00:00:00:01:02, mtu: 9000}
  - {name: right, port: 2, mac: 02:00:00:00:02:01, peer_mac: 02:00:00:00:02:02}
servers:
  - {name: host, address: 192.0.2.11, uplinks: [left, right]}
remotes:
  - {name: office, kind: idc, address: 198.51.100.1, vni: 7000, mac: 02:00:00:00:70:01, uplinks: [right]}
vpcs:
  - name: web
    vni: 10
    subnets: [10.1.0.0/24, \"fd00:1::/64\"]
    routes:
      - {to: 172.16.0.0/12, remote: office}
      - {to: 0.0.0.0/0, internet: true}
    route_tables:
      - {name: audited, routes: [{to: 0.0.0.0/0, remote: office}]}
    policy:
      - {from: 10.1.0.64/26, table: audited}
    acl:
      - {priority: 20, action: deny, direction: ingress, protocol: tcp, from: 10.2.0.0/24, to: 10.1.0.0/24, ports: 22}
    acl_default: permit
  - name: data
    vni: 20
    subnets: [10.2.0.0/24]
peerings:
  - between: [web, data]
vms:
  - {name: web-1, vpc: web, server: host, mac: 02:00:00:00:10:01, addresses: [10.1.0.5, \"fd00:1::5\"]}
  - {name: data-1, vpc: data, server: host, mac: 02:00:00:00:20:01, addresses: [10.2.0.5]}
";

/// Returns the region with the first `from` replaced, and the line of the edit.
fn edited(from: &str, to: &str) -> (String, u32) {
    let at = REGION.find(from).unwrap_or_else(|| panic!("the region has no {from:?}"));
    (REGION.replacen(from, to, 1), REGION[..at].matches('\n').count() as u32 + 1)
}

/// Returns the problems of a text; empty if it is correct.
fn problems(text: &str) -> Vec<Problem> {
    let found = region::parse("r.yaml", text).err().map_or(Vec::new(), |problems| problems.problems);
    for problem in &found {
        assert!(!problem.message.is_empty() && !problem.help.is_empty(), "no words or no help: {problem}");
        assert!(!problem.message.chars().any(char::is_control), "{problem:?}");
        assert!(problem.line >= 1 && problem.column >= 1, "no place: {problem}");
    }
    found
}

#[track_caller]
fn accepted(text: &str) {
    let found = problems(text);
    assert!(found.is_empty(), "{}\nis refused: {found:#?}", shown(text));
}

/// Asserts that a problem in this line has these words in its message or help.
#[track_caller]
fn refused(text: &str, line: u32, words: &str) {
    let found = problems(text);
    let fits = |problem: &&Problem| problem.line == line && problem.to_string().contains(words);
    assert!(found.iter().any(|p| fits(&p)), "{}\nhas no {words:?} in line {line}: {found:#?}", shown(text));
}

/// Asserts that the edit is accepted.
#[track_caller]
fn edit_accepted(from: &str, to: &str) {
    accepted(&edited(from, to).0);
}

/// Asserts that the edit is refused in its own line with these words.
#[track_caller]
fn edit_refused(from: &str, to: &str, words: &str) {
    let (text, line) = edited(from, to);
    refused(&text, line, words);
}

#[test]
fn the_region_itself_is_right() {
    accepted(REGION);
}

/// Returns the lines of a text that are not in the region.
fn shown(text: &str) -> String {
    let own: Vec<&str> = REGION.lines().collect();
    let changed = (1..).zip(text.lines()).filter(|(_, line)| !own.contains(line)).take(20);
    changed.map(|(number, line)| format!("{number:4} {}\n", line.chars().take(200).collect::<String>())).collect()
}
