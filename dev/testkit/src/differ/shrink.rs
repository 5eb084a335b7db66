//! Makes a case small while it still shows a difference: first packets, then writes, then the program, and again.

use super::case::{Case, Source, Step};
use super::compile::compile;
use super::edits::cut;
use super::print::print;
use super::run::{Difference, run};
use super::subject::Factory;
use super::tally::Tally;
use entries::WriteBatch;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A case that shows a difference, and that difference.
struct Shrinker<'a> {
    case: Case,
    difference: Difference,
    factory: Factory<'a>,
    deadline: Instant,
}

/// The smallest case that is found within the time. `case` must show `difference`.
pub fn shrink(case: Case, difference: Difference, factory: Factory<'_>, time: Duration) -> (Case, Difference) {
    let mut shrinker = Shrinker { case, difference, factory, deadline: Instant::now() + time };
    loop {
        let before = shrinker.size();
        shrinker.steps();
        shrinker.packets();
        shrinker.updates();
        shrinker.bytes();
        shrinker.program();
        if shrinker.size() >= before || shrinker.late() {
            return (shrinker.case, shrinker.difference);
        }
    }
}

impl Shrinker<'_> {
    fn late(&self) -> bool {
        Instant::now() > self.deadline
    }

    /// How large the case is, to know when nothing gets smaller.
    fn size(&self) -> (usize, usize, usize) {
        let program = match &self.case.source {
            Source::Made(program) => print(program).len(),
            Source::File(_) => 0,
        };
        let (mut things, mut bytes) = (0, 0);
        for step in &self.case.steps {
            match step {
                Step::Write(batch) => things += batch.updates.len(),
                Step::Packets(packets) => {
                    things += packets.len();
                    bytes += packets.iter().map(|packet| packet.bytes.len()).sum::<usize>();
                }
                Step::Tick(_) => things += 1,
            }
        }
        (program, things, bytes)
    }

    /// Takes the case if it shows a difference of the same kind.
    fn try_case(&mut self, case: Case) -> bool {
        match run(&case, self.factory, &mut Tally::default()) {
            Err(difference) if difference.kind == self.difference.kind => {
                self.case = case;
                self.difference = difference;
                true
            }
            _ => false,
        }
    }

    fn try_steps(&mut self, steps: Vec<Step>) -> bool {
        let case = Case { steps, ..self.case.clone() };
        self.try_case(case)
    }

    /// Leaves out steps, at first all behind the difference.
    fn steps(&mut self) {
        let mut steps = self.case.steps.clone();
        steps.truncate(self.difference.step + 1);
        self.try_steps(steps);
        let mut chunk = self.case.steps.len();
        while chunk > 0 && !self.late() {
            let mut at = 0;
            while at < self.case.steps.len() && !self.late() {
                let mut steps = self.case.steps.clone();
                steps.drain(at..(at + chunk).min(steps.len()));
                if !self.try_steps(steps) {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    /// Leaves out packets.
    fn packets(&mut self) {
        for step in 0..self.case.steps.len() {
            let Some(Step::Packets(packets)) = self.case.steps.get(step) else { continue };
            let mut chunk = packets.len() / 2;
            while chunk > 0 && !self.late() {
                let mut at = 0;
                loop {
                    let mut steps = self.case.steps.clone();
                    let Some(Step::Packets(packets)) = steps.get_mut(step) else { return };
                    if at >= packets.len() || self.late() {
                        break;
                    }
                    packets.drain(at..(at + chunk).min(packets.len()));
                    if !self.try_steps(steps) {
                        at += chunk;
                    }
                }
                chunk /= 2;
            }
        }
    }

    /// Leaves out updates of writes.
    fn updates(&mut self) {
        for step in 0..self.case.steps.len() {
            let Some(Step::Write(batch)) = self.case.steps.get(step) else { continue };
            let mut chunk = batch.updates.len();
            while chunk > 0 && !self.late() {
                let mut at = 0;
                loop {
                    let mut steps = self.case.steps.clone();
                    let Some(Step::Write(WriteBatch { updates })) = steps.get_mut(step) else { return };
                    if at >= updates.len() || self.late() {
                        break;
                    }
                    updates.drain(at..(at + chunk).min(updates.len()));
                    if !self.try_steps(steps) {
                        at += chunk;
                    }
                }
                chunk /= 2;
            }
        }
    }

    /// Shortens packets, and sets their bytes to 0.
    fn bytes(&mut self) {
        for step in 0..self.case.steps.len() {
            let Some(Step::Packets(packets)) = self.case.steps.get(step) else { continue };
            if packets.len() > 8 {
                continue;
            }
            for packet in 0..packets.len() {
                self.bytes_of(step, packet);
            }
        }
    }

    fn change(&mut self, step: usize, packet: usize, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut steps = self.case.steps.clone();
        let Some(Step::Packets(packets)) = steps.get_mut(step) else { return false };
        let Some(packet) = packets.get_mut(packet) else { return false };
        let before = packet.bytes.clone();
        change(&mut packet.bytes);
        packet.bytes != before && self.try_steps(steps)
    }

    fn bytes_of(&mut self, step: usize, packet: usize) {
        let length = |shrinker: &Self| match shrinker.case.steps.get(step) {
            Some(Step::Packets(packets)) => packets.get(packet).map_or(0, |packet| packet.bytes.len()),
            _ => 0,
        };
        let mut cut = length(self);
        while cut > 0 && !self.late() {
            if cut > length(self) || !self.change(step, packet, |bytes| bytes.truncate(bytes.len() - cut)) {
                cut /= 2;
            }
        }
        let mut at = 0;
        while at < length(self).min(256) && !self.late() {
            // Long zeros first.
            if !self.change(step, packet, |bytes| bytes[at..].iter_mut().take(16).for_each(|byte| *byte = 0)) {
                for byte in at..(at + 16).min(length(self)) {
                    self.change(step, packet, |bytes| bytes[byte] = 0);
                }
            }
            at += 16;
        }
    }

    /// Cuts the program. After a cut that holds, the next one has the same number.
    fn program(&mut self) {
        let mut number = 0;
        while !self.late() {
            let Source::Made(program) = &self.case.source else { return };
            let Some(smaller) = cut(program, number) else { return };
            let text = print(&smaller);
            let taken = match compile(&text, true) {
                Ok(pipeline) => {
                    let case = self.case.moved(Source::Made(Box::new(smaller)), Arc::new(pipeline));
                    self.try_case(case)
                }
                Err(_) => false,
            };
            if !taken {
                number += 1;
            }
        }
    }
}
