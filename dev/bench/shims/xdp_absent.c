/* libbpf is not installed: no program can be loaded. */
#include "xdp.h"
#include <errno.h>
#include <stddef.h>

void *tb_xdp_open(const char *o, const struct tb_xdp_setup *s, int *error)
{ (void)o; (void)s; *error = ENOSYS; return NULL; }
void tb_xdp_close(void *x) { (void)x; }
int tb_xdp_fill(void *x, int m, const void *k, uint32_t kl, const void *v, uint32_t vl, uint32_t c, uint32_t *d)
{ (void)x; (void)m; (void)k; (void)kl; (void)v; (void)vl; (void)c; (void)d; return -ENOSYS; }
int tb_xdp_run(void *x, int p, const void *k, uint32_t l, uint32_t r, void *o, uint32_t m, uint32_t *n, uint32_t *v)
{ (void)x; (void)p; (void)k; (void)l; (void)r; (void)o; (void)m; (void)n; (void)v; return -ENOSYS; }

#include "nat_feed.h"
void *tb_nat_feed_open(const char *o, const struct tb_nat_feed_setup *s, int *error)
{ (void)o; (void)s; *error = ENOSYS; return NULL; }
void tb_nat_feed_close(void *f) { (void)f; }
int tb_nat_feed_run(void *f, uint32_t i, uint32_t n) { (void)f; (void)i; (void)n; return -ENOSYS; }
