"""How far jobs go: a model of stores, workers and hosts, and what is measured for it."""
