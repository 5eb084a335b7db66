//! Checks that the published JSON Schema is that of the model (`BLESS=1` rewrites it), and that the
//! checker refuses all files that the schema refuses.

use serde_json::{Value, json};
use std::net::IpAddr;

#[test]
fn the_published_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/region.schema.json");
    let current = serde_json::to_string_pretty(&region::schema()).expect("a schema is JSON") + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &current).expect("docs/ can be written");
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        published == current,
        "docs/reference/region.schema.json is not current: run `BLESS=1 cargo test -p region --test schema`"
    );
}

/// Returns a region with every key.
fn everything() -> Value {
    json!({
        "region": "r",
        "gateway": {
            "mac": "02:00:00:00:00:01", "vteps": ["192.0.2.1", "2001:db8::1"], "sources": ["203.0.113.0/24"],
            "underlay": "static", "table": 254, "max_routes": 100, "min_path_mtu": 1400, "flow_secret": 7,
            "punt_rates": {
                "arp": 600, "nd": 600, "bgp": 6000, "bfd": 6000, "link_protocol": 300, "link_local": 300, "dhcp": 100,
                "icmp": 600, "icmp_error": 1000, "gateway_address": 600,
            },
            "icmp_limits": {
                "too_big": {"vm": 50, "vpc": 1000}, "other": {"vm": 10, "vpc": 500}, "reply": {"vm": 20, "vpc": 2000},
                "neighbours": {"vm": 20, "vpc": 2000},
            },
        },
        "uplinks": [
            {
                "name": "u", "port": 1, "mac": "02:00:00:00:01:01", "peer_mac": "02:00:00:00:01:02", "mtu": 1600,
                "vlan": 100,
                "host": {"tap": "tgu1", "addresses": ["198.51.100.1"]},
            },
            {
                "name": "v", "port": 2, "mac": "02:00:00:00:01:03", "peer_mac": "02:00:00:00:01:02",
                "host": {"interface": "eth1"},
            },
        ],
        "servers": [{"name": "s", "address": "192.0.2.11", "uplinks": ["u"]}],
        "remotes": [{
            "name": "x", "kind": "idc", "address": "192.0.2.12", "vni": 5, "mac": "02:00:00:00:05:01", "uplinks": ["u"],
            "sources": ["198.51.100.0/24"],
        }],
        "internet": {
            "uplinks": ["v"], "answer_arp": true, "nats": [{"name": "n", "addresses": "203.0.113.0/28", "ports_per_vm": 128}],
            "elastic": [{"address": "203.0.113.40", "vpc": "a", "vm": "10.0.0.5"}],
            "forwards": [{"address": "203.0.113.1", "protocol": "tcp", "port": 443, "vpc": "a", "vm": "10.0.0.6", "vm_port": 8443}],
            "refuse": ["10.0.0.0/8"], "timeouts": {"udp": 300, "icmp": 60, "tcp_transitory": 240, "tcp_established": 7440},
        },
        "vpcs": [
            {
                "name": "a", "vni": 1, "subnets": ["10.0.0.0/24", "fd00:1::/64"], "gateways": ["10.0.0.254"], "answer": ["echo", "neighbours"],
                "tcp_mss": 1360, "nat": "n",
                "ipv6_internet": {
                    "inbound": "answers", "subnets": ["fd00:1::/64"],
                    "translate": [{"inside": "fd00:1::/64", "outside": "2001:db8:1::/64"}],
                },
                "nat64": {"prefix": "64:ff9b::/96"},
                "services": [{
                    "name": "w", "address": "10.0.0.100", "public": "203.0.113.60", "protocol": "tcp", "port": 80,
                    "affinity": "client", "max_backends": 3,
                    "backends": [{"vm": "10.0.0.5", "port": 8080, "weight": 2, "state": "draining"}],
                }],
                "routes": [
                    {"to": "10.1.0.0/24", "peer": "b"}, {"to": "10.2.0.0/24", "remote": "x", "vni": 6},
                    {"to": "10.3.0.0/24", "internet": true}, {"to": "10.4.0.0/24", "blackhole": true},
                ],
                "route_tables": [{"name": "t", "routes": [{"to": "10.4.0.0/24", "blackhole": true}]}],
                "policy": [{"from": "10.0.0.0/28", "table": "t"}],
                "acl": [
                    {
                        "priority": 7, "action": "deny", "direction": "egress", "protocol": "tcp",
                        "from": "10.0.0.0/24", "to": "10.1.0.0/24", "source_ports": "1-2", "ports": 80,
                    },
                    {"priority": 8, "action": "deny", "protocol": "icmp", "icmp_type": 8, "icmp_code": 0},
                ],
                "acl_default": "permit", "strict_sources": true, "drop": ["ipv4_options", "routing"],
                "security_groups": [
                    {"name": "g", "rules": [
                        {"direction": "ingress", "protocol": "tcp", "from": "10.1.0.0/24", "ports": "80-90"},
                        {"direction": "egress", "protocol": "icmp", "to_group": "h", "icmp_type": 8, "icmp_code": 0},
                    ]},
                    {"name": "h", "rules": [
                        {"direction": "ingress", "from_group": "g"}, {"direction": "egress", "to": "10.1.0.0/24"},
                    ]},
                ],
                "keep_established": true, "tcp_pick_up": true, "max_flows": 1000, "max_connections": 1000, "max_datagrams": 1000,
            },
            {"name": "b", "vni": 2},
        ],
        "peerings": [{"between": ["a", "b"]}],
        "vms": [{"name": "m", "vpc": "a", "server": "s", "mac": "02:00:00:00:00:09", "addresses": ["10.0.0.5", "10.0.0.6"], "groups": ["g"]}],
    })
}

/// Values to insert at any position.
fn odd_values() -> Vec<Value> {
    let mut odd = vec![json!(null), json!(true), json!([]), json!({}), json!([[]]), json!([null]), json!({"a": 1})];
    odd.extend(
        [0i64, 1, 80, 255, 256, 1349, 65_535, 65_536, 16_777_215, 16_777_216, 16_777_217, -1, i64::MAX]
            .map(Value::from),
    );
    odd.extend([json!(1.5), json!(1e300), json!(u64::MAX)]);
    let long = "a".repeat(64);
    let texts = [
        "",
        " ",
        "a",
        "any",
        "80",
        "0x50",
        "10.0.0.0/8",
        "10.0.0.1",
        "::1",
        "02:00:00:00:00:0g",
        "02-00-00-00-00-01",
        "-a",
        "a b",
        "ö",
        "yes",
        "null",
        &long,
    ];
    odd.extend(texts.map(Value::from));
    odd
}

/// Returns every variant of a value with one part replaced, removed, or extended by a key, and the
/// JSON pointer of that part.
fn edits(value: &Value) -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = odd_values().into_iter().map(|odd| (format!(" := {odd}"), odd)).collect();
    match value {
        Value::Object(map) => {
            let mut more = map.clone();
            more.insert("colour".to_owned(), json!("red"));
            all.push((" with colour".to_owned(), Value::Object(more)));
            for (key, inner) in map {
                let mut fewer = map.clone();
                fewer.remove(key);
                all.push((format!("/{key} gone"), Value::Object(fewer)));
                for (what, edited) in edits(inner) {
                    let mut changed = map.clone();
                    changed.insert(key.clone(), edited);
                    all.push((format!("/{key}{what}"), Value::Object(changed)));
                }
            }
        }
        Value::Array(items) => {
            let twice = items.iter().chain(items).cloned().collect();
            all.push((" twice".to_owned(), Value::Array(twice)));
            for (index, inner) in items.iter().enumerate() {
                for (what, edited) in edits(inner) {
                    let mut changed = items.clone();
                    changed[index] = edited;
                    all.push((format!("/{index}{what}"), Value::Array(changed)));
                }
            }
        }
        _ => {}
    }
    all
}

#[test]
fn what_the_schema_refuses_the_checker_does() {
    let schema = region::schema();
    let whole = everything();
    assert!(allows(&schema, &schema, &whole), "the schema refuses a right region");
    region::parse("r.json", &whole.to_string()).expect("a region with every key is right");
    let (mut refused, mut passed) = (0, 0);
    for (what, edited) in edits(&whole) {
        let allowed = allows(&schema, &schema, &edited);
        let taken = region::parse("r.json", &edited.to_string());
        assert!(allowed || taken.is_err(), "{what}: the schema refuses what the checker takes: {edited}");
        refused += usize::from(!allowed);
        passed += usize::from(taken.is_ok());
    }
    assert!(refused > 2000 && passed > 100, "{refused} refused by the schema, {passed} taken by the checker");
}

#[test]
fn every_key_of_the_schema_is_in_the_region_that_is_edited() {
    fn keys(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Object(map) => {
                if let Some(Value::Object(properties)) = map.get("properties") {
                    found.extend(properties.keys().cloned());
                }
                map.values().for_each(|inner| keys(inner, found));
            }
            Value::Array(items) => items.iter().for_each(|inner| keys(inner, found)),
            _ => {}
        }
    }
    let (mut found, text) = (Vec::new(), everything().to_string());
    keys(&region::schema(), &mut found);
    assert!(found.len() > 30);
    for key in found {
        assert!(text.contains(&format!("\"{key}\":")), "{key} is new: add it to `everything`");
    }
}

/// Returns whether a value is valid by a schema. Supports the keywords of our schema; any other one
/// fails the test.
fn allows(schema: &Value, root: &Value, value: &Value) -> bool {
    let Value::Object(keywords) = schema else { return schema != &json!(false) };
    keywords.iter().all(|(keyword, given)| match keyword.as_str() {
        "$schema" | "$defs" | "title" | "description" | "examples" | "default" => true,
        "$ref" => {
            let pointer = given.as_str().and_then(|text| text.strip_prefix('#')).expect("a local reference");
            allows(root.pointer(pointer).expect("it exists"), root, value)
        }
        "oneOf" => list(given).iter().filter(|one| allows(one, root, value)).count() == 1,
        "const" => given == value,
        "type" => match given {
            Value::Array(types) => types.iter().any(|one| is_type(one, value)),
            one => is_type(one, value),
        },
        "minimum" => value.as_f64().is_none_or(|number| number >= given.as_f64().expect("a number")),
        "maximum" => value.as_f64().is_none_or(|number| number <= given.as_f64().expect("a number")),
        "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= given.as_u64().expect("a number")),
        "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= given.as_u64().expect("a number")),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| allows(given, root, item))),
        "required" => value.as_object().is_none_or(|map| list(given).iter().all(|key| map.contains_key(text(key)))),
        "properties" => value.as_object().is_none_or(|map| {
            map.iter().all(|(key, inner)| given.get(key).is_none_or(|schema| allows(schema, root, inner)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known = |key: &String| keywords["properties"].get(key).is_some();
            map.iter().all(|(key, inner)| known(key) || allows(given, root, inner))
        }),
        "pattern" => value.as_str().is_none_or(|value| matches_pattern(text(given), value)),
        "format" => match (text(given), value.as_str()) {
            ("ip", Some(value)) => value.parse::<IpAddr>().is_ok(),
            ("ip", None) | ("uint8" | "uint16" | "uint32", _) => true,
            (other, _) => panic!("the test does not know the format {other}"),
        },
        other => panic!("the test does not know the keyword {other}"),
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn is_type(name: &Value, value: &Value) -> bool {
    match text(name) {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the test does not know the type {other}"),
    }
}

/// Matches the two patterns of the schema.
fn matches_pattern(pattern: &str, value: &str) -> bool {
    match pattern {
        "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$" => {
            let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
            (1..=63).contains(&value.len()) && value.chars().all(good) && !value.starts_with(['.', '-'])
        }
        "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$" => {
            let parts: Vec<&str> = value.split(':').collect();
            parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit()))
        }
        other => panic!("the test does not know the pattern {other}"),
    }
}
