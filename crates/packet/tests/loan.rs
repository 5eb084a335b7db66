//! External buffers: a packet in one behaves like a packet with an owned buffer, and every external
//! buffer is released exactly once.

use packet::{Batch, ExternalBuf, ExternalBufOwner, HEADROOM, MAX_LEN, Packet, PortId};
use parking_lot::{Mutex, MutexGuard};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

static LENDER: ExternalBufOwner = ExternalBufOwner::new("test", |token| *returned().entry(token).or_default() += 1);
static OTHER: ExternalBufOwner = ExternalBufOwner::new("other", |_| {});
static RETURNED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Returns the number of releases per token.
fn returned() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    RETURNED.lock()
}

fn times(token: usize) -> usize {
    returned().get(&token).copied().unwrap_or(0)
}

/// Creates an external buffer of `len` bytes, and its token.
fn loan(len: usize) -> (ExternalBuf, usize) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let token = NEXT.fetch_add(1, Ordering::Relaxed);
    (ExternalBuf::new(vec![0; len].leak(), token, &LENDER), token)
}

fn on_loan(room: usize, start: usize, content: &[u8]) -> (Packet, usize) {
    let (loan, token) = loan(room);
    let mut packet = Packet::new();
    packet.attach_external(loan, start, content.len()).unwrap();
    packet.bytes_mut().copy_from_slice(content);
    (packet, token)
}

#[test]
fn a_loan_goes_back_when_the_packet_ends_or_is_used_again() {
    let ends: [fn(Packet); 4] = [
        drop,
        |mut packet| packet.reset(),
        |mut packet| packet.receive_space(5000).map(drop).unwrap(),
        |mut packet| packet.prepend(3000).map(drop).unwrap(),
    ];
    for end in ends {
        let (packet, token) = on_loan(2048, 128, b"packet");
        assert_eq!(times(token), 0);
        end(packet);
        assert_eq!(times(token), 1);
    }
}

#[test]
fn a_reclaimed_loan_is_not_released() {
    let (mut packet, token) = on_loan(2048, 128, b"packet");
    assert_eq!(packet.take_external_token(&OTHER), None);
    assert_eq!(packet.bytes(), b"packet");
    packet.prepend(10).unwrap();
    assert_eq!(packet.take_external_token(&LENDER), Some((token, 118, 16)));
    assert!(packet.is_empty() && !packet.is_external());
    assert_eq!(packet.take_external_token(&LENDER), None);
    drop(packet);
    assert_eq!(times(token), 0);
}

#[test]
fn a_batch_gives_loans_back_when_it_is_cleared() {
    let mut batch = Batch::new();
    let tokens: Vec<usize> = (0..5)
        .map(|number| {
            let (mut packet, token) = on_loan(256, 0, &[number; 60]);
            packet.ingress_port = PortId(u32::from(number));
            batch.push_swap(&mut packet).unwrap();
            token
        })
        .collect();
    batch.truncate(3);
    assert_eq!(tokens.iter().map(|token| times(*token)).collect::<Vec<_>>(), [0, 0, 0, 1, 1]);
    assert_eq!(batch.packets()[2].bytes(), [2; 60]);
    batch.clear();
    assert!(tokens.iter().all(|token| times(*token) == 1));
}

#[test]
fn bounds_outside_the_buffer_are_refused_and_the_loan_goes_back() {
    let mut packet = Packet::from_bytes(b"as before").unwrap();
    for (room, start, len) in [(100, 50, 51), (100, usize::MAX, 2), (100, 101, 0), (HEADROOM + MAX_LEN + 1, 0, 1)] {
        let (loan, token) = loan(room);
        assert!(packet.attach_external(loan, start, len).is_err());
        assert_eq!(times(token), 1);
        assert_eq!(packet.bytes(), b"as before");
    }
}

proptest! {
    #[test]
    fn a_packet_on_loan_behaves_like_one_of_its_own(
        room in 0..3000usize,
        start in 0..200usize,
        content in prop::collection::vec(any::<u8>(), 0..600),
        steps in prop::collection::vec((0..5u8, 0..700usize), 0..25),
    ) {
        let room = room.max(start + content.len());
        let (mut loaned, token) = on_loan(room, start, &content);
        let mut own = Packet::from_bytes(&content).unwrap();
        for (kind, count) in steps {
            for packet in [&mut loaned, &mut own] {
                match kind {
                    0 => packet.prepend(count).unwrap().fill(0xa5),
                    1 => packet.append(&vec![0x5a; count]).unwrap(),
                    2 => drop(packet.trim_front(count)),
                    3 => packet.replace_front(count, &vec![0x77; count / 2]).unwrap(),
                    _ => packet.set_bytes(&vec![count as u8; count]).unwrap(),
                }
            }
            prop_assert_eq!(loaned.bytes(), own.bytes());
            prop_assert_eq!(loaned.headroom() + loaned.len() + loaned.tailroom(), loaned.whole_buffer_mut().0.len());
            prop_assert_eq!(times(token), usize::from(!loaned.is_external()));
        }
        drop(loaned);
        prop_assert_eq!(times(token), 1);
    }
}
