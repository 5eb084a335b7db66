//! Which differences matter when a controller's P4Info meets a device's pipeline.
//!
//! What a controller and a device say to each other by P4Info has to agree: which objects there are, their ids and names,
//! how wide each value is and how it is matched, which actions an entry may have. Everything else informs people and
//! tools, and versions of a compiler differ in it: annotations and documentation, aliases, the package's description, the
//! initial default action, descriptions of types that nothing here refers to.

use super::compare::Difference;
use super::model::{NewType, P4Info};

/// What two P4Infos of one program differ in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agreement {
    /// A controller that goes by theirs and a device that goes by ours would misunderstand each other.
    pub conflicts: Vec<Difference>,
    /// Of no consequence for requests and answers.
    pub remarks: Vec<Difference>,
}

/// Tells apart what matters of the differences that another P4Info has to this one.
pub fn weigh(ours: &P4Info, differences: Vec<Difference>) -> Agreement {
    let (conflicts, remarks) = differences.into_iter().partition(|difference| is_conflict(difference, ours));
    Agreement { conflicts, remarks }
}

fn is_conflict(difference: &Difference, ours: &P4Info) -> bool {
    let fields: Vec<&str> = difference.fields.iter().map(String::as_str).collect();
    match fields[..] {
        ["pkg_info", ..] | [_, "preamble", "alias"] => false,
        _ if fields.iter().any(|f| matches!(*f, "annotations" | "structured_annotations" | "doc")) => false,
        // Older compilers write neither.
        ["tables", "initial_default_action", ..] | ["tables", "has_initial_entries"] => false,
        [_, "size" | "max_group_size"] => asks_for_more(difference),
        ["action_profiles", "sum_of_weights" | "sum_of_members"] => difference.theirs.is_some(),
        // An action that no table lists is in no request. If theirs has a table that lists it, the two differ in that as well.
        ["actions"] => lists_action(ours, &difference.path),
        // What refers to a type is compared by itself. Where both describe a type, they have to describe it alike.
        ["type_info"] => false,
        ["type_info", _] => difference.ours.is_some() && difference.theirs.is_some(),
        [.., "type_name" | "index_type_name"] => difference.theirs.is_some() || names_translated_type(difference, ours),
        _ => true,
    }
}

/// Whether a controller counts on a larger table, profile or array than the device has. A size that is left out promises nothing.
fn asks_for_more(difference: &Difference) -> bool {
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let (ours, theirs) = (number(&difference.ours), number(&difference.theirs));
    // No greatest size of a group: as large as the profile.
    let limited = ours != 0 || difference.fields.last().is_none_or(|field| field != "max_group_size");
    limited && theirs > ours
}

/// Whether a table lists the action that `path` names: `actions[ingress.drop]`.
fn lists_action(info: &P4Info, path: &str) -> bool {
    let name = path.strip_prefix("actions[").and_then(|rest| rest.strip_suffix(']')).unwrap_or(path);
    let action = info.actions.iter().find(|action| action.preamble.name == name);
    action.is_some_and(|action| {
        info.tables.iter().flat_map(|table| &table.action_refs).any(|listed| listed.id == action.preamble.id)
    })
}

/// Whether the type that ours names there is sent in another form than it has in the program.
fn names_translated_type(difference: &Difference, ours: &P4Info) -> bool {
    let named = difference.ours.as_deref().unwrap_or_default();
    let translated = ours.type_info.new_types.iter().filter(|(_, ty)| matches!(ty, NewType::Translated(..)));
    translated.into_iter().any(|(name, _)| named.contains(&format!("\"{name}\"")))
}
