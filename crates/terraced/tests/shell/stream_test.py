"""Section "Stream Error Reporting", and notifications without packets."""

import time

from case import Case
from controller import INSERT, Controller, p4
from p4runtime_sh import shell


class Errors(Case):
    def setUp(self):
        super().setUp()
        # Becomes primary in place of the shell, with its own stream.
        self.own = Controller()
        self.addCleanup(self.own.close)

    def error(self, **message):
        self.own.stream.send(**message)
        error = self.own.stream.next("error")
        return error.canonical_code, error.WhichOneof("details")

    def metadata(self, *pairs):
        return [p4.PacketMetadata(metadata_id=number, value=value) for number, value in pairs]

    def test_packets_whose_metadata_are_wrong(self):
        for pairs in (), ((1, b"\1"),), ((1, b"\1"), (2, b"\0"), (9, b"\0")), ((1, b"\1"), (1, b"\1"), (2, b"\0")):
            packet = p4.PacketOut(payload=b"x" * 60, metadata=self.metadata(*pairs))
            self.assertEqual(self.error(packet=packet), (3, "packet_out"))

    def test_only_a_primary_sends(self):
        backup = Controller(primary=False)
        self.addCleanup(backup.close)
        backup.stream.send(packet=p4.PacketOut(payload=b"x" * 60, metadata=self.metadata((1, b"\1"), (2, b"\0"))))
        self.assertEqual(backup.stream.next("error").canonical_code, 7)

    def test_acknowledgements_of_unknown_digests(self):
        self.assertEqual(self.error(digest_ack=p4.DigestListAck(digest_id=77, list_id=1)), (3, "digest_list_ack"))

    def test_other_messages(self):
        message = p4.StreamMessageRequest()
        message.other.type_url = "x/y"
        self.own.stream.out.put(message)
        error = self.own.stream.next("error")
        self.assertEqual((error.canonical_code, error.WhichOneof("details")), (12, "other"))

    def test_the_stream_goes_on(self):
        self.error(digest_ack=p4.DigestListAck(digest_id=77, list_id=1))
        self.own.stream.claim(self.own.election)
        self.assertEqual(self.own.stream.next("arbitration").status.code, 0)


class Idle(Case):
    def test_an_entry_that_no_packet_hits_is_told_again_and_again(self):
        host = self.c.host(1, self.c.action("drop"), idle_timeout_ns=200_000_000, metadata=b"mine", controller_metadata=4)
        self.writes("OK", (INSERT, host))
        begin = time.monotonic()
        told = [shell.client.get_stream_packet("idle_timeout_notification", timeout=5).idle_timeout_notification for _ in range(2)]
        self.assertGreater(time.monotonic() - begin, 0.35)
        for one in told:
            (entry,) = one.table_entry
            self.assertEqual((entry.table_id, entry.match, entry.metadata), (host.table_id, host.match, b"mine"))
            self.assertEqual((entry.controller_metadata, entry.idle_timeout_ns), (4, 200_000_000))
            self.assertLess(abs(one.timestamp - time.time_ns()), 60 * 10**9)
