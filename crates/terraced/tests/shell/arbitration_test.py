"""Chapter "Client Arbitration and Controller Replication", and section "Role Config"."""

import unittest

from controller import ACTIONS, INSERT, Controller, Stream, config, connect, elections, p4
from google.protobuf import any_pb2

PRIMARY, BACKUP, NOBODY = 0, 6, 5


def role_config(ids, packet_in=False):
    """Returns a terrace.v1.RoleConfig: fields 1 (ids, packed), 2 (packet_in)."""
    numbers = b"".join(varint(number) for number in ids)
    value = b"\x0a" + varint(len(numbers)) + numbers + (b"\x10\x01" if packet_in else b"")
    return any_pb2.Any(type_url="type.googleapis.com/terrace.v1.RoleConfig", value=value)


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


class Arbitration(unittest.TestCase):
    def client(self, **how):
        made = Controller(**how)
        self.addCleanup(made.close)
        return made

    def stream(self):
        channel, stub = connect()
        self.addCleanup(channel.close)
        made = Stream(stub)
        self.addCleanup(made.close)
        return made

    def test_the_greatest_election_id_is_primary(self):
        first = self.client()
        self.assertEqual(first.advice.status.code, PRIMARY)
        second = self.client()
        self.assertEqual(second.advice.status.code, PRIMARY)
        told = first.stream.next("arbitration")
        self.assertEqual((told.status.code, told.election_id.low), (BACKUP, second.election & (2**64 - 1)))
        self.assertEqual(first.pipeline(ACTIONS.VERIFY, config("everything")), "PERMISSION_DENIED")
        self.assertEqual(second.pipeline(ACTIONS.VERIFY, config("everything")), "OK")
        second.close()
        self.assertEqual(first.stream.next("arbitration").status.code, NOBODY)
        self.assertEqual(first.pipeline(ACTIONS.VERIFY, config("everything")), "PERMISSION_DENIED")

    def test_a_backup_takes_over_with_a_greater_id(self):
        primary = self.client()
        backup = self.client(primary=False)
        self.assertEqual(backup.advice.status.code, BACKUP)
        backup.stream.claim(backup.election)
        self.assertEqual(backup.stream.next("arbitration").status.code, PRIMARY)
        self.assertEqual(primary.stream.next("arbitration").status.code, BACKUP)

    def test_a_primary_steps_down(self):
        backup = self.client(primary=False)
        primary = self.client()
        self.assertEqual(backup.stream.next("arbitration").status.code, BACKUP)
        primary.stream.claim(None)
        for one in primary, backup:
            self.assertEqual(one.stream.next("arbitration").status.code, NOBODY)

    def test_a_smaller_id_waits(self):
        low = next(elections)
        self.client()
        late = self.client(election=low)
        self.assertEqual(late.advice.status.code, BACKUP)

    def test_the_same_id_comes_back_as_primary(self):
        first = self.client()
        first.close()
        self.assertEqual(self.client(election=first.election).advice.status.code, PRIMARY)

    def test_an_election_id_of_two_words(self):
        # In its own role, because the node remembers the largest id.
        role = f"wide{next(elections)}"
        self.assertEqual(self.client(role=role, election=1 << 64).advice.election_id, p4.Uint128(high=1))
        self.assertEqual(self.client(role=role, election=(1 << 64) - 1).advice.status.code, BACKUP)

    def test_streams_that_are_ended(self):
        taken = self.client()
        for how, code in [({"device": 9}, "NOT_FOUND"), ({"election": taken.election}, "INVALID_ARGUMENT")]:
            stream = self.stream()
            stream.claim(**how)
            self.assertEqual(stream.next("end"), code)
        unknown = any_pb2.Any(type_url="type.googleapis.com/p4.v1.Index")
        stream = self.stream()
        stream.claim(election=1, role="x", role_config=unknown)
        self.assertEqual(stream.next("end"), "INVALID_ARGUMENT")

    def test_a_live_stream_keeps_device_and_role(self):
        for change in {"device": 9}, {"role": "other"}:
            live = self.client()
            live.stream.claim(next(elections), **change)
            self.assertEqual(live.stream.next("end"), "FAILED_PRECONDITION")

    def test_a_live_stream_cannot_take_anothers_id(self):
        first, second = self.client(primary=False), self.client()
        first.stream.claim(second.election)
        self.assertEqual(first.stream.next("end"), "INVALID_ARGUMENT")

    def test_roles_are_apart(self):
        default, role = self.client(), self.client(role=f"r{next(elections)}")
        self.assertEqual((default.advice.status.code, role.advice.status.code), (PRIMARY, PRIMARY))
        self.assertEqual(role.advice.role.name, role.role)
        self.assertFalse(default.advice.HasField("role"))
        self.assertEqual(default.pipeline(ACTIONS.VERIFY_AND_COMMIT, config("everything")), "OK")
        for one, number in (default, 1), (role, 2):
            self.assertEqual(one.write((INSERT, one.host(number, one.action("drop")))), ["OK"])
        self.assertEqual(default.write((INSERT, default.host(3, default.action("drop"))), role=role.role), "PERMISSION_DENIED")

    def test_a_roles_config_limits_it(self):
        default = self.client()
        self.assertEqual(default.pipeline(ACTIONS.VERIFY_AND_COMMIT, config("everything")), "OK")
        scope = role_config([default.id("hosts")])
        role = self.client(role=f"r{next(elections)}", role_config=scope)
        self.assertEqual(role.advice.role.config.value, scope.value)
        drop = role.action("drop")
        route = role.entry("routes", {"destination": (0, 8)}, drop)
        self.assertEqual(role.write((INSERT, role.host(1, drop)), (INSERT, route)), ["OK", "PERMISSION_DENIED"])
        self.assertEqual(default.write((INSERT, route)), ["OK"])
        # It may read the entities that it may write.
        seen = role.read(p4.TableEntry(), role=role.role)
        self.assertEqual([entry.table_id for entry in seen], [role.id("hosts")])
        self.assertEqual(role.pipeline(ACTIONS.VERIFY, config("everything")), "PERMISSION_DENIED")
        role.stream.send(packet=p4.PacketOut(payload=b"x"))
        self.assertEqual(role.stream.next("error").canonical_code, 7)
