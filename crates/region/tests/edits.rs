//! Compares the edit of a region file with reading the new file: the region must be the same, and
//! only entries of the VPCs that the edit names can differ. Texts are changed at random, by lines
//! and words; `EDITS_SEED` repeats a run.

use entries::StateUpdate;
use fastrand::Rng;
use region::{Document, GatewayApi, GatewayEntries, IdAssignments, RegionPart, diff};
use std::path::Path;
use std::sync::Arc;

const BASE: &str = "\
# A region for edits.
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}
uplinks: [{name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}]
servers:
  - {name: s, address: 192.0.2.11, uplinks: [u]}
  - {name: t, address: 192.0.2.12, uplinks: [u]}
remotes: [{name: hq, kind: idc, address: 198.51.100.7, vni: 7000, mac: '02:00:00:00:50:01', uplinks: [u]}]
vpcs:
  # Peers of each other.
  - name: a
    vni: 1
    subnets: [10.1.0.0/24, 10.1.1.0/24]
    security_groups:
      - {name: web, rules: [{direction: ingress, protocol: tcp, ports: 80}, {direction: egress, to_group: db}]}
      - name: db
        rules:
          - {direction: ingress, from_group: web, protocol: udp, ports: 53}
          - {direction: ingress, protocol: icmp, icmp_type: 8, from: 10.2.0.0/24}
    keep_established: false
    routes:
      - {to: 172.16.0.0/16, peer: b}
      - {to: 20.0.0.0/8, blackhole: true}
    acl:
      - {priority: 7, action: permit, direction: egress, protocol: udp, from: 10.1.0.0/24, ports: 53}
      - {priority: 9, action: deny, direction: ingress, protocol: tcp}

  - name: b
    vni: 2
    subnets: [10.2.0.0/24]
    strict_sources: true
    acl_default: deny
    routes: [{to: 172.16.0.0/16, remote: hq}]
  - {name: c, vni: 3, subnets: [10.1.0.0/24], nat: n}
  - vni: 4
    name: d
    subnets:
      - 10.4.0.0/24
    route_tables:
      - {name: other, routes: [{to: 30.0.0.0/8, internet: true}]}
    policy: [{from: 10.4.0.0/28, table: other}]
peerings:
  - between: [a, b]
internet:
  uplinks: [u]
  nats: [{name: n, addresses: 203.0.113.0/30}]
  elastic:
  - {address: 203.0.113.40, vpc: a, vm: 10.1.0.11}
  - {address: 203.0.113.41, vpc: d, vm: 10.4.0.15}
  forwards: [{address: 203.0.113.50, protocol: tcp, port: 443, vpc: a, vm: 10.1.0.12}]
vms:
- {name: a1, vpc: a, server: s, mac: '02:00:00:00:00:11', addresses: [10.1.0.11], groups: [web]}
- {name: a2, vpc: a, server: t, mac: '02:00:00:00:00:12', addresses: [10.1.0.12, 10.1.1.12], groups: [db, web]}
# On both servers.
- name: b1
  vpc: b
  server: s
  mac: '02:00:00:00:00:13'
  addresses: [10.2.0.13]
- {name: c1, vpc: c, server: t, mac: '02:00:00:00:00:11', addresses: [10.1.0.11]}

- {name: d1, vpc: d, server: t, mac: '02:00:00:00:00:15', addresses: [10.4.0.15]}
";

/// Returns a text with a changed line or word.
fn changed(text: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // Most changes are in the second half, which has most of the region.
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let first = lines.iter().position(|line| line == "vpcs:").filter(|_| rng.u8(..) > 10).unwrap_or(0);
    for _ in 0..[1, 1, 1, 1, 2, 3][rng.usize(..6)] {
        let at = rng.usize(first..lines.len());
        match rng.u8(..12) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => lines.insert(at, "# a comment".to_owned()),
            3 => lines.insert(at, String::new()),
            4 => {
                let other = rng.usize(first..lines.len());
                lines[at] = lines[other].clone();
            }
            5 => lines[at] += ["  # said here", " ", "}", ", x: 1", "\t"][rng.usize(..5)],
            6 => {
                let n = rng.u8(20..);
                let vpc = ["a", "b", "c", "d", "e"][rng.usize(..5)];
                let net = [1, 2, 1, 4, 5][rng.usize(..5)];
                let vm = format!(
                    "- {{name: n{n}, vpc: {vpc}, server: s, mac: '02:00:00:00:01:{n:02x}', addresses: [10.{net}.0.{n}]}}"
                );
                // The end of a list is a special case.
                let at = if rng.bool() { at } else { lines.len() };
                lines.insert(at, vm);
            }
            _ => lines[at] = with_other_word(&lines[at], text, rng),
        }
        if lines.len() <= first {
            break;
        }
    }
    lines.join(end) + if rng.u8(..) < 250 { end } else { "" }
}

/// Returns a line with another word or digit.
fn with_other_word(line: &str, text: &str, rng: &mut Rng) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_');
    let words = |text: &str| -> Vec<String> {
        text.split(|c| !is_part(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let (own, all) = (words(line), words(text));
    let Some(word) = (!own.is_empty()).then(|| own[rng.usize(..own.len())].clone()) else { return line.to_owned() };
    let other = match (rng.bool(), word.chars().next_back().filter(char::is_ascii_digit)) {
        (true, Some(_)) => format!("{}{}", &word[..word.len() - 1], rng.u8(..10)),
        _ => all[rng.usize(..all.len())].clone(),
    };
    line.replacen(&word, &other, 1)
}

fn part(document: &Document, api: &GatewayApi, numbers: &IdAssignments, part: &RegionPart) -> GatewayEntries {
    let mut made = GatewayEntries::default();
    region::visit(&document.region, api, numbers, part, &mut |entry, _| made.entries.push(entry));
    made
}

fn sorted(updates: Vec<StateUpdate>) -> Vec<String> {
    let mut texts: Vec<String> = updates.iter().map(|update| format!("{update:?}")).collect();
    texts.sort();
    texts
}

#[test]
fn an_edit_leads_to_what_the_file_is_as_a_whole() {
    let seed = std::env::var("EDITS_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("EDITS_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/gateway/gateway.ir");
    let program = std::fs::read_to_string(program).expect("the program is there");
    let pipeline = Arc::new(ir::text::parse(&program).expect("a pipeline"));
    let api = GatewayApi::new(&pipeline).expect("a gateway");
    let file = std::env::temp_dir().join(format!("edits-{}.yaml", std::process::id()));
    let (mut edits, mut of_vpcs, mut whole, mut changed_entries) = (0, 0, 0, 0);
    for round in 0..40 {
        // With the line ends of some editors.
        let base = if round % 4 == 3 { BASE.replace('\n', "\r\n") } else { BASE.to_owned() };
        let mut document = Document::parse("r.yaml", base.clone()).expect("the base is right");
        let mut numbers = IdAssignments::default();
        numbers.assign(&document.region);
        let mut text = base;
        for _ in 0..100 {
            let new = changed(&text, &mut rng);
            let read = Document::parse("r.yaml", new.clone());
            // An edit from a file equals the edit from a text.
            std::fs::write(&file, &new).expect("room for a file");
            let of_file = document.edit_to_file(&file).expect("a file");
            assert_eq!(format!("{of_file:?}"), format!("{:?}", document.edit(&new)));
            let Some(edit) = of_file else {
                if let Ok(read) = read {
                    whole += 1;
                    (document, text) = (read, new);
                    numbers.assign(&document.region);
                }
                continue;
            };
            let read =
                read.unwrap_or_else(|error| panic!("an edit to a wrong file: {error}\n--- was\n{text}\n--- is\n{new}"));
            let vpcs = RegionPart::Vpcs(edit.vpcs.clone());
            let before = [&RegionPart::Whole, &vpcs].map(|of| part(&document, &api, &numbers, of));
            let was = format!("{document:?}");
            edits += 1;
            of_vpcs += usize::from(format!("{edit:?}").contains("items: Vpcs"));
            let back = document.apply(edit);
            assert_eq!(format!("{document:?}"), format!("{read:?}"), "--- was\n{text}\n--- is\n{new}");
            let back = document.apply(back);
            assert_eq!(format!("{document:?}"), was, "and back\n--- was\n{text}\n--- is\n{new}");
            document.apply(back);
            numbers.assign(&document.region);
            let after = [&RegionPart::Whole, &vpcs].map(|of| part(&document, &api, &numbers, of));
            let [whole, of_part] = [0, 1].map(|i| sorted(diff(before[i].clone(), after[i].clone()).updates));
            assert_eq!(whole, of_part, "entries of other VPCs\n--- was\n{text}\n--- is\n{new}");
            changed_entries += whole.len();
            text = new;
        }
    }
    std::fs::remove_file(&file).expect("the file is there");
    println!("{edits} edits, {of_vpcs} of them of VPCs, {changed_entries} entries; {whole} read as a whole");
    assert!(edits > 300 && of_vpcs > 60 && changed_entries > 150, "too few to say anything");
}

#[test]
fn a_name_is_taken_by_a_machine_of_any_vpc() {
    let machine = |name: &str, n: u8| {
        format!("- {{name: {name}, vpc: d, server: s, mac: '02:00:00:00:01:{n:02}', addresses: [10.4.0.{n}]}}\n")
    };
    let mut document = Document::parse("r.yaml", BASE.to_owned()).expect("the base is right");
    assert!(document.edit(&(BASE.to_owned() + &machine("a1", 20))).is_none(), "a machine of VPC a has the name");
    let one = BASE.to_owned() + &machine("one", 20);
    let other = machine("one", 21).replace("vpc: d", "vpc: c").replace("10.4.0", "10.1.0");
    let taken = one.replacen("- {name: a2,", &(other + "- {name: a2,"), 1);
    for _ in 0..2 {
        document.apply(document.edit(&one).expect("a machine more"));
        assert!(document.edit(&taken).is_none(), "it has its name now");
        let moved = one.replacen("name: a1,", "name: one,", 1).replacen("name: one, vpc: d", "name: a1, vpc: d", 1);
        document.apply(document.edit(&moved).expect("two machines that change names"));
        document.apply(document.edit(&one).expect("and back"));
        document.apply(document.edit(BASE).expect("a machine less"));
    }
}

#[test]
fn rules_that_are_equal_for_a_machine_are_one_entry() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/gateway/gateway.ir");
    let program = std::fs::read_to_string(program).expect("the program is there");
    let pipeline = Arc::new(ir::text::parse(&program).expect("a pipeline"));
    let api = GatewayApi::new(&pipeline).expect("a gateway");
    // a2 is in both groups that rules of `db` name, and 1 is ICMP over IPv4.
    let rules = ["from_group: db, protocol: udp, ports: 53", "protocol: icmp", "protocol: 1"];
    let more: String = rules.map(|rule| format!("          - {{direction: ingress, {rule}}}\n")).concat();
    let at = "          - {direction: ingress, from_group: web, protocol: udp, ports: 53}\n";
    let document = Document::parse("r.yaml", BASE.replacen(at, &format!("{at}{more}"), 1)).expect("it is right");
    let mut numbers = IdAssignments::default();
    numbers.assign(&document.region);
    let entries = part(&document, &api, &numbers, &RegionPart::Whole).entries;
    let keys: Vec<String> =
        entries.iter().map(|entry| format!("{:?} {:?} {}", entry.table, entry.keys, entry.priority)).collect();
    let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{keys:#?}");
}
