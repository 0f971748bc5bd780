"""Joules in plain Python: second by second, from the tables of a run and the keys of its cluster."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

from power_worlds import PowerWorld

from unrack.sim.result import Result


class Meter:
    """The nodes of a world, second by second."""

    def __init__(self, world: PowerWorld, result: Result) -> None:
        self.world, self.result = world, result
        self.cores = [4, 4, 4, 2, 2]
        self.down = [(int(f["domain"][4:]), f["time_s"], f["repaired_s"]) for f in self.failures()]
        self.held: dict[int, set[int]] = defaultdict(set)  # attempt → nodes
        self.spans: dict[int, tuple[int, int]] = {}
        self.tasks: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.job: dict[int, int] = {}
        for row in result.placements.iter_rows(named=True):
            key = hash((row["job"], row["attempt"]))
            self.job[key], self.spans[key] = row["job"], (round(row["start_s"]), round(row["end_s"]))
            for node in range(row["first_node"], row["first_node"] + row["nodes"]):
                self.held[key].add(node)
                self.tasks[key].append((node, row["tasks_per_node"]))
        for name, column in (("loans", "lender"), ("shares", "devices")):
            for row in result.table(name).iter_rows(named=True):
                own = [row[column]] if name == "loans" else row[column]  # device i is at home in node i
                self.held[hash((row["job"], row["attempt"]))].update(own)

    def failures(self) -> list[dict[str, Any]]:
        """Rows of the table of failures."""
        return self.result.table("failures").to_dicts()

    def draws(self, node: int, key: str) -> Decimal:
        """Watts of a node."""
        power = self.world.power
        own = next((some for some in power["nodes"] if node < 2), power)
        if key == "core" and "core" not in own:
            more = round(milli(own["peak"]) - milli(own["idle"]))  # a core draws whole milliwatts
            return Decimal((more + self.cores[node] - 1) // self.cores[node]) / 1000
        return milli(own[key]) / 1000

    def measure(self, until: int) -> tuple[list[Decimal], list[Decimal], list[int], dict[int, int]]:
        """Watts, watts of nodes that no attempt holds, and nodes off, in each second; when each attempt could work."""
        switch = self.world.power.get("switch_off")
        count = len(self.cores)
        state, since, turns = ["on"] * count, [0] * count, [0] * count
        was_held, ready = [False] * count, dict[int, int]()
        watts, alone, off = list[Decimal](), list[Decimal](), list[int]()
        asked = {row["job"]: row for row in self.result.jobs.iter_rows(named=True)}
        for now in range(until):
            held = [False] * count
            running = [key for key, (start, end) in self.spans.items() if start <= now < end]
            touched = {node for key, times in self.spans.items() if now in times for node in self.held[key]}
            for key in running:
                for node in self.held[key]:
                    held[node] = True
            for node in range(count):
                if any(own == node and start <= now < end for own, start, end in self.down):
                    state[node] = "down"
                    continue
                if state[node] == "down":
                    state[node], since[node] = "on", now
                if state[node] == "shutting" and now >= turns[node]:
                    state[node] = "off"
                if state[node] == "off" and held[node]:
                    state[node], turns[node] = "booting", now + switch["boot"]
                if state[node] == "booting" and now >= turns[node]:
                    state[node] = "on"
                if was_held[node] or held[node] or node in touched:  # it rests from now, or from when it is on
                    since[node] = max(now, turns[node] if state[node] == "booting" else now)
            if switch is not None:
                idle = [n for n in range(count) if not held[n] and state[n] in ("on", "booting")]
                for node in idle[switch["keep_on"] :]:
                    if since[node] + switch["after"] > now:
                        continue
                    state[node], turns[node] = "shutting", now + switch["shutdown"]
                    if turns[node] == now:
                        state[node] = "off"
            was_held = held
            drawn = [self.state_watts(node, state[node]) for node in range(count)]
            alone.append(sum((drawn[n] for n in range(count) if not held[n]), Decimal(0)))
            total = sum(drawn, Decimal(0))
            for key in running:
                if all(state[node] == "on" for node in self.held[key]):
                    ready.setdefault(key, now)
                if key in ready:
                    row = asked[self.job[key]]
                    gpus = row["gpu.devices"] * milli(self.world.power["devices"]["gpu.devices"]) / 1000
                    for node, tasks in self.tasks[key]:
                        total += tasks * (row["cores_per_task"] * self.draws(node, "core") + gpus)
            watts.append(total)
            off.append(state.count("off"))
        return watts, alone, off, ready

    def state_watts(self, node: int, state: str) -> Decimal:
        """What a node draws with no core in use."""
        if state in ("down", "off"):
            return self.draws(node, "off")
        if state in ("booting", "shutting"):
            name = "boot_watts" if state == "booting" else "shutdown_watts"
            return milli(self.world.power["switch_off"][name]) / 1000
        return self.draws(node, "idle")


def milli(watts: float) -> Decimal:
    """Milliwatts."""
    return Decimal(str(watts)) * 1000
