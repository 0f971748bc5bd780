"""What generators of one's own are made of: distributions, arrivals, loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.resources.checked import Strict as Strict
    from unrack.resources.checked import validated as validated
    from unrack.workload.generate.arrivals import Arrivals as Arrivals
    from unrack.workload.generate.arrivals import gap_s as gap_s
    from unrack.workload.generate.batch.curve import along as along
    from unrack.workload.generate.batch.curve import correlation_of as correlation_of
    from unrack.workload.generate.batch.curve import curve_of as curve_of
    from unrack.workload.generate.batch.fit import Marginal as Marginal
    from unrack.workload.generate.distributions import Constant as Constant
    from unrack.workload.generate.distributions import Distribution as Distribution
    from unrack.workload.generate.distributions import Hours as Hours
    from unrack.workload.generate.distributions import Positive as Positive
    from unrack.workload.generate.distributions import WeekCycle as WeekCycle
    from unrack.workload.generate.distributions import Weekdays as Weekdays
    from unrack.workload.generate.distributions import as_us as as_us
    from unrack.workload.generate.distributions import ascending as ascending
    from unrack.workload.generate.distributions import numbers_from as numbers_from
    from unrack.workload.generate.distributions import pick as pick
    from unrack.workload.generate.distributions import upward as upward
    from unrack.workload.generate.generator import GeneratorSpec as GeneratorSpec
    from unrack.workload.generate.memory import memory_by_size_mb as memory_by_size_mb
    from unrack.workload.tier_asks import BETWEEN as BETWEEN
    from unrack.workload.tier_asks import NO_CEILING as NO_CEILING
    from unrack.workload.tier_asks import TierAsks as TierAsks
    from unrack.workload.tier_asks import first_fault as first_fault
    from unrack.workload.tier_asks import tier_asks as tier_asks
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
