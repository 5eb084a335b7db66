/* DPDK is not installed: nothing can be made, so nothing is ever looked up. */
#include "shims.h"
#include <errno.h>
#include <stddef.h>

int tb_eal_init(int argc, char **argv) { (void)argc; (void)argv; return -ENOSYS; }
void tb_eal_cleanup(void) { }

void *tb_hash_new(const char *n, uint32_t e, uint32_t k) { (void)n; (void)e; (void)k; return NULL; }
void tb_hash_free(void *h) { (void)h; }
int tb_hash_add(void *h, const void *k, uint64_t d) { (void)h; (void)k; (void)d; return -ENOSYS; }
int tb_hash_delete(void *h, const void *k) { (void)h; (void)k; return -ENOSYS; }
uint32_t tb_hash_lookup(void *h, const uint8_t *k, uint32_t l, uint32_t n, uint64_t *o)
{ (void)h; (void)k; (void)l; (void)n; (void)o; return 0; }

void *tb_fib_new(const char *n, uint32_t m, uint32_t t) { (void)n; (void)m; (void)t; return NULL; }
void tb_fib_free(void *f) { (void)f; }
int tb_fib_add(void *f, uint32_t i, uint8_t d, uint64_t n) { (void)f; (void)i; (void)d; (void)n; return -ENOSYS; }
int tb_fib_delete(void *f, uint32_t i, uint8_t d) { (void)f; (void)i; (void)d; return -ENOSYS; }
void tb_fib_lookup(void *f, uint32_t *i, uint64_t *o, uint32_t n) { (void)f; (void)i; (void)o; (void)n; }

void *tb_fib6_new(const char *n, uint32_t m, uint32_t t) { (void)n; (void)m; (void)t; return NULL; }
void tb_fib6_free(void *f) { (void)f; }
int tb_fib6_add(void *f, const uint8_t *i, uint8_t d, uint64_t n) { (void)f; (void)i; (void)d; (void)n; return -ENOSYS; }
int tb_fib6_delete(void *f, const uint8_t *i, uint8_t d) { (void)f; (void)i; (void)d; return -ENOSYS; }
void tb_fib6_lookup(void *f, uint8_t *i, uint64_t *o, uint32_t n) { (void)f; (void)i; (void)o; (void)n; }

void *tb_lpm_new(const char *n, uint32_t m, uint32_t t) { (void)n; (void)m; (void)t; return NULL; }
void tb_lpm_free(void *l) { (void)l; }
int tb_lpm_add(void *l, uint32_t i, uint8_t d, uint32_t n) { (void)l; (void)i; (void)d; (void)n; return -ENOSYS; }
void tb_lpm_lookup(void *l, const uint32_t *i, uint32_t *o, uint32_t n) { (void)l; (void)i; (void)o; (void)n; }

void *tb_acl_new(const char *n, const struct tb_rule *r, uint32_t c) { (void)n; (void)r; (void)c; return NULL; }
void tb_acl_free(void *a) { (void)a; }
int tb_acl_classify(void *a, const uint8_t *k, uint32_t *o, uint32_t n)
{ (void)a; (void)k; (void)o; (void)n; return -ENOSYS; }
