"""Every public operation at n, 3n, 9n and 27n rows -> its CPU seconds, its peak memory, and the exponent of its growth."""
