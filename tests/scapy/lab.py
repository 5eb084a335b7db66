"""VMs, servers and uplinks of tests/regions/plain.yaml, repeated here as an independent reading of it."""

from dataclasses import dataclass

GATEWAY_MAC = "02:00:5e:00:00:01"
VTEP = {4: "192.0.2.1", 6: "2001:db8:0:1::1"}
MTU = 1600
DENIED_PORT = 2323


@dataclass(frozen=True)
class Host:
    """Server or remote: its tunnel address, and the gateway's port that reaches it."""

    address: str
    port: int

    @property
    def family(self):
        return 6 if ":" in self.address else 4

    @property
    def gateway_mac(self):
        return f"02:00:00:{self.port:02x}:00:01"

    @property
    def mac(self):
        return f"02:00:00:{self.port:02x}:00:02"


S1 = Host("192.0.2.11", 1)
S2 = Host("192.0.2.12", 2)
S3 = Host("2001:db8:0:1::13", 3)
HQ = Host("198.51.100.10", 4)
WEST = Host("203.0.113.10", 5)


@dataclass(frozen=True)
class Station:
    """End point of tenants' packets. Packets to it must have VNI `vni`; its own packets have VNI `sends`."""

    name: str
    host: Host
    vni: int
    mac: str
    v4: str
    v6: str = None
    sends: int = None

    def address(self, family):
        return self.v4 if family == 4 else self.v6

    @property
    def sending_vni(self):
        return self.sends if self.sends is not None else self.vni


RED_A = Station("red-a", S1, 100, "02:00:00:10:00:0a", "10.0.0.11", "fd00:100::11")
RED_B = Station("red-b", S2, 100, "02:00:00:10:00:0b", "10.0.0.12", "fd00:100::12")
RED_C = Station("red-c", S3, 100, "02:00:00:10:00:0c", "10.0.1.13", "fd00:100::13")
BLUE_A = Station("blue-a", S1, 200, "02:00:00:20:00:0a", "10.0.0.11", "fd00:100::11")
BLUE_B = Station("blue-b", S2, 200, "02:00:00:20:00:0b", "10.0.0.12", "fd00:100::12")
GREEN_A = Station("green-a", S3, 300, "02:00:00:30:00:0a", "10.3.0.11", "fd00:300::11")
GREEN_B = Station("green-b", S1, 300, "02:00:00:30:00:0b", "10.3.0.12", "fd00:300::12")
DATA_CENTRE = Station("hq", HQ, 5000, "02:00:00:00:50:01", "172.16.7.9", sends=100)
OTHER_REGION = Station("west", WEST, 9000, "02:00:00:00:90:01", "10.9.3.3", sends=100)

RED = [RED_A, RED_B, RED_C]
BLUE = [BLUE_A, BLUE_B]
GREEN = [GREEN_A, GREEN_B]


def pairs():
    """Returns every ordered pair that may communicate."""
    reach = []
    for group in (RED, BLUE, GREEN):
        reach += [(a, b) for a in group for b in group if a is not b]
    for a in RED:
        for b in GREEN:
            reach += [(a, b), (b, a)]
    for a in RED:
        for remote in (DATA_CENTRE, OTHER_REGION):
            reach += [(a, remote), (remote, a)]
    return reach
