//! [`IdleProfiles`]: the idle times of a table that packets write, by number.
//!
//! A record has room for a number of 8 bits. Each expire time profile that packets name gets one,
//! so that a change of the profile's time reaches all entries that have it. Idle timeouts of the
//! control plane's own entries get the others.

use flowtable::{FlowTable, MAX_IDLE_TICKS, Member};
use interp::TICK_NS;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

/// Number of idle times.
const NUMBERS: usize = 256;

/// Source of an idle time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// An idle timeout of the control plane; 0: never.
    Control,
    /// An expire time profile.
    Profile(u8),
}

/// The idle times of one table.
pub struct IdleProfiles {
    /// For each expire time profile its number plus 1; 0: it has none yet.
    of_profile: [AtomicU16; NUMBERS],
    /// Source and time in nanoseconds of each number.
    times: Mutex<Vec<(Source, u64)>>,
}

impl Default for IdleProfiles {
    fn default() -> Self {
        let of_profile = std::array::from_fn(|_| AtomicU16::new(0));
        IdleProfiles { of_profile, times: Mutex::new(vec![(Source::Control, 0)]) }
    }
}

/// Returns the tick of a time in nanoseconds.
pub fn tick_of(time_ns: u64) -> u32 {
    (time_ns / TICK_NS) as u32
}

/// Returns an idle time in ticks, rounded up.
fn idle_ticks(timeout_ns: u64) -> u32 {
    timeout_ns.div_ceil(TICK_NS).min(u64::from(MAX_IDLE_TICKS)) as u32
}

impl IdleProfiles {
    /// Returns the number of an expire time profile. `timeout_ns` returns its time, if it is used
    /// for the first time.
    #[inline]
    pub fn number_of_profile(&self, flows: &FlowTable, profile: u8, timeout_ns: impl FnOnce() -> u64) -> u8 {
        match self.of_profile[usize::from(profile)].load(Ordering::Acquire) {
            0 => {
                let number = self.number_of(flows, Source::Profile(profile), timeout_ns());
                self.of_profile[usize::from(profile)].store(u16::from(number) + 1, Ordering::Release);
                number
            }
            number => (number - 1) as u8,
        }
    }

    /// Returns the number of an idle timeout of the control plane; 0 never expires.
    pub fn number_of_timeout(&self, flows: &FlowTable, timeout_ns: u64) -> u8 {
        self.number_of(flows, Source::Control, timeout_ns)
    }

    /// Returns the number of an idle time, or if all are in use, that of the nearest longer one.
    #[cold]
    fn number_of(&self, flows: &FlowTable, source: Source, timeout_ns: u64) -> u8 {
        let mut times = self.times.lock();
        let is_same = |known: &(Source, u64)| match source {
            Source::Control => *known == (source, timeout_ns),
            Source::Profile(_) => known.0 == source,
        };
        if let Some(number) = times.iter().position(is_same) {
            return number as u8;
        }
        if times.len() < NUMBERS && flows.set_idle_ticks(times.len() as u8, idle_ticks(timeout_ns)).is_ok() {
            times.push((source, timeout_ns));
            return (times.len() - 1) as u8;
        }
        let longer = times.iter().enumerate().filter(|(_, (_, known))| *known >= timeout_ns && timeout_ns != 0);
        longer.min_by_key(|(_, (_, known))| *known).map_or(0, |(number, _)| number as u8)
    }

    /// Returns the time of a number in nanoseconds; 0: never.
    pub fn timeout_ns(&self, number: u8) -> u64 {
        self.times.lock().get(usize::from(number)).map_or(0, |(_, timeout_ns)| *timeout_ns)
    }

    /// Takes over the times of all expire time profiles, which the control plane has changed.
    pub fn update(&self, flows: &FlowTable, member: &mut Member, timeout_ns: impl Fn(u8) -> u64) {
        for (number, (source, before)) in self.times.lock().iter_mut().enumerate() {
            let Source::Profile(profile) = *source else { continue };
            let after = timeout_ns(profile);
            if after != *before && flows.set_idle_ticks(number as u8, idle_ticks(after)).is_ok() {
                *before = after;
                member.limit_idle_start(number as u8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowtable::Shape;

    #[test]
    fn profiles_and_timeouts_have_numbers_of_their_own() {
        let flows = FlowTable::new(Shape::new(4, 1, 10), 1).unwrap();
        let profiles = IdleProfiles::default();
        assert_eq!(profiles.number_of_timeout(&flows, 0), 0);
        let first = profiles.number_of_profile(&flows, 7, || 1_000_000_000);
        assert_eq!(profiles.number_of_profile(&flows, 7, || panic!("known")), first);
        let own = profiles.number_of_timeout(&flows, 1_000_000_000);
        assert_ne!(own, first);
        assert_eq!(profiles.number_of_timeout(&flows, 1_000_000_000), own);
        assert_eq!([flows.idle_ticks(first), flows.idle_ticks(own)], [8, 8]);
        let mut member = flows.join().unwrap();
        member.begin_batch(1);
        profiles.update(&flows, &mut member, |_| 2_000_000_001);
        assert_eq!([flows.idle_ticks(first), flows.idle_ticks(own)], [17, 8]);
        assert_eq!((profiles.timeout_ns(first), profiles.timeout_ns(own)), (2_000_000_001, 1_000_000_000));
    }

    #[test]
    fn beyond_all_numbers_the_nearest_longer_time_is_used() {
        let flows = FlowTable::new(Shape::new(4, 1, 10), 1).unwrap();
        let profiles = IdleProfiles::default();
        for seconds in 1..=255 {
            profiles.number_of_timeout(&flows, seconds * 2_000_000_000);
        }
        let number = profiles.number_of_timeout(&flows, 3_000_000_000);
        assert_eq!(profiles.timeout_ns(number), 4_000_000_000);
        assert_eq!(profiles.number_of_timeout(&flows, u64::MAX), 0, "longer than all: never");
    }
}
