#include "nat_feed.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

struct feed {
    struct bpf_object *object;
    int program;
};

static int set_up(struct feed *feed, const struct tb_nat_feed_setup *setup) {
    struct bpf_map *map = bpf_object__find_map_by_name(feed->object, ".rodata");
    size_t room = 0;
    void *start = map ? bpf_map__initial_value(map, &room) : NULL;
    if (!start || room < sizeof *setup) {
        return -EINVAL;
    }
    memcpy(start, setup, sizeof *setup);
    int error = bpf_object__load(feed->object);
    if (error) {
        return error;
    }
    struct bpf_program *program = bpf_object__find_program_by_name(feed->object, "feed");
    feed->program = program ? bpf_program__fd(program) : -1;
    return feed->program < 0 ? -ENOENT : 0;
}

void *tb_nat_feed_open(const char *object, const struct tb_nat_feed_setup *setup, int *error) {
    struct feed *feed = calloc(1, sizeof *feed);
    if (!feed) {
        *error = ENOMEM;
        return NULL;
    }
    feed->object = bpf_object__open_file(object, NULL);
    if (!feed->object) {
        *error = errno;
        free(feed);
        return NULL;
    }
    *error = -set_up(feed, setup);
    if (*error) {
        tb_nat_feed_close(feed);
        return NULL;
    }
    return feed;
}

void tb_nat_feed_close(void *opened) {
    struct feed *feed = opened;
    bpf_object__close(feed->object);
    free(feed);
}

int tb_nat_feed_run(void *opened, uint32_t interface, uint32_t packets) {
    struct feed *feed = opened;
    uint8_t packet[64] = { 0 };
    struct xdp_md context = { .data_end = 60, .ingress_ifindex = interface };
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = 60, .ctx_in = &context,
                .ctx_size_in = sizeof context, .repeat = (int)packets, .flags = BPF_F_TEST_XDP_LIVE_FRAMES);
    return bpf_prog_test_run_opts(feed->program, &options);
}
