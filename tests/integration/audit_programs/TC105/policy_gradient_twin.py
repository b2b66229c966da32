"""Log-probabilities of an episode are kept with their graphs until its end, then cleared."""

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        self.saved_log_probs, self.rewards = [], []

    def act(self, observation):
        choice = torch.distributions.Categorical(logits=self.net(observation))
        action = choice.sample()
        self.saved_log_probs.append(choice.log_prob(action))
        return action


torch.manual_seed(0)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for _episode in range(5):
    for _ in range(20):
        action = policy.act(torch.randn(4))
        policy.rewards.append(float(action))
    returns = torch.tensor(policy.rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.stack(policy.saved_log_probs) * returns).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    policy.saved_log_probs.clear()
    policy.rewards.clear()
