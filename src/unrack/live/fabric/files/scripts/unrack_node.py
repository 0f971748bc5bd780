"""What prolog and epilog do on a node: connect what the scheduler has attached for a job, and disconnect it again.

Runs as root with the node's own Python, 3.6 or newer, and needs nothing else. What it reads from the shared folder is
checked before it becomes a word of a command; no shell sees any of it. See docs/fabric.md.
"""

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
DEVICE = re.compile(r"(?=.{1,80}\Z)[A-Za-z0-9][A-Za-z0-9._:+-]*(/[A-Za-z0-9][A-Za-z0-9._:+-]*)*")
JOB = re.compile(r"[0-9]{1,10}")
BYTES_MAX = 2**20
FILES_MAX = 1000
POLL_S = 0.1
SETTINGS = ("unrack-fabric.json", "/etc/unrack/fabric.json")
"""Where the settings are: beside this file, or else there."""
KEYS = {"folder", "attach", "detach", "timeout_s", "wait_s", "device_path", "announced"}
ASKS = r"(?i)(?:^|[\s;])unrack:(?:[^\n;]*\s)?(?!counted\.|links\.)[a-z][\w-]*\.\w+="
"""What asks for devices in the comment of a job, as far as can be said without the settings."""


class Attached(NamedTuple):
    """What is attached, or noted as used; ``boot``: in which run of the machine it was noted."""

    operation: str
    job: str
    devices: List[str]
    amounts: Dict[str, int]
    whole: bool
    boot: str


class Problem(Exception):
    """Why the node cannot be used for the job, or not be left."""


class Node:
    """The node, and the job that begins or has ended; ``job`` is ``""`` where Slurm has not said one."""

    def __init__(self, environment: Dict[str, str]) -> None:
        self.folder = self.announced = ""
        self.has_devices = self.has_freed = False
        self.comment = environment.get("SLURM_JOB_COMMENT", "")
        self.name = environment.get("SLURMD_NODENAME", "")
        self.job = environment.get("SLURM_JOB_ID", "")
        if not NAME.fullmatch(self.name) or (self.job and not JOB.fullmatch(self.job)):
            raise Problem("SLURMD_NODENAME is %.100r, SLURM_JOB_ID %.100r" % (self.name, self.job))

    def set_up(self) -> None:
        """Read the settings, and look whether the shared folder is there."""
        path, settings = _settings()
        self.folder = _absolute(path, settings, "folder")
        self.device_path = _absolute(path, settings, "device_path") if "device_path" in settings else ""
        _check(path, settings)
        self.announced = settings.get("announced", "")
        self.attach: List[str] = settings.get("attach", [])
        self.detach: List[str] = settings.get("detach", [])
        self.timeout_s = float(settings.get("timeout_s", 30))
        self.wait_s = float(settings.get("wait_s", 5))
        mark = _read(os.path.join(self.folder, "fabric.json"))
        if mark is None or mark.get("format") != "unrack-fabric" or mark.get("version") != 1:
            raise Problem("%s has no fabric.json of version 1: is it mounted?" % self.folder)

    def is_concerned(self) -> bool:
        """True if the job has devices here, or its comment asks for some; all others run whatever is wrong here."""
        if self.has_devices or not self.job or re.search(self.announced or ASKS, self.comment):
            return True
        kinds = ("attached", "connected") if self.folder else ()
        return any(os.path.lexists(self.path(kind, self.job)) for kind in kinds)

    def path(self, kind: str, job: str, name: str = "") -> str:
        """Where a file of a job is; ``kind``: ``attached``, by the scheduler, or ``connected``, by this node."""
        return os.path.join(self.folder, kind, self.name, job, name)

    def operations(self, kind: str, job: str) -> List[str]:
        """What there is of a job, in order."""
        try:
            names = os.listdir(self.path(kind, job))
        except FileNotFoundError:
            return []
        names = sorted(name[:-5] for name in names if name[:1] != "." and name[-5:] == ".json")
        self.has_devices |= bool(names) and job == self.job
        if len(names) > FILES_MAX:
            raise Problem("%d files in %s" % (len(names), self.path(kind, job)))
        return names

    def one(self, kind: str, job: str, operation: str) -> Optional[Attached]:
        """One file, checked; ``None``: it is not there."""
        path = self.path(kind, job, operation + ".json")
        content = _read(path)
        if content is None:
            return None
        devices, amounts = content.get("devices"), content.get("amounts")
        good = (
            NAME.fullmatch(operation) and content.get("operation") == operation and content.get("job") == job
            and content.get("node") == self.name and content.get("version") == 1
            and isinstance(devices, list) and 0 < len(devices) <= FILES_MAX
            and all(isinstance(device, str) and DEVICE.fullmatch(device) for device in devices)
            and isinstance(amounts, dict)
            and all(NAME.fullmatch(key) and type(amount) is int and amount >= 0 for key, amount in amounts.items())
        )  # fmt: skip
        if not good or not isinstance(devices, list) or not isinstance(amounts, dict):
            raise Problem("%s is no attachment of job %s on %s" % (path, job, self.name))
        return Attached(operation, job, devices, amounts, content.get("whole") is True, str(content.get("boot", "")))

    def note(self, one: Attached) -> None:
        """Write down that this node uses it, before it does."""
        folder = self.path("connected", one.job)
        for part in (os.path.join(self.folder, "connected"), os.path.dirname(folder), folder):
            if os.path.islink(part):
                raise Problem("%s is a link" % part)
        os.makedirs(folder, 0o755, exist_ok=True)
        content = {"version": 1, "operation": one.operation, "job": one.job, "node": self.name, "devices": one.devices,
                   "amounts": one.amounts, "boot": _boot()}  # fmt: skip
        new = os.path.join(folder, "." + one.operation + ".new")
        number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(number, "w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(number)
        os.rename(new, os.path.join(folder, one.operation + ".json"))
        _sync(folder)

    def connect(self, one: Attached) -> None:
        """Connect its devices, and wait until they are there."""
        for device in one.devices:
            self.run(self.attach, one, device)
        until = time.monotonic() + self.timeout_s
        for device in one.devices if self.device_path else []:
            path = self.device_path.replace("{device}", device)
            while not os.path.exists(path):
                if time.monotonic() > until:
                    raise Problem("%s of %s is not there" % (path, one.operation))
                time.sleep(POLL_S)

    def disconnect(self, one: Attached) -> None:
        """Disconnect its devices, and take the note away."""
        for device in one.devices:
            self.run(self.detach, one, device)
        self.forget(one)

    def forget(self, one: Attached) -> None:
        """Take the note away."""
        folder = self.path("connected", one.job)
        try:
            os.unlink(os.path.join(folder, one.operation + ".json"))
            self.has_freed = True
            _sync(folder)
            os.rmdir(folder)
        except OSError as error:  # gone: prolog and epilog have found it at the same time; else others are still there
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def run(self, words: List[str], one: Attached, device: str) -> None:
        """Run a command of the site, if there is one."""
        if not words:
            return
        known = {"device": device, "node": self.name, "job": one.job, "operation": one.operation}
        command = [re.sub(r"\{([a-z]+)\}", lambda match: known[match.group(1)], word) for word in words]
        amounts = " ".join("%s=%d" % pair for pair in sorted(one.amounts.items()))
        environment = {"UNRACK_" + key.upper(): value for key, value in known.items()}
        environment.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL="C", UNRACK_AMOUNTS=amounts)
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, cwd="/",
                                   start_new_session=True)  # fmt: skip
        try:
            code = process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Problem("%s took over %g s for %s" % (command[0], self.timeout_s, device)) from None
        if code:
            raise Problem("%s ended with %d for %s" % (command[0], code, device))

    def leave(self, job: str, left_only: bool = False) -> List[str]:
        """Disconnect what this node uses for a job, or only what was left behind; returns what went wrong."""
        problems = []
        for operation in self.operations("connected", job):
            try:
                one = self.one("connected", job, operation)
                if one is not None and (not left_only or self.is_left(one)):
                    self.disconnect(one)
            except (Problem, OSError) as problem:  # the others all the same
                problems.append(str(problem))
        return problems

    def is_left(self, one: Attached) -> bool:
        """True if no epilog will come for it: the node has started anew, or Slurm has forgotten the job.

        A forgotten job is over for the scheduler, which takes back what it has; its prolog, if it ran, has ended by
        now; and no step of it is here.
        """
        if one.boot != _boot():
            return True
        kept = self.one("attached", one.job, one.operation)
        if kept is not None and kept.whole:
            return False
        noted = os.stat(self.path("connected", one.job, one.operation + ".json")).st_mtime
        prolog_s = self.timeout_s * (len(one.devices) + 1)
        return time.time() > noted + prolog_s and not _has_steps(one.job)

    def clear_up(self) -> List[str]:
        """Disconnect what was left behind on this node; returns what went wrong."""
        problems: List[str] = []
        until = time.monotonic() + self.timeout_s
        try:
            jobs = sorted(job for job in os.listdir(self.path("connected", "")) if JOB.fullmatch(job))
        except FileNotFoundError:
            return problems
        for job in jobs:
            if time.monotonic() > until:  # the job that begins has waited for others long enough
                break
            problems += self.leave(job, left_only=True)
        return problems

    def wake(self) -> None:
        """Tell the scheduler that a job has ended here, or that something is free."""
        try:
            number = os.open(os.path.join(self.folder, "wake"), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            os.utime(number)
            os.close(number)
        except OSError as problem:  # the scheduler looks all the same, a little later
            _say(str(problem))


def prolog(node: Node) -> None:
    """Connect what is attached for the job; all of it, or nothing and a problem."""
    if not node.job:
        raise Problem("no SLURM_JOB_ID")
    try:
        for text in node.clear_up():
            _say(text)
    except (Problem, OSError) as problem:  # it is another's; its devices stay noted
        _say(str(problem))
    if node.has_freed:
        node.wake()
    begun: List[Attached] = []
    try:
        for one in _wanted(node):
            node.note(one)
            begun.append(one)
            if node.one("attached", node.job, one.operation) != one:  # read again: it may just have been withdrawn
                begun.pop()
                node.forget(one)  # nothing of it is connected, and its devices may be another's already
                raise Problem("%s is being detached" % one.operation)
            node.connect(one)
    except (Problem, OSError):
        for one in begun:
            try:
                node.disconnect(one)
            except (Problem, OSError) as problem:  # the note stays, and the epilog tries again
                _say(str(problem))
        raise


def epilog(node: Node) -> None:
    """Disconnect what the prolog has connected; without a job, what was left behind."""
    problems = node.leave(node.job) if node.job else node.clear_up()
    if node.job or node.has_freed:
        node.wake()
    if problems:
        raise Problem("; ".join(problems))


def run(task: Callable[[Node], None]) -> int:
    """Do it; the exit code, 1 with a line on standard error where it could not be done for a job with devices."""
    try:
        node = Node(dict(os.environ))
    except Problem as problem:
        _say(str(problem))
        return 1
    try:
        node.set_up()
        task(node)
    except (Problem, OSError) as problem:
        _say(str(problem))
        if node.is_concerned():
            return 1
        _say("job %s has no devices on %s: it is let through" % (node.job, node.name))
    return 0


def _wanted(node: Node) -> List[Attached]:
    """What is attached for the job; what was announced has to be there, if only after a moment."""
    until = time.monotonic() + node.wait_s
    while True:
        found = [node.one("attached", node.job, operation) for operation in node.operations("attached", node.job)]
        wanted = [one for one in found if one is not None]
        if wanted or not (node.announced and re.search(node.announced, node.comment)):
            break
        if time.monotonic() > until:
            raise Problem("job %s has announced devices, and none is attached to %s" % (node.job, node.name))
        time.sleep(POLL_S)
    for one in wanted:
        if not one.whole:
            raise Problem("%s is attached only in part, or being detached" % one.operation)
    return wanted


def _settings() -> Tuple[str, Dict[str, Any]]:
    """Where the settings are, and what they say; only root or the account that runs this may have written them."""
    beside = os.path.join(os.path.dirname(os.path.realpath(__file__)), SETTINGS[0])
    path = beside if os.path.exists(beside) else SETTINGS[1]
    settings = _read(path)
    if settings is None:
        raise Problem("there is neither %s nor %s" % (beside, SETTINGS[1]))
    found = os.stat(path)
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise Problem("%s may be changed by others than root" % path)
    return path, settings


def _absolute(path: str, settings: Dict[str, Any], key: str) -> str:
    """An absolute path among the settings."""
    name = settings.get(key)
    if not isinstance(name, str) or not os.path.isabs(name) or "\0" in name:
        raise Problem("%s in %s is no absolute path" % (key, path))
    return name


def _check(path: str, settings: Dict[str, Any]) -> None:
    """Refuse settings that cannot be meant."""
    if not set(settings) <= KEYS:
        raise Problem("%s has the unknown key %s" % (path, sorted(set(settings) - KEYS)[0]))
    for key in ("attach", "detach"):
        words = settings.get(key, [])
        if not isinstance(words, list) or not all(isinstance(word, str) and "\0" not in word for word in words):
            raise Problem("%s in %s is no list of words" % (key, path))
        if words and not os.path.isabs(words[0]):
            raise Problem("%s in %s does not begin with an absolute path" % (key, path))
        for word in words:
            if set(re.findall(r"\{([a-z]+)\}", word)) - {"device", "node", "job", "operation"}:
                raise Problem("%r in %s names something else than {device}, {node}, {job}, {operation}" % (word, path))
    for key in ("timeout_s", "wait_s"):
        if not isinstance(settings.get(key, 1), (int, float)) or not 0 <= settings.get(key, 1) <= 3600:
            raise Problem("%s in %s is no number of seconds, at most 3600" % (key, path))
    try:
        re.compile(settings.get("announced", ""))
    except (re.error, TypeError, RecursionError, OverflowError):
        raise Problem("announced in %s is no pattern" % path) from None


def _read(path: str) -> Optional[Dict[str, Any]]:
    """The table in a plain file; ``None``: it is not there."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise Problem("%s is no plain file" % path)
        try:
            content = json.loads(file.read(BYTES_MAX).decode("utf-8"))
        except (ValueError, RecursionError):
            raise Problem("%s is not JSON" % path) from None
    if not isinstance(content, dict):
        raise Problem("%s is no table" % path)
    return content


def _boot() -> str:
    """An id of this run of the machine."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def _has_steps(job: str) -> bool:
    """True if a step of the job runs on this machine, or one of which the job cannot be told."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % number, "rb") as file:
                words = file.read(200)
        except OSError:  # it has just ended
            continue
        if words.startswith(b"slurmstepd"):
            found = re.match(rb"slurmstepd: \[([0-9]+)[.+\]]", words)
            if found is None or found.group(1).decode() == job:
                return True
    return False


def _sync(folder: str) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _say(text: str) -> None:
    sys.stderr.write("unrack: %s\n" % text)
