"""MEASURE: what every way to copy costs here, against the limit of the memory."""
