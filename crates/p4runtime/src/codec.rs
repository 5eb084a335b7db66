//! [`Codec`]: prost's encoding of messages, with a bound on the decoded size of requests.

use crate::decoded_size::{DecodedTooLarge, weigh};
use bytes::Buf;
use prost::{Message, Name};
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// Maximum ratio of a request's decoded size to its length, beyond [`SMALL`].
pub(crate) const UNPACKED: usize = 128;
/// Decoded size in bytes that every request is allowed.
pub(crate) const SMALL: usize = 64 << 10;
/// Maximum decoded size of a request in bytes.
pub(crate) const LARGEST: usize = 256 << 20;
/// Maximum decoded size of a read request in bytes: tens of thousands of entities. It is lower,
/// because the request is kept until its response has been received.
pub(crate) const LARGEST_OF_READ: usize = 32 << 20;
/// Maximum decoded size of a stream message in bytes: packets and arbitration updates.
pub(crate) const LARGEST_OF_STREAM: usize = 1 << 20;

/// Codec for messages sent as `T` and received as `U`.
#[derive(Clone, Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Codec<T, U> {
        Codec(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Name + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> BoundedDecoder<U> {
        BoundedDecoder(ProstDecoder::new(BufferSettings::default()))
    }
}

/// Decoder that rejects messages with a decoded size beyond the bound.
#[derive(Clone, Debug)]
pub struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default + Name> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        if U::NAME.ends_with("Request") {
            let largest = match U::NAME {
                "ReadRequest" => LARGEST_OF_READ,
                name if name.starts_with("Stream") => LARGEST_OF_STREAM,
                _ => LARGEST,
            };
            let bound = largest.min(SMALL + UNPACKED * buffer.remaining());
            weigh(&U::full_name(), buffer.chunk(), bound).map_err(|DecodedTooLarge| {
                let (bytes, mib) = (buffer.remaining(), bound >> 20);
                Status::resource_exhausted(format!(
                    "the message has {bytes} bytes and would take more than {mib} MiB when it is decoded; send fewer things at once"
                ))
            })?;
        }
        self.0.decode(buffer)
    }
}
