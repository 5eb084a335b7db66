/* The C layer over DPDK's lookup libraries: plain functions where DPDK has macros, inline functions and structs with
 * flexible members. Keys and results are flat arrays; see src/peers/ for what they mean. */
#ifndef TERRACE_BENCH_SHIMS_H
#define TERRACE_BENCH_SHIMS_H

#include <stdint.h>

int tb_eal_init(int argc, char **argv);
void tb_eal_cleanup(void);

void *tb_hash_new(const char *name, uint32_t entries, uint32_t key_len);
void tb_hash_free(void *hash);
int tb_hash_add(void *hash, const void *key, uint64_t data);
int tb_hash_delete(void *hash, const void *key);
/* Looks up n keys that lie one behind the other; out[i] is the data or 0. Returns the number of hits. */
uint32_t tb_hash_lookup(void *hash, const uint8_t *keys, uint32_t key_len, uint32_t n, uint64_t *out);

void *tb_fib_new(const char *name, uint32_t max_routes, uint32_t tbl8);
void tb_fib_free(void *fib);
int tb_fib_add(void *fib, uint32_t ip, uint8_t depth, uint64_t next_hop);
int tb_fib_delete(void *fib, uint32_t ip, uint8_t depth);
void tb_fib_lookup(void *fib, uint32_t *ips, uint64_t *out, uint32_t n);

void *tb_fib6_new(const char *name, uint32_t max_routes, uint32_t tbl8);
void tb_fib6_free(void *fib);
int tb_fib6_add(void *fib, const uint8_t *ip, uint8_t depth, uint64_t next_hop);
int tb_fib6_delete(void *fib, const uint8_t *ip, uint8_t depth);
void tb_fib6_lookup(void *fib, uint8_t *ips, uint64_t *out, uint32_t n);

void *tb_lpm_new(const char *name, uint32_t max_routes, uint32_t tbl8);
void tb_lpm_free(void *lpm);
int tb_lpm_add(void *lpm, uint32_t ip, uint8_t depth, uint32_t next_hop);
void tb_lpm_lookup(void *lpm, const uint32_t *ips, uint32_t *out, uint32_t n);

/* A rule of an IPv4 5-tuple; numbers in host order; priority: the greater wins; id from 1. */
struct tb_rule {
    uint32_t source, source_len, destination, destination_len;
    uint16_t source_port_lo, source_port_hi, destination_port_lo, destination_port_hi;
    uint8_t protocol, protocol_mask, pad[2];
    int32_t priority;
    uint32_t id;
};
void *tb_acl_new(const char *name, const struct tb_rule *rules, uint32_t n);
void tb_acl_free(void *acl);
/* Keys of 16 bytes: protocol, 3 unused, addresses and ports in network order. out[i]: the rule's id or 0. */
int tb_acl_classify(void *acl, const uint8_t *keys, uint32_t *out, uint32_t n);

#endif
