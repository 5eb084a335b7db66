//! Controller data of an entry, in the single `metadata` field of [`entries`]: its `metadata`, its
//! `controller_metadata`, and the modes of its action set as written.
//!
//! Metadata alone is stored as it is. All other data, and metadata that start with the byte
//! [`MARK`], have a header.

use bytes::Bytes;

const MARK: u8 = 0xff;
/// Length of the header in bytes: mark, modes, cookie.
const FRAME: usize = 10;

/// Controller data of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct EntryMetadata {
    /// `metadata`.
    pub metadata: Bytes,
    /// `controller_metadata`.
    pub cookie: u64,
    /// `action_selection_mode`, as written.
    pub selection: u8,
    /// `size_semantics`, as written.
    pub semantics: u8,
}

impl EntryMetadata {
    /// Packs the data into the stored form.
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

    /// Unpacks the stored form.
    pub fn unpack(kept: &[u8]) -> EntryMetadata {
        let framed = kept.split_first_chunk::<FRAME>().filter(|(frame, _)| frame[0] == MARK);
        let Some(([_, modes, cookie @ ..], metadata)) = framed else {
            return EntryMetadata { metadata: Bytes::copy_from_slice(kept), ..EntryMetadata::default() };
        };
        EntryMetadata {
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
        let remark = EntryMetadata { metadata: Bytes::from_static(b"me"), ..EntryMetadata::default() };
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
            let remark = EntryMetadata { metadata: metadata.into(), cookie, selection, semantics };
            prop_assert_eq!(EntryMetadata::unpack(&remark.pack()), remark);
        }
    }
}
