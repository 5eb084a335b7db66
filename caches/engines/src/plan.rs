//! [`CachePlan`]: configuration of a flow cache in user space.

use flowcache::pacer::MinSlowPathShare;
use flowcache::{SegmentCacheConfig, SegmentCacheKind};

/// Configuration of a flow cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachePlan {
    /// Kind, sizes, timeouts and slow-path budget.
    pub cache: SegmentCacheConfig,
    /// Minimum time of the slow path. Enables pacing, if there is a budget
    /// ([`SegmentCacheConfig::slow_path`]).
    pub min_slow_path_share: Option<MinSlowPathShare>,
    /// Use a rewrite cache of native code, not a segment cache. Then only capacity, timeouts and
    /// slow-path budget of `cache` are used.
    pub is_rewrite_cache: bool,
    /// Variable with the tenant id, such as `hdr.vxlan.vni`. Tenants share the slow path.
    pub tenant: Option<String>,
}

impl CachePlan {
    /// Returns the name of the kind in configuration files.
    pub(crate) fn kind(&self) -> &'static str {
        match self.cache.kind {
            _ if self.is_rewrite_cache => "rewrites",
            SegmentCacheKind::Exact => "exact",
            SegmentCacheKind::Megaflow => "megaflow",
            SegmentCacheKind::SubTraversal { .. } => "sub-traversal",
            SegmentCacheKind::Adaptive { .. } => "adaptive",
        }
    }
}

pub(crate) fn no_tenant(name: &str) -> String {
    format!(
        "the program has no variable `{name}` of at most 64 bits to identify tenants; name one of its variables, such as hdr.vxlan.vni"
    )
}
