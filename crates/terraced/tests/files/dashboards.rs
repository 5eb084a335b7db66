//! Checks that the node exports each metric that the Grafana dashboard and the Prometheus rules
//! use.

use io::IdlePolicy;
use node::engine::reference;
use node::metrics::Metrics;
use node::{Node, NodeParts, WorkerSpec};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the words of a text that start as metric names do.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    words.filter(|word| word.starts_with("terrace_")).map(str::to_owned).collect()
}

/// Returns the names of a node's exported metrics.
fn exported() -> BTreeSet<String> {
    let seats = vec![WorkerSpec { core: None, ports: Vec::new() }];
    let settings = interp::Config { cpu_port: Some(510), ..interp::Config::default() };
    let parts = NodeParts {
        device_id: 1,
        seats,
        idle: IdlePolicy::default(),
        settings,
        engine: reference(),
        store: None,
        translations: Default::default(),
        wings: terraced::wings(),
    };
    let node = Arc::new(Node::start(parts).expect("a node"));
    let text = Metrics::new(&node, Vec::new()).text();
    let mut names = BTreeSet::new();
    for line in text.lines() {
        // Families are described even if they have no values yet.
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else { continue };
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        names.extend(suffixes.iter().map(|suffix| format!("{name}{suffix}")));
    }
    names
}

#[test]
fn the_dashboard_and_the_rules_ask_for_what_there_is() {
    let there = exported();
    assert!(there.len() > 20, "{there:?}");
    for path in ["packaging/grafana/terrace.json", "packaging/prometheus/terrace.rules.yml"] {
        let asked = named(&file(path));
        assert!(asked.len() > 9, "{path}: {asked:?}");
        let unknown: Vec<&String> = asked.difference(&there).collect();
        assert!(unknown.is_empty(), "{path} asks for {unknown:?}, and there are {there:#?}");
    }
}

#[test]
fn the_dashboard_is_one() {
    let dashboard: serde_json::Value = serde_json::from_str(&file("packaging/grafana/terrace.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    let ids: BTreeSet<i64> = panels.iter().filter_map(|panel| panel["id"].as_i64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let expressions = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("it shows something"));
    assert!(expressions.clone().count() >= panels.len());
    for expression in expressions {
        assert!(expression["expr"].as_str().is_some_and(|text| text.contains("terrace_")), "{expression}");
    }
}
