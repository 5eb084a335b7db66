//! Keeps a gateway's tables as the region file says.

use super::control::Applied;
use super::stats::Stats;
use super::uplinks::{self, OpenPorts};
use ir::Pipeline;
use region::{Entries, Numbers};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use tables::{Update, UpdateKind, WriteBatch};

/// What the packet thread is asked to do between two batches.
#[derive(Debug)]
pub enum Job {
    /// To write the tables, all of it or nothing.
    Write {
        /// The writes.
        batch: WriteBatch,
        /// The outcome; a refusal names the mend.
        reply: SyncSender<Result<(), String>>,
    },
    /// To say what happened so far.
    Stats {
        /// Where to.
        reply: SyncSender<Stats>,
    },
}

/// What is in the tables, and where it came from.
pub struct Keeper {
    pipeline: Arc<Pipeline>,
    file: Option<PathBuf>,
    entries: Entries,
    numbers: Numbers,
    ports: OpenPorts,
    warnings: Vec<String>,
    jobs: Sender<Job>,
}

impl Keeper {
    /// A keeper of tables that hold nothing yet, and the packet thread's end of the line.
    pub fn new(pipeline: Arc<Pipeline>) -> (Keeper, Receiver<Job>) {
        let (jobs, receiver) = channel();
        let (entries, numbers) = (Entries::default(), Numbers::default());
        let keeper =
            Keeper { pipeline, file: None, entries, numbers, ports: OpenPorts::default(), warnings: Vec::new(), jobs };
        (keeper, receiver)
    }

    /// As [`Keeper::new`], with a region whose entries were installed already.
    pub fn holding(mut self, file: &Path, entries: Entries, numbers: Numbers) -> Keeper {
        (self.file, self.entries, self.numbers) = (Some(file.to_owned()), entries, numbers);
        self
    }

    /// As before, with the ports that are open: a region whose uplinks do not fit them is applied with a warning. `warnings` are those about
    /// the region that was installed already.
    pub fn at_ports(mut self, ports: OpenPorts, warnings: Vec<String>) -> Keeper {
        (self.ports, self.warnings) = (ports, warnings);
        self
    }

    /// The region file that is in force.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads a region file (the one in force unless another is named), and has the packet thread apply what changed.
    ///
    /// # Errors
    /// What is wrong with the file, or why its entries are refused; nothing has changed then.
    pub fn apply(&mut self, file: Option<&Path>) -> Result<Applied, String> {
        let file = file.or(self.file.as_deref()).ok_or("the gateway has no region file; name one to apply")?.to_owned();
        let region = region::load(&file).map_err(|error| error.to_string())?;
        let mut numbers = self.numbers.clone();
        let name = file.display().to_string();
        let entries =
            region::entries(&region, &name, &self.pipeline, &mut numbers).map_err(|error| error.to_string())?;
        let batch = region::diff(self.entries.clone(), entries.clone());
        let mut applied = count(&file, &batch);
        // No write, no new version of the tables: caches stay as they are.
        if !batch.updates.is_empty() {
            self.write(batch)?;
        }
        self.warnings = uplinks::warnings(&region, &name, &self.ports);
        applied.warnings.clone_from(&self.warnings);
        (self.file, self.entries, self.numbers) = (Some(file), entries, numbers);
        Ok(applied)
    }

    fn write(&self, batch: WriteBatch) -> Result<(), String> {
        let (reply, outcome) = sync_channel(1);
        let gone = "the gateway ends; nothing was applied";
        self.jobs.send(Job::Write { batch, reply }).map_err(|_| gone)?;
        outcome.recv().map_err(|_| gone)?
    }

    /// Names the VPCs of counters that are indexed by VPC.
    fn label(&self, stats: &mut Stats) {
        for cell in stats.counters.iter_mut().filter(|cell| cell.label.is_none()) {
            let by_vpc = cell.counter.rsplit('.').next().is_some_and(|last| last.starts_with("vpc_"));
            let vpc = self.numbers.vpcs.iter().find(|(_, number)| by_vpc && u64::from(**number) == cell.index);
            cell.label = vpc.map(|(name, _)| name.clone());
        }
    }

    /// What happened so far.
    ///
    /// # Errors
    /// If the packet thread has ended.
    pub fn stats(&self) -> Result<Stats, String> {
        let gone = "the gateway ends";
        let (reply, outcome) = sync_channel(1);
        self.jobs.send(Job::Stats { reply }).map_err(|_| gone)?;
        let mut stats = outcome.recv().map_err(|_| gone)?;
        self.label(&mut stats);
        stats.warnings.clone_from(&self.warnings);
        stats.region = self.file.as_ref().map(|file| file.display().to_string());
        Ok(stats)
    }
}

fn count(file: &Path, batch: &WriteBatch) -> Applied {
    let mut applied = Applied { region: file.to_owned(), ..Applied::default() };
    for update in &batch.updates {
        match update {
            Update::Entry(UpdateKind::Insert, _) | Update::Packed(UpdateKind::Insert, _) => applied.inserted += 1,
            Update::Entry(UpdateKind::Modify, _) | Update::Packed(UpdateKind::Modify, _) => applied.modified += 1,
            Update::Entry(UpdateKind::Delete, _) | Update::Packed(UpdateKind::Delete, _) => applied.deleted += 1,
            _ => applied.others += 1,
        }
    }
    applied
}
