//! Tests the service end to end, over loopback, with a device that records its calls. Sections are
//! those of the P4Runtime specification, 1.5.

mod access;
mod arbitration;
mod device;
mod limits;
mod notifications;
mod pipelines;
mod reads;
mod slow_readers;
mod support;
mod writes;
