"""TorchScript, FX, `make_fx`, `torch.export` and fake tensors: they look at programs with modes of their own."""

import torch
from audit_shown import show
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

torch.manual_seed(0)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x):
        y = self.layer(x).relu()
        return y.clone() + y.detach()


model, x = Model(), torch.randn(4, 3)
print(torch.fx.symbolic_trace(model).code)
traced = make_fx(lambda t: (t * 2).clone().sum(), tracing_mode="symbolic")(x)
print(traced.code)
exported = torch.export.export(model, (x,))
print(exported.graph)
show(exported=exported.module()(x), traced=traced(x))
with FakeTensorMode() as mode:
    fake = torch.empty(3, 3)
    print(fake.clone().to(torch.float16), mode.from_tensor(x).shape)
scripted = torch.jit.trace(model, x, check_trace=False)
show(jit=scripted(x))
print(scripted.graph)
