//! Path MTUs that were learned: bounded in number, forgotten after a time.

use super::quote::PathMtu;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Maximum number of end points with a path MTU of their own.
pub const MAX_PATHS: usize = 4096;

/// Time after which a path MTU is forgotten (RFC 1191, section 6.3: not before five minutes).
pub const MAX_AGE: Duration = Duration::from_secs(600);

/// Change of a path MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathMtuChange {
    /// The path to an end point has this MTU.
    Set(IpAddr, u16),
    /// The MTU of the port applies again.
    Forget(IpAddr),
}

/// Path MTUs by end point.
#[derive(Debug, Default)]
pub struct LearnedPaths {
    /// MTU, and time of the last report that set or confirmed it.
    paths: HashMap<IpAddr, (u16, Duration)>,
}

impl LearnedPaths {
    /// Returns the number of end points.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Reports whether no path MTU is known.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Notes a report. The lowest MTU of an end point counts, because a message names no path of
    /// several. Returns the changes, with the oldest end point that has to go if there are too
    /// many.
    pub fn learn(&mut self, report: PathMtu, now: Duration) -> Vec<PathMtuChange> {
        let PathMtu { destination, mtu, .. } = report;
        match self.paths.get_mut(&destination) {
            Some((known, _)) if *known < mtu => return Vec::new(),
            Some((known, at)) if *known == mtu => {
                *at = now;
                return Vec::new();
            }
            _ => {}
        }
        let mut changes = Vec::new();
        if self.paths.len() >= MAX_PATHS && !self.paths.contains_key(&destination) {
            let oldest = self.paths.iter().min_by_key(|(end, (_, at))| (*at, **end)).map(|(end, _)| *end);
            changes.extend(oldest.map(PathMtuChange::Forget));
            oldest.map(|end| self.paths.remove(&end));
        }
        self.paths.insert(destination, (mtu, now));
        changes.push(PathMtuChange::Set(destination, mtu));
        changes
    }

    /// Forgets path MTUs that no message has confirmed for [`MAX_AGE`].
    pub fn forget_old(&mut self, now: Duration) -> Vec<PathMtuChange> {
        let mut old: Vec<IpAddr> =
            self.paths.iter().filter(|(_, (_, at))| now.saturating_sub(*at) >= MAX_AGE).map(|(end, _)| *end).collect();
        old.sort_unstable();
        old.iter().for_each(|end| {
            self.paths.remove(end);
        });
        old.into_iter().map(PathMtuChange::Forget).collect()
    }
}
