//! Checks of the YAML itself: encodings, documents, keys, anchors, merge keys, and texts that
//! expand.

use super::{REGION, accepted, edit_accepted, edit_refused, edited, problems, refused};
use std::io::Write;

/// Returns the region followed by `text`, and the line of its first line.
fn behind(text: &str) -> (String, u32) {
    (format!("{REGION}{text}"), REGION.lines().count() as u32 + 1)
}

#[test]
fn keys() {
    refused(&edited("vni: 20\n", "vni: 20\n    vni: 21\n").0, 28, "the key `vni` occurs twice");
    refused(&behind("vms: []\n").0, behind("").1, "the key `vms` occurs twice");
    edit_refused("vni: 20", "vnl: 20", "did you mean `vni`?");
    edit_refused("vni: 20", "VNI: 20", "did you mean `vni`?");
    edit_refused("subnets: [10.2", "subnet: [10.2", "did you mean `subnets`?");
    edit_refused("ports: 22", "port: 22", "did you mean `ports`?");
    edit_refused("acl_default: permit", "acl-default: permit", "did you mean `acl_default`?");
    edit_refused("vni: 20", "colour: red", "the keys here are name, vni");
    edit_refused("{name: left, ", "{", "the key `name` is missing");
    edit_refused("acl_default: permit", "acl_default: dney", "did you mean `deny`?");
    edit_refused("direction: ingress", "direction: in", "is none of egress, ingress, both");
    edit_refused("direction: ingress", "direction: Ingress", "did you mean `ingress`?");
    edit_refused("kind: idc", "kind: IDC", "did you mean `idc`?");
}

#[test]
fn values_of_another_shape() {
    edit_refused("vteps: [192.0.2.1, \"2001:db8::1\"]", "vteps: 192.0.2.1", "a list is needed here");
    edit_refused("uplinks: [right]", "uplinks: right", "a list is needed here");
    edit_refused("name: data\n", "name: [data]\n", "a single value is needed here");
    edit_refused("between: [web, data]", "between: [web]", "between: [a, b]");
    edit_refused("between: [web, data]", "between: [web, data, web]", "between: [a, b]");
    edit_refused("internet: true", "internet: yes", "neither true nor false");
    edit_refused("internet: true", "internet: 1", "neither true nor false");
    edit_refused("{to: 0.0.0.0/0, internet: true}", "0.0.0.0/0", "a mapping");
    refused("- a\n", 1, "a mapping");
    refused("region\n", 1, "a mapping");
}

#[test]
fn keys_without_a_value() {
    for key in
        ["protocol: tcp", "from: 10.2.0.0/24", "to: 10.1.0.0/24", "ports: 22", "direction: ingress", "action: deny"]
    {
        for nothing in ["", " ~", " null", " Null"] {
            let name = key.split(' ').next().unwrap();
            let (text, line) = edited(key, &format!("{name}{nothing}"));
            refused(&text, line, "");
            assert!(problems(&text)[0].line == line);
        }
    }
    edit_refused("uplinks: [right]", "uplinks:", "without a value");
    edit_refused("remote: office}", "remote: ~}", "a value is missing");
    edit_refused("vni: 7000", "vni: ~", "a value is missing");
    edit_refused("mtu: 9000", "mtu:", "a value is missing");
    // A generator without items writes the key only.
    edit_accepted("    policy:\n      - {from: 10.1.0.64/26, table: audited}\n", "    policy:\n");
    edit_accepted("vni: 20\n", "vni: 20\n    routes:\n    acl: ~\n    route_tables: []\n");
    accepted("region: r\ngateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1]}\nuplinks: []\nvpcs:\nvms:\n");
}

#[test]
fn documents() {
    for empty in ["", "\n\n", "# nothing\n", "---\n", "---\n# nothing\n...\n", "\u{feff}", "   \n\t\n"] {
        let found = problems(empty);
        assert!(found.len() == 1, "{empty:?}: {found:#?}");
    }
    refused("", 1, "the file is empty");
    refused("# nothing\n", 2, "the file is empty");
    refused("null\n", 1, "");
    let (text, line) = behind("---\nregion: other\n");
    refused(&text, line + 1, "a second YAML document");
    let (text, line) = behind("...\n---\nregion: other\n");
    refused(&text, line + 2, "a second YAML document");
    assert!(!problems(&behind("...\nregion: other\n").0).is_empty());
    accepted(&format!("---\n{REGION}...\n"));
    accepted(&format!("%YAML 1.2\n---\n{REGION}"));
}

#[test]
fn layout() {
    accepted(&format!("\u{feff}{REGION}"));
    accepted(&REGION.replace('\n', "\r\n"));
    let crlf = edited("vni: 20\n", "vni: 0x14\n").0.replace('\n', "\r\n");
    refused(&crlf, 27, "write 20");
    refused(&format!("\u{feff}{}", edited("vni: 20\n", "vni: 0x14\n").0), 27, "write 20");
    edit_refused("    vni: 20\n", "\tvni: 20\n", "a tab in the indentation");
    assert!(!problems(&edited("[web, data]", "[web, data").0).is_empty());
    // On a single line, as JSON is written, the column identifies the number.
    let value: serde_json::Value = serde_saphyr::from_str(REGION).expect("YAML");
    accepted(&value.to_string());
    let (text, _) = edited("vni: 20\n", "vni: 16777216\n");
    let value: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
    let found = problems(&value.to_string());
    assert_eq!((found.len(), found[0].line), (1, 1));
    assert!(value.to_string()[found[0].column as usize - 1..].starts_with("16777216"));
}

#[test]
fn encodings() {
    let folder = std::env::temp_dir().join(format!("region-encodings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let check = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes)).expect("a file");
        region::load(&path).map(|_| ()).map_err(|error| error.to_string())
    };
    let latin1: Vec<u8> = REGION.replace("office", "b\u{fc}ro").chars().map(|c| c as u8).collect();
    let said = check("latin1.yaml", &latin1).expect_err("no UTF-8");
    assert!(said.contains("latin1.yaml:11:13: the byte 0xfc is not UTF-8"), "{said}");
    assert!(said.contains("save the file as UTF-8"), "{said}");
    for big in [false, true] {
        let unit = |c: u16| if big { c.to_be_bytes() } else { c.to_le_bytes() };
        let utf16: Vec<u8> = "\u{feff}".encode_utf16().chain(REGION.encode_utf16()).flat_map(unit).collect();
        let said = check("utf16.yaml", &utf16).expect_err("no UTF-8");
        assert!(said.contains("utf16.yaml:1:1: the file is UTF-16"), "{said}");
    }
    assert_eq!(check("utf8.yaml", REGION.as_bytes()), Ok(()));
    assert!(region::load(&folder).is_err_and(|error| error.to_string().contains("can't read")));
    std::fs::remove_dir_all(&folder).expect("it was there");
}

#[test]
fn anchors_and_aliases() {
    edit_accepted("subnets: [10.2.0.0/24]", "subnets: &list [10.2.0.0/24]");
    let (text, _) = edited("subnets: [10.2.0.0/24]", "subnets: &list [10.2.0.0/24]");
    let more = "  - {name: more, vni: 30, subnets: *list}\npeerings:\n";
    accepted(&text.replacen("peerings:\n", more, 1));

    // A wrong value of an anchor is reported with its own line and that of the alias.
    let (text, line) = edited("subnets: [10.2.0.0/24]", "subnets: &list [10.2.0.0/24, 10.3.0.1/24]");
    let text = text.replacen("peerings:\n", more, 1);
    let found: Vec<u32> = problems(&text).iter().map(|problem| problem.line).collect();
    assert_eq!(found, [line, line + 1]);

    // A value of the wrong type is reported with both lines.
    let (text, line) = edited("vni: 20\n", "vni: &number 20\n    acl_default: *number\n");
    refused(&text, line + 1, "");
    edit_refused("subnets: [10.2.0.0/24]", "subnets: *lists", "refers to no anchor");
    edit_refused("subnets: [10.2.0.0/24]", "subnets: &list [*list]", "contains itself");
    // The nearest preceding anchor of a name applies, as netplan's generated files need it.
    let (text, _) =
        edited("    subnets: [10.1.0.0/24, \"fd00:1::/64\"]", "    subnets: &id001 [10.1.0.0/24, \"fd00:1::/64\"]");
    let text = text.replacen("subnets: [10.2.0.0/24]", "subnets: &id001 [10.2.0.0/24]", 1);
    accepted(&text.replacen("peerings:\n", "  - {name: more, vni: 30, subnets: *id001}\npeerings:\n", 1));
}

#[test]
fn merge_keys() {
    let machine = "  - {name: data-1, vpc: data, server: host, mac: 02:00:00:00:20:01, addresses: [10.2.0.5]}\n";
    let (text, _) = edited(machine, &machine.replacen("- {", "- &machine {", 1));
    let with = |more: &str| format!("{text}{more}");
    accepted(&with("  - {<<: *machine, name: data-2, mac: 02:00:00:00:20:02, addresses: [10.2.0.6]}\n"));
    accepted(&with("  - <<: [*machine]\n    name: data-2\n    mac: 02:00:00:00:20:02\n    addresses: [10.2.0.6]\n"));
    // An address that a merge repeats is reported in the line of the merge.
    let twice = with("  - name: data-2\n    mac: 02:00:00:00:20:02\n    <<: *machine\n");
    refused(&twice, 36, "10.2.0.5 belongs to VM `data-1`");
    // Two merges into one mapping, for users that need two.
    let (text, _) = edited("{name: right, port: 2,", "&right {name: right, port: 2,");
    let text = text.replacen("- {name: left", "- &left {name: left", 1);
    accepted(&text.replacen(
        "servers:\n",
        "  - <<: *left\n    <<: *right\n    name: middle\n    port: 3\nservers:\n",
        1,
    ));
    // An unknown merged key is reported with a hint at the merge.
    let foreign =
        with("  - <<: *machine\n    name: x\n").replacen("- name: data\n", "- <<: *machine\n    name: data\n", 1);
    assert!(!problems(&foreign).is_empty());
    let (text, _) = edited("- name: web\n", "- &web\n    name: web\n");
    let text = text.replacen(machine, &format!("{machine}  - <<: *web\n    server: host\n"), 1);
    assert!(problems(&text)[0].help.contains("look for the `<<`"), "{:?}", problems(&text));
    edit_refused("    subnets: [10.2.0.0/24]\n", "    <<: 7\n", "`<<` takes the keys of a mapping");
}

#[test]
fn tags() {
    edit_refused("name: data\n", "name: !vault data\n", "unsupported tag");
    edit_refused("subnets: [10.2.0.0/24]", "subnets: !include subnets.yaml", "unsupported tag");
    edit_accepted("name: data\n", "name: !!str data\n");
}

/// Returns the CPU time of this thread in ns, because other load on the machine does not change it.
fn computed_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
}

/// Checks a text and asserts a limit on the CPU time.
fn quickly(text: &str) -> Vec<region::Problem> {
    let began = computed_ns();
    let found = problems(text);
    let seconds = (computed_ns() - began) / 1_000_000_000;
    assert!(seconds < 20, "it took {seconds} seconds");
    assert!(found.len() <= region::MAX_PROBLEMS);
    found
}

#[test]
fn aliases_do_not_multiply() {
    // A billion laughs.
    let mut text = String::from("region: r\nvpcs:\n- &a0 {name: a, vni: 1, subnets: [10.0.0.0/8]}\n");
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        text += &format!("- &a{level} [{aliases}]\n");
    }
    assert!(!quickly(&text).is_empty());
    // Millions of rules, which have a valid structure.
    let rule = "{priority: 1, action: deny, protocol: tcp, ports: 1}";
    let rules = vec![rule; 300].join(", ");
    let mut text = REGION.replacen("vni: 20\n", &format!("vni: 20\n    acl: &rules [{rules}]\n"), 1);
    let vpcs: String = (0..600).map(|n| format!("  - {{name: n{n}, vni: {}, acl: *rules}}\n", 1000 + n)).collect();
    text = text.replacen("peerings:\n", &format!("{vpcs}peerings:\n"), 1);
    let found = quickly(&text);
    assert!(found[0].message.contains("too many copies"), "{found:#?}");
    // A long name, repeated.
    let name = "x".repeat(1 << 20);
    let uplinks = vec!["*long"; 100_000].join(", ");
    let text = REGION.replacen("region: shop", &format!("region: &long \"{name}\\n\""), 1);
    assert!(!quickly(&text.replacen("uplinks: [right]", &format!("uplinks: [{uplinks}]"), 1)).is_empty());
    // Frequent aliases of a small common list are accepted.
    let small = "acl: &rules [{priority: 1, action: deny, protocol: tcp, ports: 1}]";
    let text = REGION.replacen("vni: 20\n", &format!("vni: 20\n    {small}\n"), 1);
    accepted(&text.replacen("peerings:\n", &format!("{vpcs}peerings:\n"), 1));
}

#[test]
fn depth_and_length() {
    for open in ["[", "{a: ", "- ", "? "] {
        let deep = quickly(&format!("region: shop\nvpcs:\n{}", open.repeat(100_000)));
        assert!(!deep.is_empty());
    }
    let stairs: String = (0..3000).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    assert!(!quickly(&format!("region:\n{stairs}")).is_empty());
    // One wrong reference per machine, each with many VPCs as candidates for a suggestion.
    let vpcs: String = (0..4_000).map(|n| format!("  - {{name: {n:0>60}, vni: {}}}\n", 1000 + n)).collect();
    let machine = |n: usize| {
        let name = format!("x{n:0>59}");
        format!("  - {{name: m{n}, vpc: {name}, server: {name}, mac: 02:00:01:00:00:01, addresses: []}}\n")
    };
    let machines: String = (0..4_000).map(machine).collect();
    let text = REGION.replacen("peerings:\n", &format!("{vpcs}peerings:\n"), 1) + &machines;
    assert_eq!(quickly(&text).len(), region::MAX_PROBLEMS);
    // A long line of numbers in unusual notations.
    let odd: String = (1..30_000).map(|n| format!("{{name: n{n}, vni: 0x{n:x}}},")).collect();
    let text =
        format!("region: r\ngateway: {{mac: 02:00:5e:00:00:01, vteps: [192.0.2.1]}}\nuplinks: []\nvpcs: [{odd}]\n");
    assert_eq!(quickly(&text).len(), region::MAX_PROBLEMS);
}

#[test]
fn peerings_do_not_multiply() {
    // Many VPCs route to one with many routes: the product exceeds any table.
    let routes: String =
        (0..4000).map(|n| format!("{{to: 11.{}.{}.0/24, internet: true}}, ", n >> 8, n & 255)).collect();
    let hub = format!("vpcs:\n- {{name: hub, vni: 1, routes: [{routes}]}}\n");
    let vpc = |n: usize| format!("- {{name: n{n}, vni: {}, routes: [{{to: 11.0.0.0/8, peer: hub}}]}}\n", n + 2);
    let peering = |n: usize| format!("- between: [n{n}, hub]\n");
    let head = "region: r\ngateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1]}\nuplinks: []\n";
    let text = |count: usize| {
        let (vpcs, peerings): (String, String) = ((0..count).map(vpc).collect(), (0..count).map(peering).collect());
        format!("{head}{hub}{vpcs}peerings:\n{peerings}")
    };
    let found = quickly(&text(1100));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].message.contains("more than 4194304 routes"), "{found:#?}");
    accepted(&text(100));
}
