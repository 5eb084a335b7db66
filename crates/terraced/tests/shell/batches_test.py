"""Section "Write RPC": atomicity, errors, order of checks."""

from case import Case
from controller import DELETE, INSERT, MODIFY, p4

CONTINUE, ROLLBACK, ATOMIC = (p4.WriteRequest.Atomicity.Value(name) for name in ("CONTINUE_ON_ERROR", "ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"))


class Atomicity(Case):
    def batch(self, bad=True):
        drop = self.c.action("drop")
        bad_one = self.c.host(1, drop) if bad else self.c.host(4, drop)
        return (INSERT, self.c.host(1, drop)), (INSERT, bad_one), (INSERT, self.c.host(3, drop))

    def hosts(self):
        return len(self.c.read(self.c.entry("hosts")))

    def test_continue_on_error_makes_the_others(self):
        self.writes("OK ALREADY_EXISTS OK", *self.batch(), atomicity=CONTINUE)
        self.assertEqual(self.hosts(), 2)

    def test_the_others_make_none(self):
        for atomicity in ROLLBACK, ATOMIC:
            self.writes("ABORTED ALREADY_EXISTS ABORTED", *self.batch(), atomicity=atomicity)
            self.assertEqual(self.hosts(), 0)

    def test_all_make_all_if_all_are_good(self):
        for atomicity in CONTINUE, ROLLBACK, ATOMIC:
            self.writes("OK OK OK", *self.batch(bad=False), atomicity=atomicity)
            self.assertEqual(self.hosts(), 3)
            drop = self.c.action("drop")
            self.writes("OK OK OK", *((DELETE, self.c.host(number, drop)) for number in (1, 3, 4)), atomicity=atomicity)

    def test_a_digest_of_a_batch_that_fails_is_not_enabled(self):
        self.writes("ABORTED NOT_FOUND", (INSERT, self.c.digest("learned_t")), (DELETE, self.c.host(1, None)), atomicity=ATOMIC)
        self.assertEqual(self.c.read(p4.DigestEntry()), [])

    def test_other_modes_are_unknown(self):
        self.assertEqual(self.c.write(*self.batch(), atomicity=9), "INVALID_ARGUMENT")

    def test_later_updates_see_earlier_ones(self):
        drop = self.c.action("drop")
        self.writes("OK OK OK", (INSERT, self.c.host(1, drop)), (MODIFY, self.c.host(1, drop)), (DELETE, self.c.host(1, None)), atomicity=ATOMIC)

    def test_an_empty_batch_is_good(self):
        self.writes("")


class Checks(Case):
    def test_who_writes(self):
        update = INSERT, self.c.host(1, self.c.action("drop"))
        self.assertEqual(self.c.write(update, device_id=9), "NOT_FOUND")
        self.assertEqual(self.c.write(update, role="nobody"), "NOT_FOUND")
        self.assertEqual(self.c.write(update, election_id=p4.Uint128(low=1)), "PERMISSION_DENIED")
        self.assertEqual(self.c.write(update, election_id=None), "PERMISSION_DENIED")
