//! Opens a device: computes its configuration, checks its requirements, and starts it.

use super::eth::{self, DeviceConfig, DeviceInfo, DeviceQueue, EthDevice};
use super::mbuf::{self, Pool};
use super::ring_drops::RingDrops;
use super::{DpdkDevice, DpdkError, DpdkOptions, eal};
use crate::PortError;
use crate::sys::{self, InterfaceWatch};
use packet::MAX_WIRE_LEN;
use parking_lot::{Mutex, MutexGuard};
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

/// The MTU for frames of 9,216 bytes.
const JUMBO_MTU: usize = 9202;
/// Ethernet header and two VLAN tags.
const LINK_HEADERS: usize = 14 + 8;
/// Length of a buffer that holds most packets, in bytes.
const BUFFER: usize = 2048;
/// Maximum length of a buffer. With its headroom, it must not exceed the longest packet's buffer.
const MAX_BUFFER: usize = MAX_WIRE_LEN;
/// Bytes of an AF_PACKET ring: 4,096 packets of an ordinary MTU, which is 40 ms at 100,000 packets
/// a second. The driver's default of 512 packets would overflow if a worker is delayed by 5 ms.
const RING_BYTES: usize = 8 << 20;
/// Offset of a packet in a slot of an AF_PACKET ring: `tpacket2_hdr`, `sockaddr_ll`, and space for
/// the headers before IP.
const RING_HEADERS: usize = 80;

/// A started device.
pub(super) struct OpenedDevice {
    pub(super) info: DeviceInfo,
    pub(super) queues: Vec<DeviceQueue>,
    pub(super) mtu: usize,
    /// Maximum length of a frame that is received without truncation, in bytes.
    pub(super) max_frame: usize,
    /// Maximum number of segments of a sent packet.
    pub(super) segments: u16,
    /// Its network interface, if it has one.
    pub(super) interface: Option<Arc<InterfaceWatch>>,
    /// Whether the device must be restarted after its peer exited.
    pub(super) reopens: bool,
    /// Counter of packets that its rings dropped, if its driver does not count them.
    pub(super) ring_drops: Option<RingDrops>,
}

/// Locks the addition and removal of devices, because DPDK supports one at a time.
pub(super) fn lock_devices() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock()
}

/// Opens the device that `text` describes, with a queue for each of `options.queues`. The order
/// matters: the arguments are completed before DPDK adds the device, and the pools are sized by the
/// properties that the added device reports.
pub(super) fn open(text: &str, options: &DpdkOptions) -> Result<OpenedDevice, PortError> {
    let mut device = DpdkDevice::parse(text)?;
    check_paths(&device)?;
    let interface = device.interface().map(InterfaceWatch::open).transpose()?;
    let mtu = choose_mtu(&device, options, interface.as_ref());
    fit_arguments(&mut device, options, mtu)?;
    let max_frame = max_frame(&device);
    let has_huge_pages = eal::start_eal(&options.eal)?;
    // Release the lock before an error can drop the device, because its drop takes the lock.
    let (eth_device, ring_drops) = {
        let _guard = lock_devices();
        // The rings of this driver are packet sockets, which count their drops.
        match interface.as_ref().filter(|_| device.driver() == Some("net_af_packet")) {
            Some(interface) => {
                let (eth_device, drops) = RingDrops::of_added(interface.index(), || add_device(&device))?;
                (eth_device, Some(drops))
            }
            None => (add_device(&device)?, None),
        }
    };
    let name = device.name().to_owned();
    let info = eth_device.info().map_err(|source| configure_error(&name, "ask about", source))?;
    let queues = check_queues(&device, options, &info)?;
    let buffer = buffer_len(&device, options, &info, mtu)?;
    let pools = make_pools(&name, options, &info, buffer, queues, has_huge_pages)?;
    let setup = DeviceConfig {
        descriptors: options.descriptors.max(32),
        // Only cards get an MTU: an interface has its own, and other virtual devices accept any.
        mtu: (device.driver().is_none()).then_some(options.mtu).flatten(),
        frame: mtu + LINK_HEADERS,
        pools: &pools,
        // The descriptors of a memif are closed with its peer.
        interrupts: device.driver() != Some("net_memif"),
        may_wait: is_memif_client(&device) && queues == 1,
    };
    eal::forget_log();
    let (info, queues) = eth_device.start(&setup).map_err(|(step, source)| configure_error(&name, step, source))?;
    let mtu = if device.driver().is_none() { info.mtu } else { mtu };
    let segments = if sends_chains(&device, &info) { u16::MAX } else { 1 };
    let reopens = is_memif_client(&device);
    Ok(OpenedDevice { info, queues, mtu, max_frame, segments, interface: interface.map(Arc::new), reopens, ring_drops })
}

/// Returns whether it is a memif client. Its driver connects at the start and does not reconnect.
fn is_memif_client(device: &DpdkDevice) -> bool {
    device.driver() == Some("net_memif") && !matches!(device.argument("role"), Some("server" | "master"))
}

fn configure_error(device: &str, step: &str, source: io::Error) -> DpdkError {
    DpdkError::Configure { device: device.to_owned(), step: step.to_owned(), log: eal::log(), source }
}

/// Adds the device to DPDK.
fn add_device(device: &DpdkDevice) -> Result<EthDevice, DpdkError> {
    let name = match (device.driver(), device.name()) {
        // DPDK writes addresses with their domain.
        (None, short) if short.len() == 7 => format!("0000:{short}"),
        (_, name) => name.to_owned(),
    };
    if eth::port_by_name(&name).is_some() {
        return Err(DpdkError::InUse { device: name });
    }
    let namespace = eth::namespace().map_err(|source| DpdkError::Namespace { device: name.clone(), source })?;
    eal::forget_log();
    let arguments = device.to_string().replacen(device.name(), &name, 1);
    EthDevice::add(&arguments, &name, namespace).map_err(|error| {
        let help = match device.driver() {
            None if !Path::new("/sys/bus/pci/devices").join(&name).exists() => {
                "no PCI device has this address; `lspci -D` lists those that exist".to_owned()
            }
            None => format!(
                "bind it to a driver that DPDK can use (dpdk-devbind.py --bind=vfio-pci {name}), and run as root"
            ),
            Some(driver) => format!(
                "{error}; check the arguments of {driver}, that its driver is installed (in /usr/lib/*/dpdk), and run as root"
            ),
        };
        DpdkError::NoSuchDevice { device: device.to_string(), help, log: eal::log() }
    })
}

/// Checks files and sockets that the driver reports badly or not at all.
fn check_paths(device: &DpdkDevice) -> Result<(), DpdkError> {
    let check_path = |path: &str, outcome: io::Result<()>| {
        outcome.map_err(|source| DpdkError::Path { device: device.name().to_owned(), path: path.to_owned(), source })
    };
    let parent_exists = |path: &str| match Path::new(path).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => fs::metadata(parent).map(drop),
        _ => Ok(()),
    };
    if let (Some("net_pcap"), Some(path)) = (device.driver(), device.argument("rx_pcap")) {
        check_path(path, fs::File::open(path).map(drop))?;
    }
    let created_path = match device.driver() {
        Some("net_pcap") => device.argument("tx_pcap"),
        Some("net_vhost") => device.argument("iface"),
        Some("net_memif") if device.argument("socket-abstract") == Some("no") => device.argument("socket"),
        _ => None,
    };
    if let (Some("net_memif"), Some(path)) = (device.driver(), created_path) {
        check_path(path, remove_stale_socket(path))?;
    }
    created_path.map_or(Ok(()), |path| check_path(path, parent_exists(path)))
}

/// Removes the socket of a killed process, because the driver could not listen on it and clients
/// would get no response.
fn remove_stale_socket(path: &str) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    // "Refused" means that no process listens. A listener for packets causes another error for this
    // stream socket.
    let refused = || UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    match is_socket && refused() {
        true => fs::remove_file(path),
        false => Ok(()),
    }
}

/// Returns the MTU of the port, except for cards, which can limit it.
fn choose_mtu(device: &DpdkDevice, options: &DpdkOptions, interface: Option<&InterfaceWatch>) -> usize {
    let most = MAX_WIRE_LEN - LINK_HEADERS;
    match (interface, device.driver()) {
        (Some(interface), _) => options.mtu.unwrap_or(interface.mtu()).min(interface.mtu()).min(most),
        (None, None) => options.mtu.unwrap_or(1500).min(most),
        (None, Some(_)) => options.mtu.unwrap_or(JUMBO_MTU).min(most),
    }
}

/// Adds the arguments that the driver needs for these queues and this MTU, unless they are given.
/// Refuses arguments with which the driver would silently truncate packets.
fn fit_arguments(device: &mut DpdkDevice, options: &DpdkOptions, mtu: usize) -> Result<(), DpdkError> {
    match device.driver() {
        Some("net_af_packet") => {
            let slot = (mtu + LINK_HEADERS + RING_HEADERS).next_power_of_two().max(BUFFER);
            device.set_default("qpairs", options.queues);
            device.set_default("framesz", slot);
            device.set_default("framecnt", (RING_BYTES / slot).clamp(512, 4096));
            let frame_size: usize = device.argument("framesz").and_then(|size| size.parse().ok()).unwrap_or(0);
            device.set_default("blocksz", frame_size.max(64 * 1024));
            if frame_size < mtu + LINK_HEADERS + RING_HEADERS {
                let why = format!(
                    "framesz={frame_size} would cut packets of its interface, whose MTU is {mtu}; leave it out, or take {slot}"
                );
                return Err(DpdkError::Size { device: device.name().to_owned(), why });
            }
        }
        Some("net_vhost") => device.set_default("queues", options.queues),
        Some("net_af_xdp") => device.set_default("queue_count", options.queues),
        _ => {}
    }
    Ok(())
}

/// Returns the maximum length of a frame that is received without truncation. A slot of an
/// AF_PACKET ring truncates longer frames, and its driver does not mark them; this happens if the
/// interface's MTU is raised after the port was opened.
fn max_frame(device: &DpdkDevice) -> usize {
    let slot = || device.argument("framesz")?.parse::<usize>().ok();
    match device.driver() {
        Some("net_af_packet") => slot().map_or(MAX_WIRE_LEN, |slot| slot.saturating_sub(RING_HEADERS)),
        _ => MAX_WIRE_LEN,
    }
    .min(MAX_WIRE_LEN)
}

/// Returns the number of queues of `options` if the device supports it.
fn check_queues(device: &DpdkDevice, options: &DpdkOptions, info: &DeviceInfo) -> Result<usize, DpdkError> {
    if (1..=info.max_queues.min(1024)).contains(&options.queues) {
        return Ok(options.queues);
    }
    let hint = match device.driver() {
        Some("net_pcap") => ", each with an rx_pcap= and a tx_pcap= of its own",
        Some("net_ring") => "; several need several rings",
        _ => "",
    };
    Err(DpdkError::Queues {
        device: device.name().to_owned(),
        asked: options.queues,
        most: info.max_queues.min(1024),
        hint,
    })
}

/// Returns whether the device sends packets of several segments. These drivers do, but do not
/// report it.
fn sends_chains(device: &DpdkDevice, info: &DeviceInfo) -> bool {
    info.sends_chains || matches!(device.driver(), Some("net_pcap" | "net_ring" | "net_null"))
}

/// Returns the length of a packet buffer after its headroom, in bytes: that of the options,
/// otherwise one that holds most packets or that the driver needs.
///
/// # Errors
/// The length of the options is too short for the driver, or too long.
fn buffer_len(device: &DpdkDevice, options: &DpdkOptions, info: &DeviceInfo, mtu: usize) -> Result<u16, DpdkError> {
    let numeric_argument = |key: &str| device.argument(key).and_then(|value| value.parse::<usize>().ok());
    // These drivers write beyond short buffers, or refuse buffers that are shorter than their
    // slots.
    let needed = match device.driver() {
        Some("net_af_packet") => numeric_argument("framesz").unwrap_or(BUFFER),
        Some("net_null") => numeric_argument("size").unwrap_or(64),
        None if !info.scatters => mtu + LINK_HEADERS,
        _ if !sends_chains(device, info) => mtu + LINK_HEADERS,
        _ => 0,
    }
    .max(info.min_room.saturating_sub(mbuf::HEADROOM));
    let len = options.buffer_len.map_or(needed.max(BUFFER), usize::from);
    let refuse = |why: String| Err(DpdkError::Size { device: device.name().to_owned(), why });
    if len < needed.max(64) {
        return refuse(format!(
            "packet buffers of {len} bytes are too short for it; they need {} bytes",
            needed.max(64)
        ));
    }
    if len > MAX_BUFFER {
        return refuse(format!("packet buffers of {len} bytes are too long; the most is {MAX_BUFFER} bytes"));
    }
    Ok(len as u16)
}

/// Creates a pool for each queue, on the NUMA node of the processor that will use it. `buffer_len`
/// is the length of a buffer in bytes, `has_huge_pages` says whether DPDK's memory is in huge
/// pages, for the error.
fn make_pools(
    device: &str,
    options: &DpdkOptions,
    info: &DeviceInfo,
    buffer_len: u16,
    queues: usize,
    has_huge_pages: bool,
) -> Result<Vec<Arc<Pool>>, DpdkError> {
    // Buffers for the packets in both rings of the queue and in two batches, and a reserve for the
    // caches of threads.
    let sufficient_count = 2 * u32::from(options.descriptors) + 2 * packet::MAX_BATCH as u32 + 1023;
    // One less than a power of two, because it wastes no memory in the pool's ring.
    let buffer_count = options.buffers.unwrap_or(sufficient_count.next_power_of_two() - 1).max(64);
    let make_pool = |queue: usize| {
        let core_node = options.cores.get(queue).and_then(|core| sys::numa_node_of(*core));
        let socket = core_node.unwrap_or(info.socket);
        // A NUMA node without memory uses that of another one.
        let pool = Pool::new(buffer_count, buffer_len, socket).or_else(|_| Pool::new(buffer_count, buffer_len, -1));
        pool.map(Arc::new).map_err(|_| too_little_memory(device, buffer_count, buffer_len, has_huge_pages))
    };
    (0..queues).map(make_pool).collect()
}

/// Returns the error for a pool of `buffers` buffers, each of `buffer_len` bytes, that does not fit
/// in DPDK's memory.
fn too_little_memory(device: &str, buffers: u32, buffer_len: u16, has_huge_pages: bool) -> DpdkError {
    let bytes = u64::from(buffers) * (u64::from(buffer_len) + mbuf::HEADROOM as u64 + mbuf::OVERHEAD);
    let (memory, help) = match has_huge_pages {
        true => (
            "from huge pages",
            "reserve more of them (sysctl -w vm.nr_hugepages=N, each has 2 MiB), or take fewer buffers",
        ),
        false => (
            "from DPDK's memory without huge pages",
            "give DPDK more memory when the first port is opened, or take fewer buffers",
        ),
    };
    DpdkError::TooLittleMemory { device: device.to_owned(), wanted_mb: bytes.div_ceil(1 << 20), buffers, memory, help }
}
