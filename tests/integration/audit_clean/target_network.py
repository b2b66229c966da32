"""Deep Q-learning: a replay memory written in place, a target network that is copied, and one that follows."""

import copy

import torch
from audit_shown import show, show_training

torch.manual_seed(0)


def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


policy = network()
target = network()
target.load_state_dict(policy.state_dict())
following = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=0.01, amsgrad=True)
memory = {"state": torch.zeros(64, 4), "next": torch.zeros(64, 4), "action": torch.zeros(64, dtype=torch.long)}
memory["reward"] = torch.zeros(64)
state = torch.randn(4)
for step in range(120):
    with torch.no_grad():
        action = policy(state).argmax() if torch.rand(()) > 0.3 else torch.randint(2, ())
    following_state = 0.9 * state + 0.3 * torch.randn(4) + action * 0.1
    slot = step % 64
    memory["state"][slot] = state
    memory["next"][slot] = following_state
    memory["action"][slot] = action
    memory["reward"][slot] = -following_state.square().sum()
    state = following_state
    if step < 16:
        continue
    batch = torch.randint(min(step, 64), (8,))
    value = policy(memory["state"][batch]).gather(1, memory["action"][batch, None]).squeeze(1)
    with torch.no_grad():
        upcoming = torch.minimum(target(memory["next"][batch]), following(memory["next"][batch])).max(1).values
    loss = torch.nn.functional.smooth_l1_loss(value, memory["reward"][batch] + 0.9 * upcoming)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 10)
    optimizer.step()
    if step % 20 == 0:
        target.load_state_dict(policy.state_dict())
    with torch.no_grad():
        for mine, its in zip(following.parameters(), policy.parameters(), strict=True):
            mine.mul_(0.99).add_(its, alpha=0.01)
    kept = policy.state_dict()
    soft = target.state_dict()
    for name in kept:
        soft[name] = kept[name] * 0.005 + soft[name] * 0.995
    target.load_state_dict(soft)
show(memory=memory, loss=loss)
show_training(policy, optimizer)
show_training(target)
show_training(following)
