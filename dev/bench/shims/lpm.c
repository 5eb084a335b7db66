#include "shims.h"
#include <rte_lpm.h>

void *tb_lpm_new(const char *name, uint32_t max_routes, uint32_t tbl8) {
    struct rte_lpm_config config = { .max_rules = max_routes, .number_tbl8s = tbl8, .flags = 0 };
    return rte_lpm_create(name, 0, &config);
}

void tb_lpm_free(void *lpm) {
    rte_lpm_free(lpm);
}

int tb_lpm_add(void *lpm, uint32_t ip, uint8_t depth, uint32_t next_hop) {
    return rte_lpm_add(lpm, ip, depth, next_hop);
}

void tb_lpm_lookup(void *lpm, const uint32_t *ips, uint32_t *out, uint32_t n) {
    for (uint32_t done = 0; done < n; done += 32) {
        uint32_t count = n - done < 32 ? n - done : 32;
        rte_lpm_lookup_bulk((struct rte_lpm *)lpm, ips + done, out + done, count);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t found = out[done + i];
            out[done + i] = found & RTE_LPM_LOOKUP_SUCCESS ? found & 0x00ffffff : 0;
        }
    }
}
