/* The XDP program of bpf/overlay.bpf.c: loading, filling its maps, running it on packets in memory. */
#ifndef TERRACE_BENCH_XDP_H
#define TERRACE_BENCH_XDP_H

#include <stdint.h>

/* What is set before the program is loaded. */
struct tb_xdp_setup {
    uint32_t routes, vms, flows;   /* sizes of the maps */
    uint32_t own_address;          /* network order */
    uint8_t own_mac[6], router_mac[6];
    uint8_t template_packet[88];
};

/* NULL, and *error says which errno. */
void *tb_xdp_open(const char *object, const struct tb_xdp_setup *setup, int *error);
void tb_xdp_close(void *xdp);
/* Keys and values as the maps have them, one behind the other, from the one with number *done, which then says how many
   are there. Maps: 0 routes, 1 vms, 2 flows. 0 or -errno. */
int tb_xdp_fill(void *xdp, int map, const void *keys, uint32_t key_len, const void *values, uint32_t value_len,
                uint32_t count, uint32_t *done);
/* Programs: 0 plain, 1 fed, 2 feed. Runs it so often on one packet. 0 or -errno. */
int tb_xdp_run(void *xdp, int program, const void *packet, uint32_t len, uint32_t repeat, void *out, uint32_t room,
               uint32_t *out_len, uint32_t *verdict);

#endif
