//! Opens a port that another process has transferred.

use crate::memif::MemifPort;
use crate::port_transfer::{PortTransfer, TransferKind};
use crate::{Port, PortError, RawPort};

/// Continues a port that another process has transferred. That process must not use it any more.
///
/// # Errors
/// This version does not support the description, or it does not fit the descriptors.
pub fn open_transferred(transfer: PortTransfer) -> Result<Box<dyn Port>, PortError> {
    let PortTransfer { description, descriptors } = transfer;
    let unknown = |error: postcard::Error| PortError::TakeOver {
        port: "?".to_owned(),
        why: format!("its description is none that this version knows ({error})"),
    };
    // The description is the kind of the port, followed by the state that this kind defines.
    let (kind, state) = postcard::take_from_bytes::<TransferKind>(&description).map_err(unknown)?;
    Ok(match kind {
        TransferKind::Raw => {
            Box::new(RawPort::from_transfer(postcard::from_bytes(state).map_err(unknown)?, descriptors)?)
        }
        TransferKind::RawWithTap => {
            Box::new(RawPort::from_transfer_with_tap(postcard::from_bytes(state).map_err(unknown)?, descriptors)?)
        }
        TransferKind::Memif => {
            Box::new(MemifPort::from_transfer(postcard::from_bytes(state).map_err(unknown)?, descriptors)?)
        }
    })
}
