//! Repository tasks: conformance, tidy
