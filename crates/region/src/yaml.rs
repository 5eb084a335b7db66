//! The YAML reader and its limits.

use crate::syntax::MAX_DEPTH;
use serde::de::DeserializeOwned;

/// Number of YAML events that aliases can add, besides one for each byte of the file: the keys and
/// values of some 100,000 rules.
const MAX_ALIAS_EVENTS: usize = 1_000_000;

/// Maximum size in bytes of anchored text that is not verbatim in the file, such as quoted text
/// with escapes. The limit is small, because each alias copies this text and values of a region
/// file do not need it.
const MAX_ANCHOR_BYTES: usize = 16 << 10;

/// Deserializes a text that belongs to a file of `file_bytes` bytes.
pub(crate) fn read<T: DeserializeOwned>(text: &str, file_bytes: usize) -> Result<T, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, options(file_bytes))
}

/// Returns the options of the YAML reader. Nodes are bounded only by the size of the file. Events
/// from aliases are bounded by a constant plus the size of the file, so that a small file needs
/// little memory. YAML 1.1's `yes` and `off` are not booleans, and unknown tags are errors.
fn options(file_bytes: usize) -> serde_saphyr::Options {
    let copies = MAX_ALIAS_EVENTS.saturating_add(file_bytes);
    let mut budget = serde_saphyr::Budget::default();
    budget.max_reader_input_bytes = None;
    budget.max_events = usize::MAX;
    budget.max_nodes = usize::MAX;
    budget.max_total_scalar_bytes = usize::MAX;
    budget.max_aliases = copies;
    budget.max_anchors = copies;
    budget.max_merge_keys = copies;
    budget.max_recorded_anchor_events = copies;
    budget.max_recorded_anchor_bytes = MAX_ANCHOR_BYTES;
    budget.enforce_alias_anchor_ratio = false;
    budget.max_depth = MAX_DEPTH;
    let mut limits = serde_saphyr::options::AliasLimits::default();
    limits.max_total_replayed_events = copies;
    limits.max_replay_stack_depth = MAX_DEPTH;
    let mut options = serde_saphyr::Options::default();
    options.budget = Some(budget);
    options.alias_limits = limits;
    options.with_snippet = false;
    options.strict_booleans = true;
    options.reject_unsupported_tags = true;
    options
}
