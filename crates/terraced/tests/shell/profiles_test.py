"""Members, groups, and action sets."""

from case import Case
from controller import DELETE, INSERT, MODIFY, p4
from p4runtime_sh.shell import Action, ActionProfileGroup, ActionProfileMember, Oneshot, TableEntry


class Members(Case):
    def test_by_the_shell(self):
        member = ActionProfileMember("shared")(member_id=1, action="send")
        member.action["port"] = "4"
        member.insert()
        entry = TableEntry("profiled")(member_id=1)
        entry.match["source"] = "9"
        entry.insert()
        self.assertEqual([one.member_id for one in ActionProfileMember("shared").read()], [1])
        self.assertEqual([one.member_id for one in TableEntry("profiled").read()], [1])

    def member(self, number, action=None):
        return self.c.member("shared", number, action or self.c.action("send", 1))

    def test_updates(self):
        one = self.member(1)
        self.writes("NOT_FOUND NOT_FOUND", (MODIFY, one), (DELETE, one))
        self.writes("OK ALREADY_EXISTS OK", (INSERT, one), (INSERT, one), (MODIFY, self.member(1, self.c.action("drop"))))
        self.assertEqual(self.one(self.c.member("shared", 1)).action, self.c.action("drop"))
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, self.member(0)), (INSERT, self.c.member("shared", 2)))
        self.writes("INVALID_ARGUMENT", (MODIFY, self.c.member("shared", 1)))
        self.writes("INVALID_ARGUMENT", (INSERT, self.member(2, self.c.action("flood", 1))))

    def test_a_profile_has_a_size(self):
        outcome = "OK " * 4 + "RESOURCE_EXHAUSTED"
        self.writes(outcome, *((INSERT, self.member(number)) for number in range(1, 6)))

    def entry(self, action):
        return self.c.entry("profiled", {"source": 1}, action)

    def test_what_is_in_use_stays(self):
        self.writes("NOT_FOUND", (INSERT, self.entry({"member": 1})))
        self.writes("OK OK", (INSERT, self.member(1)), (INSERT, self.entry({"member": 1})))
        self.writes("FAILED_PRECONDITION OK OK", (DELETE, self.member(1)), (DELETE, self.entry(None)), (DELETE, self.member(1)))

    def test_an_indirect_table_takes_what_its_profile_has(self):
        self.writes("OK", (INSERT, self.member(1)))
        for action in self.c.action("send", 1), {"group": 1}, {"set": [(self.c.action("drop"), 1)]}:
            self.writes("INVALID_ARGUMENT", (INSERT, self.entry(action)))

    def test_reads(self):
        self.writes("OK OK", (INSERT, self.member(1)), (INSERT, self.c.member("ways", 5, self.c.action("drop"))))
        self.assertEqual(len(self.c.read(p4.ActionProfileMember())), 2)
        self.assertEqual(len(self.c.read(p4.ActionProfileMember(action_profile_id=self.c.id("ways")))), 1)
        self.assertEqual(self.c.read_codes(self.c.member("shared", 7)), ["NOT_FOUND"])


class Groups(Case):
    def setUp(self):
        super().setUp()
        members = [self.c.member("ways", number, self.c.action("send", number)) for number in (1, 2)]
        self.writes("OK OK", *((INSERT, member) for member in members))

    def group(self, *members, **other):
        return self.c.group("ways", 1, members, **other)

    def test_by_the_shell(self):
        group = ActionProfileGroup("ways")(group_id=3)
        group.max_size = 8
        group.add(1, weight=2)
        group.add(2)
        group.insert()
        (found,) = ActionProfileGroup("ways").read()
        self.assertEqual([(one.member_id, one.weight) for one in found.members], [(1, 2), (2, 1)])
        entry = TableEntry("spread")(group_id=3)
        entry.match["source"] = "9"
        entry.insert()
        self.assertEqual([one.group_id for one in TableEntry("spread").read()], [3])

    def test_updates(self):
        self.writes("NOT_FOUND NOT_FOUND", (MODIFY, self.group()), (DELETE, self.group()))
        self.writes("OK ALREADY_EXISTS", (INSERT, self.group((1, 1))), (INSERT, self.group()))
        self.writes("NOT_FOUND", (MODIFY, self.group((9, 1))))
        self.writes("OK", (MODIFY, self.group((2, 3))))
        self.assertEqual([(one.member_id, one.weight) for one in self.one(self.c.group("ways", 1)).members], [(2, 3)])

    def test_rules_of_members(self):
        for members in [((1, 0),), ((1, -1),), ((1, 1), (1, 1))]:
            self.writes("INVALID_ARGUMENT", (INSERT, self.group(*members)))
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.group("ways", 0)))
        self.writes("INVALID_ARGUMENT", (INSERT, p4.ActionProfileGroup(action_profile_id=self.c.id("shared"), group_id=1)))

    def test_sizes(self):
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, self.group(max_size=9)), (INSERT, self.group(max_size=0)))
        self.writes("RESOURCE_EXHAUSTED", (INSERT, self.group((1, 5), (2, 4))))
        # A limit of a single group is not stored.
        self.writes("UNIMPLEMENTED", (INSERT, self.group(max_size=5)))
        # The other selector counts members.
        other = [self.c.member("members", number, self.c.action("drop")) for number in (1, 2, 3, 4)]
        self.writes("OK OK OK OK", *((INSERT, member) for member in other))
        self.writes("OK", (INSERT, self.c.group("members", 1, [(1, 10), (2, 10), (3, 10)])))
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.group("members", 2, [(1, 11)])))
        self.writes("RESOURCE_EXHAUSTED", (INSERT, self.c.group("members", 2, [(n, 1) for n in (1, 2, 3, 4)])))

    def test_what_is_in_use_stays(self):
        entry = self.c.entry("spread", {"source": 1}, {"group": 1})
        self.writes("NOT_FOUND", (INSERT, entry))
        self.writes("OK OK", (INSERT, self.group((1, 1))), (INSERT, entry))
        self.writes("FAILED_PRECONDITION FAILED_PRECONDITION", (DELETE, self.group()), (DELETE, self.c.member("ways", 1)))
        self.writes("OK OK OK", (DELETE, entry), (DELETE, self.group()), (DELETE, self.c.member("ways", 1)))

    def test_watch_ports_are_ports_of_the_device(self):
        group = self.group((1, 1), (2, 1))
        group.members[0].watch_port = b"\1"
        self.writes("INVALID_ARGUMENT", (INSERT, group))
        # Only the controller's exists on this node. It reads as written.
        group.members[0].watch_port = b"\x01\xfe"
        self.writes("OK", (INSERT, group))
        self.assertEqual(self.one(self.c.group("ways", 1)).members, group.members)
        group.members[0].watch_port = b""
        self.writes("OK", (MODIFY, group))
        self.assertEqual(self.one(self.c.group("ways", 1)).members[0].WhichOneof("watch_kind"), None)


class ActionSets(Case):
    def entry(self, *actions, source=1):
        return self.c.entry("spread", {"source": source}, {"set": [(self.c.action("send", port), weight) for port, weight in actions]})

    def test_by_the_shell(self):
        entry = TableEntry("spread")
        entry.match["source"] = "5"
        oneshot = Oneshot("spread")
        for port in "1", "2":
            action = Action("send")
            action["port"] = port
            oneshot.add(action, weight=2)
        entry.oneshot = oneshot
        entry.insert()
        found = self.one(self.c.entry("spread"))
        weights = [one.weight for one in found.action.action_profile_action_set.action_profile_actions]
        self.assertEqual(weights, [2, 2])

    def test_it_comes_back_and_goes_with_the_entry(self):
        first, second = self.entry((1, 2), (2, 1)), self.entry((3, 1), (3, 1), (1, 2))
        self.writes("OK", (INSERT, first))
        self.assertEqual(self.one(self.c.entry("spread")).action, first.action)
        self.writes("OK", (MODIFY, second))
        self.assertEqual(self.one(self.c.entry("spread")).action, second.action)
        self.assertEqual(self.c.read(p4.ActionProfileMember(), p4.ActionProfileGroup()), [], "it has no numbers")
        self.writes("OK OK", (DELETE, second), (INSERT, self.c.member("ways", 1, self.c.action("drop"))))

    def test_what_is_refused(self):
        self.writes("INVALID_ARGUMENT INVALID_ARGUMENT", (INSERT, self.entry((1, 0))), (INSERT, self.entry((1, -1))))
        self.writes("INVALID_ARGUMENT", (INSERT, self.entry((1, 5), (2, 4))))
        bad = self.entry((1, 1))
        bad.action.action_profile_action_set.action_profile_actions[0].action.action_id = 7
        self.writes("INVALID_ARGUMENT", (INSERT, bad))
        self.writes("NOT_FOUND", (MODIFY, self.entry((1, 1))))
        self.writes("OK ALREADY_EXISTS", (INSERT, self.entry((1, 1))), (INSERT, self.entry((2, 1))))

    def test_it_is_not_mixed_with_numbers(self):
        self.writes("OK", (INSERT, self.entry((1, 1))))
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.member("ways", 1, self.c.action("drop"))))
        self.writes("OK", (DELETE, self.entry()))
        self.writes("OK INVALID_ARGUMENT", (INSERT, self.c.member("ways", 1, self.c.action("drop"))), (INSERT, self.entry((1, 1))))

    def test_numbers_of_the_server_are_not_for_controllers(self):
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.member("ways", 0x80000000, self.c.action("drop"))))
