"""Names of cases that are the same in each process that runs a part of the tests."""


def without_address(value):
    """What a value shows of itself, but for where it lies in memory."""
    return str(value).partition(" at 0x")[0]
