//! Limit of a parameter, for example the number of VMs up to which a program fits.

use serde::Serialize;

/// Limit of a parameter.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ParameterReach {
    /// Largest value that was seen to fit; `None` if the first one does not.
    pub fits: Option<f64>,
    /// Smallest value that was seen not to fit; `None` if the last one fits.
    pub fails: Option<f64>,
}

/// Finds the limit of a value between `from` and `to` (inclusive) with a relative `precision` (0.01
/// is 1 %). `fits` need not be monotonic, because heuristics are not; the returned value fits.
///
/// # Errors
/// Errors of `fits`.
pub fn find_reach<E>(
    from: f64,
    to: f64,
    precision: f64,
    mut fits: impl FnMut(f64) -> Result<bool, E>,
) -> Result<ParameterReach, E> {
    if !fits(from)? {
        return Ok(ParameterReach { fits: None, fails: Some(from) });
    }
    if fits(to)? {
        return Ok(ParameterReach { fits: Some(to), fails: None });
    }
    let (mut good, mut bad) = (from, to);
    while bad - good > precision * good.abs().max(1.0) {
        // The geometric mean for wide positive ranges, because they can span decades.
        let middle = if good > 0.0 && bad / good > 4.0 { (good * bad).sqrt() } else { (good + bad) / 2.0 };
        if fits(middle)? { good = middle } else { bad = middle }
    }
    Ok(ParameterReach { fits: Some(good), fails: Some(bad) })
}

/// Returns `count` equidistant values from `from` to `to`.
pub fn sweep_points(from: f64, to: f64, count: usize) -> Vec<f64> {
    let last = count.max(2) - 1;
    (0..=last).map(|n| from + (to - from) * n as f64 / last as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn until(limit: f64, from: f64, to: f64) -> (ParameterReach, u32) {
        let mut asked = 0;
        let found = find_reach::<Infallible>(from, to, 0.001, |value| {
            asked += 1;
            Ok(value <= limit)
        });
        (found.unwrap(), asked)
    }

    #[test]
    fn the_limit_is_found_in_few_steps() {
        for limit in [1_000.0, 123_456.0, 7_654_321.0, 9_999_999.0] {
            let (found, asked) = until(limit, 1_000.0, 1e7);
            let fits = found.fits.unwrap();
            assert!(fits <= limit && fits >= limit * 0.998, "{limit}: {found:?}");
            assert!(found.fails.unwrap() > limit);
            assert!(asked < 30, "{asked}");
        }
        assert_eq!(until(5.0, 10.0, 100.0).0, ParameterReach { fits: None, fails: Some(10.0) });
        assert_eq!(until(500.0, 10.0, 100.0).0, ParameterReach { fits: Some(100.0), fails: None });
    }

    #[test]
    fn steps_have_both_ends() {
        assert_eq!(sweep_points(0.0, 1.0, 5), [0.0, 0.25, 0.5, 0.75, 1.0]);
    }
}
