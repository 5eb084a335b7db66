//! A started device and its queues.
#![allow(unsafe_code)]

use super::ffi::{self, RawConfig, RawInfo, RawPacket};
use super::mbuf::{Pool, RxMbuf, TxMbuf};
use crate::sys;
use libc::{c_int, c_void};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::fs::MetadataExt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Maximum number of packets per receive or send call (BURST of the shim).
pub(super) const BURST: usize = 64;

/// Properties and capabilities of a device.
#[derive(Debug, Clone)]
pub(super) struct DeviceInfo {
    pub(super) driver: String,
    pub(super) max_queues: usize,
    pub(super) mtu: usize,
    /// Minimum buffer length in bytes, with headroom.
    pub(super) min_room: usize,
    /// Its NUMA node; negative: any.
    pub(super) socket: i32,
    /// Whether it sends packets of several segments.
    pub(super) sends_chains: bool,
    /// Whether it receives long packets into several segments.
    pub(super) scatters: bool,
    /// Whether it supports receive interrupts.
    pub(super) interrupts: bool,
}

impl DeviceInfo {
    /// Converts the properties that the C shim reports.
    fn new(raw: &RawInfo) -> DeviceInfo {
        // SAFETY: the shim terminates the name with a zero within the array.
        let driver = unsafe { CStr::from_ptr(raw.driver.as_ptr()) };
        DeviceInfo {
            driver: driver.to_string_lossy().into_owned(),
            max_queues: raw.max_queues as usize,
            mtu: raw.mtu as usize,
            min_room: raw.min_room as usize,
            socket: raw.socket,
            sends_chains: raw.multi_segments != 0,
            scatters: raw.scatters != 0,
            interrupts: raw.interrupts != 0,
        }
    }
}

/// Configuration of a device.
pub(super) struct DeviceConfig<'a> {
    pub(super) descriptors: u16,
    /// `None`: unchanged.
    pub(super) mtu: Option<usize>,
    /// Maximum length of received frames, in bytes.
    pub(super) frame: usize,
    /// The buffer pool of each queue.
    pub(super) pools: &'a [Arc<Pool>],
    pub(super) interrupts: bool,
    /// Whether it is acceptable that the device cannot start yet; [`DeviceQueue::restart`] starts
    /// it later.
    pub(super) may_wait: bool,
}

/// Device-level drop counters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EthDropCounters {
    pub(super) rx_missed: u64,
    pub(super) rx_errors: u64,
    pub(super) rx_no_buffer: u64,
    pub(super) unsent: u64,
}

/// A device that was added to DPDK. Dropping it removes the device.
pub(super) struct EthDevice {
    port: u16,
    /// The network namespace in which it was added, because some drivers must be in it for the
    /// removal.
    namespace: File,
    /// Set when the device disappears from the machine. Leaked on purpose, because a DPDK thread
    /// may be about to set it when the device is dropped.
    removed: &'static AtomicBool,
    /// Whether its queues can be used.
    started: AtomicBool,
}

/// Returns the port number of a device that was added to DPDK, by its name.
pub(super) fn port_by_name(name: &str) -> Option<u16> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a zero and lives across the call.
    u16::try_from(unsafe { ffi::td_port_by_name(name.as_ptr()) }).ok()
}

impl EthDevice {
    /// Adds the device that `arguments` describes; `name` is its name in DPDK. DPDK must be
    /// running, and no other thread may add or remove a device meanwhile.
    pub(super) fn add(arguments: &str, name: &str, namespace: File) -> io::Result<EthDevice> {
        let arguments = CString::new(arguments)?;
        // SAFETY: the string ends with a zero and lives across the call.
        let outcome = unsafe { ffi::rte_dev_probe(arguments.as_ptr()) };
        if outcome < 0 {
            return Err(io::Error::from_raw_os_error(-outcome));
        }
        let port = port_by_name(name).ok_or(io::ErrorKind::NotFound)?;
        let removed: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let argument: *const AtomicBool = removed;
        // SAFETY: the handler has the required signature, and its argument lives as long as the
        // program. The result is ignored, because a device that cannot report its removal is
        // usable.
        unsafe { ffi::td_watch(port, on_removal, argument.cast_mut().cast()) };
        Ok(EthDevice { port, namespace, removed, started: AtomicBool::new(false) })
    }

    /// Returns the properties of the device.
    pub(super) fn info(&self) -> io::Result<DeviceInfo> {
        let mut raw = RawInfo::default();
        // SAFETY: `raw` lives across the call and has the layout of the shim.
        match unsafe { ffi::td_info(self.port, &raw mut raw) } {
            0 => Ok(DeviceInfo::new(&raw)),
            error => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
        }
    }

    /// Configures and starts the device, with one receive and one transmit queue for each pool of
    /// `setup`. Returns its properties and queues, or the operation that failed with its error.
    pub(super) fn start(
        self,
        setup: &DeviceConfig<'_>,
    ) -> Result<(DeviceInfo, Vec<DeviceQueue>), (&'static str, io::Error)> {
        let pools: Vec<_> = setup.pools.iter().map(|pool| pool.as_ptr()).collect();
        if pools.is_empty() {
            return Err(("configure", io::ErrorKind::InvalidInput.into()));
        }
        let config = RawConfig {
            queues: pools.len() as u16,
            rx_descriptors: setup.descriptors,
            tx_descriptors: setup.descriptors,
            interrupts: u8::from(setup.interrupts),
            may_wait: u8::from(setup.may_wait),
            mtu: setup.mtu.unwrap_or(0) as u32,
            frame: setup.frame as u32,
            pools: pools.as_ptr(),
        };
        let mut raw = RawInfo::default();
        let mut step = ptr::null();
        // SAFETY: `config`, the pools that it points to, `raw` and `step` live across the call and
        // have the layouts of the shim.
        let outcome = unsafe { ffi::td_start(self.port, &raw const config, &raw mut raw, &raw mut step) };
        if outcome != 0 {
            // SAFETY: the shim sets this to one of its string literals before any operation can
            // fail.
            let step = unsafe { CStr::from_ptr(step) }.to_str().unwrap_or("start");
            return Err((step, io::Error::from_raw_os_error(outcome.wrapping_neg())));
        }
        self.started.store(raw.started != 0, Ordering::Relaxed);
        let is_only_queue = pools.len() == 1;
        let device = Arc::new(self);
        let queue = |(index, pool): (usize, &Arc<Pool>)| DeviceQueue {
            port: device.port,
            index: index as u16,
            device: Arc::clone(&device),
            pool: Arc::clone(pool),
            alone: is_only_queue,
        };
        Ok((DeviceInfo::new(&raw), setup.pools.iter().enumerate().map(queue).collect()))
    }

    pub(super) fn link_is_up(&self) -> bool {
        // SAFETY: the port exists as long as `self`.
        unsafe { ffi::td_link_is_up(self.port) != 0 }
    }

    /// Returns whether the device disappeared from the machine.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Returns the drop counters since the start of the device.
    pub(super) fn drop_counters(&self) -> EthDropCounters {
        let mut drop_counters = EthDropCounters::default();
        // SAFETY: the port exists as long as `self`, and all pointers are to variables that live
        // across the call.
        unsafe {
            ffi::td_stats(
                self.port,
                &raw mut drop_counters.rx_missed,
                &raw mut drop_counters.rx_errors,
                &raw mut drop_counters.rx_no_buffer,
                &raw mut drop_counters.unsent,
            );
        }
        drop_counters
    }

    /// Removes the device from DPDK. The calling thread must be in the device's network namespace.
    fn remove(&self) {
        let argument: *const AtomicBool = self.removed;
        // SAFETY: the port exists until this call, and it has no queues any more, because queues
        // hold the device.
        unsafe {
            ffi::td_unwatch(self.port, on_removal, argument.cast_mut().cast());
            ffi::td_remove(self.port);
        }
    }
}

impl Drop for EthDevice {
    /// Removes the device, in the network namespace in which it was added.
    fn drop(&mut self) {
        let _guard = super::open::lock_devices();
        let inode = |file: &File| file.metadata().map(|data| data.st_ino()).ok();
        let current_inode = File::open("/proc/thread-self/ns/net").ok().and_then(|file| inode(&file));
        if current_inode == inode(&self.namespace) {
            return self.remove();
        }
        // Remove the device in its own namespace, because drivers identify an interface by its
        // index, which in another namespace belongs to another interface.
        thread::scope(|scope| {
            let inside = || match sys::enter_network_namespace(self.namespace.as_fd()) {
                Ok(()) | Err(_) => self.remove(),
            };
            // The scope joins the thread. If no thread can be started, the removal is skipped.
            let _ = thread::Builder::new().spawn_scoped(scope, inside);
        });
    }
}

/// Callback of DPDK for a device that disappeared.
extern "C" fn on_removal(_: u16, _: c_int, argument: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: `EthDevice::add` passed a flag that lives as long as the program.
    unsafe { &*argument.cast_const().cast::<AtomicBool>() }.store(true, Ordering::Relaxed);
    0
}

/// One receive queue and one send queue. `&mut self` guarantees a single user, because only one
/// value exists per queue.
pub(super) struct DeviceQueue {
    port: u16,
    index: u16,
    device: Arc<EthDevice>,
    pool: Arc<Pool>,
    /// Whether the device has no other queue.
    alone: bool,
}

impl DeviceQueue {
    pub(super) fn device(&self) -> &EthDevice {
        &self.device
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the index of the queue. Queue 0 reports the drop counters of the device.
    pub(super) fn index(&self) -> u16 {
        self.index
    }

    /// Receives up to `count` packets, at most [`BURST`], and passes them to `handle`. Returns
    /// their number. Never blocks.
    #[inline]
    pub(super) fn receive(&mut self, count: usize, mut handle: impl FnMut(RxMbuf)) -> usize {
        // Not initialised, because that would cost as much as receiving.
        let mut packets = [const { MaybeUninit::<RawPacket>::uninit() }; BURST];
        if !self.is_started() {
            return 0;
        }
        let wanted = count.min(BURST) as u16;
        // SAFETY: the port is started, this is the only user of the queue, and `packets` can hold
        // `wanted` packets.
        let received = unsafe { ffi::td_receive(self.port, self.index, packets.as_mut_ptr().cast(), wanted) };
        for packet in &packets[..usize::from(received)] {
            // SAFETY: the shim initialised this number of packets and passed ownership of their
            // mbufs.
            handle(unsafe { RxMbuf::new(packet.assume_init()) });
        }
        usize::from(received)
    }

    /// Sends packets from the front of `mbufs` and removes the sent ones. Returns their number.
    /// Never blocks.
    #[inline]
    pub(super) fn send(&mut self, mbufs: &mut Vec<TxMbuf>) -> usize {
        if !self.is_started() {
            return 0;
        }
        let burst_len = mbufs.len().min(BURST) as u16;
        // SAFETY: the port is started, this is the only user of the queue, and `mbufs` owns this
        // number of mbufs.
        let sent = unsafe { ffi::td_send(self.port, self.index, TxMbuf::as_raw(mbufs), burst_len) };
        let sent = usize::from(sent).min(mbufs.len());
        // The device owns these mbufs now.
        mbufs.drain(..sent).for_each(std::mem::forget);
        sent
    }

    /// Returns whether the device could be started; for a memif client, whether it connected to a
    /// server.
    pub(super) fn is_started(&self) -> bool {
        self.device.started.load(Ordering::Relaxed)
    }

    /// Restarts a device that could not start or lost its peer, if it has no other queue that could
    /// be in use.
    pub(super) fn restart(&mut self) {
        if self.alone {
            // SAFETY: the port exists as long as the device, is configured, and has only this
            // queue, which is not in use.
            let outcome = unsafe { ffi::td_restart(self.port) };
            self.device.started.store(outcome == 0, Ordering::Relaxed);
        }
    }

    /// Enables the receive interrupt. Returns the descriptor to wait on, or `None` if the device
    /// does not support it.
    pub(super) fn arm(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the port is started as long as the device exists.
        let descriptor = unsafe {
            if ffi::rte_eth_dev_rx_intr_enable(self.port, self.index) != 0 {
                return None;
            }
            ffi::rte_eth_dev_rx_intr_ctl_q_get_fd(self.port, self.index)
        };
        // SAFETY: the descriptor stays open as long as the device exists, because `open` enables
        // interrupts only for such devices.
        (descriptor >= 0).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Disables the receive interrupt that [`DeviceQueue::arm`] enabled.
    pub(super) fn disarm(&self) {
        // SAFETY: the port is started as long as the device exists.
        unsafe { ffi::rte_eth_dev_rx_intr_disable(self.port, self.index) };
    }
}

/// Returns the network namespace of this thread.
pub(super) fn namespace() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}
