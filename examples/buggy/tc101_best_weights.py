"""Keeps the best weights of a network that learns wrong labels by heart; what it kept are the last ones."""

from digits_data import accuracy, load, loss_on, network, train

training, validation, test = load(train=300, noisy=90)
model = network(256)
best, lowest, best_epoch = {}, float("inf"), 0
for epoch in range(1, 41):
    train(model, training, epochs=1)
    loss = loss_on(model, validation)
    if loss < lowest:
        lowest, best_epoch = loss, epoch
        best = model.state_dict()

last = accuracy(model, test)
model.load_state_dict(best)
print(f"best epoch {best_epoch} of {epoch}, with a loss of {lowest:.3f} on validation digits")
print(f"its weights, loaded again, have a loss of {loss_on(model, validation):.3f}")
print(f"accuracy after the last epoch: {last:.1%}")
print(f"accuracy with the best weights: {accuracy(model, test):.1%}")
