//! Tests `terrace show` and `terrace reset-counters`: a node's status in three formats.

use super::lab::{Lab, terrace, traffic};
use serde_json::Value;

/// Returns the command's standard output. Panics if the command fails.
fn shown(lab: &Lab, words: &[&str]) -> String {
    let (code, out, err) = terrace(&[words, &["--node", &lab.socket]].concat());
    assert_eq!(code, 0, "{words:?}: {err}");
    out
}

/// Returns CSV records as pairs of column name and value.
fn csv(text: &str) -> Vec<Vec<(String, String)>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head: Vec<String> = reader.headers().expect("a header").iter().map(str::to_owned).collect();
    let row = |row: csv::StringRecord| head.iter().cloned().zip(row.iter().map(str::to_owned)).collect();
    reader.records().map(|record| row(record.expect("a record"))).collect()
}

fn column_value<'a>(row: &'a [(String, String)], column: &str) -> &'a str {
    row.iter().find(|(name, _)| name == column).map_or("", |(_, value)| value)
}

#[test]
fn each_view_has_three_forms_that_agree() {
    let mut lab = Lab::start();
    let packets = traffic();
    lab.under_traffic(&packets, |_| std::thread::sleep(std::time::Duration::from_millis(300)));
    lab.settle();
    for what in ["tables", "actions", "ports", "stages", "drops", "workers", "controllers", "requests", "version"] {
        let text = shown(&lab, &["show", what]);
        assert!(text.lines().count() > 1, "{what}:\n{text}");
        let json: Value = serde_json::from_str(&shown(&lab, &["show", what, "--format", "json"])).expect("JSON");
        let answer = if what == "actions" {
            "tables"
        } else if what == "requests" {
            "controllers"
        } else {
            what
        };
        assert_eq!(json["answer"], answer);
        let global: Value = serde_json::from_str(&shown(&lab, &["--json", "show", what])).expect("JSON");
        assert_eq!(global["answer"], answer);
        let columns =
            |text: &str| text.lines().next().unwrap_or_default().split("  ").filter(|c| !c.trim().is_empty()).count();
        let rows = csv(&shown(&lab, &["show", what, "--format", "csv"]));
        assert!(
            ["controllers", "requests", "actions"].contains(&what)
                || rows.first().is_some_and(|row| row.len() == columns(&text)),
            "{what}:\n{text}"
        );
    }
    let ports = csv(&shown(&lab, &["show", "ports", "--format", "csv"]));
    let json: Value = serde_json::from_str(&shown(&lab, &["show", "ports", "--format", "json"])).expect("JSON");
    let first = json["ports"].as_array().expect("ports").iter().find(|port| port["number"] == 1).expect("port 1");
    assert_eq!(column_value(&ports[0], "IN"), first["received"]["packets"].to_string());
    assert!(first["received"]["packets"].as_u64() > Some(10), "{first}");
    let drops = shown(&lab, &["show", "drops"]);
    assert!(drops.contains("acl_deny") || drops.contains("acl"), "{drops}");
}

#[test]
fn entries_are_shown_with_names_and_addresses_and_found_by_text() {
    let lab = Lab::start();
    let tables: Value = serde_json::from_str(&shown(&lab, &["--json", "show", "tables"])).expect("JSON");
    let tables = tables["tables"].as_array().expect("tables");
    let table = tables
        .iter()
        .find(|table| table["name"].as_str().is_some_and(|name| name.ends_with("vm_nc_v4")))
        .expect("vm_nc_v4");
    let entries = table["entries"].as_u64().expect("a number");
    let all = csv(&shown(&lab, &["show", "table", "vm_nc_v4", "--format", "csv"]));
    assert_eq!(all.len() as u64, entries);
    let text = shown(&lab, &["show", "table", "vm_nc_v4", "--filter", "10.0.0.12"]);
    assert!(text.contains("10.0.0.12") && text.lines().count() < all.len() + 1, "{text}");
    let few = shown(&lab, &["show", "table", "vm_nc_v4", "--limit", "1"]);
    assert!(few.contains(&format!("1 of {entries} entries; --limit shows more")), "{few}");
}

#[test]
fn counts_begin_anew_when_they_are_cleared() {
    let mut lab = Lab::start();
    lab.under_traffic(&traffic(), |_| std::thread::sleep(std::time::Duration::from_millis(200)));
    lab.settle();
    let received = |lab: &Lab| {
        let json: Value = serde_json::from_str(&shown(lab, &["--json", "show", "workers"])).expect("JSON");
        json["workers"][0]["received"]["packets"].as_u64().expect("a number")
    };
    assert!(received(&lab) > 0);
    assert_eq!(shown(&lab, &["reset-counters"]).trim(), "counts begin at 0");
    assert_eq!(received(&lab), 0);
}

#[test]
fn what_cannot_be_shown_is_said_with_a_mend() {
    let lab = Lab::start();
    let (code, _, err) = terrace(&["show", "table", "nothing", "--node", &lab.socket]);
    assert!(code == 3 && err.contains("there is no table `nothing`; the tables are"), "{code} {err}");
    let (code, _, err) = terrace(&["show", "ports", "--node", "/nowhere/control.sock"]);
    assert!(code != 0 && err.contains("no node listens on /nowhere/control.sock") && err.contains("--node"), "{err}");
}
