//! Keeps the next hops in accordance with the links of the ports.

use crate::Node;
use entries::{UpdateKind, WriteBatch};
use p4runtime::{Device, P4RuntimeError};
use region::{PortStates, RegionPart};
use underlay::LinkUse;

impl Node {
    /// Sets the states of the ports, and rewrites the next hops that depend on them. Does nothing if
    /// the states are unchanged. Returns the number of written entries.
    ///
    /// # Errors
    /// The tables refuse writes. They are written with the next change.
    pub(crate) fn set_port_states(&self, states: PortStates) -> Result<usize, P4RuntimeError> {
        let is_same = *self.region.ports.lock() == states;
        if is_same && !self.region.paths_in_doubt.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(0);
        }
        *self.region.ports.lock() = states;
        let outcome = self.reconcile_next_hops();
        self.refresh_kernel_paths();
        self.region.paths_in_doubt.store(outcome.is_err(), std::sync::atomic::Ordering::Relaxed);
        outcome
    }

    /// Writes the next hops whose entries differ from those of the region with the present states of
    /// the ports. Runs after each change of a state and after each application of a region file,
    /// because both can happen at once: the last one to run sees the result of the other.
    pub(super) fn reconcile_next_hops(&self) -> Result<usize, P4RuntimeError> {
        self.rewrite_entries(&RegionPart::NextHops)
    }

    /// Writes those entries of a part that differ from the tables, with the present states of ports
    /// and paths. Adds and removes no entries. Returns the number of written ones.
    ///
    /// # Errors
    /// The tables refuse writes.
    pub(super) fn rewrite_entries(&self, part: &RegionPart) -> Result<usize, P4RuntimeError> {
        let _serial = self.region.reconciling.lock();
        // The tables are read before the region is locked, because a thread that has locked the
        // tables can look up a VPC's name.
        let Some(state) = self.state() else { return Ok(0) };
        let mut batch = WriteBatch::default();
        {
            let mut installed = self.region.installed.write();
            let Some(installed) = installed.as_mut() else { return Ok(0) };
            installed.numbers.ports = self.region.ports.lock().clone();
            installed.numbers.path_mtus = self.path_mtus();
            let (region, api, numbers) = (&installed.document.region, &installed.api, &installed.numbers);
            region::visit(region, api, numbers, part, &mut |entry, _| {
                let Ok(wanted) = state.pack_entry(UpdateKind::Insert, &entry) else { return };
                let present = state.get_entry(wanted.table, wanted.key(), wanted.priority);
                if present.is_some_and(|present| present.action() != wanted.action()) {
                    batch.updates.push(entries::StateUpdate::Packed(UpdateKind::Modify, wanted));
                }
            });
        }
        self.write_updates(batch)
    }

    /// Writes a batch, unless it is empty, because a new table version would invalidate caches.
    /// Returns the number of its updates.
    ///
    /// # Errors
    /// The tables refuse it.
    pub(super) fn write_updates(&self, batch: WriteBatch) -> Result<usize, P4RuntimeError> {
        let written = batch.updates.len();
        if written > 0 {
            let outcomes = self.write_packed(vec![batch])?;
            let refused = |error: entries::WriteError| P4RuntimeError::invalid(error.error.to_string());
            outcomes.into_iter().try_for_each(|outcome| outcome.map_err(refused))?;
        }
        Ok(written)
    }

    /// Returns the number of uplinks of the region that packets may use now, and of all. `None`
    /// without a region.
    pub(crate) fn count_paths(&self) -> Option<(usize, usize)> {
        let installed = self.region.installed.read();
        let uplinks = &installed.as_ref()?.document.region.file.uplinks;
        let ports = self.region.ports.lock();
        let usable = uplinks.iter().filter(|uplink| ports.link_use(*uplink.port) == LinkUse::Up).count();
        Some((usable, uplinks.len()))
    }
}
