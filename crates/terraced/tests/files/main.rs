//! The files of a node: its configuration, the pages and schemas that describe it, and its package.

mod config;
mod dashboards;
mod filter;
mod metrics;
mod package;
mod schema;
