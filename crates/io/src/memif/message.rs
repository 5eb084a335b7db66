//! Messages of memif's control channel, version 2.0: 128 bytes each, numbers in host order, because
//! both ends are on one machine.

use super::ConnectionFault;

/// Length of every message, in bytes.
pub const MESSAGE_BYTES: usize = 128;
/// Version 2.0.
pub const VERSION: u16 = 0x0200;
/// Length of a name field, in bytes.
const NAME: usize = 32;
/// Length of a secret field, in bytes.
const SECRET: usize = 24;
/// Offset of the fields of a message, after its type.
const BODY: usize = 2;
/// Flag of [`Message::AddRing`]: the ring carries packets from the client to the server.
const TO_SERVER: u16 = 1;

/// A control message. The client owns the rings and regions of both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Acknowledges the last message.
    Ack,
    /// The server's first message, with its limits. Indices, thus one less than the number.
    Hello {
        /// Lowest and highest supported version.
        versions: (u16, u16),
        /// Maximum index of a region.
        max_region: u16,
        /// Maximum index of a ring to the client.
        max_to_client: u16,
        /// Maximum index of a ring to the server.
        max_to_server: u16,
        /// Maximum size of a ring, as logarithm to base 2.
        max_log2_size: u8,
    },
    /// The client's first message.
    Init {
        /// The selected version.
        version: u16,
        /// The interface of this socket.
        id: u32,
        /// Mode of the interface; 0: Ethernet.
        mode: u8,
    },
    /// A memory region, sent with its descriptor.
    AddRegion {
        /// Index of the region, from 0.
        index: u16,
        /// Size in bytes.
        size: u64,
    },
    /// A ring, sent with the descriptor of its interrupt.
    AddRing(RingLocation),
    /// The client has sent all regions and rings.
    Connect,
    /// The server uses the rings from now on.
    Connected,
    /// Ends the connection, with a reason.
    Disconnect(String),
}

/// Location of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RingLocation {
    /// Whether it carries packets from the client to the server, or in the other direction.
    pub to_server: bool,
    /// Index within its direction, from 0.
    pub index: u16,
    /// Index of its region.
    pub region: u16,
    /// Offset in the region, in bytes.
    pub offset: u32,
    /// Number of its descriptors, as logarithm to base 2.
    pub log2_size: u8,
    /// Size of the private area after its header, in bytes; not supported here.
    pub private: u16,
}

/// Writes the fields of a message in order.
struct FieldWriter {
    bytes: [u8; MESSAGE_BYTES],
    at: usize,
}

impl FieldWriter {
    fn put(mut self, bytes: &[u8]) -> FieldWriter {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    /// Writes a text to a field of `field_len` bytes, filled with zeros. Cuts a longer text between
    /// two characters.
    fn text(self, text: &str, field_len: usize) -> FieldWriter {
        // At least one zero remains at the end.
        let mut end = text.len().min(field_len - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let start = self.at;
        let mut writer = self.put(&text.as_bytes()[..end]);
        writer.at = start + field_len;
        writer
    }
}

/// Reads the fields of a message in order. The caller stays within the 128 bytes.
struct FieldReader<'a>(&'a [u8]);

impl FieldReader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.0[..N]);
        self.0 = &self.0[N..];
        field
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }
}

impl Message {
    /// Encodes the message. `name` is the name of this end for the other one. The first two bytes
    /// are the type, and unused bytes are zero.
    pub fn encode(&self, name: &str) -> [u8; MESSAGE_BYTES] {
        let writer = |kind: u16| FieldWriter { bytes: [0; MESSAGE_BYTES], at: 0 }.put(&kind.to_ne_bytes());
        match self {
            Message::Ack => writer(1),
            Message::Hello { versions, max_region, max_to_client, max_to_server, max_log2_size } => {
                let writer = writer(2).text("terrace", NAME);
                let numbers = [versions.0, versions.1, *max_region, *max_to_client, *max_to_server];
                let writer = numbers.iter().fold(writer, |writer, number| writer.put(&number.to_ne_bytes()));
                writer.put(&[*max_log2_size])
            }
            Message::Init { version, id, mode } => {
                let writer = writer(3).put(&version.to_ne_bytes()).put(&id.to_ne_bytes()).put(&[*mode]);
                writer.put(&[0; SECRET]).text("terrace", NAME)
            }
            Message::AddRegion { index, size } => writer(4).put(&index.to_ne_bytes()).put(&size.to_ne_bytes()),
            Message::AddRing(ring) => {
                let flags = if ring.to_server { TO_SERVER } else { 0 };
                let numbers = [flags, ring.index, ring.region];
                let writer = numbers.iter().fold(writer(5), |writer, number| writer.put(&number.to_ne_bytes()));
                writer.put(&ring.offset.to_ne_bytes()).put(&[ring.log2_size]).put(&ring.private.to_ne_bytes())
            }
            Message::Connect => writer(6).text(name, NAME),
            Message::Connected => writer(7).text(name, NAME),
            Message::Disconnect(why) => writer(8).put(&0u32.to_ne_bytes()).text(why, 96),
        }
        .bytes
    }

    /// Decodes a message. Ignores the name and the secret of the other end.
    ///
    /// # Errors
    /// The type is unknown.
    pub fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Result<Message, ConnectionFault> {
        let kind = u16::from_ne_bytes([bytes[0], bytes[1]]);
        let mut reader = FieldReader(&bytes[BODY..]);
        Ok(match kind {
            1 => Message::Ack,
            2 => {
                reader.take::<NAME>();
                let versions = (reader.u16(), reader.u16());
                let [max_region, max_to_client, max_to_server] = [reader.u16(), reader.u16(), reader.u16()];
                let [max_log2_size] = reader.take();
                Message::Hello { versions, max_region, max_to_client, max_to_server, max_log2_size }
            }
            3 => {
                let (version, id) = (reader.u16(), reader.u32());
                let [mode] = reader.take();
                Message::Init { version, id, mode }
            }
            4 => Message::AddRegion { index: reader.u16(), size: u64::from_ne_bytes(reader.take()) },
            5 => {
                let (flags, index, region) = (reader.u16(), reader.u16(), reader.u16());
                let offset = reader.u32();
                let [log2_size] = reader.take();
                let (to_server, private) = (flags & TO_SERVER != 0, reader.u16());
                Message::AddRing(RingLocation { to_server, index, region, offset, log2_size, private })
            }
            6 => Message::Connect,
            7 => Message::Connected,
            8 => {
                reader.u32();
                let text = reader.take::<96>();
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                let text = String::from_utf8_lossy(&text[..end]);
                Message::Disconnect(text.chars().filter(|c| !c.is_control()).collect())
            }
            other => return Err(ConnectionFault::new(format!("message type {other} is not known"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were() {
        let ring = RingLocation { to_server: true, index: 3, region: 2, offset: 77, log2_size: 9, private: 0 };
        let hello = Message::Hello {
            versions: (VERSION, VERSION),
            max_region: 255,
            max_to_client: 1,
            max_to_server: 2,
            max_log2_size: 14,
        };
        let all = [
            Message::Ack,
            hello,
            Message::Init { version: VERSION, id: 0x0102_0304, mode: 0 },
            Message::AddRegion { index: 1, size: 1 << 33 },
            Message::AddRing(ring),
            Message::AddRing(RingLocation { to_server: false, ..ring }),
            Message::Connect,
            Message::Connected,
            Message::Disconnect("it is over".into()),
        ];
        for message in all {
            assert_eq!(Message::decode(&message.encode("name")).expect("known"), message);
        }
    }

    #[test]
    fn fields_lie_where_the_protocol_has_them() {
        let bytes = Message::Init { version: VERSION, id: 5, mode: 0 }.encode("x");
        assert_eq!((bytes[0], bytes[2..4].to_vec(), bytes[4]), (3, VERSION.to_ne_bytes().to_vec(), 5));
        let ring = RingLocation { to_server: true, index: 3, region: 2, offset: 77, log2_size: 9, private: 0 };
        let bytes = Message::AddRing(ring).encode("x");
        assert_eq!((bytes[2], bytes[4], bytes[6], bytes[8], bytes[12]), (1, 3, 2, 77, 9));
    }

    #[test]
    fn any_bytes_are_a_message_or_refused() {
        for _ in 0..10_000 {
            let mut bytes = [0; MESSAGE_BYTES];
            bytes.fill_with(|| fastrand::u8(..));
            bytes[0] %= 12;
            bytes[1] = 0;
            let _ = Message::decode(&bytes);
        }
        let long = Message::Disconnect("ä".repeat(100));
        assert!(matches!(Message::decode(&long.encode("")), Ok(Message::Disconnect(_))));
        assert!(Message::decode(&[9; MESSAGE_BYTES]).is_err());
    }
}
