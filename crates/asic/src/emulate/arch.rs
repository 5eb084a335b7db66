//! What both architectures have in common: controls, copies, verdicts.

use super::frame::Frame;
use super::machine::{Machine, Outcome};
use ir::{ControlKind, Entity, VarId};
use packet::{CpuReason, DropReason, EngineReason, MAX_LEN, Origin, PortId, ReasonId, Verdict};
use std::collections::VecDeque;

/// One verdict, with the bytes that leave.
#[derive(Clone, Debug)]
pub struct Out {
    /// The packet; empty if it is dropped.
    pub bytes: Vec<u8>,
    /// What becomes of it.
    pub verdict: Verdict,
    /// How it came to be.
    pub origin: Origin,
}

/// Where a packet in the queue goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// At the parser.
    Ingress,
    /// v1model: at egress, for this port.
    Egress(u32),
}

/// One received packet with everything that becomes of it.
pub struct Arch<'a> {
    /// Runs controls.
    pub machine: Machine<'a>,
    /// Verdicts.
    pub out: Vec<Out>,
    /// Packets that wait.
    pub queue: VecDeque<(Next, Box<Frame>)>,
    /// Copies that may still be made.
    pub copies: u32,
}

impl Arch<'_> {
    /// A frame for another packet.
    pub fn frame(&self) -> Box<Frame> {
        Box::new(Frame::new(
            &self.machine.program.pipeline,
            &self.machine.program.layout,
            self.machine.program.apply_sites,
        ))
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

    /// A packet enters the first pass.
    pub fn enter(&mut self, frame: &mut Frame, bytes: &[u8]) {
        frame.begin(bytes);
        self.machine.counts.passes[0].add(bytes.len());
    }

    /// Runs a control, if the program has it, through all passes in which it has something to do. `Err`: the engine gave up.
    pub fn block(&mut self, frame: &mut Frame, kind: ControlKind) -> Result<(), EngineReason> {
        let program = self.machine.program;
        let Some(control) = program.control(kind) else { return Ok(()) };
        let schedule = &program.schedules[control.index()];
        let mut pass = schedule.begin;
        loop {
            if let Outcome::Abort(reason) = self.machine.run(frame, control, pass) {
                return Err(reason);
            }
            if pass >= schedule.end {
                return Ok(());
            }
            self.machine.cross(frame)?;
            pass += 1;
        }
    }

    /// Runs the parser.
    pub fn parse(&mut self, frame: &mut Frame, kind: ControlKind) -> Result<(), EngineReason> {
        self.machine.parser_fuel = self.machine.program.config.max_parser_states;
        self.block(frame, kind)
    }

    /// Runs the deparser. `Err`: the packet would be too long.
    pub fn deparse(&mut self, frame: &mut Frame, kind: ControlKind) -> Result<(), EngineReason> {
        frame.out.clear();
        self.block(frame, kind)?;
        match frame.too_long || frame.out.bytes().len() + frame.payload().len() > MAX_LEN {
            true => Err(EngineReason::PacketTooLong),
            false => Ok(()),
        }
    }

    /// Takes a packet through the passes that are left until `pass`.
    pub fn cross_to(&mut self, frame: &mut Frame, pass: u32) -> Result<(), EngineReason> {
        while frame.pass < pass {
            self.machine.cross(frame)?;
        }
        Ok(())
    }

    /// The deparsed packet.
    pub fn deparsed(frame: &Frame) -> Vec<u8> {
        [frame.out.bytes(), frame.payload()].concat()
    }

    /// Sends the deparsed packet.
    pub fn send(&mut self, frame: &Frame, port: u32, cpu: bool) {
        if cpu {
            let reason = frame.get(self.machine.program.known.cpu_reason);
            let reason = if reason == 0 { CpuReason::CpuPort } else { CpuReason::Program(ReasonId(reason as u32)) };
            return self.emit(frame, Verdict::ToCpu { reason }, frame.origin);
        }
        if self.machine.program.config.ports.as_ref().is_some_and(|ports| !ports.contains(&port)) {
            return self.drop(EngineReason::UnknownPort.into(), frame.origin);
        }
        self.emit(frame, Verdict::Forward { port: PortId(port) }, frame.origin);
    }

    /// Gives a verdict to the deparsed packet.
    pub fn emit(&mut self, frame: &Frame, verdict: Verdict, origin: Origin) {
        let mut bytes = Self::deparsed(frame);
        if let Some(length) = frame.asked.truncate {
            bytes.truncate(length as usize);
        }
        if frame.cut != 0 {
            bytes.truncate(frame.cut as usize);
        }
        self.machine.counts.sent.add(bytes.len());
        self.out.push(Out { bytes, verdict, origin });
    }

    /// Drops a packet.
    pub fn drop(&mut self, reason: DropReason, origin: Origin) {
        self.machine.counts.dropped += 1;
        self.out.push(Out { bytes: Vec::new(), verdict: Verdict::Drop(reason), origin });
    }

    /// Why the program dropped a packet: its own reason, if it keeps one.
    pub fn program_drop(&self, frame: &Frame) -> DropReason {
        match frame.get(self.machine.program.known.drop_reason) {
            0 => EngineReason::ProgramDrop.into(),
            reason => DropReason::Program(ReasonId(reason as u32)),
        }
    }

    /// Copies variables from another packet.
    pub fn preserve(&self, to: &mut Frame, vars: &[VarId], from: &Frame) {
        for var in vars {
            let range = self.machine.program.layout.var(*var).range();
            to.slots[range.clone()].copy_from_slice(&from.slots[range]);
        }
    }
}
