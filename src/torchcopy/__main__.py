"""`python -m torchcopy`."""

from .commands import main

if __name__ == "__main__":
    main()
