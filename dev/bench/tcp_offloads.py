#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures one TCP flow through VXLAN tunnels and a gateway, beside Linux's own.

Two servers and a gateway are network namespaces that are connected by veth pairs, with all offloads
as they come. In each round every way is measured once, one after the other, because a shared machine
changes from minute to minute: compare ways of one run only. Printed are the median, the least and
the most of all rounds.

    sudo dev/bench/tcp_offloads.py --terrace target/release/terrace [--rounds 5] [--seconds 3]
    sudo dev/bench/tcp_offloads.py --terrace target/release/terrace --before /tmp/before/terrace

With --before, the ways of another build are measured in the same rounds, and the last table shows
the rate of packets of 64 bytes as well. "lost" is the number of segments that were sent again and
that the receiver did not have (resent minus reported by DSACK, RFC 2883): the gateway's bar is 0.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

REGION = """
region: bench
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1]}
uplinks:
  - {name: u1, port: 1, mac: 02:00:00:01:00:01, peer_mac: 02:00:00:01:00:02}
  - {name: u2, port: 2, mac: 02:00:00:02:00:01, peer_mac: 02:00:00:02:00:02}
servers:
  - {name: s1, address: 192.0.2.11, uplinks: [u1]}
  - {name: s2, address: 192.0.2.12, uplinks: [u2]}
vpcs:
  - {name: red, vni: 100, subnets: [10.0.0.0/24]}
vms:
  - {name: a, vpc: red, server: s1, mac: 02:00:00:10:00:01, addresses: [10.0.0.11]}
  - {name: b, vpc: red, server: s2, mac: 02:00:00:10:00:02, addresses: [10.0.0.12]}
"""
GATEWAY_MAC = "02:00:5e:00:00:01"
OFF = "tx off tso off gso off gro off"


def run(command):
    """Runs a command and returns its output."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")
    return done.stdout


class Lab:
    """The namespaces, without a gateway."""

    def __init__(self, offloads):
        self.prefix = f"bench{os.getpid()}"
        for machine in ("gw", "s1", "s2"):
            run(f"ip netns add {self.name(machine)}; ip -n {self.name(machine)} link set lo up")
        for number in (1, 2):
            gateway, server = self.name("gw"), self.name(f"s{number}")
            run(f"ip -n {gateway} link add port{number} type veth peer name u netns {server}")
            run(f"ip netns exec {gateway} sysctl -qw net.ipv6.conf.port{number}.disable_ipv6=1")
            run(f"ip -n {gateway} link set port{number} address 02:00:00:0{number}:00:01 mtu 1600 up")
            run(f"ip -n {server} link set u address 02:00:00:0{number}:00:02 mtu 1600 up")
            run(f"ip -n {server} addr add 192.0.2.1{number}/24 dev u")
            run(f"ip -n {server} neigh replace 192.0.2.1 lladdr 02:00:00:0{number}:00:01 dev u")
            if not offloads:
                run(f"ip netns exec {server} ethtool -K u {OFF}")

    def name(self, machine):
        return f"{self.prefix}-{machine}"

    def add_tunnels(self, second_vni):
        """Gives each server a VXLAN device with the address of its VM."""
        for number, vni in ((1, 100), (2, second_vni)):
            server, other = self.name(f"s{number}"), 3 - number
            run(
                f"ip -n {server} link add vx0 type vxlan id {vni} local 192.0.2.1{number} remote 192.0.2.1 dstport 4789 dev u"
            )
            run(f"ip -n {server} link set vx0 address 02:00:00:10:00:0{number} mtu 1500 up")
            run(f"ip -n {server} addr add 10.0.0.1{number}/24 dev vx0")
            run(f"ip -n {server} neigh replace 10.0.0.1{other} lladdr {GATEWAY_MAC} dev vx0")

    def start_linux(self):
        """Makes the gateway of two vxlan devices and routes."""
        gateway = self.name("gw")
        run(f"ip netns exec {gateway} sysctl -qw net.ipv4.ip_forward=1")
        for number, vni in ((1, 100), (2, 101)):
            run(f"ip -n {gateway} addr add 192.0.2.1/32 dev port{number}")
            run(f"ip -n {gateway} route add 192.0.2.1{number}/32 dev port{number} src 192.0.2.1")
            run(f"ip -n {gateway} neigh replace 192.0.2.1{number} lladdr 02:00:00:0{number}:00:02 dev port{number}")
            run(
                f"ip -n {gateway} link add vx{number} type vxlan id {vni} local 192.0.2.1 remote 192.0.2.1{number} dstport 4789"
            )
            run(f"ip -n {gateway} link set vx{number} address {GATEWAY_MAC} up")
            run(f"ip -n {gateway} route add 10.0.0.1{number}/32 dev vx{number}")
            run(f"ip -n {gateway} neigh replace 10.0.0.1{number} lladdr 02:00:00:10:00:0{number} dev vx{number}")

    def start_terrace(self, folder, terrace, options, prefix):
        region, socket = os.path.join(folder, "region.yaml"), os.path.join(folder, "control.sock")
        with open(region, "w", encoding="utf-8") as file:
            file.write(REGION)
        command = f"exec {prefix} {terrace} gateway run --region {region} --netns {self.name('gw')} --control {socket} {options}"
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(command, shell=True, stdout=log, stderr=log)
        deadline = time.time() + 60
        while time.time() < deadline:
            shown = subprocess.run([terrace, "show", "--node", socket, "ports"], capture_output=True, text=True)
            if "port2" in shown.stdout:
                return process
            time.sleep(0.1)
        raise RuntimeError("the gateway does not start: " + open(os.path.join(folder, "log"), encoding="utf-8").read())

    def close(self):
        for machine in ("gw", "s1", "s2"):
            subprocess.run(["ip", "netns", "del", self.name(machine)], check=False, capture_output=True)


def counter(namespace, file, protocol, name):
    lines = [line.split() for line in run(f"ip netns exec {namespace} cat /proc/net/{file}").splitlines()]
    names, values = [line for line in lines if line[0] == protocol]
    return int(values[names.index(name)])


def measure_tcp(lab, seconds):
    """Returns Gbit/s, resent segments and lost ones of a flow from server 1 to server 2."""
    sender, receiver = lab.name("s1"), lab.name("s2")
    server = subprocess.Popen(["ip", "netns", "exec", receiver, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    before = [counter(sender, "snmp", "Tcp:", "RetransSegs"), counter(sender, "netstat", "TcpExt:", "TCPDSACKRecvSegs")]
    command = f"ip netns exec {sender} timeout {seconds + 20} iperf3 -J -c 10.0.0.12 -t {seconds}"
    text = subprocess.run(command, shell=True, capture_output=True, text=True).stdout
    server.kill()
    server.wait()
    after = [counter(sender, "snmp", "Tcp:", "RetransSegs"), counter(sender, "netstat", "TcpExt:", "TCPDSACKRecvSegs")]
    wrong = counter(receiver, "snmp", "Tcp:", "InCsumErrors")
    try:
        rate = json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9
    except (KeyError, ValueError):
        rate = 0.0
    resent, known = after[0] - before[0], after[1] - before[1]
    return {"rate": rate, "resent": resent, "lost": max(0, resent - known), "wrong": wrong}


def measure_small(lab, seconds):
    """Returns the thousands of packets of 64 bytes a second that arrive."""
    sender, receiver = lab.name("s1"), lab.name("s2")
    server = subprocess.Popen(["ip", "netns", "exec", receiver, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    command = f"ip netns exec {sender} timeout {seconds + 20} iperf3 -J -u -b 0 -l 22 -c 10.0.0.12 -t {seconds}"
    text = subprocess.run(command, shell=True, capture_output=True, text=True).stdout
    server.kill()
    server.wait()
    try:
        total = json.loads(text)["end"]["sum"]
        return (total["packets"] - total["lost_packets"]) / total["seconds"] / 1e3
    except (KeyError, ValueError, ZeroDivisionError):
        return 0.0


def measure(way, arguments):
    """Builds the lab of a way, measures it, and removes it."""
    name, terrace, options, prefix, offloads = way
    lab, process = Lab(offloads), None
    try:
        with tempfile.TemporaryDirectory() as folder:
            lab.add_tunnels(100 if terrace else 101)
            if terrace:
                process = lab.start_terrace(folder, terrace, options, prefix)
            else:
                lab.start_linux()
            result = measure_tcp(lab, arguments.seconds)
            result["small"] = measure_small(lab, arguments.seconds) if arguments.before else 0.0
            if process:
                process.send_signal(signal.SIGTERM)
                process.wait(20)
            return result
    finally:
        if process and process.poll() is None:
            process.kill()
        lab.close()


def ways(arguments):
    """Returns name, binary, options, command prefix, and whether the servers' offloads are on."""
    cut = "setpriv --bounding-set=-net_admin --inh-caps=-net_admin"
    found = [("Linux: vxlan devices and routes", None, "", "", True)]
    builds = [("", arguments.terrace)] + ([("before: ", arguments.before)] if arguments.before else [])
    for label, terrace in builds:
        for kind in ("raw", "auto"):
            found.append((f"{label}--io {kind}", terrace, f"--io {kind}", "", True))
            if label:
                found.append((f"{label}--io {kind}, servers' offloads off", terrace, f"--io {kind}", "", False))
    found.append(("--io raw, cut (without the right for a TAP)", arguments.terrace, "--io raw", cut, True))
    found.append(("--io raw, servers' offloads off", arguments.terrace, "--io raw", "", False))
    return found


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--terrace", required=True, help="the binary to measure")
    parser.add_argument("--before", help="another build, for comparison")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    arguments = parser.parse_args()
    found = ways(arguments)
    results = {way[0]: [] for way in found}
    for number in range(arguments.rounds):
        for way in found:
            results[way[0]].append(measure(way, arguments))
        print(f"round {number + 1} of {arguments.rounds} done", flush=True)
    print(f"\n{'way':48} {'Gbit/s':24} {'resent':>8} {'lost':>6} {'bad sums':>8}  of Linux")
    linux = statistics.median(result["rate"] for result in results[found[0][0]])
    for name, measured in results.items():
        rate = statistics.median(result["rate"] for result in measured)
        resent, lost, wrong = (sum(result[key] for result in measured) for key in ("resent", "lost", "wrong"))
        rates = spread([result["rate"] for result in measured])
        print(f"{name:48} {rates:24} {resent:8} {lost:6} {wrong:8}  {rate / linux if linux else 0:.2f}")
    if arguments.before:
        print(f"\n{'packets of 64 bytes':48} thousands a second")
        for name, measured in results.items():
            print(f"{name:48} {spread([result['small'] for result in measured], 0)}")


if __name__ == "__main__":
    main()
