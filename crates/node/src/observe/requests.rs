//! [`RequestStats`]: how many requests controllers made, and how long they took.

use io::Latency;
use p4runtime::server::{Observer, RequestKind};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answered {
    /// How many had an error as answer.
    pub refused: u64,
    /// How long all of them took.
    pub time: Latency,
}

/// All kinds.
#[derive(Debug, Default)]
pub struct RequestStats(Mutex<BTreeMap<RequestKind, Answered>>);

impl RequestStats {
    /// As of now.
    pub fn all(&self) -> BTreeMap<RequestKind, Answered> {
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
