//! Samples as families of OpenMetrics.

use super::list::{METRICS, Metric, Source};
use super::samples::{Times, Values};
use super::seen::Seen;
use io::Latency;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// Upper bounds of the buckets of times, in nanoseconds.
const BOUNDS: [u64; 16] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    5_000_000,
    20_000_000,
    100_000_000,
    500_000_000,
    2_000_000_000,
    10_000_000_000,
];

/// All metrics of a node.
pub(super) fn encode(seen: &Seen<'_>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    METRICS.iter().try_for_each(|metric| family(metric, seen, encoder))
}

fn family(metric: &Metric, seen: &Seen<'_>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let kind = match metric.source {
        Source::Gauge(_) => MetricType::Gauge,
        Source::Counter(_) | Source::Packets(_) | Source::Bytes(_) => MetricType::Counter,
        Source::Histogram(_) => MetricType::Histogram,
    };
    let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
    let labels = metric.labels;
    match metric.source {
        Source::Gauge(read) => values(&mut family, labels, read(seen), encode_gauge),
        Source::Counter(read) => values(&mut family, labels, read(seen), encode_counter),
        Source::Packets(read) => {
            let packets = read(seen).into_iter().map(|(labels, count)| (labels, count.packets as f64));
            values(&mut family, labels, packets.collect(), encode_counter)
        }
        Source::Bytes(read) => {
            let bytes = read(seen).into_iter().map(|(labels, count)| (labels, count.bytes as f64));
            values(&mut family, labels, bytes.collect(), encode_counter)
        }
        Source::Histogram(read) => times(&mut family, labels, &read(seen)),
    }
}

/// A value that is a whole number, if `f64` holds it exactly.
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < 2f64.powi(53)).then_some(value as i64)
}

fn encode_gauge(metric: &mut MetricEncoder<'_>, value: f64) -> fmt::Result {
    match whole(value) {
        Some(value) => metric.encode_gauge(&value),
        None => metric.encode_gauge(&value),
    }
}

fn encode_counter(metric: &mut MetricEncoder<'_>, value: f64) -> fmt::Result {
    match whole(value).and_then(|value| u64::try_from(value).ok()) {
        Some(value) => metric.encode_counter::<NoLabelSet, _, u64>(&value, None),
        None => metric.encode_counter::<NoLabelSet, _, u64>(&value, None),
    }
}

fn values(
    family: &mut MetricEncoder<'_>,
    names: &[&'static str],
    samples: Values,
    encode: fn(&mut MetricEncoder<'_>, f64) -> fmt::Result,
) -> fmt::Result {
    for (labels, value) in samples {
        // Without labels, no empty braces are written.
        match names.is_empty() {
            true => encode(family, value)?,
            false => encode(&mut family.encode_family(&paired(names, labels))?, value)?,
        }
    }
    Ok(())
}

fn times(family: &mut MetricEncoder<'_>, names: &[&'static str], samples: &Times) -> fmt::Result {
    for (labels, latency) in samples {
        let bounds = BOUNDS.iter().map(|bound| *bound as f64 / 1e9).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(latency.counts(&BOUNDS)).collect();
        let (sum, count) = (latency.sum() as f64 / 1e9, Latency::count(latency));
        let labels = paired(names, labels.clone());
        let mut sample = family.encode_family(&labels)?;
        sample.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

fn paired(names: &[&'static str], values: Vec<String>) -> Vec<(&'static str, String)> {
    debug_assert_eq!(names.len(), values.len());
    names.iter().copied().zip(values).collect()
}
