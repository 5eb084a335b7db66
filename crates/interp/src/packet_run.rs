//! Common parts of both architectures: passes through the pipeline, copies, and verdicts.

use crate::block_hook::{BlockHook, BlockStepper};
use crate::config::Config;
use crate::exec_context::ExecContext;
use crate::frame::{Frame, FramePool};
use crate::output::Outputs;
use crate::overseer::{ArchTransition, Overseer};
use crate::program::{BlockExit, CallArg};
use crate::trace::TraceEvent;
use ir::{ControlKind, SourceLoc, VarId};
use packet::{CpuReason, DropReason, EngineReason, PacketOrigin, PortId, ReasonId, Verdict};
use std::collections::VecDeque;

/// Block at which a queued packet continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResumePoint {
    /// Parser.
    Ingress,
    /// v1model: egress, for this port.
    Egress(u32),
}

/// Processing of one received packet with all its copies and recirculations.
pub struct PacketRun<'a, O: Overseer> {
    /// Execution context of the blocks.
    pub machine: ExecContext<'a, O>,
    /// Configuration of the engine.
    pub config: &'a Config,
    /// Verdicts.
    pub out: &'a mut Outputs,
    /// Packets that wait for further processing.
    pub queue: &'a mut VecDeque<(ResumePoint, Box<Frame>)>,
    /// Frames for reuse.
    pub pool: &'a mut FramePool,
    /// Remaining copies of the packet.
    pub copies: u32,
    /// Hook that runs blocks instead of the interpreter.
    pub hook: Option<&'a mut (dyn BlockHook + 'static)>,
}

impl<O: Overseer> PacketRun<'_, O> {
    /// Returns a frame for another packet, with stale contents.
    pub fn take_frame(&mut self) -> Box<Frame> {
        self.pool.pop().unwrap_or_else(|| Box::new(Frame::new(self.machine.program)))
    }

    /// Returns a frame for a copy. At the limit of copies, records the copy as dropped and returns
    /// `None`.
    pub fn take_copy_frame(&mut self, origin: PacketOrigin) -> Option<Box<Frame>> {
        if self.copies == 0 {
            self.drop_packet(EngineReason::ReplicationLimit.into(), origin);
            return None;
        }
        self.copies -= 1;
        Some(self.take_frame())
    }

    /// Starts a pass at the parser: all variables are 0.
    pub fn start_pass(&mut self, frame: &mut Frame) {
        frame.reset_for_pass(self.machine.program);
        self.machine.overseer.on_transition(frame, ArchTransition::Parser);
    }

    /// Runs a block, if the program has it. `Err`: a limit or an error of the engine. The overseer
    /// can run a block several times, or not at all.
    pub fn run_block(&mut self, frame: &mut Frame, kind: ControlKind) -> Result<BlockExit, EngineReason> {
        let Some(code) = self.machine.program.code(kind) else { return Ok(BlockExit::Return) };
        let mut outcome = BlockExit::Return;
        let mut round = 0;
        while self.machine.overseer.should_run_block(code, round, frame) {
            round += 1;
            outcome = match self.hook.as_deref_mut().filter(|hook| hook.handles_block(kind)) {
                Some(hook) => hook.run(&mut BlockStepper::new(&mut self.machine, frame, code)),
                None => self.machine.run(frame, code),
            };
            if let BlockExit::Abort(reason) = outcome {
                return Err(reason);
            }
        }
        Ok(outcome)
    }

    /// Runs the parser.
    pub fn run_parser(&mut self, frame: &mut Frame, kind: ControlKind) -> Result<(), EngineReason> {
        self.machine.parser_fuel = self.config.max_parser_states;
        frame.is_rejected = self.run_block(frame, kind)? == BlockExit::Reject;
        Ok(())
    }

    /// Runs the deparser. `Err`: the packet would be too long.
    pub fn run_deparser(&mut self, frame: &mut Frame, kind: ControlKind) -> Result<(), EngineReason> {
        frame.out.clear();
        self.run_block(frame, kind)?;
        match frame.is_too_long || frame.out.byte_len() + frame.payload().len() > packet::MAX_LEN {
            true => Err(EngineReason::PacketTooLong),
            false => Ok(()),
        }
    }

    /// Returns the variables that a request preserves.
    pub fn preserved_vars(&self, site: (usize, u32)) -> Vec<VarId> {
        let call = self.machine.program.codes.get(site.0).and_then(|code| code.calls.get(site.1 as usize));
        let vars = call.and_then(|call| {
            call.args.iter().find_map(|arg| match arg {
                CallArg::Vars(vars) => Some(vars.clone()),
                _ => None,
            })
        });
        vars.unwrap_or_default()
    }

    /// Sends the deparsed packet to a port or to the CPU.
    pub fn send_packet(&mut self, frame: &Frame, port: u32, cpu: bool) {
        if cpu {
            let reason = frame.get(self.machine.program.well_known.cpu_reason);
            let reason = if reason == 0 { CpuReason::CpuPort } else { CpuReason::Program(ReasonId(reason as u32)) };
            return self.emit_verdict(frame, Verdict::ToCpu { reason }, frame.origin);
        }
        if self.config.ports.as_ref().is_some_and(|ports| !ports.contains(&port)) {
            return self.drop_packet(EngineReason::UnknownPort.into(), frame.origin);
        }
        self.emit_verdict(frame, Verdict::Forward { port: PortId(port) }, frame.origin);
    }

    /// Records a verdict on the deparsed packet. The packet is the deparser's output and the bytes
    /// that the parser did not consume, truncated as the program or the copy's session wants.
    pub fn emit_verdict(&mut self, frame: &Frame, verdict: Verdict, origin: PacketOrigin) {
        let bytes = self.out.push(verdict, origin);
        bytes.extend_from_slice(frame.out.bytes());
        bytes.extend_from_slice(frame.payload());
        if let Some(length) = frame.truncate_bytes {
            bytes.truncate(length as usize);
        }
        // The length of a clone or mirror session; 0 means that copies are not truncated.
        if frame.max_copy_bytes != 0 {
            bytes.truncate(frame.max_copy_bytes as usize);
        }
        if O::TRACES {
            let bytes = bytes.len();
            let (verdict, reason) = match verdict {
                Verdict::Forward { port } => (format!("sent on {port}"), None),
                Verdict::ToCpu { reason } => ("to the CPU".to_owned(), Some(self.cpu_name(reason))),
                Verdict::Drop(reason) => ("dropped".to_owned(), Some(reason.to_string())),
            };
            self.machine.record_event(TraceEvent::Verdict { verdict, reason, bytes }, SourceLoc::default());
        }
    }

    fn cpu_name(&self, reason: CpuReason) -> String {
        crate::reasons::table(self.machine.pipeline).cpu_name(reason).into_owned()
    }

    /// Drops a packet.
    pub fn drop_packet(&mut self, reason: DropReason, origin: PacketOrigin) {
        self.out.push(Verdict::Drop(reason), origin);
        if O::TRACES {
            let reason = crate::reasons::table(self.machine.pipeline).drop_name(reason).into_owned();
            let event = TraceEvent::Verdict { verdict: "dropped".to_owned(), reason: Some(reason), bytes: 0 };
            self.machine.record_event(event, SourceLoc::default());
        }
    }

    /// Returns the program's own drop reason, or `ProgramDrop` if it keeps none.
    pub fn program_drop_reason(&self, frame: &Frame) -> DropReason {
        match frame.get(self.machine.program.well_known.drop_reason) {
            0 => EngineReason::ProgramDrop.into(),
            reason => DropReason::Program(ReasonId(reason as u32)),
        }
    }

    /// Records the start of a pass in the trace.
    pub fn record_pass_start(&mut self, frame: &Frame, origin: &str, port: Option<u32>) {
        if O::TRACES {
            let event = TraceEvent::Packet { origin: origin.to_owned(), port, bytes: frame.len };
            self.machine.record_event(event, SourceLoc::default());
        }
    }
}
