"""`torch.compile` with the backends that run PyTorch's own kernels: regions, graph breaks, recompilations."""

import torch
from audit_shown import show, show_training

torch.manual_seed(0)
compilations = []


def counting(graph, examples):
    compilations.append(len(graph.graph.nodes))
    return graph.forward


for backend in ("eager", "aot_eager", counting):
    torch._dynamo.reset()
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend=backend)
    def forward(x, model=model):
        y = model(x)
        if y.sum() > 0:
            y = y * 2
        return y.clone().detach() + y

    for step in range(4):
        loss = forward(torch.randn(3 + step % 2, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
    show_training(model, optimizer)
    whole = torch.compile(torch.nn.Linear(3, 3), backend=backend, fullgraph=True)
    show(whole=whole(torch.ones(2, 3)))
print(compilations)
