//! A node beside independent clients in Python: the Packet Test Framework and the shell for P4Runtime.

mod ptf;
mod python;
mod shell;
