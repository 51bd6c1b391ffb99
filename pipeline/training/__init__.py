"""One run: the only training loop, its folder, records and alarms; mixtures found from runs."""
