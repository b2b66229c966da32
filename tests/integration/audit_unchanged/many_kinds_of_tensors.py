"""Sparse, complex, quantised, nested, named, meta, strided, integer and boolean tensors; numpy and DLPack."""

import numpy as np
import torch
from audit_shown import show

torch.manual_seed(0)
dense = torch.randn(4, 4).relu_()
sparse = dense.to_sparse().requires_grad_()
(torch.sparse.mm(sparse, torch.ones(4, 2)).sum() * 2).backward()
show(sparse=sparse.grad.coalesce(), csr=dense.to_sparse_csr().values(), back=sparse.detach().to_dense())
z = torch.view_as_complex(torch.randn(3, 2)).requires_grad_()
(z.conj() * z).real.sum().backward()
show(complex=z.grad, conj=z.conj().resolve_conj(), imag=z.detach().conj().imag)
quantised = torch.quantize_per_tensor(dense, 0.1, 10, torch.quint8)
show(quantised=quantised.int_repr(), dequantised=quantised.clone().dequantize())
nested = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged)
show(nested=(nested * 2).clone().values(), offsets=nested.offsets())
padded = torch.nested.nested_tensor([torch.arange(2.0), torch.arange(3.0)]).to_padded_tensor(-1)
print(padded, torch.empty(2, device="meta").clone())
image = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last)
print(image.clone().stride(), image.contiguous().stride(), image.to(torch.half).stride())
for t in (torch.arange(5), torch.tensor([True, False]), torch.tensor(3), torch.empty(0, 3), dense.T[1:, ::2]):
    show(clone=t.clone(), converted=t.to(torch.float64), flat=t.reshape(-1), put=torch.empty_like(t).copy_(t))
array = np.arange(6.0).reshape(2, 3)
shared = torch.from_numpy(array)
array *= 2
shared[0] = torch.from_dlpack(array[1])
print(array, torch.asarray(array).data_ptr() == shared.data_ptr(), np.from_dlpack(shared))
print(shared.__array__().sum(), np.sin(shared), torch.frombuffer(bytearray(b"abcd"), dtype=torch.uint8))
weight = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
torch.nn.utils.parametrizations.spectral_norm(layer := torch.nn.Linear(2, 2))
show(weight=weight(torch.ones(1, 2)), spectral=layer(torch.ones(1, 2)), storage=dense.untyped_storage().tolist())
for dtype in (torch.bfloat16, torch.float16, torch.float8_e4m3fn):
    show(low=dense.to(dtype).float())
