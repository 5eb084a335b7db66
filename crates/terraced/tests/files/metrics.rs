//! Generates the table of docs/reference/metrics.md from the list of metrics: `BLESS=1` writes it.

use node::metrics::{METRICS, Metric};
use std::path::Path;

const BEGIN: &str = "<!-- metrics: made by crates/terraced/tests/files/metrics.rs -->\n";
const END: &str = "<!-- end of metrics -->\n";

fn row(metric: &Metric) -> String {
    let Metric { name, labels, help, .. } = metric;
    let labels = if labels.is_empty() { String::new() } else { format!("{} ", labels.join(", ")) };
    format!("| `terrace_{name}` | {} | {labels}| {help} |\n", metric.kind())
}

#[test]
fn the_page_has_the_metrics_of_the_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, behind) = page.split_once(BEGIN).expect("the page has a place for metrics");
    let (table, behind) = behind.split_once(END).expect("the metrics end somewhere");
    let rows: String = METRICS.iter().map(row).collect();
    let made = format!("| family | kind | labels | meaning |\n|---|---|---|---|\n{rows}");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{made}{END}{behind}")).expect("the page can be written");
        return;
    }
    assert_eq!(
        table, made,
        "docs/reference/metrics.md is not current: run `BLESS=1 cargo test --workspace --test files metrics`"
    );
}

#[test]
fn a_metric_is_listed_once_and_says_what_it_is() {
    for (index, metric) in METRICS.iter().enumerate() {
        assert!(METRICS[..index].iter().all(|other| other.name != metric.name), "{} is listed twice", metric.name);
        assert!(!metric.help.is_empty() && !metric.help.contains(['\n', '|']), "{}: {:?}", metric.name, metric.help);
    }
}
