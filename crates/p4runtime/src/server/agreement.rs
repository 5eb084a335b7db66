//! What a client is told of how its P4Info and the device config agree.

use super::peer::Peer;
use crate::{Refusal, p4info};
use ir::Pipeline;
use ir::p4info::Difference;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tracing::warn;

/// Metadata of an answer that has a warning, one value for each.
pub const WARNING_KEY: &str = "terrace-warning";
/// Bytes of all differences in a refusal: it travels in a header, and clients take 8 KiB of headers.
const MAX_REFUSAL: usize = 3000;
/// Warnings in an answer.
const MAX_WARNINGS: usize = 10;
/// Warnings in the log. A client decides how many there are, and does not fill the log.
const MAX_LOGGED: usize = 100;
/// Bytes of a warning in an answer.
const MAX_WARNING: usize = 240;
/// Bytes of a value that a difference shows.
const MAX_VALUE: usize = 60;

/// Holds a client's P4Info against the pipeline of its device config. Gives what differs without consequence.
///
/// # Errors
/// `INVALID_ARGUMENT` if a client that goes by this P4Info and the pipeline would misunderstand each other, with each place.
pub fn check(pipeline: &Pipeline, theirs: &crate::proto::config::P4Info) -> Result<Vec<String>, Refusal> {
    let agreement = p4info::agreement(&ir::p4info::generate(pipeline), theirs)
        .map_err(|unreadable| Refusal::invalid(format!("P4Info: {unreadable}")))?;
    if agreement.conflicts.is_empty() {
        return Ok(agreement.remarks.iter().map(described).collect());
    }
    let mut shown = String::new();
    let mut left = agreement.conflicts.len();
    for conflict in agreement.conflicts.iter().map(described) {
        if !shown.is_empty() && shown.len() + conflict.len() > MAX_REFUSAL {
            shown.push_str(&format!("; and {left} more"));
            break;
        }
        shown.push_str(if shown.is_empty() { "" } else { "; " });
        shown.push_str(&clipped(&conflict, MAX_REFUSAL));
        left -= 1;
    }
    let count = agreement.conflicts.len();
    let places = if count == 1 { "1 place".to_owned() } else { format!("{count} places") };
    Err(Refusal::invalid(format!(
        "the P4Info is not that of the device config: they disagree in {places}. \
         Give the P4Info that was compiled with the device config, from the same source and options. {shown}"
    )))
}

/// A difference in a line.
fn described(difference: &Difference) -> String {
    let path = &difference.path;
    let is_message = |value: &Option<String>| value.as_ref().is_none_or(|text| text.starts_with('{'));
    match (&difference.ours, &difference.theirs) {
        (Some(_), None) if is_message(&difference.ours) => format!("{path}: in the device config only"),
        (None, Some(_)) if is_message(&difference.theirs) => format!("{path}: in the P4Info only"),
        (ours, theirs) => {
            let value = |v: &Option<String>| v.as_ref().map_or("unset".to_owned(), |text| clipped(text, MAX_VALUE));
            format!("{path}: {} in the device config, {} in the P4Info", value(ours), value(theirs))
        }
    }
}

/// The text, cut to that many bytes.
fn clipped(text: &str, bytes: usize) -> String {
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

/// Adds warnings to an answer's metadata.
pub fn add_warnings(metadata: &mut MetadataMap, warnings: &[String]) {
    let more = warnings.len().saturating_sub(MAX_WARNINGS);
    let more = (more > 0).then(|| format!("and {more} more differences; the node's log has {MAX_LOGGED}"));
    for warning in warnings.iter().take(MAX_WARNINGS).chain(&more) {
        // Metadata is printable ASCII.
        let printable = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
        let text: String = clipped(warning, MAX_WARNING).chars().map(printable).collect();
        if let Ok(value) = text.parse::<MetadataValue<Ascii>>() {
            metadata.append(WARNING_KEY, value);
        }
    }
}
