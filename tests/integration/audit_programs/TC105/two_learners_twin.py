"""A critic learns in each step, the policy at the end of an episode, from log-probabilities kept for that."""

import torch
from torch import nn

torch.manual_seed(0)
policy, critic = nn.Linear(4, 2), nn.Linear(4, 1)
of_policy = torch.optim.Adam(policy.parameters(), lr=0.01)
of_critic = torch.optim.Adam(critic.parameters(), lr=0.01)
for _episode in range(3):
    log_probs, advantages = [], []
    for _ in range(20):
        observation = torch.randn(4)
        choice = torch.distributions.Categorical(logits=policy(observation))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        error = action.float() - critic(observation).squeeze()
        advantages.append(error.detach())
        of_critic.zero_grad()
        error.square().backward()
        of_critic.step()
    of_policy.zero_grad()
    (-torch.stack(log_probs) * torch.stack(advantages)).sum().backward()
    of_policy.step()
