"""Section "TableEntry": matches, priorities, actions, default entries, const entries, reads."""

from case import Case
from controller import DELETE, INSERT, MODIFY, p4
from p4runtime_sh.shell import TableEntry


class Matches(Case):
    def test_each_kind_by_the_shell_comes_back_as_it_was_written(self):
        entry = TableEntry("kinds")(action="send")
        entry.match["kind"] = "0x800"
        entry.match["h.ipv4.source"] = "10.0.0.0&&&255.0.0.0"
        entry.match["ttl"] = "3..64"
        entry.match["protocol"] = "6"
        entry.action["port"] = "300"
        entry.priority = 9
        entry.insert()
        found = list(TableEntry("kinds").read())
        self.assertEqual(len(found), 1)
        self.assertEqual(str(found[0].match), str(entry.match))
        self.assertEqual((found[0].priority, str(found[0].action)), (9, str(entry.action)))
        entry.delete()
        self.assertEqual(list(TableEntry("kinds").read()), [])

    def test_lpm_by_the_shell(self):
        for prefix, port in [("10.0.0.0/8", 1), ("10.1.0.0/16", 2)]:
            entry = TableEntry("routes")(action="send")
            entry.match["destination"] = prefix
            entry.action["port"] = str(port)
            entry.insert()
        lengths = sorted(entry.match["destination"].lpm.prefix_len for entry in TableEntry("routes").read())
        self.assertEqual(lengths, [8, 16])

    def kinds(self, match, priority=1):
        return self.c.entry("kinds", match, self.c.action("drop"), priority=priority)

    def test_what_breaks_the_rules_of_a_kind_is_refused(self):
        bad = [
            {},  # The exact key is missing.
            {"kind": 1, "source": (1, 0)},  # Mask 0 must be omitted.
            {"kind": 1, "source": (0x0A000001, 0xFF000000)},  # Bits outside of the mask.
            {"kind": 1, "ttl": (0, 255)},  # A range of all values must be omitted.
            {"kind": 1, "ttl": (9, 3)},  # Empty.
        ]
        for match in bad:
            with self.subTest(match=match):
                self.writes("INVALID_ARGUMENT", (INSERT, self.kinds(match)))
        for value, length in [(0x0A000001, 8), (0, 0), (0, 33), (0, -1)]:
            route = self.c.entry("routes", {"destination": (value, length)}, self.c.action("drop"))
            with self.subTest(value=value, length=length):
                self.writes("INVALID_ARGUMENT", (INSERT, route))

    def test_fields_that_are_unknown_twice_or_of_another_kind_are_refused(self):
        drop = self.c.action("drop")
        unknown = self.c.host(1, drop)
        unknown.match[0].field_id = 7
        twice = self.c.host(1, drop)
        twice.match.add().CopyFrom(twice.match[0])
        other = self.c.host(1, drop)
        other.match[0].ternary.value, other.match[0].ternary.mask = b"\x01", b"\x01"
        empty = self.c.host(1, drop)
        empty.match[0].ClearField("exact")
        for bad in unknown, twice, other, empty:
            self.writes("INVALID_ARGUMENT", (INSERT, bad))

    def test_bytes_are_read_in_canonical_form(self):
        self.writes("OK", (INSERT, self.c.host(b"\0\0\0\0\1\2", self.c.action("send", b"\0\5"))))
        found = self.one(self.c.entry("hosts"))
        self.assertEqual(found.match[0].exact.value, b"\1\2")
        self.assertEqual(found.action.action.params[0].value, b"\5")
        self.writes("ALREADY_EXISTS", (INSERT, self.c.host(0x102, self.c.action("drop"))))
        zero = self.c.entry("routes", {"destination": (b"\0\0\0\0", 8)}, self.c.action("send", b"\0\0"))
        self.writes("OK", (INSERT, zero))
        found = self.one(self.c.entry("routes"))
        self.assertEqual((found.match[0].lpm.value, found.action.action.params[0].value), (b"\0", b"\0"))

    def test_values_that_are_too_wide_or_empty_are_refused(self):
        drop = self.c.action("drop")
        self.writes("OUT_OF_RANGE", (INSERT, self.c.host(1 << 48, drop)))
        self.writes("OUT_OF_RANGE", (INSERT, self.c.host(1, self.c.action("send", 512))))
        self.writes("OUT_OF_RANGE", (INSERT, self.c.host(b"", drop)))
        # Two's complement: a positive number of 12 bits is one bit too wide.
        wide = self.c.entry("kinds", {"kind": 1}, self.c.action("wide", 1, b"\x0f\xff"), priority=1)
        self.writes("OUT_OF_RANGE", (INSERT, wide))

    def test_translated_and_signed_and_enum_keys(self):
        to_port = self.c.action("to_port", 4)
        entry = self.c.entry("ports", {"port": 3, "offset": b"\xff", "mood": 1}, to_port)
        self.writes("OK", (INSERT, entry))
        found = self.one(self.c.entry("ports"))
        self.assertEqual((list(found.match), found.action.action), (list(entry.match), to_port))
        # A number that does not fit the program's type, and an enum value that does not exist.
        self.writes("OUT_OF_RANGE", (INSERT, self.c.entry("ports", {"port": 512, "offset": 1, "mood": 1}, to_port)))
        self.writes("OUT_OF_RANGE", (INSERT, self.c.entry("ports", {"port": 3, "offset": 1, "mood": 2}, to_port)))


class Names(Case):
    """A key that is a string in the control plane."""

    def entry(self, name, **other):
        return self.c.entry("names", {"name": name}, self.c.action("drop"), **other)

    def test_strings_are_read_as_they_were_written(self):
        names = "uplink", "Ethernet1/1", "über"
        self.writes("OK OK OK", *((INSERT, self.entry(name)) for name in names))
        self.writes("ALREADY_EXISTS", (INSERT, self.entry("uplink")))
        found = self.c.read(self.c.entry("names"))
        self.assertEqual({entry.match[0].exact.value.decode() for entry in found}, set(names))
        self.assertEqual(self.one(self.entry("uplink")).match[0].exact.value, b"uplink")
        self.assertEqual(self.c.read(self.entry("unknown")), [])

    def test_by_the_shell(self):
        entry = TableEntry("names")(action="drop")
        entry.match["name"] = "uplink"
        entry.insert()
        self.assertEqual([one.match["name"].exact.value for one in TableEntry("names").read()], [b"uplink"])
        entry.delete()
        self.assertEqual(list(TableEntry("names").read()), [])

    def test_what_is_not_there_and_what_is_no_string(self):
        self.writes("NOT_FOUND NOT_FOUND", (DELETE, self.entry("uplink")), (MODIFY, self.entry("uplink")))
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, self.entry("")), (INSERT, self.entry(b"\xff")))
        self.writes("INVALID_ARGUMENT", (INSERT, self.entry("x" * 513)))
        # A rejected update assigns no name.
        self.writes("ABORTED NOT_FOUND", (INSERT, self.entry("a")), (DELETE, self.entry("b")), atomicity=p4.WriteRequest.ROLLBACK_ON_ERROR)
        self.writes("NOT_FOUND", (DELETE, self.entry("a")))


class Priorities(Case):
    def kinds(self, priority, kind=1):
        return self.c.entry("kinds", {"kind": kind, "source": (1, 255)}, self.c.action("drop"), priority=priority)

    def test_the_same_keys_with_another_priority_are_another_entry(self):
        self.writes("OK OK ALREADY_EXISTS", (INSERT, self.kinds(1)), (INSERT, self.kinds(2)), (INSERT, self.kinds(2)))
        self.writes("OK NOT_FOUND", (DELETE, self.kinds(1)), (DELETE, self.kinds(1)))

    def test_a_priority_is_needed_where_entries_overlap_and_only_there(self):
        self.writes("INVALID_ARGUMENT", (INSERT, self.kinds(0)))
        self.writes("INVALID_ARGUMENT", (INSERT, self.kinds(-1)))
        host = self.c.host(1, self.c.action("drop"), priority=1)
        route = self.c.entry("routes", {"destination": (0, 8)}, self.c.action("drop"), priority=1)
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, host), (INSERT, route))


class Updates(Case):
    def test_what_is_there_and_what_is_not(self):
        send, drop = self.c.action("send", 1), self.c.action("drop")
        self.writes("NOT_FOUND NOT_FOUND", (MODIFY, self.c.host(1, drop)), (DELETE, self.c.host(1, drop)))
        self.writes("OK ALREADY_EXISTS OK", (INSERT, self.c.host(1, send)), (INSERT, self.c.host(1, drop)), (MODIFY, self.c.host(1, drop)))
        self.assertEqual(self.one(self.c.entry("hosts")).action.action, drop)

    def test_a_deletion_looks_at_the_key_alone(self):
        self.writes("OK", (INSERT, self.c.host(1, self.c.action("drop"))))
        nonsense = self.c.host(1, p4.Action(action_id=77), idle_timeout_ns=-4, metadata=b"x")
        self.writes("OK", (DELETE, nonsense))

    def test_no_type_no_entity_no_such_table(self):
        host = self.c.host(1, self.c.action("drop"))
        self.writes("INVALID_ARGUMENT", (p4.Update.UNSPECIFIED, host))
        self.writes("INVALID_ARGUMENT", (INSERT, p4.Entity()))
        host.table_id = 0x02FFFFFF
        self.writes("NOT_FOUND", (INSERT, host))

    def test_a_full_table_has_no_room(self):
        routes = [self.c.entry("routes", {"destination": (n << 24, 8)}, self.c.action("drop")) for n in range(1, 6)]
        self.writes("OK OK OK OK RESOURCE_EXHAUSTED", *((INSERT, route) for route in routes))
        self.writes("OK OK", (DELETE, routes[0]), (INSERT, routes[4]))

    def test_metadata_comes_back(self):
        host = self.c.host(1, self.c.action("drop"), metadata=b"\xff\0mine", controller_metadata=2**64 - 1)
        self.writes("OK", (INSERT, host))
        found = self.one(self.c.entry("hosts"))
        self.assertEqual((found.metadata, found.controller_metadata), (b"\xff\0mine", 2**64 - 1))

    def test_is_const_cannot_be_written(self):
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.host(1, self.c.action("drop"), is_const=True)))

    def test_a_table_without_keys_has_no_entries(self):
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.entry("keyless", {}, self.c.action("drop"))))


class Actions(Case):
    def test_parameters_have_to_fit(self):
        missing, extra = self.c.action("send"), self.c.action("send", 1, 2)
        twice = self.c.action("send", 1)
        twice.params.add(param_id=1, value=b"\1")
        for action in missing, extra, twice:
            self.writes("INVALID_ARGUMENT", (INSERT, self.c.host(1, action)))
        self.writes("OUT_OF_RANGE", (INSERT, self.c.host(1, self.c.action("send", b""))))

    def test_an_action_has_to_be_the_tables(self):
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.host(1, self.c.action("to_port", 1))))
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.host(1, None)))
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.host(1, {"member": 1})))
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.host(1, {"set": [(self.c.action("drop"), 1)]})))

    def test_scopes_of_actions(self):
        wide = self.c.action("wide", 1, b"\xff")
        default = self.c.entry("kinds", {}, wide, is_default_action=True)
        entry = self.c.entry("kinds", {"kind": 1}, self.c.action("flood", 1), priority=1)
        self.writes("PERMISSION_DENIED PERMISSION_DENIED", (MODIFY, default), (INSERT, entry))
        self.writes("OK", (INSERT, self.c.entry("kinds", {"kind": 1}, wide, priority=1)))


class Defaults(Case):
    def default(self, table="hosts", action=None, **other):
        return self.c.entry(table, {}, action, is_default_action=True, **other)

    def test_by_the_shell_it_is_changed_and_reset(self):
        entry = TableEntry("routes")(action="send", is_default=True)
        entry.action["port"] = "2"
        entry.modify()
        found = self.one(self.default("routes"))
        self.assertEqual(found.action.action, self.c.action("send", 2))
        self.assertTrue(found.is_default_action)
        self.writes("OK", (MODIFY, self.default("routes")))
        self.assertEqual(self.one(self.default("routes")).action.action, self.c.action("drop"))

    def test_it_is_always_there(self):
        default = self.default(action=self.c.action("drop"))
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, default), (DELETE, default))

    def test_it_has_no_keys_priority_or_idle_timeout(self):
        keyed = self.c.host(1, self.c.action("drop"), is_default_action=True)
        late = self.default(action=self.c.action("drop"), idle_timeout_ns=5)
        first = self.default(action=self.c.action("drop"), priority=1)
        self.writes("INVALID_ARGUMENT " * 3, (MODIFY, keyed), (MODIFY, late), (MODIFY, first))

    def test_a_const_one_stays(self):
        self.writes("PERMISSION_DENIED", (MODIFY, self.default("fixed", self.c.action("send", 1))))
        self.assertTrue(self.one(self.default("fixed")).is_const)

    def test_a_keyless_table_has_it(self):
        self.writes("OK", (MODIFY, self.default("keyless", self.c.action("send", 1))))


class ConstEntries(Case):
    def test_a_const_table_is_read_only(self):
        found = self.c.read(self.c.entry("fixed"))
        self.assertEqual((len(found), all(entry.is_const for entry in found)), (2, True))
        ip, new = ({"kind": kind} for kind in (0x800, 0x900))
        drop = self.c.action("drop")
        self.writes(
            "PERMISSION_DENIED PERMISSION_DENIED PERMISSION_DENIED",
            (INSERT, self.c.entry("fixed", new, drop)),
            (MODIFY, self.c.entry("fixed", ip, drop)),
            (DELETE, self.c.entry("fixed", ip)),
        )

    def test_its_counters_can_be_written(self):
        data = p4.CounterData(packet_count=5)
        self.writes("OK", (MODIFY, self.c.entry("fixed", {"kind": 0x800}, counter_data=data)))
        entry = self.c.entry("fixed", {"kind": 0x800})
        self.assertEqual(self.one(p4.DirectCounterEntry(table_entry=entry)).data.packet_count, 5)

    def test_entries_of_a_table_that_begins_with_some(self):
        self.assertEqual(sorted(entry.is_const for entry in self.c.read(self.c.entry("partly"))), [False, True])
        ip, ip6 = ({"kind": kind} for kind in (0x800, 0x86DD))
        drop = self.c.action("drop")
        self.writes("PERMISSION_DENIED OK", (DELETE, self.c.entry("partly", ip)), (DELETE, self.c.entry("partly", ip6)))
        self.writes("OK", (INSERT, self.c.entry("partly", ip6, drop)))


class Reads(Case):
    def setUp(self):
        super().setUp()
        send, drop = self.c.action("send", 1), self.c.action("drop")
        for number, action in (1, send), (2, drop):
            self.writes("OK", (INSERT, self.c.host(number, action, metadata=b"%d" % number, controller_metadata=number)))
        for priority in 5, 6:
            self.writes("OK", (INSERT, self.c.entry("kinds", {"kind": 1}, send, priority=priority)))

    def count(self, table, match=None, **filters):
        return len(self.c.read(self.c.entry(table, match, **filters)))

    def test_a_table_and_all_tables(self):
        self.assertEqual(self.count("hosts"), 2)
        # Const tables too, no default entries.
        self.assertEqual(len(self.c.read(p4.TableEntry())), 2 + 2 + 2 + 2)

    def test_filters(self):
        self.assertEqual(self.count("hosts", {"destination": 2}), 1)
        self.assertEqual(self.count("hosts", {"destination": 3}), 0)
        self.assertEqual(self.count("hosts", metadata=b"1"), 1)
        self.assertEqual(self.count("hosts", controller_metadata=2), 1)
        self.assertEqual(self.count("kinds", priority=5), 1)
        self.assertEqual(self.count("kinds", {"kind": 1}, priority=6), 1)
        wanted = self.c.entry("hosts", {}, p4.Action(action_id=self.c.id("drop")))
        self.assertEqual(len(self.c.read(wanted)), 1)

    def test_what_cannot_be_asked_for(self):
        self.assertEqual(self.c.read_codes(p4.TableEntry(priority=4)), ["INVALID_ARGUMENT"])
        self.assertEqual(self.c.read_codes(p4.Entity()), ["INVALID_ARGUMENT"])
        self.assertEqual(self.c.read_codes(p4.TableEntry(table_id=0x02FFFFFF)), ["NOT_FOUND"])
        with_args = self.c.entry("hosts", {}, self.c.action("send", 1))
        self.assertEqual(self.c.read_codes(with_args), ["INVALID_ARGUMENT"])

    def test_one_answer_to_several_questions_with_a_code_for_each(self):
        wanted = self.c.entry("hosts"), p4.TableEntry(table_id=0x02FFFFFF), self.c.entry("kinds")
        self.assertEqual(self.c.read_codes(*wanted), ["OK", "NOT_FOUND", "OK"])
        self.assertEqual(len(self.c.read(wanted[0], wanted[2])), 4)

    def test_another_device(self):
        self.c.device = 2
        self.assertEqual(self.c.read_codes(self.c.entry("hosts")), "NOT_FOUND")
