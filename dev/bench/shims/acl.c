#include "shims.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <rte_acl.h>

struct key {
    uint8_t protocol, pad[3];
    uint32_t source, destination;
    uint16_t source_port, destination_port;
};

/* rte_acl wants the first field to be one byte, and groups the others by four bytes of input. */
static const struct rte_acl_field_def FIELDS[5] = {
    { RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, offsetof(struct key, protocol) },
    { RTE_ACL_FIELD_TYPE_MASK, 4, 1, 1, offsetof(struct key, source) },
    { RTE_ACL_FIELD_TYPE_MASK, 4, 2, 2, offsetof(struct key, destination) },
    { RTE_ACL_FIELD_TYPE_RANGE, 2, 3, 3, offsetof(struct key, source_port) },
    { RTE_ACL_FIELD_TYPE_RANGE, 2, 4, 3, offsetof(struct key, destination_port) },
};

RTE_ACL_RULE_DEF(acl_rule, 5);

static int add(struct rte_acl_ctx *acl, const struct tb_rule *rule) {
    struct acl_rule made;
    memset(&made, 0, sizeof made);
    made.data.category_mask = 1;
    made.data.priority = rule->priority;
    made.data.userdata = rule->id;
    made.field[0].value.u8 = rule->protocol;
    made.field[0].mask_range.u8 = rule->protocol_mask;
    made.field[1].value.u32 = rule->source;
    made.field[1].mask_range.u32 = rule->source_len;
    made.field[2].value.u32 = rule->destination;
    made.field[2].mask_range.u32 = rule->destination_len;
    made.field[3].value.u16 = rule->source_port_lo;
    made.field[3].mask_range.u16 = rule->source_port_hi;
    made.field[4].value.u16 = rule->destination_port_lo;
    made.field[4].mask_range.u16 = rule->destination_port_hi;
    return rte_acl_add_rules(acl, (const struct rte_acl_rule *)&made, 1);
}

void *tb_acl_new(const char *name, const struct tb_rule *rules, uint32_t n) {
    struct rte_acl_param param = {
        .name = name, .socket_id = 0, .rule_size = RTE_ACL_RULE_SZ(5), .max_rule_num = n,
    };
    struct rte_acl_ctx *acl = rte_acl_create(&param);
    if (!acl) {
        return NULL;
    }
    struct rte_acl_config config = { .num_categories = 1, .num_fields = 5, .max_size = 0 };
    memcpy(config.defs, FIELDS, sizeof FIELDS);
    for (uint32_t i = 0; i < n; i++) {
        if (add(acl, &rules[i]) != 0) {
            rte_acl_free(acl);
            return NULL;
        }
    }
    if (rte_acl_build(acl, &config) != 0) {
        rte_acl_free(acl);
        return NULL;
    }
    return acl;
}

void tb_acl_free(void *acl) {
    rte_acl_free(acl);
}

int tb_acl_classify(void *acl, const uint8_t *keys, uint32_t *out, uint32_t n) {
    const uint8_t *pointers[256];
    for (uint32_t done = 0; done < n;) {
        uint32_t count = n - done < 256 ? n - done : 256;
        for (uint32_t i = 0; i < count; i++) {
            pointers[i] = keys + (uint64_t)(done + i) * sizeof(struct key);
        }
        int error = rte_acl_classify(acl, pointers, out + done, count, 1);
        if (error) {
            return error;
        }
        done += count;
    }
    return 0;
}
