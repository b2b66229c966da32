"""An excepthook of the program's own, which fails."""

import sys

import torch


def hook(kind, error, traceback):
    print("caught by the hook:", kind.__name__, error, traceback.tb_lineno, traceback.tb_next)
    print(sys.last_type is kind, sys.last_value is error)
    raise LookupError("the hook fails too")


sys.excepthook = hook
torch.linalg.cholesky(torch.zeros(2, 2))
