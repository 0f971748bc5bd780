"""Add seeds until claims are decided: they are judged again and again, and wrongly no more often for that.

Seeds are doubled from look to look, and a claim keeps the first verdict that it gets. The chance of a false one is
spent over the looks: 5 % / (j (j + 1)) at look j, which sums to 5 % over however many there are. So neither the looks
nor their levels depend on the budget: whoever raises it goes on as if it had been so high from the beginning.

References
----------
Lan and DeMets (1983), Discrete sequential boundaries for clinical trials, Biometrika 70.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from unrack.errors import InputError
from unrack_papers.claim import Claim, Finding
from unrack_papers.looks import Looks, chance_of
from unrack_papers.measured import Measured
from unrack_papers.verdict import NOT_MEASURED, Verdict


def until_decided(run: Callable[[int], Measured], looks: Looks) -> tuple[Measured, list[tuple[Claim, Finding]]]:
    """Add seeds until every claim has a verdict, or the budget is spent.

    Parameters
    ----------
    run
        Measures with so many seeds: those before, and more.
    looks
        When to look.

    Returns
    -------
    tuple
        What was measured with all seeds that were run, at the chance that the last look had left; and for each claim
        the verdict that it got first, or that it cannot be judged yet.

    Raises
    ------
    InputError
        The budget is less than the first look takes.
    """
    if looks.most < looks.first:
        wanted = f"{looks.first} or more: so many are run before claims are looked at for the first time"
        raise InputError("--until-decided", str(looks.most), wanted)
    findings: dict[int, Finding] = {}
    for look, seeds in enumerate(looks.seeds, 1):
        measured = replace(run(seeds), chance=chance_of(look), looks=looks)
        claims = measured.reproduction.claims
        findings |= {
            i: claim.judge(measured) for i, claim in enumerate(claims) if i not in findings or _open(findings[i])
        }
        if not any(_open(finding) and finding.why != NOT_MEASURED for finding in findings.values()):
            break
    return measured, [(claim, findings[i]) for i, claim in enumerate(claims)]


def _open(finding: Finding) -> bool:
    return finding.verdict is Verdict.OPEN
