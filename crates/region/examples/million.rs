//! What a region file of a million machines costs this crate: `million [MACHINES [ROUNDS]]`.
//!
//! It prints how long the text takes to be read, and then, for a rule that changes and for a
//! machine more and less at the beginning, in the middle and at the end of the list, how long
//! [`Document::edit`] and [`Document::apply`] take (the median of some rounds), and the most
//! memory that the process has had.

use region::Document;
use std::fmt::Write;
use std::time::Instant;

const VPCS: usize = 250;
const SERVERS: usize = 1000;

/// As testkit's `regions::text`: four rules for each VPC.
fn text(vms: usize) -> String {
    let mut out = String::from(
        "region: made\ngateway: {mac: '02:00:5e:00:00:01', vteps: [192.0.2.1, '2001:db8::1']}\n\
         uplinks: [{name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}]\nservers:\n",
    );
    for s in 0..SERVERS {
        let _ = writeln!(out, "- {{name: s{s}, address: 198.18.{}.{}, uplinks: [u]}}", s >> 8, s & 255);
    }
    out.push_str("vpcs:\n");
    for v in 0..VPCS {
        let _ = writeln!(out, "- name: v{v}\n  vni: {}\n  subnets: [10.0.0.0/8]\n  acl:", 100 + v);
        for r in 0..4 {
            let (priority, action, port) = (10 + r, ["permit", "deny"][r % 2], 1000 + r);
            let _ = writeln!(
                out,
                "  - {{priority: {priority}, action: {action}, protocol: tcp, from: 10.{r}.0.0/16, ports: {port}}}"
            );
        }
    }
    out.push_str("vms:\n");
    for i in 0..vms {
        let (v, n) = (i % VPCS, i / VPCS + 1);
        let (a, b, c) = (n >> 16 & 255, n >> 8 & 255, n & 255);
        let server = i % SERVERS;
        let _ = writeln!(
            out,
            "- {{name: m{i}, vpc: v{v}, server: s{server}, mac: '02:01:{v:02x}:{a:02x}:{b:02x}:{c:02x}', addresses: [10.{a}.{b}.{c}]}}",
        );
    }
    out
}

/// The most memory that this process has had.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim().to_owned()
}

fn median(mut times_ms: Vec<f64>) -> f64 {
    times_ms.sort_by(f64::total_cmp);
    times_ms[times_ms.len() / 2]
}

/// Goes over to another text and back to the one before, some times: the medians of both.
fn measure(document: &mut Document, name: &str, base: &str, other: &str, rounds: usize) {
    let mut times: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..rounds {
        for (direction, text) in [other, base].into_iter().enumerate() {
            let began = Instant::now();
            let edit = document.edit(text).expect("an edit");
            let found = Instant::now();
            std::hint::black_box(document.apply(edit));
            times[direction][0].push((found - began).as_secs_f64() * 1e3);
            times[direction][1].push(found.elapsed().as_secs_f64() * 1e3);
        }
    }
    for (times, direction) in times.into_iter().zip(["", ", and back"]) {
        let [edit, apply] = times.map(median);
        println!("{:<40} edit {edit:>7.1} ms, apply {apply:>7.1} ms", format!("{name}{direction}"));
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>().expect("a number"));
    let (vms, rounds) = (arguments.next().unwrap_or(1_000_000), arguments.next().unwrap_or(5));
    let path = std::env::temp_dir().join(format!("million-{}.yaml", std::process::id()));
    std::fs::write(&path, text(vms)).expect("room for the file");
    let began = Instant::now();
    let base = region::read(&path).expect("a file");
    println!("{:<40} {:>12.1} ms", "the file to text", began.elapsed().as_secs_f64() * 1e3);
    let _ = std::fs::remove_file(&path);
    let began = Instant::now();
    let mut document = Document::parse("r.yaml", base.clone()).expect("a region");
    println!("{:<40} {:>12.1} ms", "text to region", began.elapsed().as_secs_f64() * 1e3);
    println!("{:<40} {:>15}, the text twice", "most memory", memory());

    let rule = base.replacen("ports: 1001", "ports: 2001", 1);
    measure(&mut document, "a rule changed", &base, &rule, rounds);
    let list = base.find("\nvms:\n").expect("the list") + "\nvms:\n".len();
    let middle = base[..(list + base.len()) / 2].rfind('\n').expect("a line") + 1;
    for (name, at) in [("at the beginning", list), ("in the middle", middle), ("at the end", base.len())] {
        let line = "- {name: more, vpc: v7, server: s3, mac: '02:aa:00:00:00:01', addresses: [10.200.0.1]}\n";
        let more = format!("{}{line}{}", &base[..at], &base[at..]);
        measure(&mut document, &format!("a machine more {name}"), &base, &more, rounds);
    }
}
