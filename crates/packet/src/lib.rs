//! Packet buffers and batches, verdicts, drop reasons
