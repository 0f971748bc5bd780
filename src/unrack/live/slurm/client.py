"""How Slurm is reached: one small interface; its commands stand behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unrack.live.slurm.orders import Order, OrderAnswer
from unrack.live.slurm.reading import Reading


class Client(Protocol):
    """A way to reach Slurm. All its methods may raise :class:`unrack.live.driver.seen.UnreachableError`."""

    def changed(self) -> bool:
        """Whether anything may have changed since the last :meth:`read`: cheap, and never False by mistake."""
        ...

    def read(self) -> Reading:
        """All that there is now."""
        ...

    def booted_s(self) -> int:
        """When the controller was started that answers now, s since 1970; 0: it does not say that."""
        ...

    def carry_out(self, orders: Sequence[Order]) -> list[OrderAnswer]:
        """Give orders, in order, as few commands as can be; one that is refused does not keep the others back.

        Every order may be given twice: a job that is placed, released or held already stays so.
        """
        ...
