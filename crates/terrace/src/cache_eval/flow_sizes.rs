//! Flow size distributions in the file format of the literature: one line `BYTES,SHARE` for each
//! step of the cumulative distribution.

use fastrand::Rng;

/// Payload of one packet in bytes: TCP over Ethernet.
const PAYLOAD: f64 = 1460.0;

/// Distribution of a data centre for web search and data mining, measured for VL2 (Greenberg et
/// al., SIGCOMM 2009, figure 2), as it is commonly tabulated.
const VL2: &str = "0,0\n180,0.1\n216,0.2\n560,0.3\n900,0.4\n1100,0.5\n1870,0.6\n3160,0.7\n10000,0.8\n400000,0.9\n3160000,0.95\n\
                   100000000,0.98\n1000000000,1\n";

/// Distribution of flow sizes in bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowSizes {
    /// Size in bytes, and share of flows of at most that size. Both increase.
    steps: Vec<(f64, f64)>,
}

impl FlowSizes {
    /// Returns the built-in distribution.
    pub fn built_in() -> FlowSizes {
        FlowSizes::parse(VL2).unwrap_or(FlowSizes { steps: vec![(1.0, 1.0)] })
    }

    /// Parses a distribution.
    ///
    /// # Errors
    /// Names the invalid line: not two numbers, a decreasing size or share, or a last share other
    /// than 1.
    pub fn parse(text: &str) -> Result<FlowSizes, String> {
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |why: &str| format!("line {number}: `{}` {why}", line.trim());
            let (bytes, share) = line.split_once(',').ok_or_else(|| wrong("is not BYTES,SHARE"))?;
            let read = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
            let (bytes, share) = read(bytes).zip(read(share)).ok_or_else(|| wrong("has no two numbers from 0"))?;
            let before = steps.last().copied().unwrap_or((0.0, 0.0));
            if bytes < before.0 || share < before.1 || share > 1.0 {
                return Err(wrong("goes back, or above 1: sizes and shares rise"));
            }
            steps.push((bytes, share));
        }
        match steps.last() {
            Some((_, share)) if *share > 0.999 => Ok(FlowSizes { steps }),
            Some(_) => Err("the last share is not 1: the distribution has no end".to_owned()),
            None => Err("there is no line BYTES,SHARE in it".to_owned()),
        }
    }

    /// Returns the flow size in bytes at quantile `share`, from 0 to 1. Interpolates linearly
    /// between steps.
    pub fn bytes(&self, share: f64) -> f64 {
        let upper = self.steps.iter().position(|step| step.1 >= share).unwrap_or(self.steps.len() - 1);
        let (bytes, at) = self.steps[upper];
        let (from, before) = if upper == 0 { (0.0, 0.0) } else { self.steps[upper - 1] };
        if at <= before { bytes } else { from + (bytes - from) * ((share - before) / (at - before)).clamp(0.0, 1.0) }
    }

    /// Returns the number of packets of the flow at quantile `share`.
    pub fn packets(&self, share: f64) -> f64 {
        (self.bytes(share) / PAYLOAD).ceil().max(1.0)
    }

    /// Returns the limit in packets at which flows must be truncated to have `mean` packets on
    /// average; see [`cut`].
    pub fn cut(&self, mean: f64) -> f64 {
        const SAMPLES: usize = 20_000;
        cut((0..SAMPLES).map(|at| self.packets((at as f64 + 0.5) / SAMPLES as f64)).collect(), mean)
    }

    /// Draws the number of packets of a flow. Flows of more than `cut` packets have `cut` packets
    /// on average.
    pub fn draw(&self, cut: f64, rng: &mut Rng) -> u32 {
        round_randomly(self.packets(rng.f64()).min(cut), rng)
    }
}

/// Returns the limit at which flows of these sizes must be truncated to have size `mean` on
/// average. The limit exists because the evaluated time window is too short for large flows.
/// Infinite if the average is at most `mean` without a limit.
pub fn cut(mut sizes: Vec<f64>, mean: f64) -> f64 {
    sizes.sort_by(f64::total_cmp);
    let (count, mut sum) = (sizes.len() as f64, 0.0);
    for (at, size) in sizes.iter().enumerate() {
        let rest = count - at as f64;
        if sum + size * rest >= mean * count {
            return ((mean * count - sum) / rest).max(1.0);
        }
        sum += size;
    }
    f64::INFINITY
}

/// Rounds `packets` to an integer of at least 1, randomly up or down so that the average is
/// `packets`.
pub fn round_randomly(packets: f64, rng: &mut Rng) -> u32 {
    let up = rng.f64() < packets.fract();
    (packets.floor() as u32).saturating_add(u32::from(up)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_gives_the_mean() {
        let sizes = FlowSizes::built_in();
        for mean in [1.5, 2.85, 10.0] {
            let (cut, mut rng) = (sizes.cut(mean), Rng::with_seed(3));
            let drawn: u64 = (0..50_000).map(|_| u64::from(sizes.draw(cut, &mut rng))).sum();
            let found = drawn as f64 / 50_000.0;
            assert!((found / mean - 1.0).abs() < 0.02, "{found} for {mean}, cut at {cut}");
        }
        assert_eq!(FlowSizes::parse("100,0.5\n1000,1\n").unwrap().cut(2.0), f64::INFINITY);
    }

    #[test]
    fn sizes_rise_between_steps() {
        let sizes = FlowSizes::parse("1000,0.5\n2000,1\n").unwrap();
        assert_eq!((sizes.bytes(0.25), sizes.bytes(0.5), sizes.bytes(0.75)), (500.0, 1000.0, 1500.0));
        assert_eq!((sizes.packets(0.25), sizes.packets(0.75)), (1.0, 2.0));
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for (text, says) in [
            ("", "no line"),
            ("5", "BYTES,SHARE"),
            ("5,x", "numbers"),
            ("5,1\n4,1", "line 2"),
            ("5,0.5", "no end"),
            ("5,2", "above 1"),
        ] {
            let error = FlowSizes::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
