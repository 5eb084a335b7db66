//! Compares numbers as byte strings with the specification's examples, and with a naive model on
//! bits.

use p4runtime::values::*;
use proptest::prelude::*;

/// Returns an `int<W>` number as two's complement of W bits.
fn word(value: i64, width: u32) -> u64 {
    value as u64 & (u64::MAX >> (64 - width))
}

/// Tests the specification's table of accepted strings, some of which are also the canonical
/// output.
#[test]
fn valid_examples_of_the_specification() {
    let unsigned: [(u32, u64, &[u8], bool); 8] = [
        (8, 99, b"\x63", true),
        (16, 99, b"\x00\x63", false),
        (16, 99, b"\x63", true),
        (16, 12388, b"\x30\x64", true),
        (16, 12388, b"\x00\x30\x64", false),
        (12, 99, b"\x00\x63", false),
        (12, 99, b"\x63", true),
        (12, 99, b"\x00\x00\x63", false),
    ];
    for (width, value, bytes, symmetric) in unsigned {
        assert_eq!(decode(bytes, width), Ok(vec![value]), "bit<{width}> {bytes:x?}");
        assert_eq!(decode_u64(bytes, width), Ok(value));
        assert_eq!(encode(&[value]) == bytes, symmetric, "bit<{width}> {bytes:x?}");
        assert_eq!(is_canonical(bytes), symmetric, "bit<{width}> {bytes:x?}");
    }
    let signed: [(u32, i64, &[u8], bool); 6] = [
        (8, 99, b"\x63", true),
        (8, -99, b"\x9d", true),
        (8, -99, b"\xff\x9d", false),
        (12, -739, b"\xfd\x1d", true),
        (16, 0, b"\x00\x00", false),
        (16, 0, b"\x00", true),
    ];
    for (width, value, bytes, symmetric) in signed {
        let value = word(value, width);
        assert_eq!(decode_signed(bytes, width), Ok(vec![value]), "int<{width}> {bytes:x?}");
        assert_eq!(encode_signed(&[value], width) == bytes, symmetric, "int<{width}> {bytes:x?}");
    }
}

#[test]
fn invalid_examples_of_the_specification() {
    let unsigned: [(u32, &[u8], usize); 5] = [
        (8, b"\x01\x63", 9),
        (16, b"\x01\x00\x63", 17),
        (12, b"\x10\x63", 13),
        (12, b"\x01\x00\x63", 17),
        (12, b"\x00\x40\x63", 15),
    ];
    for (width, bytes, needed) in unsigned {
        assert_eq!(decode(bytes, width), Err(ValueError::TooWide { needed, width }), "bit<{width}> {bytes:x?}");
    }
    for (width, bytes, needed) in [(8, b"\x00\x9d", 9), (12, b"\x8d\x1d", 16)] {
        assert_eq!(decode_signed(bytes, width), Err(ValueError::TooWide { needed, width }), "int<{width}> {bytes:x?}");
    }
    assert_eq!((decode(b"", 8), decode_signed(b"", 16)), (Err(ValueError::Empty), Err(ValueError::Empty)));
}

#[test]
fn edges() {
    assert_eq!(decode(b"\x00", 0), Ok(vec![0]));
    assert_eq!(decode(b"\x01", 0), Err(ValueError::TooWide { needed: 1, width: 0 }));
    assert_eq!((&encode(&[])[..], &encode(&[0, 0])[..]), (&b"\0"[..], &b"\0"[..]));
    assert_eq!(decode_u64(&[0xff; 8], 64), Ok(u64::MAX));
    assert_eq!(decode_u64(&[1, 0, 0, 0, 0, 0, 0, 0, 0], 128), Err(ValueError::TooWide { needed: 65, width: 64 }));
    assert_eq!(decode_into(b"\x01", 65, &mut [0]), Err(ValueError::TooFewWords { words: 1, width: 65 }));
    let mut words = [7; 4];
    decode_into(b"\x05", 65, &mut words).unwrap();
    assert_eq!(words, [5, 0, 0, 0], "what is left over is 0");
    let mut words = [7; 3];
    decode_signed_into(b"\xfe", 65, &mut words).unwrap();
    assert_eq!(words, [u64::MAX - 1, 1, 0], "bits above the width are 0");
    assert_eq!((&encode_signed(&[1], 1)[..], decode_signed(b"\xff", 1)), (&b"\xff"[..], Ok(vec![1])));
    assert_eq!(&encode_signed(&[0x80], 9)[..], b"\x00\x80");
    assert_eq!(&encode_signed(&[0, 1 << 63], 128)[..], [&[0x80][..], &[0; 15]].concat());
}

/// Returns the bits of a string, most significant first.
fn bits(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).rev().map(move |i| byte >> i & 1 == 1)).collect()
}

/// Returns the bits of words, most significant first.
fn bits_of_words(words: &[u64]) -> Vec<bool> {
    words.iter().rev().flat_map(|word| (0..64).rev().map(move |i| word >> i & 1 == 1)).collect()
}

fn without_leading(bits: &[bool], of: bool) -> Vec<bool> {
    bits.iter().copied().skip_while(|bit| *bit == of).collect()
}

/// Removes sign extension by the specification's method.
fn without_sign_extension(bits: &[bool]) -> &[bool] {
    let spare = bits.windows(2).take_while(|pair| pair[0] == pair[1]).count();
    &bits[spare..]
}

fn strings() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(0xff), any::<u8>()];
    prop::collection::vec(byte, 0..24)
}

proptest! {
    #[test]
    fn unsigned_strings_are_read_as_the_specification_says(bytes in strings(), width in 0u32..=160) {
        let significant = without_leading(&bits(&bytes), false);
        match decode(&bytes, width) {
            Ok(words) => {
                prop_assert!(!bytes.is_empty() && significant.len() <= width as usize);
                prop_assert_eq!(words.len(), words_for(width));
                prop_assert_eq!(without_leading(&bits_of_words(&words), false), significant);
                let written = encode(&words);
                prop_assert!(written.len() <= bytes.len() && is_canonical(&written));
                prop_assert_eq!(written == bytes, is_canonical(&bytes));
                prop_assert_eq!(decode(&written, width), Ok(words));
            }
            Err(ValueError::Empty) => prop_assert!(bytes.is_empty()),
            Err(error) => prop_assert_eq!(error, ValueError::TooWide { needed: significant.len(), width }),
        }
    }

    #[test]
    fn signed_strings_are_read_as_the_specification_says(bytes in strings(), width in 1u32..=160) {
        let all = bits(&bytes);
        let significant = without_sign_extension(&all);
        match decode_signed(&bytes, width) {
            Ok(words) => {
                prop_assert!(!bytes.is_empty() && significant.len() <= width as usize);
                let read = bits_of_words(&words);
                let (above, value) = read.split_at(read.len() - width as usize);
                prop_assert!(above.iter().all(|bit| !bit));
                prop_assert_eq!(without_sign_extension(value), significant);
                let written = encode_signed(&words, width);
                prop_assert_eq!(written.len(), significant.len().div_ceil(8));
                prop_assert!(bytes.ends_with(&written));
                prop_assert_eq!(decode_signed(&written, width), Ok(words));
            }
            Err(ValueError::Empty) => prop_assert!(bytes.is_empty()),
            Err(error) => prop_assert_eq!(error, ValueError::TooWide { needed: significant.len(), width }),
        }
    }

    #[test]
    fn every_number_can_be_sent(words in prop::collection::vec(any::<u64>(), 1..4)) {
        let width = 64 * words.len() as u32;
        prop_assert_eq!(decode(&encode(&words), width), Ok(words.clone()));
        prop_assert_eq!(decode_signed(&encode_signed(&words, width), width), Ok(words));
    }
}
