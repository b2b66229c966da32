"""Every module class of `torch.nn`: how to make one, and what to call it with."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to make and call a module.

    Attributes:
        name: as a test's id: the class, and what is special about this one.
        make: builds the module.
        inputs: what to call it with; new tensors each time.
        call: how to call it, where it has no `forward` that returns tensors.
        lazy: whether its first call gives it its parameters.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    call: Callable[..., Any] = lambda module, *inputs: module(*inputs)
    lazy: bool = False

    @property
    def class_name(self) -> str:
        """The class that it stands for."""
        return self.name.split(",")[0]

    def build(self, seed: int = 0) -> nn.Module:
        """The module in training mode, as its constructor leaves it; its values from a fixed seed."""
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lazy modules are new, `Container` is old
            return self.make()

    def run(self, module: nn.Module, seed: int = 0, *, requires_grad: bool = False) -> tuple[Any, list[Tensor]]:
        """The outputs for inputs from a fixed seed, with the same random numbers each time; and the inputs."""
        torch.manual_seed(1000 + seed)
        inputs = self.inputs()
        floating = [x for x in inputs if isinstance(x, Tensor) and x.is_floating_point()]
        for x in floating:
            x.requires_grad_(requires_grad)
        return self.call(module, *inputs), floating


def _of(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    """One tensor of normal random numbers."""
    return lambda: (torch.randn(*shape),)


def _pair(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(*shape), torch.randn(*shape))


def _in_three(build: Callable[[int], list[Case]]) -> list[Case]:
    """The same for one, two and three dimensions."""
    return [case for d in (1, 2, 3) for case in build(d)]


def _class(name: str) -> Any:
    return getattr(nn, name)


# --- layers with parameters ----------------------------------------------------------------------------------

_LENGTH = 6


def _image(channels: int, d: int) -> Callable[[], tuple[Tensor, ...]]:
    return _of(2, channels, *[_LENGTH] * d)


def _convolutions(d: int) -> list[Case]:
    conv, transposed = f"Conv{d}d", f"ConvTranspose{d}d"
    return [
        Case(conv, lambda: _class(conv)(4, 6, 3, groups=2), _image(4, d)),
        Case(
            f"{conv}, circular",
            lambda: _class(conv)(4, 6, 3, padding=1, padding_mode="circular", bias=False),
            _image(4, d),
        ),
        Case(f"{conv}, same", lambda: _class(conv)(4, 2, 3, padding="same", dilation=2), _image(4, d)),
        Case(transposed, lambda: _class(transposed)(4, 6, 3, stride=2, output_padding=1), _image(4, d)),
        Case(f"Lazy{conv}", lambda: _class(f"Lazy{conv}")(6, 3), _image(4, d), lazy=True),
        Case(f"Lazy{transposed}", lambda: _class(f"Lazy{transposed}")(6, 3), _image(4, d), lazy=True),
    ]


def _norms(d: int) -> list[Case]:
    batch, instance = f"BatchNorm{d}d", f"InstanceNorm{d}d"
    return [
        Case(batch, lambda: _class(batch)(4), _image(4, d)),
        Case(f"{batch}, cumulative average", lambda: _class(batch)(4, momentum=None), _image(4, d)),
        Case(
            f"{batch}, without statistics",
            lambda: _class(batch)(4, affine=False, track_running_stats=False),
            _image(4, d),
        ),
        Case(f"{batch}, eval", lambda: _class(batch)(4).eval(), _image(4, d)),
        Case(f"Lazy{batch}", lambda: _class(f"Lazy{batch}")(), _image(4, d), lazy=True),
        Case(instance, lambda: _class(instance)(4), _image(4, d)),
        Case(
            f"{instance}, with all",
            lambda: _class(instance)(4, affine=True, track_running_stats=True),
            _image(4, d),
        ),
        Case(f"Lazy{instance}", lambda: _class(f"Lazy{instance}")(affine=True), _image(4, d), lazy=True),
    ]


_RECURRENT = [
    case
    for name in ("RNN", "LSTM", "GRU")
    for case in (
        Case(name, lambda name=name: _class(name)(4, 5), _of(3, 2, 4)),
        Case(
            f"{name}, two ways",
            lambda name=name: _class(name)(4, 5, 2, bidirectional=True, batch_first=True, dropout=0.5),
            _of(2, 3, 4),
        ),
        Case(f"{name}Cell", lambda name=name: _class(f"{name}Cell")(4, 5), _of(2, 4)),
    )
] + [
    Case("LSTM, projected", lambda: nn.LSTM(4, 5, proj_size=3), _of(3, 2, 4)),
    Case(
        "LSTM, packed",
        lambda: nn.LSTM(4, 5),
        _of(3, 2, 4),
        lambda m, x: m(nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]))),
    ),
    Case(
        "RNNBase",
        lambda: nn.RNNBase("GRU", 4, 5),
        _of(3, 2, 4),
        lambda m, x: torch.gru(x, x.new_zeros(1, 2, 5), m._flat_weights, True, 1, 0.0, True, False, False),
    ),
    Case(
        "RNNCellBase",
        lambda: nn.RNNCellBase(4, 5, bias=True, num_chunks=1),
        _of(2, 4),
        lambda m, x: torch.rnn_tanh_cell(x, x.new_zeros(2, 5), m.weight_ih, m.weight_hh, m.bias_ih, m.bias_hh),
    ),
]

_TRANSFORMERS = [
    Case(
        "MultiheadAttention", lambda: nn.MultiheadAttention(8, 2, dropout=0.5), lambda: (torch.randn(3, 2, 8),) * 3
    ),
    Case(
        "MultiheadAttention, other sizes",
        lambda: nn.MultiheadAttention(8, 2, kdim=4, vdim=6, add_bias_kv=True, add_zero_attn=True),
        lambda: (torch.randn(3, 2, 8), torch.randn(3, 2, 4), torch.randn(3, 2, 6)),
    ),
    Case("TransformerEncoderLayer", lambda: nn.TransformerEncoderLayer(8, 2, 12), _of(3, 2, 8)),
    Case(
        "TransformerEncoderLayer, eval",
        lambda: nn.TransformerEncoderLayer(8, 2, 12, activation="gelu", batch_first=True).eval(),
        _of(3, 2, 8),
    ),
    Case(
        "TransformerEncoder",
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2),
        _of(2, 3, 8),
    ),
    Case("TransformerDecoderLayer", lambda: nn.TransformerDecoderLayer(8, 2, 12), _pair(3, 2, 8)),
    Case(
        "TransformerDecoder",
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12), 2, nn.LayerNorm(8)),
        _pair(3, 2, 8),
    ),
    Case("Transformer", lambda: nn.Transformer(8, 2, 1, 1, 12, batch_first=True), _pair(2, 3, 8)),
]


def _tokens(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randint(0, 10, shape),)


_OTHER_LAYERS = [
    Case("Linear", lambda: nn.Linear(4, 3), _of(2, 4)),
    Case(
        "Linear, float64",
        lambda: nn.Linear(4, 3, bias=False, dtype=torch.float64),
        lambda: (torch.randn(2, 4).double(),),
    ),
    Case("Linear, partly frozen", lambda: _frozen(nn.Linear(4, 3), "weight"), _of(2, 4)),
    Case("LazyLinear", lambda: nn.LazyLinear(3), _of(2, 4), lazy=True),
    Case("Bilinear", lambda: nn.Bilinear(3, 4, 2), lambda: (torch.randn(2, 3), torch.randn(2, 4))),
    Case("Embedding", lambda: nn.Embedding(10, 3, padding_idx=0), _tokens(2, 4)),
    Case("Embedding, sparse", lambda: nn.Embedding(10, 3, max_norm=0.5, sparse=True), _tokens(2, 4)),
    Case("EmbeddingBag", lambda: nn.EmbeddingBag(10, 3), _tokens(2, 4)),
    Case("EmbeddingBag, sparse", lambda: nn.EmbeddingBag(10, 3, mode="sum", sparse=True), _tokens(2, 4)),
    Case("LayerNorm", lambda: nn.LayerNorm([3, 4]), _of(2, 3, 4)),
    Case("RMSNorm", lambda: nn.RMSNorm(4), _of(2, 3, 4)),
    Case("GroupNorm", lambda: nn.GroupNorm(2, 4), _of(2, 4, 3)),
    Case("SyncBatchNorm", lambda: nn.SyncBatchNorm(4), _of(3, 4)),
    Case("PReLU", lambda: nn.PReLU(4), _of(2, 4)),
]


def _frozen(module: nn.Module, name: str) -> nn.Module:
    module.get_parameter(name).requires_grad_(False)
    return module


# --- containers ----------------------------------------------------------------------------------------------


def _bare() -> nn.Module:
    module = nn.Module()
    module.weight = nn.Parameter(torch.randn(4, 4))
    module.tied = module.weight
    module.register_buffer("scale", torch.ones(4), persistent=False)
    module.register_parameter("bias", None)
    return module


def _shared_layer() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


_CONTAINERS = [
    Case("Module", _bare, _of(2, 4), lambda m, x: x @ m.weight @ m.tied * m.scale),
    Case("Container", lambda: nn.Container(a=nn.Linear(4, 4), b=nn.ReLU()), _of(2, 4), lambda m, x: m.b(m.a(x))),
    Case("Sequential", lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(), nn.Linear(3, 2)), _of(2, 4)),
    Case("Sequential, one layer twice", _shared_layer, _of(2, 4)),
    Case(
        "ModuleList",
        lambda: nn.ModuleList([nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4)]),
        _of(2, 4),
        lambda m, x: m[2](m[1](m[0](x))),
    ),
    Case(
        "ModuleDict",
        lambda: nn.ModuleDict({"in": nn.Linear(4, 4), "out": nn.Linear(4, 2)}),
        _of(2, 4),
        lambda m, x: m["out"](m["in"](x)),
    ),
    Case(
        "ParameterList",
        lambda: nn.ParameterList([torch.randn(4, 3), nn.Parameter(torch.randn(3))]),
        _of(2, 4),
        lambda m, x: x @ m[0] + m[1],
    ),
    Case(
        "ParameterDict",
        lambda: nn.ParameterDict({"w": torch.randn(4, 3), "note": "no tensor"}),
        _of(2, 4),
        lambda m, x: x @ m["w"] * len(m["note"]),
    ),
    Case("DataParallel", lambda: nn.DataParallel(nn.Linear(4, 3)), _of(2, 4)),
]

# --- what has no parameters ----------------------------------------------------------------------------------

_ACTIVATIONS = [
    Case(name, lambda name=name: _class(name)(), _of(2, 4))
    for name in (
        *("CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity"),
        *("LeakyReLU", "LogSigmoid", "Mish", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus"),
        *("Softshrink", "Softsign", "Tanh", "Tanhshrink", "Flatten", "AlphaDropout", "Dropout"),
    )
] + [
    Case("LogSoftmax", lambda: nn.LogSoftmax(1), _of(2, 4)),
    Case("Softmax", lambda: nn.Softmax(1), _of(2, 4)),
    Case("Softmin", lambda: nn.Softmin(1), _of(2, 4)),
    Case("Softmax2d", nn.Softmax2d, _of(2, 3, 4, 4)),
    Case("Threshold", lambda: nn.Threshold(0.1, 2.0), _of(2, 4)),
    Case("Unflatten", lambda: nn.Unflatten(1, (2, 2)), _of(3, 4)),
    Case("FeatureAlphaDropout", nn.FeatureAlphaDropout, _of(2, 3, 4, 4, 4)),
]


def _pooling(d: int) -> list[Case]:
    names = ("AvgPool", "MaxPool", "AdaptiveAvgPool", "AdaptiveMaxPool")
    cases = [Case(f"{name}{d}d", lambda name=name: _class(f"{name}{d}d")(2), _image(3, d)) for name in names]
    cases += [
        Case(f"LPPool{d}d", lambda: _class(f"LPPool{d}d")(2, 2), lambda: (torch.rand(2, 3, *[_LENGTH] * d) + 1,)),
        Case(
            f"MaxUnpool{d}d",
            lambda: _class(f"MaxUnpool{d}d")(2),
            lambda: _class(f"MaxPool{d}d")(2, return_indices=True)(torch.randn(2, 3, *[_LENGTH] * d)),
        ),
        Case(f"Dropout{d}d", lambda: _class(f"Dropout{d}d")(), _image(3, d)),
    ]
    if d > 1:
        name = f"FractionalMaxPool{d}d"
        cases.append(Case(name, lambda: _class(name)(2, output_ratio=0.5), _image(3, d)))
    return cases


def _padding(d: int) -> list[Case]:
    names = ("CircularPad", "ReflectionPad", "ReplicationPad", "ZeroPad")
    cases = [Case(f"{name}{d}d", lambda name=name: _class(f"{name}{d}d")(1), _image(3, d)) for name in names]
    return [*cases, Case(f"ConstantPad{d}d", lambda: _class(f"ConstantPad{d}d")(1, 3.5), _image(3, d))]


_SHAPES = [
    Case("ChannelShuffle", lambda: nn.ChannelShuffle(2), _image(4, 2)),
    Case("CosineSimilarity", nn.CosineSimilarity, _pair(2, 4)),
    Case("CrossMapLRN2d", lambda: nn.CrossMapLRN2d(2), _image(4, 2)),
    Case("Fold", lambda: nn.Fold((3, 3), 2), _of(2, 12, 4)),
    Case("LocalResponseNorm", lambda: nn.LocalResponseNorm(2), _image(4, 2)),
    Case("PairwiseDistance", nn.PairwiseDistance, _pair(2, 4)),
    Case("PixelShuffle", lambda: nn.PixelShuffle(2), _image(4, 2)),
    Case("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), _image(4, 2)),
    Case("Unfold", lambda: nn.Unfold(2), _image(3, 2)),
    Case("Upsample", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), _image(3, 2)),
    Case("UpsamplingBilinear2d", lambda: nn.UpsamplingBilinear2d(scale_factor=2), _image(3, 2)),
    Case("UpsamplingNearest2d", lambda: nn.UpsamplingNearest2d(scale_factor=2), _image(3, 2)),
]

# --- losses --------------------------------------------------------------------------------------------------


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


_LOSSES = [
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
    Case("HuberLoss", nn.HuberLoss, _pair(3, 4)),
    Case("KLDivLoss", lambda: nn.KLDivLoss(reduction="batchmean"), _probabilities),
    Case("L1Loss", nn.L1Loss, _pair(3, 4)),
    Case("LinearCrossEntropyLoss", lambda: nn.LinearCrossEntropyLoss(4, 5), _classes),
    Case("MSELoss", nn.MSELoss, _pair(3, 4)),
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
    Case("PoissonNLLLoss", nn.PoissonNLLLoss, _pair(3, 4)),
    Case("SmoothL1Loss", nn.SmoothL1Loss, _pair(3, 4)),
    Case("SoftMarginLoss", nn.SoftMarginLoss, _signs),
    Case("TripletMarginLoss", nn.TripletMarginLoss, _three),
    Case("TripletMarginWithDistanceLoss", nn.TripletMarginWithDistanceLoss, _three),
    Case(
        "TripletMarginWithDistanceLoss, learned",
        lambda: nn.TripletMarginWithDistanceLoss(distance_function=_Distance(), margin=5.0),
        _three,
    ),
]

CASES: tuple[Case, ...] = (
    *_OTHER_LAYERS,
    *_in_three(_convolutions),
    *_in_three(_norms),
    *_RECURRENT,
    *_TRANSFORMERS,
    *_CONTAINERS,
    *_ACTIVATIONS,
    *_in_three(_pooling),
    *_in_three(_padding),
    *_SHAPES,
    *_LOSSES,
)

LEFT_OUT: dict[str, str] = {}
"""Module classes of `torch.nn` that stand in no case, each with the reason."""
