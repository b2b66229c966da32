"""Skip-gram with sparse gradients, and weights that are normalised in place between the steps."""

import torch
from audit_shown import show

torch.manual_seed(0)
inner = torch.nn.Embedding(50, 8, sparse=True)
outer = torch.nn.Embedding(50, 8, sparse=True, max_norm=2.0)
both = torch.nn.ModuleList([inner, outer])
optimizer = torch.optim.SparseAdam(both.parameters(), lr=0.05)
words = torch.randint(50, (400,))
for batch in torch.randperm(398).split(100):
    here, there, wrong = words[batch], words[batch + 1], torch.randint(50, (len(batch), 5))
    near = (inner(here) * outer(there)).sum(1)
    far = torch.einsum("nd,nkd->nk", inner(here), outer(wrong))
    loss = -(torch.nn.functional.logsigmoid(near).mean() + torch.nn.functional.logsigmoid(-far).mean())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        inner.weight.div_(inner.weight.norm(dim=1, keepdim=True).clamp(min=1))
    print(loss.item())
show(parameters=list(both.parameters()), optimizer=optimizer.state_dict())
