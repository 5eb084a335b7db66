//! The programs of the tc hook: loading, attaching, and counters that only this hook has.

use super::refusal::{error_chain, missing_capabilities};
use aya::Ebpf;
use aya::programs::links::LinkOrder;
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::{SchedClassifier, TcAttachType};

/// Packets of the tc program, by what only this hook meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcStats {
    /// Super-frames that were forwarded whole.
    pub super_frames: u64,
    /// Segments in them.
    pub segments: u64,
    /// Misses, because the VLAN tag is outside of the packet's bytes.
    pub tagged: u64,
    /// Super-frames that miss, because they are not TCP, or their headers do not have the layout of
    /// VXLAN.
    pub unknown_super_frames: u64,
    /// Super-frames that miss, because the flow changes the length of their header.
    pub resized_super_frames: u64,
    /// Misses, because the flow changes a checksum that is open.
    pub open_checksums: u64,
    /// Open checksums of tunnel headers that were withdrawn, because the flow writes 0.
    pub withdrawn_checksums: u64,
    /// Dropped, because they are longer than the MTU of the output device.
    pub too_long: u64,
}

/// Returns a program of this hook.
pub(super) fn classifier<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut SchedClassifier, String> {
    let program = ebpf.program_mut(name).ok_or_else(|| format!("the object has no program {name}"))?;
    program.try_into().map_err(|error: aya::programs::ProgramError| error_chain(&error))
}

/// Loads the programs of this hook. Returns the reason if the kernel refuses them.
pub(super) fn load_classifiers(ebpf: &mut Ebpf) -> Result<(), String> {
    for name in ["terrace_tc", "only_misses"] {
        classifier(ebpf, name)?.load().map_err(|error| error_chain(&error) + &missing_capabilities())?;
    }
    Ok(())
}

/// Attaches a program to an interface of the calling thread's network namespace, by a link that
/// ends with its descriptor (tcx). `direction` is ingress or egress. The program runs before those
/// that are attached already.
pub(super) fn attach_classifier(
    ebpf: &mut Ebpf,
    name: &str,
    interface: &str,
    direction: TcAttachType,
) -> Result<SchedClassifierLink, String> {
    let attach_error = |error: aya::programs::ProgramError| {
        format!("{}; this needs Linux 6.6 or later with tcx{}", error_chain(&error), missing_capabilities())
    };
    let program = classifier(ebpf, name)?;
    let options = TcAttachOptions::TcxOrder(LinkOrder::first());
    program
        .attach_with_options(interface, direction, options)
        .and_then(|id| program.take_link(id))
        .map_err(attach_error)
}
