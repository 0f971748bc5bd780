"""Pure optimisation: problems and answers as arrays, with no word of data centres."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.kernels.ordering import order_of as order_of
    from unrack.solver.late import in_pieces as in_pieces
    from unrack.solver.late import telling_pieces as telling_pieces
    from unrack.solver.min_cost_flow import SOLVERS as SOLVERS
    from unrack.solver.network import Network as Network
    from unrack.solver.network import Residual as Residual
    from unrack.solver.network import amounts_of as amounts_of
    from unrack.solver.network import checked as checked
    from unrack.solver.network import push_all as push_all
    from unrack.solver.network import residual_of as residual_of
    from unrack.solver.servers import NOWHERE as NOWHERE
    from unrack.solver.servers import Asked as Asked
    from unrack.solver.servers import Supply as Supply
    from unrack.solver.servers import asked as asked
    from unrack.solver.servers import cheapest as cheapest
    from unrack.solver.servers import least_prices as least_prices
    from unrack.solver.servers import least_weight as least_weight
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
