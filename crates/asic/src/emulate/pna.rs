//! PNA on the chip: pre control, parser and main control from the first pass on, the deparser in the last.

use super::arch::Arch;
use super::counts::Violation;
use super::frame::{Destination, Frame};
use super::layout::Reg;
use interp::host::architecture::PnaInput;
use interp::host::architecture::pna::{CPU_PORT, MAX_PASSES};
use ir::ControlKind;
use packet::{CpuReason, EngineReason, Origin, PortId, Verdict};
use tables::CloneSession;

impl Arch<'_> {
    /// Runs a received packet and all that becomes of it.
    pub fn run_pna(&mut self, frame: &mut Frame, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        loop {
            self.enter(frame, &bytes);
            match self.main_block(frame) {
                Ok(Some(again)) => bytes = again,
                Ok(None) => break,
                Err(reason) => {
                    self.drop(reason.into(), frame.origin);
                    break;
                }
            }
        }
    }

    fn tell(&self, frame: &mut Frame, input: &PnaInput<Reg>) {
        let config = &self.machine.program.config;
        frame.set(input.input_port, u64::from(frame.port));
        frame.set(input.parser_error, u64::from(frame.parser_error));
        frame.set(input.direction, u64::from(config.host_ports.contains(&frame.port)));
        frame.set(input.pass, u64::from(frame.rounds));
        frame.set(input.timestamp, self.machine.host.now().saturating_sub(config.start));
    }

    /// One round; the packet's bytes if it is to make another one.
    fn main_block(&mut self, frame: &mut Frame) -> Result<Option<Vec<u8>>, EngineReason> {
        let [pre, parser, main] = self.machine.program.known.pna;
        self.tell(frame, &pre);
        self.block(frame, ControlKind::PreControl)?;
        self.tell(frame, &parser);
        self.parse(frame, ControlKind::MainParser)?;
        self.tell(frame, &main);
        self.block(frame, ControlKind::MainControl)?;
        self.go_to_deparser(frame)?;
        let deparsed = self.deparse(frame, ControlKind::MainDeparser);
        if deparsed.is_ok() {
            self.mirror(frame);
        }
        if frame.asked.pna_recirculate {
            deparsed?;
            return self.recirculate_main(frame).map(Some);
        }
        match frame.asked.destination {
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
        Ok(None)
    }

    /// A packet that is dropped and not mirrored ends where it is; all others go to the deparser of the pass that is the last of the chip. One whose port is
    /// known only in an egress half has to go around once more: no traffic manager is behind it.
    fn go_to_deparser(&mut self, frame: &mut Frame) -> Result<(), EngineReason> {
        let program = self.machine.program;
        let ends = frame.asked.destination == Destination::Drop
            && frame.asked.mirror == [None; 4]
            && !frame.asked.pna_recirculate;
        if ends {
            return Ok(());
        }
        if frame.pass == program.boundary_pass && matches!(frame.asked.destination, Destination::Port(_)) {
            self.machine.counts.late_ports += 1;
        }
        self.cross_to(frame, program.boundary_pass)
    }

    fn recirculate_main(&mut self, frame: &mut Frame) -> Result<Vec<u8>, EngineReason> {
        if frame.rounds >= MAX_PASSES {
            return Err(EngineReason::RecirculationLimit);
        }
        let bytes = Self::deparsed(frame);
        frame.ingress_length = bytes.len() as u32;
        frame.rounds += 1;
        Ok(bytes)
    }

    /// The copies that were asked for: the packet as deparsed, cut to the session's length.
    fn mirror(&mut self, frame: &mut Frame) {
        for session in frame.asked.mirror.into_iter().flatten() {
            let origin = Origin::Clone { session };
            if session == 0 {
                self.emit(frame, Verdict::ToCpu { reason: CpuReason::CpuPort }, origin);
                continue;
            }
            let Some(CloneSession { replicas, multicast_group, packet_length, .. }) =
                self.machine.host.clone_session(session).cloned()
            else {
                continue;
            };
            let group = multicast_group.and_then(|group| self.machine.host.multicast_group(group));
            let members = group.map(|group| group.replicas.clone()).unwrap_or_default();
            let kept = std::mem::replace(&mut frame.cut, packet_length);
            for replica in replicas.iter().chain(&members) {
                if self.copies == 0 {
                    self.drop(EngineReason::ReplicationLimit.into(), origin);
                    break;
                }
                self.copies -= 1;
                let ports = &self.machine.program.config.ports;
                let known = ports.as_ref().is_none_or(|ports| ports.contains(&replica.port));
                match (replica.port, known) {
                    (CPU_PORT, _) => self.emit(frame, Verdict::ToCpu { reason: CpuReason::CpuPort }, origin),
                    (port, true) => self.emit(frame, Verdict::Forward { port: PortId(port) }, origin),
                    _ => self.drop(EngineReason::UnknownPort.into(), origin),
                }
            }
            frame.cut = kept;
        }
    }

    /// The packet as it came in, if the chip still has it.
    pub fn original(&mut self, frame: &Frame) -> Result<Vec<u8>, EngineReason> {
        match &frame.original {
            Some(bytes) => Ok(bytes.clone()),
            None => {
                self.machine.violated(Violation::Original);
                Err(EngineReason::EngineFault)
            }
        }
    }
}
