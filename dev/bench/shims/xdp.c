#include "xdp.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

struct xdp {
    struct bpf_object *object;
    int maps[3], programs[3];
};

static int quiet(enum libbpf_print_level level, const char *format, va_list arguments) {
    (void)level; (void)format; (void)arguments;
    return 0;
}

/* The one read-only variable of bpf/overlay.bpf.c. */
struct constants {
    uint8_t own_mac[6], router_mac[6];
    uint32_t own_address, flow_count, pad;   /* the packet lies at a multiple of 8 */
    uint8_t packet[88];
};

static int set_section(struct bpf_object *object, const char *suffix, const void *bytes, size_t len) {
    struct bpf_map *map;
    bpf_object__for_each_map(map, object) {
        const char *name = bpf_map__name(map);
        size_t end = strlen(name), tail = strlen(suffix), room = 0;
        if (end >= tail && strcmp(name + end - tail, suffix) == 0) {
            void *start = bpf_map__initial_value(map, &room);
            if (!start || room < len) {
                return -EINVAL;
            }
            memcpy(start, bytes, len);
            return 0;
        }
    }
    return -ENOENT;
}

static int set_up(struct xdp *xdp, const struct tb_xdp_setup *setup) {
    static const char *const maps[3] = { "routes", "vms", "flows" };
    const uint32_t sizes[3] = { setup->routes, setup->vms, setup->flows };
    struct bpf_map *found[3];
    for (int i = 0; i < 3; i++) {
        found[i] = bpf_object__find_map_by_name(xdp->object, maps[i]);
        int error = found[i] ? bpf_map__set_max_entries(found[i], sizes[i] ? sizes[i] : 1) : -ENOENT;
        if (error) {
            return error;
        }
    }
    struct constants constants = { .pad = 0 };
    memcpy(constants.own_mac, setup->own_mac, 6);
    memcpy(constants.router_mac, setup->router_mac, 6);
    constants.own_address = setup->own_address;
    constants.flow_count = setup->flows;
    memcpy(constants.packet, setup->template_packet, sizeof constants.packet);
    int error = set_section(xdp->object, ".rodata", &constants, sizeof constants);
    error = error ? error : bpf_object__load(xdp->object);
    if (error) {
        return error;
    }
    static const char *const programs[3] = { "plain", "fed", "feed" };
    for (int i = 0; i < 3; i++) {
        struct bpf_program *program = bpf_object__find_program_by_name(xdp->object, programs[i]);
        xdp->programs[i] = program ? bpf_program__fd(program) : -1;
        xdp->maps[i] = bpf_map__fd(found[i]);
    }
    return 0;
}

void *tb_xdp_open(const char *object, const struct tb_xdp_setup *setup, int *error) {
    libbpf_set_print(quiet);
    struct xdp *xdp = calloc(1, sizeof *xdp);
    if (!xdp) {
        *error = ENOMEM;
        return NULL;
    }
    xdp->object = bpf_object__open_file(object, NULL);
    if (!xdp->object) {
        *error = errno;
        free(xdp);
        return NULL;
    }
    *error = -set_up(xdp, setup);
    if (*error) {
        tb_xdp_close(xdp);
        return NULL;
    }
    return xdp;
}

void tb_xdp_close(void *opened) {
    struct xdp *xdp = opened;
    bpf_object__close(xdp->object);
    free(xdp);
}

int tb_xdp_fill(void *opened, int map, const void *keys, uint32_t key_len, const void *values, uint32_t value_len,
                uint32_t count, uint32_t *done) {
    struct xdp *xdp = opened;
    for (uint32_t i = *done; i < count; i++) {
        const char *key = (const char *)keys + (uint64_t)i * key_len, *value = (const char *)values + (uint64_t)i * value_len;
        int error = bpf_map_update_elem(xdp->maps[map], key, value, BPF_ANY);
        if (error) {
            return error;
        }
        *done = i + 1;
    }
    return 0;
}

int tb_xdp_run(void *opened, int program, const void *packet, uint32_t len, uint32_t repeat, void *out, uint32_t room,
               uint32_t *out_len, uint32_t *verdict) {
    struct xdp *xdp = opened;
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = len, .data_out = out,
                .data_size_out = room, .repeat = (int)repeat);
    int error = bpf_prog_test_run_opts(xdp->programs[program], &options);
    *out_len = options.data_size_out;
    *verdict = options.retval;
    return error;
}
