//! Tests state attached to entries: direct counters and meters, idle times.

use super::twin::{Twin, roles};
use crate::build::*;
use entries::{Counter, EntryId, MeterConfig, StateUpdate, TableEntry, UpdateKind};
use ir::*;

const SECOND: u64 = 1_000_000_000;

/// Table with one 4-bit key, the header's first field, with direct counter, direct meter and idle
/// times. The action's parameter and the colors go to the header.
struct Direct {
    twin: Twin,
    table: TableId,
    act: ActionId,
}

fn direct(arch: Arch, unit: MeterUnit, how: &[ExternFn], properties: &[(&str, &str)], seed: u64) -> Direct {
    let mut t = if arch == Arch::Pna { Build::pna() } else { Build::v1model() };
    let members = ["RED", "GREEN", "YELLOW"].map(String::from).to_vec();
    let enumeration = Type::Enum(t.p.enums.push(Enum { name: "PNA_MeterColor_t".into(), members }));
    let colour = if arch == Arch::Pna { enumeration } else { Type::Bit(2) };
    let counter = t.object("dc", ExternKind::DirectCounter { unit: CounterUnit::Both });
    let meter = t.object("dm", ExternKind::DirectMeter { unit });
    let fields = [
        ("key", Type::Bit(4)),
        ("before", Type::Bit(4)),
        ("size", Type::Bit(16)),
        ("seen", Type::Bit(32)),
        ("result", Type::Bit(32)),
        ("given", Type::Bit(8)),
    ];
    let h = t.header("h", &fields);
    let [parser, main, deparser] = roles(arch);
    t.parser(parser, &[h]);
    let (miss, act) = (t.action("miss", &[]), t.action("act", &[8]));
    let table = t.table("t", &[(Type::Bit(4), MatchKind::Exact)], &[miss, act]);
    let result = t.meta("meta.colour", 2);
    let declared = &mut t.p.tables[table];
    (declared.direct_counter, declared.direct_meter, declared.idle_timeout) = (Some(counter), Some(meter), true);
    declared.meter_result = (arch == Arch::V1Model).then_some(result);
    declared.size = Some(12);
    declared.properties = properties.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    let mut b = BodyBuilder::new();
    if arch == Arch::Pna {
        let port = b.bits(32, 1u8);
        b.call_extern(None, ExternFn::SendToPort, vec![ExternArg::Value(port)], &[]);
    }
    let [key, before, size] = [0, 1, 2].map(|n| b.load(&t.p, t.field(h, n)));
    let arms = b.apply_table(&t.p, table, vec![key]);
    for arm in &arms {
        b.switch_to(arm.block);
        let mut args = vec![ExternArg::Table(table)];
        b.call_extern(Some(counter), ExternFn::DirectCounterCount, args.clone(), &[]);
        if arch == Arch::Pna {
            b.call_extern(
                Some(counter),
                ExternFn::DirectCounterCount,
                vec![ExternArg::Table(table), ExternArg::Value(size)],
                &[],
            );
            let wide = b.cast(Type::Bit(32), before);
            args.push(ExternArg::Value(b.cast(colour, wide)));
            args.push(ExternArg::Value(size));
        }
        let seen = b.call_extern(Some(meter), ExternFn::DirectMeterExecute, args, &[colour])[0];
        let seen = b.cast(Type::Bit(32), seen);
        b.store(t.field(h, 3), seen);
        let profile = b.cast(Type::Bit(8), before);
        if let Some(param) = arm.params.first() {
            b.store(t.field(h, 5), *param);
            let one = b.bits(4, 1u8);
            let wanted = b.eq(before, one);
            let (yes, end) = (b.create_block(), b.create_block());
            b.branch(wanted, yes, end);
            b.switch_to(yes);
            if how.contains(&ExternFn::RestartExpireTimer) {
                b.call_extern(None, ExternFn::RestartExpireTimer, vec![ExternArg::Table(table)], &[]);
            }
            if how.contains(&ExternFn::SetEntryExpireTime) {
                b.call_extern(
                    None,
                    ExternFn::SetEntryExpireTime,
                    vec![ExternArg::Table(table), ExternArg::Value(profile)],
                    &[],
                );
            }
            b.jump(end);
            b.switch_to(end);
        }
        let marked = b.load(&t.p, result);
        let marked = b.cast(Type::Bit(32), marked);
        b.store(t.field(h, 4), marked);
        b.ret();
    }
    t.control(main, b);
    t.deparser(deparser, &[h]);
    Direct { twin: Twin::new(t, seed), table, act }
}

impl Direct {
    fn entry(&mut self, kind: UpdateKind, key: u64) -> StateUpdate {
        let r = &mut self.twin.random;
        let mut entry = TableEntry::new(self.table, vec![exact(key.into())], call(self.act, &[r.below(256).into()]));
        entry.counter = (r.below(3) == 0).then(|| Counter { packets: r.below(1000), bytes: r.word() });
        let [cir, more, cburst] = [1500, 1500, 3000].map(|most| r.below(most));
        let config = MeterConfig { cir, cburst, pir: cir + more, pburst: 1 + r.below(5000) };
        entry.meter = (r.below(4) != 0).then_some(config);
        entry.idle_timeout_ns = *r.pick(&[0, SECOND, 3 * SECOND]);
        StateUpdate::Entry(kind, entry)
    }

    /// Makes one random write; many are rejected by both engines.
    fn write(&mut self) {
        let key = self.twin.random.below(16);
        let id = EntryId { table: self.table, keys: vec![exact(key.into())], priority: 0 };
        let update = match self.twin.random.below(8) {
            0..3 => self.entry(UpdateKind::Insert, key),
            3 => self.entry(UpdateKind::Modify, key),
            4 => self.entry(UpdateKind::Delete, key),
            5 => StateUpdate::DirectCounter(id, Counter { packets: 5, bytes: 6 }),
            6 => {
                let config = MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4 };
                StateUpdate::DirectMeter(id, key.is_multiple_of(2).then_some(config))
            }
            _ => StateUpdate::ExpireTime(key as u8 % 4, *self.twin.random.pick(&[0, SECOND / 2, 2 * SECOND])),
        };
        self.twin.write([update]);
    }

    /// Runs packets, writes and times in random order.
    fn run(mut self, steps: usize) -> (Twin, usize) {
        let mut told = 0;
        for step in 0..steps {
            match self.twin.random.below(10) {
                0..2 => self.write(),
                2 => {
                    self.twin.pass_time(SECOND);
                    told += self.twin.compare_reports();
                }
                _ => {
                    let bytes = [self.twin.random.word() as u8 & 0xf3, 0, self.twin.random.word() as u8];
                    self.twin.packet_of(&bytes).expect("sent");
                }
            }
            if step % 3 == 0 {
                self.twin.same_state();
            }
        }
        (self.twin, told)
    }
}

const DELETE: (&str, &str) = ("pna_idle_timeout", "PNA_IdleTimeout_t.AUTO_DELETE");
const NOTIFY: (&str, &str) = ("pna_idle_timeout", "PNA_IdleTimeout_t.NOTIFY_CONTROL");

/// v1model: a hit counts and meters implicitly, and its color goes to a variable.
#[test]
fn v1model_direct() {
    for (seed, unit) in [(1, MeterUnit::Bytes), (2, MeterUnit::Packets)] {
        let (twin, told) = direct(Arch::V1Model, unit, &[], &[], 1100 + seed).run(3000);
        assert!(twin.compared > 5000 && told > 40, "{} compared, {told} told", twin.compared);
    }
}

/// PNA: the program counts and meters, with its own sizes and colors known before.
#[test]
fn pna_direct() {
    for (seed, unit) in [(1, MeterUnit::Bytes), (2, MeterUnit::Packets)] {
        let (twin, told) = direct(Arch::Pna, unit, &[], &[NOTIFY], 1200 + seed).run(3000);
        assert!(twin.compared > 5000 && told > 40, "{} compared, {told} told", twin.compared);
    }
}

/// Where actions restart the idle time, a hit alone does not.
#[test]
fn explicit_idle_times() {
    use ExternFn::*;
    for (seed, how) in [&[RestartExpireTimer][..], &[SetEntryExpireTime]].into_iter().enumerate() {
        let (twin, told) = direct(Arch::Pna, MeterUnit::Bytes, how, &[DELETE], 1400 + seed as u64).run(3000);
        assert!(twin.compared > 5000 && told > 40, "{} compared, {told} told", twin.compared);
        assert!(twin.mini.called.contains(&how[0]));
        assert!(!twin.mini.host.has_hit_effect(TableId(0)));
    }
}
