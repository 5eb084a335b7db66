//! Runs the lab on the emulated switch, behind a flow cache, on both together, and behind a flow
//! cache in the kernel. All reachability is as expected, and each packet is accounted for.

use crate::place::{Gateway, TERRACE, Turn, json, lab_up, packets_by_reason, plain_region_text, terrace, turn};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Transformations of the switch: VM-NC of both families in one table, IPv6 by digests; routes
/// partitioned; an ACL split into pieces.
const SAILFISH: &str = "digest:vm_nc_v6,pool:vm_nc_v4+vm_nc_v6,alpm:route_v4*8,pieces:acl_in.v4*2";

/// Tables that must be on the chip, by the prefix of their names there.
const PLACED: [&str; 7] =
    ["route_v4", "route_v6", "vm_nc_v4_vm_nc_v6", "acl_in.v4", "acl_in.v6", "acl_out.v4", "acl_out.v6"];

fn runs(turn: &Turn) -> bool {
    terrace(&["region", "status", "--lab", &turn.lab]).status.success()
}

fn until(what: &str, there: impl Fn() -> bool) {
    let began = Instant::now();
    while !there() {
        assert!(began.elapsed() < PATIENCE, "{what}: in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the reachability matrix: from, to, address, replies.
fn everybody(turn: &Turn) -> Vec<[String; 4]> {
    let (code, table) = json(&["lab", "ping", "--count", "1", "--name", &turn.lab]);
    assert_eq!(code, Some(0), "{table}");
    let row = |ping: &Value| ["from", "to", "address", "received"].map(|key| ping[key].to_string());
    table.as_array().unwrap().iter().map(row).collect()
}

/// Returns the gateway's counts after checking that they add up.
fn accounted(turn: &Turn) -> Value {
    let stats = turn.stats();
    let sum = |counts: &Value| packets_by_reason(counts).iter().map(|(_, packets)| packets).sum::<u64>();
    let received = stats["received"]["packets"].as_u64().unwrap();
    let forwarded = stats["forwarded"]["packets"].as_u64().unwrap();
    // Each of these packets causes an ICMP error, except on a switch, which has no second pass. In a
    // run of more than half a minute, the kernels of machines verify by ARP that their router is there,
    // also while a gateway compiles its program.
    let makes_no_error = |reason: &str| reason.starts_with("icmp_") || ["inner_not_ip", "no_program"].contains(&reason);
    let has_switch = stats["engine"] == "asic" || stats["tiers"].is_string();
    let told =
        packets_by_reason(&stats["drops"]).into_iter().filter(|(reason, _)| !has_switch && !makes_no_error(reason));
    let errors = told.map(|(_, packets)| packets).sum::<u64>();
    assert_eq!(received + errors, forwarded + sum(&stats["drops"]) + sum(&stats["to_cpu"]), "{stats}");
    assert!(forwarded > 60, "{stats}");
    let reasons: Vec<String> = packets_by_reason(&stats["drops"]).into_iter().map(|(reason, _)| reason).collect();
    let known = |reason: &String| ["no_route", "unknown_vm"].contains(&reason.as_str()) || makes_no_error(reason);
    assert!(reasons.iter().all(known), "{reasons:?}");
    stats
}

#[test]
fn the_emulated_switch_forwards_the_labs_traffic_and_so_does_a_flow_cache() {
    let Some(turn) = turn() else { return };
    let switch = ["--engine", "asic", "--target", "tofino1", "--compress", SAILFISH];
    let (_folder, file) = lab_up(&turn, &plain_region_text(), &switch);
    let on_switch = everybody(&turn);
    let stats = accounted(&turn);
    assert_eq!(stats["engine"], "asic");
    let notes: Vec<&str> = stats["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for table in PLACED {
        let name = format!(".{table}");
        let places = notes.iter().filter_map(|note| note.split_once(" entries in pass "));
        let placed = places.filter(|(of, _)| of.contains(&name)).count() > 0;
        assert!(placed, "{table} is not on the chip: {notes:#?}");
    }
    assert!(!notes.iter().any(|note| note.contains("packets were dropped")), "{notes:#?}");

    // Replaces the engine, for the same VMs.
    turn.stop_gateway();
    until("the switch ends", || !runs(&turn));
    let mut command = Command::new(TERRACE);
    command.args([
        "gateway", "run", "--quiet", "--lab", &turn.lab, "--region", &file, "--engine", "interp", "--cache", "adaptive",
    ]);
    let _gateway = Gateway(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("the cache runs", || runs(&turn));
    assert_eq!(everybody(&turn), on_switch);
    let stats = accounted(&turn);
    assert_eq!([&stats["engine"], &stats["cache"]], ["interp", "adaptive"]);
    assert!(stats["notes"][0].as_str().is_some_and(|note| note.starts_with("cache: adaptive")), "{stats}");
    // A second run, with cached flows.
    assert_eq!(everybody(&turn), on_switch);
    let again = accounted(&turn);
    let slow = |stats: &Value| slow_path(stats["notes"][1].as_str().unwrap_or_default());
    let (first, all) = (slow(&stats), slow(&again));
    assert!(first > 0 && all - first < first / 4, "{first} packets took the slow path at first, {all} in all: {again}");

    // Both together, with the large tables hot: frequently hit entries move to the switch.
    turn.stop_gateway();
    until("the cache ends", || !runs(&turn));
    let mut command = Command::new(TERRACE);
    command.args(["gateway", "run", "--quiet", "--lab", &turn.lab, "--region", &file, "--tiers"]);
    command.args(["--hot", "route_v4=64", "--hot", "route_v6=64", "--hot", "vm_nc_v4=64", "--hot", "vm_nc_v6=64"]);
    let _tiers = Gateway(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("the tiers run", || runs(&turn));
    assert_eq!(everybody(&turn), on_switch);
    let stats = accounted(&turn);
    assert_eq!(stats["tiers"], "switch, dpu, cpu");
    let down = |stats: &Value| packets_down(stats["notes"][0].as_str().unwrap_or_default());
    assert!(down(&stats) > 20, "nothing was hot yet: {stats}");
    let hot = |stats: &Value| {
        let notes = stats["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
        notes.filter(|note| note.contains("hot entries") && !note.contains(": 0 of")).count()
    };
    until("entries are hot", || hot(&turn.stats()) >= 3);
    let before = down(&turn.stats());
    assert_eq!(everybody(&turn), on_switch);
    let last = accounted(&turn);
    assert!(down(&last) - before < down(&stats) / 2, "{before} of them went down before, {last}");
}

#[test]
fn the_kernel_forwards_what_it_has_been_shown() {
    let Some(turn) = turn() else { return };
    let (_folder, file) = lab_up(&turn, &plain_region_text(), &["--cache", "xdp"]);
    let first = everybody(&turn);
    let stats = accounted(&turn);
    assert_eq!([&stats["engine"], &stats["cache"]], ["jit", "xdp"]);
    assert_eq!(everybody(&turn), first, "the same from the kernel");
    let stats = turn.stats();
    let notes: Vec<&str> = stats["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    match notes.iter().find_map(|note| number_before(note, ", dropped ")) {
        Some(redirected) => assert!(redirected > 40, "the second time the kernel forwards them: {notes:#?}"),
        None => println!("no flow cache in this kernel: {notes:#?}"),
    }

    // Rewrites without the kernel, for the same VMs.
    turn.stop_gateway();
    until("the kernel's ends", || !runs(&turn));
    let mut command = Command::new(TERRACE);
    command.args(["gateway", "run", "--quiet", "--lab", &turn.lab, "--region", &file, "--cache", "rewrites"]);
    let _rewrites = Gateway(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("rewrites run", || runs(&turn));
    assert_eq!(everybody(&turn), first);
    let stats = accounted(&turn);
    assert_eq!([&stats["engine"], &stats["cache"]], ["jit", "rewrites"]);
    assert_eq!(everybody(&turn), first);
    let again = accounted(&turn);
    let of = |stats: &Value, words: &str| {
        let mut notes = stats["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
        notes.find_map(|note| number_before(note, words)).unwrap_or_else(|| panic!("{stats}"))
    };
    let slow = [&stats, &again].map(|stats| of(stats, " took the slow path"));
    assert!(slow[0] > 0 && slow[1] - slow[0] < slow[0] / 4, "{slow:?}: {again}");
    assert!(of(&again, " packets were rewritten") > 40, "{again}");

    // Native code.
    turn.stop_gateway();
    until("rewrites end", || !runs(&turn));
    let mut command = Command::new(TERRACE);
    command.args(["gateway", "run", "--quiet", "--lab", &turn.lab, "--region", &file]);
    let _native = Gateway(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("native code runs", || runs(&turn));
    assert_eq!(everybody(&turn), first);
    accounted(&turn);
}

/// Returns the number before `words` in a note.
fn number_before(note: &str, words: &str) -> Option<i64> {
    note.split_once(words)?.0.rsplit(' ').next()?.parse().ok()
}

/// Returns the packets sent down, from a note such as `tiers: 40.00 % of packets served by the
/// switch, 40; 60 went down in a bridge header of 52 bytes, 60 came back`.
fn packets_down(note: &str) -> i64 {
    let number = note.split(" went down").next().and_then(|text| text.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{note}"))
}

/// Returns the slow-path packets, from a note such as `cache: 96.00 % of 50 packets hit, 2 took the
/// slow path, 0 of them in part`.
fn slow_path(note: &str) -> i64 {
    let number = note.split(" took the slow path").next().and_then(|text| text.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{note}"))
}
