//! Numbers of members and groups, and which of them are the server's own.

use crate::Refusal;

/// Numbers of members and groups from here on are the server's own, for action sets.
pub const FIRST_HIDDEN: u32 = 0x8000_0000;

/// A number that a controller gives to a member or group.
pub(super) fn numbered(profile: &str, what: &str, id: u32) -> Result<(), Refusal> {
    match id {
        0 => Err(Refusal::invalid(format!("{profile}: the {what}'s id is 0 or missing; number them from 1"))),
        FIRST_HIDDEN.. => Err(Refusal::invalid(format!(
            "{profile}: {what} {id}: numbers from {FIRST_HIDDEN} on are the server's own, for action sets; choose a smaller one"
        ))),
        _ => Ok(()),
    }
}
