"""Cases as text: `.gqt` and `.pgt` files in, verdicts out; and the pytest collector that runs them."""
