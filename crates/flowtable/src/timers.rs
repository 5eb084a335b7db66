//! Idle times: restarts and profiles of entries that a packet has found.

use crate::RecordId;
use crate::life;
use crate::member::Member;
use crate::stream::ChangeKind;
use std::sync::atomic::Ordering::Release;

impl Member {
    /// Restarts the idle time of a record that this batch has found. Returns whether its entry
    /// is still in the table.
    pub fn restart_timer(&mut self, id: RecordId) -> bool {
        id.is_some() && self.local.touch(&self.table, id.0, true)
    }

    /// Gives a record that this batch has found another profile and restarts its idle time.
    /// Returns whether its entry is still in the table.
    pub fn set_profile(&mut self, id: RecordId, profile: u8) -> bool {
        let (table, now) = (&self.table, self.local.now);
        if !id.is_some() {
            return false;
        }
        let renewed = table.idle_times.live_word(now, profile);
        let next = |word| life::is_live(word).then_some(renewed);
        let Some(before) = life::change(table.records.life(id.0), next) else { return false };
        let left = |word| table.idle_times.left(word, now).unwrap_or(i32::MAX);
        if left(renewed) < left(before) {
            // The entry may end before the sweep would look at it.
            table.records.look(id.0).store(table.idle_times.look_code(renewed, now), Release);
        }
        if life::profile(before) != profile {
            self.local.note_change(table, id.0, ChangeKind::Updated);
        }
        true
    }
}
