//! The command line
