"""Every activation and loss, forwards and backwards: those that are made of others on some devices only too."""

import torch
from audit_shown import show

x = torch.randn(16, 33)
target = torch.randint(33, (16,))
functions = torch.nn.functional
names = (
    "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid log_softmax mish relu relu6 "
    "rrelu selu sigmoid silu softmax softmin softplus softshrink softsign tanh tanhshrink dropout alpha_dropout"
)
for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
    for name in names.split():
        with mode():
            t = x[:, :32].clone().requires_grad_(mode is torch.enable_grad)
            out = getattr(functions, name)(t)
            if mode is torch.enable_grad:
                out.backward(torch.ones_like(out) * 0.3)
        show(**{name: (out.detach().clone(), t.grad)})
for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "kl_div"):
    t = x.clone().requires_grad_()
    getattr(functions, name)(t, x.sigmoid(), reduction="sum").backward()
    show(**{name: t.grad})
for name in ("cross_entropy", "multi_margin_loss", "nll_loss"):
    t = x.clone().requires_grad_()
    getattr(functions, name)(t, target).backward()
    show(**{name: t.grad})
layers = [torch.nn.LayerNorm(33), torch.nn.RMSNorm(33), torch.nn.BatchNorm1d(33), torch.nn.GroupNorm(3, 33)]
layers += [torch.nn.GRU(33, 4), torch.nn.RNN(33, 4), torch.nn.LSTM(33, 4), torch.nn.Bilinear(33, 33, 2)]
for layer in layers:
    t = x.clone().requires_grad_()
    out = layer(t, t) if isinstance(layer, torch.nn.Bilinear) else layer(t)
    (out[0] if isinstance(out, tuple) else out).square().sum().backward()
    show(**{type(layer).__name__: (t.grad, list(layer.parameters()), [p.grad for p in layer.parameters()])})
