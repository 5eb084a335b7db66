//! Goes on with a port that another process has handed over.

use crate::hand_over::{HandOver, Kind};
use crate::memif::MemifPort;
use crate::{Port, PortError, RawPort};

/// Goes on with a port that another process has given. That one must not use it any more.
///
/// # Errors
/// The description is none that this version knows, or does not fit the descriptors.
pub fn take_over(given: HandOver) -> Result<Box<dyn Port>, PortError> {
    let HandOver { description, descriptors } = given;
    let unknown = |error: postcard::Error| PortError::TakeOver {
        port: "?".to_owned(),
        why: format!("its description is none that this version knows ({error})"),
    };
    let (kind, rest) = postcard::take_from_bytes::<Kind>(&description).map_err(unknown)?;
    Ok(match kind {
        Kind::Raw => Box::new(RawPort::take_over(postcard::from_bytes(rest).map_err(unknown)?, descriptors)?),
        Kind::Memif => Box::new(MemifPort::take_over(postcard::from_bytes(rest).map_err(unknown)?, descriptors)?),
    })
}
