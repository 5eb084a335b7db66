//! Idle times: restarts and profiles of entries that a packet has found.

use crate::RecordId;
use crate::inner::Inner;
use crate::life;
use crate::local::Local;
use crate::member::Member;
use crate::stream::ChangeKind;
use std::sync::atomic::Ordering::{Acquire, Release};

impl Member {
    /// Restarts the idle time of a record that this batch has found. Returns whether its entry
    /// is still in the table.
    pub fn restart_timer(&mut self, id: RecordId) -> bool {
        id.is_some() && self.local.touch(&self.table, id.0, true)
    }

    /// Gives a record that this batch has found another profile, its twin as well, and restarts
    /// the idle time of both. Returns whether its entry is still in the table.
    pub fn set_profile(&mut self, id: RecordId, profile: u8) -> bool {
        if !id.is_some() || !self.local.set_profile_of_one(&self.table, id.0, profile) {
            return false;
        }
        if let Some(twin) = self.table.twin_of(id.0) {
            self.local.set_profile_of_one(&self.table, twin, profile);
        }
        true
    }

    /// Sets the tick from which on an entry's idle time counts, and its profile, for an entry that
    /// another table has had before. The next pass of the sweep examines all records.
    pub fn set_idle_since(&mut self, id: RecordId, due: u32, profile: u8) -> bool {
        let next = |word| life::is_live(word).then(|| life::live(due, profile));
        let is_set = id.is_some() && life::change(self.table.records.life(id.0), next).is_some();
        if is_set {
            self.table.schedule_look(id.0, self.local.now);
            self.table.sweep.lock().restart();
        }
        is_set
    }

    /// Lets the idle time of the entries of a profile count from now on at the latest, after a change
    /// of the profile's time: with a longer time, hits were written less often.
    pub fn limit_idle_start(&mut self, profile: u8) {
        let (table, now) = (self.table.clone(), self.local.now);
        let latest = table.idle_times.live_word(now, profile);
        for record in 1..table.free.end() {
            let life = table.records.life(record);
            let word = life.load(Acquire);
            if !life::is_live(word) || life::profile(word) != profile {
                continue;
            }
            let is_later = life::ticks_since_due(word, now) < life::ticks_since_due(latest, now);
            let next = |word| (life::is_live(word) && life::profile(word) == profile).then_some(latest);
            if is_later {
                life::change(life, next);
            }
            table.schedule_look(record, now);
        }
    }
}

impl Local {
    /// Gives an entry another profile and restarts its idle time. Returns whether it is still in the
    /// table.
    pub fn set_profile_of_one(&self, table: &Inner, record: u32, profile: u8) -> bool {
        let now = self.now;
        let renewed = table.idle_times.live_word(now, profile);
        let life = table.records.life(record);
        let before = life.load(Acquire);
        if life::is_live(before) && before & !life::DOUBT == renewed {
            // Most packets of a session set what it has.
            return self.touch(table, record, true);
        }
        let next = |word| life::is_live(word).then_some(renewed);
        let Some(before) = life::change(life, next) else { return false };
        let left = |word| table.idle_times.left(word, now).unwrap_or(i32::MAX);
        if left(renewed) < left(before) {
            // The entry may end before the sweep would look at it.
            table.records.look(record).store(table.idle_times.look_code(renewed, now), Release);
        }
        if life::profile(before) != profile {
            self.note_change(table, record, ChangeKind::Updated);
        }
        true
    }
}
