"""What people use instead, each in an environment of its own: :mod:`benchmarks.speed` installs and runs them."""
