"""Events in, decisions out: no clock, no socket, no heap."""

from unrack.core.core import Core as Core
