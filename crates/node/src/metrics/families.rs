//! Encodes samples as metric families of OpenMetrics.

use super::list::{METRICS, Metric, MetricSource};
use super::samples::{HistogramSamples, ValueSamples};
use super::scrape::ScrapeSnapshot;
use io::Latency;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// Upper bounds of the histogram buckets, in nanoseconds.
const BUCKET_BOUNDS_NS: [u64; 16] = [
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

/// Encodes all metrics of a node.
pub(super) fn encode(seen: &ScrapeSnapshot<'_>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    METRICS.iter().try_for_each(|metric| encode_family(metric, seen, encoder))
}

fn encode_family(metric: &Metric, seen: &ScrapeSnapshot<'_>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let kind = match metric.source {
        MetricSource::Gauge(_) => MetricType::Gauge,
        MetricSource::Counter(_) | MetricSource::Packets(_) | MetricSource::Bytes(_) => MetricType::Counter,
        MetricSource::Histogram(_) => MetricType::Histogram,
    };
    let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
    let labels = metric.labels;
    match metric.source {
        MetricSource::Gauge(read) => encode_values(&mut family, labels, read(seen), encode_gauge),
        MetricSource::Counter(read) => encode_values(&mut family, labels, read(seen), encode_counter),
        MetricSource::Packets(read) => {
            let packets = read(seen).into_iter().map(|(labels, count)| (labels, count.packets as f64));
            encode_values(&mut family, labels, packets.collect(), encode_counter)
        }
        MetricSource::Bytes(read) => {
            let bytes = read(seen).into_iter().map(|(labels, count)| (labels, count.bytes as f64));
            encode_values(&mut family, labels, bytes.collect(), encode_counter)
        }
        MetricSource::Histogram(read) => encode_histograms(&mut family, labels, &read(seen)),
    }
}

/// Returns a whole number if `f64` represents it exactly.
fn as_integer(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < 2f64.powi(53)).then_some(value as i64)
}

fn encode_gauge(metric: &mut MetricEncoder<'_>, value: f64) -> fmt::Result {
    match as_integer(value) {
        Some(value) => metric.encode_gauge(&value),
        None => metric.encode_gauge(&value),
    }
}

fn encode_counter(metric: &mut MetricEncoder<'_>, value: f64) -> fmt::Result {
    match as_integer(value).and_then(|value| u64::try_from(value).ok()) {
        Some(value) => metric.encode_counter::<NoLabelSet, _, u64>(&value, None),
        None => metric.encode_counter::<NoLabelSet, _, u64>(&value, None),
    }
}

fn encode_values(
    family: &mut MetricEncoder<'_>,
    names: &[&'static str],
    samples: ValueSamples,
    encode: fn(&mut MetricEncoder<'_>, f64) -> fmt::Result,
) -> fmt::Result {
    for (labels, value) in samples {
        // Without labels, omits the empty braces.
        match names.is_empty() {
            true => encode(family, value)?,
            false => encode(&mut family.encode_family(&label_pairs(names, labels))?, value)?,
        }
    }
    Ok(())
}

fn encode_histograms(
    family: &mut MetricEncoder<'_>,
    names: &[&'static str],
    samples: &HistogramSamples,
) -> fmt::Result {
    for (labels, latency) in samples {
        let bounds = BUCKET_BOUNDS_NS.iter().map(|bound| *bound as f64 / 1e9).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(latency.counts(&BUCKET_BOUNDS_NS)).collect();
        let (sum, count) = (latency.sum() as f64 / 1e9, Latency::count(latency));
        let labels = label_pairs(names, labels.clone());
        let mut sample = family.encode_family(&labels)?;
        sample.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

fn label_pairs(names: &[&'static str], values: Vec<String>) -> Vec<(&'static str, String)> {
    debug_assert_eq!(names.len(), values.len());
    names.iter().copied().zip(values).collect()
}
