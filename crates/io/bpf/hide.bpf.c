// SPDX-License-Identifier: Apache-2.0
//
// Hides packets of a port's interface from the kernel's own network stack. The programs run at the ingress of the interface (tcx,
// clsact), after packet sockets have received the packet, so the port misses nothing.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

#define SEC(name) __attribute__((section(name), used))

enum { NEXT_PROGRAM = -1, DROP = 2 };
enum { ETHERNET = 14, UDP = 17, VXLAN = 4789 };

struct __sk_buff;
static long (*bpf_skb_load_bytes)(const struct __sk_buff *packet, u32 at, void *to, u32 len) = (void *)26;

/* Reads two bytes in network order; 0 behind the end of the packet. */
static __attribute__((always_inline)) u16 be16(const struct __sk_buff *packet, u32 at)
{
	u8 bytes[2] = {0, 0};

	bpf_skb_load_bytes(packet, at, bytes, sizeof(bytes));
	return (u16)(bytes[0] << 8 | bytes[1]);
}

static __attribute__((always_inline)) u8 byte(const struct __sk_buff *packet, u32 at)
{
	u8 value = 0;

	bpf_skb_load_bytes(packet, at, &value, 1);
	return value;
}

/* For an uplink whose host side is a TAP: the stack gets what it needs there, and would else answer twice. */
SEC("classifier/hide_all") int hide_all(struct __sk_buff *packet)
{
	return DROP;
}

/* For an uplink whose host side is the interface itself: the stack would answer VXLAN with port unreachable. */
SEC("classifier/hide_vxlan") int hide_vxlan(struct __sk_buff *packet)
{
	u16 kind = be16(packet, 12);
	u32 udp;

	if (kind == 0x0800) {
		/* Later fragments have no UDP header, and the stack cannot use them without the first one. */
		if (byte(packet, ETHERNET + 9) != UDP || (be16(packet, ETHERNET + 6) & 0x1fff) != 0)
			return NEXT_PROGRAM;
		udp = ETHERNET + (byte(packet, ETHERNET) & 15) * 4;
	} else if (kind == 0x86dd) {
		if (byte(packet, ETHERNET + 6) != UDP)
			return NEXT_PROGRAM;
		udp = ETHERNET + 40;
	} else {
		return NEXT_PROGRAM;
	}
	return be16(packet, udp + 2) == VXLAN ? DROP : NEXT_PROGRAM;
}

char _license[] SEC("license") = "Apache-2.0";
