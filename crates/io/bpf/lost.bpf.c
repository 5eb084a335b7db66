// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Counts packets that the kernel drops after the program of terrace.bpf.c returned XDP_REDIRECT or XDP_TX. Only tracepoints report
// such drops. These programs count them by port and reason, and ignore packets of other XDP programs on the machine.
//
// It is a separate object, because it has another licence (programs that read kernel structures must be under the GPL), and because
// a kernel that refuses it can still load the other one.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

enum { MAP_HASH = 1, MAP_ARRAY = 2 };
#define F_MMAPABLE 1024
enum { XDP_TX = 3 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

#define SEC(name) __attribute__((section(name), used))
#define uint(name, val) int(*name)[val]
#define type(name, val) typeof(val) *name
#define inline inline __attribute__((always_inline))
/* The accessed fields of kernel structures; the loader inserts their offsets. */
#define KERNEL __attribute__((preserve_access_index))

struct ns_common {
	u32 inum;
} KERNEL;

struct net {
	struct ns_common ns;
} KERNEL;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct net_device {
	s32 ifindex;
	possible_net_t nd_net;
} KERNEL;

struct bpf_prog_aux {
	u32 id;
} KERNEL;

struct bpf_prog {
	struct bpf_prog_aux *aux;
} KERNEL;

#define PORTS 256
#define QUEUES 64

/* Reasons, as in `src/xdp/lost.rs`. NOT_OURS: the frame did not arrive on a port; it is a probe or belongs to another program. */
enum { DOWN, TOO_LONG, FULL, REFUSED, NO_BUFFER, OTHER, RX_TOO_LONG, RX_OTHER, NOT_OURS, REASONS = 16 };

enum { ENXIO = 6, ENOMEM = 12, EINVAL = 22, ENOSPC = 28, EMSGSIZE = 90, EOPNOTSUPP = 95, ENETDOWN = 100, ENOBUFS = 105 };

/* An interface: its index, and the inode of its network namespace. */
struct interface {
	u32 index;
	u32 namespace;
};

/* Ids of the other object's maps and program. */
struct mine {
	u32 devices;
	u32 sockets;
	u32 program;
	u32 unused;
};

struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, 1);
	type(key, u32);
	type(value, struct mine);
} mine SEC(".maps");

/* Port by interface. */
struct {
	uint(type, MAP_HASH);
	uint(max_entries, PORTS);
	type(key, struct interface);
	type(value, u32);
} watched SEC(".maps");

/* By port and reason. */
struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, PORTS * REASONS);
	uint(map_flags, F_MMAPABLE);
	type(key, u32);
	type(value, u64);
} lost SEC(".maps");

static inline void lose(u32 port, u32 why, u64 packets)
{
	u32 at = (port & (PORTS - 1)) * REASONS + why;
	u64 *count = bpf_map_lookup_elem(&lost, &at);
	/* Atomic, because the array is not per processor. Drops are rare. */
	if (count)
		__sync_fetch_and_add(count, packets);
}

static inline u32 *port_of(struct net_device *device)
{
	struct interface interface = { device->ifindex, device->nd_net.net->ns.inum };
	return bpf_map_lookup_elem(&watched, &interface);
}

/* Returns the reason for a driver's error; 0 means that its queue was full. */
static inline u32 why_unsent(s32 error)
{
	switch (error) {
	case 0:
	case -ENOSPC:
	case -ENOBUFS:
		return FULL;
	case -ENETDOWN:
		return DOWN;
	case -EMSGSIZE:
		return TOO_LONG;
	case -ENXIO:
	case -EOPNOTSUPP:
		return REFUSED;
	case -ENOMEM:
		return NO_BUFFER;
	default:
		return OTHER;
	}
}

/* A bulk of redirected frames was passed to a device: xdp_devmap_xmit(from, to, sent, drops, error). */
SEC("tp_btf/xdp_devmap_xmit") int devmap_xmit(u64 *args)
{
	s32 drops = args[3];
	if (drops <= 0)
		return 0;
	struct net_device *from = (void *)args[0], *to = (void *)args[1];
	u32 *port = port_of(to);
	if (port)
		lose(*port, port_of(from) ? why_unsent(args[4]) : NOT_OURS, drops);
	return 0;
}

/* A frame could not be queued for a map entry: xdp_redirect_err(device, program, target, error, map_type, map_id, index). */
SEC("tp_btf/xdp_redirect_err") int redirect_err(u64 *args)
{
	u32 zero = 0, map = args[5], index = args[6];
	s32 error = args[3];
	struct mine *ids = bpf_map_lookup_elem(&mine, &zero);
	if (!ids)
		return 0;
	if (map == ids->devices) {
		struct net_device *from = (void *)args[0];
		lose(index, port_of(from) ? why_unsent(error) : NOT_OURS, 1);
	} else if (map == ids->sockets && error == -ENOSPC) {
		lose(index / QUEUES, RX_TOO_LONG, 1);
	} else if (map == ids->sockets && error != -ENOMEM && error != -ENOBUFS) {
		/* The socket counts the excluded two errors. */
		lose(index / QUEUES, RX_OTHER, 1);
	}
	return 0;
}

/* A bulk of frames returned by XDP_TX (veth): xdp_bulk_tx(device, sent, drops, error). */
SEC("tp_btf/xdp_bulk_tx") int bulk_tx(u64 *args)
{
	s32 drops = args[2];
	if (drops <= 0)
		return 0;
	struct net_device *device = (void *)args[0];
	u32 *port = port_of(device);
	if (port)
		lose(*port, why_unsent(args[3]), drops);
	return 0;
}

/* A driver could not send a frame by XDP_TX, or the stack a frame of a program after the driver: xdp_exception(device, program, action). */
SEC("tp_btf/xdp_exception") int exception(u64 *args)
{
	u32 zero = 0;
	if ((u32)args[2] != XDP_TX)
		return 0;
	struct mine *ids = bpf_map_lookup_elem(&mine, &zero);
	struct bpf_prog *program = (void *)args[1];
	if (!ids || program->aux->id != ids->program)
		return 0;
	struct net_device *device = (void *)args[0];
	u32 *port = port_of(device);
	if (port)
		lose(*port, OTHER, 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
