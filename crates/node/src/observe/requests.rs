//! [`RequestStats`]: number and duration of controllers' requests.

use io::Latency;
use p4runtime::server::{Observer, RequestKind};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestCounts {
    /// Number of requests answered with an error.
    pub refused: u64,
    /// Durations of all requests.
    pub time: Latency,
}

/// Statistics of requests by kind.
#[derive(Debug, Default)]
pub struct RequestStats(Mutex<BTreeMap<RequestKind, RequestCounts>>);

impl RequestStats {
    /// Returns a copy of the current statistics.
    pub fn all(&self) -> BTreeMap<RequestKind, RequestCounts> {
        self.0.lock().clone()
    }
}

impl Observer for RequestStats {
    fn answered(&self, kind: RequestKind, time: Duration, refused: bool) {
        let mut all = self.0.lock();
        let answered = all.entry(kind).or_default();
        answered.refused += u64::from(refused);
        answered.time.record(time, 1);
    }
}
