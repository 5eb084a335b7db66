//! Regions for tests and benchmarks.

use std::fmt::Write;

/// Size of a region.
#[derive(Clone, Copy, Debug)]
pub struct RegionSize {
    /// Number of VPCs.
    pub vpcs: usize,
    /// Number of VMs, distributed evenly over the VPCs.
    pub vms: usize,
    /// Number of ACL rules of each VPC.
    pub acl_rules: usize,
    /// Number of servers.
    pub servers: usize,
}

/// Returns the text of a region file. VPC `v` has VNI 100 + v and subnet 10.0.0.0/8. Its VM `i` has
/// address 10.(i / 2^16).(i / 2^8).i + 1. The rules permit or deny TCP ports from 1000 on. The
/// first rules of the lists do not match port 80.
pub fn text(size: RegionSize) -> String {
    let mut out = String::from(
        "region: made\ngateway: {mac: '02:00:5e:00:00:01', vteps: [192.0.2.1, '2001:db8::1']}\n\
         uplinks: [{name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}]\nservers:\n",
    );
    for s in 0..size.servers {
        let _ = writeln!(out, "- {{name: s{s}, address: 198.18.{}.{}, uplinks: [u]}}", s >> 8, s & 255);
    }
    out.push_str("vpcs:\n");
    for v in 0..size.vpcs {
        let _ = writeln!(out, "- name: v{v}\n  vni: {}\n  subnets: [10.0.0.0/8]\n  acl:", 100 + v);
        for r in 0..size.acl_rules {
            let action = ["permit", "deny"][r % 2];
            let _ = writeln!(
                out,
                "  - {{priority: {}, action: {action}, protocol: tcp, from: 10.{r}.0.0/16, ports: {}}}",
                10 + r,
                1000 + r
            );
        }
        if size.acl_rules == 0 {
            out.truncate(out.len() - "  acl:\n".len());
        }
    }
    out.push_str("vms:\n");
    for i in 0..size.vms {
        let (v, n) = (i % size.vpcs, i / size.vpcs + 1);
        let (a, b, c) = (n >> 16 & 255, n >> 8 & 255, n & 255);
        let _ = writeln!(
            out,
            "- {{name: m{i}, vpc: v{v}, server: s{}, mac: '02:01:{:02x}:{a:02x}:{b:02x}:{c:02x}', addresses: [10.{a}.{b}.{c}]}}",
            i % size.servers,
            v & 255
        );
    }
    out
}
