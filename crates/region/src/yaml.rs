//! The YAML reader, and how much it takes.

use crate::syntax::MAX_DEPTH;
use serde::de::DeserializeOwned;

/// How many YAML events aliases may add, besides as many as the file has bytes: the keys and
/// values of some 100,000 rules.
const MAX_ALIAS_EVENTS: usize = 1_000_000;

/// How many bytes of text anchors may hold that is not as it stands in the file, such as quoted
/// text with escapes. Each alias copies it, and values of a region file have no use for it.
const MAX_ANCHOR_BYTES: usize = 16 << 10;

/// Reads a text, of a file of so many bytes.
pub(crate) fn read<T: DeserializeOwned>(text: &str, file_bytes: usize) -> Result<T, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, options(file_bytes))
}

/// As many nodes as the file has bytes for. What aliases add is bounded by a constant and the
/// size of the file, so that a small file stays small. YAML 1.1's `yes` and `off` are no truth
/// values, and tags that mean nothing here are refused.
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
