//! A port whose wire is a capture file.

use crate::capture::{CaptureError, CaptureReader, CaptureWriter, Record};
use crate::{Outgoing, Port, PortError, Readiness};
use packet::{Batch, MAX_LEN, PortCounters, PortId, PortReason};
use std::io::{Read, Write};

/// Receives the packets of one capture file, with their times, and writes to another what is sent. Either may be absent.
pub struct CapturePort {
    name: String,
    input: Option<CaptureReader<Box<dyn Read + Send>>>,
    output: Option<CaptureWriter<Box<dyn Write + Send>>>,
    /// An error of reading, to be reported once the packets before it have been received.
    read_error: Option<CaptureError>,
    /// The first error of writing; what is sent after it is counted as lost.
    write_error: Option<CaptureError>,
    counters: PortCounters,
}

impl CapturePort {
    /// A port called `name` without files: nothing to receive, and what is sent is counted and thrown away.
    pub fn new(name: impl Into<String>) -> CapturePort {
        CapturePort {
            name: name.into(),
            input: None,
            output: None,
            read_error: None,
            write_error: None,
            counters: PortCounters::default(),
        }
    }

    /// Receives from `source`, a pcap file called `file` in errors.
    pub fn reading(
        mut self,
        file: impl Into<String>,
        source: impl Read + Send + 'static,
    ) -> Result<CapturePort, PortError> {
        self.input = Some(CaptureReader::new(file, Box::new(source) as Box<dyn Read + Send>)?);
        Ok(self)
    }

    /// Sends to `sink`, a pcap file called `file` in errors.
    pub fn writing(
        mut self,
        file: impl Into<String>,
        sink: impl Write + Send + 'static,
    ) -> Result<CapturePort, PortError> {
        self.output = Some(CaptureWriter::new(file, Box::new(sink) as Box<dyn Write + Send>)?);
        Ok(self)
    }

    /// Writes out what is buffered, and returns the first error of writing, if there was one.
    pub fn finish(&mut self) -> Result<(), PortError> {
        if let Some(error) = self.write_error.take() {
            return Err(error.into());
        }
        if let Some(output) = &mut self.output {
            output.flush()?;
        }
        Ok(())
    }
}

impl Drop for CapturePort {
    fn drop(&mut self) {
        // Who wants to know of errors calls `finish`.
        let _ = self.finish();
    }
}

impl Port for CapturePort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mtu(&self) -> usize {
        MAX_LEN
    }

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        if let Some(error) = self.read_error.take() {
            return Err(error.into());
        }
        let before = batch.len();
        while let Some(input) = &mut self.input {
            let Ok(slot) = batch.push() else { break };
            let outcome = input.next(slot);
            if let Ok(Record::Packet) = outcome {
                slot.ingress_port = id;
                self.counters.received.add(slot.len());
                continue;
            }
            batch.truncate(batch.len() - 1);
            match outcome {
                Ok(Record::Oversize(len)) => self.counters.drops.add(PortReason::RxOversize, len),
                Ok(_) => self.input = None,
                // What came before the damage is processed first: an error now would lose it.
                Err(_) if batch.len() > before => {
                    self.read_error = outcome.err();
                    self.input = None;
                }
                Err(error) => {
                    self.input = None;
                    return Err(error.into());
                }
            }
        }
        Ok(batch.len() - before)
    }

    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize {
        let mut sent = 0;
        for packet in packets.iter() {
            let outcome = match (&self.write_error, &mut self.output) {
                (Some(_), _) => Err(None),
                (None, Some(output)) => output.write(packet).map_err(Some),
                (None, None) => Ok(()),
            };
            match outcome {
                Ok(()) => {
                    self.counters.sent.add(packet.len());
                    sent += 1;
                }
                Err(error) => {
                    self.write_error = self.write_error.take().or(error);
                    self.counters.drops.add(PortReason::TxError, packet.len());
                }
            }
        }
        sent
    }

    fn readiness(&self) -> Readiness<'_> {
        if self.input.is_some() || self.read_error.is_some() { Readiness::Now } else { Readiness::Ended }
    }

    fn counters(&mut self) -> &PortCounters {
        &self.counters
    }
}
