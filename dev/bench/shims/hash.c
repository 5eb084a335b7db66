#include "shims.h"
#include <rte_hash.h>
#include <rte_hash_crc.h>

/* No flags: one thread, no locks, the fastest that rte_hash is. */
void *tb_hash_new(const char *name, uint32_t entries, uint32_t key_len) {
    struct rte_hash_parameters parameters = {
        .name = name, .entries = entries, .key_len = key_len, .hash_func = rte_hash_crc, .socket_id = 0,
    };
    return rte_hash_create(&parameters);
}

void tb_hash_free(void *hash) {
    rte_hash_free(hash);
}

int tb_hash_add(void *hash, const void *key, uint64_t data) {
    return rte_hash_add_key_data(hash, key, (void *)(uintptr_t)data);
}

int tb_hash_delete(void *hash, const void *key) {
    return rte_hash_del_key(hash, key);
}

uint32_t tb_hash_lookup(void *hash, const uint8_t *keys, uint32_t key_len, uint32_t n, uint64_t *out) {
    const void *pointers[RTE_HASH_LOOKUP_BULK_MAX];
    void *data[RTE_HASH_LOOKUP_BULK_MAX];
    uint32_t hits = 0;
    for (uint32_t done = 0; done < n;) {
        uint32_t count = n - done < 32 ? n - done : 32;
        uint64_t mask = 0;
        for (uint32_t i = 0; i < count; i++) {
            pointers[i] = keys + (uint64_t)(done + i) * key_len;
        }
        rte_hash_lookup_bulk_data(hash, pointers, count, &mask, data);
        for (uint32_t i = 0; i < count; i++) {
            out[done + i] = (mask >> i) & 1 ? (uint64_t)(uintptr_t)data[i] : 0;
        }
        hits += (uint32_t)__builtin_popcountll(mask);
        done += count;
    }
    return hits;
}
