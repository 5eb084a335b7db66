//! Tests action profiles and selectors.

use crate::build::*;
use entries::{ActionProfileGroup, ActionProfileMember, ActionSpec, GroupMember, StateUpdate, TableEntry, UpdateKind};
use interp::Interp;
use ir::*;

struct Selector {
    interp: Interp,
    table: TableId,
    profile: ExternId,
    give: ActionId,
}

/// Key: the first byte; selector: the second; the action writes its argument to the third.
fn selector() -> Selector {
    let mut t = Build::v1model();
    let kind = ExternKind::ActionSelector { algorithm: HashAlgorithm::Identity, size: 4, output_width: 8 };
    let profile = t.object("s", kind);
    let h = t.header("h", &[("key", Type::Bit(8)), ("flow", Type::Bit(8)), ("result", Type::Bit(8))]);
    t.parser(ControlKind::Parser, &[h]);
    let (miss, give) = (t.action("miss", &[]), t.action("give", &[8]));
    let keys = [(Type::Bit(8), MatchKind::Exact), (Type::Bit(8), MatchKind::Selector)];
    let table = t.table("t", &keys, &[miss, give]);
    t.p.tables[table].implementation = Some(profile);
    let mut b = BodyBuilder::new();
    let keys = (0..2).map(|n| b.load(&t.p, t.field(h, n))).collect();
    let arms = b.apply_table(&t.p, table, keys);
    let result = t.field(h, 2);
    b.switch_to(arms[0].block);
    set(&mut b, &t.p, result, 255);
    b.ret();
    b.switch_to(arms[1].block);
    b.store(result, arms[1].params[0]);
    b.ret();
    t.control(ControlKind::Ingress, b);
    t.deparser(ControlKind::Deparser, &[h]);
    Selector { interp: t.load(), table, profile, give }
}

impl Selector {
    fn member(&self, kind: UpdateKind, id: u32, value: u32) -> StateUpdate {
        let action = ActionCall { action: self.give, args: vec![value.into()] };
        StateUpdate::Member(kind, ActionProfileMember { profile: self.profile, id, action })
    }
    fn group(&self, kind: UpdateKind, id: u32, members: &[(u32, u32)]) -> StateUpdate {
        let members = members.iter().map(|(member, weight)| GroupMember::new(*member, *weight)).collect();
        StateUpdate::Group(kind, ActionProfileGroup { profile: self.profile, id, members })
    }
    fn entry(&self, kind: UpdateKind, key: u128, action: ActionSpec) -> StateUpdate {
        StateUpdate::Entry(kind, TableEntry::new(self.table, vec![exact(key)], action))
    }
    fn run(&mut self, key: u8, flow: u8) -> u8 {
        sent(&self.interp.process(&[key, flow, 0], 0, 0))[0].1[2]
    }
    fn refused(&mut self, update: StateUpdate) -> String {
        self.interp.write(&[update].into_iter().collect()).unwrap_err().error.to_string()
    }
}

#[test]
fn members_and_groups() {
    use UpdateKind::*;
    let mut s = selector();
    let updates = [
        s.member(Insert, 9, 90),
        s.member(Insert, 2, 20),
        s.member(Insert, 5, 50),
        s.group(Insert, 1, &[(9, 1), (2, 2), (5, 1)]),
        s.group(Insert, 2, &[]),
        s.entry(Insert, 1, ActionSpec::Member(5)),
        s.entry(Insert, 2, ActionSpec::Group(1)),
        s.entry(Insert, 3, ActionSpec::Group(2)),
    ];
    write(&mut s.interp, updates);
    assert_eq!(s.run(1, 77), 50);
    // Members in order of their numbers, each repeated by its weight: 2, 2, 5, 9.
    assert_eq!([0, 1, 2, 3, 4].map(|flow| s.run(2, flow)), [20, 20, 50, 90, 20]);
    assert_eq!(s.run(3, 0), 255); // a group without members: as a miss
    assert_eq!(s.run(4, 0), 255);
    let modified = [s.member(Modify, 5, 51), s.group(Modify, 2, &[(5, 1)])];
    write(&mut s.interp, modified);
    assert_eq!([s.run(1, 0), s.run(2, 2), s.run(3, 0)], [51, 51, 51]);
}

#[test]
fn refusals() {
    use UpdateKind::*;
    let mut s = selector();
    let updates = [s.member(Insert, 1, 10), s.group(Insert, 1, &[(1, 1)]), s.entry(Insert, 1, ActionSpec::Group(1))];
    write(&mut s.interp, updates);
    let cases = [
        (s.member(Insert, 1, 10), "member 1 of s is already there; modify it, or delete it first"),
        (s.member(Modify, 7, 10), "s has no member 7; insert it first"),
        (s.member(Delete, 1, 10), "member 1 of s is still used by 1 entries or groups; change those first"),
        (s.group(Delete, 1, &[]), "group 1 of s is still used by 1 entries or groups; change those first"),
        (s.group(Insert, 2, &[(7, 1)]), "s has no member 7; insert it first"),
        (
            s.group(Insert, 2, &[(1, 0)]),
            "s, group 2, member 1: weight 0 is not possible; give 1 to 4096, in all at most 4096",
        ),
        (
            s.group(Insert, 2, &[(1, 1), (1, 1)]),
            "s, group 2: member 1 is named twice; name it once and give it a weight",
        ),
        (s.entry(Insert, 2, ActionSpec::Group(9)), "table t: s has no group 9; insert it first"),
        (s.entry(Insert, 2, ActionSpec::Member(9)), "table t: s has no member 9; insert it first"),
        (
            s.entry(Insert, 2, call(s.give, &[1])),
            "table t: its actions are in s; give a member or group of it instead of an action",
        ),
    ];
    for (update, message) in cases {
        assert_eq!(s.refused(update), message);
    }
    let full: Vec<StateUpdate> = (2..=5).map(|id| s.member(Insert, id, 0)).collect();
    let error = s.interp.write(&full.into_iter().collect()).unwrap_err();
    assert_eq!(error.index, 3);
    // The earlier updates of the rejected batch have no effect.
    let group = s.group(Insert, 2, &[(2, 1)]);
    assert_eq!(s.refused(group), "s has no member 2; insert it first");
    // In this order all can be deleted.
    let gone = [s.entry(Delete, 1, ActionSpec::Group(1)), s.group(Delete, 1, &[]), s.member(Delete, 1, 10)];
    write(&mut s.interp, gone);
    assert_eq!(s.run(1, 0), 255);
}
