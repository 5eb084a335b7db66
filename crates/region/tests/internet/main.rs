//! Entries of the Internet and of services, with the line of each in the file; what edits leave of them; problems.

mod elastic;
mod ipv6;
mod nat64;
mod services;
mod support;
