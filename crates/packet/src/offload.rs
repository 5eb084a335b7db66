//! Work that the sender of a packet left to a network card: an open checksum, segmentation.

/// Work that remains before a packet can be on a wire. The default, [`Offload::NONE`], is that of
/// all packets that arrive complete.
///
/// The kernel hands over such packets on virtual interfaces, because their sender expects a card
/// that computes checksums (VIRTIO 1.2, section 5.1.6.2: `VIRTIO_NET_HDR_F_NEEDS_CSUM`) and cuts a
/// long TCP or UDP packet, a *super-frame*, into segments (GSO).
///
/// The description has no offsets from the packet's start, because headers before the transport
/// header can grow, shrink and change. A port that finishes the packet finds the headers itself and
/// compares their distance from the packet's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// Length in bytes from the start of the innermost TCP or UDP header to the packet's end, if
    /// its checksum is open: the checksum field then has any value. 0 if no checksum is open.
    pub transport_len: u16,
    /// Maximum length in bytes of the transport payload of a segment (Linux: `gso_size`). 0 unless
    /// the packet is a super-frame. A super-frame has an open checksum.
    pub segment_payload: u16,
    /// Length in bytes by which the packet exceeds its longest segment. 0 unless the packet is a
    /// super-frame.
    pub segment_excess: u16,
    /// Offset in bytes of the checksum field in the transport header: 16 of TCP, 6 of UDP.
    pub checksum_offset: u8,
    /// Whether only the first segment keeps the TCP flag CWR (`VIRTIO_NET_HDR_GSO_ECN`).
    pub has_ecn: bool,
}

impl Offload {
    /// The packet is complete.
    pub const NONE: Offload =
        Offload { transport_len: 0, segment_payload: 0, segment_excess: 0, checksum_offset: 0, has_ecn: false };

    /// Returns the description of a packet with an open checksum, but of one segment: the length
    /// from its transport header on, and the offset of the checksum there, in bytes.
    pub const fn open_checksum(transport_len: usize, checksum_offset: usize) -> Offload {
        let (transport_len, checksum_offset) = (transport_len as u16, checksum_offset as u8);
        Offload { transport_len, segment_payload: 0, segment_excess: 0, checksum_offset, has_ecn: false }
    }

    /// Reports whether the packet is complete.
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.transport_len == 0
    }

    /// Reports whether the packet consists of several segments.
    #[inline]
    pub const fn is_super_frame(&self) -> bool {
        self.segment_payload != 0
    }
}
