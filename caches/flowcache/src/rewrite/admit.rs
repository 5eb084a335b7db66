//! Who may take the slow path: packets that there is no rewrite for, as far as there is time for them, tenant by tenant ([`crate::admission`]).

use super::engine::RewriteCache;
use super::form::window;
use super::runs::Runs;
use crate::admission::{Admission, Budget};
use crate::pace::Spare;
use packet::{EngineReason, Packet, Verdict};
use std::time::Instant;

impl<R: Runs> RewriteCache<R> {
    /// From now on packets that there is no rewrite for are run up to this budget, which tenants share; others are dropped. Where packets are given one by one
    /// ([`RewriteCache::rewrite`]), that is left to the caller.
    pub fn admit_up_to(&mut self, budget: Budget) {
        self.admission = Some(Admission::new(budget));
    }

    /// From now on they take no more time than rewritten ones leave, either ([`crate::pace`]). False if there is no budget.
    pub fn keep_pace(&mut self, spare: Spare) -> bool {
        self.admission.as_mut().map(|admission| admission.keep_pace(spare)).is_some()
    }

    /// Whose packet it is says that variable (`hdr.vxlan.vni`), as the parser leaves it. Without one, all packets are one tenant's. False if the program does not
    /// have it, or it is wider than 64 bits.
    pub fn tell_tenants_by(&mut self, variable: &str) -> bool {
        let slot = self.maker.known.variable(variable);
        self.maker.tenants.slot = slot;
        slot.is_some()
    }

    /// Who was refused, and how often.
    pub fn admission(&self) -> Option<&Admission> {
        self.admission.as_ref()
    }

    /// Those of the packets without a verdict that may not be run get one.
    pub(super) fn admit(&mut self, packets: &[Packet], verdicts: &mut [Option<Verdict>]) {
        let Some(admission) = &mut self.admission else { return };
        for (packet, verdict) in packets.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none()) {
            let tenant = self.maker.tenants.of(&window(packet.bytes()));
            if !admission.admit(tenant, packet.received_at) {
                self.maker.stats.shed += 1;
                *verdict = Some(Verdict::Drop(EngineReason::SlowPathShare.into()));
            }
        }
    }

    /// Does a batch's work, and notes how long all of it and its slow path took, if a pace is kept.
    pub(super) fn in_time(&mut self, work: impl FnOnce(&mut Self)) {
        let paced = self.admission.as_mut().is_some_and(|admission| admission.pace().is_some());
        if !paced {
            return work(self);
        }
        let (start, ran) = (Instant::now(), self.maker.stats.ran);
        self.slow.took = Some(0);
        work(self);
        let slow = self.slow.took.take().unwrap_or_default();
        let packets = self.maker.stats.ran - ran;
        if let Some(pace) = self.admission.as_mut().and_then(Admission::pace) {
            pace.note(start.elapsed().as_nanos() as u64, slow, packets);
        }
    }

    /// A part of it that is the slow path's.
    pub(super) fn slowly<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let Some(took) = self.slow.took else { return work(self) };
        let start = Instant::now();
        let done = work(self);
        self.slow.took = Some(took + start.elapsed().as_nanos() as u64);
        done
    }
}
