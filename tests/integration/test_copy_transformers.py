"""Models of `transformers`, of every family: copied and forked, trained on both sides, and compared bit by bit."""

import numpy as np
import pytest
import torch
import transformers
from copy_structure import (
    Structure,
    assert_nothing_shared,
    assert_same_structure,
    assert_same_values,
    assert_writes_stay_apart,
)
from tiny_transformers import ARCHITECTURES, loss_of

import torchcopy as tc

pytestmark = pytest.mark.usefixtures("one_thread")
BY_NAME = {architecture.name: architecture for architecture in ARCHITECTURES}


@pytest.fixture(params=ARCHITECTURES, ids=lambda architecture: architecture.name)
def architecture(request):
    return request.param


@pytest.fixture(autouse=True, scope="module")
def _quiet():
    """No advice on kernels that could be installed."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(before)


def _run(model, batch):
    with torch.no_grad():
        return model(**batch)


def _train_one_step(model, optimizer, batch, seed=3):
    """One step, dropout and all, from the same random numbers each time."""
    model.train()
    torch.manual_seed(seed)
    np.random.seed(seed)  # the masks of audio models are drawn from it
    optimizer.zero_grad()
    loss = loss_of(model(**batch))
    loss.backward()
    optimizer.step()
    model.eval()
    return loss.detach()


def _optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=0.05)


def _parameters(model):
    return [p.detach().clone() for p in model.parameters()]


def _all_equal(ours, theirs):
    return len(ours) == len(theirs) > 0 and all(map(torch.equal, ours, theirs))


def test_a_copy_computes_the_same(architecture):
    model, batch = architecture.build(), architecture.example()
    copied = tc.copy(model)
    assert_same_values(_run(model, batch), _run(copied, batch))
    assert_same_values(tc.copy(_run(model, batch)), _run(copied, batch))


def test_a_copy_has_every_object_of_the_source_once(architecture):
    model = architecture.build()
    copied = tc.copy(model)
    assert_same_structure(model, copied)
    for ours, theirs in architecture.ties:
        assert model.get_parameter(ours) is model.get_parameter(theirs)
        assert copied.get_parameter(ours) is copied.get_parameter(theirs)
    assert type(copied.config) is type(model.config)
    assert copied.config is not model.config
    assert copied.config.to_dict() == model.config.to_dict()
    assert_same_structure(model, copied)  # also after `to_dict`


def test_a_copy_is_independent(architecture):
    model, batch = architecture.build(), architecture.example()
    _run(model, batch)  # some keep what they have computed
    copied = tc.copy(model)
    assert_nothing_shared(model, copied)
    assert_writes_stay_apart(model, copied)
    copied.config.hidden_dropout_prob = 0.75
    copied.config.architectures = ["Another"]
    assert getattr(model.config, "hidden_dropout_prob", None) != 0.75
    assert model.config.architectures != ["Another"]


def test_training_goes_on_the_same_on_both_sides(architecture):
    model, batch = architecture.build(), architecture.example()
    optimizer = _optimizer(model)
    _train_one_step(model, optimizer, batch)
    copied, its_optimizer = tc.copy((model, optimizer))
    assert_nothing_shared((model, optimizer), (copied, its_optimizer))
    at_copy = _parameters(copied)

    loss = _train_one_step(model, optimizer, architecture.example(1))
    assert _all_equal(_parameters(copied), at_copy)
    assert not _all_equal(_parameters(model), at_copy)
    after_step = _parameters(model)

    its_loss = _train_one_step(copied, its_optimizer, architecture.example(1))
    assert torch.equal(loss, its_loss)
    assert _all_equal(_parameters(model), after_step)
    assert _all_equal(_parameters(copied), after_step)
    assert_same_structure(optimizer.state_dict(), its_optimizer.state_dict())
    assert_same_values(_run(model, batch), _run(copied, batch))


@pytest.mark.parametrize("trained", ["fork", "source"])
def test_what_is_trained_leaves_the_other_side_of_a_fork_alone(architecture, trained):
    model, batch = architecture.build(), architecture.example()
    _run(model, batch)
    forked = tc.fork(model)
    assert_same_structure(model, forked)
    expected = tc.copy(_run(model, batch))
    assert_same_values(_run(forked, batch), expected)

    one, other = (forked, model) if trained == "fork" else (model, forked)
    at_fork = _parameters(model)
    _train_one_step(one, _optimizer(one), batch)
    assert not _all_equal(_parameters(one), at_fork)
    assert _all_equal(_parameters(other), at_fork)
    assert_same_values(_run(other, batch), expected)


def test_a_fork_is_independent(architecture):
    model = architecture.build()
    forked = tc.fork(model)
    assert_writes_stay_apart(model, forked)
    assert_nothing_shared(model, forked)


def test_a_state_dict(architecture, make):
    model, batch = architecture.build(), architecture.example()
    state = model.state_dict()
    copied = make(state)
    assert_same_structure(state, copied)
    assert copied._metadata == state._metadata
    assert copied._metadata is not state._metadata
    assert_writes_stay_apart(state, copied)

    expected = tc.copy(_run(model, batch))
    other = architecture.build(seed=1)
    other.load_state_dict(copied)
    assert_same_values(_run(other, batch), expected)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3", "mamba", "bart", "t5", "whisper"])
def test_a_cache_is_copied_whole_and_apart(name, make):
    architecture = BY_NAME[name]
    model, batch = architecture.build(), architecture.example()
    tokens = batch.pop("labels")
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = tokens
    outputs = _run(model, batch | {"use_cache": True})
    key = "cache_params" if name == "mamba" else "past_key_values"
    cache = outputs[key]
    copied = make(cache)
    assert_same_structure(cache, copied)
    assert_nothing_shared(cache, copied)
    assert_writes_stay_apart(cache, copied)


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3-moe"])
def test_the_next_token_from_a_copied_cache(name, make):
    architecture = BY_NAME[name]
    model, tokens = architecture.build(), architecture.example()["input_ids"]
    first = _run(model, {"input_ids": tokens[:, :-1], "use_cache": True})
    cache = first.past_key_values
    copied = make(cache)
    ours = _run(model, {"input_ids": tokens[:, -1:], "past_key_values": cache, "use_cache": True})
    assert (cache.get_seq_length(), copied.get_seq_length()) == (tokens.shape[1], tokens.shape[1] - 1)
    theirs = _run(model, {"input_ids": tokens[:, -1:], "past_key_values": copied, "use_cache": True})
    assert_same_values(ours.logits, theirs.logits)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mamba"])
def test_generated_text_is_the_same(name):
    architecture = BY_NAME[name]
    model, tokens = architecture.build(), architecture.example()["input_ids"]
    copied = tc.copy(model)
    assert copied.generation_config is not model.generation_config
    ours = model.generate(tokens, max_new_tokens=4, do_sample=False, pad_token_id=0)
    theirs = copied.generate(tokens, max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert_same_values(ours, theirs)


def test_the_positional_convolution_of_wav2vec2_stays_weight_normed():
    model = BY_NAME["wav2vec2"].build()
    copied = tc.copy(model)
    convolution = copied.wav2vec2.encoder.pos_conv_embed.conv
    source = model.wav2vec2.encoder.pos_conv_embed.conv
    before = source.weight.detach().clone()
    with torch.no_grad():
        convolution.parametrizations.weight.original0.mul_(2.0)
    assert torch.equal(source.weight, before)
    assert torch.allclose(convolution.weight, 2.0 * before)


def test_albert_shares_its_layers_still():
    model = BY_NAME["albert"].build()
    copied = tc.copy(model)
    assert len(Structure(copied).tensors) == len(Structure(model).tensors)
    assert len(list(copied.albert.encoder.albert_layer_groups)) == 1


def test_hooks_on_a_copied_model_see_the_copy():
    architecture = BY_NAME["bert"]
    model, batch = architecture.build(), architecture.example()
    copied = tc.copy(model)
    seen = []
    copied.bert.encoder.layer[0].register_forward_hook(lambda module, args, output: seen.append(module))
    _run(model, batch)
    assert seen == []
    _run(copied, batch)
    assert seen == [copied.bert.encoder.layer[0]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["llama", "t5", "mixtral", "clip"])
def test_another_dtype_keeps_the_ties(name, dtype):
    architecture = BY_NAME[name]
    model = architecture.build()
    copied = tc.copy(model, dtype=dtype)
    assert {p.dtype for p in copied.parameters()} == {dtype}
    for ours, theirs in architecture.ties:
        assert copied.get_parameter(ours) is copied.get_parameter(theirs)
    for ours, theirs in zip(model.parameters(), copied.parameters(), strict=True):
        assert torch.equal(ours.to(dtype), theirs)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("name", ["bert", "gpt2", "wav2vec2"])
def test_a_model_on_no_device(name):
    with torch.device("meta"):
        model = BY_NAME[name].model()
    copied = tc.copy(model)
    assert {p.device.type for p in copied.parameters()} == {"meta"}
    assert {n: p.shape for n, p in copied.named_parameters()} == {n: p.shape for n, p in model.named_parameters()}
    for ours, theirs in BY_NAME[name].ties:
        assert (model.get_parameter(ours) is model.get_parameter(theirs)) == (
            copied.get_parameter(ours) is copied.get_parameter(theirs)
        )
