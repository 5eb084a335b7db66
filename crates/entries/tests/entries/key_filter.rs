//! Tests conditions on single keys of an entry.

use entries::{KeyCondition, KeyFilter, KeyLayout};
use ir::{MatchKey, MatchKind, Type};

fn key(name: &str, bits: u32) -> MatchKey {
    MatchKey::new(name, Type::Bit(bits), MatchKind::Exact)
}

#[test]
fn conditions_select_by_value_and_prefix() {
    let keys = [key("h.ip.src", 32), key("h.ip6.dst", 128), key("h.tcp.dport", 16)];
    let layout = KeyLayout::new(&keys);
    let parse = |text: &str| KeyCondition::parse("t", &keys, text);
    let filter = |texts: &[&str]| {
        let conditions: Vec<KeyCondition> = texts.iter().map(|text| parse(text).expect(text)).collect();
        KeyFilter::new(&layout, &conditions)
    };
    // 10.1.2.3, 2001:db8::1 with its low word first, port 80.
    let words = [0x0a01_0203, 1, 0x2001_0db8_0000_0000, 80];
    for (texts, expected) in [
        (&["src=10.1.2.3"][..], true),
        (&["h.ip.src=10.1.0.0/16"], true),
        (&["src=10.1.255.255/16"], true),
        (&["src=10.2.0.0/16"], false),
        (&["src=0/0"], true),
        (&["ip6.dst=2001:db8::/32", "dport=80"], true),
        (&["ip6.dst=2001:db8::1"], true),
        (&["ip6.dst=2001:db8::2"], false),
        (&["ip6.dst=2001:db8::/32", "dport=0x51"], false),
        (&["src=10.0.0.0/8", "src=10.1.0.0/16"], true),
        (&["src=10.1.0.0/16", "src=10.2.0.0/16"], false),
        (&[], true),
    ] {
        assert_eq!(filter(texts).matches(|index| words[index]), expected, "{texts:?}");
    }
    for (text, part) in [
        ("src", "KEY=VALUE"),
        ("sport=1", "table t has no key `sport`; it has h.ip.src, h.ip6.dst, h.tcp.dport"),
        ("dport=65536", "dport"),
        ("dport=1/17", "dport"),
        ("src=ten", "`ten` is no value"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let (words_of, contradicts) = filter(&["dport=80"]).to_words(layout.len);
    assert_eq!((words_of, contradicts), ([vec![0, 0, 0, 0xffff], vec![0, 0, 0, 80]], false));
}
