"""A residual network in channels-last, with in-place activations, mixed samples and noise added in place."""

import torch
from audit_shown import show, show_training

torch.manual_seed(0)


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(width)
        self.second = torch.nn.Conv2d(width, width, 3, padding=1)
        self.relu = torch.nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.second(self.relu(self.norm(self.first(x))))
        out += x
        return self.relu(out)


model = (
    torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2), Block(8), torch.nn.MaxPool2d(2), Block(8), torch.nn.AdaptiveAvgPool2d(1)
    )
    .append(torch.nn.Flatten())
    .append(torch.nn.Linear(8, 4))
    .to(memory_format=torch.channels_last)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
images, labels = torch.randn(40, 3, 16, 16), torch.randint(4, (40,))
for batch in torch.randperm(40).repeat(2).split(8):
    x = images[batch].to(memory_format=torch.channels_last)
    x += torch.randn_like(x) * 0.1
    x.clamp_(-2, 2)
    order, share = torch.randperm(8), torch.rand(()).item()
    x = share * x + (1 - share) * x[order]
    out = model(x)
    loss = torch.nn.functional.cross_entropy(out, labels[batch]) * share
    loss = loss + torch.nn.functional.cross_entropy(out, labels[batch][order], label_smoothing=0.1) * (1 - share)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(loss.item())
model.eval()
with torch.inference_mode():
    show(out=model(images))
show_training(model, optimizer)
