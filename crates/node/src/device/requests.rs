//! [`Device`] for [`Node`]: executes the requests of controllers.

use super::configs::{config_to_store, pack_batch, parse_device_config};
use super::{Node, NodeState, RunningPipeline};
use crate::migrate;
use crate::store::StoredDigest;
use bytes::Bytes;
use entries::{ControlState, Counter, DevicePort, StoredEntry, WriteBatch, WriteError};
use ir::{ExternId, Pipeline, TableId};
use jit::{StoredFlow, StoredFlows};
use num_bigint::BigUint;
use p4runtime::{
    Code, Device, DeviceEntry, DigestConfig, EntryPages, EntryValues, EventSink, P4RuntimeError, PipelineConfig,
    ReconcileMode, Translations,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn no_pipeline_error() -> P4RuntimeError {
    P4RuntimeError::new(
        Code::FailedPrecondition,
        "no pipeline runs on this device; set one with SetForwardingPipelineConfig",
    )
}

impl Node {
    /// Implements [`Device::commit`] without the check for a region's ownership of the tables.
    pub(crate) fn commit_config(&self, config: &PipelineConfig, keep: ReconcileMode) -> Result<(), P4RuntimeError> {
        let mut engine = self.load_engine(&config.pipeline)?;
        let mut inner = self.lock_for_write()?;
        if let (ReconcileMode::ValidObjects, Some(current)) = (keep, &inner.current) {
            self.migrate_state(current, &mut *engine, &config.pipeline);
        }
        if inner.store.is_some() {
            let state = engine.with_state(ControlState::clone);
            let batches = migrate::state_to_batches(&state)
                .map_err(|error| P4RuntimeError::new(Code::Internal, error.to_string()))?;
            inner.with_store(|store| store.replace_config(&config_to_store(config), batches))?;
        }
        self.update_links(&mut *engine);
        let outcome = self.switch_engine(&*engine);
        let NodeState { current, past_stats: past, past_bypass_counts, .. } = &mut *inner;
        if let Some(mut former) = current.replace(RunningPipeline { config: config.clone(), engine }) {
            former.engine.retire();
            self.write_last_blocks(&*former.engine);
            *past_bypass_counts += &super::bypass_counts_of(&*former.engine);
            past.add_engine(&former.config.pipeline, &*former.engine);
        }
        if let Some(current) = current {
            past.retain_names_of(&current.config.pipeline, &current.engine.tallies().stages);
        }
        (inner.saved, inner.store_fault) = (None, None);
        inner.deferred_digests.clear();
        if keep == ReconcileMode::Nothing {
            inner.digests.clear();
        }
        outcome.map_err(|error| P4RuntimeError::new(Code::DeadlineExceeded, error.to_string()))
    }

    /// Implements [`Device::write`] without the check for a region's ownership of the tables.
    /// Expects packed entries.
    pub(crate) fn write_packed(&self, batches: Vec<WriteBatch>) -> Result<Vec<Result<(), WriteError>>, P4RuntimeError> {
        let mut inner = self.lock_for_write()?;
        inner.check_store()?;
        let current = inner.current.as_mut().ok_or_else(no_pipeline_error)?;
        let outcomes = current.engine.write_many(&batches);
        let applied = batches.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(batch, _)| batch);
        inner.with_store(|store| store.append_batches(applied))?;
        Ok(outcomes)
    }

    /// Returns whether writes are refused until the pipeline is set again, because the store has
    /// failed.
    pub(crate) fn has_store_fault(&self) -> bool {
        self.inner.lock().store_fault.is_some()
    }

    /// Returns the stored numbers of a region's objects such as VPCs.
    pub(crate) fn stored_region_numbers(&self) -> region::IdAssignments {
        read_numbers(&self.inner.lock().region_numbers)
    }

    /// Stores the numbers of a region's objects across a restart and a take-over.
    ///
    /// # Errors
    /// `UNAVAILABLE`: the store cannot be written, or another process has taken over.
    pub(crate) fn save_region_numbers(&self, numbers: &region::IdAssignments) -> Result<(), P4RuntimeError> {
        // Encoding plain data cannot fail.
        let bytes = postcard::to_stdvec(numbers).unwrap_or_default();
        let mut inner = self.lock_for_write()?;
        if inner.region_numbers == bytes {
            return Ok(());
        }
        inner.with_store(|store| store.save_region_numbers(&bytes))?;
        inner.region_numbers = bytes;
        Ok(())
    }
}

/// Reads the numbers of a region's objects. Numbers of other versions than the last one are ignored, because
/// entries are compared by content.
fn read_numbers(stored: &[u8]) -> region::IdAssignments {
    let read = |bytes: &[u8]| postcard::from_bytes::<region::IdAssignments>(bytes);
    // The last version had all but the numbers of machines, which come last.
    let none = postcard::to_stdvec(&region::MachineNumbers::default()).unwrap_or_default();
    read(stored).or_else(|_| read(&[stored, &none].concat())).unwrap_or_default()
}

/// The entries of a flow table for a read.
struct FlowPages(StoredFlows);

fn device_entry(StoredFlow { entry, counter, idle_ns }: StoredFlow) -> DeviceEntry {
    DeviceEntry { entry, counter, idle_ns }
}

impl EntryPages for FlowPages {
    fn next_page(&mut self) -> Option<Vec<DeviceEntry>> {
        Some(self.0.next_page()?.into_iter().map(device_entry).collect())
    }

    fn find(&self, key: &[u64]) -> Option<DeviceEntry> {
        self.0.find(key).map(device_entry)
    }
}

impl Device for Node {
    fn id(&self) -> u64 {
        self.device_id
    }

    fn verify(&self, device_config: &[u8]) -> Result<Arc<Pipeline>, P4RuntimeError> {
        let pipeline = parse_device_config(device_config)?;
        self.load_engine(&pipeline)?;
        Ok(pipeline)
    }

    fn save(&self, config: &PipelineConfig) -> Result<(), P4RuntimeError> {
        self.region.check_controllers_allowed()?;
        let mut inner = self.lock_for_write()?;
        inner.with_store(|store| store.save_config(&config_to_store(config)))?;
        inner.saved = Some(config.clone());
        Ok(())
    }

    fn commit(&self, config: &PipelineConfig, keep: ReconcileMode) -> Result<(), P4RuntimeError> {
        self.region.check_controllers_allowed()?;
        self.commit_config(config, keep)
    }

    fn saved(&self) -> Option<PipelineConfig> {
        self.inner.lock().saved.clone()
    }

    fn running(&self) -> Option<PipelineConfig> {
        self.with_running(|current| Some(current.config.clone()))
    }

    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, P4RuntimeError> {
        self.region.check_controllers_allowed()?;
        let packed = |state: &ControlState| batches.iter().map(|batch| pack_batch(state, batch)).collect();
        let batches = self
            .with_running(|current| Some(current.engine.with_written_state(packed)))
            .ok_or_else(no_pipeline_error)?;
        self.write_packed(batches)
    }

    fn keep_digests(&self, digests: &BTreeMap<u32, DigestConfig>) -> Result<(), P4RuntimeError> {
        let mut inner = self.lock_for_write()?;
        let one = |(number, config): (&u32, &DigestConfig)| {
            (*number, config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns)
        };
        let digests: Vec<StoredDigest> = digests.iter().map(one).collect();
        inner.with_store(|store| store.save_digests(&digests)).map(|_| ())
    }

    fn digests(&self) -> BTreeMap<u32, DigestConfig> {
        let one = |(number, max_timeout_ns, max_list_size, ack_timeout_ns)| {
            (number, DigestConfig { max_timeout_ns, max_list_size, ack_timeout_ns })
        };
        self.inner.lock().digests.iter().copied().map(one).collect()
    }

    fn state(&self) -> Option<ControlState> {
        self.with_running(|current| Some(current.engine.with_written_state(ControlState::clone)))
    }

    fn entry_pages(
        &self,
        pipeline: &Arc<Pipeline>,
        table: TableId,
        values: EntryValues,
    ) -> Option<Box<dyn EntryPages>> {
        let flows = self.with_running(|current| {
            let is_same = Arc::ptr_eq(current.engine.pipeline(), pipeline);
            current.engine.flow_tables().filter(|_| is_same)?.stored(table, values.counter || values.idle)
        })?;
        Some(Box::new(FlowPages(flows)))
    }

    fn ports(&self) -> Option<BTreeMap<u32, DevicePort>> {
        self.links()
    }

    fn translations(&self) -> Translations {
        self.translations.clone()
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.with_running(|current| current.engine.counter(counter, index))
    }

    fn direct_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        self.with_running(|current| current.engine.entry_counter(table, entry))
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.with_running(|current| current.engine.register(register, index))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.with_running(|current| current.engine.array_len(object))
    }

    fn idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
        self.with_running(|current| current.engine.entry_idle_for(table, entry))
    }

    fn packet_out(&self, bytes: Bytes) -> Result<(), P4RuntimeError> {
        if self.lock_for_change()?.current.is_none() {
            return Err(no_pipeline_error());
        }
        if self.settings.cpu_port.is_none() {
            let message = "this node has no CPU port; give it one (`cpu_port` in its configuration)";
            return Err(P4RuntimeError::new(Code::FailedPrecondition, message));
        }
        match self.plane.packet_out(&bytes) {
            Ok(true) => Ok(()),
            Ok(false) => Err(P4RuntimeError::new(
                Code::ResourceExhausted,
                "the queue is full: packets arrive faster than the worker processes them",
            )),
            Err(error) => Err(P4RuntimeError::invalid(error.to_string())),
        }
    }

    fn subscribe(&self, sink: EventSink) {
        *self.sink.write() = Some(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_version_without_those_of_machines_are_kept() {
        let numbers = region::IdAssignments {
            vpcs: [("red".to_owned(), 7)].into(),
            flow_secret: 9,
            ..region::IdAssignments::default()
        };
        let bytes = postcard::to_stdvec(&numbers).expect("plain data");
        let none = postcard::to_stdvec(&region::MachineNumbers::default()).expect("plain data");
        assert_eq!(read_numbers(&bytes), numbers);
        assert_eq!(read_numbers(bytes.strip_suffix(&none[..]).expect("they come last")), numbers);
        assert_eq!(read_numbers(&bytes[..3]), region::IdAssignments::default());
    }
}
