"""What every stage stands on: files that appear whole, manifests, devices, processes, signals."""
