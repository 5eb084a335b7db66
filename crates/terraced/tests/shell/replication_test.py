"""Multicast groups and clone sessions; digests' configuration."""

from case import Case
from controller import DELETE, INSERT, MODIFY, canonical, copies, flood, p4
from p4runtime_sh.shell import CloneSessionEntry, DigestEntry, MulticastGroupEntry


def replicas(entry):
    return [(int.from_bytes(one.port, "big"), one.instance) for one in entry.replicas]


class Multicast(Case):
    def test_by_the_shell(self):
        group = MulticastGroupEntry(7)
        group.add(1, 1).add(2, 1)
        group.insert()
        (found,) = MulticastGroupEntry(7).read()
        self.assertEqual(found.group_id, 7)

    def test_updates(self):
        self.writes("NOT_FOUND NOT_FOUND", (MODIFY, flood(1)), (DELETE, flood(1)))
        self.writes("OK ALREADY_EXISTS OK", (INSERT, flood(1, (1, 0))), (INSERT, flood(1)), (MODIFY, flood(1, (1, 1), (2, 1))))
        self.assertEqual(replicas(self.one(flood(1))), [(1, 1), (2, 1)])
        self.assertEqual(self.one(flood(1)).replicas[0].port, canonical(1))
        self.writes("OK", (INSERT, flood(2)))
        self.assertEqual(len(self.c.read(flood(0))), 2)
        self.assertEqual(self.c.read_codes(flood(9)), ["NOT_FOUND"])
        self.writes("OK OK", (DELETE, flood(1)), (DELETE, flood(2)))

    def test_ports_as_numbers(self):
        group = flood(1)
        group.replicas.add(egress_port=5, instance=1)
        self.writes("OK", (INSERT, group))
        self.assertEqual(replicas(self.one(flood(1))), [(5, 1)])

    def test_what_is_refused(self):
        self.writes("INVALID_ARGUMENT", (INSERT, flood(0, (1, 0))))
        self.writes("INVALID_ARGUMENT", (INSERT, flood(1, (1, 0), (1, 0))))
        self.writes("INVALID_ARGUMENT", (INSERT, flood(1, (1, 65536))))
        portless = flood(1)
        portless.replicas.add(instance=1)
        self.writes("INVALID_ARGUMENT", (INSERT, portless))
        self.writes("INVALID_ARGUMENT", (INSERT, p4.PacketReplicationEngineEntry()))

    def test_what_is_not_supported(self):
        backup = flood(1, (1, 0))
        backup.replicas[0].backup_replicas.add(port=b"\2", instance=1)
        self.writes("UNIMPLEMENTED UNIMPLEMENTED", (INSERT, backup), (INSERT, flood(1, metadata=b"mine")))


class Clones(Case):
    def test_by_the_shell(self):
        session = CloneSessionEntry(5)
        session.add(3, 1)
        session.cos, session.packet_length_bytes = 2, 64
        session.insert()
        (found,) = CloneSessionEntry(5).read()
        self.assertEqual((found.session_id, found.cos, found.packet_length_bytes), (5, 2, 64))

    def test_updates(self):
        self.writes("NOT_FOUND NOT_FOUND", (MODIFY, copies(1)), (DELETE, copies(1)))
        self.writes("OK ALREADY_EXISTS OK", (INSERT, copies(1, (1, 1))), (INSERT, copies(1)), (MODIFY, copies(1, (2, 3))))
        self.assertEqual(replicas(self.one(copies(1))), [(2, 3)])
        self.writes("OK", (INSERT, flood(1)))
        self.assertEqual(len(self.c.read(copies(0))), 1)
        self.assertEqual(len(self.c.read(p4.PacketReplicationEngineEntry())), 2)
        self.writes("OK", (DELETE, copies(1)))

    def test_what_is_refused(self):
        self.writes("INVALID_ARGUMENT", (INSERT, copies(0, (1, 0))))
        self.writes("INVALID_ARGUMENT", (INSERT, copies(1, (1, 0), class_of_service=256)))
        self.writes("INVALID_ARGUMENT", (INSERT, copies(1, (1, 0), packet_length_bytes=-1)))
        self.writes("INVALID_ARGUMENT", (INSERT, copies(1, (1, 65536))))


class Digests(Case):
    def test_by_the_shell(self):
        digest = DigestEntry("learned_t")
        digest.max_timeout_ns, digest.max_list_size, digest.ack_timeout_ns = 10, 20, 30
        digest.insert()
        (found,) = DigestEntry("learned_t").read()
        self.assertEqual((found.max_timeout_ns, found.max_list_size, found.ack_timeout_ns), (10, 20, 30))

    def test_updates(self):
        digest = self.c.digest("learned_t", 1, 2, 3)
        self.writes("NOT_FOUND NOT_FOUND", (MODIFY, digest), (DELETE, digest))
        self.assertEqual(self.c.read(p4.DigestEntry()), [])
        self.writes("OK ALREADY_EXISTS", (INSERT, digest), (INSERT, digest))
        self.assertEqual(self.c.read(p4.DigestEntry()), [digest])
        self.writes("OK OK", (MODIFY, self.c.digest("learned_t")), (DELETE, digest))

    def test_what_is_refused(self):
        self.writes("INVALID_ARGUMENT", (INSERT, self.c.digest("learned_t", -1)))
        self.writes("NOT_FOUND", (INSERT, p4.DigestEntry(digest_id=77)))
        self.assertEqual(self.c.read_codes(p4.DigestEntry(digest_id=77)), ["NOT_FOUND"])


class Externs(Case):
    def test_there_are_no_others(self):
        self.writes("UNIMPLEMENTED", (INSERT, p4.ExternEntry(extern_type_id=0x81000000, extern_id=1)))
        self.assertEqual(self.c.read(p4.ExternEntry()), [])
