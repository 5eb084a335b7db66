//! `Write` (P4Runtime specification, section "Write RPC"): batches of updates, one request after
//! another.

use super::active_pipeline::{ActivePipeline, DigestConfigs};
use super::batch_status::status_of_parts;
use super::core::{ConfigSnapshot, ServerState};
use super::role::RoleScope;
use crate::proto::v1::entity::Entity as E;
use crate::proto::v1::write_request::Atomicity;
use crate::proto::v1::{Update, WriteRequest};
use crate::translate::Oneshots;
use crate::{Code, P4RuntimeError};
use entries::{ControlState, WriteBatch};
use tonic::Status;

type UpdateResults = Vec<Result<(), P4RuntimeError>>;

/// Updates to be written together.
struct UpdateGroup {
    batch: WriteBatch,
    /// For each write of the batch, the index of its update.
    owners: Vec<usize>,
    /// Updates that could not be translated.
    refused: Vec<(usize, P4RuntimeError)>,
}

/// Write request in progress; the caller holds the write guard.
struct WriteRequestState<'a> {
    core: &'a ServerState,
    program: &'a ActivePipeline,
    /// Whether the program awaits `COMMIT` and is not the running one.
    awaits_commit: bool,
    updates: &'a [Update],
    results: UpdateResults,
    /// Updates for the device that are not written yet.
    remaining: Vec<usize>,
    /// Digests after the request.
    digests: DigestConfigs,
}

impl ServerState {
    /// Executes a request of a primary; the caller holds the write guard. Can block.
    ///
    /// # Errors
    /// Those of the specification's section "Error Reporting".
    pub fn write(&self, request: &WriteRequest, scope: &RoleScope) -> Result<(), Status> {
        let ConfigSnapshot { program, state, awaits_commit, digests } =
            self.config_snapshot().map_err(|refusal| refusal.status())?;
        // Dropped, because the device would have to copy all data that it shares with a snapshot
        // before a change.
        drop(state);
        let atomicity = Atomicity::try_from(request.atomicity)
            .map_err(|_| Status::invalid_argument(format!("atomicity {} is not known", request.atomicity)))?;
        let mut writing = WriteRequestState {
            core: self,
            program: &program,
            awaits_commit,
            updates: &request.updates,
            results: vec![Ok(()); request.updates.len()],
            remaining: Vec::with_capacity(request.updates.len()),
            digests,
        };
        let digests = writing.partition_updates(scope);
        match atomicity {
            Atomicity::ContinueOnError => writing.write_each(),
            // The device applies a batch atomically to packets, so that both modes are equal here.
            Atomicity::RollbackOnError | Atomicity::DataplaneAtomic => writing.write_atomically(),
        }
        .map_err(|refusal| refusal.status())?;
        let all_ok = writing.results.iter().all(Result::is_ok);
        if digests && (all_ok || atomicity == Atomicity::ContinueOnError) {
            writing.store_digests().map_err(|refusal| refusal.status())?;
        }
        status_of_parts("updates", &writing.results)
    }
}

impl WriteRequestState<'_> {
    /// Partitions the updates into those that the role forbids, those for the device, and digests,
    /// which the server handles. Returns whether there are digests.
    fn partition_updates(&mut self, scope: &RoleScope) -> bool {
        let mut digests = false;
        for (index, update) in self.updates.iter().enumerate() {
            let Some(entity) = &update.entity else {
                self.remaining.push(index);
                continue;
            };
            if entity.entity.is_some() && !scope.covers(entity) {
                let why = "the role's config does not list the entity's object";
                self.results[index] = Err(P4RuntimeError::new(Code::PermissionDenied, why));
            } else if let Some(E::DigestEntry(_)) = &entity.entity {
                self.results[index] = self.program.configure(&mut self.digests, update).map(drop);
                digests = true;
            } else {
                self.remaining.push(index);
            }
        }
        digests
    }

    fn state(&self) -> Result<ControlState, P4RuntimeError> {
        self.core.config_snapshot().map(|target| target.state)
    }

    fn store_digests(&self) -> Result<(), P4RuntimeError> {
        if self.awaits_commit {
            if let Some(saved) = &mut *self.core.state_handle.saved_mut(&*self.core.device)? {
                saved.digests = self.digests.clone();
            }
            return Ok(());
        }
        self.core.set_digests(&self.digests)
    }

    /// Writes all updates or none.
    fn write_atomically(&mut self) -> Result<(), P4RuntimeError> {
        if self.results.iter().any(Result::is_err) {
            self.abort_valid_updates();
            return Ok(());
        }
        let remaining = std::mem::take(&mut self.remaining);
        let mut attempt = self.translate(&remaining, true)?;
        let refused = match attempt.refused.pop() {
            Some(refused) => Some(refused),
            None => self.apply_batch(&attempt.batch)?.map(|(at, refusal)| (attempt.owners[at], refusal)),
        };
        if let Some((index, refusal)) = refused {
            self.results[index] = Err(refusal);
            self.abort_valid_updates();
        }
        Ok(())
    }

    /// Marks the valid updates as aborted because of another one.
    fn abort_valid_updates(&mut self) {
        for part in self.results.iter_mut().filter(|part| part.is_ok()) {
            *part = Err(P4RuntimeError::new(
                Code::Aborted,
                "not executed, because another update of the request was refused",
            ));
        }
    }

    /// Writes each update independently. All are tried at once first; after an error the group
    /// becomes smaller, so that requests with many errors are not repeatedly translated as a whole.
    fn write_each(&mut self) -> Result<(), P4RuntimeError> {
        let remaining = std::mem::take(&mut self.remaining);
        let (mut at, mut size) = (0, remaining.len());
        while at < remaining.len() {
            let end = remaining.len().min(at + size);
            match self.write_until_error(&remaining[at..end]) {
                Ok((done, true)) => (at, size) = (at + done, size.saturating_mul(4)),
                Ok((done, false)) => (at, size) = (at + done, (size / 2).max(1)),
                Err(refusal) if at == 0 => return Err(refusal),
                // Some updates have been written, so that the others are rejected individually.
                Err(refusal) => {
                    remaining[at..].iter().for_each(|index| self.results[*index] = Err(refusal.clone()));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Writes updates up to the first one that the device rejects. Returns the number of completed
    /// updates, and whether all succeeded.
    fn write_until_error(&mut self, indices: &[usize]) -> Result<(usize, bool), P4RuntimeError> {
        let mut attempt = self.translate(indices, false)?;
        let Some((at, refusal)) = self.apply_batch(&attempt.batch)? else {
            self.record_errors(attempt.refused);
            return Ok((indices.len(), true));
        };
        let bad = attempt.owners[at];
        let before = attempt.owners.partition_point(|owner| *owner < bad);
        attempt.batch.updates.truncate(before);
        if before > 0 && self.apply_batch(&attempt.batch)?.is_some() {
            // Packets have changed a table meanwhile.
            return Ok((0, false));
        }
        attempt.refused.retain(|(index, _)| *index < bad);
        self.record_errors(attempt.refused);
        self.results[bad] = Err(refusal);
        Ok((indices.partition_point(|index| *index <= bad), false))
    }

    fn record_errors(&mut self, refused: Vec<(usize, P4RuntimeError)>) {
        for (index, refusal) in refused {
            self.results[index] = Err(refusal);
        }
    }

    /// Translates updates (by index in the request) in order; stops at the first error if
    /// `only_all`. The result has the index of the update that each write comes from.
    fn translate(&self, indices: &[usize], only_all: bool) -> Result<UpdateGroup, P4RuntimeError> {
        let mut group = UpdateGroup { batch: WriteBatch::new(), owners: Vec::new(), refused: Vec::new() };
        if indices.is_empty() {
            return Ok(group);
        }
        let mut oneshots = Oneshots::new(&self.program.schema, self.state()?, self.updates);
        group.batch.updates.reserve(indices.len());
        group.owners.reserve(indices.len());
        for index in indices.iter().copied() {
            match self.program.schema.translate_update(&mut oneshots, &self.updates[index]) {
                Ok(updates) => {
                    group.owners.extend(updates.iter().map(|_| index));
                    group.batch.updates.extend(updates);
                }
                Err(refusal) => {
                    group.refused.push((index, refusal));
                    if only_all {
                        break;
                    }
                }
            }
        }
        Ok(group)
    }

    /// Passes a batch to the device. Returns the rejected write, if any.
    fn apply_batch(&self, batch: &WriteBatch) -> Result<Option<(usize, P4RuntimeError)>, P4RuntimeError> {
        if batch.updates.is_empty() {
            return Ok(None);
        }
        let refused = match self.awaits_commit {
            true => match &mut *self.core.state_handle.saved_mut(&*self.core.device)? {
                Some(saved) => saved.write(batch)?,
                None => return Err(P4RuntimeError::new(Code::Aborted, "the saved config was committed meanwhile")),
            },
            false => self.core.device.write(std::slice::from_ref(batch))?.into_iter().find_map(Result::err),
        };
        Ok(refused.map(|error| (error.index.min(batch.updates.len() - 1), P4RuntimeError::from(&error.error))))
    }
}
