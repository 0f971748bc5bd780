"""What a job asked for on its command line, as the field SubmitLine of ``sacct`` has it."""

from __future__ import annotations

import re

_SHORT = {"d": "dependency", "w": "nodelist", "x": "exclude", "a": "array", "C": "constraint"}
_FLAGS = frozenset({
    "hold", "requeue", "no-requeue", "overcommit", "quiet", "verbose", "test-only", "wait", "contiguous", "spread-job",
    "use-min-nodes", "no-kill", "oversubscribe", "share", "parsable", "exclusive", "get-user-env", "ignore-pbs",
    "reboot", "pty", "label", "unbuffered", "preserve-env", "overlap", "exact", "whole", "immediate", "propagate",
    "nice",
})  # fmt: skip
"""Long options that take no value, or one behind ``=`` alone."""


def submit_line(text: str) -> dict[str, str]:
    """Long names of options of ``sbatch``, ``salloc`` or ``srun`` → values; what the script is given is not its own.

    Examples
    --------
    >>> submit_line("sbatch -p long -w n[1-2] --depend=afterok:12 --hold job.sh -x 7")
    {'nodelist': 'n[1-2]', 'dependency': 'afterok:12'}
    """
    words, found, place = text.split()[1:], dict[str, str](), 0
    while place < len(words) and words[place].startswith("-"):
        word, value = words[place], ""
        place += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = next((whole for whole in _SHORT.values() if len(name) > 2 and whole.startswith(name)), name)
            bare = not equals and name not in _FLAGS
        else:
            name, value = _SHORT.get(word[1:2], ""), word[2:].removeprefix("=")
            bare = not value and not re.fullmatch("-[HOQvWskX]+", word)
        if bare and place < len(words):
            value = words[place]
            place += 1
        if name in _SHORT.values():
            found[name] = value
    return found
