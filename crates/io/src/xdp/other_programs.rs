//! The object's other programs: what asks a device, what stands at the other end of a veth pair, and a generator.

use super::XdpError;
use super::driver::index_of;
use super::form::WINDOW;
use super::kernel::{Kernel, full, program, refused};
use super::test_run::run_live;
use aya::programs::XdpFlags;
use aya::programs::xdp::XdpLink;
use std::os::fd::AsFd;

impl Kernel {
    /// Whether the device at a place takes packets from programs; `None` if that cannot be found out. If it does, its far end gets a short frame of Ethernet's local
    /// experimental type, for a group that no bridge forwards.
    pub(super) fn probe(&self, place: u32) -> Option<bool> {
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);
        frame[6] = 0x02;
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[14..18].copy_from_slice(&place.to_ne_bytes());
        let (before, program) = {
            let mut inner = self.inner();
            let before = inner.losses.as_ref().ok()?.lost(place).probes();
            let program = program(&mut inner.ebpf, "probe").ok()?.fd().ok()?.try_clone().ok()?;
            (before, program)
        };
        // As if from nowhere: interfaces' numbers are those of the thread's network namespace, which may be another one.
        run_live(program.as_fd(), 0, &frame, 1).ok()?;
        let inner = self.inner();
        Some(inner.losses.as_ref().ok()?.lost(place).probes() == before)
    }

    /// Attaches a program that lets all pass: the other end of a veth pair takes packets from a program only if it has one itself, or receive offload. It stays
    /// as long as the result lives.
    ///
    /// # Errors
    /// As of a port.
    pub fn let_pass(&self, interface: &str) -> Result<impl Send + use<>, XdpError> {
        self.attach_other("pass", interface)
    }

    /// As [`Kernel::let_pass`], but nothing passes: for measurements.
    ///
    /// # Errors
    /// As of a port.
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

    /// Sends frames of one length from an interface of the calling thread's network namespace, one after the other, `count` in all, as fast as the kernel can: up
    /// to 1024 frames, which differ in their first [`WINDOW`] bytes only. A generator for measurements.
    ///
    /// # Errors
    /// The kernel cannot (before 5.18), or does not allow it.
    pub fn generate(&self, interface: u32, frames: &[Vec<u8>], count: u32) -> Result<(), XdpError> {
        let Some(frame) = frames.first() else { return Ok(()) };
        let descriptor = {
            let mut inner = self.inner();
            let some = &frames[..frames.len().min(1024)];
            for (at, frame) in some.iter().enumerate() {
                let mut bytes = [0; WINDOW];
                bytes.iter_mut().zip(frame).for_each(|(to, byte)| *to = *byte);
                inner.frames.set(at as u32, bytes, 0).map_err(full)?;
            }
            inner.generators.set(0, [some.len() as u32, 0], 0).map_err(full)?;
            let fd = program(&mut inner.ebpf, "generate")?.fd().map_err(refused)?.as_fd();
            fd.try_clone_to_owned()
                .map_err(|source| XdpError::System { step: "have the program's descriptor", source })?
        };
        run_live(descriptor.as_fd(), interface, frame, count)
            .map_err(|source| XdpError::System { step: "run the program on frames", source })
    }
}
