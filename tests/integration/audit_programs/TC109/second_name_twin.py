"""A target network that is loaded with the online one's weights."""

import torch
from torch import nn


class Agent:
    def __init__(self):
        self.q_net = nn.Linear(4, 2)
        self.target_net = nn.Linear(4, 2)
        self.target_net.load_state_dict(self.q_net.state_dict())
        self.optimizer = torch.optim.SGD(self.q_net.parameters(), lr=0.05)

    def learn(self, state, reward, after):
        with torch.no_grad():
            goal = reward + 0.9 * self.target_net(after).max(1).values
        loss = nn.functional.mse_loss(self.q_net(state).max(1).values, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
agent = Agent()
for _ in range(6):
    agent.learn(torch.randn(8, 4), torch.ones(8), torch.randn(8, 4))
