"""Every loss of `torch.nn`: how to make one, and what to call it with."""

import torch
from module_cases import Case, normal_pair
from torch import Tensor, nn


def _classes() -> tuple[Tensor, ...]:
    return torch.randn(3, 4), torch.tensor([0, 2, 3])


def _signs() -> tuple[Tensor, ...]:
    return torch.randn(3, 4), torch.randint(0, 2, (3, 4)) * 2 - 1


def _probabilities() -> tuple[Tensor, ...]:
    return torch.rand(3, 4), torch.rand(3, 4)


def _log_classes() -> tuple[Tensor, ...]:
    scores, labels = _classes()
    return scores.log_softmax(1), labels


def _ctc() -> tuple[Tensor, ...]:
    scores = torch.randn(8, 2, 5).log_softmax(2)
    return scores, torch.randint(1, 5, (2, 3)), torch.tensor([8, 8]), torch.tensor([3, 2])


def _two_and_signs() -> tuple[Tensor, ...]:
    return torch.randn(3, 4), torch.randn(3, 4), torch.tensor([1, -1, 1])


def _three() -> tuple[Tensor, ...]:
    return torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)


def _scored_images() -> tuple[Tensor, ...]:
    return torch.randn(2, 4, 3, 3).log_softmax(1), torch.randint(0, 4, (2, 3, 3))


class _Distance(nn.Module):
    """A distance that can be learned."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """How far two rows are apart."""
        return ((a - b) * self.scale).norm(dim=1)


LOSSES = [
    Case("AdaptiveLogSoftmaxWithLoss", lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6]), _classes),
    Case("BCELoss", nn.BCELoss, _probabilities),
    Case("BCEWithLogitsLoss", lambda: nn.BCEWithLogitsLoss(pos_weight=torch.rand(4)), _probabilities),
    Case("CTCLoss", nn.CTCLoss, _ctc),
    Case("CosineEmbeddingLoss", nn.CosineEmbeddingLoss, _two_and_signs),
    Case("CrossEntropyLoss", lambda: nn.CrossEntropyLoss(torch.rand(4), label_smoothing=0.1), _classes),
    Case(
        "GaussianNLLLoss",
        nn.GaussianNLLLoss,
        lambda: (torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4) + 0.1),
    ),
    Case("HingeEmbeddingLoss", nn.HingeEmbeddingLoss, _signs),
    Case("HuberLoss", nn.HuberLoss, normal_pair(3, 4)),
    Case("KLDivLoss", lambda: nn.KLDivLoss(reduction="batchmean"), _probabilities),
    Case("L1Loss", nn.L1Loss, normal_pair(3, 4)),
    Case("LinearCrossEntropyLoss", lambda: nn.LinearCrossEntropyLoss(4, 5), _classes),
    Case("MSELoss", nn.MSELoss, normal_pair(3, 4)),
    Case(
        "MarginRankingLoss",
        nn.MarginRankingLoss,
        lambda: (torch.randn(3), torch.randn(3), torch.tensor([1, -1, 1])),
    ),
    Case(
        "MultiLabelMarginLoss", nn.MultiLabelMarginLoss, lambda: (torch.randn(1, 4), torch.tensor([[3, 0, -1, 1]]))
    ),
    Case("MultiLabelSoftMarginLoss", lambda: nn.MultiLabelSoftMarginLoss(torch.rand(4)), _probabilities),
    Case("MultiMarginLoss", lambda: nn.MultiMarginLoss(weight=torch.rand(4)), _classes),
    Case("NLLLoss", lambda: nn.NLLLoss(torch.rand(4)), _log_classes),
    Case("NLLLoss2d", nn.NLLLoss2d, _scored_images),
    Case("PoissonNLLLoss", nn.PoissonNLLLoss, normal_pair(3, 4)),
    Case("SmoothL1Loss", nn.SmoothL1Loss, normal_pair(3, 4)),
    Case("SoftMarginLoss", nn.SoftMarginLoss, _signs),
    Case("TripletMarginLoss", nn.TripletMarginLoss, _three),
    Case("TripletMarginWithDistanceLoss", nn.TripletMarginWithDistanceLoss, _three),
    Case(
        "TripletMarginWithDistanceLoss, learned",
        lambda: nn.TripletMarginWithDistanceLoss(distance_function=_Distance(), margin=5.0),
        _three,
    ),
]
