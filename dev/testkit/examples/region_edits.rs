//! Measures the cost of a region file of a million VMs for the crate `region`: `region_edits
//! [MACHINES [ROUNDS]]`.
//!
//! Prints the time to read the text, and the peak memory. Then, for a changed rule, and for an
//! added and a removed VM at the start, in the middle and at the end of the list, the duration of
//! `Document::edit`, `Document::edit_to_file` and `Document::apply`, and the entries of the VPCs
//! before and after: medians of some rounds.

use region::{Document, GatewayApi, GatewayEntries, IdAssignments, RegionPart};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use testkit::regions::{self, RegionSize};

/// Size of the region without its VMs.
const SIZE: RegionSize = RegionSize { vpcs: 250, vms: 0, acl_rules: 4, servers: 1000 };

fn file() -> PathBuf {
    std::env::temp_dir().join(format!("region-edits-{}.yaml", std::process::id()))
}

/// Returns the peak memory of this process.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim().to_owned()
}

fn median(mut times_ms: Vec<f64>) -> f64 {
    times_ms.sort_by(f64::total_cmp);
    times_ms[times_ms.len() / 2]
}

/// State of a node besides the document.
struct Gateway {
    api: GatewayApi,
    numbers: IdAssignments,
}

impl Gateway {
    fn new() -> Gateway {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/gateway/gateway.ir");
        let program = std::fs::read_to_string(program).expect("the program is there");
        let pipeline = Arc::new(ir::text::parse(&program).expect("a pipeline"));
        Gateway { api: GatewayApi::new(&pipeline).expect("a gateway"), numbers: IdAssignments::default() }
    }

    fn entries(&self, document: &Document, part: &RegionPart) -> GatewayEntries {
        let mut made = GatewayEntries::default();
        region::visit(&document.region, &self.api, &self.numbers, part, &mut |entry, _| made.entries.push(entry));
        made
    }
}

/// Switches between two texts several times. Returns the medians of both directions.
fn measure(document: &mut Document, gateway: &mut Gateway, name: &str, texts: [&str; 2], rounds: usize) {
    let mut times: [[Vec<f64>; 4]; 2] = Default::default();
    let path = file();
    for _ in 0..rounds {
        for (times, text) in times.iter_mut().zip(texts) {
            std::fs::write(&path, text).expect("room for the file");
            let began = Instant::now();
            document.edit_to_file(&path).expect("a file").expect("an edit");
            times[3].push(began.elapsed().as_secs_f64() * 1e3);
            let mut began = Instant::now();
            let mut lap = || std::mem::replace(&mut began, Instant::now()).elapsed().as_secs_f64() * 1e3;
            let edit = document.edit(text).expect("an edit");
            times[0].push(lap());
            let part = RegionPart::Vpcs(edit.vpcs.clone());
            let before = gateway.entries(document, &part);
            let mut entries_ms = lap();
            std::hint::black_box(document.apply(edit));
            times[1].push(lap());
            gateway.numbers.assign(&document.region);
            let changes = region::diff(before, gateway.entries(document, &part));
            assert!(!changes.updates.is_empty(), "an entry differs");
            entries_ms += lap();
            times[2].push(entries_ms);
        }
    }
    for (times, direction) in times.into_iter().zip(["", ", and back"]) {
        let [edit, apply, entries, of_file] = times.map(median);
        let name = format!("{name}{direction}");
        println!(
            "{name:<42} edit {edit:>5.1} ms (of a file {of_file:>5.1}), apply {apply:>4.1}, entries {entries:>5.1}"
        );
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>().expect("a number"));
    let (vms, rounds) = (arguments.next().unwrap_or(1_000_000), arguments.next().unwrap_or(5));
    let path = file();
    std::fs::write(&path, regions::text(RegionSize { vms, ..SIZE })).expect("room for the file");
    let began = Instant::now();
    let base = region::read(&path).expect("a file");
    println!("{:<42} {:>12.1} ms", "the file to text", began.elapsed().as_secs_f64() * 1e3);
    let began = Instant::now();
    let mut document = Document::parse("r.yaml", base.clone()).expect("a region");
    println!("{:<42} {:>12.1} ms", "text to region", began.elapsed().as_secs_f64() * 1e3);
    println!("{:<42} {:>15}, the text twice", "most memory", memory());

    let mut gateway = Gateway::new();
    gateway.numbers.assign(&document.region);
    let rule = base.replacen("ports: 1001", "ports: 2001", 1);
    measure(&mut document, &mut gateway, "a rule changed", [&rule, &base], rounds);
    let list = base.find("\nvms:\n").expect("the list") + "\nvms:\n".len();
    let middle = base[..(list + base.len()) / 2].rfind('\n').expect("a line") + 1;
    for (name, at) in [("at the beginning", list), ("in the middle", middle), ("at the end", base.len())] {
        let line = "- {name: more, vpc: v7, server: s3, mac: '02:aa:00:00:00:01', addresses: [10.200.0.1]}\n";
        let more = format!("{}{line}{}", &base[..at], &base[at..]);
        measure(&mut document, &mut gateway, &format!("a machine more {name}"), [&more, &base], rounds);
    }
    let _ = std::fs::remove_file(file());
}
