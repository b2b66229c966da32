"""A forked child that runs on to the end of the program, as its parent does."""

import os
import sys

import torch

t = torch.zeros(2)
sys.stdout.flush()
child = os.fork()
if child:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("parent", status, t)
else:
    t += 1
    print("child", t)
    sys.exit(5)
