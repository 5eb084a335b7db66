//! The pipeline IR: typed ids, text format, verifier, passes, P4Info
