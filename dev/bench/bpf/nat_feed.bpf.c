// SPDX-License-Identifier: GPL-2.0
//
// Makes packets of sessions for the kernel's stack: 60 bytes, UDP without a checksum, from many inside hosts to one server. A test run
// with live frames hands each packet to the stack as if the interface had received it. The licence is what the kernel asks of programs that
// use its helpers; nothing links with this file.

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PACKET_BYTES 60
#define SOURCE_AT 26
#define PORT_AT 34
#define CHECKSUM_AT 24

// A stride that is coprime to powers of ten: consecutive packets are of sessions far apart.
#define STRIDE 618033

const volatile struct {
    __u32 sessions, hosts, first_host, pad;
    __u8 packet[64];
} setup = {};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} next SEC(".maps");

SEC("xdp")
int feed(struct xdp_md *context) {
    __u8 *data = (void *)(long)context->data;
    __u32 zero = 0;
    __u64 *number = bpf_map_lookup_elem(&next, &zero);
    if (!number || data + PACKET_BYTES > (__u8 *)(long)context->data_end || setup.sessions == 0 || setup.hosts == 0) {
        return XDP_ABORTED;
    }
    __u32 session = *number * STRIDE % setup.sessions;
    *number += 1;
    // Frames are used again, with what the stack has changed.
    for (int i = 0; i < PACKET_BYTES; i++) {
        data[i] = setup.packet[i];
    }
    *(__be32 *)(data + SOURCE_AT) = bpf_htonl(setup.first_host + session % setup.hosts);
    *(__be16 *)(data + PORT_AT) = bpf_htons(1024 + session / setup.hosts);
    __u32 sum = 0;
    for (int at = 14; at < 34; at += 2) {
        sum += at == CHECKSUM_AT ? 0 : *(__u16 *)(data + at);
    }
    sum = (sum >> 16) + (sum & 0xffff);
    *(__u16 *)(data + CHECKSUM_AT) = ~((sum >> 16) + sum);
    return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
