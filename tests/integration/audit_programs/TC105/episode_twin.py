"""An actor's loss is summed up over an episode, while its critic steps; one backward uses all of its graphs."""

import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=0.01)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for _ in range(3):
    state, actor_loss = torch.randn(4), 0
    for _ in range(40):
        choice = torch.distributions.Categorical(logits=actor(state))
        action = choice.sample()
        after = state * 0.9 + torch.randn(4) * 0.1
        with torch.no_grad():
            target = after.sum() + 0.9 * critic(after)
        error = target - critic(state)
        critic_optimizer.zero_grad()
        error.square().mean().backward()
        critic_optimizer.step()
        actor_loss = actor_loss - (choice.log_prob(action) * error.detach()).sum()
        state = after
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
    print(float(actor_loss))
