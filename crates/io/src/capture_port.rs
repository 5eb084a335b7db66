//! A port that reads from and writes to capture files.

use crate::capture::{CaptureError, CaptureReader, CaptureWriter, Record};
use crate::{Port, PortError, Readiness, TxBatch};
use packet::{Batch, MAX_WIRE_LEN, PortCounters, PortId, PortReason};
use std::io::{Read, Write};

/// Receives the packets of one capture file, with their times, and writes sent packets to another
/// one. Both files are optional.
pub struct CapturePort {
    name: String,
    input: Option<CaptureReader<Box<dyn Read + Send>>>,
    output: Option<CaptureWriter<Box<dyn Write + Send>>>,
    /// A read error, which is reported after the packets before it were received.
    read_error: Option<CaptureError>,
    /// The first write error. Packets that are sent later are counted as dropped.
    write_error: Option<CaptureError>,
    counters: PortCounters,
}

impl CapturePort {
    /// Creates a port without files: it receives nothing, and counts and discards sent packets.
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

    /// Adds an input: `source`, a pcap file called `file` in errors.
    pub fn reading(
        mut self,
        file: impl Into<String>,
        source: impl Read + Send + 'static,
    ) -> Result<CapturePort, PortError> {
        self.input = Some(CaptureReader::new(file, Box::new(source) as Box<dyn Read + Send>)?);
        Ok(self)
    }

    /// Adds an output: `sink`, a pcap file called `file` in errors.
    pub fn writing(
        mut self,
        file: impl Into<String>,
        sink: impl Write + Send + 'static,
    ) -> Result<CapturePort, PortError> {
        self.output = Some(CaptureWriter::new(file, Box::new(sink) as Box<dyn Write + Send>)?);
        Ok(self)
    }

    /// Flushes buffered packets and returns the first write error, if any.
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
        // Errors are ignored here; a caller that needs them calls `finish`.
        let _ = self.finish();
    }
}

impl Port for CapturePort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mtu(&self) -> usize {
        MAX_WIRE_LEN
    }

    /// Reads packets from the input file until the batch is full or the file ends. Counts records
    /// that are longer than any packet as dropped. A read error ends the input.
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
                self.counters.received.count_packet(slot.len());
                continue;
            }
            batch.truncate(batch.len() - 1);
            match outcome {
                Ok(Record::Oversize(len)) => self.counters.drops.count_drop(PortReason::RxOversize, len),
                Ok(_) => self.input = None,
                // Report the error at the next call, because it would discard the packets before it
                // now.
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

    /// Writes packets to the output file. Without one, they count as sent. After a write error,
    /// which [`CapturePort::finish`] returns, all further packets are dropped.
    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        let mut sent = 0;
        for packet in packets.iter() {
            let outcome = match (&self.write_error, &mut self.output) {
                (Some(_), _) => Err(None),
                (None, Some(output)) => output.write(packet).map_err(Some),
                (None, None) => Ok(()),
            };
            match outcome {
                Ok(()) => {
                    self.counters.sent.count_packet(packet.len());
                    sent += 1;
                }
                Err(error) => {
                    // `error` is `None` after the first failure, whose error is kept.
                    self.write_error = self.write_error.take().or(error);
                    self.counters.drops.count_drop(PortReason::TxError, packet.len());
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
