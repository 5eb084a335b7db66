// SPDX-License-Identifier: Apache-2.0
//
// The flow cache in the kernel: one eBPF program for all P4 programs. It masks a packet's first bytes with a few key masks
// ("shapes") and looks the keys up in a map. The entry contains the flow's action: new first bytes, their lengths and checksums,
// and the output port. A packet without a flow goes to the AF_XDP socket of its queue, or at the tc hook to a TAP interface.
//
// The same flows are carried out at two hooks: here at XDP, and in tc.bpf.h at tc, on the same maps.
//
// The structures have the layout of `src/xdp/maps.rs`. They implement flowcache's `rewrite` (form.rs, apply.rs), which is tested
// against the interpreter. No system headers are included, because the few constants below are the kernel's stable interface.
#include "flow.bpf.h"

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };

static long (*bpf_xdp_adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*bpf_redirect_map)(void *map, u64 key, u64 flags) = (void *)51;
static long (*bpf_xdp_load_bytes)(struct xdp_md *ctx, u32 offset, void *buf, u32 len) = (void *)189;
static long (*bpf_xdp_store_bytes)(struct xdp_md *ctx, u32 offset, void *buf, u32 len) = (void *)190;

struct generator {
	u32 frames;
	u32 next;
};

struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, 1);
	type(key, u32);
	type(value, struct generator);
} generators SEC(".maps");

struct frame {
	u8 bytes[WINDOW];
};

struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, 1024);
	type(key, u32);
	type(value, struct frame);
} frames SEC(".maps");
/* Passes a packet to the stack. */
static inline long leave(u32 port, u32 len)
{
	count_unreceived(port, len);
	return XDP_PASS;
}

static inline long miss(struct xdp_md *ctx, u32 port, u32 len)
{
	u32 queue = ctx->rx_queue_index;
	outcome(MISSED);
	if (queue >= QUEUES)
		return leave(port, len);
	long action = bpf_redirect_map(&sockets, port * QUEUES + queue, XDP_PASS);
	return action == XDP_PASS ? leave(port, len) : action;
}
static inline int refuses(u32 port)
{
	u32 *refused = bpf_map_lookup_elem(&refusing, &port);
	return refused && *refused;
}
SEC("xdp") int terrace(struct xdp_md *ctx)
{
	/* These fields are pointers despite their type. */
	u64 n = (u64)ctx->data_end - (u64)ctx->data;
	u32 zero = 0, ifindex = ctx->ingress_ifindex, len = n;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	u32 *known = bpf_map_lookup_elem(&ports, &ifindex);
	if (!set || !s || !known) {
		outcome(FOREIGN);
		return XDP_PASS;
	}
	u32 port = *known & 0xff;
	u64 *in = (u64 *)(s->in + WINDOW);
#pragma unroll
	for (int i = 0; i < WORDS; i++)
		in[i] = 0;
	bounded(n);
	if (n > WINDOW)
		n = WINDOW;
	if (n < 1 || bpf_xdp_load_bytes(ctx, 0, in, n)) {
		outcome(FAULT);
		return leave(port, len);
	}
	struct extent extent = { len, len, len, 0 };
	u32 place = 0;
	struct flow *flow = find_flow(s, set, port, &extent, &place);
	if (!flow)
		return miss(ctx, port, len);
	if (!flow->forward) {
		count(place, set->processors, len);
		received(port, len);
		outcome(DROPPED);
		return XDP_DROP;
	}
	s32 grow = flow->grow;
	u64 head = flow->len;
	u32 leaves = flow->port;
	if (grow < -WINDOW || grow > WINDOW || head > WINDOW) {
		outcome(FAULT);
		return miss(ctx, port, len);
	}
	if (!(*known & BEHIND_DRIVER) && refuses(leaves)) {
		outcome(AVOIDED);
		return miss(ctx, port, len);
	}
	bounded(head);
	make_head(s, flow, grow, len);
	if (grow && bpf_xdp_adjust_head(ctx, -grow)) {
		outcome(NO_HEADROOM);
		return miss(ctx, port, len);
	}
	received(port, len);
	if (head > 0 && head <= WINDOW && bpf_xdp_store_bytes(ctx, 0, s->out, head)) {
		/* The packet is already modified. */
		outcome(BROKEN);
		return XDP_DROP;
	}
	count(place, set->processors, len);
	if (leaves == port) {
		sent(port, len + grow);
		outcome(SENT);
		return XDP_TX;
	}
	/* XDP_DROP: the device was removed. */
	long action = bpf_redirect_map(&devices, leaves, XDP_DROP);
	if (action == XDP_REDIRECT) {
		sent(leaves, len + grow);
		outcome(REDIRECTED);
	} else {
		outcome(PORTLESS);
	}
	return action;
}
/* Sends a frame to the port whose number follows its Ethernet header. lost.bpf.c counts it if the device refuses packets from XDP programs. */
SEC("xdp") int probe(struct xdp_md *ctx)
{
	u32 port = 0;
	if (bpf_xdp_load_bytes(ctx, 14, &port, sizeof(port)))
		return XDP_DROP;
	return bpf_redirect_map(&devices, port & (PORTS - 1), XDP_DROP);
}

/* For the peer of a veth interface, which accepts packets from an XDP program only if it has a program itself. */
SEC("xdp") int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* Drops all packets, for measurements. */
SEC("xdp") int sink(struct xdp_md *ctx)
{
	return XDP_DROP;
}

/* Packet generator, for live frames of BPF_PROG_TEST_RUN: returns each frame with the next set of first bytes. It writes them each
   time, because the kernel reuses the returned frames. */
SEC("xdp") int generate(struct xdp_md *ctx)
{
	u64 n = (u64)ctx->data_end - (u64)ctx->data;
	u32 zero = 0;
	struct generator *generator = bpf_map_lookup_elem(&generators, &zero);
	if (!generator || !generator->frames)
		return XDP_DROP;
	u32 at = generator->next++ % generator->frames;
	u8 *frame = bpf_map_lookup_elem(&frames, &at);
	bounded(n);
	if (n > WINDOW)
		n = WINDOW;
	if (!frame || n < 1 || bpf_xdp_store_bytes(ctx, 0, frame, n))
		return XDP_DROP;
	return XDP_TX;
}

#include "tc.bpf.h"

char _license[] SEC("license") = "Apache-2.0";
