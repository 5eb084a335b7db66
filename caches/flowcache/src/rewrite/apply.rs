//! Byte-by-byte execution of a rewrite: the semantics of the kernel program.

use super::form::{FlowAction, FlowRewrite, NewHeader, WINDOW, window};

impl FlowRewrite {
    /// Returns whether the rewrite applies to a packet with its key: length and checksums.
    pub fn can_apply(&self, bytes: &[u8]) -> bool {
        let (first, last) = self.lengths;
        let window = window(bytes);
        let length = bytes.len();
        (first as usize..=last as usize).contains(&length)
            && self.checks.iter().all(|check| check.holds_for(check.sum.constant, &window, length))
    }

    /// Rewrites a packet, which must have the key and pass [`FlowRewrite::can_apply`]. Writes its
    /// bytes to `out` and returns the egress port; `None`: the packet is dropped.
    pub fn apply_to(&self, bytes: &[u8], out: &mut Vec<u8>) -> Option<u32> {
        out.clear();
        match &self.action {
            FlowAction::Drop(_) => None,
            FlowAction::Forward { port, head } => {
                head.write_packet(bytes, out);
                Some(*port)
            }
        }
    }
}

impl NewHeader {
    /// Writes the new packet to `out`: the new header, then the received packet's bytes after the
    /// replaced ones.
    pub(super) fn write_packet(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let received = window(bytes);
        let mut head = [0u8; WINDOW];
        for (at, byte) in head.iter_mut().enumerate().take(self.len as usize) {
            let source = at as isize - self.len_delta as isize;
            let kept_byte = usize::try_from(source).ok().and_then(|source| received.get(source)).copied().unwrap_or(0);
            *byte = kept_byte & self.keep_mask[at] | self.set_bytes[at];
        }
        for (at, add) in &self.lengths {
            let value = (bytes.len() as i64 + i64::from(*add)) as u16;
            head[*at as usize..*at as usize + 2].copy_from_slice(&value.to_be_bytes());
        }
        for (at, sum, complement) in &self.sums {
            let value = sum.of(&received, bytes.len()) ^ if *complement { 0xffff } else { 0 };
            head[*at as usize..*at as usize + 2].copy_from_slice(&value.to_be_bytes());
        }
        out.extend_from_slice(&head[..self.len as usize]);
        let payload = (self.len as isize - self.len_delta as isize).max(0) as usize;
        out.extend_from_slice(bytes.get(payload..).unwrap_or_default());
    }
}
