//! [`PathTable`]: known paths through the program.

use super::NotRewritable;
use super::template::RewriteTemplate;
use std::collections::HashMap;

/// Maximum number of known paths. Packets of other paths run under symbolic execution.
const MAX_PATHS: usize = 4_096;

/// Maximum number of decisions of a known path, which bounds the memory.
const MAX_DECISIONS: usize = 1_024;

/// Knowledge about a path.
#[derive(Debug)]
pub enum PathInfo {
    /// Template of its rewrites, and the number of their layout if rewrites exist
    /// ([`super::flows::FlowTable::share_layout`]).
    Template(Box<RewriteTemplate>, Option<u32>),
    /// The form of its rewrites depends on values.
    ByValue,
    /// A rewrite cannot express the path, for any values.
    Never(NotRewritable),
}

/// Paths by their decisions, hashed with a seed.
#[derive(Debug, Default)]
pub struct PathTable {
    known: HashMap<Box<[u32]>, PathInfo, foldhash::fast::RandomState>,
}

impl PathTable {
    pub fn get(&mut self, decisions: &[u32]) -> Option<&mut PathInfo> {
        self.known.get_mut(decisions)
    }

    /// Stores the knowledge about a path, unless the table is full or the path is too long.
    pub fn insert_path(&mut self, decisions: &[u32], info: PathInfo) {
        if self.known.len() < MAX_PATHS && decisions.len() <= MAX_DECISIONS {
            self.known.insert(decisions.into(), info);
        }
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }
}

impl NotRewritable {
    /// Returns whether the reason holds for all packets of a path.
    pub(super) fn holds_for_path(self) -> bool {
        use NotRewritable::*;
        match self {
            Meter | Register | Random | Time | Digest | AddEntry | Timer | Group | Copies | Payload | Truncate
            | TooDeep | TooMuch => true,
            Checksum | ToCpu | FlowState | Aborted | Shapes | NoRoom => false,
        }
    }
}
