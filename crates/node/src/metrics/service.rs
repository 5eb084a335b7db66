//! Metrics of controllers and their requests.

use super::samples::{HistogramSamples, ValueSamples, one};
use super::scrape::ScrapeSnapshot;
use p4runtime::server::RequestKind;
use std::sync::atomic::Ordering;

pub(super) fn connections(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    one(seen.node.service().watch.connections() as f64)
}

pub(super) fn controllers(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let clients = seen.node.service().watch.clients();
    let standing = [("primary", true), ("backup", false)].map(|(standing, primary)| {
        let count = clients.iter().filter(|client| client.role.is_some() && client.is_primary == primary).count();
        (vec![standing.to_owned()], count as f64)
    });
    standing.into()
}

pub(super) fn refused_connections(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    one(seen.node.service().counters.refused_connections.load(Ordering::Relaxed) as f64)
}

pub(super) fn lost_messages(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let lost = seen.node.service().counters.lost_messages.load(Ordering::Relaxed) + seen.node.events_lost();
    one(lost as f64)
}

pub(super) fn requests(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let results = RequestKind::ALL.into_iter().flat_map(|kind| {
        let answered = seen.now.requests.get(&kind).cloned().unwrap_or_default();
        let ok = answered.time.count().saturating_sub(answered.refused);
        [("ok", ok), ("refused", answered.refused)]
            .map(|(result, count)| (vec![kind.name().to_owned(), result.to_owned()], count as f64))
    });
    results.collect()
}

pub(super) fn request_times(seen: &ScrapeSnapshot<'_>) -> HistogramSamples {
    let answered = seen.now.requests.iter();
    answered.map(|(kind, answered)| (vec![kind.name().to_owned()], answered.time.clone())).collect()
}
