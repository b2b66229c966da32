"""One kind of mistake a file: what is remembered while the program runs, and when it is a finding."""
