//! What controllers' requests do to a node: [`Device`] for [`Node`].

use super::configs::{kept, packed, parse};
use super::{Current, Inner, Node};
use crate::reconcile;
use crate::store::KeptDigest;
use bytes::Bytes;
use entries::{Counter, Entry, Port, State, WriteBatch, WriteError};
use ir::{ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use p4runtime::{Code, Device, DigestConfig, EventSink, Forwarding, Keep, Refusal, Translations};
use std::collections::BTreeMap;
use std::sync::Arc;

fn nothing_runs() -> Refusal {
    Refusal::new(Code::FailedPrecondition, "no pipeline runs on this device; set one with SetForwardingPipelineConfig")
}

impl Node {
    /// As [`Device::commit`], for what keeps the node's tables.
    pub(crate) fn commit_own(&self, config: &Forwarding, keep: Keep) -> Result<(), Refusal> {
        let mut engine = self.load(&config.pipeline)?;
        let mut inner = self.to_write()?;
        if let (Keep::WhatFits, Some(current)) = (keep, &inner.current) {
            self.take_over(current, &mut *engine, &config.pipeline);
        }
        if inner.store.is_some() {
            let state = engine.with_state(State::clone);
            let batches = reconcile::writes(&state).map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
            inner.with_store(|store| store.replace(&kept(config), batches))?;
        }
        self.tell_links(&mut *engine);
        let outcome = self.exchange(&*engine);
        let Inner { current, past, past_beside, .. } = &mut *inner;
        if let Some(mut former) = current.replace(Current { config: config.clone(), engine }) {
            former.engine.retire();
            *past_beside += &super::beside(&*former.engine);
            past.add(&former.config.pipeline, &*former.engine);
        }
        if let Some(current) = current {
            past.keep(&current.config.pipeline, &current.engine.tallies().stages);
        }
        (inner.saved, inner.stuck) = (None, None);
        inner.late.clear();
        if keep == Keep::Nothing {
            inner.digests.clear();
        }
        outcome.map_err(|error| Refusal::new(Code::DeadlineExceeded, error.to_string()))
    }

    /// As [`Device::write`], for what keeps the node's tables; entries are packed.
    pub(crate) fn write_own(&self, batches: Vec<WriteBatch>) -> Result<Vec<Result<(), WriteError>>, Refusal> {
        let mut inner = self.to_write()?;
        let Inner { current, stuck, .. } = &mut *inner;
        let current = current.as_mut().ok_or_else(nothing_runs)?;
        if let Some(why) = stuck {
            let message = format!(
                "nothing can be written until the pipeline is set again: what was written last is not kept ({why})"
            );
            return Err(Refusal::new(Code::Unavailable, message));
        }
        let outcomes = current.engine.write_many(&batches);
        let applied = batches.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(batch, _)| batch);
        inner.with_store(|store| store.append(applied))?;
        Ok(outcomes)
    }

    /// Whether nothing can be written until the pipeline is set again, as the store has failed.
    pub(crate) fn is_stuck(&self) -> bool {
        self.inner.lock().stuck.is_some()
    }

    /// The numbers of a region's VPCs and the like, as they were kept last.
    pub(crate) fn kept_numbers(&self) -> region::Numbers {
        // Those of another version count as none: entries are compared by what they say.
        postcard::from_bytes(&self.inner.lock().numbers).unwrap_or_default()
    }

    /// Keeps them over a restart and a take-over.
    ///
    /// # Errors
    /// `UNAVAILABLE`: the store cannot be written, or another process does this now.
    pub(crate) fn keep_numbers(&self, numbers: &region::Numbers) -> Result<(), Refusal> {
        // Plain data always has a form.
        let bytes = postcard::to_stdvec(numbers).unwrap_or_default();
        let mut inner = self.to_write()?;
        if inner.numbers == bytes {
            return Ok(());
        }
        inner.with_store(|store| store.keep_numbers(&bytes))?;
        inner.numbers = bytes;
        Ok(())
    }
}

impl Device for Node {
    fn id(&self) -> u64 {
        self.device_id
    }

    fn verify(&self, device_config: &[u8]) -> Result<Arc<Pipeline>, Refusal> {
        let pipeline = parse(device_config)?;
        self.load(&pipeline)?;
        Ok(pipeline)
    }

    fn save(&self, config: &Forwarding) -> Result<(), Refusal> {
        self.region.allow_others()?;
        let mut inner = self.to_write()?;
        inner.with_store(|store| store.save(&kept(config)))?;
        inner.saved = Some(config.clone());
        Ok(())
    }

    fn commit(&self, config: &Forwarding, keep: Keep) -> Result<(), Refusal> {
        self.region.allow_others()?;
        self.commit_own(config, keep)
    }

    fn saved(&self) -> Option<Forwarding> {
        self.inner.lock().saved.clone()
    }

    fn running(&self) -> Option<Forwarding> {
        self.with(|current| Some(current.config.clone()))
    }

    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, Refusal> {
        self.region.allow_others()?;
        let packed = |state: &State| batches.iter().map(|batch| packed(state, batch)).collect();
        let batches = self.with(|current| Some(current.engine.with_state(packed))).ok_or_else(nothing_runs)?;
        self.write_own(batches)
    }

    fn keep_digests(&self, digests: &BTreeMap<u32, DigestConfig>) -> Result<(), Refusal> {
        let mut inner = self.to_write()?;
        let one = |(number, config): (&u32, &DigestConfig)| {
            (*number, config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns)
        };
        let digests: Vec<KeptDigest> = digests.iter().map(one).collect();
        inner.with_store(|store| store.keep_digests(&digests)).map(|_| ())
    }

    fn digests(&self) -> BTreeMap<u32, DigestConfig> {
        let one = |(number, max_timeout_ns, max_list_size, ack_timeout_ns)| {
            (number, DigestConfig { max_timeout_ns, max_list_size, ack_timeout_ns })
        };
        self.inner.lock().digests.iter().copied().map(one).collect()
    }

    fn state(&self) -> Option<State> {
        self.with(|current| Some(current.engine.with_state(State::clone)))
    }

    fn ports(&self) -> Option<BTreeMap<u32, Port>> {
        self.links()
    }

    fn translations(&self) -> Translations {
        self.translations.clone()
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.with(|current| current.engine.counter(counter, index))
    }

    fn direct_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
        self.with(|current| current.engine.entry_counter(table, entry))
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.with(|current| current.engine.register(register, index))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.with(|current| current.engine.array_len(object))
    }

    fn idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        self.with(|current| current.engine.entry_idle_for(table, entry))
    }

    fn packet_out(&self, bytes: Bytes) -> Result<(), Refusal> {
        if self.to_change()?.current.is_none() {
            return Err(nothing_runs());
        }
        if self.settings.cpu_port.is_none() {
            let message = "this node has no CPU port; give it one (`cpu_port` in its configuration)";
            return Err(Refusal::new(Code::FailedPrecondition, message));
        }
        match self.plane.packet_out(&bytes) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refusal::new(
                Code::ResourceExhausted,
                "no room for the packet: packets come faster than the worker takes them",
            )),
            Err(error) => Err(Refusal::invalid(error.to_string())),
        }
    }

    fn subscribe(&self, sink: EventSink) {
        *self.sink.write() = Some(sink);
    }
}
