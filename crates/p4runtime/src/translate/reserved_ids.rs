//! Ids of members and groups, and the range that the server reserves.

use crate::P4RuntimeError;

/// First id of members and groups that the server reserves for action sets.
pub const FIRST_HIDDEN: u32 = 0x8000_0000;

/// Checks the id that a controller gives to a member or group.
pub(super) fn check_id(profile: &str, what: &str, id: u32) -> Result<(), P4RuntimeError> {
    match id {
        0 => Err(P4RuntimeError::invalid(format!("{profile}: the {what}'s id is 0 or missing; number them from 1"))),
        FIRST_HIDDEN.. => Err(P4RuntimeError::invalid(format!(
            "{profile}: {what} {id}: numbers from {FIRST_HIDDEN} on are the server's own, for action sets; choose a smaller one"
        ))),
        _ => Ok(()),
    }
}
