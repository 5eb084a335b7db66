//! The host side of an uplink: the interface by which the host's own stack (ARP, BGP, BFD, ping)
//! uses the uplink beside the gateway.

use crate::fields::{NameText, non_null};
use crate::spanned::WithPos;
use schemars::JsonSchema;
use serde::Deserialize;

/// The host side of an uplink.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSide {
    /// Name of the port's own interface, which keeps its addresses in the kernel.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<NameText>")]
    pub interface: Option<WithPos<NameText>>,
}

/// The interface on the host side of an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostInterface<'a> {
    /// The port's own interface, of this name.
    Kernel(&'a str),
}

impl<'a> HostInterface<'a> {
    /// Returns the name of the interface.
    pub fn name(self) -> &'a str {
        match self {
            HostInterface::Kernel(name) => name,
        }
    }
}
