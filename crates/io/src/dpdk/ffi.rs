//! Bindings for `shim/dpdk.c`, and for DPDK functions that need no shim. The layouts are those of
//! the shim.
#![allow(unsafe_code)]

use libc::{FILE, c_char, c_int, c_void, ssize_t};

/// An mbuf or a mempool, used only by pointer.
#[repr(C)]
pub(super) struct Opaque {
    _private: [u8; 0],
}

/// `struct td_packet`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawPacket {
    pub(super) mbuf: *mut Opaque,
    pub(super) room: *mut u8,
    pub(super) room_len: u32,
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) total: u32,
    pub(super) segments: u16,
    pub(super) alone: u8,
    pub(super) vlans: u8,
    pub(super) tags: [u16; 2],
}

/// `struct td_departure`.
#[repr(C)]
pub(super) struct RawDeparture {
    pub(super) mbuf: *mut Opaque,
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) keep: u8,
}

/// `struct td_config`.
#[repr(C)]
pub(super) struct RawConfig {
    pub(super) queues: u16,
    pub(super) rx_descriptors: u16,
    pub(super) tx_descriptors: u16,
    pub(super) interrupts: u8,
    pub(super) may_wait: u8,
    pub(super) mtu: u32,
    pub(super) frame: u32,
    pub(super) pools: *const *mut Opaque,
}

/// `struct td_info`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawInfo {
    pub(super) driver: [c_char; 64],
    pub(super) max_queues: u32,
    pub(super) max_mtu: u32,
    pub(super) mtu: u32,
    pub(super) min_room: u32,
    pub(super) socket: c_int,
    pub(super) multi_segments: u8,
    pub(super) scatters: u8,
    pub(super) interrupts: u8,
    pub(super) started: u8,
}

impl Default for RawInfo {
    fn default() -> RawInfo {
        RawInfo {
            driver: [0; 64],
            max_queues: 0,
            max_mtu: 0,
            mtu: 0,
            min_room: 0,
            socket: -1,
            multi_segments: 0,
            scatters: 0,
            interrupts: 0,
            started: 0,
        }
    }
}

pub(super) type LogWriter = extern "C" fn(*mut c_void, *const c_char, usize) -> ssize_t;
pub(super) type EventHandler = extern "C" fn(u16, c_int, *mut c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    pub(super) fn td_errno() -> c_int;
    pub(super) fn td_log_to(write: LogWriter) -> *mut FILE;
    pub(super) fn td_receive(port: u16, queue: u16, packets: *mut RawPacket, count: u16) -> u16;
    pub(super) fn td_send(port: u16, queue: u16, departures: *const RawDeparture, count: u16) -> u16;
    pub(super) fn td_copy_in(pool: *mut Opaque, bytes: *const u8, len: u32, segments: u16) -> *mut Opaque;
    pub(super) fn td_copy_out(mbuf: *const Opaque, to: *mut u8, space: u32) -> u32;
    pub(super) fn td_linearise(packet: *mut RawPacket) -> c_int;
    pub(super) fn td_free(mbuf: *mut Opaque);
    pub(super) fn td_pool(name: *const c_char, count: u32, cache: u32, room: u16, socket: c_int) -> *mut Opaque;
    pub(super) fn td_pool_is_full(pool: *const Opaque) -> c_int;
    pub(super) fn td_pool_free(pool: *mut Opaque);
    pub(super) fn td_port_by_name(name: *const c_char) -> c_int;
    pub(super) fn td_info(port: u16, out: *mut RawInfo) -> c_int;
    pub(super) fn td_start(port: u16, config: *const RawConfig, out: *mut RawInfo, step: *mut *const c_char) -> c_int;
    pub(super) fn td_restart(port: u16) -> c_int;
    pub(super) fn td_remove(port: u16) -> c_int;
    pub(super) fn td_link_is_up(port: u16) -> c_int;
    pub(super) fn td_stats(
        port: u16,
        rx_missed: *mut u64,
        rx_errors: *mut u64,
        rx_no_buffer: *mut u64,
        unsent: *mut u64,
    ) -> c_int;
    pub(super) fn td_watch(port: u16, removed: EventHandler, argument: *mut c_void) -> c_int;
    pub(super) fn td_unwatch(port: u16, removed: EventHandler, argument: *mut c_void) -> c_int;

    pub(super) fn rte_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub(super) fn rte_dev_probe(devargs: *const c_char) -> c_int;
    pub(super) fn rte_thread_register() -> c_int;
    pub(super) fn rte_thread_unregister();
    pub(super) fn rte_eth_dev_rx_intr_enable(port: u16, queue: u16) -> c_int;
    pub(super) fn rte_eth_dev_rx_intr_disable(port: u16, queue: u16) -> c_int;
    pub(super) fn rte_eth_dev_rx_intr_ctl_q_get_fd(port: u16, queue: u16) -> c_int;
}
