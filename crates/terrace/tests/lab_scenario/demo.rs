//! Tests `terrace demo`: the whole scenario, judged by its own report and by its remains.

use crate::place::{json, terrace, turn};
use serde_json::{Value, json as value};

fn outcomes(report: &Value) -> Vec<String> {
    let probes = report["probes"].as_array().unwrap();
    probes.iter().map(|probe| format!("{} {} -> {}", probe["from"], probe["to"], probe["got"])).collect()
}

/// Returns names and packets of a list of named counts.
fn packets(list: &Value) -> Value {
    let pairs = list.as_array().unwrap().iter().map(|one| (one["name"].as_str().unwrap(), one["packets"].clone()));
    Value::Object(pairs.map(|(name, packets)| (name.to_owned(), packets)).collect())
}

#[test]
fn the_demo_shows_what_it_promises_and_leaves_nothing() {
    let Some(turn) = turn() else { return };
    // One demo checks both forms of output, because it is slow.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let output = terrace(&["demo", "--name", &turn.lab, "--report", &file.display().to_string()]);
    turn.assert_nothing_left();
    let (code, printed) = (output.status.code(), String::from_utf8(output.stdout).unwrap());
    let complained = String::from_utf8_lossy(&output.stderr);
    let report = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {printed}{complained}"));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["problems"], value!([]), "{report:#}");
    assert_eq!((code, &report["ok"], &report["mode"]), (Some(0), &value!(true), &value!("namespaces")));
    assert!(report["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{report:#}");

    let probes = report["probes"].as_array().unwrap();
    let passed = probes.iter().filter(|probe| probe["ms"].is_number()).count();
    assert_eq!((probes.len(), passed), (42, 19), "17 pings pass at first, 2 of those after the change");
    assert!(probes.iter().all(|probe| probe["ok"] == true));

    let dropped = value!({
        "acl_denied_in": 1, "blackhole_route": 2, "group_denied_in": 1, "internet_unasked": 2, "nat_destination": 2,
        "no_route": 6, "no_session": 2, "service_port": 1, "unknown_vm": 2, "unknown_vni": 2
    });
    assert_eq!(packets(&report["counters"]["drops"]), dropped, "each packet that must not pass, and no other");
    assert_eq!(packets(&report["counters"]["to_cpu"]), value!({ "icmp": 2 }));
    // For each of the two directions, at least: 3 echo requests and 3 replies, and a TCP connection
    // of 4 packets each way.
    let scopes = packets(&report["counters"]["scopes"]);
    for scope in ["local", "peer", "idc", "cross_region", "internet", "service"] {
        assert!(scopes[scope].as_u64().unwrap() >= 13, "{scopes}");
    }
    assert_eq!(scopes["blackhole"], 2);
    for stream in report["streams"].as_array().unwrap() {
        assert!(stream["bits_per_second"].as_f64().unwrap() > 1e6, "{stream}");
    }
    assert_eq!(report["streams"].as_array().unwrap().len(), 5);

    let change = &report["change"];
    // Routes of both VPCs, to the service and to machines; the rule; a backend with the shares of both.
    assert_eq!(change["entries"], value!([0, 2054, 9]));
    assert_eq!(change["dropped"], value!([]));
    assert!(change["refused"].as_str().unwrap().starts_with("examples/lab.yaml:87:"), "{change}");
    let lost: Vec<&Value> = change["untouched"].as_array().unwrap().iter().map(|stream| &stream["lost"]).collect();
    let none = value!(0);
    assert_eq!(lost, [&Value::Null, &none, &none, &none], "TCP says nothing of losses; UDP and ping lose nothing");
    let kept = &change["kept"];
    assert!(kept["answered"] == 16 && kept["backends"].as_object().unwrap().len() == 2, "{kept}");
    crate::readme::shows(&printed);
}

#[test]
fn captures_show_the_same_as_namespaces_are_expected_to() {
    // Needs no namespaces, and no turn.
    let (code, report) = json(&["demo", "--captures"]);
    assert_eq!((code, &report["problems"]), (Some(0), &value!([])), "{report:#}");
    assert_eq!(report["mode"], "captures");
    assert_eq!(outcomes(&report).len(), 42);
    let dropped = value!({
        "acl_denied_in": 1, "blackhole_route": 1, "group_denied_in": 1, "internet_unasked": 1, "nat_destination": 1,
        "no_route": 3, "no_session": 2, "service_port": 1, "unknown_vm": 1, "unknown_vni": 1
    });
    assert_eq!(packets(&report["counters"]["drops"]), dropped);
    let explained = report["explained"]["text"].as_str().unwrap();
    assert!(explained.contains("from examples/lab.yaml:74: VPC red: route to 10.3.0.0/24"), "{explained}");
}
