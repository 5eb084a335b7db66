//! What the controller wants back with an entry, in the one field that [`entries`] keeps for it: its `metadata`, its `controller_metadata`, and
//! how it wrote the modes of an action set.
//!
//! Metadata alone is kept as it is. Anything else has a mark in front, which metadata that begins with it gets too.

use bytes::Bytes;

const MARK: u8 = 0xff;
/// Mark, modes, cookie.
const FRAME: usize = 10;

/// What the controller wants back with an entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Remark {
    /// `metadata`.
    pub metadata: Bytes,
    /// `controller_metadata`.
    pub cookie: u64,
    /// `action_selection_mode`, as it was written.
    pub selection: u8,
    /// `size_semantics`, as it was written.
    pub semantics: u8,
}

impl Remark {
    /// As it is kept.
    pub fn pack(&self) -> Vec<u8> {
        let plain = self.cookie == 0 && self.selection == 0 && self.semantics == 0;
        if plain && self.metadata.first() != Some(&MARK) {
            return self.metadata.to_vec();
        }
        let mut out = Vec::with_capacity(FRAME + self.metadata.len());
        out.extend([MARK, self.selection << 4 | self.semantics & 0xf]);
        out.extend(self.cookie.to_be_bytes());
        out.extend(&self.metadata[..]);
        out
    }

    /// What was kept.
    pub fn unpack(kept: &[u8]) -> Remark {
        let framed = kept.split_first_chunk::<FRAME>().filter(|(frame, _)| frame[0] == MARK);
        let Some(([_, modes, cookie @ ..], metadata)) = framed else {
            return Remark { metadata: Bytes::copy_from_slice(kept), ..Remark::default() };
        };
        Remark {
            metadata: Bytes::copy_from_slice(metadata),
            cookie: u64::from_be_bytes(*cookie),
            selection: modes >> 4,
            semantics: modes & 0xf,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn metadata_alone_is_kept_as_it_is() {
        let remark = Remark { metadata: Bytes::from_static(b"me"), ..Remark::default() };
        assert_eq!(remark.pack(), b"me");
    }

    proptest! {
        #[test]
        fn comes_back(
            metadata in proptest::collection::vec(prop_oneof![Just(MARK), any::<u8>()], 0..20),
            cookie in prop_oneof![Just(0), any::<u64>()],
            selection in 0..3u8,
            semantics in 0..3u8,
        ) {
            let remark = Remark { metadata: metadata.into(), cookie, selection, semantics };
            prop_assert_eq!(Remark::unpack(&remark.pack()), remark);
        }
    }
}
