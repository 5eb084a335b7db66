// SPDX-License-Identifier: GPL-2.0
//
// The overlay as an XDP program: the same checks, lookups and rewriting as programs/overlay, with the kernel's maps: LPM_TRIE for routes, HASH
// for VMs. The licence is what the kernel asks of programs that use its helpers; nothing links with this file.
//
// A test run repeats a program on one packet, so a program that changes it needs to get a new one each time. `fed` first makes
// the next packet of the map `flows` and then does the work; `feed` only makes it, to be subtracted.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct vxlan {
    __u8 flags, reserved[3];
    __be32 vni;   // 24 bits, then 8 reserved
};

// The headers of a packet, each where it lies; pointers into the packet, so that fields are read as words.
struct headers {
    struct ethhdr *outer_ethernet;
    struct iphdr *outer_ip;
    struct udphdr *outer_udp;
    struct vxlan *vxlan;
    struct ethhdr *inner_ethernet;
    struct iphdr *inner_ip;
    __be16 *ports;   // source, destination
};

// Bytes of them all.
#define HEADERS 88

struct route_key {
    __u32 prefix_len;   // 32 bits of VNI, then those of the address
    __be32 vni, destination;
};

struct route {
    __u32 kind;   // 1: local, 2: peer
    __be32 vni;
};

struct vm_key {
    __be32 vni, address;
};

struct vm {
    __be32 server;
    __u16 mac[3], pad;
};

struct flow {
    __be32 vni, source, destination;
    __be16 source_port, identification, checksum, pad[3];
};

struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 1);
    __type(key, struct route_key);
    __type(value, struct route);
} routes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, struct vm_key);
    __type(value, struct vm);
} vms SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct flow);
} flows SEC(".maps");

// Set before loading: who we are, how many flows there are, and the packet that they are written into.
const volatile struct {
    __u16 own_mac[3], router_mac[3];
    __be32 own_address;
    __u32 flow_count;
    __u64 packet[HEADERS / 8];
} setup = { .flow_count = 1 };

__u32 next_flow;

static __always_inline __u16 fold(__u32 sum) {
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return (__u16)~sum;
}

static __always_inline __u32 words(const struct iphdr *ip) {
    const __u16 *word = (const __u16 *)ip;
    __u32 sum = 0;
#pragma unroll
    for (int i = 0; i < 10; i++) {
        sum += word[i];
    }
    return sum;
}

static __always_inline int sound(const struct iphdr *ip) {
    return ip->version == 4 && ip->ihl == 5 && bpf_ntohs(ip->tot_len) >= 20 && fold(words(ip)) == 0;
}

static __always_inline int is_fragment(const struct iphdr *ip) {
    return (ip->frag_off & bpf_htons(0x3fff)) != 0;
}

// False: the packet is shorter than all headers. All packets of the measurement have them.
static __always_inline int find(struct xdp_md *ctx, struct headers *h) {
    void *data = (void *)(long)ctx->data;
    if (data + HEADERS > (void *)(long)ctx->data_end) {
        return 0;
    }
    h->outer_ethernet = data;
    h->outer_ip = data + 14;
    h->outer_udp = data + 34;
    h->vxlan = data + 42;
    h->inner_ethernet = data + 50;
    h->inner_ip = data + 64;
    h->ports = data + 84;
    return 1;
}

static __always_inline int work(struct xdp_md *ctx) {
    struct headers h;
    if (!find(ctx, &h)) {
        return XDP_DROP;
    }
    __u32 length = (__u32)(ctx->data_end - ctx->data), outer_length = bpf_ntohs(h.outer_ip->tot_len);
    if (h.outer_ethernet->h_proto != bpf_htons(ETH_P_IP) || !sound(h.outer_ip) || outer_length + 14 > length
        || is_fragment(h.outer_ip) || h.outer_ip->protocol != IPPROTO_UDP || h.outer_udp->dest != bpf_htons(4789)
        || h.inner_ethernet->h_proto != bpf_htons(ETH_P_IP) || !sound(h.inner_ip)) {
        return XDP_DROP;
    }
    __u32 udp_length = bpf_ntohs(h.outer_udp->len), inner_length = bpf_ntohs(h.inner_ip->tot_len);
    if (udp_length != outer_length - 20 || !(h.vxlan->flags & 8) || 30 + inner_length > udp_length
        || h.inner_ip->ttl <= 1) {
        return XDP_DROP;
    }

    struct route_key route_key = { 64, h.vxlan->vni & bpf_htonl(0xffffff00), h.inner_ip->daddr };
    struct route *route = bpf_map_lookup_elem(&routes, &route_key);
    if (!route) {
        return XDP_DROP;
    }
    __be32 vni = route->kind == 1 ? route_key.vni : route->vni;
    struct vm_key vm_key = { vni, h.inner_ip->daddr };
    struct vm *vm = bpf_map_lookup_elem(&vms, &vm_key);
    if (!vm) {
        return XDP_DROP;
    }

    __u32 ports = 0;
    if (!is_fragment(h.inner_ip)
        && (h.inner_ip->protocol == IPPROTO_TCP || h.inner_ip->protocol == IPPROTO_UDP)) {
        ports = (__u32)bpf_ntohs(h.ports[0]) << 16 | bpf_ntohs(h.ports[1]);
    }
    __u32 flow = bpf_ntohl(h.inner_ip->saddr) ^ bpf_ntohl(h.inner_ip->daddr) ^ ports ^ h.inner_ip->protocol;
    flow ^= flow >> 16;

    __u32 sum = bpf_ntohs(h.inner_ip->check) + 0x0100;
    sum += sum >= 0xffff;
    h.inner_ip->check = bpf_htons((__u16)sum);
    h.inner_ip->ttl--;
    __u16 *words_of_macs[4] = { (void *)h.outer_ethernet->h_dest, (void *)h.outer_ethernet->h_source,
                                (void *)h.inner_ethernet->h_dest, (void *)h.inner_ethernet->h_source };
#pragma unroll
    for (int i = 0; i < 3; i++) {
        words_of_macs[0][i] = setup.router_mac[i];
        words_of_macs[1][i] = setup.own_mac[i];
        words_of_macs[2][i] = vm->mac[i];
        words_of_macs[3][i] = setup.own_mac[i];
    }
    h.outer_ip->tos = 0;
    h.outer_ip->id = 0;
    h.outer_ip->frag_off = 0;
    h.outer_ip->ttl = 254;
    h.outer_ip->saddr = setup.own_address;
    h.outer_ip->daddr = vm->server;
    h.outer_ip->check = 0;
    h.outer_ip->check = fold(words(h.outer_ip));
    h.outer_udp->source = bpf_htons(0xc000 | (flow & 0x3fff));
    h.outer_udp->check = 0;
    h.vxlan->flags = 8;
    h.vxlan->reserved[0] = h.vxlan->reserved[1] = h.vxlan->reserved[2] = 0;
    h.vxlan->vni = vni;
    return XDP_TX;
}

static __always_inline int make(struct xdp_md *ctx) {
    struct headers h;
    if (!find(ctx, &h)) {
        return 0;
    }
    __u32 at = next_flow;
    next_flow = at + 1 >= setup.flow_count ? 0 : at + 1;
    struct flow *flow = bpf_map_lookup_elem(&flows, &at);
    if (!flow) {
        return 0;
    }
    __u64 *words = (void *)h.outer_ethernet;
#pragma unroll
    for (int i = 0; i < HEADERS / 8; i++) {
        words[i] = setup.packet[i];
    }
    h.vxlan->vni = flow->vni;
    h.inner_ip->saddr = flow->source;
    h.inner_ip->daddr = flow->destination;
    h.inner_ip->id = flow->identification;
    h.inner_ip->check = flow->checksum;
    h.ports[0] = flow->source_port;
    return 1;
}

SEC("xdp")
int plain(struct xdp_md *ctx) {
    return work(ctx);
}

SEC("xdp")
int fed(struct xdp_md *ctx) {
    return make(ctx) ? work(ctx) : XDP_ABORTED;
}

SEC("xdp")
int feed(struct xdp_md *ctx) {
    return make(ctx) ? XDP_TX : XDP_ABORTED;
}

char licence[] SEC("license") = "GPL";
