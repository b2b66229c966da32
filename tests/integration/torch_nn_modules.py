"""Every module class of `torch.nn`: how to make one, and what to call it with."""

from collections.abc import Callable

import torch
from module_cases import Case, normal, normal_pair
from torch import Tensor, nn
from torch_nn_losses import LOSSES


def _in_three(build: Callable[[int], list[Case]]) -> list[Case]:
    """The same for one, two and three dimensions."""
    return [case for d in (1, 2, 3) for case in build(d)]


# --- layers with parameters ----------------------------------------------------------------------------------

_LENGTH = 6


def _image(channels: int, d: int) -> Callable[[], tuple[Tensor, ...]]:
    return normal(2, channels, *[_LENGTH] * d)


def _convolutions(d: int) -> list[Case]:
    conv, transposed = f"Conv{d}d", f"ConvTranspose{d}d"
    return [
        Case(conv, lambda: getattr(nn, conv)(4, 6, 3, groups=2), _image(4, d)),
        Case(
            f"{conv}, circular",
            lambda: getattr(nn, conv)(4, 6, 3, padding=1, padding_mode="circular", bias=False),
            _image(4, d),
        ),
        Case(f"{conv}, same", lambda: getattr(nn, conv)(4, 2, 3, padding="same", dilation=2), _image(4, d)),
        Case(transposed, lambda: getattr(nn, transposed)(4, 6, 3, stride=2, output_padding=1), _image(4, d)),
        Case(f"Lazy{conv}", lambda: getattr(nn, f"Lazy{conv}")(6, 3), _image(4, d), lazy=True),
        Case(f"Lazy{transposed}", lambda: getattr(nn, f"Lazy{transposed}")(6, 3), _image(4, d), lazy=True),
    ]


def _norms(d: int) -> list[Case]:
    batch, instance = f"BatchNorm{d}d", f"InstanceNorm{d}d"
    return [
        Case(batch, lambda: getattr(nn, batch)(4), _image(4, d)),
        Case(f"{batch}, cumulative average", lambda: getattr(nn, batch)(4, momentum=None), _image(4, d)),
        Case(
            f"{batch}, without statistics",
            lambda: getattr(nn, batch)(4, affine=False, track_running_stats=False),
            _image(4, d),
        ),
        Case(f"{batch}, eval", lambda: getattr(nn, batch)(4).eval(), _image(4, d)),
        Case(f"Lazy{batch}", lambda: getattr(nn, f"Lazy{batch}")(), _image(4, d), lazy=True),
        Case(instance, lambda: getattr(nn, instance)(4), _image(4, d)),
        Case(
            f"{instance}, with all",
            lambda: getattr(nn, instance)(4, affine=True, track_running_stats=True),
            _image(4, d),
        ),
        Case(f"Lazy{instance}", lambda: getattr(nn, f"Lazy{instance}")(affine=True), _image(4, d), lazy=True),
    ]


_RECURRENT = [
    case
    for name in ("RNN", "LSTM", "GRU")
    for case in (
        Case(name, lambda name=name: getattr(nn, name)(4, 5), normal(3, 2, 4)),
        Case(
            f"{name}, two ways",
            lambda name=name: getattr(nn, name)(4, 5, 2, bidirectional=True, batch_first=True, dropout=0.5),
            normal(2, 3, 4),
        ),
        Case(f"{name}Cell", lambda name=name: getattr(nn, f"{name}Cell")(4, 5), normal(2, 4)),
    )
] + [
    Case("LSTM, projected", lambda: nn.LSTM(4, 5, proj_size=3), normal(3, 2, 4)),
    Case(
        "LSTM, packed",
        lambda: nn.LSTM(4, 5),
        normal(3, 2, 4),
        lambda m, x: m(nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]))),
    ),
    Case(
        "RNNBase",
        lambda: nn.RNNBase("GRU", 4, 5),
        normal(3, 2, 4),
        lambda m, x: torch.gru(x, x.new_zeros(1, 2, 5), m._flat_weights, True, 1, 0.0, True, False, False),
    ),
    Case(
        "RNNCellBase",
        lambda: nn.RNNCellBase(4, 5, bias=True, num_chunks=1),
        normal(2, 4),
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
    Case("TransformerEncoderLayer", lambda: nn.TransformerEncoderLayer(8, 2, 12), normal(3, 2, 8)),
    Case(
        "TransformerEncoderLayer, eval",
        lambda: nn.TransformerEncoderLayer(8, 2, 12, activation="gelu", batch_first=True).eval(),
        normal(3, 2, 8),
    ),
    Case(
        "TransformerEncoder",
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2),
        normal(2, 3, 8),
    ),
    Case("TransformerDecoderLayer", lambda: nn.TransformerDecoderLayer(8, 2, 12), normal_pair(3, 2, 8)),
    Case(
        "TransformerDecoder",
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12), 2, nn.LayerNorm(8)),
        normal_pair(3, 2, 8),
    ),
    Case("Transformer", lambda: nn.Transformer(8, 2, 1, 1, 12, batch_first=True), normal_pair(2, 3, 8)),
]


def _tokens(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randint(0, 10, shape),)


_OTHER_LAYERS = [
    Case("Linear", lambda: nn.Linear(4, 3), normal(2, 4)),
    Case(
        "Linear, float64",
        lambda: nn.Linear(4, 3, bias=False, dtype=torch.float64),
        lambda: (torch.randn(2, 4).double(),),
    ),
    Case("Linear, partly frozen", lambda: _frozen(nn.Linear(4, 3), "weight"), normal(2, 4)),
    Case("LazyLinear", lambda: nn.LazyLinear(3), normal(2, 4), lazy=True),
    Case("Bilinear", lambda: nn.Bilinear(3, 4, 2), lambda: (torch.randn(2, 3), torch.randn(2, 4))),
    Case("Embedding", lambda: nn.Embedding(10, 3, padding_idx=0), _tokens(2, 4)),
    Case("Embedding, sparse", lambda: nn.Embedding(10, 3, max_norm=0.5, sparse=True), _tokens(2, 4)),
    Case("EmbeddingBag", lambda: nn.EmbeddingBag(10, 3), _tokens(2, 4)),
    Case("EmbeddingBag, sparse", lambda: nn.EmbeddingBag(10, 3, mode="sum", sparse=True), _tokens(2, 4)),
    Case("LayerNorm", lambda: nn.LayerNorm([3, 4]), normal(2, 3, 4)),
    Case("RMSNorm", lambda: nn.RMSNorm(4), normal(2, 3, 4)),
    Case("GroupNorm", lambda: nn.GroupNorm(2, 4), normal(2, 4, 3)),
    Case("SyncBatchNorm", lambda: nn.SyncBatchNorm(4), normal(3, 4)),
    Case("PReLU", lambda: nn.PReLU(4), normal(2, 4)),
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
    Case("Module", _bare, normal(2, 4), lambda m, x: x @ m.weight @ m.tied * m.scale),
    Case("Container", lambda: nn.Container(a=nn.Linear(4, 4), b=nn.ReLU()), normal(2, 4), lambda m, x: m.b(m.a(x))),
    Case("Sequential", lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(), nn.Linear(3, 2)), normal(2, 4)),
    Case("Sequential, one layer twice", _shared_layer, normal(2, 4)),
    Case(
        "ModuleList",
        lambda: nn.ModuleList([nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4)]),
        normal(2, 4),
        lambda m, x: m[2](m[1](m[0](x))),
    ),
    Case(
        "ModuleDict",
        lambda: nn.ModuleDict({"in": nn.Linear(4, 4), "out": nn.Linear(4, 2)}),
        normal(2, 4),
        lambda m, x: m["out"](m["in"](x)),
    ),
    Case(
        "ParameterList",
        lambda: nn.ParameterList([torch.randn(4, 3), nn.Parameter(torch.randn(3))]),
        normal(2, 4),
        lambda m, x: x @ m[0] + m[1],
    ),
    Case(
        "ParameterDict",
        lambda: nn.ParameterDict({"w": torch.randn(4, 3), "note": "no tensor"}),
        normal(2, 4),
        lambda m, x: x @ m["w"] * len(m["note"]),
    ),
    Case("DataParallel", lambda: nn.DataParallel(nn.Linear(4, 3)), normal(2, 4)),
]

# --- what has no parameters ----------------------------------------------------------------------------------

_ACTIVATIONS = [
    Case(name, lambda name=name: getattr(nn, name)(), normal(2, 4))
    for name in (
        *("CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity"),
        *("LeakyReLU", "LogSigmoid", "Mish", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus"),
        *("Softshrink", "Softsign", "Tanh", "Tanhshrink", "Flatten", "AlphaDropout", "Dropout"),
    )
] + [
    Case("LogSoftmax", lambda: nn.LogSoftmax(1), normal(2, 4)),
    Case("Softmax", lambda: nn.Softmax(1), normal(2, 4)),
    Case("Softmin", lambda: nn.Softmin(1), normal(2, 4)),
    Case("Softmax2d", nn.Softmax2d, normal(2, 3, 4, 4)),
    Case("Threshold", lambda: nn.Threshold(0.1, 2.0), normal(2, 4)),
    Case("Unflatten", lambda: nn.Unflatten(1, (2, 2)), normal(3, 4)),
    Case("FeatureAlphaDropout", nn.FeatureAlphaDropout, normal(2, 3, 4, 4, 4)),
]


def _pooling(d: int) -> list[Case]:
    names = ("AvgPool", "MaxPool", "AdaptiveAvgPool", "AdaptiveMaxPool")
    cases = [Case(f"{name}{d}d", lambda name=name: getattr(nn, f"{name}{d}d")(2), _image(3, d)) for name in names]
    cases += [
        Case(
            f"LPPool{d}d", lambda: getattr(nn, f"LPPool{d}d")(2, 2), lambda: (torch.rand(2, 3, *[_LENGTH] * d) + 1,)
        ),
        Case(
            f"MaxUnpool{d}d",
            lambda: getattr(nn, f"MaxUnpool{d}d")(2),
            lambda: getattr(nn, f"MaxPool{d}d")(2, return_indices=True)(torch.randn(2, 3, *[_LENGTH] * d)),
        ),
        Case(f"Dropout{d}d", lambda: getattr(nn, f"Dropout{d}d")(), _image(3, d)),
    ]
    if d > 1:
        name = f"FractionalMaxPool{d}d"
        cases.append(Case(name, lambda: getattr(nn, name)(2, output_ratio=0.5), _image(3, d)))
    return cases


def _padding(d: int) -> list[Case]:
    names = ("CircularPad", "ReflectionPad", "ReplicationPad", "ZeroPad")
    cases = [Case(f"{name}{d}d", lambda name=name: getattr(nn, f"{name}{d}d")(1), _image(3, d)) for name in names]
    return [*cases, Case(f"ConstantPad{d}d", lambda: getattr(nn, f"ConstantPad{d}d")(1, 3.5), _image(3, d))]


_SHAPES = [
    Case("ChannelShuffle", lambda: nn.ChannelShuffle(2), _image(4, 2)),
    Case("CosineSimilarity", nn.CosineSimilarity, normal_pair(2, 4)),
    Case("CrossMapLRN2d", lambda: nn.CrossMapLRN2d(2), _image(4, 2)),
    Case("Fold", lambda: nn.Fold((3, 3), 2), normal(2, 12, 4)),
    Case("LocalResponseNorm", lambda: nn.LocalResponseNorm(2), _image(4, 2)),
    Case("PairwiseDistance", nn.PairwiseDistance, normal_pair(2, 4)),
    Case("PixelShuffle", lambda: nn.PixelShuffle(2), _image(4, 2)),
    Case("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), _image(4, 2)),
    Case("Unfold", lambda: nn.Unfold(2), _image(3, 2)),
    Case("Upsample", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), _image(3, 2)),
    Case("UpsamplingBilinear2d", lambda: nn.UpsamplingBilinear2d(scale_factor=2), _image(3, 2)),
    Case("UpsamplingNearest2d", lambda: nn.UpsamplingNearest2d(scale_factor=2), _image(3, 2)),
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
    *LOSSES,
)

LEFT_OUT: dict[str, str] = {}
"""Module classes of `torch.nn` that stand in no case, each with the reason."""
