//! Compares the plain reader and abridged texts with the YAML reader on the whole text, including
//! positions. Texts are generated and changed at random; `ABRIDGED_SEED` repeats a run.

use super::{AbridgedText, read_abridged};
use crate::model::RegionFile;
use crate::sections::Sections;
use crate::yaml;
use fastrand::Rng;
use std::fmt::Write;

/// A key with its value: a scalar, or a list in flow form and as items.
enum Value {
    Scalar(String),
    List(Vec<Item>),
}

/// An item of a list.
enum Item {
    Scalar(String),
    Mapping(Vec<(&'static str, Value)>),
}

type MakeItem = fn(&mut Rng) -> Item;

fn pick<'a>(rng: &mut Rng, all: &[&'a str]) -> &'a str {
    all[rng.usize(..all.len())]
}

fn name(rng: &mut Rng) -> Value {
    if rng.u8(..100) == 0 {
        return Value::Scalar("n".repeat(rng.usize(60..70)));
    }
    let plain = format!("{}{}", pick(rng, &["m", "web-", "a.b_", "N"]), rng.u8(..));
    Value::Scalar(match rng.u8(..150) {
        0 => pick(rng, &["300", "no", "1e3", "null", "~", "Null", "-x", ".5", "0x1F", "true", "é", "=", "<<", "a b"])
            .into(),
        1 => {
            pick(rng, &["'it''s'", "\"a\\x41\"", "''", "'a b'", "\"q\"", "'#'", "&a x", "*a", "!!str x", "a: b"]).into()
        }
        _ => plain,
    })
}

fn quoted(rng: &mut Rng, text: String) -> Value {
    Value::Scalar(match rng.u8(..4) {
        0 => text,
        1 => format!("\"{text}\""),
        _ => format!("'{text}'"),
    })
}

fn mac(rng: &mut Rng) -> Value {
    let mac = format!("02:{:02x}:00:{:02X}:00:0{}", rng.u8(..), rng.u8(..), rng.u8(..10));
    quoted(rng, mac)
}

fn address(rng: &mut Rng) -> String {
    match rng.u8(..100) {
        0 => pick(rng, &["10.0.0.01", "1.2.3", "10.0.0.1/8", "fe80::1%eth0", "x"]).into(),
        1..4 => pick(rng, &["'2001:db8::1'", "::1", "fe80::", "'10.0.0.1'", "\"10.0.0.2\""]).into(),
        4..12 => format!("2001:db8::{:x}", rng.u16(..)),
        _ => format!("10.{}.0.{}", rng.u8(..), rng.u8(..)),
    }
}

fn prefix(rng: &mut Rng) -> String {
    match rng.u8(..100) {
        0 => pick(rng, &["10.0.0.0/33", "any", "10.0.0.0/08", "/8"]).into(),
        1..4 => pick(rng, &["'2001:db8::/64'", "::/0", "'10.0.0.0/8'", "10.0.0.1"]).into(),
        _ => format!("10.{}.0.0/{}", rng.u8(..), rng.u8(8..33)),
    }
}

fn number(rng: &mut Rng, most: u32) -> Value {
    Value::Scalar(match rng.u8(..150) {
        0 => pick(rng, &["010", "0x10", "1_0", "+1", "1.0", "'7'", "99999999999", "-1", "1:20", "007"]).into(),
        _ => rng.u32(..most).to_string(),
    })
}

fn list(rng: &mut Rng, most: usize, mut item: impl FnMut(&mut Rng) -> Item) -> Value {
    Value::List((0..rng.usize(..=most)).map(|_| item(rng)).collect())
}

/// Builds a mapping, sometimes with another order of keys, or with one key more or less.
fn mapping(rng: &mut Rng, mut keys: Vec<(&'static str, Value)>) -> Item {
    if rng.u8(..8) == 0 {
        rng.shuffle(&mut keys);
    }
    match rng.u8(..250) {
        0 => drop(keys.pop()),
        1 => keys.push(("name", name(rng))),
        2 => keys.push(("unknown", name(rng))),
        _ => {}
    }
    Item::Mapping(keys)
}

fn server(rng: &mut Rng) -> Item {
    let keys = vec![
        ("name", name(rng)),
        ("address", Value::Scalar(address(rng))),
        ("uplinks", list(rng, 2, |rng| Item::Scalar(pick(rng, &["u", "u2"]).into()))),
    ];
    mapping(rng, keys)
}

fn rule(rng: &mut Rng) -> Item {
    let mut keys = vec![
        ("priority", number(rng, 1000)),
        ("action", Value::Scalar(pick(rng, &["permit", "deny", "permit", "deny", "'deny'"]).into())),
    ];
    for key in ["direction", "protocol", "ports", "from", "icmp_type"] {
        let value = match key {
            "direction" => Value::Scalar(pick(rng, &["egress", "ingress", "both"]).into()),
            "protocol" => Value::Scalar(pick(rng, &["tcp", "17", "'6'", "any", "icmp"]).into()),
            "ports" => Value::Scalar(pick(rng, &["80", "'80'", "8000-8999", "80-90", "any"]).into()),
            "from" => Value::Scalar(prefix(rng)),
            _ => number(rng, 255),
        };
        if rng.u8(..3) == 0 {
            keys.push((key, value));
        }
    }
    mapping(rng, keys)
}

fn route(rng: &mut Rng) -> Item {
    let mut keys = vec![("to", Value::Scalar(prefix(rng)))];
    match rng.u8(..4) {
        0 => keys.push(("peer", name(rng))),
        1 => keys.extend([("remote", name(rng)), ("vni", number(rng, 1 << 24))]),
        2 => keys.push((
            "internet",
            Value::Scalar(pick(rng, &["true", "true", "false", "false", "false", "true", "yes", "True"]).into()),
        )),
        _ => keys.push(("blackhole", Value::Scalar("true".into()))),
    }
    mapping(rng, keys)
}

fn vpc(rng: &mut Rng) -> Item {
    let mut keys = vec![("name", name(rng)), ("vni", number(rng, 1 << 24))];
    if rng.bool() {
        keys.push(("subnets", list(rng, 3, |rng| Item::Scalar(prefix(rng)))));
    }
    if rng.u8(..3) == 0 {
        keys.push(("routes", list(rng, 3, route)));
    }
    if rng.u8(..6) == 0 {
        let table = |rng: &mut Rng| Item::Mapping(vec![("name", name(rng)), ("routes", list(rng, 2, route))]);
        keys.push(("route_tables", list(rng, 2, table)));
    }
    if rng.u8(..3) == 0 {
        keys.push(("acl", list(rng, 3, rule)));
    }
    match rng.u8(..8) {
        0 => keys.push(("acl_default", Value::Scalar("deny".into()))),
        1 => keys.push(("strict_sources", Value::Scalar("true".into()))),
        2 => {
            keys.push(("drop", list(rng, 2, |rng| Item::Scalar(pick(rng, &["routing", "hop_by_hop", "shim6"]).into()))))
        }
        _ => {}
    }
    mapping(rng, keys)
}

fn vm(rng: &mut Rng) -> Item {
    // YAML limits the length of a simple key to 1024 characters.
    let most = if rng.u8(..60) == 0 { 200 } else { 2 };
    let keys = vec![
        ("name", name(rng)),
        ("vpc", name(rng)),
        ("server", name(rng)),
        ("mac", mac(rng)),
        ("addresses", list(rng, most, |rng| Item::Scalar(address(rng)))),
    ];
    mapping(rng, keys)
}

fn write_flow_list(rng: &mut Rng, out: &mut String, items: &[Item]) {
    let blank = pick(rng, &["", "", " "]);
    let texts: Vec<String> = items.iter().map(|item| flow(rng, item)).collect();
    let end = if !items.is_empty() && rng.u8(..10) == 0 { "," } else { "" };
    let _ = write!(out, "[{blank}{}{end}{blank}]", texts.join(pick(rng, &[", ", ", ", ","])));
}

fn flow(rng: &mut Rng, item: &Item) -> String {
    let Item::Mapping(keys) = item else {
        let Item::Scalar(text) = item else { unreachable!() };
        return text.clone();
    };
    let blank = pick(rng, &["", "", " "]);
    let mut out = format!("{{{blank}");
    for (index, (key, value)) in keys.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { pick(rng, &[", ", ", ", ", ", ","]) });
        let _ = write!(out, "{key}: ");
        match value {
            Value::Scalar(text) => out.push_str(text),
            Value::List(items) => write_flow_list(rng, &mut out, items),
        }
    }
    out + if rng.u8(..10) == 0 { "," } else { "" } + blank + "}"
}

fn end_line(rng: &mut Rng, out: &mut String) {
    out.push_str(pick(rng, &["", "", "", "", "", "", "", "", "", "", "", " ", "  # said here"]));
    out.push('\n');
    if rng.u8(..12) == 0 {
        let blanks = " ".repeat(rng.usize(..5));
        let _ = writeln!(out, "{blanks}{}", pick(rng, &["", "# a comment", "# - {name: x}"]));
    }
}

/// Writes the items of a list, each indented by `indent` blanks.
fn write_block(rng: &mut Rng, out: &mut String, items: &[Item], indent: usize) {
    for item in items {
        let _ = write!(out, "{:indent$}-{}", "", pick(rng, &[" ", " ", " ", "   "]));
        match item {
            Item::Mapping(keys) if !keys.is_empty() && rng.u8(..3) == 0 => {
                let column = out.len() - out.rfind('\n').map_or(0, |newline| newline + 1);
                for (index, (key, value)) in keys.iter().enumerate() {
                    let blanks = if index == 0 { 0 } else { column };
                    let _ = write!(out, "{:blanks$}{key}:", "");
                    match value {
                        Value::Scalar(text) => {
                            let _ = write!(out, " {text}");
                            end_line(rng, out);
                        }
                        Value::List(items) if rng.bool() || items.is_empty() => {
                            out.push(' ');
                            write_flow_list(rng, out, items);
                            end_line(rng, out);
                        }
                        Value::List(items) => {
                            end_line(rng, out);
                            let deeper = [0, 0, 1, 2][rng.usize(..4)];
                            write_block(rng, out, items, column + deeper);
                        }
                    }
                }
            }
            item => {
                out.push_str(&flow(rng, item));
                end_line(rng, out);
            }
        }
    }
}

fn text(rng: &mut Rng) -> String {
    let mut out = String::new();
    let mut lists: [(&str, MakeItem); 3] = [("servers", server), ("vpcs", vpc), ("vms", vm)];
    if rng.u8(..4) == 0 {
        rng.shuffle(&mut lists);
    }
    let mut remotes = "";
    out.push_str(pick(rng, &["", "", "", "\u{feff}", "---\n", "# é\n"]));
    out.push_str("region: r\ngateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}\n");
    for (key, item) in lists {
        let is_anchored = rng.u8(..30) == 0;
        let _ = write!(out, "{key}:{}", if is_anchored { " &all" } else { "" });
        end_line(rng, &mut out);
        if is_anchored {
            remotes = "remotes: [{<<: *all, kind: idc, mac: '02:00:00:00:50:01'}]\n";
        }
        let items: Vec<Item> = (0..rng.usize(1..8)).map(|_| item(rng)).collect();
        let indent = [0, 0, 2][rng.usize(..3)];
        write_block(rng, &mut out, &items, indent);
    }
    out.push_str(remotes);
    out.push_str("uplinks: [{name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}]\n");
    out
}

/// Returns a text with random changes of characters or lines.
fn changed(rng: &mut Rng, text: &str) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for _ in 0..[0, 0, 1, 1, 2, 3][rng.usize(..6)] {
        let at = rng.usize(..text.len());
        let line_end = |from: usize| text[from..].iter().position(|c| *c == '\n').map_or(text.len(), |n| from + n + 1);
        let odd = [
            '\n', ' ', '\t', '\r', '"', '\'', '#', '&', '*', '!', '{', '}', '[', ']', ',', ':', '-', '|', '>', '%',
            '~', '?', '@', '`', '\\', '<', 'é', '\u{85}', '\u{2028}', '\u{7f}', 'x', '0', '/', '.', '=', ';',
        ];
        match rng.u8(..10) {
            0 => drop(text.remove(at)),
            1 => text[at] = odd[rng.usize(..odd.len())],
            2 | 3 => text.insert(at, odd[rng.usize(..odd.len())]),
            4 => drop(text.drain(at..line_end(at))),
            5 => {
                let start = line_end(at);
                let line: Vec<char> = text[start..line_end(start)].to_vec();
                let to = line_end(rng.usize(..text.len()));
                text.splice(to..to, line);
            }
            6 => {
                let start = line_end(at);
                let blanks = vec![' '; rng.usize(1..3)];
                text.splice(start..start, blanks);
            }
            7 => {
                let start = line_end(at);
                let lines = [
                    "---\n",
                    "...\n",
                    "- \n",
                    "-\n",
                    "  - x\n",
                    "-x\n",
                    "vms:\n",
                    "? a\n",
                    "# c\n",
                    "\n",
                    "peerings: []\n",
                    "  # d\n",
                ];
                text.splice(start..start, pick(rng, &lines).chars());
            }
            8 => {
                let (from, to) = (line_end(at), line_end(at) + rng.usize(..20));
                text.splice(from..to.min(text.len()).max(from), []);
            }
            _ => {
                let start = line_end(at);
                text.splice(start.saturating_sub(1)..start, "\r\n".chars());
            }
        }
        if text.is_empty() {
            return "x".into();
        }
    }
    let text: String = text.into_iter().collect();
    if rng.u8(..6) == 0 { text.replace('\n', "\r\n") } else { text }
}

#[test]
fn an_abridged_text_is_read_as_the_whole_one() {
    let seed =
        std::env::var("ABRIDGED_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("ABRIDGED_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let rounds = std::env::var("ABRIDGED_ROUNDS").map_or(4_000, |rounds| rounds.parse().expect("a number"));
    let (mut plain, mut items, mut abridged, mut right) = (0, 0, 0, 0);
    for _ in 0..rounds {
        let text = text(&mut rng);
        let text = changed(&mut rng, &text);
        let sections = Sections::of(&text);
        let whole = yaml::read::<RegionFile>(&text, text.len());
        let file = read_abridged(&text, &sections);
        match (&whole, &file) {
            (Ok(whole), Some(file)) => assert_eq!(format!("{file:#?}"), format!("{whole:#?}"), "\n{text}"),
            (Err(error), Some(_)) => panic!("abridged, it is right; as a whole: {error}\n{text}"),
            (_, None) => {}
        }
        let Ok(whole) = whole else { continue };
        right += 1;
        items += whole.servers.len() + whole.vpcs.len() + whole.vms.len();
        abridged += usize::from(file.is_some());
        let short = AbridgedText::of(&text, &sections);
        plain += short.map_or(0, |short| short.servers.items.len() + short.vpcs.items.len() + short.vms.items.len());
    }
    println!("{right} of {rounds} are right, {abridged} of them abridged; {plain} of {items} items are plain");
    assert!(right > rounds / 10 && abridged > right / 2 && plain > items / 2, "too few to say anything");
}
