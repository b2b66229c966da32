"""What every way to copy a PyTorch tensor or model does and costs, measured on your machine."""

__version__ = "0.1.0"
