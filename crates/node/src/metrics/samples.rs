//! Samples of metrics.

use io::Latency;
use packet::Counter;

/// Values of a sample's labels, in the order of the metric's.
pub(super) type LabelValues = Vec<String>;
/// Samples of a gauge or a counter.
pub(super) type Values = Vec<(LabelValues, f64)>;
/// Samples that count packets and bytes.
pub(super) type Counted = Vec<(LabelValues, Counter)>;
/// Samples of a histogram.
pub(super) type Times = Vec<(LabelValues, Latency)>;

/// The one sample of a metric without labels.
pub(super) fn one<T>(value: T) -> Vec<(LabelValues, T)> {
    vec![(Vec::new(), value)]
}
