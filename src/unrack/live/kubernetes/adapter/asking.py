"""What pods, and gangs, ask of the core beside all that is there; or why they are not to be started now."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from unrack.live.driver.contract import Problem
from unrack.live.driver.seen import Seen
from unrack.live.driver.state.table import KnownJobs
from unrack.live.kubernetes.adapter.asks import Amounts, asked_of, beyond, room_of
from unrack.live.kubernetes.adapter.picture import Picture, is_usable
from unrack.live.kubernetes.adapter.terms import Terms
from unrack.live.kubernetes.adapter.tiers import tier_of
from unrack.live.kubernetes.client.objects import Pod
from unrack.live.kubernetes.constraints import beside
from unrack.live.kubernetes.constraints.in_turn import WAITS, InTurn
from unrack.live.kubernetes.devices.allocator import HeldDevices
from unrack.live.kubernetes.devices.devices import Devices
from unrack.live.kubernetes.devices.extended import extended_of, extended_on, fixed_in, imagined, special
from unrack.live.kubernetes.devices.objects import Claim
from unrack.live.kubernetes.devices.store import is_made
from unrack.live.kubernetes.devices.trial import DeviceTrial
from unrack.live.kubernetes.devices.wanted import WantedError
from unrack.live.kubernetes.gangs.asking import asked_together
from unrack.live.kubernetes.gangs.gathering import Gang
from unrack.live.kubernetes.gangs.placing import Free, Member, Placing
from unrack.live.kubernetes.remote.pool import KIND
from unrack.units import SECOND_US
from unrack.workload.job import Job

Found = tuple[Job | Problem, tuple[str, ...]]
"""What pods ask, or why not; and of a gang its pods in the order of its tasks."""
MOST_PODS, MOST_WAYS = 512, 32
"""The most pods of a gang that keep out of each other's way, and the most ways in which they may require that."""


class Asking:
    """Asks for pods and gangs.

    Parameters
    ----------
    picture, devices
        What is known of nodes and pods, and of devices that are claimed.
    """

    def __init__(self, picture: Picture, devices: Devices) -> None:
        self._picture, self._devices, self._in_turn = picture, devices, InTurn()
        self._terms: Terms | None = None
        self._asked: dict[str, tuple[Pod | Gang, Terms, list[Hashable], Found]] = {}
        self._placed: dict[str, tuple[Gang, Hashable, Found]] = {}  # and what it was found by

    def begin(self, terms: Terms, seen: Seen, table: KnownJobs) -> None:
        """A turn begins."""
        self._terms = terms
        with self._picture.lock:
            self._in_turn.begin(seen, table, self._picture.pods, self._picture.beside.requiring)

    def forget(self, key: str) -> None:
        """A job is over."""
        self._asked.pop(key, None)
        self._placed.pop(key, None)

    def waits_for_devices(self, own: Pod | Gang, now: int, frees: bool) -> Problem | None:
        """Why pods with claims are not looked at now: they are being made, or what they had is taken back."""
        pods = [pod for pod in pods_of(own) if self._devices.claims(pod)]
        if not all(map(is_made, pods)):
            return Problem("its claims are still to be made from their templates")
        gives_back = [self._devices.gives_back(pod) for pod in pods if frees]  # it begins that for each of them
        if any(gives_back):
            return Problem("its devices are being taken back", again_us=now + SECOND_US)
        return None

    def asks(self, key: str, own: Pod | Gang) -> Found:
        """What pods ask beside those that are there; of pods that may be in each other's way one at a time."""
        picture, members = self._picture, own.keys if isinstance(own, Gang) else (key,)
        with picture.lock:
            pods = pods_of(own)
            required = [picture.beside.required(*one) for one in zip(members, pods, strict=True)]
            without = {pod.metadata.uid: picture.without_volumes(pod) for pod in pods}
            if why := next((one for one in without.values() if isinstance(one, str)), ""):
                return Problem(why), ()
            off = {uid: set(one) for uid, one in without.items()}
            if isinstance(own, Gang) and not own.why and (any(map(any, required)) or self._is_one_by_one(own)):
                return self._beside_each_other(key, own, required, off)
            if not any(map(picture.beside.matters, required)) and not any(without.values()):
                return self._asks(key, own)
            kept_off = set[str]().union(*map(picture.beside.forbidden, pods, required))
        terms, counted = self._now, set[str]()
        if isinstance(own, Gang):
            return _together(
                own, key, lambda pod, key: terms.asked(pod, key, kept_off | off[pod.metadata.uid], counted)
            )
        found = terms.asked(own, key, kept_off | off[own.metadata.uid])
        first = isinstance(found, Problem) or self._in_turn.take(key, [(own, required[0])])
        return (found if first else Problem(WAITS)), ()

    @property
    def _now(self) -> Terms:
        assert self._terms is not None
        return self._terms

    def _asks(self, key: str, own: Pod | Gang) -> Found:
        """What pods ask that no other pod keeps from anything."""
        terms, kept, counted = self._now, self._asked.get(key), set[str]()
        known: list[Hashable] = [self._devices.known_of(pod) for pod in pods_of(own) if self._devices.claims(pod)]
        if known and terms.is_mixed:  # where a pod gets devices depends on what nodes have free themselves
            known.append(self._picture.version)
        if kept is None or kept[0] is not own or kept[1] is not terms or kept[2] != known:
            if isinstance(own, Gang):
                found = _together(own, key, lambda pod, key: terms.asked(pod, key, (), counted))
            else:
                found = terms.asked(own, key), ()
            kept = self._asked[key] = own, terms, known, found
        return kept[3]

    # --- gangs with pods that are in each other's way, or have to be together ----------------------------------------

    def _is_one_by_one(self, gang: Gang) -> bool:
        """Whether where a pod of a gang is to be depends on the others, though they are not in each other's way."""
        return bool(gang.alike) or self._share(gang) or self._is_mixed(gang)

    def _share(self, gang: Gang) -> bool:
        """Whether pods of a gang share a claim that has no devices yet."""
        store, uids = self._devices.store, set[str]()
        for pod in gang.pods:
            try:
                claims = store.of_pod(pod) if pod.spec.resource_claims else []
            except WantedError:
                return False
            mine = {one.metadata.uid for one in claims if one.status.allocation is None}
            if mine & uids:
                return True
            uids |= mine
        return False

    def _is_mixed(self, gang: Gang) -> bool:
        """Whether some nodes have themselves what pods of a gang ask for, and others devices: of these each has one."""
        mapped = self._devices.store.mapped
        return self._now.is_mixed and any(extended_of(pod, mapped) for pod in gang.pods)

    def _beside_each_other(
        self, key: str, gang: Gang, required: Sequence[beside.PodTerms], off: Mapping[str, set[str]]
    ) -> Found:
        pairs = list(zip(gang.pods, required, strict=True))
        if why := _beyond_placing(gang, required):
            return Problem(why, misread=True), ()
        if not self._in_turn.may_take(key, pairs):
            return Problem(WAITS), ()
        picture, store, kept = self._picture, self._devices.store, self._placed.get(key)
        known = [self._devices.known_of(pod) for pod in gang.pods if self._devices.claims(pod)]
        by = picture.beside.version, picture.nodes_version, id(self._now), tuple(known) and (store.version, *known)
        if kept is None or kept[0] is not gang or kept[1] != by:
            kept = self._placed[key] = gang, by, self._placed_now(key, gang, required, off)
        if not isinstance(kept[2][0], Problem):
            self._in_turn.take(key, pairs)
        return kept[2]

    def _placed_now(
        self, key: str, gang: Gang, required: Sequence[beside.PodTerms], off: Mapping[str, set[str]]
    ) -> Found:
        """What a gang asks on nodes that were found for its pods: where there is room, or else where there may be."""
        terms, picture, counted, members = self._now, self._picture, set[str](), list[Member]()
        alone = _together(gang, key, terms.asked)
        if isinstance(alone[0], Problem):
            return alone
        heres = dict[Hashable, list[str]]()  # equal pods have the same list
        for member, pod, its in zip(gang.keys, gang.pods, required, strict=True):
            never = off[pod.metadata.uid].union(
                self._devices.giving.failed_on(pod) if self._devices.claims(pod) else ()
            )
            places, mapped = terms.places(pod), self._devices.store.mapped
            if fixed := fixed_in(pod):
                never |= {name for name in places if fixed != {*extended_on(pod, picture.nodes[name], mapped)}}
            if (alike := (id(places), frozenset(never))) not in heres:
                heres[alike] = [name for name in places if name not in never and is_usable(picture.nodes[name])]
            here = heres[alike]
            claims = self._devices.store.of_pod(pod) if pod.spec.resource_claims else []
            members.append(Member(member, pod, here, its, claims, self._special(pod, here)))
        placing = Placing(picture.nodes, picture.beside, members, gang.alike)
        nodes: list[str] | str = ""
        for free in self._frees(gang):
            nodes = placing.found(free)
            if isinstance(nodes, list):
                break
        if isinstance(nodes, str):
            return Problem(nodes), ()
        node_of, every = {pod.metadata.uid: node for pod, node in zip(gang.pods, nodes, strict=True)}, {*picture.nodes}
        return _together(
            gang, key, lambda pod, key: terms.asked(pod, key, every - {node_of[pod.metadata.uid]}, counted)
        )

    def _special(self, pod: Pod, here: Sequence[str]) -> Mapping[str, tuple[Amounts, Claim]]:
        """Of nodes where extended resources of a pod are devices: what it asks for beside them, and its claim."""
        mapped, asks, found = self._devices.store.mapped, asked_of(pod), dict[str, tuple[Amounts, Claim]]()
        made = dict[tuple[str, ...], tuple[Amounts, Claim]]()  # by which of them are devices
        for name in here if extended_of(pod, mapped) else ():
            devices = tuple(extended_on(pod, self._picture.nodes[name], mapped))
            if devices and devices not in made:
                beside = {resource: amount for resource, amount in asks.items() if resource not in devices}
                made[devices] = beside, imagined(pod, special(pod, devices, mapped))
            if devices:
                found[name] = made[devices]
        return found

    def _frees(self, gang: Gang) -> Iterator[Free]:
        """What is free now; what would be if pods were evicted for a gang; what would be if no pod ran."""
        picture, store = self._picture, self._devices.store
        whole = {name: room_of(picture.nodes[name]) for name in self._now.names if name in picture.nodes}
        now = {name: _less(room, picture.held(name)) for name, room in whole.items()}
        yield Free(now, DeviceTrial(store, store.held_by()), lambda name, asks: False)

        def lacking(name: str, asks: Amounts) -> bool:
            return bool(beyond(asks, now[name]))

        tier = tier_of(gang.pods)
        if picture.preempts and tier.may:

            def stays(pod: Pod) -> bool:
                return pod.spec.scheduler_name != picture.scheduler or (pod.spec.priority or 0) >= tier.priority

            rooms, uids = {name: dict(room) for name, room in whole.items()}, set[str]()
            for pod, name, asks in picture.holding():
                if not stays(pod):
                    uids.add(pod.metadata.uid)
                elif name in rooms:
                    rooms[name] = _less(rooms[name], asks)
            held = store.held_by(but=lambda one: {user.uid for user in one.status.reserved_for} <= uids)
            yield Free(rooms, DeviceTrial(store, held), lacking)
        yield Free(whole, DeviceTrial(store, HeldDevices()), lacking)


def _beyond_placing(gang: Gang, required: Sequence[beside.PodTerms]) -> str:
    """Why finding nodes for a gang would take the time of all others; ``""``: it would not."""
    if len(gang.pods) > MOST_PODS:
        return f"its gang has {len(gang.pods)} pods which are in each other's way, of {MOST_PODS} at most"
    ways = len({repr(one) for one in required})
    return (
        f"the pods of its gang require {ways} different things of others, of {MOST_WAYS} at most"
        if ways > MOST_WAYS
        else ""
    )


def _less(room: Amounts, held: Mapping[str, int]) -> dict[str, int]:
    return {resource: amount - held.get(resource, 0) for resource, amount in room.items()}


def _together(gang: Gang, key: str, asked: Callable[[Pod, str], Job | Problem]) -> Found:
    """What the pods of a gang ask, but for devices of other nodes, which are given to single pods alone."""
    job, order = asked_together(gang, key, asked)
    if isinstance(job, Job) and any(KIND in one.demand.devices for one in job.every):
        return Problem("it asks for devices of other nodes: not kept of gangs", misread=True), ()
    return job, order


def pods_of(own: Pod | Gang) -> tuple[Pod, ...]:
    """A pod, or those of a gang."""
    return own.pods if isinstance(own, Gang) else (own,)
