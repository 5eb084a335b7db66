//! Date and time for `__DATE__` and `__TIME__`.

use std::time::{SystemTime, UNIX_EPOCH};

/// Date and time of the first use, in UTC. `SOURCE_DATE_EPOCH` overrides them for reproducible
/// builds.
pub(super) struct BuildClock {
    /// `Jan  2 2026`
    pub date: String,
    /// `03:04:05`
    pub time: String,
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl BuildClock {
    pub fn now() -> Self {
        let set = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self::at(set.unwrap_or_else(now))
    }

    /// Converts `seconds` since the start of 1970.
    fn at(seconds: u64) -> Self {
        let (day, second) = (seconds / 86_400, seconds % 86_400);
        // Years begin in March here, so that the leap day is the last day (Hinnant,
        // "chrono-compatible date algorithms").
        let day = day + 719_468;
        let era = day / 146_097;
        let day_of_era = day % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
        let month = (month + 2) % 12;
        let year = year_of_era + era * 400 + u64::from(month < 2);
        BuildClock {
            date: format!("{} {day_of_month:2} {year:4}", MONTHS[month as usize]),
            time: format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BuildClock;

    #[test]
    fn dates() {
        for (seconds, date, time) in [
            (0, "Jan  1 1970", "00:00:00"),
            (951_782_399, "Feb 28 2000", "23:59:59"),
            (951_782_400, "Feb 29 2000", "00:00:00"),
            (951_868_800, "Mar  1 2000", "00:00:00"),
            (1_798_761_599, "Dec 31 2026", "23:59:59"),
            (4_107_542_400, "Mar  1 2100", "00:00:00"),
        ] {
            let clock = BuildClock::at(seconds);
            assert_eq!((clock.date.as_str(), clock.time.as_str()), (date, time));
        }
    }
}
