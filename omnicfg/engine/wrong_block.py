"""The negative control of :mod:`omnicfg.engine.verify`: a connector that reads one block from a wrong place.

Every second request that finds rows in the cache gets the rows of its second block where those of its first
belong. A verification that cannot tell this from the truth proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnicfg.engine.gather import PayloadConnector, StepOrders

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput


class WrongBlockConnector(PayloadConnector):
    """:class:`PayloadConnector`, but for one block of some requests."""

    _hits = 0

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> StepOrders:
        orders = self._book.order(scheduler_output)
        for span in orders.old:
            if len(span.blocks) > 1:
                self._hits += 1
                if self._hits % 2 == 0:
                    span.blocks[0] = span.blocks[1]
        return orders
