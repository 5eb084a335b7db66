//! A port that records what goes through another port.

use crate::capture::{CaptureError, CaptureWriter};
use crate::port::now;
use crate::{Outgoing, Port, PortError, Readiness, Trouble};
use packet::{Batch, Packet, PortCounters, PortId};
use std::io::Write;

/// Writes each packet that is received from, or handed to, the port inside to a pcap file. Recording never stands in the way of
/// packets: an error of writing stops the recording, and [`Tracer::finish`] reports it.
///
/// Sent packets are recorded with the time at which they were sent, also if the port inside then loses them.
pub struct Tracer<P> {
    inner: P,
    writer: CaptureWriter<Box<dyn Write + Send>>,
    error: Option<CaptureError>,
}

impl<P: Port> Tracer<P> {
    /// Records what goes through `inner` to `sink`; `file` is its name in errors.
    pub fn new(inner: P, file: impl Into<String>, sink: impl Write + Send + 'static) -> Result<Tracer<P>, PortError> {
        let writer = CaptureWriter::new(file, Box::new(sink) as Box<dyn Write + Send>)?;
        Ok(Tracer { inner, writer, error: None })
    }

    /// Writes out what is buffered, and returns the first error of recording, if there was one.
    pub fn finish(&mut self) -> Result<(), PortError> {
        match self.error.take() {
            Some(error) => Err(error.into()),
            None => Ok(self.writer.flush()?),
        }
    }

    /// The port inside.
    pub fn inner(&mut self) -> &mut P {
        &mut self.inner
    }
}

fn record(writer: &mut CaptureWriter<Box<dyn Write + Send>>, error: &mut Option<CaptureError>, packet: &Packet) {
    if error.is_none() {
        *error = writer.write(packet).err();
    }
}

impl<P: Port> Port for Tracer<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let before = batch.len();
        let count = self.inner.receive(id, batch)?;
        for packet in &batch.packets()[before..] {
            record(&mut self.writer, &mut self.error, packet);
        }
        Ok(count)
    }

    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize {
        let time = now();
        let mut stamped = Packet::new();
        for packet in packets.iter() {
            stamped.copy_from(packet);
            stamped.received_at = time;
            record(&mut self.writer, &mut self.error, &stamped);
        }
        self.inner.send(packets)
    }

    fn readiness(&self) -> Readiness<'_> {
        self.inner.readiness()
    }

    fn counters(&mut self) -> &PortCounters {
        self.inner.counters()
    }

    fn trouble(&mut self) -> Option<Trouble> {
        self.inner.trouble()
    }
}
