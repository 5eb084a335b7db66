"""Tests packets through a node while a controller writes its tables, with `everything.p4`. Port N of the node
is port N of ptf."""

import os
import subprocess
import time

import ptf
import ptf.testutils as testutils
from controller import ACTIONS, DELETE, INSERT, MODIFY, Controller, config, copies, flood, p4
from p4.v1.p4data_pb2 import P4Data
from ptf.base_tests import BaseTest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

HOST = "02:00:00:00:00:05"
NUMBER = 0x020000000005
SOURCE = "02:00:00:00:00:63"
SOURCE_NUMBER = 0x020000000063
CPU = 510
GREEN, YELLOW, RED = 0, 1, 2


def packet(size=80, source=SOURCE, ip="10.0.0.1", to="10.1.2.3", ttl=64):
    made = Ether(src=source, dst=HOST) / IP(src=ip, dst=to, ttl=ttl) / UDP(sport=1, dport=2)
    return made / Raw(b"x" * (size - len(made)))


def from_source(number, made=None):
    """Returns the packet with another source address, in which the program reports meters and registers."""
    made = (made or packet()).copy()
    made.src = ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))
    return made


class Switch(BaseTest):
    def setUp(self):
        BaseTest.setUp(self)
        self.dataplane = ptf.dataplane_instance
        self.c = Controller()
        assert self.c.pipeline(ACTIONS.VERIFY_AND_COMMIT, config("everything")) == "OK"
        self.dataplane.flush()

    def tearDown(self):
        self.c.close()
        BaseTest.tearDown(self)

    def write(self, *updates):
        assert self.c.write(*updates) == ["OK"] * len(updates), self.c.write(*updates)

    def host(self, action, *args, **other):
        """Sets the action for packets to HOST."""
        self.write((INSERT, self.c.host(NUMBER, self.c.action(action, *args), **other)))

    def send(self, made=None, port=1):
        testutils.send_packet(self, port, made or packet())

    def expect(self, made, port=2):
        testutils.verify_packet(self, made, port)

    def nothing(self):
        testutils.verify_no_other_packets(self, timeout=0.3)

    def arrived(self, port=2, timeout=2):
        """Returns the bytes of the next packet on a port."""
        result = self.dataplane.poll(device_number=0, port_number=port, timeout=timeout)
        assert isinstance(result, self.dataplane.PollSuccess), f"no packet on port {port}"
        return bytes(result.packet)


class Forwarding(Switch):
    """A write affects the next packet."""

    def runTest(self):
        self.send()
        self.nothing()
        self.host("send", 2)
        self.send()
        self.expect(packet())
        self.write((MODIFY, self.c.host(NUMBER, self.c.action("send", 3))))
        self.send()
        self.expect(packet(), 3)
        self.write((DELETE, self.c.host(NUMBER, None)))
        self.send()
        self.nothing()


class DefaultAction(Switch):
    def runTest(self):
        default = self.c.entry("hosts", {}, self.c.action("send", 3), is_default_action=True)
        self.write((MODIFY, default))
        self.send()
        self.expect(packet(), 3)
        self.write((MODIFY, self.c.entry("hosts", {}, is_default_action=True)))
        self.send()
        self.nothing()


class LongestPrefix(Switch):
    def runTest(self):
        self.host("check", 1)
        for prefix, length, port in [(0x0A000000, 8, 2), (0x0A010000, 16, 3)]:
            self.write((INSERT, self.c.entry("routes", {"destination": (prefix, length)}, self.c.action("send", port))))
        for to, port in [("10.1.2.3", 3), ("10.2.2.3", 2)]:
            self.send(packet(to=to))
            self.expect(packet(to=to), port)
        self.send(packet(to="11.0.0.1"))
        self.nothing()


class TernaryRangeOptional(Switch):
    """Of the matching entries, the one with the largest priority wins."""

    def runTest(self):
        self.host("check", 2)
        net = {"kind": 0x800, "source": (0x0A000000, 0xFF000000)}
        self.write(
            (INSERT, self.c.entry("kinds", net, self.c.action("send", 2), priority=1)),
            (INSERT, self.c.entry("kinds", {**net, "ttl": (1, 9)}, self.c.action("send", 3), priority=2)),
            (INSERT, self.c.entry("kinds", {**net, "ttl": (9, 9), "protocol": 17}, self.c.action("send", 4), priority=3)),
        )
        for ttl, port in (64, 2), (5, 3), (9, 4):
            self.send(packet(ttl=ttl))
            self.expect(packet(ttl=ttl), port)
        self.send(packet(ip="11.0.0.1"))
        self.nothing()


class Multicast(Switch):
    """A copy for each replica has the replica's instance."""

    def runTest(self):
        self.write((INSERT, flood(7, (2, 1), (3, 2), (3, 3))))
        self.host("flood", 7)
        self.send()
        self.expect(from_source(1), 2)
        self.expect(from_source(2), 3)
        self.expect(from_source(3), 3)
        self.write((MODIFY, flood(7, (4, 9))))
        self.send()
        self.expect(from_source(9), 4)
        self.write((DELETE, flood(7)))
        self.send()
        self.nothing()


class Clone(Switch):
    """A packet and its copy, truncated to the session's length."""

    def runTest(self):
        self.host("mirror", 5, 2)
        self.send()
        self.expect(packet())
        self.nothing()
        self.write((INSERT, copies(5, (3, 0), packet_length_bytes=64)))
        self.send(packet(200))
        self.expect(packet(200))
        assert self.arrived(3) == bytes(packet(200))[:64]
        self.write((MODIFY, copies(5, (4, 0))))
        self.send()
        self.expect(packet())
        self.expect(packet(), 4)


class CloneToController(Switch):
    def runTest(self):
        self.write((INSERT, copies(5, (CPU, 0))))
        self.host("mirror", 5, 2)
        self.send()
        self.expect(packet())
        told = self.c.stream.next("packet")
        assert told.payload == bytes(packet())
        assert [one.value for one in told.metadata] == [b"\x01", b"\x00", b"\x01"], told


class PacketIn(Switch):
    def runTest(self):
        self.host("punt", 33)
        self.send(port=3)
        told = self.c.stream.next("packet")
        assert told.payload == bytes(packet())
        assert [(one.metadata_id, one.value) for one in told.metadata] == [(1, b"\x03"), (2, b"\x21"), (3, b"\x00")], told
        backup = Controller(primary=False)
        self.send()
        assert self.c.stream.next("packet") and backup.stream.next("packet", 0.3) is None
        backup.close()


class PacketOut(Switch):
    def runTest(self):
        for port in 2, 4:
            metadata = [p4.PacketMetadata(metadata_id=1, value=bytes([port])), p4.PacketMetadata(metadata_id=2, value=b"\0")]
            self.c.stream.send(packet=p4.PacketOut(payload=bytes(packet()), metadata=metadata))
            self.expect(packet(), port)
        self.nothing()


class Counters(Switch):
    def runTest(self):
        self.host("send", 2)
        for size in 60, 100, 1000:
            self.send(packet(size))
            self.expect(packet(size))
        for wanted in self.c.counter("by_port", 1), p4.DirectCounterEntry(table_entry=self.c.host(NUMBER, None)):
            (found,) = self.c.read(wanted)
            assert (found.data.packet_count, found.data.byte_count) == (3, 1160), found
        self.write((MODIFY, self.c.counter("by_port", 1, p4.CounterData(packet_count=10, byte_count=5))))
        self.send()
        self.expect(packet())
        (found,) = self.c.read(self.c.counter("by_port", 1))
        assert (found.data.packet_count, found.data.byte_count) == (11, 85), found


class MetersColours(Switch):
    """A burst, at rates that refill nothing during the test: two green, two yellow, then red."""

    def colours(self, count):
        found = []
        for _ in range(count):
            self.send()
            found.append(self.arrived()[11])
        return found

    def runTest(self):
        self.host("police", 3, 2)
        assert self.colours(3) == [GREEN] * 3
        rates = p4.MeterConfig(cir=0, cburst=2, pir=0, pburst=4)
        self.write((MODIFY, self.c.meter("rates", 3, rates)))
        assert self.colours(6) == [GREEN, GREEN, YELLOW, YELLOW, RED, RED]
        self.write((MODIFY, self.c.meter("rates", 3)))
        assert self.colours(2) == [GREEN] * 2
        self.write((MODIFY, self.c.host(NUMBER, self.c.action("police_bytes", 1, 2))))
        self.write((MODIFY, self.c.meter("byte_rates", 1, p4.MeterConfig(cir=0, cburst=160, pir=0, pburst=240))))
        assert self.colours(4) == [GREEN, GREEN, YELLOW, RED]


class DirectMeter(MetersColours):
    def runTest(self):
        self.host("check", 3)
        rates = p4.MeterConfig(cir=0, cburst=1, pir=0, pburst=2)
        self.write((INSERT, self.c.entry("flows", {"source": SOURCE_NUMBER}, self.c.action("police_flow", 2), meter_config=rates)))
        assert self.colours(3) == [GREEN, YELLOW, RED]


class Registers(Switch):
    """The packet shows the register's previous value; the program increments it."""

    def runTest(self):
        self.host("remember", 2, 2)
        self.write((MODIFY, self.c.register("words", 2, P4Data(bitstring=b"\x07"))))
        for number in 7, 8:
            self.send()
            assert self.arrived()[8:12] == number.to_bytes(4, "big")
        (found,) = self.c.read(self.c.register("words", 2))
        assert found.data.bitstring == b"\x09"


class ValueSet(Switch):
    """An EtherType in the set is parsed as a tag, and the program writes to it."""

    def runTest(self):
        self.host("send", 2)
        tagged = Ether(src=SOURCE, dst=HOST, type=0x88B5) / Raw(b"\1\2\3\4" + b"x" * 60)
        changed = Ether(src=SOURCE, dst=HOST, type=0x88B5) / Raw(b"\xbe\xef\3\4" + b"x" * 60)
        self.send(tagged)
        self.expect(tagged)
        self.write((MODIFY, self.c.value_set("tagged", 0x88B5)))
        self.send(tagged)
        self.expect(changed)
        self.write((MODIFY, self.c.value_set("tagged")))
        self.send(tagged)
        self.expect(tagged)


class Digests(Switch):
    """Digests of packets; equal data again only after the list is acknowledged."""

    def learn(self, number):
        self.send(from_source(number))
        self.expect(from_source(number))

    def runTest(self):
        self.host("learn", 2)
        self.learn(1)
        self.write((INSERT, self.c.digest("learned_t", ack_timeout_ns=10**12)))
        self.learn(1)
        told = self.c.stream.next("digest")
        (data,) = told.data
        assert [data.struct.members[at].bitstring for at in (0, 1)] == [b"\1", b"\1"], data
        self.learn(1)
        assert self.c.stream.next("digest", 0.3) is None
        self.c.stream.send(digest_ack=p4.DigestListAck(digest_id=told.digest_id, list_id=told.list_id))
        time.sleep(0.1)
        self.learn(1)
        assert self.c.stream.next("digest").list_id != told.list_id


class DigestLists(Digests):
    """Lists of the requested number of distinct data, or fewer after the time-out."""

    def runTest(self):
        self.host("learn", 2)
        self.write((INSERT, self.c.digest("learned_t", max_timeout_ns=700_000_000, max_list_size=2)))
        for number in 1, 1, 2:
            self.learn(number)
        assert len(self.c.stream.next("digest").data) == 2
        begin = time.monotonic()
        self.learn(3)
        assert len(self.c.stream.next("digest").data) == 1
        assert time.monotonic() - begin > 0.6


class IdleTimeout(Switch):
    """A packet that hits the entry delays the notification."""

    def runTest(self):
        self.host("send", 2, idle_timeout_ns=2_500_000_000)
        for _ in range(7):
            time.sleep(0.5)
            self.send()
            self.expect(packet())
        assert self.c.stream.next("idle_timeout_notification", 0) is None
        asked = self.c.entry("hosts", time_since_last_hit=p4.TableEntry.IdleTimeout())
        (found,) = self.c.read(asked)
        assert found.time_since_last_hit.elapsed_ns < 2_500_000_000, found
        told = self.c.stream.next("idle_timeout_notification")
        assert told.table_entry[0].match == found.match
        self.send()
        self.expect(packet())


class Spreading(Switch):
    """Packets of many flows use all members of a group, those of one flow a single member."""

    def ways(self):
        found = set()
        for number in range(1, 33):
            self.send(packet(ip=f"10.0.0.{number}"))
            result = self.dataplane.poll(device_number=0, timeout=2)
            found.add(result.port)
        for _ in range(4):
            self.send()
        once = {self.dataplane.poll(device_number=0, timeout=2).port for _ in range(4)}
        assert len(once) == 1, once
        return found

    def set(self, *ports):
        return self.c.entry("spread", {"source": SOURCE_NUMBER}, {"set": [(self.c.action("send", port), 1) for port in ports]})

    def runTest(self):
        self.host("check", 5)
        self.write((INSERT, self.set(2, 3, 4)))
        assert self.ways() == {2, 3, 4}
        self.write((MODIFY, self.set(3)))
        assert self.ways() == {3}
        self.write((DELETE, self.set()))
        self.send()
        self.nothing()


class MembersAndGroups(Spreading):
    def runTest(self):
        self.host("check", 6)
        for number in 2, 3:
            self.write((INSERT, self.c.member("members", number, self.c.action("send", number))))
        self.write((INSERT, self.c.group("members", 1, [(2, 1), (3, 1)])))
        self.write((INSERT, self.c.entry("spread_members", {"source": SOURCE_NUMBER}, {"group": 1})))
        assert self.ways() == {2, 3}
        self.write((MODIFY, self.c.member("members", 3, self.c.action("send", 4))))
        assert self.ways() == {2, 4}
        self.write((MODIFY, self.c.group("members", 1, [(2, 1)])))
        assert self.ways() == {2}


class WatchPorts(Spreading):
    """When a member's port goes down, its flows move to the others at once, without a write, and return when it is up."""

    def link(self, number, state):
        subprocess.run(["ip", "-n", os.environ["NODE_NETNS"], "link", "set", f"node{number}", state], check=True)

    def watching(self, *ports):
        entry = self.set(*ports)
        for one, number in zip(entry.action.action_profile_action_set.action_profile_actions, ports):
            one.watch_port = bytes([number])
        return entry

    def flow(self, number):
        return packet(ip=f"10.0.0.{number}")

    def ports(self):
        """Returns the port of each of 32 flows; 0: none."""
        self.dataplane.flush()
        found = {}
        for number in range(1, 33):
            self.send(self.flow(number))
            result = self.dataplane.poll(device_number=0, timeout=0.5)
            found[number] = result.port if isinstance(result, self.dataplane.PollSuccess) else 0
        return found

    def lost(self, port):
        """Returns the number of lost packets of one flow until one arrives on that port; one is sent each millisecond."""
        self.dataplane.flush()
        for lost in range(1000):
            self.send(self.flow(self.number))
            if isinstance(self.dataplane.poll(device_number=0, port_number=port, timeout=0.001), self.dataplane.PollSuccess):
                return lost
        raise AssertionError(f"nothing arrives on port {port}")

    def runTest(self):
        self.host("check", 5)
        entry = self.watching(2, 3)
        self.write((INSERT, entry))
        before = self.ports()
        assert set(before.values()) == {2, 3}, before
        self.number = next(number for number, port in before.items() if port == 2)
        try:
            self.link(2, "down")
            lost = self.lost(3)
            print(f"lost after the link went down: {lost}")
            # A tick of the worker and one of the node, 10 ms each, and a margin for a busy machine.
            assert lost < 300, lost
            assert set(self.ports().values()) == {3}
            # A group that is written while a port is down does not use it.
            self.write((MODIFY, self.watching(2, 3, 4)))
            assert set(self.ports().values()) == {3, 4}
            # A member that watches another port than its output does use it.
            other = self.watching(2, 3)
            other.action.action_profile_action_set.action_profile_actions[0].watch_port = b"\4"
            self.write((MODIFY, other))
            assert {port for number, port in self.ports().items() if port != 3} == {0}
            self.write((MODIFY, entry))
            # Reads of a controller are unaffected.
            (read,) = self.c.read(self.c.entry("spread"))
            assert read.action == entry.action, read
            self.link(3, "down")
            time.sleep(0.5)
            assert set(self.ports().values()) == {0}, "an empty group does what a miss does"
            self.link(3, "up")
            self.lost(3)
        finally:
            self.link(2, "up")
            self.link(3, "up")
        self.lost(2)
        # Each flow returns to its port when the ports are up again.
        deadline = time.monotonic() + 10
        while (now := self.ports()) != before:
            assert time.monotonic() < deadline, (before, now)


class ActionProfile(Switch):
    def runTest(self):
        self.host("check", 4)
        self.write((INSERT, self.c.member("shared", 1, self.c.action("send", 2))))
        self.write((INSERT, self.c.entry("profiled", {"source": SOURCE_NUMBER}, {"member": 1})))
        self.send()
        self.expect(packet())
        self.write((MODIFY, self.c.member("shared", 1, self.c.action("send", 3))))
        self.send()
        self.expect(packet(), 3)


class ConstEntries(Switch):
    def runTest(self):
        self.host("check", 8)
        self.send()
        self.expect(packet())
        (found,) = self.c.read(p4.DirectCounterEntry(table_entry=self.c.entry("fixed", {"kind": 0x800})))
        assert found.data.packet_count == 1


class Reconcile(Switch):
    """Entries that fit the new program continue to forward; other state is deleted."""

    def runTest(self):
        self.host("send", 2)
        assert self.c.pipeline(ACTIONS.RECONCILE_AND_COMMIT, config("everything")) == "OK"
        self.send()
        self.expect(packet())
        assert self.c.pipeline(ACTIONS.VERIFY_AND_COMMIT, config("everything")) == "OK"
        self.send()
        self.nothing()
