//! Interfaces that the flow cache is attached to, and at which hook.

use super::lost::InterfaceKey;

/// Hook of the program at an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// XDP, in the driver.
    Native,
    /// XDP in the stack, after the driver: much slower.
    Generic,
    /// tc (tcx), after the driver: forwards super-frames and open checksums as they are.
    Tc,
}

impl XdpMode {
    /// Returns the name that `terrace show ports` prints.
    pub fn name(self) -> &'static str {
        match self {
            XdpMode::Native => "xdp",
            XdpMode::Generic => "xdp, generic",
            XdpMode::Tc => "tc",
        }
    }
}

/// A port that the program is attached to.
pub(super) struct AttachedInterface {
    /// Port number.
    pub number: u32,
    pub name: String,
    pub interface: InterfaceKey,
    pub mode: XdpMode,
    /// Whether its device refuses packets from XDP programs.
    pub refuses: bool,
}
