//! Shrinks a case that shows a mismatch: first its packets, then its writes, then its program,
//! repeatedly.

use super::case::{ProgramSource, TestCase, TestEvent};
use super::compile::compile;
use super::coverage::TestCoverage;
use super::print::print_program;
use super::reductions::reduced_program;
use super::run::{Mismatch, run_case};
use super::subject::Factory;
use entries::WriteBatch;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A case with its mismatch.
struct Shrinker<'a> {
    case: TestCase,
    difference: Mismatch,
    factory: Factory<'a>,
    deadline: Instant,
}

/// Returns the smallest case that is found within the time. `case` must show `difference`.
pub fn shrink_case(case: TestCase, difference: Mismatch, factory: Factory<'_>, time: Duration) -> (TestCase, Mismatch) {
    let mut shrinker = Shrinker { case, difference, factory, deadline: Instant::now() + time };
    loop {
        let before = shrinker.case_size();
        shrinker.remove_events();
        shrinker.remove_packets();
        shrinker.remove_updates();
        shrinker.bytes();
        shrinker.reduce_program();
        if shrinker.case_size() >= before || shrinker.is_out_of_time() {
            return (shrinker.case, shrinker.difference);
        }
    }
}

impl Shrinker<'_> {
    fn is_out_of_time(&self) -> bool {
        Instant::now() > self.deadline
    }

    /// Returns the size of the case, to detect that it no longer shrinks.
    fn case_size(&self) -> (usize, usize, usize) {
        let program = match &self.case.source {
            ProgramSource::Made(program) => print_program(program).len(),
            ProgramSource::File(_) => 0,
        };
        let (mut things, mut bytes) = (0, 0);
        for step in &self.case.steps {
            match step {
                TestEvent::Write(batch) => things += batch.updates.len(),
                TestEvent::Packets(packets) => {
                    things += packets.len();
                    bytes += packets.iter().map(|packet| packet.bytes.len()).sum::<usize>();
                }
                TestEvent::Tick(_) => things += 1,
            }
        }
        (program, things, bytes)
    }

    /// Accepts the case if it shows a mismatch of the same kind.
    fn try_case(&mut self, case: TestCase) -> bool {
        match run_case(&case, self.factory, &mut TestCoverage::default()) {
            Err(difference) if difference.kind == self.difference.kind => {
                self.case = case;
                self.difference = difference;
                true
            }
            _ => false,
        }
    }

    fn try_steps(&mut self, steps: Vec<TestEvent>) -> bool {
        let case = TestCase { steps, ..self.case.clone() };
        self.try_case(case)
    }

    /// Removes events, starting with all events after the mismatch.
    fn remove_events(&mut self) {
        let mut steps = self.case.steps.clone();
        steps.truncate(self.difference.step + 1);
        self.try_steps(steps);
        let mut chunk = self.case.steps.len();
        while chunk > 0 && !self.is_out_of_time() {
            let mut at = 0;
            while at < self.case.steps.len() && !self.is_out_of_time() {
                let mut steps = self.case.steps.clone();
                steps.drain(at..(at + chunk).min(steps.len()));
                if !self.try_steps(steps) {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    /// Removes packets, first in large chunks, as long as the mismatch remains.
    fn remove_packets(&mut self) {
        for step in 0..self.case.steps.len() {
            let Some(TestEvent::Packets(packets)) = self.case.steps.get(step) else { continue };
            let mut chunk = packets.len() / 2;
            while chunk > 0 && !self.is_out_of_time() {
                let mut start = 0;
                loop {
                    let mut steps = self.case.steps.clone();
                    let Some(TestEvent::Packets(packets)) = steps.get_mut(step) else { return };
                    if start >= packets.len() || self.is_out_of_time() {
                        break;
                    }
                    packets.drain(start..(start + chunk).min(packets.len()));
                    if !self.try_steps(steps) {
                        start += chunk;
                    }
                }
                chunk /= 2;
            }
        }
    }

    /// Removes updates of writes, first in large chunks, as long as the mismatch remains.
    fn remove_updates(&mut self) {
        for step in 0..self.case.steps.len() {
            let Some(TestEvent::Write(batch)) = self.case.steps.get(step) else { continue };
            let mut chunk = batch.updates.len();
            while chunk > 0 && !self.is_out_of_time() {
                let mut start = 0;
                loop {
                    let mut steps = self.case.steps.clone();
                    let Some(TestEvent::Write(WriteBatch { updates })) = steps.get_mut(step) else { return };
                    if start >= updates.len() || self.is_out_of_time() {
                        break;
                    }
                    updates.drain(start..(start + chunk).min(updates.len()));
                    if !self.try_steps(steps) {
                        start += chunk;
                    }
                }
                chunk /= 2;
            }
        }
    }

    /// Shortens packets, and sets their bytes to 0.
    fn bytes(&mut self) {
        for step in 0..self.case.steps.len() {
            let Some(TestEvent::Packets(packets)) = self.case.steps.get(step) else { continue };
            if packets.len() > 8 {
                continue;
            }
            for packet in 0..packets.len() {
                self.bytes_of(step, packet);
            }
        }
    }

    fn try_packet_change(&mut self, step: usize, packet: usize, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut steps = self.case.steps.clone();
        let Some(TestEvent::Packets(packets)) = steps.get_mut(step) else { return false };
        let Some(packet) = packets.get_mut(packet) else { return false };
        let before = packet.bytes.clone();
        change(&mut packet.bytes);
        packet.bytes != before && self.try_steps(steps)
    }

    /// Shortens a packet, and sets its first 256 bytes to 0 where the mismatch remains.
    fn bytes_of(&mut self, step: usize, packet: usize) {
        let length = |shrinker: &Self| match shrinker.case.steps.get(step) {
            Some(TestEvent::Packets(packets)) => packets.get(packet).map_or(0, |packet| packet.bytes.len()),
            _ => 0,
        };
        let mut cut_len = length(self);
        while cut_len > 0 && !self.is_out_of_time() {
            if cut_len > length(self)
                || !self.try_packet_change(step, packet, |bytes| bytes.truncate(bytes.len() - cut_len))
            {
                cut_len /= 2;
            }
        }
        let mut offset = 0;
        while offset < length(self).min(256) && !self.is_out_of_time() {
            // Long runs of zeros are tried first.
            if !self
                .try_packet_change(step, packet, |bytes| bytes[offset..].iter_mut().take(16).for_each(|byte| *byte = 0))
            {
                for byte in offset..(offset + 16).min(length(self)) {
                    self.try_packet_change(step, packet, |bytes| bytes[byte] = 0);
                }
            }
            offset += 16;
        }
    }

    /// Reduces the program. After a successful reduction, the next one has the same number.
    fn reduce_program(&mut self) {
        let mut number = 0;
        while !self.is_out_of_time() {
            let ProgramSource::Made(program) = &self.case.source else { return };
            let Some(smaller) = reduced_program(program, number) else { return };
            let text = print_program(&smaller);
            let taken = match compile(&text, true) {
                Ok(pipeline) => {
                    let case = self.case.remapped(ProgramSource::Made(Box::new(smaller)), Arc::new(pipeline));
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
