// SPDX-License-Identifier: Apache-2.0
//
// The flow cache in the kernel: one eBPF program for all P4 programs. It masks a packet's first bytes with a few key masks
// ("shapes") and looks the keys up in a map. The entry contains the flow's action: new first bytes, their lengths and checksums,
// and the output port. A packet without a flow goes to the AF_XDP socket of its queue.
//
// The structures have the layout of `src/xdp/maps.rs`. They implement flowcache's `rewrite` (form.rs, apply.rs), which is tested
// against the interpreter. No system headers are included, because the few constants below are the kernel's stable interface.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_DEVMAP = 14, MAP_XSKMAP = 17 };
#define F_NO_PREALLOC 1
#define F_MMAPABLE 1024

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_xdp_adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*bpf_redirect_map)(void *map, u64 key, u64 flags) = (void *)51;
/* The time of the last clock tick: some milliseconds late, at a tenth of the cost. */
static u64 (*bpf_ktime_get_coarse_ns)(void) = (void *)160;
static long (*bpf_xdp_load_bytes)(struct xdp_md *ctx, u32 offset, void *buf, u32 len) = (void *)189;
static long (*bpf_xdp_store_bytes)(struct xdp_md *ctx, u32 offset, void *buf, u32 len) = (void *)190;

#define SEC(name) __attribute__((section(name), used))
#define uint(name, val) int(*name)[val]
#define type(name, val) typeof(val) *name
/* Prevents the compiler from splitting a comparison that the verifier needs. */
#define bounded(number) asm volatile("" : "+r"(number))
#define inline inline __attribute__((always_inline))

#define WINDOW 128
#define WORDS (WINDOW / 8)
#define MAX_SHAPES 32
#define MAX_NEAR 6
#define MAX_TERMS 12
#define MAX_SUMS 4
#define MAX_LENGTHS 6
#define QUEUES 64
#define NO_WORD 0xffff
/* First word of the pre-filter. */
#define GATE 1

struct shape {
	u64 mask[WORDS];
	u64 gate_mask[2];
	u64 gate_value[2];
	u16 near[MAX_NEAR];
	u16 nears;
	u16 length;
};

struct key {
	u32 shape;
	u16 port;
	u16 length;
	u64 bytes[WORDS];
};

struct term {
	u16 at;
	u16 mask;
};

struct sum {
	u64 constant;
	u32 lengths;
	u32 terms;
	struct term term[MAX_TERMS];
};

struct check {
	struct sum sum;
	u16 expected;
	u16 word;
	u32 unused;
};

struct length {
	u16 at;
	u16 unused;
	s32 add;
};

struct written {
	struct sum sum;
	u16 at;
	u16 flip;
	u32 unused;
};

struct flow {
	struct key key;
	u32 first;
	u32 last;
	/* 0: drop. */
	u32 forward;
	u32 port;
	s32 grow;
	u32 len;
	u32 checks;
	u32 lengths;
	u32 sums;
	u32 unused;
	u64 keep[WORDS];
	u64 set[WORDS];
	struct check check[MAX_SUMS];
	struct length length[MAX_LENGTHS];
	struct written sum[MAX_SUMS];
};

/* Counters of a flow on one processor. */
struct tally {
	u64 packets;
	u64 bytes;
	u64 last;
	u64 unused;
};

/* Outcomes of packets, counted per processor. */
enum { SENT, REDIRECTED, DROPPED, MISSED, NO_HEADROOM, MISFIT, FOREIGN, FAULT, AVOIDED, PORTLESS, BROKEN, OUTCOMES };

#define PORTS 256
/* Flag in a value of `ports`: the program is attached after the driver, where the stack sends packets. */
#define BEHIND_DRIVER 0x100

/* Counters of a port on one processor: packets that were not passed to the process, and packets that could not be. */
struct passage {
	u64 received, received_bytes;
	u64 sent, sent_bytes;
	/* Misses on a queue without a socket, passed to the stack. */
	u64 no_socket, no_socket_bytes;
	u64 unused[2];
};

struct settings {
	u32 shapes;
	u32 processors;
};

struct scratch {
	/* Zeros, the packet's first bytes, zeros, because reads can start before the packet and end after a short one. */
	u8 in[3 * WINDOW];
	u8 out[WINDOW];
	struct key key;
};

struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, 1);
	type(key, u32);
	type(value, struct settings);
} settings SEC(".maps");

struct {
	uint(type, MAP_PERCPU_ARRAY);
	uint(max_entries, 1);
	type(key, u32);
	type(value, struct scratch);
} scratch SEC(".maps");

struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, MAX_SHAPES);
	type(key, u32);
	type(value, struct shape);
} shapes SEC(".maps");

/* Slot of a flow by key. The loader sets the sizes of this and the next two maps. */
struct {
	uint(type, MAP_HASH);
	uint(max_entries, 1);
	uint(map_flags, F_NO_PREALLOC);
	type(key, struct key);
	type(value, u32);
} keys SEC(".maps");

struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, 1);
	type(key, u32);
	type(value, struct flow);
} flows SEC(".maps");

/* By slot and processor. */
struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, 1);
	uint(map_flags, F_MMAPABLE);
	type(key, u32);
	type(value, struct tally);
} tallies SEC(".maps");

/* By processor; OUTCOMES counters each. */
struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, 1);
	uint(map_flags, F_MMAPABLE);
	type(key, u32);
	type(value, u64);
} outcomes SEC(".maps");

/* By processor and port. */
struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, 1);
	uint(map_flags, F_MMAPABLE);
	type(key, u32);
	type(value, struct passage);
} passages SEC(".maps");

/* By port: nonzero if its device refuses packets from XDP programs, so that the process must send them. */
struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, PORTS);
	type(key, u32);
	type(value, u32);
} refusing SEC(".maps");

/* Port by interface index. */
struct {
	uint(type, MAP_HASH);
	uint(max_entries, PORTS);
	type(key, u32);
	type(value, u32);
} ports SEC(".maps");

/* Output device by port. */
struct {
	uint(type, MAP_DEVMAP);
	uint(max_entries, PORTS);
	uint(key_size, 4);
	uint(value_size, 4);
} devices SEC(".maps");

/* Socket for misses by port and queue. */
struct {
	uint(type, MAP_XSKMAP);
	uint(max_entries, PORTS * QUEUES);
	uint(key_size, 4);
	uint(value_size, 4);
} sockets SEC(".maps");

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

static inline void outcome(u32 what)
{
	u32 at = bpf_get_smp_processor_id() * OUTCOMES + what;
	u64 *count = bpf_map_lookup_elem(&outcomes, &at);
	if (count)
		*count += 1;
}

static inline u32 word_at(struct scratch *s, u32 at)
{
	at &= WINDOW - 1;
	return (u32)s->in[WINDOW + at] << 8 | s->in[WINDOW + at + 1];
}

static inline u32 sum_of(struct scratch *s, struct sum *sum, u32 len)
{
	u64 total = sum->constant + (u64)sum->lengths * len;
	for (u32 i = 0; i < MAX_TERMS; i++) {
		if (i >= sum->terms)
			break;
		total += word_at(s, sum->term[i].at) & sum->term[i].mask;
	}
#pragma unroll
	for (int i = 0; i < 5; i++)
		total = (total & 0xffff) + (total >> 16);
	return total;
}

static inline int fits(struct scratch *s, struct flow *flow, u32 len)
{
	if (len < flow->first || len > flow->last)
		return 0;
	for (u32 i = 0; i < MAX_SUMS; i++) {
		if (i >= flow->checks)
			break;
		struct check *check = &flow->check[i];
		u32 word = check->word == NO_WORD ? 0 : word_at(s, check->word);
		if (sum_of(s, &check->sum, len) != (check->expected ^ word))
			return 0;
	}
	return 1;
}

static inline void make_key(struct scratch *s, struct shape *shape, u32 number, u32 port, u32 len)
{
	u64 *in = (u64 *)(s->in + WINDOW);
	s->key.shape = number;
	s->key.port = port;
	s->key.length = shape->length ? len : 0;
#pragma unroll
	for (int i = 0; i < WORDS; i++)
		s->key.bytes[i] = in[i] & shape->mask[i];
	for (u32 i = 0; i < MAX_NEAR; i++) {
		if (i >= shape->nears)
			break;
		u32 at = shape->near[i] & (WINDOW - 1);
		u32 distance = word_at(s, at) - len;
		u8 *to = (u8 *)s->key.bytes;
		to[at] = distance >> 8;
		at += 1;
		if (at < WINDOW)
			to[at] = distance;
	}
}

static inline int same(struct key *a, struct key *b)
{
	u64 *x = (u64 *)a, *y = (u64 *)b, differ = 0;
#pragma unroll
	for (int i = 0; i < sizeof(struct key) / 8; i++)
		differ |= x[i] ^ y[i];
	return differ == 0;
}

static inline struct passage *passage_of(u32 port)
{
	u32 at = bpf_get_smp_processor_id() * PORTS + (port & (PORTS - 1));
	return bpf_map_lookup_elem(&passages, &at);
}

/* Passes a packet to the stack. */
static inline long leave(u32 port, u32 len)
{
	struct passage *passage = passage_of(port);
	if (passage) {
		passage->no_socket += 1;
		passage->no_socket_bytes += len;
	}
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

/* Writes the new first bytes to `out`. */
static inline void make_head(struct scratch *s, struct flow *flow, s32 grow, u32 len)
{
	for (u32 i = 0; i < WORDS; i++) {
		if (i * 8 >= flow->len)
			break;
		u32 from = WINDOW - grow + i * 8;
		if (from > 3 * WINDOW - 8)
			break;
		*(u64 *)(s->out + i * 8) = (*(u64 *)(s->in + from) & flow->keep[i]) | flow->set[i];
	}
	for (u32 i = 0; i < MAX_LENGTHS; i++) {
		if (i >= flow->lengths)
			break;
		u32 at = flow->length[i].at, value = len + flow->length[i].add;
		if (at > WINDOW - 2)
			break;
		s->out[at] = value >> 8;
		s->out[at + 1] = value;
	}
	for (u32 i = 0; i < MAX_SUMS; i++) {
		if (i >= flow->sums)
			break;
		u32 at = flow->sum[i].at;
		if (at > WINDOW - 2)
			break;
		u32 value = sum_of(s, &flow->sum[i].sum, len) ^ flow->sum[i].flip;
		s->out[at] = value >> 8;
		s->out[at + 1] = value;
	}
}

static inline void count(u32 place, u32 processors, u32 len)
{
	u32 at = place * processors + bpf_get_smp_processor_id();
	struct tally *tally = bpf_map_lookup_elem(&tallies, &at);
	if (!tally)
		return;
	tally->bytes += len;
	tally->last = bpf_ktime_get_coarse_ns();
	tally->packets += 1;
}

/* Counts a received packet that is not passed to the process. */
static inline void received(u32 port, u32 len)
{
	struct passage *passage = passage_of(port);
	if (!passage)
		return;
	passage->received += 1;
	passage->received_bytes += len;
}

/* Counts a packet that was passed to a device. Only tracepoints report whether the device sent it: lost.bpf.c. */
static inline void sent(u32 port, u32 len)
{
	struct passage *passage = passage_of(port);
	if (!passage)
		return;
	passage->sent += 1;
	passage->sent_bytes += len;
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
	struct flow *flow = 0;
	u32 place = 0;
	for (u32 number = 0; number < MAX_SHAPES; number++) {
		u32 at = number;
		if (number >= set->shapes)
			break;
		struct shape *shape = bpf_map_lookup_elem(&shapes, &at);
		if (!shape)
			break;
		if ((in[GATE] & shape->gate_mask[0]) != shape->gate_value[0] ||
		    (in[GATE + 1] & shape->gate_mask[1]) != shape->gate_value[1])
			continue;
		make_key(s, shape, number, port, len);
		u32 *found = bpf_map_lookup_elem(&keys, &s->key);
		if (!found)
			continue;
		place = *found;
		struct flow *may = bpf_map_lookup_elem(&flows, &place);
		/* The slot can have been reused for another key since the lookup. */
		if (may && same(&may->key, &s->key) && fits(s, may, len)) {
			flow = may;
			break;
		}
		outcome(MISFIT);
	}
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

char _license[] SEC("license") = "Apache-2.0";
