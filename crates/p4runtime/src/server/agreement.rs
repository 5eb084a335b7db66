//! Check of a client's P4Info against its device config, and the warnings to the client.

use super::peer::Peer;
use crate::{P4RuntimeError, p4info};
use ir::Pipeline;
use ir::p4info::P4InfoDifference;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tracing::warn;

/// Metadata key of a warning in a response, one value for each.
pub const WARNING_KEY: &str = "terrace-warning";
/// Maximum length in bytes of all differences in an error, because it is sent in a header, and
/// clients accept 8 KiB of headers.
const MAX_REFUSAL: usize = 3000;
/// Maximum number of warnings in a response.
const MAX_WARNINGS: usize = 10;
/// Maximum number of warnings in the log. Their number depends on the client, which must not be
/// able to fill the log.
const MAX_LOGGED: usize = 100;
/// Maximum length of a warning in a response, in bytes.
const MAX_WARNING: usize = 240;
/// Maximum length of a value in a difference, in bytes.
const MAX_VALUE: usize = 60;

/// Compares a client's P4Info with the pipeline of its device config. Returns the differences that
/// have no effect.
///
/// # Errors
/// `INVALID_ARGUMENT`, with each difference, if messages of a client that uses this P4Info would
/// have another meaning to the pipeline.
pub fn check_agreement(
    pipeline: &Pipeline,
    theirs: &crate::proto::config::P4Info,
) -> Result<Vec<String>, P4RuntimeError> {
    let agreement = p4info::agreement(&ir::p4info::generate(pipeline), theirs)
        .map_err(|unreadable| P4RuntimeError::invalid(format!("P4Info: {unreadable}")))?;
    if agreement.conflicts.is_empty() {
        return Ok(agreement.remarks.iter().map(describe_difference).collect());
    }
    let mut text = String::new();
    let mut not_shown = agreement.conflicts.len();
    for conflict in agreement.conflicts.iter().map(describe_difference) {
        if !text.is_empty() && text.len() + conflict.len() > MAX_REFUSAL {
            text.push_str(&format!("; and {not_shown} more"));
            break;
        }
        text.push_str(if text.is_empty() { "" } else { "; " });
        text.push_str(&truncate_text(&conflict, MAX_REFUSAL));
        not_shown -= 1;
    }
    let count = agreement.conflicts.len();
    let count_text = if count == 1 { "1 place".to_owned() } else { format!("{count} places") };
    Err(P4RuntimeError::invalid(format!(
        "the P4Info is not that of the device config: they disagree in {count_text}. \
         Give the P4Info that was compiled with the device config, from the same source and options. {text}"
    )))
}

/// Formats a difference as one line.
fn describe_difference(difference: &P4InfoDifference) -> String {
    let path = &difference.path;
    let is_message = |value: &Option<String>| value.as_ref().is_none_or(|text| text.starts_with('{'));
    match (&difference.ours, &difference.theirs) {
        (Some(_), None) if is_message(&difference.ours) => format!("{path}: in the device config only"),
        (None, Some(_)) if is_message(&difference.theirs) => format!("{path}: in the P4Info only"),
        (ours, theirs) => {
            let value =
                |v: &Option<String>| v.as_ref().map_or("unset".to_owned(), |text| truncate_text(text, MAX_VALUE));
            format!("{path}: {} in the device config, {} in the P4Info", value(ours), value(theirs))
        }
    }
}

/// Truncates a text to this number of bytes.
fn truncate_text(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// Writes warnings to the log.
pub fn log_warnings(who: &Peer, role: &str, warnings: &[String]) {
    for difference in warnings.iter().take(MAX_LOGGED) {
        warn!(%who, role, difference, "the P4Info differs from the device config's");
    }
    let more = warnings.len().saturating_sub(MAX_LOGGED);
    if more > 0 {
        warn!(%who, role, more, "the P4Info differs from the device config's in more places");
    }
}

/// Adds warnings to the metadata of a response.
pub fn add_warnings(metadata: &mut MetadataMap, warnings: &[String]) {
    let more = warnings.len().saturating_sub(MAX_WARNINGS);
    let more = (more > 0).then(|| format!("and {more} more differences; the node's log has {MAX_LOGGED}"));
    for warning in warnings.iter().take(MAX_WARNINGS).chain(&more) {
        // Metadata values are printable ASCII.
        let printable = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
        let text: String = truncate_text(warning, MAX_WARNING).chars().map(printable).collect();
        if let Ok(value) = text.parse::<MetadataValue<Ascii>>() {
            metadata.append(WARNING_KEY, value);
        }
    }
}
