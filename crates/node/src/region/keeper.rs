//! [`RegionKeeper`]: the region in force.

use super::RegionStatus;
use crate::device::pack_batch;
use crate::nat::{NatNames, session_source};
use crate::underlay::KernelPaths;
use entries::{ControlState, StoredEntry};
use ir::TableId;
use p4runtime::{Code, P4RuntimeError, PipelineConfig};
use parking_lot::{Mutex, RwLock};
use region::{
    Changes, Document, Edit, EntryKey, GatewayApi, GatewayEntries, IdAssignments, KernelSources, PathMtus, PortStates,
    RegionPart, ResolvedRegion,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// Maximum number of entries whose source is cached.
const MAX_KNOWN: usize = 4096;

/// A region file cannot be applied; the tables are unchanged.
#[derive(Debug, Error)]
pub enum RegionError {
    /// The node was not started with a region file.
    #[error(
        "this node serves no region; start it with `region` in its configuration, or with `terrace gateway run --region`"
    )]
    None,
    /// The file is invalid.
    #[error(transparent)]
    File(#[from] region::RegionLoadError),
    /// The program is not a gateway.
    #[error(transparent)]
    Program(#[from] region::NotAGateway),
    /// The host side of an uplink cannot be opened.
    #[error(transparent)]
    Host(#[from] crate::host::HostError),
    /// The program or its entries are refused.
    #[error("{}", _0.message)]
    Refused(P4RuntimeError),
}

impl From<P4RuntimeError> for RegionError {
    fn from(refusal: P4RuntimeError) -> RegionError {
        RegionError::Refused(refusal)
    }
}

/// Cached sources of entries, by table, key words and priority.
pub(super) type KnownSources = HashMap<(TableId, Vec<u64>, i32), Option<String>>;

/// A region whose entries are in the tables.
pub(super) struct InstalledRegion {
    pub file: PathBuf,
    pub document: Document,
    pub api: GatewayApi,
    pub numbers: IdAssignments,
    /// State of the program without entries, which knows the key layouts.
    pub layouts: ControlState,
    /// Cached sources of entries.
    pub known: Mutex<KnownSources>,
    /// Cached names of what the pool of ports numbers.
    pub nat_names: OnceLock<Arc<NatNames>>,
}

impl InstalledRegion {
    /// Forgets what was derived from the version before.
    fn clear_caches(&mut self) {
        self.known.get_mut().clear();
        self.nat_names.take();
    }

    fn nat_names(&self) -> &Arc<NatNames> {
        self.nat_names.get_or_init(|| {
            let file = self.file.display().to_string();
            Arc::new(NatNames::new(&self.document.region, &self.numbers, &file))
        })
    }

    /// Returns the entries of some VPCs.
    fn entries_of_vpcs(&self, vpcs: &BTreeSet<usize>) -> GatewayEntries {
        let mut made = GatewayEntries::default();
        let part = RegionPart::Vpcs(vpcs.clone());
        region::visit(&self.document.region, &self.api, &self.numbers, &part, &mut |entry, _| made.entries.push(entry));
        made
    }

    /// Applies an edit of some VPCs. Returns the reverse edit, the earlier numbers, and the packed
    /// changes of entries.
    pub fn apply_edit(&mut self, edit: Edit) -> (Edit, IdAssignments, Changes) {
        let vpcs = edit.vpcs.clone();
        let before = self.entries_of_vpcs(&vpcs);
        let (back, numbers) = (self.document.apply(edit), self.numbers.clone());
        self.numbers.assign(&self.document.region);
        self.clear_caches();
        let batch = region::diff(before, self.entries_of_vpcs(&vpcs));
        (back, numbers, pack_batch(&self.layouts, &batch).into())
    }

    /// Reverts an edit.
    pub fn revert_edit(&mut self, back: Edit, numbers: IdAssignments) {
        self.document.apply(back);
        // The states of ports and paths are not a part of the edit.
        let (ports, path_mtus) = (std::mem::take(&mut self.numbers.ports), std::mem::take(&mut self.numbers.path_mtus));
        self.numbers = IdAssignments { ports, path_mtus, ..numbers };
        self.clear_caches();
    }
}

/// Reported path MTUs, and how many reports were believed.
#[derive(Default)]
pub(super) struct PathMtuState {
    /// MTUs in bytes, by destination.
    pub mtus: Mutex<PathMtus>,
    /// Addresses whose routes have to be written.
    pub unwritten: Mutex<BTreeSet<IpAddr>>,
    /// Numbers of reports, by result.
    pub reports: Mutex<BTreeMap<&'static str, u64>>,
}

/// Owner of the tables of a node that serves a region.
#[derive(Default)]
pub(crate) struct RegionKeeper {
    /// Default file of the next application. Locked while a file is applied, which serialises
    /// applications.
    pub(super) file: Mutex<Option<PathBuf>>,
    /// The gateway program.
    pub(super) program: Mutex<Option<PipelineConfig>>,
    pub(super) installed: RwLock<Option<InstalledRegion>>,
    /// A write has failed: the next application compares with the tables instead of the version in
    /// force.
    pub(super) in_doubt: AtomicBool,
    pub(super) status: Mutex<RegionStatus>,
    /// States of the ports, as the agent last reported them.
    pub(super) ports: Mutex<PortStates>,
    /// What routers have reported about paths.
    pub(super) path_mtus: PathMtuState,
    /// Locked while next hops and routes are brought in accordance with the ports.
    pub(super) reconciling: Mutex<()>,
    /// Explanations of the entries that were made of the kernel's routes.
    pub(super) kernel_sources: Mutex<KernelSources>,
    /// The kernel's tables, if the region uses its routes.
    pub(super) kernel_paths: Mutex<Option<KernelPaths>>,
    /// Next hops could not be written.
    pub(super) paths_in_doubt: AtomicBool,
}

impl RegionKeeper {
    /// Checks that P4Runtime's controllers can change tables and program.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION`: a region file owns the tables.
    pub(crate) fn check_controllers_allowed(&self) -> Result<(), P4RuntimeError> {
        match &*self.file.lock() {
            None => Ok(()),
            Some(file) => Err(P4RuntimeError::new(
                Code::FailedPrecondition,
                format!(
                    "the tables of this node are those of {}; change that file and use `terrace region apply`",
                    file.display()
                ),
            )),
        }
    }

    /// Returns the source of an entry: file and line.
    pub(crate) fn entry_source(&self, table: TableId, entry: &StoredEntry) -> Option<String> {
        let installed = self.installed.read();
        let installed = installed.as_ref()?;
        let InstalledRegion { file, document, api, numbers, layouts, known, .. } = installed;
        if layouts.pipeline().tables.get(table)?.add_on_miss {
            return session_source(layouts.pipeline(), installed.nat_names(), table, entry);
        }
        let key = (table, entry.key().to_vec(), entry.priority());
        if let Some(known) = known.lock().get(&key) {
            return known.clone();
        }
        let kernel = self.kernel_sources.lock().get(&(table, entry.key().to_vec())).cloned();
        if kernel.is_some() && api.is_of_kernel(layouts, table, entry) {
            return kernel;
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

    /// Returns the names of what the pool of ports numbers, in the version in force; `None`: no region is.
    pub(crate) fn nat_names(&self) -> Option<Arc<NatNames>> {
        self.installed.read().as_ref().map(|installed| installed.nat_names().clone())
    }

    /// Calls `visit` with each machine of the region in force.
    pub(crate) fn visit_vms(&self, visit: &mut dyn FnMut(&region::Vm)) {
        let installed = self.installed.read();
        installed.iter().flat_map(|installed| installed.document.region.file.vms.iter()).for_each(visit);
    }

    /// Returns what `read` makes of the section `internet` of the region in force and the name of its file; the
    /// default without the section.
    pub(crate) fn with_internet<T: Default>(&self, read: &dyn Fn(&region::Internet, &str) -> T) -> T {
        let read = |region: &ResolvedRegion, file: &str| Some(read(region.file.internet.as_ref()?, file));
        self.with_region(&read).ok().flatten().unwrap_or_default()
    }

    /// Returns what `read` makes of the region in force and the name of its file.
    ///
    /// # Errors
    /// The node serves no region.
    pub(crate) fn with_region<T>(&self, read: &dyn Fn(&ResolvedRegion, &str) -> T) -> Result<T, RegionError> {
        let installed = self.installed.read();
        let installed = installed.as_ref().ok_or(RegionError::None)?;
        Ok(read(&installed.document.region, &installed.file.display().to_string()))
    }

    /// Returns the names of the VPCs by number, for counters indexed by VPC.
    pub(crate) fn vpc_names(&self) -> HashMap<u64, String> {
        let installed = self.installed.read();
        let named = installed.iter().flat_map(|installed| &installed.numbers.vpcs);
        named.map(|(name, number)| (u64::from(*number), name.clone())).collect()
    }
}
