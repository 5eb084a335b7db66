// SPDX-License-Identifier: Apache-2.0
//
// The flow cache at the tc hook (tcx), for veth, TAP, virtio, and wherever XDP runs after the driver. A packet is a socket buffer
// here, which can be unfinished: a super-frame of several TCP segments, and a checksum that its device shall complete ("open").
// Super-frames are forwarded whole, and open checksums stay open.
//
// Rules, because no field of the context says which checksum is open:
// - An open field contains the sum of its pseudo-header. A field with another value is complete.
// - A flow that does not change the field leaves it open.
// - The flow writes 0 (no checksum, UDP): the request is withdrawn. Removing the bytes up to the field from the buffer and adding
//   them again makes the kernel forget it (skb_postpull_rcsum).
// - In a super-frame, the request cannot be withdrawn: each segment gets a checksum. The field gets the new pseudo-header's sum.
// - Otherwise the packet misses. The TAP, which supports no offloads, completes it.

struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
	u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end, napi_id;
	u32 family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port;
	u32 data_meta;
	u64 flow_keys;
	u64 tstamp;
	u32 wire_len, gso_segs;
	u64 sk;
	u32 gso_size;
};

enum { TC_NEXT = -1, TC_SHOT = 2, TC_REDIRECT = 7 };

static long (*bpf_skb_store_bytes)(struct __sk_buff *skb, u32 offset, const void *from, u32 len, u64 flags) = (void *)9;
static long (*bpf_redirect)(u32 ifindex, u64 flags) = (void *)23;
static long (*bpf_skb_load_bytes)(const struct __sk_buff *skb, u32 offset, void *to, u32 len) = (void *)26;
static long (*bpf_skb_change_head)(struct __sk_buff *skb, u32 len, u64 flags) = (void *)43;
static long (*bpf_skb_adjust_room)(struct __sk_buff *skb, s32 len_diff, u32 mode, u64 flags) = (void *)50;

/* Of bpf_skb_store_bytes: keeps the sum of a buffer whose device summed it. */
#define RECOMPUTE_CSUM 1
/* Of bpf_skb_adjust_room: after the Ethernet header; the size of segments stays. */
#define ROOM_MAC 1
#define ROOM_FIXED_GSO 1

#define ETHERNET 14
#define UDP_AND_TUNNEL 16
#define IPV4 0x0800
#define IPV6 0x86dd
#define VLAN 0x8100
enum { TCP = 6, UDP = 17 };

/* Mark of packets for the process on their way through the TAP. Its egress program drops all others. */
#define MISS_MARK 0x7e44ace5

/* Interfaces of a port: its device, and the TAP of its misses. 0: none. The device's MTU, in bytes, which the process keeps up to date: the
   kernel's function for it is only for programs under the GPL. */
struct exit {
	u32 device, misses, mtu, unused;
};

struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, PORTS);
	type(key, u32);
	type(value, struct exit);
} exits SEC(".maps");

/* A transport header: offsets of its IP header, of itself (0: none), of its checksum; its IP version and protocol; the IP packet's end. */
struct transport {
	u32 network, header, checksum, version, protocol, end;
};

/* A packet on its way through the program. In a map instead of the stack, because the verifier follows each value on the stack. */
struct visit {
	struct extent extent;
	u32 port, place, processors;
	/* Offset of the header whose open checksum the flow clears, or 0. */
	u32 withdrawn;
	struct transport outer, inner, new_outer, new_inner;
};

struct {
	uint(type, MAP_PERCPU_ARRAY);
	uint(max_entries, 1);
	type(key, u32);
	type(value, struct visit);
} visits SEC(".maps");

static inline u32 word_of(u8 *bytes, u32 at)
{
	at &= WINDOW - 1;
	return (u32)bytes[at] << 8 | bytes[at + 1];
}

/* Finds the transport header after the Ethernet header at `at`, in the first bytes of a packet. */
static inline void find_transport(u8 *bytes, u32 at, struct transport *found)
{
	u32 type = word_of(bytes, at + 12), network = at + ETHERNET, header;
	found->header = 0;
	if (type == IPV4) {
		u32 length = word_of(bytes, network) >> 8;
		/* No fragments. */
		if (length < 0x45 || length > 0x4f || word_of(bytes, network + 6) & 0x3fff)
			return;
		header = network + (length & 15) * 4;
		found->version = 4;
		found->protocol = word_of(bytes, network + 8) & 0xff;
		found->end = network + word_of(bytes, network + 2);
	} else if (type == IPV6 && network + 40 <= WINDOW) {
		header = network + 40;
		found->version = 6;
		found->protocol = word_of(bytes, network + 6) >> 8;
		found->end = header + word_of(bytes, network + 4);
	} else {
		return;
	}
	if (found->protocol != TCP && found->protocol != UDP)
		return;
	found->network = network;
	found->header = header;
	found->checksum = header + (found->protocol == TCP ? 16 : 6);
}

/* Finds the headers of a packet: the outer one, and that in a VXLAN tunnel or one of equal layout. */
static inline void find_transports(u8 *bytes, struct transport *outer, struct transport *inner)
{
	inner->header = 0;
	find_transport(bytes, 0, outer);
	u32 at = outer->header + UDP_AND_TUNNEL;
	if (outer->header && outer->protocol == UDP && at + ETHERNET + 20 <= WINDOW)
		find_transport(bytes, at, inner);
}

/* Returns the sum of the pseudo-header, folded. */
static inline u32 pseudo_sum(u8 *bytes, struct transport *of)
{
	u32 sum = of->protocol + (of->end - of->header), at = of->network + (of->version == 4 ? 12 : 8);
	u32 words = of->version == 4 ? 4 : 16;
	for (u32 i = 0; i < 16; i++) {
		if (i >= words)
			break;
		sum += word_of(bytes, at + i * 2);
	}
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Sets the lengths of a super-frame's segments. Returns 0 if its headers are not those of TCP, plain or in a tunnel. */
static inline int measure_segments(struct __sk_buff *skb, struct visit *visit)
{
	struct extent *extent = &visit->extent;
	struct transport *outer = &visit->outer, *tcp = visit->inner.header ? &visit->inner : outer;
	u32 size = skb->gso_size;
	u8 offset = 0;
	if (!tcp->header || tcp->protocol != TCP || tcp->end != extent->len || outer->end != extent->len)
		return 0;
	if (bpf_skb_load_bytes(skb, tcp->header + 12, &offset, 1))
		return 0;
	u32 headers = tcp->header + (offset >> 4) * 4;
	if (headers < tcp->header + 20 || headers >= extent->len)
		return 0;
	u32 payload = extent->len - headers, last = payload % size;
	extent->longest = headers + (payload < size ? payload : size);
	extent->shortest = headers + (last ? last : size);
	return 1;
}

/* Writes all of `out`: after the flow's header, the packet's bytes. `limit`: the flow's length of the header. */
static inline void fill_out(struct scratch *s, u32 limit, s32 grow)
{
	for (u32 i = 0; i < WORDS; i++) {
		u32 from = WINDOW - grow + i * 8;
		if (from > 3 * WINDOW - 8)
			break;
		if (i * 8 >= limit)
			*(u64 *)(s->out + i * 8) = *(u64 *)(s->in + from);
	}
	for (u32 i = 0; i < 8; i++) {
		u32 to = limit + i, from = WINDOW - grow + to;
		if (!(to & 7) || to >= WINDOW || from >= 3 * WINDOW)
			break;
		s->out[to] = s->in[from];
	}
}

enum { SETTLED, WITHDRAW, UNSETTLED };

/* Applies the rules for open checksums to a transport header of the received packet. `new`: the same header in `out`. */
static inline int settle_checksum(struct scratch *s, struct transport *old, struct transport *new, s32 grow, u32 super)
{
	u8 *in = s->in + WINDOW;
	u32 at = old->checksum, to = at + grow;
	if (!old->header || at > WINDOW - 2 || to > WINDOW - 2)
		return SETTLED;
	u32 before = word_of(in, at), after = word_of(s->out, to);
	if (before == after)
		return SETTLED;
	int open = before == pseudo_sum(in, old);
	if (super) {
		if (!open || new->header != old->header || new->protocol != old->protocol)
			return UNSETTLED;
		after = pseudo_sum(s->out, new);
		to &= WINDOW - 1;
		s->out[to] = after >> 8;
		s->out[to + 1] = after;
		return SETTLED;
	}
	if (!open)
		return SETTLED;
	return old->protocol == UDP && !after ? WITHDRAW : UNSETTLED;
}

static inline struct exit *exit_of(u32 port)
{
	port &= PORTS - 1;
	return bpf_map_lookup_elem(&exits, &port);
}

/* Passes a packet to the stack. */
static inline int leave_tc(u32 port, u32 len)
{
	count_unreceived(port, len);
	return TC_NEXT;
}

/* Passes a packet to the process. */
static inline int miss_tc(struct __sk_buff *skb, u32 port, u32 len)
{
	struct exit *exit = exit_of(port);
	outcome(MISSED);
	if (!exit || !exit->misses)
		return leave_tc(port, len);
	skb->mark = MISS_MARK;
	return bpf_redirect(exit->misses, 0);
}

/* Makes the kernel forget that the checksum of the transport header is open. The first bytes must be written again. */
static inline long withdraw(struct __sk_buff *skb, u32 header)
{
	s32 count = (header + 2) & 0xff;
	long failed = bpf_skb_adjust_room(skb, -count, ROOM_MAC, ROOM_FIXED_GSO);
	return failed ? failed : bpf_skb_adjust_room(skb, count, ROOM_MAC, ROOM_FIXED_GSO);
}

/* Changes the length of the packet at its start. The first bytes must be written again. */
static inline long resize(struct __sk_buff *skb, s32 grow)
{
	if (grow > 0)
		return bpf_skb_change_head(skb, grow, 0);
	return grow ? bpf_skb_adjust_room(skb, grow, ROOM_MAC, ROOM_FIXED_GSO) : 0;
}

static inline void count_too_long(u32 port, u32 len)
{
	struct passage *passage = passage_of(port);
	if (!passage)
		return;
	passage->too_long += 1;
	passage->too_long_bytes += len;
}

static inline void count_segments(struct __sk_buff *skb)
{
	u32 at = bpf_get_smp_processor_id() * OUTCOMES + SEGMENTS;
	u64 *count = bpf_map_lookup_elem(&outcomes, &at);
	outcome(SUPERS);
	if (count)
		*count += skb->gso_segs;
}

/* Settles open checksums. Returns 0 if the packet must miss. */
static inline int settle(struct scratch *s, s32 grow, struct visit *visit)
{
	u32 super = visit->extent.super;
	if (super)
		find_transports(s->out, &visit->new_outer, &visit->new_inner);
	int first = settle_checksum(s, &visit->outer, &visit->new_outer, grow, super);
	int second = settle_checksum(s, &visit->inner, &visit->new_inner, grow, super);
	visit->withdrawn = first == WITHDRAW ? visit->outer.header : second == WITHDRAW ? visit->inner.header : 0;
	return first != UNSETTLED && second != UNSETTLED;
}

/* Returns the number of bytes at the start that must be written: the header, and those that the kernel moves. */
static inline s32 written_bytes(struct flow *flow, u32 withdrawn)
{
	s32 written = flow->len, moved = ETHERNET + withdrawn + 2 + flow->grow;
	if (flow->grow < 0 && written < ETHERNET)
		written = ETHERNET;
	return withdrawn && written < moved ? moved : written;
}

/* Counts a packet of a flow that is dropped before its device. */
static inline int drop_tc(struct visit *visit, u32 why)
{
	count(visit->place, visit->processors, visit->extent.len);
	received(visit->port, visit->extent.len);
	outcome(why);
	return TC_SHOT;
}

/* Carries a flow out; its new header is in `out`. Returns 0 if the packet must miss; it is unchanged then. */
static inline int forward_tc(struct __sk_buff *skb, struct scratch *s, struct flow *flow, struct visit *visit)
{
	u32 leaves = flow->port, len = visit->extent.len;
	s32 grow = flow->grow;
	struct exit *exit = exit_of(leaves);
	u32 device = exit ? exit->device : 0;
	/* The device was removed. */
	if (!exit || !device)
		return drop_tc(visit, PORTLESS);
	u32 link = word_of(s->out, 12) == VLAN ? ETHERNET + 4 : ETHERNET;
	if (visit->extent.longest + grow > exit->mtu + link) {
		count_too_long(leaves, len + grow);
		return drop_tc(visit, TOO_LONG);
	}
	s32 written = written_bytes(flow, visit->withdrawn);
	if (written < 0 || written > WINDOW || written > (s32)len + grow) {
		outcome(NO_HEADROOM);
		return 0;
	}
	if (visit->withdrawn && withdraw(skb, visit->withdrawn)) {
		outcome(OPEN_SUM);
		return 0;
	}
	if (resize(skb, grow) && !visit->withdrawn) {
		outcome(NO_HEADROOM);
		return 0;
	}
	u64 bytes = written;
	bounded(bytes);
	if (skb->len != len + grow || (bytes > 0 && bytes <= WINDOW && bpf_skb_store_bytes(skb, 0, s->out, bytes, RECOMPUTE_CSUM))) {
		/* The packet is already modified. */
		outcome(BROKEN);
		return TC_SHOT;
	}
	count(visit->place, visit->processors, len);
	received(visit->port, len);
	sent(leaves, len + grow);
	outcome(leaves == visit->port ? SENT : REDIRECTED);
	if (visit->withdrawn)
		outcome(WITHDRAWN);
	if (visit->extent.super)
		count_segments(skb);
	return bpf_redirect(device, 0);
}

/* Loads the first bytes of a packet. Returns 0 if that fails. */
static inline int load_window(struct __sk_buff *skb, struct scratch *s)
{
	u64 *in = (u64 *)(s->in + WINDOW), n = skb->len;
#pragma unroll
	for (int i = 0; i < WORDS; i++)
		in[i] = 0;
	bounded(n);
	if (n > WINDOW)
		n = WINDOW;
	return n >= 1 && !bpf_skb_load_bytes(skb, 0, in, n);
}

SEC("classifier") int terrace_tc(struct __sk_buff *skb)
{
	u32 zero = 0, ifindex = skb->ifindex, len = skb->len;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	struct visit *visit = bpf_map_lookup_elem(&visits, &zero);
	u32 *known = bpf_map_lookup_elem(&ports, &ifindex);
	if (!set || !s || !visit || !known) {
		outcome(FOREIGN);
		return TC_NEXT;
	}
	u32 port = *known & 0xff;
	if (skb->vlan_present) {
		outcome(TAGGED);
		return miss_tc(skb, port, len);
	}
	if (!load_window(skb, s)) {
		outcome(FAULT);
		return leave_tc(port, len);
	}
	visit->extent = (struct extent){ len, len, len, skb->gso_size != 0 };
	visit->port = port;
	visit->processors = set->processors;
	find_transports(s->in + WINDOW, &visit->outer, &visit->inner);
	if (visit->extent.super && !measure_segments(skb, visit)) {
		outcome(UNKNOWN_SUPER);
		return miss_tc(skb, port, len);
	}
	struct flow *flow = find_flow(s, set, port, &visit->extent, &visit->place);
	if (!flow)
		return miss_tc(skb, port, len);
	if (!flow->forward)
		return drop_tc(visit, DROPPED);
	s32 grow = flow->grow;
	if (grow < -WINDOW || grow > WINDOW || flow->len > WINDOW) {
		outcome(FAULT);
		return miss_tc(skb, port, len);
	}
	if (visit->extent.super && grow) {
		outcome(RESIZED_SUPER);
		return miss_tc(skb, port, len);
	}
	make_head(s, flow, grow, len);
	fill_out(s, flow->len, grow);
	if (!settle(s, grow, visit)) {
		outcome(OPEN_SUM);
		return miss_tc(skb, port, len);
	}
	int action = forward_tc(skb, s, flow, visit);
	return action ? action : miss_tc(skb, port, len);
}

/* At the egress of a TAP for misses: drops all but these, for example what the host sends to find neighbours. */
SEC("classifier") int only_misses(struct __sk_buff *skb)
{
	return skb->mark == MISS_MARK ? TC_NEXT : TC_SHOT;
}
