"""Sends packets that scapy builds and judges through the gateway: `run.py TERRACE`.

Each family of cases goes through `terrace run` with tests/regions/plain.yaml, from capture to capture. Sent frames must be,
byte by byte, those of scapy; drops must be counted under the expected reason. Also fails if it compared too little.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from scapy.utils import RawPcapReader, RawPcapWriter

from cases import FAMILIES_OF_CASES
from icmp_errors import is_error, judge_errors
from judge import Verdict

ROOT = Path(__file__).resolve().parents[2]
# Minimum amounts compared by a whole run. Reduce them only on purpose.
ENOUGH = {"sent": 1700, "packets": 780, "fields": 40000, "checksums": 1500, "reasons": 37}


def through_the_gateway(terrace, cases, folder):
    """Runs the packets. Returns the summary as JSON, and the sent frames by port (or "cpu")."""
    incoming, outgoing = folder / "in", folder / "out"
    incoming.mkdir()
    by_port = {}
    for at, (_, port, frame, _) in enumerate(cases):
        by_port.setdefault(port, []).append((frame, at))
    for port, frames in by_port.items():
        write(incoming / f"{port}.pcap", frames)
    command = [terrace, "run", "--json", "--region", ROOT / "tests/regions/plain.yaml", "--in-dir", incoming, "--out-dir", outgoing]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if ended.returncode != 0:
        sys.exit(f"terrace run ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
    left = {}
    for path in outgoing.glob("*.pcap"):
        left[path.stem] = [frame for frame, _ in RawPcapReader(str(path))]
    return json.loads(ended.stdout), left


def write(path, frames):
    """Writes a capture of raw bytes, because scapy must not repair intended errors."""
    with RawPcapWriter(str(path), linktype=1) as writer:
        writer.write_header(None)
        for frame, milliseconds in frames:
            writer.write_packet(frame, sec=1 + milliseconds // 1000, usec=milliseconds % 1000 * 1000)


def judge_family(name, cases, summary, left, verdict):
    """Compares all sent frames, in order, and all counts."""
    wanted, counts = {}, {"drop": Counter(), "cpu": Counter()}
    for case, _, frame, fate in cases:
        if fate[0] == "forward":
            wanted.setdefault(str(fate[1]), []).append((case, fate[2]))
        else:
            counts[fate[0]][fate[1]] += 1
            if fate[0] == "cpu":
                # Unchanged, because the control plane decides, not the gateway.
                wanted.setdefault("cpu", []).append((case, frame))
    errors = [(port, frame) for port, frames in left.items() if port != "cpu" for frame in frames if is_error(frame)]
    left = {port: [frame for frame in frames if port == "cpu" or not is_error(frame)] for port, frames in left.items()}
    counts["drop"] += judge_errors(name, cases, errors, summary, verdict)
    for port in sorted(set(wanted) | set(left)):
        expected, got = wanted.get(port, []), left.get(port, [])
        verdict.same(f"{name}, port {port}", "number of packets", len(got), len(expected))
        for (case, frame), arrived in zip(expected, got):
            verdict.frame(f"{name}: {case} (port {port})", arrived, frame)
    for word, of in (("drops", "drop"), ("to_cpu", "cpu")):
        got = {reason: count["packets"] for reason, count in summary[word].items()}
        verdict.same(name, word, got, dict(counts[of]))
    verdict.same(name, "packets received", summary["received"]["packets"], len(cases))


def judge_the_judge(cases):
    """Changes each byte of a frame. The judge must detect every change."""
    noticed = 0
    for _, _, _, fate in cases[:: max(1, len(cases) // 8)]:
        frame = fate[2]
        for at in range(len(frame)):
            verdict = Verdict()
            verdict.frame("changed", frame[:at] + bytes([frame[at] ^ 0x41]) + frame[at + 1:], frame)
            if not verdict.wrong:
                sys.exit(f"the judge did not notice that byte {at} is wrong")
            noticed += 1
    return noticed


def main():
    terrace = sys.argv[1]
    verdict, reasons, sent = Verdict(), set(), 0
    for family in FAMILIES_OF_CASES:
        cases = list(family())
        with tempfile.TemporaryDirectory() as folder:
            summary, left = through_the_gateway(terrace, cases, Path(folder))
        judge_family(family.__name__, cases, summary, left, verdict)
        reasons |= set(summary["drops"]) | set(summary["to_cpu"])
        sent += len(cases)
        if family.__name__ == "matrix":
            noticed = judge_the_judge(cases)
    verdict.reasons, verdict.sent = len(reasons), sent
    print(f"{sent} packets sent, {verdict.packets} that left compared in {verdict.fields} fields and {verdict.checksums} checksums,")
    print(f"{verdict.reasons} reasons counted; the judge noticed {noticed} of {noticed} changed bytes")
    for what, enough in ENOUGH.items():
        if getattr(verdict, what) < enough:
            verdict.fail("this test", f"compared only {getattr(verdict, what)} {what}, fewer than {enough}")
    for line in verdict.wrong[:40]:
        print(f"WRONG  {line}")
    if verdict.wrong:
        sys.exit(f"{len(verdict.wrong)} differences")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    main()
