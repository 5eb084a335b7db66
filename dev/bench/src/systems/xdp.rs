//! The overlay as an XDP program, run by the kernel's `BPF_PROG_TEST_RUN` on a packet in memory.
//!
//! The kernel repeats a program on one packet without restoring it. So the measured program first
//! overwrites it with the next flow's packet. A second program that does only that runs equally
//! often, and the difference of the two times is the result.

#![allow(unsafe_code)] // calls into C

use crate::check::{self, ExpectedOutput};
use crate::ring::Template;
use crate::run::{CallResult, Clock};
use crate::systems::commands::compile_bpf;
use crate::workload::{Flows, GATEWAY, OWN_MAC, ROUTER_MAC, Route, Workload};
use anyhow::{Context, ensure};
use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// Number of packets in a step.
const STEP: u32 = 200_000;

/// Return value of the program for a packet that is sent.
const XDP_TX: u32 = 3;

/// Bytes of the headers that flows are written into.
const HEADERS: usize = 88;

/// Mirrors `struct tb_xdp_setup` in shims/xdp.h.
#[repr(C)]
struct XdpSetup {
    routes: u32,
    vms: u32,
    flows: u32,
    own_address: [u8; 4],
    own_mac: [u8; 6],
    router_mac: [u8; 6],
    template_packet: [u8; HEADERS],
}

unsafe extern "C" {
    fn tb_xdp_open(object: *const c_char, setup: *const XdpSetup, error: *mut c_int) -> *mut c_void;
    fn tb_xdp_close(xdp: *mut c_void);
    /// Adds packed entries to a map: of `count`, those from number `done` on, which is advanced.
    /// Returns 0, or the negative error number.
    fn tb_xdp_fill(
        xdp: *mut c_void,
        map: c_int,
        keys: *const u8,
        key_len: u32,
        values: *const u8,
        value_len: u32,
        count: u32,
        done: *mut u32,
    ) -> c_int;
    /// Runs a variant of the program `repeat` times on a packet of `len` bytes. Writes the last
    /// output, at most `room` bytes, its length and the verdict. Returns 0, or the negative error
    /// number.
    fn tb_xdp_run(
        xdp: *mut c_void,
        program: c_int,
        packet: *const u8,
        len: u32,
        repeat: u32,
        out: *mut u8,
        room: u32,
        out_len: *mut u32,
        verdict: *mut u32,
    ) -> c_int;
}

/// Map for a kind of entry.
#[derive(Debug, Clone, Copy)]
enum EntryMap {
    Routes,
    Vms,
    Flows,
}

/// Variant of the program in the object file.
#[derive(Clone, Copy)]
enum Variant {
    /// Processes the packet that it gets.
    Plain,
    /// Builds the next flow's packet and processes it.
    Fed,
    /// Only builds the packet.
    Feed,
}

/// A loaded program with a workload in its maps.
#[derive(Debug)]
pub struct Xdp {
    loaded: *mut c_void,
    packet: Vec<u8>,
}

impl Xdp {
    /// Compiles and loads the program, and fills its maps with a workload and flows.
    ///
    /// # Errors
    /// If clang, libbpf, root permissions or memory are missing.
    pub fn load(world: Workload, flows: &Flows, template: &Template) -> anyhow::Result<Xdp> {
        let object = compile_bpf("overlay")?;
        let first = flows.all().first().context("no flows")?;
        let packet = template.packet(*first);
        let mac = |mac: u64| -> [u8; 6] { std::array::from_fn(|index| mac.to_be_bytes()[index + 2]) };
        let mut setup = XdpSetup {
            routes: world.routes() as u32,
            vms: world.vms as u32,
            flows: flows.all().len() as u32,
            own_address: GATEWAY.to_be_bytes(),
            own_mac: mac(OWN_MAC),
            router_mac: mac(ROUTER_MAC),
            template_packet: [0; HEADERS],
        };
        setup.template_packet.copy_from_slice(packet.get(..HEADERS).context("packets have all headers")?);
        let path = CString::new(object.as_os_str().as_bytes())?;
        let mut try_open = || {
            let mut error = 0;
            // SAFETY: a C string and a setup in the C layer's form, both alive during the call.
            let loaded = unsafe { tb_xdp_open(path.as_ptr(), &setup, &mut error) };
            if loaded.is_null() { Err(error) } else { Ok(loaded) }
        };
        let loaded = patiently(&mut try_open)
            .map_err(io::Error::from_raw_os_error)
            .context("XDP: the program cannot be loaded, or its maps cannot be made (not root?)")?;
        let xdp = Xdp { loaded, packet };
        xdp.fill_world(world)?;
        xdp.fill_flows(flows, template)?;
        Ok(xdp)
    }

    /// Fills the maps of routes and VMs. Keys and values have the form of the C program: numbers in
    /// network order, lengths and kinds in the host's.
    fn fill_world(&self, world: Workload) -> anyhow::Result<()> {
        let mut entries = MapEntries::new(self, EntryMap::Routes, 12, 8);
        for tenant in 0..world.tenants() {
            for Route { prefix, len, peer } in world.routes_of(tenant) {
                let key = [(32 + len).to_ne_bytes(), packet_vni(Workload::vni(tenant)), prefix.to_be_bytes()].concat();
                let route_kind = if peer.is_some() { 2u32 } else { 1 };
                let value = [route_kind.to_ne_bytes(), packet_vni(Workload::vni(peer.unwrap_or(tenant)))].concat();
                entries.add(&key, &value)?;
            }
        }
        entries.write()?;
        let mut entries = MapEntries::new(self, EntryMap::Vms, 8, 12);
        for number in 0..world.vms {
            let vm = world.vm(number);
            let mut value = vm.server.to_be_bytes().to_vec();
            value.extend_from_slice(&vm.mac.to_be_bytes()[2..]);
            value.extend_from_slice(&[0; 2]);
            entries.add(&[packet_vni(vm.to_vni), vm.address.to_be_bytes()].concat(), &value)?;
        }
        entries.write()
    }

    fn fill_flows(&self, flows: &Flows, template: &Template) -> anyhow::Result<()> {
        let mut entries = MapEntries::new(self, EntryMap::Flows, 4, 24);
        for (at, flow) in flows.all().iter().enumerate() {
            let packet = template.packet(*flow);
            let mut value = [packet_vni(flow.vni), flow.source.to_be_bytes(), flow.destination.to_be_bytes()].concat();
            value.extend_from_slice(&flow.port.to_be_bytes());
            value.extend_from_slice(&flow.identification.to_be_bytes());
            value.extend_from_slice(&packet[74..76]);
            value.extend_from_slice(&[0; 6]);
            entries.add(&(at as u32).to_ne_bytes(), &value)?;
        }
        entries.write()
    }

    /// Checks that the program sends the expected packets.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, answers: &[ExpectedOutput]) -> anyhow::Result<()> {
        for answer in answers {
            let (verdict, sent) = self.run(Variant::Plain, &answer.packet, 1)?;
            ensure!(verdict == XDP_TX, "XDP: {:?} is not sent but {verdict}", answer.flow);
            check::check_packet("XDP", answer, &sent, &[])?;
        }
        Ok(())
    }

    /// Runs over the next packets. The returned time excludes building the packets.
    ///
    /// # Errors
    /// If the kernel refuses, or the last packet was not sent.
    pub fn run_step(&self) -> anyhow::Result<CallResult> {
        let time = |variant| -> anyhow::Result<_> {
            let clock = Clock::start();
            let (verdict, _) = self.run(variant, &self.packet, STEP)?;
            ensure!(verdict == XDP_TX, "XDP: a packet is not sent but {verdict}");
            Ok(clock.elapsed())
        };
        let (fed, feed) = (time(Variant::Fed)?, time(Variant::Feed)?);
        Ok(CallResult { operations: u64::from(STEP), took: Some(fed.saturating_sub(feed)) })
    }

    /// Runs a variant of the program `repeat` times on a packet. Returns its verdict and the last
    /// output.
    fn run(&self, variant: Variant, packet: &[u8], repeat: u32) -> anyhow::Result<(u32, Vec<u8>)> {
        let mut out = vec![0u8; packet.len() + 256];
        let (mut len, mut verdict) = (0, 0);
        // SAFETY: the program is loaded; both buffers have the given lengths.
        let error = unsafe {
            tb_xdp_run(
                self.loaded,
                variant as c_int,
                packet.as_ptr(),
                packet.len() as u32,
                repeat,
                out.as_mut_ptr(),
                out.len() as u32,
                &mut len,
                &mut verdict,
            )
        };
        ensure!(error == 0, "XDP: the test run fails: {}", io::Error::from_raw_os_error(-error));
        out.truncate(len as usize);
        Ok((verdict, out))
    }
}

impl Drop for Xdp {
    fn drop(&mut self) {
        // SAFETY: it was opened and is closed once.
        unsafe { tb_xdp_close(self.loaded) };
    }
}

/// Buffered entries of a map.
struct MapEntries<'x> {
    xdp: &'x Xdp,
    map: EntryMap,
    key_len: usize,
    value_len: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl<'x> MapEntries<'x> {
    fn new(xdp: &'x Xdp, map: EntryMap, key_len: usize, value_len: usize) -> MapEntries<'x> {
        MapEntries { xdp, map, key_len, value_len, keys: Vec::new(), values: Vec::new() }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        ensure!(key.len() == self.key_len && value.len() == self.value_len, "an entry of another size");
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
        if self.keys.len() < 1 << 20 { Ok(()) } else { self.write() }
    }

    /// Writes the collected entries to the map. If memory is short, it goes on after the last entry
    /// that was written.
    fn write(&mut self) -> anyhow::Result<()> {
        let count = self.keys.len() / self.key_len;
        let (key_len, value_len) = (self.key_len as u32, self.value_len as u32);
        let (keys, values) = (self.keys.as_ptr(), self.values.as_ptr());
        let mut done = 0;
        let mut try_fill = || {
            let (xdp, map) = (self.xdp.loaded, self.map as c_int);
            // SAFETY: the program is loaded, and both arrays have `count` elements of these
            // lengths.
            match unsafe { tb_xdp_fill(xdp, map, keys, key_len, values, value_len, count as u32, &mut done) } {
                0 => Ok(()),
                error => Err(-error),
            }
        };
        let outcome = patiently(&mut try_fill).map_err(io::Error::from_raw_os_error);
        outcome.with_context(|| format!("XDP: the map {:?} refuses entry {} of {count}", self.map, done))?;
        self.keys.clear();
        self.values.clear();
        Ok(())
    }
}

/// Retries for a while when memory is short. For entries of an LPM_TRIE the kernel uses only memory
/// that is free at once, and does not reclaim from the page cache. An allocation of this process
/// does cause a reclaim.
fn patiently<T>(attempt: &mut dyn FnMut() -> Result<T, c_int>) -> Result<T, c_int> {
    for _ in 0..50 {
        match attempt() {
            Err(libc::ENOMEM) => {
                black_box(vec![1u8; 64 << 20]);
                std::thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
    attempt()
}

/// Returns a VNI as in a packet.
fn packet_vni(vni: u32) -> [u8; 4] {
    (vni << 8).to_be_bytes()
}
