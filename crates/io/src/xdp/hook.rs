//! Attaches the flow cache to interfaces.

use super::XdpError;
use super::attached::{AttachedInterface, XdpMode};
use super::classifier::attach_classifier;
use super::kernel::{PORTS, XdpProgram, XdpProgramState, map_error, program};
use super::lost::InterfaceKey;
use super::maps::XdpExit;
use super::refusal::error_chain;
use aya::programs::tc::SchedClassifierLink;
use aya::programs::xdp::XdpLink;
use aya::programs::{TcAttachType, XdpFlags};

/// Flag in a value of the map `ports`, beside the port's slot: the program runs after the driver.
const BEHIND_DRIVER: u32 = 0x100;

/// Attachment of the program, which ends when it is dropped.
pub(super) enum HookLink {
    Xdp { _link: XdpLink },
    Tc { _link: SchedClassifierLink },
}

/// An interface of the calling thread's network namespace, to which the program is to be attached.
#[derive(Clone, Copy)]
pub(super) struct NewInterface<'n> {
    pub name: &'n str,
    pub index: u32,
    /// MTU in bytes.
    pub mtu: u32,
    /// Port number.
    pub number: u32,
    pub mode: XdpMode,
    /// Interface that receives packets without a flow at the tc hook; 0 without it.
    pub misses: u32,
}

impl XdpProgram {
    /// Returns number and name of the ports whose devices refuse packets from XDP programs. Packets
    /// of flows from XDP to these ports are passed to the process.
    pub fn refusing_ports(&self) -> Vec<(u32, String)> {
        let inner = self.inner();
        let refusing = inner.attached.values().filter(|attached| attached.refuses);
        refusing.map(|attached| (attached.number, attached.name.clone())).collect()
    }

    /// Returns number, name and hook of each port.
    pub fn hooks(&self) -> Vec<(u32, String, XdpMode)> {
        let inner = self.inner();
        inner.attached.values().map(|attached| (attached.number, attached.name.clone(), attached.mode)).collect()
    }

    /// Returns the slot of the port of this number, if the program is attached to it.
    pub fn slot_of_port(&self, number: u32) -> Option<u32> {
        self.inner().attached.iter().find(|(_, attached)| attached.number == number).map(|(slot, _)| *slot)
    }

    /// Returns whether the program can send packets from one slot to another. The tc hook only
    /// reaches interfaces of the same network namespace.
    pub fn can_forward(&self, from: u32, to: u32) -> bool {
        let inner = self.inner();
        let [from, to] = [from, to].map(|slot| inner.attached.get(&slot));
        from.zip(to)
            .is_some_and(|(from, to)| from.mode != XdpMode::Tc || from.interface.namespace == to.interface.namespace)
    }

    /// Sets whether packets of flows from XDP to a port slot are passed to the process.
    pub(super) fn set_refusing(&self, slot: u32, refuses: bool) {
        let mut inner = self.inner();
        // Does not fail, because the slot is in range.
        let _ = inner.refusing.set(slot, u32::from(refuses), 0);
        if let Some(attached) = inner.attached.get_mut(&slot) {
            attached.refuses = refuses;
        }
    }

    /// Sets the interfaces of a slot at the tc hook.
    pub(super) fn set_exit(&self, slot: u32, exit: XdpExit) {
        // Does not fail, because the slot is in range.
        let _ = self.inner().exits.set(slot, exit, 0);
    }

    /// Attaches the program to an interface. Returns the port's slot in the maps, and the
    /// attachment. The maps get their values first, because packets arrive once the program is
    /// attached.
    ///
    /// # Errors
    /// The kernel refuses it, another program is attached, or there are too many ports.
    pub(super) fn attach(&self, new_interface: NewInterface<'_>) -> Result<(u32, HookLink), XdpError> {
        let NewInterface { name, index, mtu, number, mode, misses } = new_interface;
        let mut inner = self.inner();
        let attach_error = |why: String| XdpError::Attach { interface: name.to_owned(), why };
        if let Some(other) = inner.attached.values().find(|attached| attached.interface.index == index) {
            return Err(attach_error(format!(
                "the port `{}` has an interface of the same number ({index}), and the program identifies ports by this number",
                other.name
            )));
        }
        let slot = (0..PORTS).find(|slot| !inner.attached.contains_key(slot)).ok_or(XdpError::TooManyPorts)?;
        let hook_flag = if mode == XdpMode::Native { 0 } else { BEHIND_DRIVER };
        inner.ports.insert(index, slot | hook_flag, 0).map_err(map_error)?;
        inner.devices.set(slot, index, None, 0).map_err(map_error)?;
        inner.exits.set(slot, XdpExit { device: index, misses, mtu, unused: 0 }, 0).map_err(map_error)?;
        inner.refusing.set(slot, 0, 0).map_err(map_error)?;
        let interface_key = InterfaceKey::here(index);
        if let Ok(losses) = &mut inner.losses {
            losses.watch(interface_key, slot).map_err(XdpError::Map)?;
        }
        let link = inner.attach_hook(name, index, mode);
        let attached =
            AttachedInterface { number, name: name.to_owned(), interface: interface_key, mode, refuses: false };
        inner.attached.insert(slot, attached);
        match link {
            Ok(link) => Ok((slot, link)),
            Err(why) => {
                inner.detach(slot);
                Err(attach_error(why))
            }
        }
    }

    pub(super) fn detach(&self, slot: u32) {
        self.inner().detach(slot);
    }
}

impl XdpProgramState {
    /// Attaches the program of this mode to the interface with this name and index. The error is
    /// the kernel's reason.
    fn attach_hook(&mut self, name: &str, index: u32, mode: XdpMode) -> Result<HookLink, String> {
        let flags = match mode {
            XdpMode::Tc => {
                let link = attach_classifier(&mut self.ebpf, "terrace_tc", name, TcAttachType::Ingress)?;
                return Ok(HookLink::Tc { _link: link });
            }
            XdpMode::Native => XdpFlags::DRV_MODE,
            XdpMode::Generic => XdpFlags::SKB_MODE,
        };
        let xdp = program(&mut self.ebpf, "terrace").map_err(|error| error.to_string())?;
        let link = xdp.attach_to_if_index(index, flags).and_then(|id| xdp.take_link(id));
        link.map(|link| HookLink::Xdp { _link: link }).map_err(|error| error_chain(&error))
    }

    /// Removes a port from the maps and frees its slot. Does nothing if the slot is free.
    fn detach(&mut self, slot: u32) {
        let Some(attached) = self.attached.remove(&slot) else { return };
        let _ = self.ports.remove(&attached.interface.index);
        if let Ok(losses) = &mut self.losses {
            losses.unwatch(attached.interface);
        }
        // Without a device, packets of remaining flows are dropped and counted. Closing a socket
        // removes it from its map.
        let _ = self.devices.set(slot, 0, None, 0);
        let _ = self.exits.set(slot, XdpExit::default(), 0);
    }
}
