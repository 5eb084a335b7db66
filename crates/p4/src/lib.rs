//! The P4-16 front-end: P4 source text to verified IR, with diagnostics
