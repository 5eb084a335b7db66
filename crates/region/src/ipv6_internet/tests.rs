//! The numbers of NPTv6, against the example of RFC 6296 and a direct reading of its text.

use super::*;

fn npt(from: &str, to: &str) -> Npt {
    Npt::new(from.parse().unwrap(), to.parse().unwrap())
}

/// RFC 6296, section 3.6, as corrected by erratum 3033: fd01:203:405:1::1234 is
/// 2001:db8:1:d550::1234.
#[test]
fn the_example_of_rfc_6296() {
    let out = npt("fd01:203:405::/48", "2001:db8:1::/48");
    assert_eq!((out.adjustment, out.in_subnet), (0xd54f, true));
    assert_eq!(out.prefix, 0x2001_0db8_0001_0000);
    assert_eq!(out.mask, 0xffff_ffff_ffff_0000);
    assert_eq!(0x0001 + out.adjustment, 0xd550);
    let back = npt("2001:db8:1::/48", "fd01:203:405::/48");
    assert_eq!(back.adjustment, !out.adjustment, "the opposite in ones' complement");
}

#[test]
fn the_word_is_behind_the_prefix_up_to_48_bits() {
    for (len, in_subnet) in [(1, true), (20, true), (48, true), (49, false), (56, false), (64, false)] {
        let found = npt(&format!("8000::/{len}"), &format!("::/{len}"));
        assert_eq!(found.in_subnet, in_subnet, "/{len}");
        assert_eq!(found.mask.leading_ones(), len);
        assert_eq!(found.mask.count_ones(), len);
    }
}

/// The adjustment makes up for the difference of the prefixes: modulo 65535, because ones' complement
/// has two zeros.
#[test]
fn the_adjustment_is_the_difference_of_the_sums() {
    let mut state: u64 = 1;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    for _ in 0..10_000 {
        let len = (random() % 64 + 1) as u8;
        let mut prefix = || {
            Ipv6Net::new(Ipv6Addr::from((u128::from(random()) << 96) | u128::from(random()) << 64), len)
                .unwrap()
                .trunc()
        };
        let (from, to) = (prefix(), prefix());
        let sum = |prefix: Ipv6Net| prefix.addr().segments().iter().map(|word| u64::from(*word)).sum::<u64>();
        let found = Npt::new(from, to);
        assert_eq!((sum(to) + u64::from(found.adjustment)) % 65_535, sum(from) % 65_535, "{from} to {to}");
    }
}
