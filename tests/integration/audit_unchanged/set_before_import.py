"""What is set before torch is imported: it reads the environment then."""

import os
import sys

print("torch" in sys.modules, "numpy" in sys.modules)
os.environ["OMP_NUM_THREADS"] = "3"
os.environ["TORCH_WARN_ONCE"] = "1"
os.environ["ATEN_CPU_CAPABILITY"] = "default"

import torch  # noqa: E402
from audit_shown import show  # noqa: E402

print(torch.get_num_threads(), torch.backends.cpu.get_cpu_capability())
torch.manual_seed(0)
x = torch.randn(200_000)
show(total=x.sum(), softmax=x.softmax(0), product=torch.randn(64, 64) @ torch.randn(64, 64))
print(torch.__spec__.loader.exec_module.__qualname__, torch.__spec__.name, vars(torch.__spec__.loader))
