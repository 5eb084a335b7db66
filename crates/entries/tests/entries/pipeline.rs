//! Pipeline with a table of each sort.

use entries::{ActionSpec, ControlState, TableEntry};
use ir::*;
use num_bigint::BigUint;
use std::sync::Arc;

pub struct Sample {
    pub state: ControlState,
    pub host: TableId,
    pub routes: TableId,
    pub acl: TableId,
    pub fixed: TableId,
    pub drop: ActionId,
    pub forward: ActionId,
    pub counter: ExternId,
}

fn named(name: &str) -> Preamble {
    Preamble { name: name.into(), ..Preamble::default() }
}

fn table(p: &mut Pipeline, name: &str, keys: &[(&str, Type, MatchKind)], drop: ActionId, forward: ActionId) -> TableId {
    let keys = keys.iter().map(|(name, ty, kind)| MatchKey::new(*name, *ty, *kind)).collect();
    let actions = vec![ActionRef::new(drop), ActionRef { table_only: true, ..ActionRef::new(forward) }];
    p.tables.push(Table::new(named(name), keys, actions, ActionCall { action: drop, args: vec![] }))
}

/// Builds `host`: exact, at most 3 entries; `routes`: exact and lpm, with idle timeout; `acl`: all
/// kinds; `fixed`: const.
pub fn sample() -> Sample {
    let mut p = Pipeline::new("sample", Arch::V1Model);
    p.files.push("sample.p4".into());
    let drop = p.actions.push(Action { preamble: named("ingress.drop"), params: vec![], loc: SourceLoc::default() });
    let param = |name: &str, width| Param::new(name, Type::Bit(width));
    let params = vec![param("port", 9), param("mac", 48)];
    let forward = p.actions.push(Action { preamble: named("ingress.forward"), params, loc: SourceLoc::default() });
    let other = p.actions.push(Action { preamble: named("ingress.other"), params: vec![], loc: SourceLoc::default() });
    assert_eq!(other, ActionId(2));
    let object = |name: &str, kind| ExternInst { preamble: named(name), kind, loc: SourceLoc::default() };
    let counter = p
        .externs
        .push(object("ingress.drops", ExternKind::Counter { size: 8, unit: CounterUnit::Both, index_type: None }));
    let (exact, b) = (MatchKind::Exact, Type::Bit);
    let host = table(&mut p, "ingress.host", &[("hdr.mac", b(48), exact)], drop, forward);
    p.tables[host].size = Some(3);
    let routes = [("meta.vrf", b(24), exact), ("hdr.dst", b(32), MatchKind::Lpm)];
    let routes = table(&mut p, "ingress.routes", &routes, drop, forward);
    p.tables[routes].idle_timeout = true;
    let acl = [
        ("meta.vpc", b(20), exact),
        ("hdr.src", b(128), MatchKind::Ternary),
        ("hdr.port", b(16), MatchKind::Range),
        ("hdr.offset", Type::Int(8), MatchKind::Range),
        ("hdr.proto", b(8), MatchKind::Optional),
    ];
    let acl = table(&mut p, "ingress.acl", &acl, drop, forward);
    let fixed = table(&mut p, "egress.fixed", &[("hdr.kind", b(8), exact)], drop, forward);
    let declared = &mut p.tables[fixed];
    (declared.const_entries, declared.const_default) = (true, true);
    declared.entries.push(ConstEntry {
        keys: vec![KeyMatch::Exact(7u8.into())],
        priority: 0,
        action: ActionCall { action: forward, args: vec![1u8.into(), 2u8.into()] },
        is_const: true,
        loc: SourceLoc { file: 0, line: 33, column: 1 },
    });
    let state = ControlState::new(Arc::new(p)).expect("the sample is consistent");
    Sample { state, host, routes, acl, fixed, drop, forward, counter }
}

pub fn big(value: u128) -> BigUint {
    BigUint::from(value)
}

pub fn exact(value: u128) -> KeyMatch {
    KeyMatch::Exact(big(value))
}

pub fn lpm(value: u128, prefix_len: u32) -> KeyMatch {
    KeyMatch::Lpm { value: big(value), prefix_len }
}

pub fn range(lo: u128, hi: u128) -> KeyMatch {
    KeyMatch::Range { lo: big(lo), hi: big(hi) }
}

pub fn ternary(value: u128, mask: u128) -> KeyMatch {
    KeyMatch::Ternary { value: big(value), mask: big(mask) }
}

impl Sample {
    pub fn call(&self, action: ActionId, args: &[u128]) -> ActionSpec {
        ActionSpec::Call(ActionCall { action, args: args.iter().map(|a| big(*a)).collect() })
    }
    pub fn host(&self, mac: u128, port: u128) -> TableEntry {
        TableEntry::new(self.host, vec![exact(mac)], self.call(self.forward, &[port, 0]))
    }
    pub fn route(&self, vrf: u128, dst: u128, len: u32, port: u128) -> TableEntry {
        TableEntry::new(self.routes, vec![exact(vrf), lpm(dst, len)], self.call(self.forward, &[port, 0]))
    }
    /// Returns an ACL entry that matches only on a VPC.
    pub fn acl(&self, vpc: u128, priority: i32) -> TableEntry {
        let keys = vec![exact(vpc), ternary(0, 0), range(0, 0xffff), range(0x80, 0x7f), KeyMatch::Optional(None)];
        TableEntry::new(self.acl, keys, self.call(self.drop, &[])).with_priority(priority)
    }
}
