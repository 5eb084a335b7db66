//! ICMP errors and echo replies as VMs see them: `traceroute`, `ping`, `tracepath` and TCP in the
//! lab's namespaces, with the kernel's VXLAN at both ends.

use crate::changes::lab_with;
use crate::place::{Turn, json, terrace, turn_beside_others};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

/// Runs a command in a machine's namespace. Returns what it printed, errors included.
pub fn at(turn: &Turn, machine: &str, command: &str) -> String {
    let mut words = command.split(' ');
    let mut run = Command::new(words.next().unwrap());
    run.args(words);
    let output = turn.namespace(machine).run(|| run.output()).unwrap();
    let output = output.unwrap_or_else(|error| panic!("{command}: {error}; install what CI installs"));
    [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
}

/// Returns the hops that a trace shows: each with the addresses that answered, one for each probe.
fn hops(turn: &Turn, machine: &str, command: &str) -> Vec<Vec<String>> {
    let text = at(turn, machine, command);
    let lines = text.lines().filter_map(|line| line.trim_start().split_once(' '));
    let numbered = lines.filter(|(number, _)| number.parse::<u8>().is_ok());
    let addresses = |answers: &str| {
        let words =
            answers.split_whitespace().filter(|word| word.contains('.') && !is_time(word) || word.contains(':'));
        let answered = answers.matches(" ms").count();
        let mut all: Vec<String> = words.map(ToOwned::to_owned).collect();
        // An address is printed once for consecutive answers of it.
        all.resize(answered, all.last().cloned().unwrap_or_default());
        all
    };
    numbered.map(|(_, answers)| addresses(answers)).collect()
}

fn is_time(word: &str) -> bool {
    word.parse::<f64>().is_ok()
}

/// Replaces a text of the region file once, and applies the file.
pub fn change(file: &str, turn: &Turn, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(file, text.replacen(from, to, 1)).unwrap();
    let (code, applied) = json(&["region", "apply", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{applied}");
}

#[test]
fn vms_hear_of_hops_mtus_and_rejections() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, file) = lab_with(&turn, &[]);
    change(
        &file,
        &turn,
        "    subnets: [10.0.0.0/24, 10.0.1.0/24",
        "    answer: [echo]\n    subnets: [10.0.0.0/24, 10.0.1.0/24",
    );

    // The gateway is the first hop, by its address in the sender's subnet, whatever is probed with.
    for probe in ["", " -I", " -T"] {
        let route = hops(&turn, "red-a", &format!("traceroute -n -q 3 -w 2{probe} 10.3.0.11"));
        assert_eq!(route, [vec!["10.0.0.1"; 3], vec!["10.3.0.11"; 3]], "traceroute{probe}");
    }
    let route = hops(&turn, "red-a", "traceroute -6 -n -q 3 -w 2 fd00:300::11");
    assert_eq!(route, [vec!["fd00:100::1"; 3], vec!["fd00:300::11"; 3]]);
    // From a VM behind an IPv6 underlay, and from the data centre to the VPC.
    let route = hops(&turn, "green-a", "traceroute -n -q 3 -w 2 10.0.0.11");
    assert_eq!(route, [vec!["10.3.0.1"; 3], vec!["10.0.0.11"; 3]]);

    // Echo replies, with and without `answer`.
    assert!(at(&turn, "red-a", "ping -c 2 -W 5 10.0.0.1").contains(" 2 received"));
    assert!(at(&turn, "red-a", "ping -c 2 -W 5 fd00:100::1").contains(" 2 received"));
    let silent = at(&turn, "green-b", "ping -c 1 -W 2 10.3.0.1");
    assert!(silent.contains(" 0 received"), "{silent}");
    let absent = at(&turn, "red-a", "ping -c 1 -W 5 10.0.1.99");
    assert!(absent.contains("From 10.0.0.1 icmp_seq=1 Destination Host Unreachable"), "{absent}");

    // The MTU of a path: 1,400 bytes are 50 more than a tenant's packet over IPv4.
    change(&file, &turn, "port: 2, mac: 02:00:00:02:00:01,", "port: 2, mtu: 1400, mac: 02:00:00:02:00:01,");
    let long = at(&turn, "red-a", "ping -M do -c 2 -W 5 -s 1472 10.0.0.12");
    assert!(long.contains("mtu = 1350") || long.contains("mtu=1350"), "{long}");
    let long = at(&turn, "red-a", "ping -6 -M do -c 2 -W 5 -s 1452 fd00:100::12");
    assert!(long.contains("mtu = 1350") || long.contains("mtu=1350"), "{long}");
    at(&turn, "red-a", "ip route flush cache");
    for (command, learned) in [("tracepath -n 10.0.0.12", "pmtu 1350"), ("tracepath -6 -n fd00:100::12", "pmtu 1350")] {
        let path = at(&turn, "red-a", command);
        assert!(path.contains(learned) && path.contains("reached"), "{command}: {path}");
    }

    // A rejected connection fails at once; a denied one does not.
    change(
        &file,
        &turn,
        "action: deny, direction: ingress, protocol: tcp",
        "action: reject, direction: ingress, protocol: tcp",
    );
    let to: SocketAddr = "10.0.0.12:2323".parse().unwrap();
    let refused = turn.namespace("red-a").run(|| TcpStream::connect_timeout(&to, Duration::from_secs(30))).unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::HostUnreachable);
    let drops = turn.drops();
    for reason in ["inner_ttl_expired", "exceeds_mtu", "unknown_vm", "acl_rejected_in"] {
        assert!(drops.iter().any(|(name, packets)| name == reason && *packets > 0), "{reason}: {drops:?}");
    }
    assert!(terrace(&["lab", "status", "--name", &turn.lab]).status.success());
}
