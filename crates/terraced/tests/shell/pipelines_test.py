"""Sections "SetForwardingPipelineConfig RPC", "GetForwardingPipelineConfig RPC" and "Capabilities RPC"."""

import grpc
from case import Case
from controller import ACTIONS, INSERT, config, p4
from p4runtime_sh.shell import APIVersion

GET = p4.GetForwardingPipelineConfigRequest


class Pipelines(Case):
    def get(self, kind=GET.ALL):
        return self.c.stub.GetForwardingPipelineConfig(GET(device_id=1, response_type=kind)).config

    def host(self):
        self.writes("OK", (INSERT, self.c.host(1, self.c.action("drop"))))

    def hosts(self):
        return len(self.c.read(self.c.entry("hosts")))

    def test_verify_changes_nothing(self):
        self.host()
        self.assertEqual(self.c.pipeline(ACTIONS.VERIFY, config("marks", 5)), "OK")
        self.assertEqual((self.hosts(), self.get().HasField("cookie")), (1, False))

    def test_save_then_commit(self):
        self.writes("OK OK", (INSERT, self.c.host(2, self.c.action("drop"))), (INSERT, self.c.host(3, self.c.action("drop"))))
        self.assertEqual(self.c.pipeline(ACTIONS.VERIFY_AND_SAVE, config("everything", 5)), "OK")
        self.assertEqual(self.hosts(), 0, "reads are of what is saved")
        self.host()
        self.assertFalse(self.get().HasField("cookie"))
        self.assertEqual(self.c.pipeline(ACTIONS.COMMIT), "OK")
        self.assertEqual((self.get().cookie.cookie, self.hosts()), (5, 1), "what was written since it was saved, and no more")
        self.assertEqual(self.c.pipeline(ACTIONS.COMMIT), "NOT_FOUND", "it is committed once")

    def test_commit_takes_no_config(self):
        self.assertEqual(self.c.pipeline(ACTIONS.COMMIT, config("everything")), "INVALID_ARGUMENT")

    def test_verify_and_commit_clears(self):
        self.host()
        self.assertEqual(self.c.pipeline(ACTIONS.VERIFY_AND_COMMIT, config("everything", 0)), "OK")
        self.assertEqual((self.hosts(), self.get().HasField("cookie")), (0, True))

    def test_reconcile_keeps(self):
        self.host()
        self.assertEqual(self.c.pipeline(ACTIONS.RECONCILE_AND_COMMIT, config("everything", 8)), "OK")
        self.assertEqual((self.hosts(), self.get().cookie.cookie), (1, 8))

    def test_configs_that_are_refused(self):
        broken, other, bare = config("everything"), config("everything"), config("everything")
        broken.p4_device_config = b"nonsense"
        other.p4info.CopyFrom(config("marks").p4info)
        bare.ClearField("p4info")
        for action in ACTIONS.VERIFY, ACTIONS.VERIFY_AND_SAVE, ACTIONS.VERIFY_AND_COMMIT, ACTIONS.RECONCILE_AND_COMMIT:
            for bad in None, broken, other, bare:
                self.assertEqual(self.c.pipeline(action, bad), "INVALID_ARGUMENT")
        self.assertEqual(self.c.pipeline(ACTIONS.UNSPECIFIED, config("everything")), "INVALID_ARGUMENT")

    def test_who_sets_it(self):
        good = config("everything")
        self.assertEqual(self.c.pipeline(ACTIONS.VERIFY, good, device_id=9), "NOT_FOUND")
        self.assertEqual(self.c.pipeline(ACTIONS.VERIFY, good, role="nobody"), "NOT_FOUND")
        self.assertEqual(self.c.pipeline(ACTIONS.VERIFY, good, election_id=p4.Uint128(low=1)), "PERMISSION_DENIED")

    def test_what_is_returned(self):
        made = config("everything", 77)
        self.assertEqual(self.c.pipeline(ACTIONS.VERIFY_AND_COMMIT, made), "OK")
        self.assertEqual(self.get(), made)
        for kind, info, device in (GET.COOKIE_ONLY, False, False), (GET.P4INFO_AND_COOKIE, True, False), (GET.DEVICE_CONFIG_AND_COOKIE, False, True):
            got = self.get(kind)
            self.assertEqual((got.HasField("p4info"), bool(got.p4_device_config), got.cookie.cookie), (info, device, 77))

    def test_another_device(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.c.stub.GetForwardingPipelineConfig(GET(device_id=9))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_capabilities(self):
        self.assertEqual(APIVersion(), "1.5.0")
        with self.assertRaises(grpc.RpcError) as caught:
            self.c.stub.Capabilities(p4.CapabilitiesRequest(device_id=9))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)


class Pna(Case):
    """Writes and reads the same entities with a program of another architecture."""

    program = "everything_pna"

    def test_entities(self):
        drop, send = self.c.action("drop"), self.c.action("send", 7)
        self.writes(
            "OK " * 8,
            (INSERT, self.c.host(1, send, idle_timeout_ns=10**12)),
            (INSERT, self.c.member("shared", 1, drop)),
            (INSERT, self.c.entry("profiled", {"source": 1}, {"member": 1})),
            (INSERT, self.c.entry("spread", {"source": 1}, {"set": [(send, 1), (drop, 2)]})),
            (p4.Update.MODIFY, self.c.counter("by_kind", 1, p4.CounterData(packet_count=3))),
            (p4.Update.MODIFY, self.c.meter("rates", 1, p4.MeterConfig(cir=1, cburst=1, pir=1, pburst=1))),
            (p4.Update.MODIFY, p4.DirectCounterEntry(table_entry=self.c.host(1, None), data=p4.CounterData(packet_count=2))),
            (INSERT, self.c.digest("learned" if "learned" in self.c.objects else "learned_t")),
        )
        self.assertEqual(len(self.c.read(p4.TableEntry())), 3)
        words = [one.data.bitstring for one in self.c.read(self.c.register("words"))]
        self.assertEqual(words, [b"\7"] * 4, "the program's initial values")
        self.assertEqual(self.one(self.c.entry("hosts")).action.action, send)
