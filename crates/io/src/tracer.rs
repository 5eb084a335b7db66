//! A port that records the packets of another port.

use crate::capture::{CaptureError, CaptureWriter};
use crate::port::now;
use crate::{Port, PortError, PortFault, Readiness, TxBatch};
use packet::{Batch, Packet, PortCounters, PortId};
use std::io::Write;

/// Records each packet that is received from or sent to the inner port in a pcap file. A write
/// error stops the recording but not the packets; [`Tracer::finish`] reports it.
///
/// Sent packets are recorded with the time of sending, even if the inner port then drops them. They
/// are recorded complete and in segments, as on a wire, because this port takes no other ones.
/// Received packets are recorded as the inner port delivers them.
pub struct Tracer<P> {
    inner: P,
    writer: CaptureWriter<Box<dyn Write + Send>>,
    error: Option<CaptureError>,
}

impl<P: Port> Tracer<P> {
    /// Records the packets of `inner` to `sink`; `file` is its name in errors.
    pub fn new(inner: P, file: impl Into<String>, sink: impl Write + Send + 'static) -> Result<Tracer<P>, PortError> {
        let writer = CaptureWriter::new(file, Box::new(sink) as Box<dyn Write + Send>)?;
        Ok(Tracer { inner, writer, error: None })
    }

    /// Flushes buffered packets and returns the first recording error, if any.
    pub fn finish(&mut self) -> Result<(), PortError> {
        match self.error.take() {
            Some(error) => Err(error.into()),
            None => Ok(self.writer.flush()?),
        }
    }

    /// Returns the inner port.
    pub fn inner(&mut self) -> &mut P {
        &mut self.inner
    }
}

fn record_packet(writer: &mut CaptureWriter<Box<dyn Write + Send>>, error: &mut Option<CaptureError>, packet: &Packet) {
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

    /// Receives packets and records those that were added to the batch.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let before = batch.len();
        let count = self.inner.receive(id, batch)?;
        for packet in &batch.packets()[before..] {
            record_packet(&mut self.writer, &mut self.error, packet);
        }
        Ok(count)
    }

    /// Records the packets with the present time, then sends them.
    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        let time = now();
        let mut stamped = Packet::new();
        for packet in packets.iter() {
            stamped.copy_from(packet);
            stamped.rx_time_ns = time;
            record_packet(&mut self.writer, &mut self.error, &stamped);
        }
        self.inner.send(packets)
    }

    fn readiness(&self) -> Readiness<'_> {
        self.inner.readiness()
    }

    fn counters(&mut self) -> &PortCounters {
        self.inner.counters()
    }

    fn port_fault(&mut self) -> Option<PortFault> {
        self.inner.port_fault()
    }
}
