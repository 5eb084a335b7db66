//! PNA: pre control, main parser, main control, main deparser (the comments of `programs/include/pna.p4` say for users what
//! holds here where the specification leaves a choice).
//!
//! A packet that the main parser rejects goes on to the main control, with the headers extracted so far and
//! `istd.parser_error` set. A packet that the program neither sends nor drops is dropped as `no_destination`.

use crate::frame::{Destination, Frame};
use crate::overseer::{Boundary, Overseer};
use crate::pass::Pass;
use crate::well_known::PnaInput;
use entries::CloneSession;
use ir::ControlKind;
use packet::{CpuReason, EngineReason, Origin, PortId, Verdict};

/// `PNA_PORT_CPU`.
pub const CPU_PORT: u32 = 0xffff_fffd;
/// The pass number has three bits.
pub const MAX_PASSES: u32 = 7;

impl<O: Overseer> Pass<'_, O> {
    /// Runs a received packet and all that becomes of it.
    pub fn run_pna(&mut self, mut frame: Box<Frame>) {
        self.note_packet(&frame, "received", Some(frame.port));
        self.begin(&mut frame);
        loop {
            match self.main_block(&mut frame) {
                Ok(true) => self.begin(&mut frame),
                Ok(false) => break,
                Err(reason) => {
                    self.drop(reason.into(), frame.origin);
                    break;
                }
            }
        }
        self.pool.push(frame);
    }

    fn tell(&self, frame: &mut Frame, input: &PnaInput) {
        frame.set(input.input_port, u64::from(frame.port));
        frame.set(input.parser_error, u64::from(frame.parser_error));
        frame.set(input.direction, u64::from(self.config.host_ports.contains(&frame.port)));
        frame.set(input.pass, u64::from(frame.passes));
        frame.set(input.timestamp, self.machine.memory.now.saturating_sub(self.config.start));
    }

    /// One pass; true if the packet is to make another one.
    fn main_block(&mut self, frame: &mut Frame) -> Result<bool, EngineReason> {
        let [pre, parser, main] = self.machine.program.well_known.pna;
        self.tell(frame, &pre);
        self.block(frame, ControlKind::PreControl)?;
        self.tell(frame, &parser);
        self.parse(frame, ControlKind::MainParser)?;
        self.tell(frame, &main);
        self.block(frame, ControlKind::MainControl)?;
        self.machine.overseer.cross(frame, Boundary::Deparser);
        let deparsed = self.deparse(frame, ControlKind::MainDeparser);
        if deparsed.is_ok() {
            self.mirror(frame);
        }
        if frame.pna_recirculate {
            deparsed?;
            return self.recirculate_main(frame).map(|()| true);
        }
        match frame.destination {
            // A drop is a drop, whether or not the packet could have been sent.
            Destination::Drop => {
                let reason = self.program_drop(frame);
                self.drop(reason, frame.origin);
            }
            Destination::None => {
                deparsed?;
                return Err(EngineReason::NoDestination);
            }
            Destination::Port(port) => {
                deparsed?;
                self.send(frame, port, port == CPU_PORT);
            }
        }
        Ok(false)
    }

    fn recirculate_main(&mut self, frame: &mut Frame) -> Result<(), EngineReason> {
        if frame.passes >= MAX_PASSES {
            return Err(EngineReason::RecirculationLimit);
        }
        let mut bytes = frame.out.bytes().to_vec();
        bytes.extend_from_slice(frame.payload());
        frame.set_data(&bytes);
        frame.ingress_length = bytes.len() as u32;
        frame.passes += 1;
        self.note_packet(frame, "recirculated", Some(frame.port));
        Ok(())
    }

    /// The copies that were asked for: the packet as deparsed, cut to the session's length.
    fn mirror(&mut self, frame: &mut Frame) {
        for session in frame.mirror.into_iter().flatten() {
            let origin = Origin::Clone { session };
            if session == 0 {
                self.machine.note_architecture(|| "mirrored to the CPU".to_owned());
                self.emit(frame, Verdict::ToCpu { reason: CpuReason::CpuPort }, origin);
                continue;
            }
            let Some(CloneSession { replicas, multicast_group, packet_length, .. }) =
                self.machine.memory.clone_session(session).cloned()
            else {
                self.machine.note_architecture(|| format!("no mirrored copy: there is no session {session}"));
                continue;
            };
            let group = multicast_group.and_then(|group| self.machine.memory.multicast_group(group));
            let members = group.map(|group| group.replicas.clone()).unwrap_or_default();
            let kept = std::mem::replace(&mut frame.cut, packet_length);
            for replica in replicas.iter().chain(&members) {
                if self.copies == 0 {
                    self.drop(EngineReason::ReplicationLimit.into(), origin);
                    break;
                }
                self.copies -= 1;
                let known = self.config.ports.as_ref().is_none_or(|ports| ports.contains(&replica.port));
                match (replica.port, known) {
                    (CPU_PORT, _) => self.emit(frame, Verdict::ToCpu { reason: CpuReason::CpuPort }, origin),
                    (port, true) => self.emit(frame, Verdict::Forward { port: PortId(port) }, origin),
                    _ => self.drop(EngineReason::UnknownPort.into(), origin),
                }
            }
            frame.cut = kept;
        }
    }
}
