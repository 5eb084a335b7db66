//! [`RegionKeeper`]: the region in force.

use super::RegionStatus;
use crate::device::packed;
use entries::{Entry, State};
use ir::TableId;
use p4runtime::{Code, Forwarding, Refusal};
use parking_lot::{Mutex, RwLock};
use region::{Api, Changes, Document, Edit, Entries, EntryKey, Numbers, Part};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use thiserror::Error;

/// Entries of which it is remembered where they come from.
const MAX_KNOWN: usize = 4096;

/// A region file is not applied; tables are as they were.
#[derive(Debug, Error)]
pub enum RegionError {
    /// The node was not started with a region file.
    #[error(
        "this node serves no region; start it with `region` in its configuration, or with `terrace gateway run --region`"
    )]
    None,
    /// Something in the file is wrong.
    #[error(transparent)]
    File(#[from] region::LoadError),
    /// The program is not the gateway.
    #[error(transparent)]
    Program(#[from] region::NotAGateway),
    /// The program, or its entries, are refused.
    #[error("{}", _0.message)]
    Refused(Refusal),
}

impl From<Refusal> for RegionError {
    fn from(refusal: Refusal) -> RegionError {
        RegionError::Refused(refusal)
    }
}

/// Where entries come from, by table, the words of the key and priority.
pub(super) type Known = HashMap<(TableId, Vec<u64>, i32), Option<String>>;

/// A region whose entries are in the tables.
pub(super) struct Installed {
    pub file: PathBuf,
    pub document: Document,
    pub api: Api,
    pub numbers: Numbers,
    /// The program's, without entries: it knows how keys are laid out.
    pub layouts: State,
    /// Where entries come from, as far as it was asked for.
    pub known: Mutex<Known>,
}

impl Installed {
    /// The entries of some VPCs.
    fn entries(&self, vpcs: &BTreeSet<usize>) -> Entries {
        let mut made = Entries::default();
        let part = Part::Vpcs(vpcs.clone());
        region::visit(&self.document.region, &self.api, &self.numbers, &part, &mut |entry, _| made.entries.push(entry));
        made
    }

    /// Goes over to another version that differs in some VPCs. What leads back, and what has to be written, packed.
    pub fn change(&mut self, edit: Edit) -> (Edit, Numbers, Changes) {
        let vpcs = edit.vpcs.clone();
        let before = self.entries(&vpcs);
        let (back, numbers) = (self.document.apply(edit), self.numbers.clone());
        self.numbers.assign(&self.document.region);
        self.known.get_mut().clear();
        let batch = region::diff(before, self.entries(&vpcs));
        (back, numbers, packed(&self.layouts, &batch).into())
    }

    /// Goes back again.
    pub fn change_back(&mut self, back: Edit, numbers: Numbers) {
        self.document.apply(back);
        self.numbers = numbers;
        self.known.get_mut().clear();
    }
}

/// The region that a node keeps its tables to.
#[derive(Default)]
pub(crate) struct RegionKeeper {
    /// The file that is read when no other is named. Locked while a file is applied: one after the other.
    pub(super) file: Mutex<Option<PathBuf>>,
    /// The gateway's program, as it is to run.
    pub(super) program: Mutex<Option<Forwarding>>,
    pub(super) installed: RwLock<Option<Installed>>,
    /// A write has failed: what is in the tables is looked at, and not what the version in force asked for.
    pub(super) in_doubt: AtomicBool,
    pub(super) status: Mutex<RegionStatus>,
}

impl RegionKeeper {
    /// Whether others may change tables and program: P4Runtime's controllers, that is.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION`: a region file decides what is in them.
    pub(crate) fn allow_others(&self) -> Result<(), Refusal> {
        match &*self.file.lock() {
            None => Ok(()),
            Some(file) => Err(Refusal::new(
                Code::FailedPrecondition,
                format!(
                    "the tables of this node are those of {}; change that file and use `terrace region apply`",
                    file.display()
                ),
            )),
        }
    }

    /// Where an entry of the tables comes from.
    pub(crate) fn source(&self, table: TableId, entry: &Entry) -> Option<String> {
        let installed = self.installed.read();
        let Installed { file, document, api, numbers, layouts, known } = installed.as_ref()?;
        let key = (table, entry.key().to_vec(), entry.priority());
        if let Some(known) = known.lock().get(&key) {
            return known.clone();
        }
        let name = file.display().to_string();
        let wanted = EntryKey { table, key: entry.key(), priority: entry.priority() };
        let found = region::source_of(layouts, (&document.region, &name), api, numbers, wanted);
        let mut known = known.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key, found.clone());
        found
    }

    /// The VPCs by number, for counters that are indexed by VPC.
    pub(crate) fn vpcs(&self) -> HashMap<u64, String> {
        let installed = self.installed.read();
        let named = installed.iter().flat_map(|installed| &installed.numbers.vpcs);
        named.map(|(name, number)| (u64::from(*number), name.clone())).collect()
    }
}
