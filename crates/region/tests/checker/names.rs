//! Checks of names.

use super::{edit_accepted, edit_refused, edited, refused};

#[test]
fn what_is_no_name() {
    let long = "a".repeat(64);
    let endless = "b".repeat(100_000);
    let odd = [
        "\"\"",
        "\" \"",
        "\"a b\"",
        "\"a/../b\"",
        "\"a\\nb\"",
        "\"a\\0b\"",
        "\"a\\u001b[31m\"",
        "röd",
        "\"gr\\u202een\"",
        "\"cafe\\u0301\"",
        "\"-rf\"",
        "\"..\"",
        ".hidden",
        &long,
        &endless,
        "\"a\\tb\"",
        "\"\\uFEFFa\"",
        "\"а\"",
    ];
    for name in odd {
        edit_refused("region: shop", &format!("region: {name}"), "is not a name for a region");
        edit_refused("name: left", &format!("name: {name}"), "is not a name for an uplink");
        edit_refused("name: web\n", &format!("name: {name}\n"), "is not a name for a VPC");
        edit_refused("name: audited", &format!("name: {name}"), "is not a name for a route table");
        edit_refused("name: web-1", &format!("name: {name}"), "is not a name for a VM");
        edit_refused("vpc: data", &format!("vpc: {name}"), "there is no VPC");
    }
    edit_refused("name: web-1", "name: ~", "a value is missing");
}

#[test]
fn what_is_a_name() {
    for name in [
        "no",
        "on",
        "true",
        "300",
        "1e3",
        "0x10",
        "007",
        "1.10",
        "a",
        "_",
        "A-b_c.d",
        &"z".repeat(63),
        "\"300\"",
        "null-1",
    ] {
        let (text, _) = edited("name: data\n", &format!("name: {name}\n"));
        let text = text.replacen("[web, data]", &format!("[web, {name}]"), 1).replacen(
            "vpc: data",
            &format!("vpc: {name}"),
            1,
        );
        super::accepted(&text);
    }
    // Names are compared as written: 300 and 0x12c differ, and so do upper and lower case.
    edit_refused("vpc: data", "vpc: Data", "did you mean `data`?");
    edit_accepted("name: data-1", "name: Web-1");
}

#[test]
fn names_are_used_once() {
    edit_refused("name: right", "name: left", "declared twice, first in line 6");
    edit_refused("name: data\n", "name: web\n", "declared twice, first in line 13");
    edit_refused("name: data-1", "name: web-1", "declared twice, first in line 32");
    refused(
        &edited("    policy:\n", "      - {name: audited}\n    policy:\n").0,
        21,
        "declared twice, first in line 20",
    );
}

#[test]
fn a_guess_is_near() {
    edit_refused("server: host", "server: hosst", "did you mean `host`?");
    edit_refused("remote: office}", "remote: Offices}", "did you mean `office`?");
    edit_refused("table: audited", "table: auditde", "did you mean `audited`?");
    edit_refused("server: host", "server: somewhere", "declare the server `somewhere`");
}
