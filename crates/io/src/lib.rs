//! Ports: raw sockets, pcap files, memory
