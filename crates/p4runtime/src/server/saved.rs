//! [`Saved`]: a config that was saved and waits for `COMMIT`. Until then reads and writes are of it, not of what runs; `COMMIT` replays the
//! writes (P4Runtime specification, section "SetForwardingPipelineConfig RPC", `VERIFY_AND_SAVE` and `COMMIT`).
//!
//! Deliberately not kept over a restart: the writes; they go over to a process that takes over ([`super::Held`]). The config itself is the device's to keep.

use super::forms::WaitingForm;
use super::program::{DigestConfigs, Program};
use crate::{Code, Device, EventSink, Forwarding, Keep, Refusal};
use bytes::Bytes;
use entries::{Counter, Entry, State, Update, UpdateError, WriteBatch, WriteError};
use ir::{ExternId, ExternKind, Pipeline, TableId};
use num_bigint::BigUint;
use std::sync::Arc;

/// The most updates that are kept to be replayed.
const UPDATES: usize = 16 << 20;

/// A config that waits. Copies cost little.
#[derive(Clone)]
pub struct Saved {
    pub program: Arc<Program>,
    pub digests: DigestConfigs,
    state: State,
    batches: Arc<Vec<WriteBatch>>,
    updates: usize,
}

impl Saved {
    /// A config that nobody has written to yet.
    ///
    /// # Errors
    /// `INTERNAL` if its own entries are not valid.
    pub fn new(forwarding: Forwarding, device: &dyn Device) -> Result<Saved, Refusal> {
        let state = State::new(forwarding.pipeline.clone());
        let mut state = state.map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
        let ports = std::iter::once(Update::Ports(device.ports())).collect();
        state.apply(&ports).map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
        let program = Arc::new(Program::new(forwarding, device));
        Ok(Saved { program, digests: DigestConfigs::new(), state, batches: Arc::default(), updates: 0 })
    }

    /// What was written to it, to be sent to another process.
    pub fn form(&self) -> WaitingForm {
        let digests = self.digests.iter().map(|(number, config)| (*number, *config)).collect();
        WaitingForm { digests, batches: self.batches.clone() }
    }

    /// A config with what another process was told to write to it.
    ///
    /// # Errors
    /// As [`Saved::new`] and [`Saved::write`]; `INVALID_ARGUMENT` if it is not for this config.
    pub fn again(forwarding: Forwarding, form: &WaitingForm, device: &dyn Device) -> Result<Saved, Refusal> {
        let mut saved = Saved::new(forwarding, device)?;
        for batch in form.batches.iter() {
            if let Some(refused) = saved.write(batch)? {
                return Err(Refusal::invalid(format!("a write that waits for COMMIT is refused: {}", refused.error)));
            }
        }
        saved.digests = form.digests.iter().copied().filter(|(id, _)| saved.program.has_digest(*id)).collect();
        Ok(saved)
    }

    /// What was written.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Applies a batch; what was refused, if something was.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there are too many writes to be kept.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<Option<WriteError>, Refusal> {
        if self.updates + batch.updates.len() > UPDATES {
            return Err(Refusal::new(Code::ResourceExhausted, "too many writes wait for COMMIT; send it"));
        }
        Ok(match self.state.apply(batch) {
            Ok(_) => {
                self.updates += batch.updates.len();
                Arc::make_mut(&mut self.batches).push(batch.clone());
                None
            }
            Err(error) => Some(error),
        })
    }

    /// Commits the config and replays the writes.
    ///
    /// # Errors
    /// What the device refuses. If it refuses the config, nothing has changed.
    pub fn commit(&self, device: &dyn Device) -> Result<(), Refusal> {
        device.commit(&self.program.forwarding, Keep::Nothing)?;
        if self.batches.is_empty() {
            return Ok(());
        }
        let refused: Option<UpdateError> =
            device.write(&self.batches)?.into_iter().find_map(|result| Some(result.err()?.error));
        match refused {
            None => Ok(()),
            Some(error) => Err(Refusal::new(
                Code::Internal,
                format!("the config was committed, but a write since it was saved could not be replayed: {error}"),
            )),
        }
    }
}

/// A device for reading what waits: no packet has changed anything yet.
pub struct Untouched(pub Arc<Pipeline>);

impl Untouched {
    fn nothing<T>(&self) -> Result<T, Refusal> {
        Err(Refusal::new(Code::Internal, "a config that waits can only be read"))
    }
}

impl Device for Untouched {
    fn id(&self) -> u64 {
        0
    }
    fn verify(&self, _: &[u8]) -> Result<Arc<Pipeline>, Refusal> {
        self.nothing()
    }
    fn save(&self, _: &Forwarding) -> Result<(), Refusal> {
        self.nothing()
    }
    fn commit(&self, _: &Forwarding, _: Keep) -> Result<(), Refusal> {
        self.nothing()
    }
    fn saved(&self) -> Option<Forwarding> {
        None
    }
    fn running(&self) -> Option<Forwarding> {
        None
    }
    fn write(&self, _: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, Refusal> {
        self.nothing()
    }
    fn state(&self) -> Option<State> {
        None
    }
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        (index < self.array_len(counter)?).then(Counter::default)
    }
    fn direct_counter(&self, _: TableId, _: &Entry) -> Option<Counter> {
        Some(Counter::default())
    }
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        let ExternKind::Register { elem, size, .. } = &self.0.externs.get(register)?.kind else { return None };
        (index < *size).then(|| vec![BigUint::ZERO; elem.len()])
    }
    fn array_len(&self, object: ExternId) -> Option<u64> {
        match self.0.externs.get(object)?.kind {
            ExternKind::Counter { size, .. } | ExternKind::Meter { size, .. } | ExternKind::Register { size, .. } => {
                Some(size)
            }
            _ => None,
        }
    }
    fn idle_for(&self, _: TableId, _: &Entry) -> Option<u64> {
        Some(0)
    }
    fn packet_out(&self, _: Bytes) -> Result<(), Refusal> {
        self.nothing()
    }
    fn subscribe(&self, _: EventSink) {}
}
