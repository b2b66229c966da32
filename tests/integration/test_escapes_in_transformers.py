"""Models of transformers: full of shared functions and classes, and none of them leads back to the source."""

import functools
import warnings

import pytest
import transformers

import torchcopy as tc

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 60,
}
IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MODELS = {
    "BERT": lambda: transformers.BertModel(transformers.BertConfig(**SMALL)),
    "GPT-2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=60, **IDS)
    ),
    "Llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, **IDS)),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_false_alarm(name):
    model = MODELS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error", tc.EscapeWarning)
        tc.copy(model)
        tc.copy({"model": model, "config": model.config, "kinds": [type(model)]})


@pytest.mark.parametrize("name", MODELS)
def test_a_forward_that_is_wrapped_around_the_source(name):
    model = MODELS[name]()
    inner = model.get_input_embeddings()
    wrapped = inner.forward
    inner.forward = functools.wraps(wrapped)(lambda *args: wrapped(*args))
    with pytest.warns(tc.EscapeWarning, match=r"forward\.__closure__\['wrapped'\]\.__self__\.weight is source\."):
        tc.copy(model)
