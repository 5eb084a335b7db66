/* The XDP program of bpf/nat_feed.bpf.c: packets for the kernel's stack. */
#ifndef TERRACE_BENCH_NAT_FEED_H
#define TERRACE_BENCH_NAT_FEED_H

#include <stdint.h>

/* What is set before the program is loaded. */
struct tb_nat_feed_setup {
    uint32_t sessions, hosts, first_host, pad;
    uint8_t packet[64];
};

/* NULL, and *error says which errno. */
void *tb_nat_feed_open(const char *object, const struct tb_nat_feed_setup *setup, int *error);
void tb_nat_feed_close(void *feed);
/* Hands that many packets to the stack, as received by an interface of this thread's namespace. 0 or -errno. */
int tb_nat_feed_run(void *feed, uint32_t interface, uint32_t packets);

#endif
