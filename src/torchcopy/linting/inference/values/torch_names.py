"""What PyTorch's and NumPy's functions and methods return, as tables."""

from __future__ import annotations

FROM_NOTHING = frozenset(
    "torch." + name
    for name in """
    arange as_tensor bartlett_window blackman_window empty empty_like empty_strided eye from_file from_numpy
    frombuffer full full_like hann_window hamming_window linspace logspace normal ones ones_like rand rand_like
    randint randint_like randn randn_like randperm range tensor tril_indices triu_indices zeros zeros_like
    Tensor FloatTensor DoubleTensor HalfTensor LongTensor IntTensor ByteTensor BoolTensor
    bernoulli multinomial argmax argmin argsort bucketize searchsorted nonzero
    """.split()
)
"""Functions whose result hangs on no graph, unless `requires_grad=True` is given."""

OF_TENSORS = frozenset(
    "torch." + name
    for name in """
    abs acos add addmm asin atan atan2 baddbmm bmm cat ceil cdist clamp clip clone concat concatenate cos cosh
    cross cummax cumprod cumsum diag diagonal div dot einsum erf exp expm1 flatten flip floor fmod gather hstack
    vstack dstack index_select inverse isnan isinf kron lerp log log10 log1p log2 logsumexp logaddexp
    masked_fill masked_select matmul maximum mean minimum mm movedim mul multiply mv neg norm outer permute pow
    prod reciprocal relu repeat_interleave reshape roll round rsqrt scatter sigmoid sign sin sinh softmax
    log_softmax sqrt square squeeze stack std sub sum tan tanh tensordot tile trace transpose tril triu
    unsqueeze var where dist addcmul addcdiv conj real imag view_as_real view_as_complex polar nan_to_num eq ne
    lt le gt ge logical_and logical_or logical_not all any
    """.split()
)
"""Functions that return one tensor, which hangs on the graph of what they are given."""

LOSS_FUNCTIONS = frozenset(
    "torch.nn.functional." + name
    for name in """
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss
    gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss
    multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss
    smooth_l1_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss
    """.split()
)
"""Losses: they hang on the graph of the prediction."""

SAME_GRAPH_METHODS = frozenset(
    """
    abs abs_ acos add add_ addbmm addcdiv addcdiv_ addcmul addcmul_ addmm addmm_ amax amin asin atan atan2
    baddbmm bfloat16 bmm ceil chalf clamp clamp_ clamp_max clamp_min clip clone conj contiguous copy_ cos cosh
    cpu cross cuda cumprod cumsum diag diag_embed diagonal div div_ dot double erf exp exp_ expand expand_as
    expm1 fill_ flatten flip float floor fmod gather half index_add index_add_ index_copy index_copy_ index_fill
    index_select inverse kron lerp lerp_ log log10 log1p log2 log_softmax logsumexp masked_fill masked_fill_
    masked_scatter masked_select matmul mean median mm movedim mul mul_ multiply mv nan_to_num narrow neg neg_
    norm nanmean outer permute pow pow_ prod reciprocal relu relu_ repeat repeat_interleave reshape reshape_as
    roll round round_ rsqrt scatter scatter_ scatter_add scatter_add_ select sigmoid sigmoid_ sign sin sinh
    softmax sqrt sqrt_ square squeeze squeeze_ std sub sub_ sum swapaxes swapdims t t_ take tan tanh tanh_ tile
    to trace transpose transpose_ tril triu type type_as unflatten unfold unsqueeze unsqueeze_ var view view_as
    where zero_ requires_grad_ xpu npu pin_memory to_sparse to_dense coalesce renorm_ uniform_ normal_ random_
    bernoulli_ T mT H mH real imag
    """.split()
)
"""Methods and attributes of a tensor that give one tensor on the same graph."""

DETACHED_METHODS = frozenset(
    """
    detach detach_ data grad argmax argmin argsort eq ne lt le gt ge logical_and logical_or logical_not isnan
    isinf isfinite long int bool byte short char bernoulli multinomial nonzero new_zeros new_ones new_empty
    new_full new_tensor all any bincount histc
    """.split()
)
"""Methods and attributes of a tensor that give a tensor on no graph."""

NUMBER_METHODS = frozenset(
    "item numel dim size element_size data_ptr nelement ndimension stride storage_offset get_device".split()
)
"""Methods of a tensor that give a Python number, or several."""

OPTIMIZERS = frozenset(
    """
    SGD Adam AdamW Adamax NAdam RAdam Adagrad Adadelta RMSprop Rprop LBFGS ASGD SparseAdam Adafactor LAMB Lamb
    Lars LARS Ranger RangerLars FusedAdam FusedLAMB FusedSGD AdaBelief AdaBound Lion MADGRAD DiffGrad Lookahead
    AdamW8bit Adam8bit PagedAdamW8bit Prodigy NovoGrad QHAdam SAM AdamP SGDP Yogi DeepSpeedCPUAdam BertAdam
    OpenAIAdam Adan Muon
    """.split()
)
"""Classes of optimizers, by their last name."""

WRAPPERS = frozenset(
    "DataParallel DistributedDataParallel DDP FullyShardedDataParallel FSDP compile script prepare".split()
)
"""What returns a model around the same parameters."""

NUMPY_ARRAYS = frozenset(
    "numpy." + name
    for name in """
    array asarray ascontiguousarray zeros ones empty full arange linspace zeros_like ones_like empty_like
    full_like concatenate stack vstack hstack load loadtxt genfromtxt eye identity tile repeat copy where
    expand_dims random.rand random.randn random.randint random.normal random.uniform random.random frombuffer
    fromfile squeeze transpose reshape ravel meshgrid pad clip abs sqrt exp log
    """.split()
)
"""Functions of NumPy that return an array."""

GIVES_A_NEW_ONE = frozenset(
    """
    add sub mul div pow matmul mm bmm sum mean max min std var norm abs exp log sqrt sign item tolist clone argmax
    argmin sort topk cos sin eq ne lt le gt ge any all numel dim size long int bool
    """.split()
)
"""Methods that give a new tensor or number: nobody writes through what they were called on."""
