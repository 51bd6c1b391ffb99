"""Public swarms: tables of proxy runs that others trained, by pinned revision and hash."""
