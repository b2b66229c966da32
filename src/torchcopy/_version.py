"""The version, for the build, the reports and `torchcopy.__version__`."""

__version__ = "0.1.0"
