//! Tests metrics as Prometheus gets them: over HTTP, with an independent parser, and all documented
//! in docs/reference/metrics.md.

use crate::daemon::{Daemon, config_in};
use crate::forward::{Forward, commit, pipeline};
use p4runtime::proto::v1::update::Type;
use p4runtime::proto::v1::write_request::Atomicity;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// Python program that fetches the families of a page and prints one line each: name, type, labels
/// of the first sample.
const PARSER: &str = "
import sys, urllib.request
from prometheus_client.openmetrics.parser import text_string_to_metric_families
answer = urllib.request.urlopen(sys.argv[1])
assert answer.headers['Content-Type'].startswith('application/openmetrics-text'), answer.headers
for family in text_string_to_metric_families(answer.read().decode()):
    labels = ' '.join(k for k in family.samples[0].labels if k != 'le') if family.samples else '-'
    value = sum(s.value for s in family.samples if s.name.endswith(('_total', '_count')) or s.name == family.name)
    print(family.name, family.type, value, labels)
";

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the families by name, as the parser reads them: type, sum, labels.
fn scraped(address: &str) -> BTreeMap<String, (String, f64, String)> {
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "there is no .venv with prometheus-client: run scripts/setup test");
    let output = Command::new(python).args(["-c", PARSER, &format!("http://{address}/metrics")]).output();
    let output = output.expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it is text");
    let line = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (name, kind, sum, labels) = (word(), word(), word(), word());
        (name, (kind, sum.parse().expect("a number"), labels))
    };
    text.lines().map(line).collect()
}

/// Returns the families that docs/reference/metrics.md names: type and labels.
fn documented() -> BTreeMap<String, (String, String)> {
    let text = std::fs::read_to_string(root().join("docs/reference/metrics.md")).expect("it is there");
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').map(str::trim).collect();
        let [name, kind, labels, ..] = cells.as_slice() else { return None };
        // Other tables of the page list reasons.
        if !name.starts_with("terrace_") {
            return None;
        }
        Some((name.trim_end_matches('`').to_owned(), ((*kind).to_owned(), labels.replace(',', ""))))
    };
    text.lines().filter_map(row).collect()
}

pub fn get(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn every_metric_is_readable_by_others_and_documented() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n[metrics]\nlisten = [\"127.0.0.1:0\"]\n";
    let daemon = Daemon::with(&config_in(folder.path(), text), &[]);
    let address = daemon.metrics();
    // Available before a program is set, too.
    assert!(scraped(&address).contains_key("terrace_build_info"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = runtime.block_on(async {
        let pipeline = pipeline();
        let (mut client, stream) = daemon.client().await;
        commit(&mut client, &pipeline).await;
        let forward = Forward::new(&pipeline);
        let updates = (0..50).map(|number| forward.update(Type::Insert, number, 1)).collect();
        client.write(updates, Atomicity::DataplaneAtomic).await.expect("good updates");
        (client, stream)
    });
    let found = scraped(&address);
    assert_eq!(found["terrace_table_entries"].1, 50.0);
    assert_eq!(found["terrace_controllers"].1, 1.0);
    assert!(
        found["terrace_p4runtime_requests"].1 >= 3.0 && found["terrace_p4runtime_request_seconds"].1 >= 3.0,
        "{found:?}"
    );
    let documented = documented();
    let names = |all: Vec<&String>| all.into_iter().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(found.keys().collect()),
        names(documented.keys().collect()),
        "exported, and in docs/reference/metrics.md"
    );
    for (name, (kind, _, labels)) in &found {
        assert_eq!(*kind, documented[name].0, "kind of {name}");
        assert!(*labels == documented[name].1 || labels == "-", "labels of {name}: {labels}, {}", documented[name].1);
    }
    drop(client);
    assert!(
        get(&address, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").contains("metrics are at /metrics")
    );
    assert!(
        get(&address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 405")
    );
    assert!(get(&address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
}
