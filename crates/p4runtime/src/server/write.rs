//! `Write` (P4Runtime specification, section "Write RPC"): batches of updates, one request after another.

use super::batch_status::of_parts;
use super::core::{Core, Target};
use super::program::{DigestConfigs, Program};
use super::role::Scope;
use crate::proto::v1::entity::Entity as E;
use crate::proto::v1::write_request::Atomicity;
use crate::proto::v1::{Update, WriteRequest};
use crate::translate::Oneshots;
use crate::{Code, Refusal};
use entries::{State, WriteBatch};
use tonic::Status;

type Parts = Vec<Result<(), Refusal>>;

/// Updates that are to be written together.
struct Attempt {
    batch: WriteBatch,
    /// For each write of the batch: the update that it is of.
    owners: Vec<usize>,
    /// Updates that could not be translated.
    refused: Vec<(usize, Refusal)>,
}

/// A request that is being worked on; the caller holds the turn.
struct Writing<'a> {
    core: &'a Core,
    program: &'a Program,
    /// The program is not what runs, but waits for `COMMIT`.
    waits: bool,
    updates: &'a [Update],
    parts: Parts,
    /// The updates that the device is to be given.
    rest: Vec<usize>,
    /// Digests as the request leaves them.
    digests: DigestConfigs,
}

impl Core {
    /// Works on a request whose sender is primary; the caller holds the turn. May take its time.
    ///
    /// # Errors
    /// As the specification's section "Error Reporting" says.
    pub fn write(&self, request: &WriteRequest, scope: &Scope) -> Result<(), Status> {
        let Target { program, state, waits, digests } = self.target().map_err(|refusal| refusal.status())?;
        // What a snapshot shares with the device has to be copied by the device before it can change it.
        drop(state);
        let atomicity = Atomicity::try_from(request.atomicity)
            .map_err(|_| Status::invalid_argument(format!("atomicity {} is not known", request.atomicity)))?;
        let mut writing = Writing {
            core: self,
            program: &program,
            waits,
            updates: &request.updates,
            parts: vec![Ok(()); request.updates.len()],
            rest: Vec::with_capacity(request.updates.len()),
            digests,
        };
        let digests = writing.sort(scope);
        match atomicity {
            Atomicity::ContinueOnError => writing.each(),
            // The device takes a batch as a whole, so that packets see all of it or nothing: both are the same here.
            Atomicity::RollbackOnError | Atomicity::DataplaneAtomic => writing.whole(),
        }
        .map_err(|refusal| refusal.status())?;
        let all_good = writing.parts.iter().all(Result::is_ok);
        if digests && (all_good || atomicity == Atomicity::ContinueOnError) {
            writing.configure().map_err(|refusal| refusal.status())?;
        }
        of_parts("updates", &writing.parts)
    }
}

impl Writing<'_> {
    /// What the role allows, what is for the device, and digests, which are the server's own. Whether there are digests.
    fn sort(&mut self, scope: &Scope) -> bool {
        let mut digests = false;
        for (index, update) in self.updates.iter().enumerate() {
            let Some(entity) = &update.entity else {
                self.rest.push(index);
                continue;
            };
            if entity.entity.is_some() && !scope.covers(entity) {
                let why = "the role's config does not list the entity's object";
                self.parts[index] = Err(Refusal::new(Code::PermissionDenied, why));
            } else if let Some(E::DigestEntry(_)) = &entity.entity {
                self.parts[index] = self.program.configure(&mut self.digests, update).map(drop);
                digests = true;
            } else {
                self.rest.push(index);
            }
        }
        digests
    }

    fn state(&self) -> Result<State, Refusal> {
        self.core.target().map(|target| target.state)
    }

    fn configure(&self) -> Result<(), Refusal> {
        if self.waits {
            if let Some(saved) = &mut *self.core.held.saved_mut(&*self.core.device)? {
                saved.digests = self.digests.clone();
            }
            return Ok(());
        }
        self.core.configure(&self.digests)
    }

    /// All or nothing.
    fn whole(&mut self) -> Result<(), Refusal> {
        if self.parts.iter().any(Result::is_err) {
            self.abort();
            return Ok(());
        }
        let rest = std::mem::take(&mut self.rest);
        let mut attempt = self.translate(&rest, true)?;
        let refused = match attempt.refused.pop() {
            Some(refused) => Some(refused),
            None => self.apply(&attempt.batch)?.map(|(at, refusal)| (attempt.owners[at], refusal)),
        };
        if let Some((index, refusal)) = refused {
            self.parts[index] = Err(refusal);
            self.abort();
        }
        Ok(())
    }

    /// Updates that would have been good are not made, because of another.
    fn abort(&mut self) {
        for part in self.parts.iter_mut().filter(|part| part.is_ok()) {
            *part = Err(Refusal::new(Code::Aborted, "not made, because another update of the request was refused"));
        }
    }

    /// Each by itself: all at once if all are good. After a refusal fewer at once, so that requests with many refusals are not
    /// looked at again and again from front to end.
    fn each(&mut self) -> Result<(), Refusal> {
        let rest = std::mem::take(&mut self.rest);
        let (mut at, mut size) = (0, rest.len());
        while at < rest.len() {
            let end = rest.len().min(at + size);
            match self.some(&rest[at..end]) {
                Ok((done, true)) => (at, size) = (at + done, size.saturating_mul(4)),
                Ok((done, false)) => (at, size) = (at + done, (size / 2).max(1)),
                Err(refusal) if at == 0 => return Err(refusal),
                // Some have been made: the rest is refused one by one.
                Err(refusal) => {
                    rest[at..].iter().for_each(|index| self.parts[*index] = Err(refusal.clone()));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Makes updates up to one that the device refuses. How many are done with, and whether none was refused.
    fn some(&mut self, indices: &[usize]) -> Result<(usize, bool), Refusal> {
        let mut attempt = self.translate(indices, false)?;
        let Some((at, refusal)) = self.apply(&attempt.batch)? else {
            self.note(attempt.refused);
            return Ok((indices.len(), true));
        };
        let bad = attempt.owners[at];
        let before = attempt.owners.partition_point(|owner| *owner < bad);
        attempt.batch.updates.truncate(before);
        if before > 0 && self.apply(&attempt.batch)?.is_some() {
            // Packets have changed a table in between.
            return Ok((0, false));
        }
        attempt.refused.retain(|(index, _)| *index < bad);
        self.note(attempt.refused);
        self.parts[bad] = Err(refusal);
        Ok((indices.partition_point(|index| *index <= bad), false))
    }

    fn note(&mut self, refused: Vec<(usize, Refusal)>) {
        for (index, refusal) in refused {
            self.parts[index] = Err(refusal);
        }
    }

    /// Writes for updates, in their order; up to the first that is refused if `only_all`.
    fn translate(&self, indices: &[usize], only_all: bool) -> Result<Attempt, Refusal> {
        let mut attempt = Attempt { batch: WriteBatch::new(), owners: Vec::new(), refused: Vec::new() };
        if indices.is_empty() {
            return Ok(attempt);
        }
        let mut oneshots = Oneshots::new(&self.program.schema, self.state()?, self.updates);
        attempt.batch.updates.reserve(indices.len());
        attempt.owners.reserve(indices.len());
        for index in indices.iter().copied() {
            match self.program.schema.update(&mut oneshots, &self.updates[index]) {
                Ok(updates) => {
                    attempt.owners.extend(updates.iter().map(|_| index));
                    attempt.batch.updates.extend(updates);
                }
                Err(refusal) => {
                    attempt.refused.push((index, refusal));
                    if only_all {
                        break;
                    }
                }
            }
        }
        Ok(attempt)
    }

    /// Gives a batch to the device. The write that was refused, if one was.
    fn apply(&self, batch: &WriteBatch) -> Result<Option<(usize, Refusal)>, Refusal> {
        if batch.updates.is_empty() {
            return Ok(None);
        }
        let refused = match self.waits {
            true => match &mut *self.core.held.saved_mut(&*self.core.device)? {
                Some(saved) => saved.write(batch)?,
                None => return Err(Refusal::new(Code::Aborted, "the saved config was committed meanwhile")),
            },
            false => self.core.device.write(std::slice::from_ref(batch))?.into_iter().find_map(Result::err),
        };
        Ok(refused.map(|error| (error.index.min(batch.updates.len() - 1), Refusal::from(&error.error))))
    }
}
