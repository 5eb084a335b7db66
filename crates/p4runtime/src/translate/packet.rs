//! `PacketIn` and `PacketOut`: conversion between the controller header of a packet and metadata
//! (section "Packet I/O").

use super::schema::Schema;
use crate::proto::v1;
use crate::{Code, P4RuntimeError};
use bytes::{Bytes, BytesMut};

impl Schema {
    /// Converts a packet for the controller: its header becomes metadata. Without a `packet_in`
    /// header in the program, the whole packet is payload.
    ///
    /// # Errors
    /// `INTERNAL` if the packet is shorter than the header.
    pub fn packet_in(&self, packet: &Bytes) -> Result<v1::PacketIn, P4RuntimeError> {
        let Some(header) = &self.packet_in else {
            return Ok(v1::PacketIn { payload: packet.clone(), metadata: Vec::new() });
        };
        if packet.len() < header.len {
            return Err(P4RuntimeError::new(
                Code::Internal,
                format!("packet_in: a packet of {} bytes is shorter than the header's {}", packet.len(), header.len),
            ));
        }
        Ok(v1::PacketIn { payload: packet.slice(header.len..), metadata: header.decode(&packet[..header.len]) })
    }

    /// Converts a packet from the controller: its metadata become the header before the payload.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if metadata are missing, unknown or duplicate; `OUT_OF_RANGE` if a value
    /// is too wide.
    pub fn packet_out(&self, packet: &v1::PacketOut) -> Result<Bytes, P4RuntimeError> {
        let Some(header) = &self.packet_out else {
            return match packet.metadata.is_empty() {
                true => Ok(packet.payload.clone()),
                false => {
                    Err(P4RuntimeError::invalid("packet_out: the program has no such header; leave the metadata out"))
                }
            };
        };
        let front = header.encode(&packet.metadata)?;
        let mut out = BytesMut::with_capacity(front.len() + packet.payload.len());
        out.extend_from_slice(&front);
        out.extend_from_slice(&packet.payload);
        Ok(out.freeze())
    }
}
