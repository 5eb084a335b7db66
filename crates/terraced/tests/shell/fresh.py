"""Tests a node before the first pipeline."""

import unittest

from controller import ACTIONS, INSERT, Controller, config, p4


class Fresh(unittest.TestCase):
    def test_until_a_pipeline_runs(self):
        client = Controller()
        self.addCleanup(client.close)
        update = INSERT, client.host(1, client.action("drop"))
        self.assertEqual(client.write(update, election_id=p4.Uint128(low=1)), "PERMISSION_DENIED", "looked at first")
        self.assertEqual(client.pipeline(ACTIONS.COMMIT), "NOT_FOUND")
        self.assertFalse(client.stub.GetForwardingPipelineConfig(p4.GetForwardingPipelineConfigRequest(device_id=1)).HasField("config"))
        self.assertEqual(client.write(update), "FAILED_PRECONDITION")
        self.assertEqual(client.read_codes(p4.TableEntry()), "FAILED_PRECONDITION")
        # A saved pipeline does not run, but writes and reads refer to it.
        self.assertEqual(client.pipeline(ACTIONS.VERIFY_AND_SAVE, config("everything")), "OK")
        self.assertEqual(client.write(update), ["OK"])
        self.assertEqual(client.pipeline(ACTIONS.COMMIT), "OK")
        self.assertEqual(client.write(update), ["ALREADY_EXISTS"])
