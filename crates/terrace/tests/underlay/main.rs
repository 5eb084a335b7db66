//! Tests what links, neighbours and routes of the kernel do to the paths of a running gateway, in
//! network namespaces. Needs root; otherwise each test reports that it was skipped.

mod bench;
mod flaps;
mod frr;
mod kernel;
mod links;
mod path_mtu;
