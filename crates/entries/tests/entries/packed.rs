//! Tests entries made of bytes, as a server receives them, and errors that only the packed form can
//! have.

#![allow(clippy::result_large_err)] // closures that return the packer's errors

use crate::pipeline::*;
use entries::*;

fn alone(kind: UpdateKind, entry: PackedEntry) -> WriteBatch {
    [StateUpdate::Packed(kind, entry)].into_iter().collect()
}

/// Keys and arguments in any order; wildcard keys omitted.
#[test]
fn from_bytes_and_back() {
    let mut s = sample();
    let mut packer = s.state.entry_packer(s.acl).unwrap();
    packer.call(s.forward).unwrap().arg(1, &[0xab, 0xcd][..]).unwrap();
    packer.ternary(1, &[0x20, 0, 0, 0, 0, 0, 0, 0, 9][..], &[0xff; 16][..]).unwrap();
    packer.exact(0, &[0, 0, 0, 0xf, 0xff, 0xff][..]).unwrap().arg(0, 511).unwrap();
    let entry = packer.finish().unwrap().with_priority(4);
    let keys = vec![
        exact(0xfffff),
        ternary(0x20_0000_0000_0000_0009, u128::MAX),
        range(0, 0xffff),
        range(0x80, 0x7f),
        ir::KeyMatch::Optional(None),
    ];
    let same = TableEntry::new(s.acl, keys, s.call(s.forward, &[511, 0xabcd])).with_priority(4);
    assert_eq!(s.state.pack_entry(UpdateKind::Insert, &same).unwrap(), entry);
    s.state.apply(&alone(UpdateKind::Insert, entry)).unwrap();
    let kept = s.state.entries(s.acl).next().unwrap();
    let mut bytes = Vec::new();
    push_bytes(s.state.layout(s.acl).fields[1].value(kept.key()), &mut bytes);
    assert_eq!(bytes, [0x20, 0, 0, 0, 0, 0, 0, 0, 9]);
    let identity = PackedEntry::identity(s.acl, kept.key()).with_priority(4);
    s.state.apply(&alone(UpdateKind::Delete, identity)).unwrap();
    assert_eq!(s.state.entry_count(s.acl), 0);
}

#[test]
fn refusals_of_the_packer() {
    let s = sample();
    let told = |what: &dyn Fn(&mut EntryPacker<'_>) -> Result<(), EntryError>| {
        let mut packer = s.state.entry_packer(s.acl).unwrap();
        let done = what(&mut packer).and_then(|()| packer.finish().map(drop));
        done.unwrap_err().to_string()
    };
    assert_eq!(told(&|_| Ok(())), "table ingress.acl, key meta.vpc: it is exact and has no value; give one");
    assert_eq!(
        told(&|p| p.exact(0, &[0x10, 0, 0][..]).map(drop)),
        "table ingress.acl, key meta.vpc: 0x100000 does not fit in 20 bits; the largest value is 0xfffff"
    );
    assert_eq!(
        told(&|p| p.exact(1, 1).map(drop)),
        "table ingress.acl, key hdr.src: a match of kind exact was given; the key is ternary, so write it as 10 &&& 0xff"
    );
    assert!(told(&|p| p.exact(5, 1).map(drop)).starts_with("table ingress.acl: 6 keys given, but it has 5 (meta.vpc,"));
    assert_eq!(
        told(&|p| p.exact(0, 1)?.call(s.forward)?.arg(0, 1).map(drop)),
        "table ingress.acl, action ingress.forward: 1 arguments given, 2 needed (port, mac)"
    );
    assert_eq!(
        told(&|p| p.call(s.forward)?.arg(0, &[2, 0][..]).map(drop)),
        "table ingress.acl, action ingress.forward, parameter port: 0x200 does not fit in 9 bits; the largest value is 0x1ff"
    );
    assert!(
        told(&|p| p.call(ir::ActionId(2)).map(drop)).starts_with("table ingress.acl: it has no action ingress.other")
    );
    assert!(s.state.entry_packer(ir::TableId(9)).is_err());
}

#[test]
fn refusals_of_words() {
    let mut s = sample();
    let mut told = |entry: PackedEntry| s.state.apply(&alone(UpdateKind::Insert, entry)).unwrap_err().error.to_string();
    let forward = StoredActionRef::Call(s.forward, &[1, 2]);
    assert_eq!(
        told(PackedEntry::new(s.host, &[1, 2], forward)),
        "table ingress.host: the packed key has 2 words, the table's keys take 1; lay it out for this table"
    );
    assert_eq!(
        told(PackedEntry::new(s.host, &[1], StoredActionRef::Call(s.forward, &[1]))),
        "table ingress.host, action ingress.forward: the packed arguments have 1 words, its parameters take 2; lay them out for this action"
    );
    assert_eq!(
        told(PackedEntry::identity(s.host, &[1])),
        "table ingress.host: it has no action number 4294967295; its actions are ingress.drop, ingress.forward"
    );
    // VPC, source and mask, ports, offsets, then the protocol and whether it is present.
    let acl = |protocol: [u64; 2]| {
        let [value, there] = protocol;
        let key = [1, 0, 0, 0, 0, 0, 0xffff, 0x80, 0x7f, value, there];
        PackedEntry::new(s.acl, &key, StoredActionRef::Call(s.drop, &[])).with_priority(1)
    };
    for (protocol, presence) in [([6, 0], 0), ([6, 2], 2)] {
        assert_eq!(
            told(acl(protocol)),
            format!(
                "table ingress.acl, key hdr.proto: packed as {presence} with value 0x6; presence is 0 with value 0, or 1 with any value"
            )
        );
    }
    s.state.apply(&alone(UpdateKind::Insert, acl([6, 1]))).unwrap();
}
