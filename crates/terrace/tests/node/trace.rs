//! Tests `terrace trace --node`.

use super::lab::{Lab, PATIENCE, from_red_a, root, terrace, traffic};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn packets_that_pass_are_explained_as_text_and_as_json() {
    let mut lab = Lab::start();
    let packets = traffic();
    let hex: Vec<String> = packets.iter().map(|(_, bytes)| packet::hex(bytes)).collect();
    let (code, out, err) = lab.under_traffic(&packets, |socket| {
        terrace(&[
            "trace",
            "--node",
            socket,
            "--filter",
            "udp port 4789 and port 50000",
            "--count",
            "4",
            "--seconds",
            "60",
        ])
    });
    assert_eq!(code, 0, "{err}");
    let heads: Vec<&str> = out.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(heads.len(), 4, "{out}");
    assert!(heads.iter().all(|head| head.contains(" on port 1 (uplink1), ")), "{out}");
    assert!(
        out.contains("  verdict: sent on port 2, ") && out.contains("  verdict: dropped: acl_denied_in\n"),
        "{out}"
    );
    assert!(out.contains("from examples/lab.yaml:81: VM red-b"), "{out}");
    assert!(!out.contains("note"), "the explanation is what happened: {out}");
    assert!(err.contains("tracing up to 4 packets for 60 s") && err.contains("4 packets\n"), "{err}");

    let (code, out, err) = lab.under_traffic(&packets, |socket| {
        terrace(&["trace", "--json", "--node", socket, "--reason", "acl_denied_in", "--count", "3", "--seconds", "60"])
    });
    assert_eq!((code, err.as_str()), (0, ""));
    let documents: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(documents.len(), 3);
    for (number, document) in (1..).zip(&documents) {
        assert_eq!(document["number"], number);
        assert_eq!(document["packet"]["hex"], hex[1].as_str());
        assert_eq!(document["verdicts"], serde_json::json!([{ "verdict": "drop", "reason": "acl_denied_in" }]));
        assert_eq!(document["explanation"]["verdicts"], document["verdicts"]);
    }

    let (code, out, _) = lab.under_traffic(&packets, |socket| {
        terrace(&["trace", "--json", "--node", socket, "--port", "2", "--drops", "--count", "2", "--seconds", "60"])
    });
    assert_eq!(code, 0);
    let ports: Vec<Value> = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    assert!(ports.len() == 2 && ports.iter().all(|d| d["packet"]["hex"] == hex[2].as_str()), "{out}");
}

#[test]
fn packets_that_pass_are_written_as_pcapng_with_comments() {
    let mut lab = Lab::start();
    let packets = traffic();
    let file = lab.folder.path().join("trace.pcapng");
    let before = io::now();
    let name = file.display().to_string();
    let (code, out, err) = lab.under_traffic(&packets, |socket| {
        terrace(&["trace", "--node", socket, "--count", "30", "--seconds", "60", "--pcapng", &name])
    });
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.contains(&format!("30 packets, written to {name}")), "{err}");
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "there is no .venv with scapy: run scripts/setup test");
    let read =
        Command::new(python).args(["-B", "tests/scapy/comments.py", &name]).current_dir(root()).output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&read.stdout), String::from_utf8_lossy(&read.stderr));
    assert!(read.status.success(), "{complained}");
    let all: Vec<Value> = serde_json::from_str(&said).unwrap();
    let (came, left): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|packet| packet["flags"] == 1);
    assert_eq!(came.len(), 30);
    assert!(left.len() >= 8 && left.iter().all(|packet| packet["flags"] == 2), "{said}");
    for packet in &came {
        let comments = packet["comments"].as_array().unwrap();
        let text = comments[0].as_str().unwrap();
        assert_eq!(comments.len(), 1);
        assert!(text.contains("verdict: ") && text.contains("explained on tables of version"), "{text}");
        assert!(!text.contains('\u{1b}'), "no colours in {text:?}");
        assert!((before..=io::now()).contains(&packet["at_ns"].as_u64().unwrap()));
        let (port, bytes) = packets.iter().find(|(_, b)| packet["hex"] == packet::hex(b).as_str()).unwrap();
        assert_eq!(packet["interface"], format!("uplink{port}"));
        let denied = bytes == &packets[1].1;
        assert_eq!(text.contains("verdict: dropped: acl_denied_in"), denied, "{text}");
    }
    for packet in &left {
        let text = packet["comments"][0].as_str().unwrap();
        assert!(packet["interface"] == "uplink2" && text.starts_with("verdict on packet #"), "{packet}");
        // The outer Ethernet destination is s2's.
        assert!(packet["hex"].as_str().unwrap().starts_with("020000020002020000020001"), "{packet}");
    }
}

#[test]
fn a_packet_that_might_come_is_explained_by_the_nodes_tables() {
    let lab = Lab::start();
    let inner = "eth(src=02:00:00:10:00:0a,dst=02:00:5e:00:00:01)/ipv4(src=10.0.0.11,dst=10.0.0.12)/tcp(dport=2323)/payload(32)";
    let outer = "eth(src=02:00:00:01:00:02,dst=02:00:00:01:00:01)/ipv4(src=192.0.2.11,dst=192.0.2.1)/udp(sport=50000)/vxlan(vni=100)";
    let words = format!("{outer}/{inner}");
    let by_words = ["trace", "--json", "--node", &lab.socket, "--port", "1", "--packet", &words];
    let (code, out, err) = terrace(&by_words);
    assert_eq!((code, err.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["verdicts"], serde_json::json!([{ "verdict": "drop", "reason": "acl_denied_in" }]));
    let fields =
        ["--region", "examples/lab.yaml", "--vni", "100", "--inner-src", "10.0.0.11", "--inner-dst", "10.0.0.12"];
    let by_fields = [&["trace", "--json", "--node", &lab.socket][..], &fields, &["--dport", "2323"]].concat();
    let (_, out, _) = terrace(&by_fields);
    let same: Value = serde_json::from_str(&out).unwrap();
    // Fields that the words do not name have other defaults: the packets differ only in fields that
    // no table matches on.
    let tables = |document: &Value| {
        let steps = document["steps"].as_array().unwrap().iter();
        steps.filter(|step| !step["table"].is_null()).cloned().collect::<Vec<_>>()
    };
    assert!(tables(&document).len() > 3, "{document}");
    assert_eq!((tables(&same), &same["packet"]["port"]), (tables(&document), &1.into()));
    let (code, text, _) = terrace(&[&["trace", "--node", &lab.socket][..], &fields].concat());
    assert_eq!(code, 0);
    assert!(text.contains("from examples/lab.yaml:81: VM red-b") && text.contains("=> sent on port 2"), "{text}");
    // The node has received none of it.
    assert_eq!(lab.node.counts()[0].received.packets, 0);
}

#[test]
fn what_cannot_be_is_said_with_the_mend() {
    let lab = Lab::start();
    let trace = |args: &[&str]| terrace(&[&["trace", "--node", &lab.socket], args].concat());
    let (code, _, err) = trace(&["--filter", "udp prot 4789"]);
    assert!(code == 2 && err.contains("--filter `udp prot 4789`: ") && err.contains("man pcap-filter"), "{err}");
    let (code, _, err) = trace(&["--count", "0"]);
    assert!(code == 3 && err.contains("a trace shows 1 to 100000 packets, not 0"), "{err}");
    let (code, _, err) = trace(&["--packet", "eth/ipv5"]);
    assert!(code == 2 && err.contains("`ipv5` is no layer") && err.ends_with("\n  eth/ipv5\n      ^\n"), "{err}");
    let (code, _, err) = trace(&["--packet", "eth", "--filter", "ip"]);
    assert!(code == 2 && err.contains("cannot be used with"), "{err}");
    let (code, _, err) = trace(&["--pcapng", "/no/such/folder/x", "--seconds", "1"]);
    assert!(code == 4 && err.contains("cannot write /no/such/folder/x"), "{err}");
    let (code, _, err) = terrace(&["trace", "--node", "/no/such/socket"]);
    assert!(code == 4 && err.contains("no node listens on /no/such/socket"), "{err}");
    let (code, _, err) = terrace(&["trace", "--filter", "ip"]);
    assert!(code == 2 && err.contains("--node"), "{err}");
    // No packet arrives: it ends by itself.
    let (code, out, err) = trace(&["--seconds", "1"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("0 packets"), "{err}");
}

/// The switch is one node, and the tiers below it another.
#[test]
fn a_packet_is_followed_from_node_to_node() {
    let [mut switch, below] = Lab::apart();
    let packets = vec![traffic().swap_remove(0)];
    let lower = below.socket.clone();
    let follow = |socket: &str, more: &[&str]| {
        terrace(&[&["trace", "--node", socket, "--node", &lower, "--count", "2", "--seconds", "60"], more].concat())
    };
    let (code, out, err) = switch.under_traffic(&packets, |socket| follow(socket, &[]));
    assert_eq!(code, 0, "{err}");
    let said = [
        "  verdict: sent on port 301, ".to_owned(),
        "tier switch: down at cut point 0, ".to_owned(),
        " µs in switch (jit)".to_owned(),
        format!("  at {lower}, from the switch "),
        " µs in dpu, cpu (flowcache): ".to_owned(),
        format!("  at {}, back from the tiers below ", switch.socket),
        "    verdict: sent on port 2, 136 bytes".to_owned(),
        "  in all ".to_owned(),
    ];
    let mut rest = &*out;
    for what in said.iter().chain(&said) {
        let (_, behind) = rest.split_once(&**what).unwrap_or_else(|| panic!("`{what}` is not in its place: {out}"));
        rest = behind;
    }
    assert!(!out.contains("note"), "each part is what happened: {out}");
    let (_, out, _) = switch.under_traffic(&packets, |socket| follow(socket, &["--json"]));
    for line in out.lines() {
        let document: Value = serde_json::from_str(line).unwrap();
        let parts = document["elsewhere"]["parts"].as_array().unwrap();
        assert!(parts.len() == 3 && parts.iter().all(|part| part["trace_id"] == document["trace_id"]), "{line}");
        assert_eq!(document["elsewhere"]["missing"], serde_json::json!([]));
    }

    let packet = ["--port", "1", "--hex", &packet::hex(&packets[0].1)];
    let both = ["--node", &switch.socket, "--node", &lower];
    let (code, out, err) = terrace(&[&["trace"], &both[..], &packet].concat());
    assert!(code == 0 && out.contains(&format!("at {lower}, from the switch\n")), "{out}{err}");
    assert!(out.ends_with("=> sent on port 2, 136 bytes\n"), "{out}");
    let (_, out, _) = terrace(&[&["trace"], &both[..2], &packet].concat());
    assert!(out.contains("add that process with another --node"), "{out}");
    let (code, out, err) = terrace(&[&["why-not-offloaded"], &both[..], &packet].concat());
    let places = [
        out.find("tier switch: down at cut point 0, "),
        out.find("\noffloaded: the whole path is cached"),
        out.rfind("\n=> sent on port 2, 136 bytes\n"),
    ];
    assert!(code == 0 && places.iter().all(Option::is_some) && places.is_sorted(), "{out}{err}");

    let refused = |args: &[&str]| terrace(&[args, &both[..]].concat());
    let (code, _, err) = refused(&["why-not-offloaded"]);
    assert!(code == 2 && err.contains("explains one packet"), "{err}");
    let (code, _, err) = refused(&["trace", "--pcapng", "-"]);
    assert!(code == 2 && err.contains("--pcapng works with one node"), "{err}");
    let (code, _, err) = terrace(&["trace", "--live", "--node", &lower]);
    assert!(code == 3 && err.contains("no switch"), "{err}");
}

/// Returns the memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
}

/// Runs in a process of its own, because all memory of the process is counted.
#[test]
fn a_client_that_does_not_read_costs_no_packet_and_bounded_memory() {
    const ALONE: &str = "TERRACE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "trace::a_client_that_does_not_read_costs_no_packet_and_bounded_memory"]);
        let output = alone.env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let mut lab = Lab::start();
    let mut silent: Vec<UnixStream> = Vec::new();
    for _ in 0..4 {
        let mut stream = UnixStream::connect(&lab.socket).unwrap();
        stream.write_all(b"{\"command\":\"trace\",\"packets\":100000,\"seconds\":600}\n").unwrap();
        // It has started once it prints a line.
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("\"trace\":\"begun\""), "{line}");
        silent.push(stream);
    }
    let packet = from_red_a("10.0.0.12", "80");
    let before = resident();
    let (count, some) = (60_000, 1000);
    let deadline = Instant::now() + PATIENCE;
    for _ in 0..count / some {
        let mut under_way = 0;
        for _ in 0..some {
            assert!(lab.wires[0].send_bytes(&packet).expect("short"));
            under_way += 1;
        }
        while under_way > 0 {
            match lab.wires[1].take() {
                Some(_) => under_way -= 1,
                None => std::thread::yield_now(),
            }
            assert!(Instant::now() < deadline, "packets are missing: {:?}", lab.node.counts());
        }
    }
    let more = resident().saturating_sub(before);
    println!("{} MiB more", more >> 20);
    assert!(more < 128 << 20, "{more} bytes more for {count} packets");
    assert_eq!(lab.node.counts()[0].drops.len(), 0);
    // When they are gone, others are accepted.
    drop(silent);
    let (code, out, err) = lab.under_traffic(&[(1, packet)], |socket| {
        terrace(&["trace", "--node", socket, "--count", "1", "--seconds", "60"])
    });
    assert!(code == 0 && out.starts_with("#1 "), "{err}");
}

/// A closed reader ends the trace, as `head` does.
#[test]
fn a_closed_pipe_ends_it() {
    let mut lab = Lab::start();
    let packets = traffic();
    lab.under_traffic(&packets, |socket| {
        let args = ["trace", "--node", socket, "--count", "100000", "--seconds", "600"];
        let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().starts_with("#1 "));
        drop(lines);
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it goes on though nobody reads");
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

/// Removes values that vary between runs.
fn without_times(text: &str) -> String {
    let one = |line: &str| {
        let clock = line.strip_prefix("#1 ").and_then(|rest| rest.split_once(' '));
        let line = clock.map_or(line.to_owned(), |(_, rest)| format!("#1 12:00:00.000000000Z {rest}"));
        match line.split_once("as of ") {
            Some((before, _)) => format!("{before}as of 0.2 ms later\n"),
            None => line + "\n",
        }
    };
    text.lines().map(one).collect()
}

/// Compares the examples in docs/reference/trace.md with the output (`BLESS=1` rewrites it).
#[test]
fn the_examples_of_the_documentation_are_what_happens() {
    let path = root().join("docs/reference/trace.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lab = Lab::start();
    let packets = vec![traffic().swap_remove(0)];
    let (mut real, mut commands) = (String::new(), 0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        real += &format!("{line}\n");
        if line != "```console" {
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let command = block[0].strip_prefix("$ terrace ").expect("a command");
        let output = lab.under_traffic(&packets, |socket| {
            // Quoted words stay together.
            let words = command.split('\'').enumerate().flat_map(|(index, part)| match index % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            });
            let mut words: Vec<String> = words.collect();
            let at = words.iter().position(|word| word == "--node").expect("--node");
            words.insert(at + 1, socket.to_owned());
            let (code, out, err) = terrace(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(code, 0, "{command}: {err}");
            out
        });
        real += &format!("$ terrace {command}\n{}```\n", without_times(&output));
        commands += 1;
    }
    assert!(commands >= 2, "only {commands} commands found");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, real).unwrap();
        return;
    }
    for (line, (shown, now)) in text.lines().zip(real.lines()).enumerate() {
        assert_eq!(shown, now, "docs/reference/trace.md:{}: BLESS=1 rewrites it", line + 1);
    }
    assert_eq!(text, real);
}
