"""Hooks of modules, tensors, gradients, optimizers and states: each is called as often, in the same order."""

import torch
from audit_shown import show_training

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
first = model[0]
first.register_forward_pre_hook(lambda m, args: print("before forward", type(m).__name__, args[0].shape))
first.register_forward_hook(lambda m, args, out: out * 2)
first.register_full_backward_pre_hook(lambda m, grads: print("before backward", grads[0].sum().item()))
first.register_full_backward_hook(lambda m, inputs, outputs: print("backward", inputs[0] is None))
model.register_state_dict_pre_hook(lambda m, prefix, keep: print("before state_dict", repr(prefix), keep))
model.register_load_state_dict_post_hook(lambda m, keys: print("after load_state_dict", keys))
for name, p in model.named_parameters():
    p.register_hook(lambda g, name=name: print("gradient of", name) or g.clamp(-1, 1))
    p.register_post_accumulate_grad_hook(lambda p, name=name: print("accumulated", name, p.grad.norm().item()))
optimizer.register_step_pre_hook(lambda opt, args, kwargs: print("before step"))
optimizer.register_step_post_hook(lambda opt, args, kwargs: print("after step"))
everywhere = torch.nn.modules.module.register_module_forward_hook(lambda m, args, out: print(type(m).__name__))
for _ in range(3):
    x = torch.randn(2, 3, requires_grad=True)
    hidden = model[:2](x)
    handle = hidden.register_hook(lambda g: g * 0.5)
    node = hidden.grad_fn
    node.register_hook(lambda inputs, outputs: print("node", len(inputs), len(outputs)))
    node.register_prehook(lambda outputs: print("before node", len(outputs)))
    loss = model[2](hidden).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    handle.remove()
everywhere.remove()
model.load_state_dict(model.state_dict())
show_training(model, optimizer)
