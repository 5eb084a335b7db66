//! How far a parameter can go: "how many VMs until it is full".

use serde::Serialize;

/// How far something goes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Reach {
    /// The greatest value that was seen to fit; none if not even the least did.
    pub fits: Option<f64>,
    /// The least value that was seen not to; none if it fits up to the end.
    pub fails: Option<f64>,
}

/// Finds how far a value can go between `from` and `to` (both included) until `fits` says no, to `precision` (relative, 0.01 is 1 %).
/// `fits` may be wrong for a while (a heuristic is): what comes out did fit.
///
/// # Errors
/// What `fits` fails with.
pub fn reach<E>(from: f64, to: f64, precision: f64, mut fits: impl FnMut(f64) -> Result<bool, E>) -> Result<Reach, E> {
    if !fits(from)? {
        return Ok(Reach { fits: None, fails: Some(from) });
    }
    if fits(to)? {
        return Ok(Reach { fits: Some(to), fails: None });
    }
    let (mut good, mut bad) = (from, to);
    while bad - good > precision * good.abs().max(1.0) {
        // The middle of the exponents where both are positive: a range may span decades.
        let middle = if good > 0.0 && bad / good > 4.0 { (good * bad).sqrt() } else { (good + bad) / 2.0 };
        if fits(middle)? { good = middle } else { bad = middle }
    }
    Ok(Reach { fits: Some(good), fails: Some(bad) })
}

/// So many values from `from` to `to`, in equal steps.
pub fn steps(from: f64, to: f64, count: usize) -> Vec<f64> {
    let last = count.max(2) - 1;
    (0..=last).map(|n| from + (to - from) * n as f64 / last as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn until(limit: f64, from: f64, to: f64) -> (Reach, u32) {
        let mut asked = 0;
        let found = reach::<Infallible>(from, to, 0.001, |value| {
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
        assert_eq!(until(5.0, 10.0, 100.0).0, Reach { fits: None, fails: Some(10.0) });
        assert_eq!(until(500.0, 10.0, 100.0).0, Reach { fits: Some(100.0), fails: None });
    }

    #[test]
    fn steps_have_both_ends() {
        assert_eq!(steps(0.0, 1.0, 5), [0.0, 0.25, 0.5, 0.75, 1.0]);
    }
}
