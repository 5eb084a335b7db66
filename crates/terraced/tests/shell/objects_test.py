"""Counters, meters, registers and value sets; counters, meters and idle times of entries."""

from case import Case
from controller import DELETE, INSERT, MODIFY, p4
from p4.v1.p4data_pb2 import P4Data, P4StructLike
from p4runtime_sh.shell import CounterEntry, DirectCounterEntry, DirectMeterEntry, MeterEntry, TableEntry

RATES = {"cir": 10, "cburst": 20, "pir": 30, "pburst": 40}


def rates(**other):
    return p4.MeterConfig(**{**RATES, **other})


def count(packets, octets=0):
    return p4.CounterData(packet_count=packets, byte_count=octets)


class Counters(Case):
    def test_by_the_shell(self):
        entry = CounterEntry("by_port")
        entry.index, entry.packet_count, entry.byte_count = 3, 7, 700
        entry.modify()
        found = {one.index: (one.packet_count, one.byte_count) for one in CounterEntry("by_port").read()}
        self.assertEqual((len(found), found[3], found[4]), (16, (7, 700), (0, 0)))

    def test_it_is_always_there(self):
        entry = self.c.counter("by_port", 1, count(1))
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, entry), (DELETE, entry))

    def test_indices(self):
        for index, code in (-1, "INVALID_ARGUMENT"), (16, "OUT_OF_RANGE"):
            self.writes(code, (MODIFY, self.c.counter("by_port", index, count(1))))
            self.assertEqual(self.c.read_codes(self.c.counter("by_port", index)), [code])

    def test_without_an_index_all_without_data_none(self):
        self.writes("OK", (MODIFY, self.c.counter("by_port", None, count(4, 5))))
        self.writes("OK", (MODIFY, self.c.counter("by_port", 2)))
        self.assertEqual({one.data.packet_count for one in self.c.read(self.c.counter("by_port"))}, {4})

    def test_wildcards(self):
        self.assertEqual(len(self.c.read(p4.CounterEntry())), 16 + 4)
        self.assertEqual(len(self.c.read(self.c.counter("by_port", 2))), 1)
        self.assertEqual(self.c.read_codes(p4.CounterEntry(counter_id=77)), ["NOT_FOUND"])


class Meters(Case):
    def test_by_the_shell(self):
        entry = MeterEntry("rates")
        entry.index, entry.cir, entry.cburst, entry.pir, entry.pburst = 2, 10, 20, 30, 40
        entry.modify()
        found = {one.msg().index.index: one.msg() for one in MeterEntry("rates").read()}
        self.assertEqual((len(found), found[2].config), (8, rates()))
        self.assertFalse(found[3].HasField("config"), "the default is not shown")

    def test_reset_and_all(self):
        self.writes("OK", (MODIFY, self.c.meter("rates", None, rates())))
        self.assertTrue(all(one.config == rates() for one in self.c.read(self.c.meter("rates"))))
        self.writes("OK", (MODIFY, self.c.meter("rates", 1)))
        self.assertFalse(self.one(self.c.meter("rates", 1)).HasField("config"))
        self.assertEqual(len(self.c.read(p4.MeterEntry())), 16)

    def test_what_is_refused(self):
        entry = self.c.meter("rates", 1, rates())
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, entry), (DELETE, entry))
        self.writes("INVALID_ARGUMENT", (MODIFY, self.c.meter("rates", -1, rates())))
        self.writes("OUT_OF_RANGE", (MODIFY, self.c.meter("rates", 8, rates())))
        for bad in rates(eburst=1), rates(cir=-1), rates(pir=9):
            self.writes("INVALID_ARGUMENT", (MODIFY, self.c.meter("rates", 1, bad)))

    def test_colours_are_not_counted(self):
        entry = self.c.meter("rates", 1, rates())
        entry.counter_data.SetInParent()
        self.writes("UNIMPLEMENTED", (MODIFY, entry))
        self.assertEqual(self.c.read_codes(entry), ["UNIMPLEMENTED"])


class Registers(Case):
    def test_numbers(self):
        data = P4Data(bitstring=b"\0\5")
        self.writes("OK", (MODIFY, self.c.register("words", 3, data)))
        self.assertEqual(self.one(self.c.register("words", 3)).data.bitstring, b"\5")
        found = [one.data.bitstring for one in self.c.read(self.c.register("words"))]
        self.assertEqual(found, [b"\0"] * 3 + [b"\5"] + [b"\0"] * 4)
        self.writes("OK", (MODIFY, self.c.register("words", None, data)))
        self.assertEqual({one.data.bitstring for one in self.c.read(self.c.register("words"))}, {b"\5"})

    def test_structs(self):
        data = P4Data(struct=P4StructLike(members=[P4Data(bitstring=b"\x0f\xff\xff"), P4Data(bitstring=b"\xff")]))
        self.writes("OK", (MODIFY, self.c.register("pairs", 1, data)))
        self.assertEqual(self.one(self.c.register("pairs", 1)).data, data)

    def test_what_is_refused(self):
        data = P4Data(bitstring=b"\5")
        entry = self.c.register("words", 0, data)
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, entry), (DELETE, entry))
        self.writes("INVALID_ARGUMENT", (MODIFY, self.c.register("words", -1, data)))
        self.writes("OUT_OF_RANGE", (MODIFY, self.c.register("words", 8, data)))
        self.writes("INVALID_ARGUMENT", (MODIFY, self.c.register("words", 0, P4Data(bool=True))))
        self.writes("INVALID_ARGUMENT", (MODIFY, self.c.register("pairs", 0, data)))
        self.assertEqual(self.c.read_codes(self.c.register("words", 8)), ["OUT_OF_RANGE"])


class ValueSets(Case):
    def test_members_are_replaced(self):
        for members in (1, 2), (0x88B5,), ():
            self.writes("OK", (MODIFY, self.c.value_set("tagged", *members)))
            found = self.one(self.c.value_set("tagged"))
            self.assertEqual(sorted(int.from_bytes(one.match[0].exact.value, "big") for one in found.members), sorted(members))
        self.assertEqual(len(self.c.read(p4.ValueSetEntry())), 1)

    def test_what_is_refused(self):
        one = self.c.value_set("tagged", 1)
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, one), (DELETE, one))
        self.writes("RESOURCE_EXHAUSTED", (MODIFY, self.c.value_set("tagged", 1, 2, 3)))
        self.writes("ALREADY_EXISTS", (MODIFY, self.c.value_set("tagged", 1, 1)))


class OfEntries(Case):
    def test_a_direct_counter_by_the_shell(self):
        host = TableEntry("hosts")(action="drop")
        host.match["destination"] = "1"
        host.counter_data.packet_count = 5
        host.insert()
        counter = DirectCounterEntry("host_hits")
        counter.table_entry.match["destination"] = "1"
        self.assertEqual([one.packet_count for one in counter.read()], [5])
        counter.packet_count, counter.byte_count = 8, 80
        counter.modify()
        host = TableEntry("hosts")
        host.counter_data
        (found,) = host.read()
        self.assertEqual((found.counter_data.packet_count, found.counter_data.byte_count), (8, 80))

    def test_a_direct_meter_by_the_shell(self):
        flow = TableEntry("flows")(action="police_flow")
        flow.match["source"] = "1"
        flow.action["port"] = "1"
        flow.meter_config.cir = 10
        flow.meter_config.cburst = 20
        flow.meter_config.pir = 30
        flow.meter_config.pburst = 40
        flow.insert()
        meter = DirectMeterEntry("flow_rates")
        meter.table_entry.match["source"] = "1"
        (found,) = meter.read()
        self.assertEqual((found.cir, found.pburst), (10, 40))

    def host(self, **other):
        return self.c.host(1, self.c.action("drop"), **other)

    def test_a_counter_is_shown_when_asked_for_and_kept_by_a_modification(self):
        self.writes("OK OK", (INSERT, self.host(counter_data=count(3))), (MODIFY, self.host()))
        self.assertFalse(self.one(self.c.entry("hosts")).HasField("counter_data"))
        self.assertEqual(self.one(self.c.entry("hosts", counter_data=count(0))).counter_data, count(3))
        self.writes("OK", (MODIFY, self.host(counter_data=count(9))))
        self.assertEqual(self.one(self.c.entry("hosts", counter_data=count(0))).counter_data, count(9))

    def flow(self, config=None):
        return self.c.entry("flows", {"source": 1}, self.c.action("police_flow", 1), meter_config=config)

    def test_a_meter_is_reset_by_a_modification_without_it(self):
        wanted = self.c.entry("flows", meter_config=p4.MeterConfig())
        self.writes("OK", (INSERT, self.flow(rates())))
        self.assertEqual(self.one(wanted).meter_config, rates())
        self.assertFalse(self.one(self.c.entry("flows")).HasField("meter_config"))
        self.writes("OK", (MODIFY, self.flow()))
        self.assertFalse(self.one(wanted).HasField("meter_config"))

    def direct(self, of=p4.DirectCounterEntry, table="hosts", **match):
        return of(table_entry=self.c.entry(table, match))

    def test_direct_entities_belong_to_entries(self):
        self.writes("NOT_FOUND", (MODIFY, self.direct(destination=1)))
        self.assertEqual(self.c.read_codes(self.direct(destination=1)), ["NOT_FOUND"])
        self.writes("OK", (INSERT, self.host()))
        one = self.direct(destination=1)
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT OK", (INSERT, one), (DELETE, one), (MODIFY, one))
        meter = self.direct(p4.DirectMeterEntry, "flows", source=1)
        self.writes("NOT_FOUND", (MODIFY, meter))
        self.assertEqual(self.c.read_codes(meter), ["NOT_FOUND"])
        self.writes("OK INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, self.flow()), (INSERT, meter), (DELETE, meter))

    def test_direct_entities_are_read_by_wildcards(self):
        self.writes("OK OK", (INSERT, self.host()), (INSERT, self.flow(rates())))
        self.assertEqual(len(self.c.read(self.direct())), 1)
        self.assertEqual(len(self.c.read(p4.DirectCounterEntry())), 1 + 2)
        self.assertEqual([one.config for one in self.c.read(p4.DirectMeterEntry())], [rates()])

    def test_tables_without_them_refuse(self):
        route = {"destination": (0, 8)}
        for other in {"counter_data": count(1)}, {"meter_config": rates()}, {"idle_timeout_ns": 1}:
            self.writes("INVALID_ARGUMENT", (INSERT, self.c.entry("routes", route, self.c.action("drop"), **other)))
        self.assertEqual(self.c.read_codes(self.direct(table="routes")), ["INVALID_ARGUMENT"])

    def test_idle_timeouts(self):
        self.writes("OK", (INSERT, self.host(idle_timeout_ns=10**15)))
        found = self.one(self.c.entry("hosts"))
        self.assertEqual(found.idle_timeout_ns, 10**15)
        self.assertFalse(found.HasField("time_since_last_hit"))
        asked = self.c.entry("hosts", time_since_last_hit=p4.TableEntry.IdleTimeout())
        self.assertTrue(self.one(asked).HasField("time_since_last_hit"))
        written = self.host(time_since_last_hit=p4.TableEntry.IdleTimeout())
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (MODIFY, written), (MODIFY, self.host(idle_timeout_ns=-1)))
