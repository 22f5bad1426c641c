"""Did the client set the numbers? What the workers measured of themselves, and one plain sentence that follows from it.

The thresholds are the errors that they would cause (docs/engine.md):

- A late read bends no stamp where the kernel made it, unless the next event of the stream came before it: then the two are merged, and the first
  gets the time of the second. So with kernel stamps the limit is on late reads that can merge: read lateness at p99 above LATE_READ_MS, together
  with more than MERGED_SHARE of the events merged. (Events that a server or proxy bundles are merged too, but with reads that are not late.)
- With the user's clock a read is stamped when the loop comes to it: the limit is on the time of a turn of the loop at p99.
- A late send moves the load: the limit is on send lateness at p99, of requests that the cap did not hold back, against the mean gap between sends
  and an absolute bound below which no server notices.
- A worker that was stopped, or not woken in time, for more than STILL_SHARE of the run sent and read nothing then: the throughput of a closed
  loop, and every stamp of the user's clock, is off by that.
- A worker above CPU_SHARE of a core has no room for a burst: what it measured may still be right, but more load will not be.
"""

from typing import Any

import numpy as np

from loadstone.bench.measure import Measured
from loadstone.bench.processes import Processes
from loadstone.engine.counters import Count
from loadstone.engine.gauges import Spread
from loadstone.metrics.summary import Summary

LATE_READ_MS = 1.0
LATE_TURN_MS = 5.0  # user's clock
LATE_SEND_MS = 5.0
MERGED_SHARE = 0.001
CPU_SHARE = 0.9
STILL_SHARE = 0.02  # of the run's time


def client_figures(processes: Processes, measured: Measured, clock: str) -> dict[str, Any]:
    """The figures of the result's `client`: counts over all workers, and of lateness the worst worker's."""
    total, health = processes.counters.total, measured.health
    events = int(measured.records.token_rows[-1])
    return {
        "clock": clock,
        "workers": len(processes.workers),
        "connections": total(Count.CONNECTIONS),
        "stale_connections_replaced": total(Count.REPLACED),
        "reads": total(Count.READS),
        "reads_without_kernel_stamp": total(Count.UNSTAMPED),
        "merged_reads": int(np.sum(measured.records.merged_reads)),
        "merged_share": float(np.sum(measured.records.merged_reads) / events) if events else 0.0,
        **_worst("read_late", [h.read_late for h in health]),
        **_worst("send_late", [h.send_late for h in health]),
        **_worst("turn", [h.turns for h in health]),
        "stalls": sum(h.stalls for h in health),
        "stood_still_s": max((h.stood_still_s for h in health), default=0.0),
        "wall_s": max((h.wall_s for h in health), default=0.0),
        "lost_workers": len(measured.lost_workers),
        "decoder_died": measured.decoder_died,
        "held_back_s": max((h.held_s for h in health), default=0.0),
        "cpu_share": max((h.cpu_s / h.wall_s for h in health if h.wall_s), default=None),
        "worker_cpu_s": sum(h.cpu_s for h in health),
        "decoder_cpu_s": measured.decoder_cpu_s,
        "voluntary_switches": sum(h.voluntary_switches for h in health),
        "involuntary_switches": sum(h.involuntary_switches for h in health),
    }


def _worst(name: str, spreads: list[Spread]) -> dict[str, float | None]:
    def worst(values: list[int | None]) -> float | None:
        known = [value for value in values if value is not None]
        return max(known) / 1e6 if known else None

    return {
        f"{name}_p50_ms": worst([s.p50_ns for s in spreads]),
        f"{name}_p99_ms": worst([s.p99_ns for s in spreads]),
        f"{name}_max_ms": worst([s.max_ns for s in spreads]),
    }


def verdict(client: dict[str, Any], summary: Summary) -> str:
    """One sentence: the client did or did not set these numbers, and if it did, what to change."""
    if not summary.sent or not client["reads"]:
        return "nothing came back from the server, so there is nothing to judge the client by."
    faults: list[str] = []
    if client["lost_workers"]:
        faults.append(f"{client['lost_workers']} of its {client['workers']} worker processes died")
    if client.get("decoder_died"):
        faults.append("its decoder process died too often, and the load was stopped")
    if client["stood_still_s"] > STILL_SHARE * client["wall_s"]:
        faults.append(f"a worker stood still for {client['stood_still_s']:.1f} s in all")
    late_read, late_turn, late_send = (client[f"{name}_p99_ms"] or 0.0 for name in ("read_late", "turn", "send_late"))
    if client["clock"] == "kernel" and late_read > LATE_READ_MS and client["merged_share"] > MERGED_SHARE:
        faults.append(f"it read {client['merged_share']:.2%} of the events too late to time them apart (reads {late_read:.1f} ms late at p99)")
    if client["clock"] != "kernel" and late_turn > LATE_TURN_MS:
        faults.append(f"its own clock stamped events up to {late_turn:.1f} ms late at p99")
    if late_send > max(LATE_SEND_MS, _tenth_of_gap_ms(summary)):
        faults.append(f"it sent requests {late_send:.1f} ms late at p99")
    if client["held_back_s"]:
        faults.append(f"it held requests back for {client['held_back_s']:.1f} s because decoding could not follow")
    remedy = "use more --workers, fewer streams, or another machine"
    if faults:
        return f"the client did set some of these numbers: {'; '.join(faults)}. To change that, {remedy}."
    share = client["cpu_share"]
    if share is not None and share > CPU_SHARE:
        return f"the client did not set these numbers, but a worker used {share:.0%} of its core: for more load, {remedy}."
    return f"the client did not set these numbers ({_margin(client)})."


def _tenth_of_gap_ms(summary: Summary) -> float:
    """A tenth of the mean gap between sends: a shift below it leaves the arrival process what it was."""
    return 100.0 / summary.sent_rate if summary.sent_rate else 0.0


def _margin(client: dict[str, Any]) -> str:
    parts = []
    if client["read_late_p99_ms"] is not None:
        parts.append(f"reads {client['read_late_p99_ms']:.2f} ms late at p99 and stamped by the kernel")
    elif client["turn_p99_ms"] is not None:
        parts.append(f"stamps at most {client['turn_p99_ms']:.2f} ms late at p99")
    if client["send_late_p99_ms"] is not None:
        parts.append(f"sends {client['send_late_p99_ms']:.2f} ms late")
    if client["cpu_share"] is not None:
        parts.append(f"{client['cpu_share']:.0%} of a core")
    return ", ".join(parts) or "nothing was measured"
