"""CUDA graphs of training steps, one per row length and one for the optimizer, checked at capture."""

import torch

MAX_GRADIENT_DIFFERENCE = 0.3  # relative norm; kernels with atomic sums never repeat exactly


class GraphMismatch(RuntimeError):
    """A captured step computed something else than the plain one."""


def capture(function, pool):
    graph = torch.cuda.CUDAGraph()
    # The copying thread may allocate pinned memory meanwhile, hence thread_local.
    with torch.cuda.graph(
        graph, pool=pool, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"
    ):
        result = function()
    return graph, result


class BatchGraphs:
    """Forward and backward of a batch. `step(ids, weights)` adds to `gradients` and to `sums` and returns the
    loss."""

    def __init__(self, step, gradients, sums, pool):
        self.step, self.gradients, self.sums, self.pool = step, gradients, sums, pool
        self.captured = {}

    def run(self, ids, weights):
        graph, own_ids, own_weights = self.captured[weights.shape[1]]
        own_ids.copy_(ids)
        own_weights.copy_(weights)
        graph.replay()

    def capture(self, ids, weights):
        """Captures the step for rows of this length; any tokens do."""
        kept = self.gradients.clone(), self.sums.clone()
        own_ids, own_weights = ids.clone(), weights.clone()
        self.gradients.zero_()
        plain_loss = self.step(
            own_ids, own_weights
        ).item()  # compiles and tunes the kernels for this length, too
        plain = self.gradients.clone()
        graph, loss = capture(lambda: self.step(own_ids, own_weights), self.pool)
        self.gradients.zero_()
        graph.replay()
        difference = ((self.gradients.float() - plain.float()).norm() / plain.float().norm()).item()
        if (
            not abs(plain_loss - loss.item()) <= 0.01 * abs(plain_loss)
            or not difference <= MAX_GRADIENT_DIFFERENCE
        ):
            raise GraphMismatch(
                f"row length {weights.shape[1]}: loss {loss.item():.4f} in the graph, {plain_loss:.4f} "
                f"without; gradients differ by {difference:.3f}, limit {MAX_GRADIENT_DIFFERENCE}"
            )
        self.gradients.copy_(kept[0])
        self.sums.copy_(kept[1])
        self.captured[weights.shape[1]] = graph, own_ids, own_weights


class OptimizerGraph:
    """The optimizer's step."""

    def __init__(self, optimizer, pool):
        self.optimizer, self.pool, self.graph = optimizer, pool, None

    def capture(self):
        """Leaves parameters and optimizer as they were."""
        parameters = self.optimizer.parameters
        changed = parameters.masters, *self.optimizer.state().values()
        kept = [tensor.clone() for tensor in changed]
        self.optimizer.set_step(1, 1.0, 1.0)
        self.optimizer.step()
        torch.cuda.synchronize()
        self.graph, _ = capture(self.optimizer.step, self.pool)
        for tensor, value in zip(changed, kept):
            tensor.copy_(value)

    def run(self):
        self.graph.replay()
