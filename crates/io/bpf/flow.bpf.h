// SPDX-License-Identifier: Apache-2.0
//
// The flow cache of terrace.bpf.c, without a hook: maps, lookup of a flow, and its new header. The programs at the hooks (XDP in
// terrace.bpf.c, tc in tc.bpf.h) load the packet's first bytes into `scratch` and carry the result out.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_DEVMAP = 14, MAP_XSKMAP = 17 };
#define F_NO_PREALLOC 1
#define F_MMAPABLE 1024

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
/* The time of the last clock tick: some milliseconds late, at a tenth of the cost. */
static u64 (*bpf_ktime_get_coarse_ns)(void) = (void *)160;

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

/* Outcomes of packets, counted per processor. From SUPERS on: of the tc program only. */
enum {
	SENT, REDIRECTED, DROPPED, MISSED, NO_HEADROOM, MISFIT, FOREIGN, FAULT, AVOIDED, PORTLESS, BROKEN,
	/* Super-frames that were forwarded whole, and the segments in them. */
	SUPERS, SEGMENTS,
	/* Misses: a VLAN tag in the metadata; a super-frame of unknown headers; one whose header changes its length; an open checksum
	   that the flow changes. */
	TAGGED, UNKNOWN_SUPER, RESIZED_SUPER, OPEN_SUM,
	/* Open checksums of tunnel headers that were withdrawn, because the flow writes 0. */
	WITHDRAWN,
	/* Dropped: longer than the MTU of the output device. */
	TOO_LONG,
	OUTCOMES
};

#define PORTS 256
/* Flag in a value of `ports`: the program is attached after the driver, where the stack sends packets. */
#define BEHIND_DRIVER 0x100

/* Counters of a port on one processor: packets that were not passed to the process, and packets that could not be. */
struct passage {
	u64 received, received_bytes;
	u64 sent, sent_bytes;
	/* Misses on a queue without a socket, passed to the stack. */
	u64 no_socket, no_socket_bytes;
	/* Received packets of flows to this port that are longer than the MTU of its device (tc only). */
	u64 too_long, too_long_bytes;
};

/* Length of a packet in bytes. A super-frame fits a flow if all its segments do: then these are those of its shortest and longest one. */
struct extent {
	u32 len, shortest, longest;
	u32 super;
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

static inline int fits(struct scratch *s, struct flow *flow, struct extent *extent)
{
	u32 len = extent->len;
	if (extent->shortest < flow->first || extent->longest > flow->last)
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
/* Counts a miss that is passed to the stack. */
static inline void count_unreceived(u32 port, u32 len)
{
	struct passage *passage = passage_of(port);
	if (!passage)
		return;
	passage->no_socket += 1;
	passage->no_socket_bytes += len;
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

/* Returns the flow of the packet in `scratch`, and its place. */
static inline struct flow *find_flow(struct scratch *s, struct settings *set, u32 port, struct extent *extent, u32 *place)
{
	u64 *in = (u64 *)(s->in + WINDOW);
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
		/* Segments have several lengths. */
		if (extent->super && shape->length)
			continue;
		make_key(s, shape, number, port, extent->len);
		u32 *found = bpf_map_lookup_elem(&keys, &s->key);
		if (!found)
			continue;
		*place = *found;
		struct flow *may = bpf_map_lookup_elem(&flows, place);
		/* The slot can have been reused for another key since the lookup. */
		if (may && same(&may->key, &s->key) && fits(s, may, extent))
			return may;
		outcome(MISFIT);
	}
	return 0;
}
