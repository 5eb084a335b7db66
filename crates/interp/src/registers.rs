//! [`Registers`]: source of register values, of free ports and of quotas for an explainer.

use crate::port_request::{PortPoolStatus, PortRequest};
use ir::ExternId;
use num_bigint::BigUint;
use std::fmt;
use std::sync::Arc;

type Read = dyn Fn(ExternId, u64) -> Option<Vec<BigUint>> + Send + Sync;
/// What a pool of ports would give to a call at a time in nanoseconds; `None`: there is no such pool.
type PreviewPort = dyn Fn(ExternId, &PortRequest, u64) -> Option<Result<(u32, u16), PortPoolStatus>> + Send + Sync;

/// Entries of an owner that a quota counts; `None`: there is no such quota or owner.
type CountEntries = dyn Fn(ExternId, u32) -> Option<u32> + Send + Sync;

/// Source of register values for an explainer: maps object and index to the leaves of the element,
/// as [`crate::Interp::register`] does. `None` means the initial value of the program. With pools of ports, an
/// explained packet gets the port that it would get of them, and takes none.
#[derive(Clone)]
pub struct Registers {
    read: Arc<Read>,
    preview_port: Option<Arc<PreviewPort>>,
    count_entries: Option<Arc<CountEntries>>,
}

impl Registers {
    /// Creates a source that calls `read` once for each element that an explained packet reads.
    pub fn new(read: impl Fn(ExternId, u64) -> Option<Vec<BigUint>> + Send + Sync + 'static) -> Registers {
        Registers { read: Arc::new(read), preview_port: None, count_entries: None }
    }

    /// Adds pools of ports: `preview` returns what [`crate::PoolControl::preview`] returns.
    pub fn with_ports(
        self,
        preview: impl Fn(ExternId, &PortRequest, u64) -> Option<Result<(u32, u16), PortPoolStatus>> + Send + Sync + 'static,
    ) -> Registers {
        Registers { preview_port: Some(Arc::new(preview)), ..self }
    }

    /// Adds quotas: `count` returns how many entries of an owner a quota counts.
    pub fn with_quotas(self, count: impl Fn(ExternId, u32) -> Option<u32> + Send + Sync + 'static) -> Registers {
        Registers { count_entries: Some(Arc::new(count)), ..self }
    }

    /// Returns how many entries of an owner a quota counts; `None`: without quotas.
    pub fn quota_entries(&self, quota: ExternId, owner: u32) -> Option<u32> {
        self.count_entries.as_ref()?(quota, owner)
    }

    /// Creates a source in which all registers have their initial values.
    pub fn initial() -> Registers {
        Registers::new(|_, _| None)
    }

    /// Returns the leaves of an element.
    pub fn get(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        (self.read)(register, index)
    }

    /// Returns the port that a call would get of a pool at the time `now` in nanoseconds; `None`: without pools.
    pub fn preview_port(
        &self,
        pool: ExternId,
        request: &PortRequest,
        now: u64,
    ) -> Option<Result<(u32, u16), PortPoolStatus>> {
        self.preview_port.as_ref()?(pool, request, now)
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registers")
    }
}
