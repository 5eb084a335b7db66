//! Pipelines for tests of entries.

use entries::{ActionSpec, TableEntry};
use ir::*;
use num_bigint::BigUint;

pub fn named(name: &str) -> Preamble {
    Preamble { name: name.into(), ..Preamble::default() }
}

pub fn big(value: u64) -> BigUint {
    BigUint::from(value)
}

pub fn key(ty: Type, kind: MatchKind) -> MatchKey {
    MatchKey::new(format!("{kind:?}"), ty, kind)
}

pub fn action(p: &mut Pipeline, widths: &[u32]) -> ActionId {
    let param = |width: &u32| Param::new(format!("of{width}"), Type::Bit(*width));
    let name = format!("action{}", p.actions.len());
    let params = widths.iter().map(param).collect();
    p.actions.push(Action { preamble: named(&name), params, loc: SourceLoc::default() })
}

/// Adds a table. Its default action is the first of its actions with arguments 0.
pub fn table(p: &mut Pipeline, keys: Vec<MatchKey>, actions: &[ActionId]) -> TableId {
    let args = vec![BigUint::ZERO; p.actions[actions[0]].params.len()];
    let name = format!("table{}", p.tables.len());
    let listed = actions.iter().copied().map(ActionRef::new).collect();
    p.tables.push(Table::new(named(&name), keys, listed, ActionCall { action: actions[0], args }))
}

/// Pipeline with `hosts`: (24-bit VNI, 32-bit address) to (16-bit, 32-bit); `routes`: (24-bit VNI,
/// IPv4 prefix) to the same.
pub struct Overlay {
    pub pipeline: Pipeline,
    pub hosts: TableId,
    pub routes: TableId,
    pub forward: ActionId,
}

pub fn overlay() -> Overlay {
    let mut pipeline = Pipeline::new("overlay", Arch::Pna);
    let drop = action(&mut pipeline, &[]);
    let forward = action(&mut pipeline, &[16, 32]);
    let vni = || key(Type::Bit(24), MatchKind::Exact);
    let hosts = table(&mut pipeline, vec![vni(), key(Type::Bit(32), MatchKind::Exact)], &[drop, forward]);
    let routes = table(&mut pipeline, vec![vni(), key(Type::Bit(32), MatchKind::Lpm)], &[drop, forward]);
    Overlay { pipeline, hosts, routes, forward }
}

impl Overlay {
    fn forward(&self, to: u64) -> ActionSpec {
        ActionSpec::Call(ActionCall { action: self.forward, args: vec![big(to & 0xffff), big(to & 0xffff_ffff)] })
    }

    pub fn host(&self, vni: u64, address: u64, to: u64) -> TableEntry {
        let keys = vec![KeyMatch::Exact(big(vni)), KeyMatch::Exact(big(address))];
        TableEntry::new(self.hosts, keys, self.forward(to))
    }

    pub fn route(&self, vni: u64, prefix: u64, prefix_len: u32, to: u64) -> TableEntry {
        let keys = vec![KeyMatch::Exact(big(vni)), KeyMatch::Lpm { value: big(prefix), prefix_len }];
        TableEntry::new(self.routes, keys, self.forward(to))
    }
}

/// Returns the lookup key of a host: widest field first, so the address is lowest.
pub fn host_key(vni: u64, address: u64) -> u64 {
    vni << 32 | address
}
