//! Functions of `shims/shims.h`.

use super::acl::AclRule;
use std::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    pub fn tb_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub fn tb_eal_cleanup();

    pub fn tb_hash_new(name: *const c_char, entries: u32, key_len: u32) -> *mut c_void;
    pub fn tb_hash_free(hash: *mut c_void);
    pub fn tb_hash_add(hash: *mut c_void, key: *const u8, data: u64) -> c_int;
    pub fn tb_hash_delete(hash: *mut c_void, key: *const u8) -> c_int;
    pub fn tb_hash_lookup(hash: *mut c_void, keys: *const u8, key_len: u32, n: u32, out: *mut u64) -> u32;

    pub fn tb_fib_new(name: *const c_char, max_routes: u32, tbl8: u32) -> *mut c_void;
    pub fn tb_fib_free(fib: *mut c_void);
    pub fn tb_fib_add(fib: *mut c_void, ip: u32, depth: u8, next_hop: u64) -> c_int;
    pub fn tb_fib_delete(fib: *mut c_void, ip: u32, depth: u8) -> c_int;
    pub fn tb_fib_lookup(fib: *mut c_void, ips: *mut u32, out: *mut u64, n: u32);

    pub fn tb_fib6_new(name: *const c_char, max_routes: u32, tbl8: u32) -> *mut c_void;
    pub fn tb_fib6_free(fib: *mut c_void);
    pub fn tb_fib6_add(fib: *mut c_void, ip: *const u8, depth: u8, next_hop: u64) -> c_int;
    pub fn tb_fib6_delete(fib: *mut c_void, ip: *const u8, depth: u8) -> c_int;
    pub fn tb_fib6_lookup(fib: *mut c_void, ips: *mut u8, out: *mut u64, n: u32);

    pub fn tb_lpm_new(name: *const c_char, max_routes: u32, tbl8: u32) -> *mut c_void;
    pub fn tb_lpm_free(lpm: *mut c_void);
    pub fn tb_lpm_add(lpm: *mut c_void, ip: u32, depth: u8, next_hop: u32) -> c_int;
    pub fn tb_lpm_lookup(lpm: *mut c_void, ips: *const u32, out: *mut u32, n: u32);

    pub fn tb_acl_new(name: *const c_char, rules: *const AclRule, n: u32) -> *mut c_void;
    pub fn tb_acl_free(acl: *mut c_void);
    pub fn tb_acl_classify(acl: *mut c_void, keys: *const u8, out: *mut u32, n: u32) -> c_int;
}
