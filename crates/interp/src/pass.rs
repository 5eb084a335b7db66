//! What both architectures have in common: passes through the pipeline, copies, and verdicts.

use crate::config::Config;
use crate::frame::{Frame, FramePool};
use crate::machine::Machine;
use crate::output::Outputs;
use crate::overseer::{Boundary, Overseer};
use crate::program::{CallArg, Outcome};
use crate::trace::Event;
use crate::walk::{Detour, Walker};
use ir::{ControlKind, Loc, VarId};
use packet::{CpuReason, DropReason, EngineReason, Origin, PortId, ReasonId, Verdict};
use std::collections::VecDeque;

/// Where a packet in the queue goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// At the parser.
    Ingress,
    /// v1model: at egress, for this port.
    Egress(u32),
}

/// One received packet with everything that becomes of it.
pub struct Pass<'a, O: Overseer> {
    /// Runs the blocks.
    pub machine: Machine<'a, O>,
    /// Settings.
    pub config: &'a Config,
    /// Verdicts.
    pub out: &'a mut Outputs,
    /// Packets that wait.
    pub queue: &'a mut VecDeque<(Stage, Box<Frame>)>,
    /// Frames to be used again.
    pub pool: &'a mut FramePool,
    /// Copies that may still be made.
    pub copies: u32,
    /// What runs blocks instead.
    pub detour: Option<&'a mut (dyn Detour + 'static)>,
}

impl<O: Overseer> Pass<'_, O> {
    /// A frame for another packet, its contents left over from an earlier one.
    pub fn frame(&mut self) -> Box<Frame> {
        self.pool.pop().unwrap_or_else(|| Box::new(Frame::new(self.machine.program)))
    }

    /// A frame for a copy, if the packet may still be copied; else the copy is counted as dropped.
    pub fn copy(&mut self, origin: Origin) -> Option<Box<Frame>> {
        if self.copies == 0 {
            self.drop(EngineReason::ReplicationLimit.into(), origin);
            return None;
        }
        self.copies -= 1;
        Some(self.frame())
    }

    /// A packet enters the parser: all variables are 0.
    pub fn begin(&mut self, frame: &mut Frame) {
        frame.begin(self.machine.program);
        self.machine.overseer.cross(frame, Boundary::Parser);
    }

    /// Runs a block, if the program has it. `Err`: the engine gave up.
    pub fn block(&mut self, frame: &mut Frame, kind: ControlKind) -> Result<Outcome, EngineReason> {
        let Some(code) = self.machine.program.code(kind) else { return Ok(Outcome::Return) };
        let mut outcome = Outcome::Return;
        let mut round = 0;
        while self.machine.overseer.begin(code, round, frame) {
            round += 1;
            outcome = match self.detour.as_deref_mut().filter(|detour| detour.takes(kind)) {
                Some(detour) => detour.run(&mut Walker::new(&mut self.machine, frame, code)),
                None => self.machine.run(frame, code),
            };
            if let Outcome::Abort(reason) = outcome {
                return Err(reason);
            }
        }
        Ok(outcome)
    }

    /// Runs the parser.
    pub fn parse(&mut self, frame: &mut Frame, kind: ControlKind) -> Result<(), EngineReason> {
        self.machine.parser_fuel = self.config.max_parser_states;
        frame.rejected = self.block(frame, kind)? == Outcome::Reject;
        Ok(())
    }

    /// Runs the deparser. `Err`: the packet would be too long.
    pub fn deparse(&mut self, frame: &mut Frame, kind: ControlKind) -> Result<(), EngineReason> {
        frame.out.clear();
        self.block(frame, kind)?;
        match frame.too_long || frame.out.byte_len() + frame.payload().len() > packet::MAX_LEN {
            true => Err(EngineReason::PacketTooLong),
            false => Ok(()),
        }
    }

    /// The variables that a request preserves.
    pub fn preserved(&self, site: (usize, u32)) -> Vec<VarId> {
        let call = self.machine.program.codes.get(site.0).and_then(|code| code.calls.get(site.1 as usize));
        let vars = call.and_then(|call| {
            call.args.iter().find_map(|arg| match arg {
                CallArg::Vars(vars) => Some(vars.clone()),
                _ => None,
            })
        });
        vars.unwrap_or_default()
    }

    /// Sends the deparsed packet.
    pub fn send(&mut self, frame: &Frame, port: u32, cpu: bool) {
        if cpu {
            let reason = frame.get(self.machine.program.well_known.cpu_reason);
            let reason = if reason == 0 { CpuReason::CpuPort } else { CpuReason::Program(ReasonId(reason as u32)) };
            return self.emit(frame, Verdict::ToCpu { reason }, frame.origin);
        }
        if self.config.ports.as_ref().is_some_and(|ports| !ports.contains(&port)) {
            return self.drop(EngineReason::UnknownPort.into(), frame.origin);
        }
        self.emit(frame, Verdict::Forward { port: PortId(port) }, frame.origin);
    }

    /// Gives a verdict to the deparsed packet.
    pub fn emit(&mut self, frame: &Frame, verdict: Verdict, origin: Origin) {
        let bytes = self.out.push(verdict, origin);
        bytes.extend_from_slice(frame.out.bytes());
        bytes.extend_from_slice(frame.payload());
        if let Some(length) = frame.truncate {
            bytes.truncate(length as usize);
        }
        if frame.cut != 0 {
            bytes.truncate(frame.cut as usize);
        }
        if O::TRACES {
            let bytes = bytes.len();
            let (verdict, reason) = match verdict {
                Verdict::Forward { port } => (format!("sent on {port}"), None),
                Verdict::ToCpu { reason } => ("to the CPU".to_owned(), Some(self.cpu_name(reason))),
                Verdict::Drop(reason) => ("dropped".to_owned(), Some(reason.to_string())),
            };
            self.machine.note(Event::Verdict { verdict, reason, bytes }, Loc::default());
        }
    }

    fn cpu_name(&self, reason: CpuReason) -> String {
        crate::reasons::table(self.machine.pipeline).cpu_name(reason).into_owned()
    }

    /// Drops a packet.
    pub fn drop(&mut self, reason: DropReason, origin: Origin) {
        self.out.push(Verdict::Drop(reason), origin);
        if O::TRACES {
            let reason = crate::reasons::table(self.machine.pipeline).drop_name(reason).into_owned();
            let event = Event::Verdict { verdict: "dropped".to_owned(), reason: Some(reason), bytes: 0 };
            self.machine.note(event, Loc::default());
        }
    }

    /// Why the program dropped a packet: its own reason, if it keeps one.
    pub fn program_drop(&self, frame: &Frame) -> DropReason {
        match frame.get(self.machine.program.well_known.drop_reason) {
            0 => EngineReason::ProgramDrop.into(),
            reason => DropReason::Program(ReasonId(reason as u32)),
        }
    }

    /// Records that a packet begins a pass.
    pub fn note_packet(&mut self, frame: &Frame, origin: &str, port: Option<u32>) {
        if O::TRACES {
            let event = Event::Packet { origin: origin.to_owned(), port, bytes: frame.len };
            self.machine.note(event, Loc::default());
        }
    }
}
