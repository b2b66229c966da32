"""PPO: log-probabilities of an older policy are kept detached over several epochs of updates; numpy environment."""

import numpy as np
import torch
from audit_shown import show, show_training

torch.manual_seed(0)
random = np.random.default_rng(0)
actor = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
critic = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
both = torch.nn.ModuleList([actor, critic])
optimizer = torch.optim.Adam(both.parameters(), lr=0.01)
for _ in range(4):
    states, actions, old, rewards = torch.zeros(32, 3), torch.zeros(32, dtype=torch.long), torch.zeros(32), []
    state = random.normal(size=3).astype(np.float32)
    for step in range(32):
        states[step] = torch.from_numpy(state)
        with torch.no_grad():
            choice = torch.distributions.Categorical(logits=actor(states[step]))
            actions[step] = choice.sample()
            old[step] = choice.log_prob(actions[step])
        state = (state * 0.9 + random.normal(size=3) * 0.1 + actions[step].item() * 0.1).astype(np.float32)
        rewards.append(-float(np.square(state).sum()))
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    returns = (returns - returns.mean()) / returns.std()
    for _ in range(3):
        for batch in torch.randperm(32).split(16):
            choice = torch.distributions.Categorical(logits=actor(states[batch]))
            value = critic(states[batch]).squeeze(1)
            gain = (returns[batch] - value).detach()
            ratio = (choice.log_prob(actions[batch]) - old[batch]).exp()
            loss = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = loss + (value - returns[batch]).square().mean() - 0.01 * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(loss.item())
show(states=states, old=old)
show_training(both, optimizer)
