//! Tests the command line as a user runs it: help, exit codes, errors, and the schema of JSON.

#[allow(dead_code)]
mod command;

use command::{root, run};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn json(args: &[&str]) -> (i32, Value) {
    let (code, out, err) = run(args);
    assert_eq!(err, "", "nothing but the document is said with --json");
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}")))
}

/// Writes a file of the test. Returns its path.
fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Compares with the golden file; `BLESS=1` rewrites it.
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert!(wanted == text, "{} differs; BLESS=1 rewrites it. Now it is:\n{text}", path.display());
}

const REFLECTOR: &str = r#"
#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> b; }
struct headers_t { byte_t h; }
struct meta_t { }
parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t m) { apply { } }
control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    action to(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    table t {
        key = { hdr.h.b: exact; }
        actions = { to; drop; }
        default_action = drop();
    }
    apply { t.apply(); }
}
control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

#[test]
fn help_of_every_command() {
    let commands: &[&[&str]] = &[
        &[],
        &["check"],
        &["compile"],
        &["emit"],
        &["run"],
        &["trace"],
        &["stf"],
        &["region"],
        &["region", "check"],
        &["region", "entries"],
        &["region", "schema"],
        &["gateway"],
        &["gateway", "run"],
        &["region", "apply"],
        &["region", "diff"],
        &["region", "status"],
        &["lab"],
        &["lab", "up"],
        &["lab", "down"],
        &["lab", "status"],
        &["lab", "ping"],
        &["cache-eval"],
        &["completions"],
    ];
    for command in commands {
        let (code, out, _) = run(&[*command, &["--help"]].concat());
        assert_eq!(code, 0, "{command:?}");
        golden(&format!("help{}.txt", command.iter().map(|word| format!("-{word}")).collect::<String>()), &out);
    }
}

#[test]
fn wrong_usage_is_2() {
    assert_eq!(run(&[]).0, 2);
    assert_eq!(run(&["frobnicate"]).0, 2);
    assert_eq!(run(&["check"]).0, 2);
    assert_eq!(run(&["compile", "x.p4", "--dump", "soup"]).0, 2);
    let (code, _, err) = run(&["trace"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is no packet to trace; give one of --pcap"), "{err}");
    assert_eq!(run(&["compile", "programs/gateway/gateway.p4", "--dump", "ir-after:soup"]).0, 2);
}

#[test]
fn check_says_what_is_wrong_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(&folder, "good.p4", REFLECTOR);
    let bad = file(&folder, "bad.p4", &REFLECTOR.replace("mark_to_drop(s)", "mark_to_dorp(s)"));
    let (code, out, err) = run(&["check", &good]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.ends_with("good.p4: accepted (0 errors, 0 warnings)\n"), "{out}");
    let (code, out, err) = run(&["check", &good, &bad]);
    assert_eq!(code, 1);
    assert!(out.contains("bad.p4: refused (1 errors"), "{out}");
    assert!(err.contains("mark_to_dorp") && err.contains("bad.p4:13:"), "{err}");
    assert!(!err.contains('\u{1b}'), "no colours where there is no terminal");
    let (code, document) = json(&["check", "--json", &bad]);
    assert_eq!(code, 1);
    let finding = &document[0]["diagnostics"][0];
    assert_eq!((&document[0]["accepted"], &finding["line"]), (&false.into(), &13.into()));
    for field in ["severity", "code", "message", "file", "line", "column"] {
        assert!(!finding[field].is_null(), "{field} in {finding}");
    }
    assert!(run(&["check", "--color", "always", &bad]).2.contains('\u{1b}'));
}

#[test]
fn a_refused_program_is_3_where_it_is_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let bad = file(&folder, "bad.p4", "control {");
    let (code, out, err) = run(&["compile", &bad]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("bad.p4:1:"), "{err}");
    let (code, document) = json(&["--json", "compile", &bad]);
    assert_eq!((code, &document["error"]["kind"]), (3, &"refused".into()));
    assert!(!document["error"]["diagnostics"][0]["message"].is_null());
    assert_eq!(run(&["compile", "no/such/file.p4"]).0, 3);
}

#[test]
fn every_stage_can_be_dumped() {
    let folder = tempfile::tempdir().unwrap();
    let program = file(&folder, "reflector.p4", REFLECTOR);
    let passes = run(&["compile", &program, "--dump", "passes"]).1;
    let first = passes.split_whitespace().next().unwrap().to_owned();
    let (before, after) = (format!("ir-before:{first}"), format!("ir-after:{first}"));
    for stage in ["tokens", "syntax", "typed", "ir", "p4info", &before, &after] {
        let (code, out, err) = run(&["compile", &program, "--dump", stage]);
        assert_eq!((code, err.as_str()), (0, ""), "{stage}");
        let needle = if stage == "p4info" { "I.t" } else { "egress_spec" };
        assert!(out.contains(needle), "{stage} names {needle}:\n{out}");
    }
    let target = folder.path().join("out.ir").display().to_string();
    assert_eq!(run(&["compile", &program, "-o", &target]).0, 0);
    let printed = run(&["compile", &program]).1;
    assert_eq!(fs::read_to_string(&target).unwrap(), printed);
    assert!(ir::text::parse(&printed).is_ok(), "the IR dump can be read again");
    assert_eq!(run(&["compile", &program, "-o", "/no/such/folder/x"]).0, 4);
}

#[test]
fn stf_passes_fails_and_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let program = file(&folder, "p.p4", REFLECTOR);
    let stf = |text: &str| file(&folder, "t.stf", text);
    let (code, out, _) = run(&["stf", &program, &stf("add t hdr.h.b:1 to(port:2)\npacket 0 01aa\nexpect 2 01aa$\n")]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("PASS") && out.contains("1 packets in, 1 out"), "{out}");
    let test =
        stf("add t hdr.h.b:1 to(port:2)\npacket 0 01aa\nexpect 2 01bb\npacket 0 01cc\npacket 0 05\nexpect 3 05\n");
    let (code, out, _) = run(&["stf", &program, &test]);
    assert_eq!(code, 1);
    golden("stf-fail.txt", &out.replace(&folder.path().display().to_string(), "DIR"));
    let (code, document) = json(&["stf", "--json", &program, &test]);
    let kinds: Vec<&str> =
        document["report"]["findings"].as_array().unwrap().iter().map(|f| f["kind"].as_str().unwrap()).collect();
    assert_eq!((code, kinds), (1, vec!["differs", "unexpected", "missing"]));
    let (code, _, err) = run(&["stf", &program, &stf("add t hdr.h.b:1 fly()\n")]);
    assert_eq!(code, 3);
    assert!(err.contains("t.stf:1: the program has no action `fly`; it has `I.to`, `I.drop`"), "{err}");
    let (code, _, err) = run(&["stf", &program, &stf("wait\npacket 0 0x\n")]);
    assert!(code == 3 && err.contains("t.stf:2:11:"), "{err}");
}

#[test]
fn entries_file_run_and_captures() {
    let folder = tempfile::tempdir().unwrap();
    let program = file(&folder, "p.p4", REFLECTOR);
    let entries =
        file(&folder, "entries.txt", "# two ports\nI.t: hdr.h.b=1 -> to(port=2)\nt: hdr.h.b=2 -> to(port=3)\n");
    let input = folder.path().join("in.pcap");
    write_capture(&input, &[&[1, 0xaa], &[2, 0xbb], &[9, 0xcc]]);
    let out_dir = folder.path().join("out");
    let input = format!("4={}", input.display());
    let out = out_dir.display().to_string();
    let args = ["run", "--json", "--program", &program, "--entries", &entries, "--in", &input, "--out-dir", &out];
    let (code, stats) = json(&args);
    assert_eq!(code, 0);
    assert_eq!((&stats["received"]["packets"], &stats["forwarded"]["packets"]), (&3.into(), &2.into()));
    assert_eq!(stats["drops"]["program_drop"]["packets"], 1);
    assert!(out_dir.join("2.pcap").exists() && out_dir.join("3.pcap").exists() && !out_dir.join("4.pcap").exists());

    let wrong = file(&folder, "wrong.txt", "I.t: hdr.h.b=1 -> to(port=2)\n\nt: hdr.h.b=300 -> fly()\nx: -> y()\n");
    let (code, _, err) = run(&["run", "--program", &program, "--entries", &wrong, "--in", &input]);
    assert_eq!(code, 3);
    assert!(err.contains("wrong.txt:3: ") && err.contains("wrong.txt:4: "), "all wrong lines are named: {err}");
    // A default action for packets that miss.
    let default = file(&folder, "default.txt", "t: hdr.h.b=1 -> to(port=2)\nI.t: default -> to(port=7)\n");
    let args = ["run", "--json", "--program", &program, "--entries", &default, "--in", &input, "--out-dir", &out];
    let (code, stats) = json(&args);
    assert_eq!((code, &stats["forwarded"]["packets"]), (0, &3.into()));
    assert_eq!(fs::read(out_dir.join("7.pcap")).unwrap().len(), 24 + 2 * (16 + 2), "2 of 3 packets miss");
    let text =
        "t: default -> to(port=7)\nt: default -> drop()\nt: default -> to(port=7) priority=1\nt: default -> group 1\n";
    let wrong = file(&folder, "defaults.txt", &format!("{text}t: default -> fly()\nu: default -> drop()\n"));
    let (code, _, err) = run(&["run", "--program", &program, "--entries", &wrong, "--in", &input]);
    assert_eq!(code, 3);
    for (line, says) in [
        (2, "the default action of I.t was set already, at"),
        (3, "`priority=1`: a default action has no priority and no timeout"),
        (4, "`group 1`: a default action is an action, not a member or group"),
        (5, "table I.t has no action `fly`"),
        (6, "there is no table `u`"),
    ] {
        assert!(err.lines().any(|found| found.contains(&format!("defaults.txt:{line}: {says}"))), "{line}: {err}");
    }
    assert!(!err.contains("defaults.txt:1:"), "{err}");
    let (code, _, err) = run(&["run", "--program", &program, "--in", "no-such.pcap"]);
    assert!(code == 3 && err.contains("no-such.pcap"), "{err}");
}

/// The longest packet has 16 KiB. Longer frames of a capture are counted at their input, so that
/// received frames equal the sum of all outcomes.
#[test]
fn frames_above_the_limit_in_a_capture_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let program = file(&folder, "p.p4", REFLECTOR);
    let entries = file(&folder, "entries.txt", "I.t: hdr.h.b=1 -> to(port=2)\n");
    let (first, second) = (folder.path().join("in.pcap"), folder.path().join("second.pcap"));
    let long = |len: usize| [&[1u8][..], &vec![0; len - 1]].concat();
    write_capture(&first, &[&[1, 0xaa], &long(16_384), &long(16_385), &long(20_000), &[9, 0xcc], &[]]);
    write_capture(&second, &[&long(65_535)]);
    let inputs = [format!("4={}", first.display()), format!("5={}", second.display())];
    let args = ["--program", &program, "--entries", &entries, "--in", &inputs[0], "--in", &inputs[1]];
    let (code, stats) = json(&[&["run", "--json"][..], &args].concat());
    assert_eq!(code, 0);
    let packets = |what: &serde_json::Value| what["packets"].as_u64().unwrap_or(0);
    assert_eq!((packets(&stats["received"]), packets(&stats["forwarded"])), (7, 2), "{stats}");
    assert_eq!(stats["drops"]["rx_oversize"], serde_json::json!({ "packets": 3, "bytes": 16_385 + 20_000 + 65_535 }));
    let all: u64 = stats["drops"].as_object().unwrap().values().map(packets).sum();
    assert_eq!(packets(&stats["received"]), packets(&stats["forwarded"]) + all, "{stats}");
    let of = |number: u32| stats["ports"].as_array().unwrap().iter().find(|port| port["port"] == number).unwrap();
    assert_eq!((packets(&of(4)["received"]), packets(&of(4)["lost"]["rx_oversize"])), (4, 2), "{stats}");
    assert_eq!((packets(&of(5)["received"]), packets(&of(5)["lost"]["rx_oversize"])), (0, 1), "{stats}");
    assert_eq!((packets(&of(2)["sent"]), &of(2)["name"]), (2, &"2.pcap".into()), "{stats}");
    let [first_name, second_name] = [&first, &second].map(|path| path.display().to_string());
    let notes = [
        format!(
            "2 frames of {first_name} are too long for a packet (16 KiB at most) and were not processed; they count as rx_oversize"
        ),
        format!(
            "1 frame of {second_name} is too long for a packet (16 KiB at most) and was not processed; it counts as rx_oversize"
        ),
    ];
    assert_eq!(stats["notes"], serde_json::json!(notes), "{stats}");
    let (code, out, _) = run(&[&["run"][..], &args].concat());
    assert!(code == 0 && out.contains("rx_oversize") && notes.iter().all(|note| out.contains(note)), "{out}");
    // Half a packet, or half of the file, is rejected.
    let bytes = std::fs::read(&second).unwrap();
    std::fs::write(&second, &bytes[..bytes.len() - 1]).unwrap();
    let (code, _, err) = run(&[&["run"][..], &args].concat());
    assert!(code == 3 && err.contains("second.pcap") && err.contains("was cut off"), "{err}");
}

fn write_capture(path: &Path, packets: &[&[u8]]) {
    let mut bytes = 0xa1b2_c3d4u32.to_be_bytes().to_vec();
    bytes.extend([0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 1]);
    for (second, packet) in packets.iter().enumerate() {
        let length = (packet.len() as u32).to_be_bytes();
        bytes.extend((second as u32).to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(length);
        bytes.extend(length);
        bytes.extend(*packet);
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn trace_names_the_line_of_the_region_file() {
    let region = ["--region", "examples/lab.yaml"];
    let from_fields =
        ["--vni", "100", "--inner-src", "10.0.0.11", "--inner-dst", "10.0.0.12", "--proto", "tcp", "--dport", "80"];
    let (code, out, err) = run(&[&["trace"], &region[..], &from_fields].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("from examples/lab.yaml:81: VM red-b"), "{out}");
    assert!(out.contains("=> sent on port 2"), "{out}");
    let (code, document) = json(&[&["trace", "--json"], &region[..], &from_fields].concat());
    assert_eq!(code, 0);
    assert_eq!(document["verdicts"][0]["verdict"], "forward");
    let hit = |table: &str| {
        let steps = document["steps"].as_array().unwrap();
        let found = steps
            .iter()
            .find(|step| step["table"]["table"] == table)
            .unwrap_or_else(|| panic!("{table} in {document}"));
        found["table"]["hit"]["provenance"].as_str().unwrap().to_owned()
    };
    assert_eq!(hit("gateway.tenancy.tenant"), "examples/lab.yaml:36: VPC red");
    // Tracing the built packet as hex digits gives the same result.
    let packet = document["packet"]["hex"].as_str().unwrap();
    let again = json(&[&["trace", "--json", "--port", "1", "--hex", packet], &region[..]].concat()).1;
    assert_eq!(again["verdicts"], document["verdicts"]);
}

/// In both directions, of a VPC with NPTv6: the address is that of the example of RFC 6296.
#[test]
fn trace_names_the_line_of_a_way_to_the_internet_over_ipv6() {
    let folder = tempfile::tempdir().unwrap();
    let text = "region: r
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1]}
uplinks:
- {name: s, port: 1, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:01:02}
- {name: isp, port: 2, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:02:02, mtu: 1500}
servers: [{name: s1, address: 192.0.2.11, uplinks: [s]}]
internet: {uplinks: [isp]}
vpcs:
- name: n
  vni: 300
  subnets: ['fd01:203:405:1::/64']
  ipv6_internet: {translate: [{inside: 'fd01:203:405::/48', outside: '2001:db8:1::/48'}]}
  routes: [{to: '::/0', internet: true}]
vms: [{name: n1, vpc: n, server: s1, mac: 02:00:00:30:00:01, addresses: ['fd01:203:405:1::1234']}]
";
    let region = file(&folder, "r.yaml", text);
    let from_vm = ["--vni", "300", "--inner-src", "fd01:203:405:1::1234", "--inner-dst", "2001:db8:99::9"];
    let (_, out, err) = run(&[&["trace", "--region", &region][..], &from_vm].concat());
    assert_eq!(err, "");
    let what = "r.yaml:12: VPC n: Internet over IPv6, fd01:203:405:1::/64 as 2001:db8:1::/48";
    assert!(out.contains(what) && out.contains("=> sent on port 2"), "{out}");
    let layers =
        "eth(dst=02:00:5e:00:00:01)/ipv6(src=2001:db8:99::9, dst=2001:db8:1:d550::1234)/udp(sport=53, dport=53)";
    let (_, out, err) = run(&["trace", "--region", &region, "--port", "2", "--packet", layers]);
    assert_eq!(err, "");
    let what = "r.yaml:12: VPC n: 2001:db8:1::/48 on the Internet is fd01:203:405::/48";
    assert!(out.contains(what) && out.contains("=> dropped: internet_unasked"), "{out}");
}

#[test]
fn a_traced_drop_has_the_name_that_the_program_gives_it() {
    let args = ["trace", "--json", "--region", "examples/lab.yaml", "--vni", "100", "--inner-src", "10.0.0.11"];
    let to = |destination: &str, more: &[&str]| {
        json(&[&args[..], &["--inner-dst", destination], more].concat()).1["verdicts"][0].clone()
    };
    assert_eq!(to("10.66.0.1", &[])["reason"], "blackhole_route");
    assert_eq!(to("10.0.0.12", &["--dport", "2323"])["reason"], "acl_denied_in");
    assert_eq!(to("10.0.0.99", &[])["reason"], "unknown_vm");
    assert_eq!(to("8.8.8.8", &[])["verdict"], "forward");
    assert_eq!(to("192.0.2.11", &[])["reason"], "nat_destination");
    let unknown = ["--vni", "77", "--inner-src", "10.0.0.1", "--inner-dst", "10.0.0.2", "--outer-src", "192.0.2.11"];
    let (_, document) = json(&[&["trace", "--json", "--region", "examples/lab.yaml"][..], &unknown].concat());
    assert_eq!(document["verdicts"][0]["reason"], "unknown_vni");
}

#[test]
fn trace_says_what_it_lacks() {
    let (code, _, err) = run(&["trace", "--vni", "1", "--inner-src", "10.0.0.1", "--inner-dst", "10.0.0.2"]);
    assert!(code == 2 && err.contains("give --outer-src (or --region)"), "{err}");
    let (code, _, err) = run(&["trace", "--hex", "0g"]);
    assert!(code == 2 && err.contains("`g` is no hex digit"), "{err}");
    let (code, _, err) = run(&["trace", "--vni", "1", "--inner-src", "10.0.0.1", "--inner-dst", "::1"]);
    assert!(code == 2 && err.contains("different families"), "{err}");
}

#[test]
fn region_files() {
    let (code, out, _) = run(&["region", "check", "examples/lab.yaml"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("examples/lab.yaml: accepted (3 VPCs, 8 VMs, 3 servers)"), "{out}");
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join("examples/lab.yaml")).unwrap();
    let wrong = file(&folder, "wrong.yaml", &text.replace("vpc: green, server: s3", "vpc: grean, server: s3"));
    let (code, out, _) = run(&["region", "check", &wrong]);
    assert_eq!(code, 1);
    assert!(out.contains("grean") && out.contains("help:") && out.contains("refused (1 problems)"), "{out}");
    let (code, document) = json(&["region", "check", "--json", &wrong]);
    assert_eq!((code, &document[0]["accepted"]), (1, &false.into()));
    assert!(document[0]["problems"][0]["line"].as_u64().unwrap() > 1);
    assert_eq!(run(&["region", "entries", &wrong]).0, 3);
    let (code, entries) = json(&["region", "entries", "--json", "--table", "vm_nc", "examples/lab.yaml"]);
    assert_eq!((code, entries.as_array().unwrap().len()), (0, 16));
    assert!(entries[0]["provenance"].as_str().unwrap().starts_with("examples/lab.yaml:"));
    let schema: Value = serde_json::from_str(&run(&["region", "schema"]).1).unwrap();
    assert_eq!(schema["title"], "RegionFile");
}

#[test]
fn a_gateway_that_does_not_run_is_4() {
    let (code, _, err) = run(&["region", "status", "--node", "/no/such/socket"]);
    assert_eq!(code, 4);
    assert!(err.contains("no node listens on /no/such/socket") && err.contains("terrace gateway run"), "{err}");
    let (code, document) = json(&["region", "apply", "--json", "--node", "/no/such/socket"]);
    assert_eq!((code, &document["error"]["kind"]), (4, &"environment".into()));
    let (code, _, err) = run(&["gateway", "run", "--region", "examples/lab.yaml", "--port", "x"]);
    assert!(code == 2 && err.contains("NUMBER=INTERFACE"), "{err}");
    let (code, _, err) = run(&["lab", "status", "--name", "nosuchlab"]);
    assert!(code == 4 && err.contains("there is no lab called `nosuchlab`"), "{err}");
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, _) = run(&["completions", shell]);
        assert_eq!(code, 0);
        assert!(out.contains("terrace") && out.contains("region"), "{shell}");
    }
}

#[test]
fn a_pipeline_is_written_together_with_its_p4info() {
    let folder = tempfile::tempdir().unwrap();
    let program = file(&folder, "reflector.p4", REFLECTOR);
    let [pipeline, p4info] = ["reflector.ir", "reflector.txtpb"].map(|name| file(&folder, name, ""));
    assert_eq!(run(&["compile", &program, "-o", &pipeline, "--p4info", &p4info]).0, 0);
    let [pipeline, p4info] = [pipeline, p4info].map(|path| fs::read_to_string(path).unwrap());
    let read = ir::text::parse(&pipeline).expect("a node can read it");
    assert_eq!(ir::p4info::to_txtpb(&ir::p4info::generate(&read)), p4info);
    assert_eq!(run(&["compile", &program, "--p4info", "x"]).0, 2, "a P4Info alone is a dump");
}

/// `emit` writes a program, names what the chip cannot express, and rejects sizes of tables that
/// the program lacks.
#[test]
fn emit_writes_names_and_refuses() {
    let program = "programs/gateway/gateway.p4";
    let (code, out, err) = run(&["emit", program, "--target", "tna"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("Switch(pipe) main;") && err.contains("left out: "), "{err}");
    let (code, _, err) = run(&["emit", program, "--target", "tna", "--strict"]);
    assert!(code == 3 && err.contains("cannot be expressed in tna"), "{code}: {err}");
    let (code, out, err) = run(&["emit", program, "--target", "pna"]);
    assert!(code == 0 && out.contains("PNA_NIC(") && !err.contains("left out"), "{code}: {err}");
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = folder.path().join("sizes.toml");
    std::fs::write(&sizes, "[tables]\n\"gateway.nope\" = 3\n").expect("a file of sizes");
    let sizes = sizes.display().to_string();
    let (code, _, err) = run(&["emit", program, "--target", "tna", "--sizes", &sizes]);
    assert!(code == 3 && err.contains("gateway.nope"), "{code}: {err}");
}

/// The emitted program is the plan's compressed one. `emit --dump` prints the pipeline after a pass
/// for a chip, and its output is a valid pipeline.
#[test]
fn emit_dumps_its_passes() {
    let emit = ["emit", "programs/gateway/gateway.p4", "--target", "t2na", "--dump"];
    let (code, passes, err) = run(&[&emit[..], &["passes"]].concat());
    assert_eq!(code, 0, "{err}");
    let names: Vec<&str> = passes.lines().filter_map(|line| line.split(' ').next()).collect();
    let (code, all, err) = run(&[&emit[..], &["all"]].concat());
    assert_eq!(code, 0, "{err}");
    let dumped: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("// after ")).collect();
    assert_eq!(dumped, names);
    let (code, last, err) = run(&[&emit[..], &["value-numbering"]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(all.ends_with(&format!("{last}\n")), "the last pass is the last dump");
    ir::text::parse(&last).unwrap_or_else(|errors| panic!("{errors:?}"));
    let (code, _, err) = run(&[&emit[..], &["none"]].concat());
    assert_eq!(code, 2);
    assert!(err.contains("there is no pass `none`; the passes are dead-stores, if-conversion"), "{err}");
}

#[test]
fn emit_makes_tables_smaller_as_a_plan_does() {
    let (program, sizes) = ("programs/gateway/gateway.p4", "programs/gateway/compressed.toml");
    let emit = ["emit", program, "--target", "t2na", "--sizes", sizes, "--use-egress", "--compress"];
    let (code, out, err) = run(&[&emit[..], &["auto", "--digest-seed", "77"]].concat());
    assert_eq!(code, 0, "{err}");
    for step in ["part gateway.routing.route_v4", "part gateway.routing.route_v6", "digest gateway.vm_nc.vm_nc_v6"] {
        assert!(err.contains(step), "{step}: {err}");
    }
    assert!(out.contains("atcam_partition_index") && out.contains("64w77"), "{out}");
    let seeds = [(); 2].map(|()| {
        let (code, _, err) = run(&[&emit[..], &["digest:vm_nc_v6"]].concat());
        let said = err.lines().find(|line| line.contains("digests start from")).map(str::to_owned);
        (code, said.unwrap_or_else(|| panic!("{err}")))
    });
    assert!(seeds[0].0 == 0 && seeds[0].1 != seeds[1].1, "a seed that nobody knows: {seeds:?}");
    let (code, _, err) = run(&[&emit[..], &["digest:route_v4"]].concat());
    assert!(code == 3 && err.contains("digest gateway.routing.route_v4"), "{code}: {err}");
    let (code, _, err) = run(&[&emit[..], &["smaller"]].concat());
    assert!(code == 2 && err.contains("`smaller` is no step"), "{code}: {err}");
}

/// With `--lower-half`, another program does what the chip cannot express, and it compiles.
#[test]
fn emit_leaves_the_rest_to_the_tier_below() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (program, what) in [
        ("add_on_miss", "entries of `main_control.flows` (as they arrived)"),
        ("mirror", "`mirror_packet`"),
        ("port_kinds", "`is_net_port`"),
    ] {
        let program = format!("tests/corpus/pna/{program}.p4");
        for below in ["below.p4", "below.ir"].map(file) {
            let (above, strict) = (file("above.p4"), ["--strict", "-o"]);
            let args = ["emit", &program, "--target", "tna", "--lower-half", &below, strict[0], strict[1], &above];
            let (code, out, err) = run(&args);
            match what {
                "`mirror_packet`" => {
                    assert!(code == 3 && err.contains("`mirror_packet` follows a cut point"), "{code}: {err}")
                }
                _ => {
                    assert!(code == 0 && err.contains("packets leave at ") && err.contains(what), "{code}: {err}{out}");
                    let above = std::fs::read_to_string(&above).expect("the chip's part");
                    assert!(above.contains("terrace_bridge") && above.contains("Switch(pipe) main;"), "{above}");
                    if below.ends_with(".p4") {
                        let (code, _, err) = run(&["check", &below]);
                        assert_eq!(code, 0, "{err}");
                    } else {
                        let text = std::fs::read_to_string(&below).expect("the part below");
                        assert!(ir::text::parse(&text).is_ok(), "{text}");
                    }
                }
            }
        }
    }
    let (code, _, err) =
        run(&["emit", "tests/corpus/pna/forwarding.p4", "--target", "tna", "--lower-half", &file("none.p4")]);
    assert!(code == 0 && err.contains("nothing is done below") && !folder.path().join("none.p4").exists(), "{err}");
}
