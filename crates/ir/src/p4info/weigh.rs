//! Selects the differences that matter between a controller's P4Info and a device's pipeline.
//!
//! A controller and a device have to agree on the objects, their ids and names, the width and match
//! kind of each value, and the actions that an entry can have. Everything else only informs people
//! and tools, and differs between compiler versions: annotations and documentation, aliases, the
//! package's description, the initial default action, descriptions of types that nothing here
//! refers to.

use super::compare::P4InfoDifference;
use super::model::{NewType, P4Info};

/// Classified differences of two P4Infos of one program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct P4InfoAgreement {
    /// Differences that break the communication of a controller using their P4Info with a device
    /// using ours.
    pub conflicts: Vec<P4InfoDifference>,
    /// Differences without effect on requests and responses.
    pub remarks: Vec<P4InfoDifference>,
}

/// Separates conflicts from remarks.
pub fn weigh_differences(ours: &P4Info, differences: Vec<P4InfoDifference>) -> P4InfoAgreement {
    let (conflicts, remarks) = differences.into_iter().partition(|difference| is_conflict(difference, ours));
    P4InfoAgreement { conflicts, remarks }
}

/// Reports whether a difference prevents a controller with the P4Info `theirs` from using a device
/// with `ours`. Documentation, package information and sizes that the device exceeds do not.
fn is_conflict(difference: &P4InfoDifference, ours: &P4Info) -> bool {
    let fields: Vec<&str> = difference.fields.iter().map(String::as_str).collect();
    match fields[..] {
        ["pkg_info", ..] | [_, "preamble", "alias"] => false,
        _ if fields.iter().any(|f| matches!(*f, "annotations" | "structured_annotations" | "doc")) => false,
        // Older compilers write neither.
        ["tables", "initial_default_action", ..] | ["tables", "has_initial_entries"] => false,
        [_, "size" | "max_group_size"] => requires_larger_size(difference),
        ["action_profiles", "sum_of_weights" | "sum_of_members"] => difference.theirs.is_some(),
        // No request names an action that no table lists. A table of theirs that lists it is a
        // difference of its own.
        ["actions"] => lists_action(ours, &difference.path),
        // References to a type are compared separately. Where both describe a type, the
        // descriptions have to be equal.
        ["type_info"] => false,
        ["type_info", _] => difference.ours.is_some() && difference.theirs.is_some(),
        [.., "type_name" | "index_type_name"] => difference.theirs.is_some() || names_translated_type(difference, ours),
        _ => true,
    }
}

/// Reports whether a controller requires a larger table, profile or array than the device has. An
/// omitted size requires nothing.
fn requires_larger_size(difference: &P4InfoDifference) -> bool {
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let (ours, theirs) = (number(&difference.ours), number(&difference.theirs));
    // Without a maximum group size, a group can be as large as the profile.
    let limited = ours != 0 || difference.fields.last().is_none_or(|field| field != "max_group_size");
    limited && theirs > ours
}

/// Reports whether a table lists the action that `path` names: `actions[ingress.drop]`.
fn lists_action(info: &P4Info, path: &str) -> bool {
    let name = path.strip_prefix("actions[").and_then(|rest| rest.strip_suffix(']')).unwrap_or(path);
    let action = info.actions.iter().find(|action| action.preamble.name == name);
    action.is_some_and(|action| {
        info.tables.iter().flat_map(|table| &table.action_refs).any(|listed| listed.id == action.preamble.id)
    })
}

/// Reports whether our type is translated for the control plane.
fn names_translated_type(difference: &P4InfoDifference, ours: &P4Info) -> bool {
    let named = difference.ours.as_deref().unwrap_or_default();
    let translated = ours.type_info.new_types.iter().filter(|(_, ty)| matches!(ty, NewType::Translated(..)));
    translated.into_iter().any(|(name, _)| named.contains(&format!("\"{name}\"")))
}
