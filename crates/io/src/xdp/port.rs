//! [`XdpPort`]: an interface with the kernel's flow cache, which receives packets without a flow.

use super::attached::XdpMode;
use super::driver;
use super::hook::{HookLink, NewInterface};
use super::kernel::XdpProgram;
use super::maps::{self, XdpExit};
use super::slot_counters::SlotCounters;
use super::socket::XdpSocket;
use super::tc::TcPath;
use crate::nic_offload::tx_drop_reason;
use crate::port::now;
use crate::sys::InterfaceWatch;
use crate::{KernelInterface, Port, PortError, PortFault, RawPort, Readiness, TxBatch, TxOffloads};
use packet::{Batch, MAX_LEN, PortCounters, PortId, PortReason};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Maximum number of packets per receive call and socket.
const VECTOR: usize = 256;
/// Longest frame that fits in a small chunk, with the kernel's headroom.
const SMALL_CHUNK_FRAME: usize = 2048 - 256 - 64;
/// Ethernet header and one VLAN tag: the bytes of a frame beyond the MTU.
const LINK_HEADERS: usize = 14 + 4;
/// Interval of probes of a device that refuses packets from XDP programs.
const PROBE: Duration = Duration::from_secs(1);

/// Receiver of packets without a flow.
enum MissPath {
    /// A socket for each queue.
    Sockets(Vec<XdpSocket>),
    /// A raw socket, because the kernel has no AF_XDP for the interface. The program passes these
    /// packets to the stack.
    Raw(Box<RawPort>),
    /// The TAP of the tc hook.
    Tc(Box<TcPath>),
}

/// An interface with the kernel's flow cache. Dropping it detaches the program.
pub struct XdpPort {
    name: String,
    mtu: usize,
    /// Counters of the sockets, without the packets that the program handled itself.
    own: PortCounters,
    /// Sum of both, as of the last query.
    counters: PortCounters,
    miss_path: MissPath,
    mode: XdpMode,
    /// Notes for the port's owner.
    notes: Vec<String>,
    watch: InterfaceWatch,
    /// Whether no packets can pass, as of the last query of its faults.
    cannot_transmit: bool,
    /// Counters of the slot when the port was opened.
    before: SlotCounters,
    reach: DeviceReach,
    /// State of the interface, as the program at tc knows it.
    exit: XdpExit,
    // Declared before `slot`, so that the program is detached before the slot is freed.
    _link: HookLink,
    slot: PortSlot,
}

/// A port's slot in the maps.
struct PortSlot {
    kernel: XdpProgram,
    number: u32,
    interface: u32,
}

impl Drop for PortSlot {
    fn drop(&mut self) {
        self.kernel.detach(self.number);
    }
}

/// Whether the device accepts packets from XDP programs.
struct DeviceReach {
    refuses: bool,
    /// Number of packets that it has refused.
    refused: u64,
    /// Time of the last probe.
    last_probe: Instant,
}

/// Parts of a port that depend on its hook.
struct OpenedParts {
    mode: XdpMode,
    miss_path: MissPath,
    mtu: usize,
    link: HookLink,
    slot: PortSlot,
}

/// Attaches the program at tc to an interface of this index, as the port of this number.
fn open_at_tc(kernel: &XdpProgram, name: &str, (index, number): (u32, u32)) -> Result<OpenedParts, PortError> {
    let path = TcPath::open(kernel, name)?;
    let (mode, mtu) = (XdpMode::Tc, path.sender.mtu());
    let new = NewInterface { name, index, mtu: mtu as u32, number, mode, misses: path.tap.index() };
    let (slot_number, link) = kernel.attach(new).map_err(PortError::Xdp)?;
    let slot = PortSlot { kernel: kernel.clone(), number: slot_number, interface: index };
    Ok(OpenedParts { mode, miss_path: MissPath::Tc(Box::new(path)), mtu, link, slot })
}

/// Attaches the program at XDP to the interface with this index, as the port of this number. Falls
/// back to generic mode if the driver has no XDP, and to a raw socket for packets without a flow if
/// AF_XDP fails; each adds a sentence to `notes`.
fn open_at_xdp(
    kernel: &XdpProgram,
    name: &str,
    (index, number): (u32, u32),
    wanted_mode: XdpMode,
    notes: &mut Vec<String>,
) -> Result<OpenedParts, PortError> {
    // Also checks that the interface is Ethernet, and receives misses if there is no AF_XDP.
    let raw = RawPort::open(name)?;
    let mtu = raw.mtu();
    let attach = |mode| kernel.attach(NewInterface { name, index, mtu: mtu as u32, number, mode, misses: 0 });
    let (mode, (slot_number, link)) = match attach(wanted_mode) {
        Ok(attached) => (wanted_mode, attached),
        Err(why) if wanted_mode == XdpMode::Generic => return Err(PortError::Xdp(why)),
        Err(why) => {
            let attached = attach(XdpMode::Generic).map_err(PortError::Xdp)?;
            notes.push(format!("`{name}`: XDP in generic mode, which is slower: {why}"));
            (XdpMode::Generic, attached)
        }
    };
    let slot = PortSlot { kernel: kernel.clone(), number: slot_number, interface: index };
    let chunk = if mtu + LINK_HEADERS <= SMALL_CHUNK_FRAME { 2048 } else { 4096 };
    let open_socket = |queue: u32| -> Result<XdpSocket, String> {
        let socket =
            XdpSocket::open(index, queue, chunk, mode == XdpMode::Native).map_err(|error| error.to_string())?;
        kernel.add_socket(slot.number, queue, socket.as_fd()).map_err(|error| error.to_string())?;
        Ok(socket)
    };
    let (miss_path, mtu) = match (0..driver::queue_count(name))
        .map(open_socket)
        .collect::<Result<Vec<XdpSocket>, String>>()
    {
        Ok(sockets) => (MissPath::Sockets(sockets), mtu.min(chunk - LINK_HEADERS)),
        Err(why) => {
            notes.push(format!("`{name}`: packets without a flow arrive by a raw socket, because AF_XDP fails: {why}"));
            (MissPath::Raw(Box::new(raw)), mtu)
        }
    };
    Ok(OpenedParts { mode, miss_path, mtu, link, slot })
}

impl XdpPort {
    /// Attaches the kernel's flow cache at XDP to an interface of the calling thread's network
    /// namespace, as the port of this number. Attaches in the driver if possible, otherwise after it, with a
    /// note in [`XdpPort::notes`].
    ///
    /// # Errors
    /// The interface does not exist, or the program cannot be attached.
    pub fn open(kernel: &XdpProgram, interface: &str, number: u32) -> Result<XdpPort, PortError> {
        XdpPort::open_as(kernel, interface, number, XdpMode::Native)
    }

    /// Opens a port as [`XdpPort::open`] does, in a given mode. [`XdpMode::Generic`] is for veth
    /// interfaces whose peers refuse packets from XDP programs. There is no other mode instead of
    /// [`XdpMode::Tc`]: the error says why it is not available.
    ///
    /// # Errors
    /// The same as for [`XdpPort::open`].
    pub fn open_as(
        kernel: &XdpProgram,
        interface: &str,
        number: u32,
        wanted_mode: XdpMode,
    ) -> Result<XdpPort, PortError> {
        let index = driver::index_of(interface).map_err(PortError::Xdp)?;
        let watch = InterfaceWatch::open(interface)?;
        let mut notes = Vec::new();
        let opened = match wanted_mode {
            XdpMode::Tc => open_at_tc(kernel, interface, (index, number))?,
            mode => open_at_xdp(kernel, interface, (index, number), mode, &mut notes)?,
        };
        let OpenedParts { mode, miss_path, mtu, link, slot } = opened;
        let before = kernel.slot_counters(slot.number);
        let (name, own, counters) = (interface.to_owned(), PortCounters::default(), PortCounters::default());
        let reach = DeviceReach { refuses: false, refused: 0, last_probe: Instant::now() };
        let mut port = XdpPort {
            name,
            mtu,
            own,
            counters,
            miss_path,
            mode,
            notes,
            watch,
            cannot_transmit: false,
            before,
            reach,
            exit: XdpExit::default(),
            _link: link,
            slot,
        };
        // Drivers other than veth accept packets once they have a program themselves.
        if mode == XdpMode::Native && driver::driver_name(interface).as_deref() == Some("veth") {
            port.probe_device();
        }
        if port.reach.refuses {
            port.notes.push(refuses(interface));
        }
        Ok(port)
    }

    /// Probes whether the device accepts packets from XDP programs.
    fn probe_device(&mut self) {
        self.reach.last_probe = Instant::now();
        if let Some(takes) = self.slot.kernel.probe(self.slot.number) {
            self.set_refuses(!takes);
        }
    }

    /// Writes the interface's present MTU to the map of the program at tc, or that the interface
    /// was removed. Writes only changes.
    fn follow_interface(&mut self) {
        let misses = if let MissPath::Tc(path) = &self.miss_path { path.tap.index() } else { 0 };
        let present = self.watch.is_up().and_then(|_| self.watch.current_mtu());
        let exit = present.map(|mtu| XdpExit { device: self.slot.interface, misses, mtu, unused: 0 });
        let exit = exit.unwrap_or(XdpExit { misses, ..XdpExit::default() });
        if std::mem::replace(&mut self.exit, exit) != exit {
            self.slot.kernel.set_exit(self.slot.number, exit);
        }
    }

    /// Sets whether packets of flows to this port are passed to this process.
    fn set_refuses(&mut self, refuses: bool) {
        self.reach.refuses = refuses;
        self.slot.kernel.set_refusing(self.slot.number, refuses);
    }

    /// Returns the attach mode of the program.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Returns whether this process receives packets without a copy.
    pub fn is_zero_copy(&self) -> bool {
        matches!(&self.miss_path, MissPath::Sockets(sockets) if sockets.iter().all(XdpSocket::is_zero_copy))
    }

    /// Returns notes for the port's owner: slower modes, with their reason.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the interface's index.
    pub fn interface(&self) -> u32 {
        self.slot.interface
    }
}

impl Port for XdpPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    /// Receives packets without a flow, from the sockets, the TAP or the raw socket.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let (before, time) = (batch.len(), now());
        let sockets = match &mut self.miss_path {
            MissPath::Raw(raw) => return raw.receive(id, batch),
            MissPath::Tc(path) => {
                let limits = (batch.remaining_capacity().min(VECTOR), (self.mtu + LINK_HEADERS).min(MAX_LEN));
                path.tap.receive(id, batch, limits, |len, received| match received {
                    true => self.own.received.count_packet(len),
                    false => self.own.drops.count_drop(PortReason::RxOversize, len),
                });
                return Ok(batch.len() - before);
            }
            MissPath::Sockets(sockets) => sockets,
        };
        for socket in sockets {
            let free_slots = batch.remaining_capacity().min(VECTOR);
            socket.receive(free_slots, |bytes| {
                match bytes.map(|bytes| (bytes.len(), batch.push_bytes(bytes, id, time))) {
                    Some((len, Ok(()))) => self.own.received.count_packet(len),
                    Some((len, Err(_))) => self.own.drops.count_drop(PortReason::RxOversize, len),
                    None => self.own.drops.count_drops(PortReason::RxError, 1),
                }
            });
        }
        Ok(batch.len() - before)
    }

    fn tx_offloads(&self) -> TxOffloads {
        match &self.miss_path {
            MissPath::Raw(raw) => raw.tx_offloads(),
            MissPath::Tc(path) => path.sender.tx_offloads(),
            MissPath::Sockets(_) => TxOffloads::default(),
        }
    }

    /// Sends packets that this process forwards, on the first socket or by a raw socket.
    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        let sockets = match &mut self.miss_path {
            MissPath::Raw(raw) => return raw.send(packets),
            MissPath::Tc(path) => return path.sender.send(packets),
            MissPath::Sockets(sockets) => sockets,
        };
        let Some(socket) = sockets.first_mut() else { return 0 };
        let mut sent = 0;
        for packet in packets.iter() {
            if let Some(reason) = tx_drop_reason(packet, self.mtu) {
                self.own.drops.count_drop(reason, packet.len());
            } else if self.cannot_transmit {
                self.own.drops.count_drop(PortReason::TxPortDown, packet.len());
            } else if packet.len() > socket.max_packet() {
                self.own.drops.count_drop(PortReason::TxMtu, packet.len());
            } else if socket.enqueue(packet.bytes()) {
                self.own.sent.count_packet(packet.len());
                sent += 1;
            } else {
                self.own.drops.count_drop(PortReason::TxQueueFull, packet.len());
            }
        }
        // They were counted as sent. The kernel does not report their lengths.
        let lost = socket.flush();
        self.own.move_sent_to_drops(PortReason::TxPortDown, lost);
        sent - (lost as usize).min(sent)
    }

    fn path(&self) -> Option<&'static str> {
        Some(self.mode.name())
    }

    fn readiness(&self) -> Readiness<'_> {
        match &self.miss_path {
            MissPath::Raw(raw) => raw.readiness(),
            MissPath::Tc(path) => Readiness::Wait(path.tap.as_fd()),
            MissPath::Sockets(sockets) => match &sockets[..] {
                [only] => Readiness::Wait(only.as_fd()),
                _ => Readiness::Poll,
            },
        }
    }

    /// Returns the counters of its sockets plus those of the program. Also detects that the device
    /// started to refuse packets from XDP programs, and then redirects its flows' packets to this
    /// process.
    fn counters(&mut self) -> &PortCounters {
        let handled = self.slot.kernel.slot_counters(self.slot.number).since(&self.before);
        let has_sockets = match &mut self.miss_path {
            MissPath::Raw(raw) => {
                self.counters.clone_from(raw.counters());
                false
            }
            MissPath::Tc(path) => {
                self.own.drops.count_drops(PortReason::RxQueueFull, path.tap.take_lost());
                self.counters.clone_from(&self.own);
                let sender = path.sender.counters();
                self.counters.sent += sender.sent;
                self.counters.drops += &sender.drops;
                true
            }
            MissPath::Sockets(sockets) => {
                self.counters.clone_from(&self.own);
                let lost: u64 = sockets.iter_mut().map(XdpSocket::lost).sum();
                // The kernel counts both reasons in one counter.
                let too_long = handled.lost.rx_drops().find(|(reason, _)| *reason == PortReason::RxOversize);
                let queue_drops = lost.saturating_sub(too_long.map_or(0, |(_, packets)| packets));
                self.counters.drops.count_drops(PortReason::RxQueueFull, queue_drops);
                true
            }
        };
        handled.add_to(&mut self.counters, has_sockets);
        if let MissPath::Tc(path) = &mut self.miss_path {
            path.count_device_drops(&mut self.counters, self.watch.is_up() == Some(true));
        }
        let refused = self.counters.drops.get(PortReason::TxXdpRefused).packets;
        // Its number has grown: the device refuses packets that it accepted before.
        if std::mem::replace(&mut self.reach.refused, refused) < refused && !self.reach.refuses {
            self.reach.last_probe = Instant::now();
            self.set_refuses(true);
        }
        &self.counters
    }

    fn kernel_interface(&self) -> Option<KernelInterface> {
        match &self.miss_path {
            MissPath::Raw(raw) => raw.kernel_interface(),
            MissPath::Sockets(_) | MissPath::Tc(_) => None,
        }
    }

    /// Returns the fault of the interface. Also writes changes of the interface to the maps, and
    /// probes a device that refuses packets again from time to time.
    fn port_fault(&mut self) -> Option<PortFault> {
        let port = || self.name.clone();
        let fault = match self.watch.is_up() {
            None => Some(PortFault::InterfaceGone { port: port(), interface: port() }),
            Some(false) => Some(PortFault::LinkDown { port: port() }),
            Some(true) => None,
        };
        self.cannot_transmit = fault.is_some();
        self.follow_interface();
        if fault.is_none() && self.reach.refuses && self.reach.last_probe.elapsed() >= PROBE {
            self.probe_device();
        }
        fault
    }
}

/// Returns the note for a port whose device refuses packets from XDP programs.
pub fn refuses(interface: &str) -> String {
    format!(
        "`{interface}`: its device refuses packets from XDP programs, so the kernel's flow cache sends there through this process, which is slower; the far end of \
         a veth pair needs receive offload (`ethtool -K END gro on` there), or an XDP program of its own"
    )
}

// The longest header that the program writes fits in a small chunk.
const _: () = assert!(maps::WINDOW < SMALL_CHUNK_FRAME);
