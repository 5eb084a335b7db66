//! [`GsoTap`]: a TAP through which super-frames and packets with open checksums leave an interface.
//!
//! A raw socket cannot send a VXLAN super-frame, because its `virtio_net_hdr` does not describe
//! tunnels. A TAP can (Linux 6.17): a packet that a process writes to it, with a description of its
//! tunnel, arrives on the TAP as from a wire, and a tc program at the TAP's ingress ([`Redirect`])
//! sends it out of the interface. The kernel cuts it there if the interface cannot.
//!
//! ```text
//! RawPort ── write ──▶ TAP tgso0 ── tcx: bpf_redirect ──▶ interface
//! ```
#![allow(unsafe_code)]

use crate::redirect::Redirect;
use crate::segment::has_checksum;
use crate::segment::headers::Headers;
use crate::sys::{check_result, interface_name, interface_request};
use crate::tap_device;
use packet::Packet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use thiserror::Error;

/// Requests of linux/if_tun.h.
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUNSETVNETHDRSZ: libc::c_ulong = 0x4004_54d8;
const TUNSETVNETLE: libc::c_ulong = 0x4004_54dc;
/// `TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6`, `TUN_F_TSO_ECN`.
const PLAIN_OFFLOADS: libc::c_ulong = 0x0f;
/// `TUN_F_UDP_TUNNEL_GSO`, `TUN_F_UDP_TUNNEL_GSO_CSUM`.
const TUNNEL_OFFLOADS: libc::c_ulong = 0x180;
/// Template of the name; the kernel sets the number.
const NAME: &str = "tgso%d";
/// Length of `struct virtio_net_hdr_v1_hash_tunnel`, in bytes.
const HEADER: usize = 24;
/// Flags and types of that header (VIRTIO 1.4, section 5.1.6).
const NEEDS_CHECKSUM: u8 = 1;
const TUNNEL_CHECKSUM: u8 = 8;
const GSO_TCP_IPV4: u8 = 1;
const GSO_TCP_IPV6: u8 = 4;
const GSO_TUNNEL_IPV4: u8 = 0x20;
const GSO_TUNNEL_IPV6: u8 = 0x40;
const GSO_ECN: u8 = 0x80;

/// Reason why a port has no TAP for its super-frames. The port cuts them then.
#[derive(Debug, Error)]
pub(crate) enum GsoTapError {
    /// A right is missing.
    #[error("making a TAP device needs CAP_NET_ADMIN and CAP_BPF")]
    NotPermitted,
    /// The kernel has no tunnel offloads on TAPs.
    #[error("the kernel takes no tunnelled super-frames from a TAP device (Linux 6.17 or later does)")]
    OldKernel,
    /// The port came from a process of an earlier version.
    #[error("the process that handed over the port had no TAP device; restart the gateway")]
    NotTransferred,
    /// A step failed.
    #[error("cannot {step}: {source}")]
    Failed {
        /// The step.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// A TAP whose packets leave by an interface.
#[derive(Debug)]
pub(crate) struct GsoTap {
    name: String,
    tap: OwnedFd,
    redirect: Redirect,
}

impl GsoTap {
    /// Makes a TAP in the calling thread's network namespace for packets that leave by the
    /// interface with this index. `socket` is a socket of that namespace. The TAP goes when the
    /// last descriptor of it is closed.
    pub(crate) fn open(socket: BorrowedFd<'_>, target: u32) -> Result<GsoTap, GsoTapError> {
        let failed = |step: &'static str| {
            move |source: io::Error| match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => GsoTapError::NotPermitted,
                _ => GsoTapError::Failed { step, source },
            }
        };
        let tap = OwnedFd::from(tap_device::open_driver().map_err(failed("open /dev/net/tun"))?);
        let name = tap_device::create(&tap, NAME, libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL)
            .map_err(failed("make a TAP device"))?;
        let on: libc::c_int = 1;
        request_with(&tap, TUNSETVNETLE, &on).map_err(failed("set the byte order of the TAP device"))?;
        request_with(&tap, TUNSETVNETHDRSZ, &(HEADER as libc::c_int)).map_err(|_| GsoTapError::OldKernel)?;
        // SAFETY: the argument of this request is a number.
        let outcome = unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETOFFLOAD as _, PLAIN_OFFLOADS | TUNNEL_OFFLOADS) };
        check_result(outcome).map_err(|_| GsoTapError::OldKernel)?;
        // The TAP is no interface of the host. Without IPv6 the kernel sends nothing on it.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        tap_device::bring_up(socket, &name).map_err(failed("bring the TAP device up"))?;
        let index = interface_request(socket, &name, libc::SIOCGIFINDEX).map_err(failed("find the TAP device"))?;
        // SAFETY: SIOCGIFINDEX succeeded, so it has set this member of the union.
        let index = unsafe { index.ifr_ifru.ifru_ifindex };
        let redirect =
            Redirect::attach(index as u32, target).map_err(failed("attach a tc program to the TAP device"))?;
        Ok(GsoTap { name, tap, redirect })
    }

    /// Continues a TAP of another process.
    pub(crate) fn from_descriptors(tap: OwnedFd, redirect: OwnedFd) -> GsoTap {
        let name = name_of(&tap).unwrap_or_else(|_| "of the process before".to_owned());
        GsoTap { name, tap, redirect: Redirect::from_descriptor(redirect) }
    }

    /// Returns the name of the TAP device.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the descriptors for [`GsoTap::from_descriptors`].
    pub(crate) fn descriptors(&self) -> [&OwnedFd; 2] {
        [&self.tap, self.redirect.descriptor()]
    }

    /// Sends a prepared packet with these headers.
    ///
    /// # Errors
    /// The system's error. The packet is not sent.
    pub(crate) fn send(&self, packet: &Packet, headers: &Headers) -> io::Result<()> {
        let header = describe(packet, headers);
        let vectors = [
            libc::iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: header.len() },
            libc::iovec { iov_base: packet.bytes().as_ptr().cast_mut().cast(), iov_len: packet.len() },
        ];
        // SAFETY: the vectors describe `header` and the packet's bytes, which live across the call.
        // `writev` only reads this memory.
        let written = unsafe { libc::writev(self.tap.as_raw_fd(), vectors.as_ptr(), vectors.len() as _) };
        if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Returns the name of an open TAP.
fn name_of(tap: &OwnedFd) -> io::Result<String> {
    const TUNGETIFF: libc::c_ulong = 0x8004_54d2;
    let mut request = interface_name(NAME)?;
    // SAFETY: the request writes within the `ifreq`.
    check_result(unsafe { libc::ioctl(tap.as_raw_fd(), TUNGETIFF as _, &raw mut request) })?;
    Ok(tap_device::name_in(&request))
}

/// Sends a request whose argument is a number in memory.
fn request_with(tap: &OwnedFd, request: libc::c_ulong, value: &libc::c_int) -> io::Result<()> {
    // SAFETY: the request reads the number, which lives across the call.
    check_result(unsafe { libc::ioctl(tap.as_raw_fd(), request as _, &raw const *value) })?;
    Ok(())
}

/// Returns the description of a packet for the kernel: `struct virtio_net_hdr_v1_hash_tunnel`. Its
/// numbers are little-endian, because the TAP was set to this byte order.
fn describe(packet: &Packet, headers: &Headers) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let mut write_u16 =
        |offset: usize, value: usize| bytes[offset..offset + 2].copy_from_slice(&(value as u16).to_le_bytes());
    // `csum_start` and `csum_offset`; below `hdr_len`, `gso_size`, `outer_th_offset` and
    // `inner_nh_offset`.
    write_u16(6, headers.inner.transport);
    write_u16(8, headers.inner.protocol.checksum_offset());
    let (mut flags, mut gso_type) = (NEEDS_CHECKSUM, 0);
    if packet.offload.is_super_frame() {
        write_u16(2, headers.inner.payload);
        write_u16(4, usize::from(packet.offload.segment_payload));
        gso_type = if headers.inner.is_ipv6 { GSO_TCP_IPV6 } else { GSO_TCP_IPV4 };
        gso_type |= if packet.offload.has_ecn { GSO_ECN } else { 0 };
        if let Some(tunnel) = &headers.tunnel {
            write_u16(20, tunnel.transport);
            write_u16(22, headers.inner.network);
            gso_type |= if tunnel.is_ipv6 { GSO_TUNNEL_IPV6 } else { GSO_TUNNEL_IPV4 };
            flags |= if has_checksum(packet.bytes(), tunnel) { TUNNEL_CHECKSUM } else { 0 };
        }
    }
    (bytes[0], bytes[1]) = (flags, gso_type);
    bytes
}
