"""Architectures of `transformers`, each as small as its config allows, with one batch that it can be trained on."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

VOCABULARY, LENGTH, BATCH = 48, 7, 2


@dataclasses.dataclass(frozen=True)
class Architecture:
    """How to make a tiny model and a batch for it.

    Attributes:
        name: as a test's id.
        model: builds the model.
        batch: keyword arguments of its forward, with labels where its loss needs them.
        ties: parameters that are one tensor, by their names in the model.
    """

    name: str
    model: Callable[[], nn.Module]
    batch: Callable[[], dict[str, Tensor]]
    ties: tuple[tuple[str, str], ...] = ()

    def build(self, seed: int = 0) -> nn.Module:
        """The model in eval mode, its weights from a fixed seed."""
        torch.manual_seed(seed)
        return self.model().eval()

    def example(self, seed: int = 0) -> dict[str, Tensor]:
        """A batch from a fixed seed."""
        torch.manual_seed(1000 + seed)
        return self.batch()


def loss_of(outputs: Any) -> Tensor:
    """The model's own loss, or for a model without a head something that depends on every hidden state."""
    loss = getattr(outputs, "loss", None)
    return outputs.last_hidden_state.square().mean() if loss is None else loss


def _tokens() -> Tensor:
    return torch.randint(5, VOCABULARY, (BATCH, LENGTH))


def _labelled_tokens() -> dict[str, Tensor]:
    tokens = _tokens()
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.clone()}


def _tokens_without_mask() -> dict[str, Tensor]:
    tokens = _tokens()
    return {"input_ids": tokens, "labels": tokens.clone()}


def _image(size: int = 16) -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(BATCH, 3, size, size), "labels": torch.tensor([0, 1])}


def _image_32() -> dict[str, Tensor]:
    return _image(32)


def _image_and_text() -> dict[str, Tensor]:
    return {"input_ids": _tokens(), "pixel_values": torch.randn(BATCH, 3, 16, 16)}


def _speech() -> dict[str, Tensor]:
    return {"input_values": torch.randn(BATCH, 400), "labels": torch.randint(1, VOCABULARY, (BATCH, 3))}


def _spectrogram() -> dict[str, Tensor]:
    return {"input_features": torch.randn(BATCH, 8, 32), "labels": _tokens()}


def _noisy_spectrum() -> dict[str, Tensor]:
    return {"input_values": torch.randn(BATCH, 16, 8), "labels": torch.tensor([0, 1])}


_ENCODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}
_DECODER = _ENCODER | {
    "num_key_value_heads": 1,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_EXPERTS = _DECODER | {"moe_intermediate_size": 8, "num_experts_per_tok": 2}
_PAIR = {
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
}
_VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 16,
    "patch_size": 8,
}
_SPEECH = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "conv_dim": (8, 8),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
    "pad_token_id": 0,
}


def _clip() -> nn.Module:
    text = hf.CLIPTextConfig(**_ENCODER, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    config = hf.CLIPConfig(text_config=text, vision_config=hf.CLIPVisionConfig(**_VISION), projection_dim=8)
    return hf.CLIPModel(config)


def _llava() -> nn.Module:
    text = hf.LlamaConfig(**_DECODER)
    vision = hf.CLIPVisionConfig(**_VISION)
    config = hf.LlavaConfig(text_config=text, vision_config=vision, image_token_id=4, vision_feature_layer=-1)
    return hf.LlavaForConditionalGeneration(config)


def _image_in_text() -> dict[str, Tensor]:
    tokens = _tokens()
    tokens[:, :4] = 4  # one for each of the four patches
    return {"input_ids": tokens, "pixel_values": torch.randn(BATCH, 3, 16, 16), "labels": tokens.clone()}


def _clip_batch() -> dict[str, Any]:
    return _image_and_text() | {"return_loss": True}


TIED = (("lm_head.weight", "model.embed_tokens.weight"),)

ARCHITECTURES: tuple[Architecture, ...] = (
    # Encoders
    Architecture(
        "bert",
        lambda: hf.BertForMaskedLM(hf.BertConfig(**_ENCODER)),
        _labelled_tokens,
        (
            ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
            ("cls.predictions.decoder.bias", "cls.predictions.bias"),
        ),
    ),
    Architecture(
        "roberta",
        lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**_ENCODER)),
        _labelled_tokens,
        (("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),),
    ),
    Architecture(
        "deberta-v2",
        lambda: hf.DebertaV2ForMaskedLM(
            hf.DebertaV2Config(**_ENCODER, relative_attention=True, pos_att_type=["p2c", "c2p"])
        ),
        _labelled_tokens,
    ),
    Architecture(  # all its layers are one
        "albert",
        lambda: hf.AlbertForMaskedLM(hf.AlbertConfig(**_ENCODER, embedding_size=8)),
        _labelled_tokens,
        (("predictions.decoder.weight", "albert.embeddings.word_embeddings.weight"),),
    ),
    Architecture(
        "modernbert",
        lambda: hf.ModernBertForMaskedLM(
            hf.ModernBertConfig(
                **_ENCODER, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2
            )
        ),
        _labelled_tokens,
    ),
    # Decoders
    Architecture(
        "gpt2",
        lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=VOCABULARY,
                n_embd=16,
                n_layer=2,
                n_head=2,
                n_positions=32,
                bos_token_id=1,
                eos_token_id=2,
            )
        ),
        _labelled_tokens,
        (("lm_head.weight", "transformer.wte.weight"),),
    ),
    Architecture(
        "llama",
        lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_DECODER, tie_word_embeddings=True)),
        _labelled_tokens,
        TIED,
    ),
    Architecture("mistral", lambda: hf.MistralForCausalLM(hf.MistralConfig(**_DECODER)), _labelled_tokens),
    Architecture("gemma2", lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**_DECODER)), _labelled_tokens, TIED),
    Architecture("gemma3", lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**_DECODER)), _labelled_tokens, TIED),
    Architecture(
        "qwen3",
        lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**_DECODER, tie_word_embeddings=True)),
        _labelled_tokens,
        TIED,
    ),
    Architecture(
        "opt",
        lambda: hf.OPTForCausalLM(hf.OPTConfig(**_ENCODER | {"ffn_dim": 24, "word_embed_proj_dim": 16})),
        _labelled_tokens,
        (("lm_head.weight", "model.decoder.embed_tokens.weight"),),
    ),
    Architecture(
        "bloom",
        lambda: hf.BloomForCausalLM(hf.BloomConfig(vocab_size=VOCABULARY, hidden_size=16, n_layer=2, n_head=2)),
        _labelled_tokens,
        (("lm_head.weight", "transformer.word_embeddings.weight"),),
    ),
    # Encoders with decoders
    Architecture(
        "t5",
        lambda: hf.T5ForConditionalGeneration(
            hf.T5Config(
                vocab_size=VOCABULARY,
                d_model=16,
                d_kv=8,
                d_ff=24,
                num_layers=2,
                num_heads=2,
                decoder_start_token_id=0,
            )
        ),
        _labelled_tokens,
        (
            ("lm_head.weight", "shared.weight"),
            ("encoder.embed_tokens.weight", "shared.weight"),
            ("decoder.embed_tokens.weight", "shared.weight"),
        ),
    ),
    Architecture(
        "bart",
        lambda: hf.BartForConditionalGeneration(hf.BartConfig(**_PAIR)),
        _labelled_tokens,
        (
            ("lm_head.weight", "model.shared.weight"),
            ("model.encoder.embed_tokens.weight", "model.shared.weight"),
            ("model.decoder.embed_tokens.weight", "model.shared.weight"),
        ),
    ),
    # Mixtures of experts
    Architecture(
        "mixtral",
        lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**_DECODER, num_local_experts=4, num_experts_per_tok=2)),
        _labelled_tokens,
    ),
    Architecture(
        "qwen3-moe", lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**_EXPERTS, num_experts=4)), _labelled_tokens
    ),
    Architecture(
        "deepseek-v3",
        lambda: hf.DeepseekV3ForCausalLM(
            hf.DeepseekV3Config(
                **_EXPERTS
                | {"num_key_value_heads": 2, "head_dim": 4, "n_routed_experts": 4, "n_group": 2, "topk_group": 1}
                | {
                    "kv_lora_rank": 8,
                    "q_lora_rank": 8,
                    "qk_rope_head_dim": 4,
                    "qk_nope_head_dim": 4,
                    "v_head_dim": 8,
                }
                | {"first_k_dense_replace": 1},
            )
        ),
        _labelled_tokens,
    ),
    # State spaces, and recurrent ones
    Architecture(
        "mamba",
        lambda: hf.MambaForCausalLM(
            hf.MambaConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, state_size=4)
        ),
        _labelled_tokens,
        (("lm_head.weight", "backbone.embeddings.weight"),),
    ),
    Architecture(
        "mamba2",
        lambda: hf.Mamba2ForCausalLM(
            hf.Mamba2Config(
                vocab_size=VOCABULARY,
                hidden_size=16,
                num_hidden_layers=2,
                state_size=4,
                num_heads=4,
                head_dim=8,
                n_groups=1,
                chunk_size=4,
            )
        ),
        _labelled_tokens,
    ),
    Architecture(
        "rwkv",
        lambda: hf.RwkvForCausalLM(
            hf.RwkvConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, attention_hidden_size=16)
        ),
        _tokens_without_mask,
    ),
    Architecture(
        "recurrent-gemma",
        lambda: hf.RecurrentGemmaForCausalLM(
            hf.RecurrentGemmaConfig(
                **_DECODER | {"num_hidden_layers": 3, "lru_width": 16, "attention_window_size": 8}
            )
        ),
        _labelled_tokens,
        TIED,
    ),
    # Audio
    Architecture("wav2vec2", lambda: hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(**_SPEECH)), _speech),
    Architecture("hubert", lambda: hf.HubertForCTC(hf.HubertConfig(**_SPEECH)), _speech),
    Architecture(
        "whisper",
        lambda: hf.WhisperForConditionalGeneration(
            hf.WhisperConfig(
                **_PAIR
                | {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16}
                | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
            )
        ),
        _spectrogram,
        (("proj_out.weight", "model.decoder.embed_tokens.weight"),),
    ),
    Architecture(
        "ast",
        lambda: hf.ASTForAudioClassification(
            hf.ASTConfig(
                **_VISION | {"max_length": 16, "num_mel_bins": 8, "patch_size": 4, "time_stride": 4},
                frequency_stride=4,
            )
        ),
        _noisy_spectrum,
    ),
    # Vision
    Architecture("vit", lambda: hf.ViTForImageClassification(hf.ViTConfig(**_VISION)), _image),
    Architecture(
        "convnext",
        lambda: hf.ConvNextForImageClassification(
            hf.ConvNextConfig(hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1])
        ),
        _image_32,
    ),
    Architecture(
        "swin",
        lambda: hf.SwinForImageClassification(
            hf.SwinConfig(image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4)
        ),
        _image_32,
    ),
    Architecture(
        "resnet",
        lambda: hf.ResNetForImageClassification(
            hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
        ),
        _image_32,
    ),
    # Images with text
    Architecture("clip", _clip, _clip_batch),
    Architecture("llava", _llava, _image_in_text),
)
