//! Samples of metrics.

use io::Latency;
use packet::Counter;

/// Label values of a sample, in the order of the metric's labels.
pub(super) type LabelValues = Vec<String>;
/// Samples of a gauge or a counter.
pub(super) type ValueSamples = Vec<(LabelValues, f64)>;
/// Samples that count packets and bytes.
pub(super) type CounterSamples = Vec<(LabelValues, Counter)>;
/// Samples of a histogram.
pub(super) type HistogramSamples = Vec<(LabelValues, Latency)>;

/// Returns the only sample of a metric without labels.
pub(super) fn one<T>(value: T) -> Vec<(LabelValues, T)> {
    vec![(Vec::new(), value)]
}
