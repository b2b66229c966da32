"""How a result is shown. Reporters read records and compute nothing."""
