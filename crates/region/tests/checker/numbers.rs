//! Checks that all numbers are written in plain decimal digits.

use super::{edit_accepted, edit_refused};

/// Eighty and a hundred in notations that YAML's versions or readers read differently.
const ODD_80: &[&str] = &["080", "0x50", "0X50", "8_0", "+80", "0o120", "0b1010000", "80.0", "8e1", "1:20"];

/// Keys with a number as value, in the region.
const NUMBERS: &[&str] = &["port: 1,", "mtu: 9000}", "vni: 7000,", "vni: 20\n", "priority: 20,"];

#[test]
fn integers() {
    for key in NUMBERS {
        let (name, behind) = (key.split(' ').next().unwrap(), &key[key.len() - 1..]);
        for odd in ODD_80.iter().copied().chain(["\"80\"", "'80'", "!!str 80", "0x1388", "5_000", "+5000", "\"5000\""])
        {
            edit_refused(key, &format!("{name} {odd}{behind}"), "decimal digits");
        }
        for odd in [".inf", ".nan", "true", "x", "99999999999999999999", &"9".repeat(400), "-1"] {
            edit_refused(key, &format!("{name} {odd}{behind}"), "is not a whole number");
        }
        for missing in ["", "~", "null"] {
            edit_refused(key, &format!("{name} {missing}{behind}"), "a value is missing");
        }
        edit_accepted(key, &format!("{name} !!int 5000{behind}"));
        edit_accepted(key, &format!("{name}   5000 {behind}"));
        edit_accepted(key, &format!("{name} &anchor 5000{behind}"));
    }
    edit_accepted("port: 1,", "port: 0,");
    // Within a route, and after characters of more than one byte.
    edit_refused("{to: 172.16.0.0/12, remote: office}", "{to: 172.16.0.0/12, remote: office, vni: 0x10}", "write 16");
    edit_refused("vni: 20\n", "vni: 0x14 # mehr als zwölf\n", "write 20");
    edit_refused("{to: 0.0.0.0/0, remote: office}", "{to: 0.0.0.0/0, remote: office, vni: 1_6}", "write 16");
}

#[test]
fn the_same_number_behind_an_alias_is_looked_at_where_it_is_written() {
    let (text, line) = super::edited("vni: 7000", "vni: &vni 0x20");
    let text = text.replacen(
        "{name: audited, routes: [{to: 0.0.0.0/0, remote: office}]}",
        "{name: audited, routes: [{to: 0.0.0.0/0, remote: office, vni: *vni}]}",
        1,
    );
    let found = super::problems(&text);
    assert_eq!((found.len(), found[0].line), (1, line), "{found:#?}");
}

#[test]
fn ports() {
    for odd in ODD_80.iter().copied().chain([
        "80-79",
        "80-",
        "-80",
        "65536",
        "http",
        "\"80,443\"",
        "80-0x5a",
        "070-080",
        "1-+5",
        "٨٠",
    ]) {
        edit_refused("ports: 22", &format!("ports: {odd}"), "");
    }
    edit_refused("ports: 22", "ports: [80, 443]", "a single value is needed");
    for good in ["0", "80", "\"80\"", "80-90", "\"80 - 90\"", "0-65535", "any", "65535-65535"] {
        edit_accepted("ports: 22", &format!("ports: {good}"));
    }
}

#[test]
fn protocols() {
    for odd in ["06", "0x6", "+6", "6.0", "0o6", "256", "-1", "TCP", "Udp", "tcpp", "\"\""] {
        edit_refused("protocol: tcp", &format!("protocol: {odd}"), "protocol");
    }
    for good in ["6", "\"6\"", "tcp", "udp"] {
        edit_accepted("protocol: tcp", &format!("protocol: {good}"));
    }
}

#[test]
fn prefixes_and_addresses() {
    for odd in [
        "10.2.0.0/024",
        "10.2.0.0/+24",
        "10.2.0.0/33",
        "10.2.0.0/-1",
        "10.2.0.0/",
        "10.2.0.0/24/24",
        "10.2.0/24",
        "010.2.0.0/24",
        "10.02.0.0/24",
        "\"10.2.0.0/24 \"",
        "\" 10.2.0.0/24\"",
        "10.2.0.0/255.255.255.0",
        "167903232/24",
        "0xa020000/24",
        "\"\"",
        "\"fd00::1%eth0/64\"",
        "\"[fd00::]/64\"",
        "\"fd00::/129\"",
        "\"fd00:::/64\"",
        "10.2.0.0-10.2.0.255",
        "10.2.0.0/8_0",
        "10.2.0.0 /24",
    ] {
        edit_refused("subnets: [10.2.0.0/24]", &format!("subnets: [{odd}]"), "is not a prefix");
    }
    for odd in [
        "10.2.0.05",
        "010.2.0.5",
        "10.2.5",
        "10.2.0.5/24",
        "167903237",
        "\"\"",
        "web-1",
        "\"fd00::1%eth0\"",
        "\"10.2.0.5 \"",
        "\"[fd00::1]\"",
    ] {
        edit_refused("addresses: [10.2.0.5]", &format!("addresses: [{odd}]"), "is not an IP address");
        edit_refused("192.0.2.11", odd, "is not an IP address");
    }
    edit_refused("from: 10.2.0.0/24", "from: any", "leave the key out");
    edit_refused("subnets: [10.2.0.0/24]", "subnets: [10.2.0.1/24]", "write 10.2.0.0/24");
    edit_accepted("subnets: [10.2.0.0/24]", "subnets: [10.2.0.0/24, \"FD00:0:0:2::/64\"]");
}

#[test]
fn mac_addresses() {
    for odd in [
        "02-00-00-00-20-01",
        "0200.0000.2001",
        "020000002001",
        "2:0:0:0:20:1",
        "02:00:00:00:20",
        "02:00:00:00:20:01:01",
        "02:00:00:00:20:0g",
        "+2:00:00:00:20:01",
        "02:+0:00:00:20:01",
        "2199023263745",
        "\"\"",
        "\"02:00:00:00:20:01 \"",
    ] {
        edit_refused("02:00:00:00:20:01", odd, "is not a MAC address");
    }
    // Digits only, which YAML 1.1 reads as a number in base 60, and capitals.
    for good in ["10:20:30:40:50:11", "\"02:00:00:00:20:AB\"", "52:54:00:12:34:56"] {
        edit_accepted("02:00:00:00:20:01", good);
    }
}

#[test]
fn numbers_that_a_merge_takes_from_a_mapping_of_its_own() {
    for (mapping, odd) in [
        ("{vni: 20}", None),
        ("[{vni: 20}, {acl_default: deny}]", None),
        ("\n      vni: 20", None),
        ("\n      \"vni\": 20", None),
        ("{vni: 0x14}", Some(27)),
        ("\n      vni: 2_0", Some(28)),
    ] {
        let (text, _) = super::edited("    vni: 20\n", &format!("    <<: {mapping}\n"));
        match odd {
            None => super::accepted(&text),
            Some(line) => super::refused(&text, line, "write 20"),
        }
    }
}
