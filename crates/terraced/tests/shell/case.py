"""A test with p4runtime-shell as primary, on a pipeline without entries."""

import unittest

from controller import NODE, PROGRAMS, Requests, config, elections
from p4runtime_sh import shell
from p4runtime_sh.shell import FwdPipeConfig


class Case(unittest.TestCase):
    program = "everything"

    def setUp(self):
        election = next(elections)
        files = FwdPipeConfig(f"{PROGRAMS}/{self.program}.p4info.txtpb", f"{PROGRAMS}/{self.program}.ir")
        shell.setup(1, NODE, (election >> 64, election & (2**64 - 1)), config=files, verbose=False)
        self.addCleanup(shell.teardown)
        self.c = Requests(shell.client.stub, election, config(self.program).p4info)

    def writes(self, outcome, *updates, **how):
        """Writes, and compares the codes with the expected ones: a word for each update."""
        self.assertEqual(self.c.write(*updates, **how), outcome.split())

    def one(self, wanted):
        """Reads a single entity."""
        found = self.c.read(wanted)
        self.assertEqual(len(found), 1, found)
        return found[0]

