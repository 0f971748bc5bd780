"""Plain-Python schedulers that only count processors: the yardstick of the benchmarks.

The same algorithms as the engine's FCFS, EASY and conservative, on identical single-processor nodes, without node
identities, memory, logs or checks. A job is a tuple (submit, run, request, processors); times are integers. Each
function returns the start times.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort

Job = tuple[int, int, int, int]


def fcfs(jobs: list[Job], processors: int) -> list[int]:
    return _list_schedule(jobs, processors, backfill=False)


def easy(jobs: list[Job], processors: int) -> list[int]:
    return _list_schedule(jobs, processors, backfill=True)


def _list_schedule(jobs: list[Job], processors: int, backfill: bool) -> list[int]:
    start = [-1] * len(jobs)
    ends: list[tuple[int, int]] = []  # real ends
    booked: list[tuple[int, int]] = []  # requested ends, in order
    waiting: list[int] = []
    free, i = processors, 0

    def run(job: int) -> None:
        nonlocal free
        _, length, request, size = jobs[job]
        start[job] = now
        free -= size
        heapq.heappush(ends, (now + length, job))
        insort(booked, (now + request, job))

    while i < len(jobs) or ends:
        now = min(jobs[i][0] if i < len(jobs) else ends[0][0], ends[0][0] if ends else jobs[i][0])
        while ends and ends[0][0] == now:
            _, job = heapq.heappop(ends)
            free += jobs[job][3]
            del booked[bisect_left(booked, (start[job] + jobs[job][2], job))]
        while i < len(jobs) and jobs[i][0] == now:
            waiting.append(i)
            i += 1
        while waiting and jobs[waiting[0]][3] <= free:
            run(waiting.pop(0))
        if not backfill or len(waiting) < 2 or free == 0:
            continue
        need, room, shadow = jobs[waiting[0]][3], free, -1
        for end, job in booked:
            if shadow >= 0 and end > shadow:
                break
            room += jobs[job][3]
            if shadow < 0 and room >= need:
                shadow = max(end, now + 1)
        spare = room - need
        left = [waiting[0]]
        for job in waiting[1:]:
            _, _, request, size = jobs[job]
            if size <= free and (now + request <= shadow or size <= spare):
                if now + request > shadow:
                    spare -= size
                run(job)
            else:
                left.append(job)
        waiting = left
    return start


def conservative(jobs: list[Job], processors: int) -> list[int]:
    start = [-1] * len(jobs)
    reserved: dict[int, int] = {}  # waiting job -> reserved start, in order of submission
    ends: list[tuple[int, int]] = []
    booked: dict[int, int] = {}  # running job -> requested end
    times, level = [0], [processors]  # from times[k] on, level[k] processors are free

    def split(time: int) -> int:
        k = bisect_left(times, time)
        if k == len(times) or times[k] != time:
            times.insert(k, time)
            level.insert(k, level[k - 1])
        return k

    def book(begin: int, end: int, size: int) -> None:
        if end > begin:
            a = split(begin)
            for k in range(a, split(end)):
                level[k] -= size

    def earliest(now: int, length: int, size: int) -> int:
        k = split(now)
        while True:
            if level[k] < size:
                k += 1
                continue
            m = k + 1
            while m < len(times) and times[m] < times[k] + length and level[m] >= size:
                m += 1
            if m == len(times) or times[m] >= times[k] + length:
                return times[k]
            k = m + 1

    i = 0
    while i < len(jobs) or ends:
        now = min(jobs[i][0] if i < len(jobs) else ends[0][0], ends[0][0] if ends else jobs[i][0])
        k = split(now)
        del times[:k], level[:k]
        early = False
        while ends and ends[0][0] == now:
            _, job = heapq.heappop(ends)
            end = booked.pop(job)
            book(now, end, -jobs[job][3])
            early = early or end > now
        if early:
            for job, begin in reserved.items():
                _, _, request, size = jobs[job]
                book(begin, begin + request, -size)
                reserved[job] = begin = earliest(now, request, size)
                book(begin, begin + request, size)
        while i < len(jobs) and jobs[i][0] == now:
            _, _, request, size = jobs[i]
            reserved[i] = begin = earliest(now, request, size)
            book(begin, begin + request, size)
            i += 1
        for job in [job for job, begin in reserved.items() if begin == now]:
            del reserved[job]
            start[job] = now
            booked[job] = now + jobs[job][2]
            heapq.heappush(ends, (now + jobs[job][1], job))
    return start
