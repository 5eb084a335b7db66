//! Property test: under any sequence of operations a packet behaves like a plain vector of bytes.

use packet::{HEADROOM, MAX_LEN, Packet};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Prepend(usize),
    Append(Vec<u8>),
    TrimFront(usize),
    Truncate(usize),
    ReplaceFront(usize, Vec<u8>),
    SetBytes(Vec<u8>),
    Receive(usize, usize),
    MakeRoom(usize, usize),
    SetBounds(usize, usize),
    Reset,
}

/// Mostly small, sometimes around the limits, sometimes far beyond.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 0..300usize,
        2 => 0..MAX_LEN + 300,
        1 => Just(usize::MAX),
        1 => Just(MAX_LEN),
    ]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..300),
        1 => (0..MAX_LEN + 100).prop_map(|len| (0..len).map(|i| i as u8).collect()),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        length().prop_map(Step::Prepend),
        content().prop_map(Step::Append),
        length().prop_map(Step::TrimFront),
        length().prop_map(Step::Truncate),
        (length(), content()).prop_map(|(removed, headers)| Step::ReplaceFront(removed, headers)),
        content().prop_map(Step::SetBytes),
        (length(), length()).prop_map(|(space, len)| Step::Receive(space, len)),
        (length(), length()).prop_map(|(front, back)| Step::MakeRoom(front, back)),
        (length(), length()).prop_map(|(start, len)| Step::SetBounds(start, len)),
        Just(Step::Reset),
    ]
}

/// Applies a step to the packet and to the model. Rejected steps must leave both unchanged.
fn apply(packet: &mut Packet, model: &mut Vec<u8>, step: &Step) {
    let len = model.len();
    let fits = |extra: usize| len.saturating_add(extra) <= MAX_LEN;
    match step {
        Step::Prepend(count) => match packet.prepend(*count) {
            Ok(added) => {
                assert!(fits(*count));
                assert_eq!(added.len(), *count);
                assert!(added.iter().all(|byte| *byte == 0), "prepended bytes are zero");
                added.fill(0xa5);
                model.splice(0..0, std::iter::repeat_n(0xa5, *count));
            }
            Err(_) => assert!(!fits(*count)),
        },
        Step::Append(bytes) => {
            assert_eq!(packet.append(bytes).is_ok(), fits(bytes.len()));
            if fits(bytes.len()) {
                model.extend_from_slice(bytes);
            }
        }
        Step::TrimFront(count) => {
            assert_eq!(packet.trim_front(*count).is_ok(), *count <= len);
            if *count <= len {
                model.drain(..*count);
            }
        }
        Step::Truncate(len) => {
            packet.truncate(*len);
            model.truncate(*len);
        }
        Step::ReplaceFront(removed, headers) => {
            let removed = (*removed).min(len);
            let fits = len - removed + headers.len() <= MAX_LEN;
            assert_eq!(packet.replace_front(removed, headers).is_ok(), fits);
            if fits {
                model.splice(0..removed, headers.iter().copied());
            }
        }
        Step::SetBytes(bytes) => {
            assert_eq!(packet.set_bytes(bytes).is_ok(), bytes.len() <= MAX_LEN);
            if bytes.len() <= MAX_LEN {
                model.clone_from(bytes);
            }
        }
        Step::Receive(space, len) => match packet.receive_space(*space) {
            Ok(lent) => {
                assert_eq!(lent.len(), *space);
                lent.fill(0x5a);
                // A receiver can only report bytes that it was lent.
                let len = (*len).min(*space);
                packet.set_received_len(len);
                *model = vec![0x5a; len];
            }
            Err(_) => assert!(*space > MAX_LEN),
        },
        Step::MakeRoom(front, back) => {
            let fits = len.saturating_add(*front).saturating_add(*back) <= MAX_LEN;
            assert_eq!(packet.reserve(*front, *back).is_ok(), fits);
            if fits {
                assert!(packet.headroom() >= *front && packet.tailroom() >= *back);
            }
        }
        Step::SetBounds(start, len) => {
            let whole = packet.whole_buffer_mut().0.to_vec();
            let inside = start.checked_add(*len).is_some_and(|end| end <= whole.len()) && *len <= MAX_LEN;
            assert_eq!(packet.set_bounds(*start, *len).is_ok(), inside);
            if inside {
                *model = whole[*start..*start + *len].to_vec();
            }
        }
        Step::Reset => {
            packet.reset();
            model.clear();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn behaves_like_a_vector(steps in prop::collection::vec(step(), 1..40)) {
        let mut packet = Packet::new();
        let mut model = Vec::new();
        for step in &steps {
            apply(&mut packet, &mut model, step);
            prop_assert_eq!(packet.bytes(), model.as_slice(), "after {:?}", step);
            prop_assert_eq!(packet.len(), model.len());
            prop_assert!(packet.len() <= MAX_LEN);
            let whole = packet.whole_buffer_mut().0.len();
            // Buffers are whole cache lines.
            prop_assert!(whole <= (HEADROOM + MAX_LEN).next_multiple_of(64), "memory is bounded");
            prop_assert_eq!(packet.headroom() + packet.len() + packet.tailroom(), whole);
        }
        let copy = packet.clone();
        prop_assert_eq!(copy.bytes(), model.as_slice());
    }
}

#[test]
fn prepending_within_the_headroom_moves_no_bytes() {
    let mut packet = Packet::from_bytes(&[7; 100]).unwrap();
    let payload = packet.bytes().as_ptr();
    packet.prepend(HEADROOM).unwrap();
    assert_eq!(packet.bytes()[HEADROOM..].as_ptr(), payload);
    assert_eq!(packet.headroom(), 0);
    packet.prepend(1).unwrap();
    assert_ne!(packet.bytes()[HEADROOM + 1..].as_ptr(), payload, "now it had to move");
    assert_eq!(packet.headroom(), HEADROOM, "and got its headroom back");
}

#[test]
fn reuse_allocates_nothing() {
    let mut packet = Packet::from_bytes(&[1; 1500]).unwrap();
    let buffer = packet.whole_buffer_mut().0.as_ptr();
    for len in [0, 60, 1500, 1792] {
        packet.reset();
        packet.set_bytes(&vec![2; len]).unwrap();
        assert_eq!(packet.whole_buffer_mut().0.as_ptr(), buffer);
    }
}
