#include "shims.h"
#include <rte_fib.h>
#include <rte_fib6.h>

void *tb_fib_new(const char *name, uint32_t max_routes, uint32_t tbl8) {
    struct rte_fib_conf conf = {
        .type = RTE_FIB_DIR24_8, .default_nh = 0, .max_routes = (int)max_routes, .rib_ext_sz = 0,
        .dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_4B, .num_tbl8 = tbl8 },
    };
    struct rte_fib *fib = rte_fib_create(name, 0, &conf);
    if (fib) {
        rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DEFAULT);
    }
    return fib;
}

void tb_fib_free(void *fib) {
    rte_fib_free(fib);
}

int tb_fib_add(void *fib, uint32_t ip, uint8_t depth, uint64_t next_hop) {
    return rte_fib_add(fib, ip, depth, next_hop);
}

int tb_fib_delete(void *fib, uint32_t ip, uint8_t depth) {
    return rte_fib_delete(fib, ip, depth);
}

void tb_fib_lookup(void *fib, uint32_t *ips, uint64_t *out, uint32_t n) {
    for (uint32_t done = 0; done < n; done += 32) {
        rte_fib_lookup_bulk(fib, ips + done, out + done, (int)(n - done < 32 ? n - done : 32));
    }
}

void *tb_fib6_new(const char *name, uint32_t max_routes, uint32_t tbl8) {
    struct rte_fib6_conf conf = {
        .type = RTE_FIB6_TRIE, .default_nh = 0, .max_routes = (int)max_routes, .rib_ext_sz = 0,
        .trie = { .nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = tbl8 },
    };
    struct rte_fib6 *fib = rte_fib6_create(name, 0, &conf);
    if (fib) {
        rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_DEFAULT);
    }
    return fib;
}

void tb_fib6_free(void *fib) {
    rte_fib6_free(fib);
}

int tb_fib6_add(void *fib, const uint8_t *ip, uint8_t depth, uint64_t next_hop) {
    return rte_fib6_add(fib, ip, depth, next_hop);
}

int tb_fib6_delete(void *fib, const uint8_t *ip, uint8_t depth) {
    return rte_fib6_delete(fib, ip, depth);
}

void tb_fib6_lookup(void *fib, uint8_t *ips, uint64_t *out, uint32_t n) {
    for (uint32_t done = 0; done < n; done += 32) {
        int count = (int)(n - done < 32 ? n - done : 32);
        rte_fib6_lookup_bulk(fib, (uint8_t(*)[RTE_FIB6_IPV6_ADDR_SIZE])(ips + (uint64_t)done * 16), out + done, count);
    }
}
