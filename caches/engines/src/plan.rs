//! [`CachePlan`]: how a flow cache in user space is made.

use flowcache::pace::Spare;
use flowcache::{CacheConfig, Kind};

/// How a flow cache is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachePlan {
    /// Kind, sizes, times, and what the slow path takes.
    pub cache: CacheConfig,
    /// With it the slow path leaves packets that hit their time, if it has a budget ([`CacheConfig::slow_path`]).
    pub spare: Option<Spare>,
    /// Rewrites of bytes are kept, made of what native code did, and not what the reference engine replays: then `cache` says how many there are, how long they stay, and what
    /// the slow path takes.
    pub rewrites: bool,
    /// The variable that says whose packet it is (`hdr.vxlan.vni`): tenants share the slow path.
    pub tenant: Option<String>,
}

impl CachePlan {
    /// The kind, as in configurations.
    pub(crate) fn kind(&self) -> &'static str {
        match self.cache.kind {
            _ if self.rewrites => "rewrites",
            Kind::Exact => "exact",
            Kind::Megaflow => "megaflow",
            Kind::SubTraversal { .. } => "sub-traversal",
            Kind::Adaptive { .. } => "adaptive",
        }
    }
}

pub(crate) fn no_tenant(name: &str) -> String {
    format!(
        "the program has no variable `{name}` of at most 64 bits, by which tenants were to be told apart; name one of it, as hdr.vxlan.vni"
    )
}
