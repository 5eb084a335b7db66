//! Auxiliary programs of the eBPF object: device probe, pass and drop programs, and a generator.

use super::XdpError;
use super::driver::index_of;
use super::kernel::{XdpProgram, map_error, program, refused};
use super::maps::WINDOW;
use super::test_run::run_live;
use aya::programs::XdpFlags;
use aya::programs::xdp::XdpLink;
use std::os::fd::AsFd;

impl XdpProgram {
    /// Returns whether the device of a slot accepts packets from XDP programs; `None` if unknown.
    /// Sends a short frame through the device, with Ethernet's local experimental type and a group
    /// address that bridges do not forward.
    pub(super) fn probe(&self, slot: u32) -> Option<bool> {
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);
        frame[6] = 0x02;
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[14..18].copy_from_slice(&slot.to_ne_bytes());
        let (refused_before, program) = {
            let mut inner = self.inner();
            let refused_before = inner.losses.as_ref().ok()?.lost(slot).probes();
            let program = program(&mut inner.ebpf, "probe").ok()?.fd().ok()?.try_clone().ok()?;
            (refused_before, program)
        };
        // Run without an input interface, because interface indices are those of the thread's
        // network namespace, which may be another one.
        run_live(program.as_fd(), 0, &frame, 1).ok()?;
        let inner = self.inner();
        // A refused probe has been counted when the run ends.
        Some(inner.losses.as_ref().ok()?.lost(slot).probes() == refused_before)
    }

    /// Attaches a program that passes all packets, because a veth interface only accepts packets
    /// from an XDP program if its peer has a program or receive offload. Dropping the result
    /// detaches it.
    ///
    /// # Errors
    /// The same as for a port.
    pub fn let_pass(&self, interface: &str) -> Result<impl Send + use<>, XdpError> {
        self.attach_other("pass", interface)
    }

    /// Attaches a program that drops all packets, for measurements.
    ///
    /// # Errors
    /// The same as for a port.
    pub fn sink(&self, interface: &str) -> Result<impl Send + use<>, XdpError> {
        self.attach_other("sink", interface)
    }

    fn attach_other(&self, name: &str, interface: &str) -> Result<XdpLink, XdpError> {
        let index = index_of(interface)?;
        let mut inner = self.inner();
        let xdp = program(&mut inner.ebpf, name)?;
        let link = xdp.attach_to_if_index(index, XdpFlags::DRV_MODE).and_then(|id| xdp.take_link(id));
        link.map_err(|error| XdpError::Attach { interface: interface.to_owned(), why: error.to_string() })
    }

    /// Sends `count` frames of one length from an interface of the calling thread's network
    /// namespace, as fast as the kernel can: repeats up to 1024 frames, which differ only in their
    /// first [`WINDOW`] bytes. For measurements.
    ///
    /// # Errors
    /// The kernel does not support it (before 5.18) or does not permit it.
    pub fn generate(&self, interface: u32, frames: &[Vec<u8>], count: u32) -> Result<(), XdpError> {
        let Some(frame) = frames.first() else { return Ok(()) };
        let descriptor = {
            let mut inner = self.inner();
            let repeated = &frames[..frames.len().min(1024)];
            for (index, frame) in repeated.iter().enumerate() {
                let mut bytes = [0; WINDOW];
                bytes.iter_mut().zip(frame).for_each(|(target, byte)| *target = *byte);
                inner.frames.set(index as u32, bytes, 0).map_err(map_error)?;
            }
            inner.generators.set(0, [repeated.len() as u32, 0], 0).map_err(map_error)?;
            let fd = program(&mut inner.ebpf, "generate")?.fd().map_err(refused)?.as_fd();
            fd.try_clone_to_owned()
                .map_err(|source| XdpError::System { step: "have the program's descriptor", source })?
        };
        run_live(descriptor.as_fd(), interface, frame, count)
            .map_err(|source| XdpError::System { step: "run the program on frames", source })
    }
}
