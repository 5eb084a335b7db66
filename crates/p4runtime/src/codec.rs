//! [`Codec`]: how messages travel: as prost has it, but requests are weighed before they are unpacked.

use crate::unpacked::{TooMuch, weigh};
use bytes::Buf;
use prost::{Message, Name};
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// A request may take so many times its length when it is unpacked, and [`SMALL`].
pub(crate) const UNPACKED: usize = 128;
/// Bytes that any request may take.
pub(crate) const SMALL: usize = 64 << 10;
/// Bytes that no request may take more of when it is unpacked.
pub(crate) const LARGEST: usize = 256 << 20;
/// The same for a read, which is kept until its answer has been taken: tens of thousands of entities.
pub(crate) const LARGEST_OF_READ: usize = 32 << 20;
/// The same for messages of streams: packets, and who wants to be primary.
pub(crate) const LARGEST_OF_STREAM: usize = 1 << 20;

/// For messages that go out as `T` and come in as `U`.
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
    type Decoder = Weighing<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> Weighing<U> {
        Weighing(ProstDecoder::new(BufferSettings::default()))
    }
}

/// Unpacks messages.
#[derive(Clone, Debug)]
pub struct Weighing<U>(ProstDecoder<U>);

impl<U: Message + Default + Name> Decoder for Weighing<U> {
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
            weigh(&U::full_name(), buffer.chunk(), bound).map_err(|TooMuch| {
                let (bytes, mib) = (buffer.remaining(), bound >> 20);
                Status::resource_exhausted(format!(
                    "the message has {bytes} bytes and would take more than {mib} MiB when it is unpacked; send fewer things at once"
                ))
            })?;
        }
        self.0.decode(buffer)
    }
}
