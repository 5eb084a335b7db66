//! Admission of misses to the slow path, by budget, time and tenant ([`crate::admission`]).

use super::backing_engine::BackingEngine;
use super::engine::RewriteCache;
use super::form::window;
use crate::admission::{SlowPathAdmission, SlowPathBudget};
use crate::pacer::MinSlowPathShare;
use packet::{EngineReason, Packet, Verdict};
use std::time::Instant;

impl<R: BackingEngine> RewriteCache<R> {
    /// Limits misses to this budget, which tenants share. Refused packets are dropped. Callers of
    /// [`RewriteCache::rewrite_packet`] have to limit packets themselves.
    pub fn admit_up_to(&mut self, budget: SlowPathBudget) {
        self.admission = Some(SlowPathAdmission::new(budget));
    }

    /// Limits misses to the time that rewritten packets leave ([`crate::pacer`]). Returns false
    /// without a budget.
    pub fn enable_pacing(&mut self, min_share: MinSlowPathShare) -> bool {
        self.admission.as_mut().map(|admission| admission.enable_pacing(min_share)).is_some()
    }

    /// Selects the variable with the tenant id, such as `hdr.vxlan.vni`, as the parser leaves it.
    /// Without a variable, all packets belong to one tenant. Returns false if the program has no
    /// such variable, or it is wider than 64 bits.
    pub fn set_tenant_variable(&mut self, variable: &str) -> bool {
        let slot = self.builder.facts.variable_slot(variable);
        self.builder.tenants.slot = slot;
        slot.is_some()
    }

    /// Returns the admission state, with the refused packets of each tenant.
    pub fn admission(&self) -> Option<&SlowPathAdmission> {
        self.admission.as_ref()
    }

    /// Sets drop verdicts for refused packets among those without a verdict.
    pub(super) fn set_admission_verdicts(&mut self, packets: &[Packet], verdicts: &mut [Option<Verdict>]) {
        let Some(admission) = &mut self.admission else { return };
        for (packet, verdict) in packets.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none()) {
            let tenant = self.builder.tenants.tenant_of(&window(packet.bytes()));
            if !admission.admit(tenant, packet.rx_time_ns) {
                self.builder.stats.refused_admission += 1;
                *verdict = Some(Verdict::Drop(EngineReason::SlowPathLimit.into()));
            }
        }
    }

    /// Runs `work` for a batch. With pacing, measures the time of the batch and of its slow path.
    pub(super) fn measure_batch(&mut self, work: impl FnOnce(&mut Self)) {
        let paced = self.admission.as_mut().is_some_and(|admission| admission.pacer_mut().is_some());
        if !paced {
            return work(self);
        }
        let (start, ran) = (Instant::now(), self.builder.stats.slow_path_packets);
        self.slow_path.took_ns = Some(0);
        work(self);
        let slow = self.slow_path.took_ns.take().unwrap_or_default();
        let packets = self.builder.stats.slow_path_packets - ran;
        if let Some(pace) = self.admission.as_mut().and_then(SlowPathAdmission::pacer_mut) {
            pace.record_time(start.elapsed().as_nanos() as u64, slow, packets);
        }
    }

    /// Runs `work` as a part of the slow path. With pacing, adds its time.
    pub(super) fn measure_slow_path<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let Some(took_ns) = self.slow_path.took_ns else { return work(self) };
        let start = Instant::now();
        let result = work(self);
        self.slow_path.took_ns = Some(took_ns + start.elapsed().as_nanos() as u64);
        result
    }
}
