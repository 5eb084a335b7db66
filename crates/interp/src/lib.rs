//! The reference engine: one packet at a time, explains each step; the oracle
