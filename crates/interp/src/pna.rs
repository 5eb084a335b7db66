//! PNA: pre control, main parser, main control, main deparser. The comments of
//! `programs/include/pna.p4` document for users the choices that the specification leaves open.
//!
//! After a reject in the main parser the packet continues in the main control, with the headers
//! extracted up to the error and `istd.parser_error` set. A packet that the program neither sends
//! nor drops is dropped as `no_destination`.

use crate::frame::{Destination, Frame};
use crate::overseer::{ArchTransition, Overseer};
use crate::packet_run::PacketRun;
use crate::well_known::PnaInput;
use entries::CloneSession;
use ir::ControlKind;
use packet::{CpuReason, EngineReason, PacketOrigin, PortId, Verdict};

/// `PNA_PORT_CPU`.
pub const CPU_PORT: u32 = 0xffff_fffd;
/// Maximum pass number, because PNA's type has three bits.
pub const MAX_PASSES: u32 = 7;

impl<O: Overseer> PacketRun<'_, O> {
    /// Runs a received packet with all its copies and passes.
    pub fn run_pna(&mut self, mut frame: Box<Frame>) {
        self.record_pass_start(&frame, "received", Some(frame.port));
        self.start_pass(&mut frame);
        loop {
            match self.run_pass(&mut frame) {
                Ok(true) => self.start_pass(&mut frame),
                Ok(false) => break,
                Err(reason) => {
                    self.drop_packet(reason.into(), frame.origin);
                    break;
                }
            }
        }
        self.pool.push(frame);
    }

    /// Sets the variables that the architecture gives to a block: those of the block's input
    /// metadata.
    fn set_input_metadata(&self, frame: &mut Frame, input: &PnaInput) {
        frame.set(input.input_port, u64::from(frame.port));
        frame.set(input.parser_error, u64::from(frame.parser_error));
        frame.set(input.direction, u64::from(self.config.host_ports.contains(&frame.port)));
        frame.set(input.pass, u64::from(frame.passes));
        frame.set(input.segment_excess, u64::from(frame.segment_excess));
        frame.set(input.timestamp, self.machine.memory.now.saturating_sub(self.config.start_ns));
    }

    /// Runs one pass; returns true if the packet makes another one.
    fn run_pass(&mut self, frame: &mut Frame) -> Result<bool, EngineReason> {
        let [pre, parser, main] = self.machine.program.well_known.pna;
        self.set_input_metadata(frame, &pre);
        self.run_block(frame, ControlKind::PreControl)?;
        self.set_input_metadata(frame, &parser);
        self.run_parser(frame, ControlKind::MainParser)?;
        self.set_input_metadata(frame, &main);
        self.run_block(frame, ControlKind::MainControl)?;
        self.machine.overseer.on_transition(frame, ArchTransition::Deparser);
        let deparsed = self.run_deparser(frame, ControlKind::MainDeparser);
        if deparsed.is_ok() {
            self.send_mirror_copies(frame);
        }
        if frame.pna_recirculate {
            deparsed?;
            // The packet is dropped, and the next pass makes another packet of it.
            if frame.destination == Destination::Drop {
                let reason = self.program_drop_reason(frame);
                self.drop_packet(reason, frame.origin);
                frame.origin = PacketOrigin::Generated;
            }
            return self.recirculate_packet(frame).map(|()| true);
        }
        match frame.destination {
            // A drop takes effect even if the packet could not have been sent.
            Destination::Drop => {
                let reason = self.program_drop_reason(frame);
                self.drop_packet(reason, frame.origin);
            }
            Destination::None => {
                deparsed?;
                return Err(EngineReason::NoDestination);
            }
            Destination::Port(port) => {
                deparsed?;
                self.send_packet(frame, port, port == CPU_PORT);
            }
        }
        Ok(false)
    }

    /// Replaces the packet by the deparsed one, for another pass.
    ///
    /// Errors: the packet has made the maximum number of passes.
    fn recirculate_packet(&mut self, frame: &mut Frame) -> Result<(), EngineReason> {
        if frame.passes >= MAX_PASSES {
            return Err(EngineReason::RecirculationLimit);
        }
        let mut bytes = frame.out.bytes().to_vec();
        bytes.extend_from_slice(frame.payload());
        frame.set_data(&bytes);
        frame.ingress_len_bytes = bytes.len() as u32;
        frame.passes += 1;
        self.record_pass_start(frame, "recirculated", Some(frame.port));
        Ok(())
    }

    /// Sends the requested mirror copies: the deparsed packet, truncated to the session's length.
    /// Session 0 is the CPU.
    fn send_mirror_copies(&mut self, frame: &mut Frame) {
        for session in frame.mirror.into_iter().flatten() {
            let origin = PacketOrigin::Clone { session };
            if session == 0 {
                self.machine.record_architecture_event(|| "mirrored to the CPU".to_owned());
                self.emit_verdict(frame, Verdict::ToCpu { reason: CpuReason::CpuPort }, origin);
                continue;
            }
            let Some(CloneSession { replicas, multicast_group, packet_length, .. }) =
                self.machine.memory.clone_session(session).cloned()
            else {
                self.machine.record_architecture_event(|| format!("no mirrored copy: there is no session {session}"));
                continue;
            };
            let group = multicast_group.and_then(|group| self.machine.memory.multicast_group(group));
            let members = group.map(|group| group.replicas.clone()).unwrap_or_default();
            let own_limit = std::mem::replace(&mut frame.max_copy_bytes, packet_length);
            for replica in replicas.iter().chain(&members) {
                if self.copies == 0 {
                    self.drop_packet(EngineReason::ReplicationLimit.into(), origin);
                    break;
                }
                self.copies -= 1;
                let is_known_port = self.config.ports.as_ref().is_none_or(|ports| ports.contains(&replica.port));
                match (replica.port, is_known_port) {
                    (CPU_PORT, _) => self.emit_verdict(frame, Verdict::ToCpu { reason: CpuReason::CpuPort }, origin),
                    (port, true) => self.emit_verdict(frame, Verdict::Forward { port: PortId(port) }, origin),
                    _ => self.drop_packet(EngineReason::UnknownPort.into(), origin),
                }
            }
            frame.max_copy_bytes = own_limit;
        }
    }
}
